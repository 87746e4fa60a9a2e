//! What rules begin with, and the words in which they say what a store has to answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{
    Admission, Advance, AdvanceReason, BeginStep, ClaimNumber, DecisionRules, Fingerprint,
    FingerprintVersion, Found, NewClaim, OnUnknown, OperationName, OutcomeClass, Owner,
    PolicyDigest, Record, RecordId, Retention, Settlement, State, Step, StepData, StepEnd,
    StepName, StoredResponse, WriteRefused,
};

use super::Harness;
use crate::{Claimed, ListFilter, Listed, Observation, Store, StoreError, Written};

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
pub(super) const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
pub(super) const A_MICROSECOND: Duration = Duration::from_micros(1);

/// Outcomes for an hour, tombstones for a day.
pub(super) const RETENTION: Retention = Retention { outcome: HOUR, tombstone: DAY };

pub(super) const OPERATION: &str = "conformance.act";
const POLICY: &str = "{\"the policy\":\"of the conformance suite\"}";

/// The first node, which has stored the policy that [`a_claim`] names.
pub(super) async fn first_node<H: Harness>(harness: &H) -> Arc<dyn Store> {
    let node = harness.node();
    remember(&node, OPERATION, POLICY).await;
    node
}

/// Both nodes of a store, the first one first.
pub(super) async fn two_nodes<H: Harness>(harness: &mut H) -> [Arc<dyn Store>; 2] {
    let second = harness.second_node().await;
    [first_node(harness).await, second]
}

pub(super) async fn remember(node: &Arc<dyn Store>, operation: &str, text: &str) -> PolicyDigest {
    let digest = PolicyDigest::of(text);
    let remembered = node.remember_policy(digest, operation_name(operation), text.to_owned());
    remembered.await.expect("a policy is stored");
    digest
}

pub(super) fn operation_name(name: &str) -> OperationName {
    OperationName::new(name).expect("a valid name")
}

/// A claim of a new record that is an admission too.
pub(super) fn a_claim() -> NewClaim {
    NewClaim {
        id: an_id(),
        owner: an_owner(),
        fingerprint: intent(1),
        policy: PolicyDigest::of(POLICY),
        lease: LEASE,
        admission: Admission::WithClaim,
        secret_version: 1,
    }
}

/// A claim of a new record that leaves admission for later.
pub(super) fn a_bare_claim() -> NewClaim {
    NewClaim { admission: Admission::Separate, ..a_claim() }
}

/// A claim of a new record that its first step admits.
pub(super) fn a_stepped_claim() -> NewClaim {
    NewClaim { admission: Admission::BySteps, ..a_claim() }
}

/// The same claim by somebody else.
pub(super) fn by_another(claim: &NewClaim) -> NewClaim {
    NewClaim { owner: an_owner(), ..claim.clone() }
}

/// A first claim of a key that has a record, by somebody new with the same intent.
pub(super) fn a_claim_of(record: &Record) -> NewClaim {
    NewClaim { id: record.id, fingerprint: record.fingerprint, policy: record.policy, ..a_claim() }
}

/// The next attempt at a record as it was seen, by a new owner, admitted, with the same intent.
pub(super) fn next(seen: &Record, reason: AdvanceReason) -> Advance {
    Advance { seen: seen.seen(), reason, claim: a_claim_of(seen) }
}

/// The next attempt at a record as it was seen, by a new owner, admitted by its first step.
pub(super) fn next_by_steps(seen: &Record, reason: AdvanceReason) -> Advance {
    let claim = NewClaim { admission: Admission::BySteps, ..a_claim_of(seen) };
    Advance { seen: seen.seen(), reason, claim }
}

pub(super) fn intent(number: u8) -> Fingerprint {
    Fingerprint::new(FingerprintVersion::from_bytes([1; 16]), [number; 32])
}

pub(super) fn an_id() -> RecordId {
    RecordId::from_bytes(unique(0x5a))
}

pub(super) fn an_owner() -> Owner {
    Owner::from_bytes(unique(0xc3))
}

/// Bytes that no other call gave, spread over the first ones as those of a digest are.
fn unique<const N: usize>(fill: u8) -> [u8; N] {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut bytes = [fill; N];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes
}

pub(super) fn an_answer() -> StoredResponse {
    StoredResponse {
        status: 201,
        headers: vec![(Bytes::from_static(b"location"), Bytes::from_static(b"/things/1"))],
        body: Bytes::from_static(b"{\"id\":1}"),
    }
}

pub(super) fn success() -> Settlement {
    outcome(OutcomeClass::Succeeded, Some(an_answer()))
}

