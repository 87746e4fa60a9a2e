//! The capability of finding out what uncertain records came to.

use std::time::Duration;

use hapax_core::{
    Evidence, Found, Judgement, OperationName, Owner, Ownership, Proof, Statement, StoreTime,
    Unprotected,
};

use crate::{Reply, Written};

/// Finding out what uncertain records came to.
///
/// Who looks into a record holds it meanwhile, by a token and a lease of its own beside the
/// record's: the record's owner stays who it is, and a truthful settle of it is still welcome
/// (`protocol.md` 4, 6).
pub trait Reconcile: Send + Sync {
    /// Makes executing records whose lease is over uncertain, whichever operation they are of.
    /// Looks at a bounded part of the store and remembers how far it came.
    fn doubt_abandoned(&self, limit: usize) -> Reply<'_, Doubted>;

    /// Takes uncertain records that are due and that nobody holds, the longest due first.
    fn take_due(&self, take: TakeDue) -> Reply<'_, Vec<Due>>;

    /// Lets go of a record that stays uncertain, until it is due again. `false`: it is not held by
    /// this token any more, or has moved on; nothing is changed.
    fn put_off(&self, put_off: PutOff) -> Reply<'_, bool>;

    /// Ends the attempt of an uncertain record by what is certain now, if it still is the one that
    /// the evidence was about and, where it is held by `holder`, is so still.
    fn judge(&self, judgement: Judgement, holder: Option<Owner>) -> Reply<'_, Written>;

    /// Settles a record that was freed, and that nobody has claimed since, by proof that the effect
    /// exists. Where it is too late for that, the proof is noted beside what the record denies, and
    /// refused. Issued again after a lost answer, it recognises itself.
    fn prove(&self, proof: Proof) -> Reply<'_, Written>;

    /// Moves an uncertain record to an attempt that closes the earlier ones, owned by `closing`.
    /// Guarded by the mark like a claim. Issued again after a lost answer, it recognises itself.
    fn close_earlier(
        &self,
        of: Ownership,
        closing: Owner,
        statement: Statement,
    ) -> Reply<'_, Written>;

    /// Brings in what ran without a record while the store was not available, under way or ended,
    /// in one transaction. Brought in again, it changes nothing. An outcome that the store knows of
    /// the key stands, and that it ran is noted beside it; where the store knows none, the success
    /// of a run is the outcome.
    fn bring_in(&self, unprotected: Unprotected) -> Reply<'_, BroughtIn>;

    /// What is uncertain, by operation.
    fn doubts(&self) -> Reply<'_, Vec<Doubts>>;
}

/// What became of an execution without a record.
#[derive(Clone, Debug, PartialEq)]
pub enum BroughtIn {
    /// It has a record now.
    Recorded,
    /// It had one already, since it was brought in before.
    Again,
    /// The key had a record of something else: it may have happened twice.
    Beside {
        /// The record, as it is now.
        found: Box<Found>,
    },
    /// Another attempt executes under its key, and it succeeded: bring it in again once that has
    /// ended.
    Later,
}

/// What a look for abandoned executions came to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Doubted {
    /// How many records became uncertain.
    pub records: usize,
    /// Whether there is more to look at.
    pub more: bool,
}

/// Which due records are taken, and by whom.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TakeDue {
    /// A token of the taking alone.
    pub holder: Owner,
    /// How long they are held without a sign of the holder.
    pub lease: Duration,
    /// Only records of these operations.
    pub operations: Vec<OperationName>,
    /// At most this many.
    pub limit: usize,
}

/// An uncertain record that was taken because it is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Due {
    /// The record.
    pub found: Found,
    /// The operation, from the policy it was admitted under.
    pub operation: OperationName,
    /// How often it was looked into without a result since it became uncertain.
    pub probes: u32,
}

/// A record that stays uncertain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PutOff {
    /// The ownership that was looked into.
    pub of: Ownership,
    /// The token it was taken with.
    pub holder: Owner,
    /// When it is due again.
    pub after: Duration,
    /// What was learned. The history keeps it when it is not what it was the time before.
    pub evidence: Evidence,
    /// Who looked, and what was seen.
    pub statement: Statement,
}

/// What is uncertain of an operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Doubts {
    /// The operation; `None` for records under a policy whose text is not there.
    pub operation: Option<OperationName>,
    /// For each uncertain record since when an effect of it may exist.
    pub since: Vec<StoreTime>,
    /// The store's time of the reading.
    pub now: StoreTime,
}

/// The word of evidence in a record's history.
pub const fn evidence_word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::NotSeenYet => "probed-not-seen",
        Evidence::Unknown => "probed-unknown",
    }
}
