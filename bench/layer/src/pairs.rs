//! Pairs of calls, one with the layer and one without, so that what disturbs one disturbs both.

use std::time::Duration;

use axum::{Router, body::Body};
use http::Request;
use serde_json::{Value, json};

use crate::{
    exchange::{Exchange, Expected, fresh_keys},
    service::Way,
};

/// What was timed of one kind of call, in nanoseconds.
#[derive(Default)]
struct Timed {
    bare: Vec<i64>,
    layered: Vec<i64>,
    /// Of each pair, what the layer took longer.
    overhead: Vec<i64>,
}

/// Times first executions and replays of every way.
pub(crate) async fn measure(calls: usize, rounds: usize) -> Value {
    let kinds = Way::PROTECTED.map(|way| (way, Timed::default(), Timed::default()));
    let (mut kinds, exchange) = (kinds, Exchange::new());
    for _ in 0..rounds {
        for (way, first, replay) in &mut kinds {
            let (mut bare, mut layered) = (Way::Bare.service(), way.service());
            let keys = fresh_keys(calls);
            // What is done once is no part of it: the policy's text is stored, the code is warm.
            for key in fresh_keys(calls / 10 + 1) {
                exchange.call(&mut bare, exchange.request(&key)).await;
                exchange.call(&mut layered, exchange.request(&key)).await;
            }
            first.pairs(&exchange, &keys, Expected::Fresh, &mut bare, &mut layered).await;
            replay.pairs(&exchange, &keys, Expected::Replayed, &mut bare, &mut layered).await;
        }
    }
    let kinds = kinds.map(|(way, first, replay)| {
        json!({"way": way.name(), "first": first.into_json(), "replay": replay.into_json()})
    });
    json!(kinds)
}

impl Timed {
    async fn pairs(
        &mut self,
        exchange: &Exchange,
        keys: &[String],
        expected: Expected,
        bare: &mut Router,
        layered: &mut Router,
    ) {
        for (at, key) in keys.iter().enumerate() {
            let requests = (exchange.request(key), exchange.request(key));
            // Neither is always the one that finds the caches warm.
            let (without, with) = if at % 2 == 0 {
                let without = time(exchange, bare, requests.0, Expected::Fresh).await;
                (without, time(exchange, layered, requests.1, expected).await)
            } else {
                let with = time(exchange, layered, requests.1, expected).await;
                (time(exchange, bare, requests.0, Expected::Fresh).await, with)
            };
            self.bare.push(without);
            self.layered.push(with);
            self.overhead.push(with - without);
        }
    }

    fn into_json(mut self) -> Value {
        let of = |sorted: &mut Vec<i64>| {
            sorted.sort_unstable();
            json!({"min": at(sorted, 0), "median": at(sorted, 50), "p95": at(sorted, 95)})
        };
        json!({
            "bare_ns": of(&mut self.bare),
            "layered_ns": of(&mut self.layered),
            "overhead_ns": of(&mut self.overhead),
        })
    }
}

async fn time(
    exchange: &Exchange,
    service: &mut Router,
    request: Request<Body>,
    expected: Expected,
) -> i64 {
    let begun = now();
    let answer = exchange.call(service, request).await;
    let took = begun.elapsed();
    expected.check(&answer);
    nanos(took)
}

fn nanos(took: Duration) -> i64 {
    i64::try_from(took.as_nanos()).unwrap_or(i64::MAX)
}

fn at(sorted: &[i64], percent: usize) -> i64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).copied().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
