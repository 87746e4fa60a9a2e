//! What became of an intent.

use std::fmt;

use bytes::Bytes;
use hapax_core::ProblemKind;
use http::{Response, Uri};

use crate::{intent::Intent, status::by_effect_id};

/// What became of an intent: one of three things, and it is always known which.
#[derive(Debug)]
pub enum Outcome {
    /// The service answered, and the answer stands. Its status may be any.
    Done(Done),
    /// It was refused or never arrived: nothing of it happened here. What an earlier operation with its
    /// key came to is another thing ([`Refusal::ended_before`]).
    Refused(Refused),
    /// It may have taken effect. Keep it, and find out later: [`Client::find_out`](crate::Client::find_out).
    Unknown(Operation),
}

/// An answer that stands.
#[derive(Debug)]
pub struct Done {
    /// The answer.
    pub response: Response<Bytes>,
    /// Whether it is the first answer, replayed: an earlier attempt had taken effect.
    pub replayed: bool,
    /// Whether its content was longer than the client keeps, and is cut.
    pub cut: bool,
    /// How often it was sent.
    pub sent: u32,
}

/// A refusal.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub why: Refusal,
    /// The answer that refused it, if there was one.
    pub response: Option<Response<Bytes>>,
    /// How often it was sent.
    pub sent: u32,
}

/// Why an intent was refused.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// A problem of hapax. Some say that an operation with this key ended before:
    /// [`ended_before`](Self::ended_before).
    Problem(ProblemKind),
    /// Not one byte of it left: what stood against it.
    NeverSent(String),
    /// The service says that nothing of it happened, and it was not sent again.
    NotApplied,
    /// Its key is about to be forgotten, so it was not sent.
    KeyEnds,
}

impl Refusal {
    /// Whether it says that an operation with this key ended before, so that its effect may be there:
    /// no reason to make a new intent of it.
    pub const fn ended_before(&self) -> bool {
        matches!(
            self,
            Self::Problem(
                ProblemKind::OutcomeNotKept
                    | ProblemKind::KeyExpired
                    | ProblemKind::ReplayForbidden
            )
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Problem(kind) => write!(f, "{}: {}", kind.name(), kind.title()),
            Self::NeverSent(why) => write!(f, "it was never sent: {why}"),
            Self::NotApplied => f.write_str("nothing of it happened, and it was not sent again"),
            Self::KeyEnds => f.write_str("its key is about to be forgotten by the service"),
        }
    }
}

/// An operation whose outcome is not known.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The intent, with its key: sent again, it never takes effect twice.
    pub intent: Intent,
    /// Where its status can be asked for, if the service named that.
    pub status: Option<Uri>,
    /// The last answer, such as a 500 that the service observed.
    pub evidence: Option<Response<Bytes>>,
    /// What was seen last, for a person.
    pub why: String,
    /// How often it was sent.
    pub sent: u32,
}

impl Operation {
    /// An operation of which only the intent is known, as after a restart.
    pub fn of(intent: Intent) -> Self {
        let why = "it may have been sent before".to_owned();
        Self { intent, status: None, evidence: None, why, sent: 0 }
    }

    /// With the effect id by which its status can be asked for, at the gateway that the intent goes to.
    #[must_use]
    pub fn with_effect_id(mut self, effect_id: &str) -> Self {
        self.status = by_effect_id(self.intent.uri(), effect_id);
        self
    }

    /// The effect id, as the address of the status has it.
    pub fn effect_id(&self) -> Option<&str> {
        let path = self.status.as_ref()?.path();
        path.rsplit_once("/operations/").map(|(_, id)| id)
    }
}
