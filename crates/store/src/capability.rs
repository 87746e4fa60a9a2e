//! The capabilities of a store, one small trait each.

use std::{pin::Pin, time::Duration};

use hapax_core::{
    Advance, BeginStep, ClaimNumber, DecisionRules, Fingerprint, Found, NewClaim, Observed,
    ObservedEnd, OperationName, Ownership, PolicyDigest, Record, RecordId, Retention, Seen,
    Settlement, State, Statement, Step, StepEnd, StepName, StoreTime, Would, WriteRefused,
};

use crate::{Reconcile, StoreError};

/// A store's answer under way. Dropping it does not undo or stop the write behind it.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// All capabilities: what the engine runs on.
pub trait Store:
    Claims
    + Owned
    + Steps
    + Reconcile
    + Lookup
    + Policies
    + Secrets
    + Sweep
    + Inspect
    + Observations
    + Standing
{
}

impl<S> Store for S where
    S: Claims
        + Owned
        + Steps
        + Reconcile
        + Lookup
        + Policies
        + Secrets
        + Sweep
        + Inspect
        + Observations
        + Standing
{
}

/// Taking a record.
///
/// Every method is atomic and durable when it answers, guarded by the node's mark, and may be
/// issued again with the same owner token after a lost answer: the second time it recognises its
/// own first and changes nothing (`protocol.md` 7, 17).
pub trait Claims: Send + Sync {
    /// Claims a record that nobody has: one atomic insert. Never a read followed by an insert.
    fn claim(&self, claim: NewClaim) -> Reply<'_, Claimed>;

    /// Claims many records in one write; answers in their order. Each is a claim of its own: one
    /// that somebody has takes nothing from the others.
    fn claim_all(&self, claims: Vec<NewClaim>) -> Reply<'_, Vec<Claimed>>;

    /// Moves a record to its next attempt, if it still is as it was seen.
    fn advance(&self, advance: Advance) -> Reply<'_, Claimed>;

    /// Makes an executing record whose lease is over uncertain, if it still is as it was seen.
    /// Answers with the record as it is now in either case.
    fn doubt(&self, id: RecordId, seen: Seen) -> Reply<'_, Option<Found>>;
}

/// What an attempt to take a record came to.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // the large one is the usual one, and moved twice
pub enum Claimed {
    /// It is ours: the present attempt carries our owner token.
    Ours(Box<Record>),
    /// It is somebody's; this is what the authoritative store knows.
    Theirs(Box<Found>),
    /// It was not ours, and then it was not there: claim again, bounded (`protocol.md` 22).
    Gone,
}

/// What an owner does with a record; every write matches (id, attempt, owner).
pub trait Owned: Send + Sync {
    /// Admits the effect: from here on it may exist. Guarded by the mark like a claim.
    fn admit(
        &self,
        by: Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
    ) -> Reply<'_, Written>;

    /// Extends the lease while the execution lives.
    fn renew(&self, by: Ownership, lease: Duration) -> Reply<'_, Written>;

    /// Ends the attempt, or makes it uncertain.
    fn settle(&self, by: Ownership, settlement: Settlement) -> Reply<'_, Written>;
}

/// The steps of an execution, each durable on its own.
///
/// Like every write after the claim they match (id, attempt, owner), extend the lease, and may be
/// issued again after a lost answer.
pub trait Steps: Send + Sync {
    /// Begins a step: from here on it may have happened. The first one admits the execution, so
    /// this is guarded by the mark like an admission.
    ///
    /// A step in doubt can be begun again where its permission lasts; no other one can be begun
    /// beside it.
    fn begin_step(&self, by: Ownership, step: BeginStep, lease: Duration) -> Reply<'_, Written>;

    /// Ends the step that was begun.
    fn end_step(
        &self,
        by: Ownership,
        step: StepName,
        end: StepEnd,
        lease: Duration,
    ) -> Reply<'_, Written>;

    /// The steps of a record, in the order in which they were first begun. They are gone when the
    /// record is released or its outcome's retention is over.
    fn steps(&self, claim: ClaimNumber) -> Reply<'_, Vec<Step>>;
}

/// What an owner's write came to.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // the large one is the usual one, and moved twice
pub enum Written {
    /// It is durable; this is the record now.
    Done(Box<Record>),
    /// It touched no row; this is what is there.
    Refused {
        /// Why.
        why: WriteRefused,
        /// The record as the authoritative store has it.
        found: Box<Found>,
    },
    /// There is no such record: the store has lost history, this is not a fence
    /// (`protocol.md` 6).
    Missing,
}

/// Reading without claiming; may be stale, so it is good for replays, in-flight and unknown only
/// (`protocol.md` 21).
pub trait Lookup: Send + Sync {
    /// The record with its response, if it is there.
    fn find(&self, id: RecordId) -> Reply<'_, Option<Found>>;
}

/// The texts of the policies that records are judged by.
pub trait Policies: Send + Sync {
    /// Stores a policy's canonical text; called before its digest is first used. Idempotent.
    fn remember_policy(
        &self,
        digest: PolicyDigest,
        operation: OperationName,
        text: String,
    ) -> Reply<'_, ()>;

    /// The text of a digest, if it is there.
    fn policy(&self, digest: PolicyDigest) -> Reply<'_, Option<String>>;
}

