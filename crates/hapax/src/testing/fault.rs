//! The disturbances, and where each strikes.

use std::fmt;

use crate::points::{Kind, Moment};

/// A point that an attempt passes: a step of the handler, or one of the engine's own.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Point {
    kind: Kind,
    name: Box<str>,
}

impl Point {
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        Self { kind, name: name.into() }
    }

    /// What it is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The step's name; of a point that is no step, its kind.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.name, self.kind.word()) {
            (name, word) if name == word => f.write_str(word),
            (name, word) => write!(f, "{name} ({word})"),
        }
    }
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Begin => "begin",
            Self::Service => "service",
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Call => "call",
            Self::Step => "step",
            Self::Finish => "finish",
            Self::Admit => "admit",
            Self::Handler => "handler",
            Self::Settle => "settle",
            Self::Commit => "commit",
        }
    }
}

/// What the harness does at a point.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Fault {
    /// The process dies before it.
    Before,
    /// The process dies when it is stored that the call begins, before the call.
    Begun,
    /// It is stored that the call begins, and the store's answer is lost.
    BegunLost,
    /// The process dies when it is done, before that is stored.
    After,
    /// The call is done, and who called gets an error.
    Lost,
    /// It is done, and stored where it is to be, and the handler gets an error all the same.
    Error,
    /// The process dies when it is stored what it came to.
    Stored,
    /// It is stored what it came to, and the store's answer is lost.
    StoredLost,
    /// The handler panics when it is done.
    Panic,
    /// The handler hangs past its limit when it is done.
    Hang,
    /// The same request comes again, several times at once, and another one under the same key.
    Repeat,
    /// The process stands still past its lease, another attempt goes on, and then it wakes up.
    Stall,
}

/// What that is to the one who passes.
pub(super) enum Does {
    Die,
    Lose,
    Doubt,
    Fail,
    Panic,
    Hang,
    Stay,
}

impl Fault {
    /// All of them, in the order in which a report shows them.
    pub const ALL: [Self; 12] = [
        Self::Before,
        Self::Begun,
        Self::BegunLost,
        Self::After,
        Self::Lost,
        Self::Error,
        Self::Stored,
        Self::StoredLost,
        Self::Panic,
        Self::Hang,
        Self::Repeat,
        Self::Stall,
    ];

    /// The moment at which it strikes a point of this kind, if it makes sense there.
    pub(super) const fn strikes(self, kind: Kind) -> Option<Moment> {
        use Kind::{
            Admit, Begin, Call, Claim, Commit, Finish, Handler, Idempotent, Pure, Service, Settle,
            Step,
        };
        match (self, kind) {
            (Self::Before, Handler) => None,
            (Self::Before, _) => Some(Moment::Before),
            (Self::Begun | Self::BegunLost, Call) => Some(Moment::Begun),
            (Self::Stored | Self::StoredLost, Call | Step | Claim | Admit | Settle | Commit) => {
                Some(Moment::Ended)
            }
            // While a transaction is open, nobody else gets as far as the record.
            (Self::Repeat, Claim | Step | Finish | Settle | Commit) => Some(Moment::Before),
            (Self::Repeat, Service | Pure | Idempotent | Call | Begin | Handler)
            | (Self::Stall, Service | Pure | Idempotent | Call)
            | (
                Self::Panic | Self::Hang,
                Service | Pure | Idempotent | Call | Step | Finish | Begin,
            )
            | (Self::After, Service | Pure | Idempotent | Call | Step | Finish | Begin | Handler)
            | (Self::Lost, Call)
            | (Self::Error, Pure | Idempotent | Handler) => Some(Moment::Acted),
            (Self::Error, Call | Step | Finish) => Some(Moment::Over),
            _ => None,
        }
    }

    pub(super) const fn does(self) -> Does {
        match self {
            Self::Before | Self::Begun | Self::After | Self::Stored => Does::Die,
            Self::BegunLost | Self::StoredLost => Does::Lose,
            Self::Lost => Does::Doubt,
            Self::Error => Does::Fail,
            Self::Panic => Does::Panic,
            Self::Hang => Does::Hang,
            Self::Repeat | Self::Stall => Does::Stay,
        }
    }

    /// Whether the caller is left without an answer.
    pub(super) const fn kills(self) -> bool {
        matches!(self.does(), Does::Die)
    }

    /// The column of a table.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Begun => "begun",
            Self::BegunLost => "begun-lost",
            Self::After => "after",
            Self::Lost => "lost",
            Self::Error => "error",
            Self::Stored => "stored",
            Self::StoredLost => "stored-lost",
            Self::Panic => "panic",
            Self::Hang => "hang",
            Self::Repeat => "repeat",
            Self::Stall => "stall",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "the process died before it",
            Self::Begun => "the process died when its beginning was stored",
            Self::BegunLost => "the store's answer to its beginning was lost",
            Self::After => "the process died when it was done and not yet stored",
            Self::Lost => "the answer of the call was lost",
            Self::Error => "the handler got an error when it was done",
            Self::Stored => "the process died when it was stored",
            Self::StoredLost => "the store's answer was lost when it was stored",
            Self::Panic => "the handler panicked when it was done",
            Self::Hang => "the handler hung past its limit when it was done",
            Self::Repeat => "copies of the request came while it was under way",
            Self::Stall => "the process stood still past its lease and woke up",
        })
    }
}