pub(super) fn failure() -> Settlement {
    let answer = StoredResponse { status: 409, ..an_answer() };
    outcome(OutcomeClass::FailedTerminal, Some(answer))
}

pub(super) fn outcome(class: OutcomeClass, response: Option<StoredResponse>) -> Settlement {
    let status = response.as_ref().map_or(200, |response| response.status);
    Settlement::Outcome { class, status, response, retention: RETENTION }
}

/// Nothing happened by this attempt.
pub(super) const NOT_APPLIED: Settlement =
    Settlement::NotApplied { every_attempt: false, retention: RETENTION };

/// Nothing happened by any attempt, as the service says.
pub(super) const NEVER_APPLIED: Settlement =
    Settlement::NotApplied { every_attempt: true, retention: RETENTION };

pub(super) const UNKNOWN: Settlement = Settlement::Unknown { observed: None };

/// Every settlement there is.
pub(super) fn settlements() -> [Settlement; 5] {
    [success(), failure(), NOT_APPLIED, NEVER_APPLIED, UNKNOWN]
}

/// A permission to resend that lasts.
pub(super) fn resend(seen: &Found) -> AdvanceReason {
    AdvanceReason::Resend { before: seen.now.after(HOUR) }
}

pub(super) async fn claimed(node: &Arc<dyn Store>) -> Record {
    node.claim(a_bare_claim()).await.ours()
}

pub(super) async fn executing(node: &Arc<dyn Store>) -> Record {
    node.claim(a_claim()).await.ours()
}

pub(super) async fn uncertain(node: &Arc<dyn Store>) -> Record {
    settled(node, UNKNOWN).await
}

pub(super) async fn released(node: &Arc<dyn Store>) -> Record {
    settled(node, NOT_APPLIED).await
}

pub(super) async fn succeeded(node: &Arc<dyn Store>) -> Record {
    settled(node, success()).await
}

pub(super) async fn settled(node: &Arc<dyn Store>, settlement: Settlement) -> Record {
    let record = executing(node).await;
    node.settle(record.ownership(), settlement).await.done()
}

/// A record in each state that a store can hold, tombstones aside.
pub(super) async fn one_of_each_state(node: &Arc<dyn Store>) -> Vec<(State, Record)> {
    vec![
        (State::Claimed, claimed(node).await),
        (State::Executing, executing(node).await),
        (State::Released, released(node).await),
        (State::Succeeded, succeeded(node).await),
        (State::FailedTerminal, settled(node, failure()).await),
        (State::Uncertain, uncertain(node).await),
    ]
}

pub(super) fn step_name(name: &str) -> StepName {
    StepName::new(name).expect("a valid name")
}

/// A step that may not be done again while its outcome is unknown.
pub(super) fn once(name: &str) -> BeginStep {
    BeginStep { name: step_name(name), resend_for: None }
}

/// A step that may be done again for an hour.
pub(super) fn for_an_hour(name: &str) -> BeginStep {
    BeginStep { resend_for: Some(HOUR), ..once(name) }
}

/// What a step came to: something that depends on its name.
pub(super) fn data_of(name: &str) -> StepData {
    StepData { version: 7, bytes: Bytes::copy_from_slice(name.as_bytes()) }
}

pub(super) fn done_with(name: &str) -> StepEnd {
    StepEnd::Done(data_of(name))
}

pub(super) async fn begun(node: &Arc<dyn Store>, record: &Record, step: BeginStep) -> Record {
    node.begin_step(record.ownership(), step, LEASE).await.done()
}

pub(super) async fn ended(node: &Arc<dyn Store>, record: &Record, name: &str) -> Record {
    node.end_step(record.ownership(), step_name(name), done_with(name), LEASE).await.done()
}

/// The record with a step begun and done.
pub(super) async fn stepped(node: &Arc<dyn Store>, record: &Record, name: &str) -> Record {
    begun(node, record, once(name)).await;
    ended(node, record, name).await
}

/// Executing, with these steps done.
pub(super) async fn executing_with(node: &Arc<dyn Store>, names: &[&str]) -> Record {
    let mut record = node.claim(a_stepped_claim()).await.ours();
    for name in names {
        record = stepped(node, &record, name).await;
    }
    record
}

/// Uncertain between steps: these are done.
pub(super) async fn interrupted_after(node: &Arc<dyn Store>, names: &[&str]) -> Record {
    let record = executing_with(node, names).await;
    node.settle(record.ownership(), UNKNOWN).await.done()
}

/// Uncertain within this step.
pub(super) async fn interrupted_in(node: &Arc<dyn Store>, step: BeginStep) -> Record {
    let record = executing_with(node, &[]).await;
    begun(node, &record, step).await;
    node.settle(record.ownership(), UNKNOWN).await.done()
}