/// The fingerprints of effect secrets, so that a node with another secret does not start.
pub trait Secrets: Send + Sync {
    /// The fingerprint stored for a version.
    fn pinned_secret(&self, version: u32) -> Reply<'_, Option<[u8; 16]>>;

    /// Stores the fingerprint of a version, or compares it with the stored one.
    fn pin_secret(&self, version: u32, fingerprint: [u8; 16]) -> Reply<'_, SecretPin>;
}

/// How a secret compares with the stored fingerprint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecretPin {
    /// It is the one, or is from now on.
    Same,
    /// Another secret made the store's effect ids.
    Different,
}

/// Forgetting what is over.
pub trait Sweep: Send + Sync {
    /// Drops bodies and steps whose outcome's retention is over and purges records (with all that
    /// belongs to them, in one transaction) whose tombstone is over, at most `limit` of each. Only
    /// what the store's clock and `own_clock` both call over is touched (`protocol.md` 23).
    fn sweep(&self, own_clock: StoreTime, limit: usize) -> Reply<'_, Swept>;
}

/// What one step of a sweep did. Less than the limit does not mean that nothing is left.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Swept {
    /// Outcomes whose body and steps were dropped: their records are tombstones now.
    pub bodies: usize,
    /// Records purged: their keys are new from now on.
    pub purged: usize,
}

/// Looking at records, for operators.
pub trait Inspect: Send + Sync {
    /// Records that match, newest claim first.
    fn list(&self, filter: ListFilter) -> Reply<'_, Vec<Listed>>;

    /// Every operation that a policy was stored for, in the order of their names.
    fn operations(&self) -> Reply<'_, Vec<OperationName>>;

    /// What happened to a record beside its plain course, oldest first.
    fn history(&self, claim: ClaimNumber) -> Reply<'_, Vec<HistoryEntry>>;
}

/// Which records to list.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ListFilter {
    /// Only this record.
    pub id: Option<RecordId>,
    /// Only of this operation.
    pub operation: Option<OperationName>,
    /// Only in this state, at the store's present time.
    pub state: Option<State>,
    /// Only claims before this one: the last of the page before.
    pub before: Option<ClaimNumber>,
    /// At most this many.
    pub limit: usize,
}

/// A listed record.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// The operation, from the policy it was admitted under.
    pub operation: Option<OperationName>,
    /// The record.
    pub record: Record,
    /// Its state at the store's present time.
    pub state: State,
    /// The size of the stored or observed body, in bytes, if there is one.
    pub body_bytes: Option<u64>,
}

/// One entry of a record's history: takeovers, doubts, releases, fences.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryEntry {
    /// When, on the store's clock.
    pub at: StoreTime,
    /// The attempt it is about.
    pub attempt: hapax_core::Attempt,
    /// What happened, one of a small set of words. Of the attempt that ended: `superseded` by a
    /// takeover or a resend, `released`, `settled-late` (an outcome of an uncertain attempt),
    /// `judged-applied` and `judged-not-applied` (by evidence). Of the present attempt: `uncertain`
    /// (once, whoever says it), `resent` (it is the resend), `resumed` (it goes on after the last
    /// step), `closing` (it executes nothing and closes the earlier ones), `probed-not-seen` and
    /// `probed-unknown` (when it is not what was learned the time before), `ran-unprotected` (it, or
    /// something beside it, ran while the store was not available).
    pub what: String,
    /// Who says so and why, of what somebody decided or looked up.
    pub statement: Option<Statement>,
}

/// Observe mode's memory, apart from records that enforcing uses.
pub trait Observations: Send + Sync {
    /// Notes an arrival and says what enforcing would have done.
    fn arrive(&self, observation: Observation) -> Reply<'_, Would>;

    /// Notes how the attempt that enforcing would have let through ended.
    fn finish(&self, id: RecordId, end: ObservedEnd) -> Reply<'_, ()>;

    /// What was observed, last arrival first.
    fn observed(&self, limit: usize) -> Reply<'_, Vec<Observed>>;
}

/// An arrival in observe mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The identity that a record would have, or that of the unkeyed intent.
    pub id: RecordId,
    /// The operation.
    pub operation: OperationName,
    /// Whether it carried a key.
    pub keyed: bool,
    /// The intent.
    pub fingerprint: Fingerprint,
    /// How long it may be under way.
    pub timeout: Duration,
    /// What would govern an unknown outcome.
    pub rules: DecisionRules,
    /// How long outcomes would be remembered; also how long the observation is.
    pub retention: Retention,
}

/// Whether the store is the one this node knows.
pub trait Standing: Send + Sync {
    /// Advances this node's mark: an idle node does so every second, so that a store that went
    /// back in time is noticed. Also proves that the store writes.
    fn beat(&self) -> Reply<'_, ()>;

    /// The present standing, without I/O.
    fn standing(&self) -> StandingState;

    /// Notes that the store lost history in a way that only its user can see: a record that was
    /// acknowledged is gone. From here on it is [`Regressed`](StandingState::Regressed), until a
    /// restart.
    fn distrust(&self, reason: String);
}

/// The standing of a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StandingState {
    /// The last write succeeded.
    Ready,
    /// The last write failed; the next may succeed.
    Failing {
        /// Why, for the operator.
        reason: String,
    },
    /// The store lost history or is another one: nothing is claimed until a restart.
    Regressed {
        /// What was noticed, for the operator.
        reason: String,
    },
}
