//! The domain of hapax, pure.
//!
//! A *key* names one intent of one *scope*; together with the *operation* they make a
//! [`RecordId`]. The intent's [`Fingerprint`] is compared on every attempt, [`decide()`] turns what
//! the store knows into one [`Decision`], and [`classify()`] turns what the service answered into
//! what is stored. Nothing here does I/O, reads a clock or knows async: time and randomness are
//! arguments, so the same code runs in the gateway, in the stores' conformance suite and in the
//! protocol's model.
#![forbid(unsafe_code)]

mod classify;
mod decide;
mod ending;
mod fingerprint;
mod form;
mod handle;
mod ids;
mod json;
mod key;
mod multipart;
mod observe;
mod path_pattern;
mod percent;
mod pointer;
mod policy;
mod problem;
mod proof;
mod record;
mod response;
mod scope;
mod state;
mod step;
mod time;
mod unprotected;
mod verdict;

pub use classify::{
    AnswerFacts, Classified, OutcomeRule, OutcomeRules, Said, Told, classify, classify_steps,
    classify_transaction, classify_unanswered, says_not_applied,
};
pub use decide::{Comparison, Decision, DecisionRules, decide};
pub use ending::{EndedBy, Ending, EndingKind, Until};
pub use fingerprint::{
    BodyForm, BodyInvalid, Fingerprint, FingerprintRules, FingerprintVersion, Fingerprinter,
    IntentParts, RulesError,
};
pub use handle::Handle;
pub use ids::{
    Attempt, ClaimNumber, EffectId, EffectSecret, Owner, PolicyDigest, RecordId, SecretError,
};
pub use json::{Json, JsonError, JsonFault, Members, Number};
pub use key::{BodyKeyError, FieldType, Key, KeyError, KeyPolicy, KeySyntax};
pub use multipart::MultipartFault;
pub use observe::{Observed, ObservedEnd, Would};
pub use path_pattern::{PathPattern, PathSegment};
pub use pointer::{Pointer, PointerError};
pub use policy::{
    InFlight, KeyRules, KeySource, Kind, Mode, OnUnknown, OperationName, OperationPolicy,
    PinnedPolicy, PolicyError, Retention, StoreDown,
};
pub use problem::{Problem, ProblemKind, Retry, retry_after_seconds};
pub use proof::Proof;
pub use record::{
    Admission, Advance, AdvanceReason, Found, NewClaim, OutcomeClass, OwnState, Ownership, Record,
    Seen, Settlement, WriteRefused,
};
pub use response::{HeadError, StoredResponse};
pub use scope::{Scope, ScopeError};
pub use state::{Event, IllegalTransition, State};
pub use step::{BeginStep, Progress, Step, StepData, StepEnd, StepName, StepNameError};
pub use time::StoreTime;
pub use unprotected::{Concluded, RunEnd, Unprotected};
pub use verdict::{
    AppliedOutcome, Closer, Evidence, Judgement, Ruling, Statement, Verdict, class_of_status,
    next_probe,
};
