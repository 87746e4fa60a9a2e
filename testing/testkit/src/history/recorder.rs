//! Notes what clients do and what they are told.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;

use super::{Call, Told};
use crate::{
    Answer, Request,
    client::{Pending, start},
    fresh_key,
};

/// A payment under a key; its content names its intent.
#[derive(Clone, Debug)]
pub struct Payment {
    key: String,
    intent: String,
    request: Request,
}

impl Payment {
    /// A payment under a key that nobody has used.
    pub fn new(intent: &str) -> Self {
        Self::under(&fresh_key(), intent)
    }

    /// Another intent under a key.
    pub fn under(key: &str, intent: &str) -> Self {
        let content = format!(r#"{{"amount":1200,"currency":"EUR","intent":"{intent}"}}"#);
        let request = Request::payment(key).json(&content);
        Self { key: key.to_owned(), intent: intent.to_owned(), request }
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Tells the service what to do with it (see `ledger`); no part of the intent.
    #[must_use]
    pub fn act(mut self, script: &str) -> Self {
        self.request = self.request.act(script);
        self
    }

    /// The request itself.
    pub const fn request(&self) -> &Request {
        &self.request
    }
}

/// Notes every call. Clones note in one place.
#[derive(Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<Call>>>);

impl Recorder {
    /// Begins a call.
    pub fn start(&self, to: SocketAddr, payment: &Payment) -> Calling {
        let mut calls = self.0.lock();
        let index = calls.len();
        calls.push(Call {
            n: index as u64 + 1,
            key: payment.key.clone(),
            intent: payment.intent.clone(),
            began: now(),
            told: None,
        });
        drop(calls);
        Calling { pending: start(to, &payment.request), recorder: self.clone(), index }
    }

    /// Makes a call; what broke if there was no whole answer.
    ///
    /// # Errors
    /// What broke: whatever the request may have done is possible.
    pub fn send(&self, to: SocketAddr, payment: &Payment) -> Result<Answer, String> {
        self.start(to, payment).result()
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.0.lock().clone()
    }
}

/// A call under way. Dropped, it has no answer.
pub struct Calling {
    pending: Pending,
    recorder: Recorder,
    index: usize,
}

impl Calling {
    /// Waits for the answer.
    ///
    /// # Errors
    /// What broke: whatever the request may have done is possible.
    pub fn result(self) -> Result<Answer, String> {
        let answer = self.pending.result()?;
        if !answer.complete {
            return Err("the answer broke off".to_owned());
        }
        self.recorder.0.lock()[self.index].told = Some(Told {
            at: now(),
            status: answer.status,
            problem: answer.problem(),
            outcome: answer.field("hapax-outcome"),
            replayed: answer.is_replay(),
            kept: answer.field("idempotency-expires").is_some(),
            body: answer.text(),
        });
        Ok(answer)
    }

    /// Waits for the answer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn answer(self) -> Answer {
        self.result().unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.pending.is_done()
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("a moment")
}