pub(super) async fn steps(node: &Arc<dyn Store>, claim: ClaimNumber) -> Vec<Step> {
    node.steps(claim).await.expect("steps are read")
}

/// The names of a record's steps, and whether each is done.
pub(super) async fn course(node: &Arc<dyn Store>, claim: ClaimNumber) -> Vec<(String, bool)> {
    let steps = steps(node, claim).await;
    steps.into_iter().map(|step| (step.name.to_string(), step.done.is_some())).collect()
}

pub(super) fn is_done(name: &str) -> (String, bool) {
    (name.to_owned(), true)
}

pub(super) fn in_doubt(name: &str) -> (String, bool) {
    (name.to_owned(), false)
}

/// The record as a node finds it.
pub(super) async fn found(node: &Arc<dyn Store>, id: RecordId) -> Found {
    try_found(node, id).await.expect("the record is there")
}

pub(super) async fn try_found(node: &Arc<dyn Store>, id: RecordId) -> Option<Found> {
    node.find(id).await.expect("a find succeeds")
}

pub(super) async fn state(node: &Arc<dyn Store>, id: RecordId) -> State {
    let found = found(node, id).await;
    found.record.state(found.now)
}

/// The words of a record's history, with the number of the attempt that each is about.
pub(super) async fn history(node: &Arc<dyn Store>, claim: ClaimNumber) -> Vec<(u32, String)> {
    let entries = node.history(claim).await.expect("a history is read");
    entries.into_iter().map(|entry| (entry.attempt.number(), entry.what)).collect()
}

pub(super) fn word(attempt: u32, what: &str) -> (u32, String) {
    (attempt, what.to_owned())
}

pub(super) async fn listed(node: &Arc<dyn Store>, filter: ListFilter) -> Vec<Listed> {
    node.list(filter).await.expect("a list is read")
}

/// How many records a list has of an id.
pub(super) async fn count(node: &Arc<dyn Store>, id: RecordId) -> usize {
    listed(node, ListFilter { id: Some(id), limit: 10, ..ListFilter::default() }).await.len()
}

/// An arrival in observe mode.
pub(super) fn an_arrival(
    id: RecordId,
    fingerprint: Fingerprint,
    on_unknown: OnUnknown,
) -> Observation {
    Observation {
        id,
        operation: operation_name(OPERATION),
        keyed: true,
        fingerprint,
        timeout: LEASE,
        rules: DecisionRules {
            on_unknown,
            collapse_for: Some(DAY),
            late_arrival: LEASE,
            same_target: true,
        },
        retention: RETENTION,
    }
}

/// What a claim or an advance has to come to.
pub(super) trait ExpectClaimed {
    /// It is ours.
    fn ours(self) -> Record;
    /// It is somebody's.
    fn theirs(self) -> Found;
}

impl ExpectClaimed for Result<Claimed, StoreError> {
    #[track_caller]
    fn ours(self) -> Record {
        match self {
            Ok(Claimed::Ours(record)) => *record,
            other => panic!("expected Ours, got {other:?}"),
        }
    }

    #[track_caller]
    fn theirs(self) -> Found {
        match self {
            Ok(Claimed::Theirs(found)) => *found,
            other => panic!("expected Theirs, got {other:?}"),
        }
    }
}

/// What an owner's write has to come to.
pub(super) trait ExpectWritten {
    /// It is done.
    fn done(self) -> Record;
    /// It is refused, and the store says what is there.
    fn refused(self) -> (WriteRefused, Found);
}

impl ExpectWritten for Result<Written, StoreError> {
    #[track_caller]
    fn done(self) -> Record {
        match self {
            Ok(Written::Done(record)) => *record,
            other => panic!("expected Done, got {other:?}"),
        }
    }

    #[track_caller]
    fn refused(self) -> (WriteRefused, Found) {
        match self {
            Ok(Written::Refused { why, found }) => (why, *found),
            other => panic!("expected Refused, got {other:?}"),
        }
    }
}

/// What a failed write has to say.
pub(super) trait ExpectFailed {
    /// The answer was lost.
    fn lost(self);
    /// The store lost history.
    fn regressed(self);
}

impl<T: std::fmt::Debug> ExpectFailed for Result<T, StoreError> {
    #[track_caller]
    fn lost(self) {
        assert!(
            matches!(self, Err(StoreError::AnswerLost { .. })),
            "expected AnswerLost, got {self:?}"
        );
    }

    #[track_caller]
    fn regressed(self) {
        assert!(
            matches!(self, Err(StoreError::Regressed { .. })),
            "expected Regressed, got {self:?}"
        );
    }
}
