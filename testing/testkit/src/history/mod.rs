//! What clients were told, what the service did, and what is recorded: a history, and its judge.
//!
//! A [`Recorder`] notes every call of a client. With the logs of the service and the records it
//! makes a [`History`], which is data alone, and [`History::findings`] judges it. A call without an
//! answer is neither a success nor a failure: whatever it may have done is possible.

mod check;
mod gather;
mod recorder;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::{
    check::{Finding, Rule},
    gather::records,
    recorder::{Calling, Payment, Recorder},
};

/// A run, as far as anybody outside can know it. Moments are microseconds since 1970.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct History {
    /// Whether an intent takes effect once at most, whatever its callers do.
    pub one_effect: bool,
    /// Whether an attempt whose outcome is unknown may be sent again.
    pub resends: bool,
    /// What clients did and were told.
    pub calls: Vec<Call>,
    /// What arrived at the service.
    pub arrivals: Vec<Arrived>,
    /// What it did.
    pub effects: Vec<Made>,
    /// What was recorded at the end.
    pub records: Vec<Recorded>,
}

/// A request of a client, and what came of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Call {
    /// Its number, from 1, in the order in which they began.
    pub n: u64,
    /// The key.
    pub key: String,
    /// The intent. Of two under one key, one has to be refused.
    pub intent: String,
    /// When it began.
    pub began: u64,
    /// How and when it ended; `None` without an answer, which says nothing about the effect.
    pub told: Option<Told>,
}

/// An answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Told {
    /// When it was there.
    pub at: u64,
    /// The status.
    pub status: u16,
    /// The problem, if it is one of hapax's own.
    pub problem: Option<String>,
    /// `Hapax-Outcome`.
    pub outcome: Option<String>,
    /// Whether it says that it is a replay.
    pub replayed: bool,
    /// Whether it says until when it is kept.
    pub kept: bool,
    /// The body.
    pub body: String,
}

/// A request that arrived at the service.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Arrived {
    /// Its number, from 1.
    pub n: u64,
    /// When.
    pub at: u64,
    /// The effect id it carried.
    pub effect_id: String,
    /// The attempt it carried.
    pub attempt: u64,
    /// The intent that its content names.
    pub intent: String,
    /// What it asked for.
    pub content: String,
}

/// An effect that the service made.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Made {
    /// Its number, from 1: `pay_N` in answers.
    pub n: u64,
    /// When.
    pub at: u64,
    /// The arrival that made it.
    pub arrival: u64,
}

/// A record, as it was at the end.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Recorded {
    /// The effect id.
    pub effect_id: String,
    /// The word of its state.
    pub state: String,
    /// The policy it was admitted under: `hold`, `probe` or `resend`.
    pub on_unknown: String,
    /// What happened beside its plain course, in order.
    pub entries: Vec<Entry>,
}

/// An entry of a record's history.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Entry {
    /// The attempt it is about.
    pub attempt: u64,
    /// What happened.
    pub what: String,
}
