//! Finding out what uncertain records came to.

use std::{collections::HashSet, sync::Arc, time::Duration};

use hapax_core::{
    AppliedOutcome, Evidence, Judgement, NewClaim, OperationName, OutcomeClass, OwnState, Record,
    Ruling, RunEnd, Settlement, State, Statement, StoreTime, Unprotected, WriteRefused,
};

use crate::{
    BroughtIn, Due, PutOff, Store, TakeDue,
    conformance::{Harness, given::*},
};

const A_MINUTE: Duration = Duration::from_secs(60);

/// An execution whose lease is over becomes uncertain without anybody asking for it, a first
/// attempt and a later one; what is claimed, live, renewed or ended stays what it is (4).
pub async fn an_abandoned_execution_is_noticed<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let abandoned = executing(&node).await;
    let renewed = executing(&node).await;
    let first = uncertain(&node).await;
    let later = node.advance(next(&first, resend(&found(&node, first.id).await))).await.ours();
    let bare = claimed(&node).await;
    let ended = [succeeded(&node).await, released(&node).await];
    assert_eq!(noticed(&node).await, 0, "all are live");
    harness.clock().advance(LEASE);
    node.renew(renewed.ownership(), LEASE).await.done();
    assert_eq!(noticed(&node).await, 2);
    for (record, expected) in [
        (&abandoned, State::Uncertain),
        (&later, State::Uncertain),
        (&renewed, State::Executing),
        (&bare, State::Claimed),
        (&ended[0], State::Succeeded),
        (&ended[1], State::Released),
    ] {
        assert_eq!(state(&node, record.id).await, expected);
    }
    assert_eq!(history(&node, abandoned.claim).await, [word(1, "uncertain")]);
    assert_eq!(noticed(&node).await, 0, "once");
    harness.clock().advance(LEASE);
    assert_eq!(noticed(&node).await, 1, "the renewed one is kept in mind");
    let late = node.settle(abandoned.ownership(), success()).await.done();
    assert_eq!(late.state(harness.clock_now()), State::Succeeded, "its owner is still welcome");
}

/// A due record is taken by one, until its hold is over; the longest due first, up to the limit,
/// and only of the operations that are named.
pub async fn a_due_record_is_taken_by_one<H: Harness>(mut harness: H) {
    let [node, other] = two_nodes(&mut harness).await;
    let mut records = Vec::new();
    for _ in 0..3 {
        records.push(uncertain(&node).await.id);
        harness.clock().advance(A_MICROSECOND);
    }
    executing(&node).await;
    succeeded(&node).await;
    let elsewhere = TakeDue { operations: vec![operation_name("else.where")], ..a_taking() };
    assert_eq!(node.take_due(elsewhere).await.expect("taken"), []);
    let two = node.take_due(TakeDue { limit: 2, ..a_taking() }).await.expect("taken");
    assert_eq!(ids(&two), records[..2]);
    assert!(two.iter().all(|due| due.operation.as_str() == OPERATION && due.probes == 0));
    assert_eq!(two[0].found, found(&node, records[0]).await);
    let rest = other.take_due(a_taking()).await.expect("taken");
    assert_eq!(ids(&rest), records[2..]);
    harness.clock().advance(A_MINUTE);
    let again = other.take_due(a_taking()).await.expect("taken");
    assert_eq!(ids(&again).iter().collect::<HashSet<_>>(), records.iter().collect());
}

/// What is put off is due again after its time, with one probe more; only its holder puts it off.
/// The history says what was learned when that is new.
pub async fn what_is_put_off_is_due_later<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    for (turn, evidence) in
        [(0, Evidence::Unknown), (1, Evidence::Unknown), (2, Evidence::NotSeenYet)]
    {
        let taking = a_taking();
        let due = node.take_due(taking.clone()).await.expect("taken");
        assert_eq!((ids(&due), due[0].probes), (vec![record.id], turn));
        let put_off = PutOff {
            of: record.ownership(),
            holder: an_owner(),
            after: A_MINUTE,
            evidence,
            statement: statement(),
        };
        assert!(!node.put_off(put_off.clone()).await.expect("told"), "somebody else's");
        let mine = PutOff { holder: taking.holder, ..put_off };
        assert!(node.put_off(mine.clone()).await.expect("put off"));
        assert!(!node.put_off(mine).await.expect("told"), "it was let go of");
        harness.clock().advance(A_MINUTE - A_MICROSECOND);
        assert_eq!(node.take_due(a_taking()).await.expect("taken"), []);
        harness.clock().advance(A_MICROSECOND);
    }
    let words = [word(1, "uncertain"), word(1, "probed-unknown"), word(1, "probed-not-seen")];
    assert_eq!(history(&node, record.claim).await, words);
    assert_eq!(state(&node, record.id).await, State::Uncertain);
}

/// A verdict ends an uncertain record, and is kept with who said it and why.
pub async fn a_verdict_ends_an_uncertain_record<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (ruling, expected, what) in [
        (applied(OutcomeClass::Succeeded), State::Succeeded, "judged-applied"),
        (applied(OutcomeClass::FailedTerminal), State::FailedTerminal, "judged-applied"),
        (Ruling::NotApplied, State::Released, "judged-not-applied"),
    ] {
        let record = uncertain(&node).await;
        node.judge(judgement(&record, ruling), None).await.done();
        let there = found(&node, record.id).await;
        assert_eq!(there.record.state(there.now), expected);
        let answer = (expected != State::Released).then(an_answer);
        assert_eq!(there.response, answer, "{expected:?}");
        let entries = node.history(record.claim).await.expect("a history");
        let last = entries.last().expect("an entry");
        assert_eq!((&*last.what, last.statement.as_ref()), (what, Some(&statement())));
    }
    let freed = uncertain(&node).await;
    node.judge(judgement(&freed, Ruling::NotApplied), None).await.done();
    let stub = found(&node, freed.id).await.record;
    let next = node.advance(next(&stub, hapax_core::AdvanceReason::Released)).await.ours();
    assert_eq!((next.attempt.number(), next.clean), (2, true), "the key is free");
    assert_eq!(node.take_due(a_taking()).await.expect("taken"), [], "nothing is looked for");
}

/// A verdict about an attempt that was followed by another one, or has an outcome, changes nothing.
pub async fn a_verdict_about_the_past_changes_nothing<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let first = uncertain(&node).await;
    let verdict = judgement(&first, Ruling::NotApplied);
    let second = node.advance(next(&first, resend(&found(&node, first.id).await))).await.ours();
    let (why, there) = node.judge(verdict.clone(), None).await.refused();
    assert_eq!((why, &there.record), (WriteRefused::Fenced, &second));
    node.settle(second.ownership(), UNKNOWN).await.done();
    node.judge(verdict, None).await.refused();
    assert_eq!(state(&node, first.id).await, State::Uncertain);
    let settled = uncertain(&node).await;
    node.settle(settled.ownership(), failure()).await.done();
    let late = node.judge(judgement(&settled, applied(OutcomeClass::Succeeded)), None).await;
    assert_eq!(late.refused().0, WriteRefused::Fenced);
    assert_eq!(state(&node, settled.id).await, State::FailedTerminal, "the live settle has won");
    let live = executing(&node).await;
    node.judge(judgement(&live, Ruling::NotApplied), None).await.refused();
    assert_eq!(state(&node, live.id).await, State::Executing);
}

/// Who was taken the hold of a record ends nothing.
pub async fn a_verdict_needs_the_hold_it_was_made_under<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    let (slow, quick) = (a_taking(), a_taking());
    node.take_due(slow.clone()).await.expect("taken");
    harness.clock().advance(A_MINUTE);
    node.take_due(quick.clone()).await.expect("taken");
    let verdict = judgement(&record, Ruling::NotApplied);
    let (why, _) = node.judge(verdict.clone(), Some(slow.holder)).await.refused();
    assert_eq!((why, state(&node, record.id).await), (WriteRefused::Fenced, State::Uncertain));
    node.judge(verdict, Some(quick.holder)).await.done();
}

/// A verdict that is issued again after a lost answer is done once.
pub async fn a_verdict_issued_again_is_done_once<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    let taking = a_taking();
    node.take_due(taking.clone()).await.expect("taken");
    let verdict = judgement(&record, applied(OutcomeClass::Succeeded));
    let once = node.judge(verdict.clone(), Some(taking.holder)).await.done();
    harness.clock().advance(A_MINUTE);
    assert_eq!(node.judge(verdict, Some(taking.holder)).await.done(), once);
    assert_eq!(
        history(&node, record.claim).await,
        [word(1, "uncertain"), word(1, "judged-applied")]
    );
}

/// An outcome by verdict is remembered as long as any, and then swept.
pub async fn a_judged_outcome_is_swept_when_it_is_over<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    node.judge(judgement(&record, applied(OutcomeClass::Succeeded)), None).await.done();
    harness.clock().advance(HOUR);
    assert_eq!(node.sweep(harness.clock_now(), 10).await.expect("swept").bodies, 1);
    assert_eq!(state(&node, record.id).await, State::Tombstone);
    harness.clock().advance(DAY);
    assert_eq!(node.sweep(harness.clock_now(), 10).await.expect("swept").purged, 1);
    assert_eq!(try_found(&node, record.id).await, None);
}

/// Closing is the next attempt of an uncertain record: it executes nothing, and fences those before
/// it (12). Issued again, it recognises itself.
pub async fn closing_fences_the_earlier_attempts<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    let closing = an_owner();
    let close = || node.close_earlier(record.ownership(), closing, statement());
    let closed = close().await.done();
    assert_eq!((closed.attempt.number(), closed.own_state), (2, OwnState::Uncertain));
    assert_eq!(close().await.done(), closed);
    let (why, _) = node.settle(record.ownership(), success()).await.refused();
    assert_eq!(why, WriteRefused::Fenced);
    let words = [word(1, "uncertain"), word(1, "superseded"), word(2, "closing")];
    assert_eq!(history(&node, record.claim).await, words);
    node.judge(judgement(&closed, Ruling::NotApplied), None).await.done();
    assert_eq!(state(&node, record.id).await, State::Released);
    let other = node.close_earlier(record.ownership(), an_owner(), statement()).await;
    assert_eq!(other.refused().0, WriteRefused::Fenced);
}

/// What is uncertain is told by operation, with its age; what has ended is not among it.
pub async fn what_is_uncertain_is_told_by_operation<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let other = remember(&node, "other.act", "{\"another\":\"policy\"}").await;
    let claim = NewClaim { policy: other, ..a_claim() };
    let record = node.claim(claim).await.ours();
    node.settle(record.ownership(), UNKNOWN).await.done();
    let since = [uncertain(&node).await.created, uncertain(&node).await.created];
    let late = uncertain(&node).await;
    node.settle(late.ownership(), success()).await.done();
    executing(&node).await;
    harness.clock().advance(A_MINUTE);
    let mut doubts = node.doubts().await.expect("told");
    doubts.sort_by_key(|doubts| doubts.operation.clone());
    let told = doubts.iter().map(|doubts| {
        let operation = doubts.operation.as_ref().map(OperationName::as_str);
        (operation, doubts.since.as_slice(), doubts.now)
    });
    let now = harness.clock_now();
    let expected =
        [(Some(OPERATION), &since[..], now), (Some("other.act"), &[record.created][..], now)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

/// What ran without a record has one afterwards, begun when it ran: with its outcome, as a stub, or
/// uncertain. A key that was free is taken by it.
pub async fn what_ran_unprotected_has_a_record_afterwards<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let begun = harness.clock_now();
    harness.clock().advance(HOUR);
    for (settlement, expected) in
        [(success(), State::Succeeded), (NOT_APPLIED, State::Released), (UNKNOWN, State::Uncertain)]
    {
        let ran = unprotected(a_claim(), begun, Some(settlement));
        assert_eq!(node.bring_in(ran.clone()).await, Ok(BroughtIn::Recorded));
        let there = found(&node, ran.claim.id).await;
        assert_eq!(there.record.state(there.now), expected);
        assert_eq!((there.record.created, there.record.clean), (begun, true));
        assert_eq!(there.response.is_some(), expected == State::Succeeded);
        assert!(there.record.lease_over(there.now), "nobody is at it");
        let entries = node.history(there.record.claim).await.expect("a history");
        let first = entries.first().expect("an entry");
        assert_eq!(
            (&*first.what, first.statement.as_ref()),
            ("ran-unprotected", Some(&ran.statement))
        );
    }
    assert_eq!(node.take_due(a_taking()).await.expect("taken").len(), 1, "what is unknown is due");
    let stub = released(&node).await;
    let under_it = unprotected(a_claim_of(&stub), begun, Some(UNKNOWN));
    assert_eq!(node.bring_in(under_it).await, Ok(BroughtIn::Recorded));
    let there = found(&node, stub.id).await.record;
    assert_eq!((there.attempt.number(), there.own_state), (2, OwnState::Uncertain));
}

/// Brought in again, after a crash or a lost answer, it changes nothing; not even when it has come
/// to an end since.
pub async fn what_ran_unprotected_is_brought_in_once<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let ran = unprotected(a_claim(), harness.clock_now(), Some(UNKNOWN));
    assert_eq!(node.bring_in(ran.clone()).await, Ok(BroughtIn::Recorded));
    let record = found(&node, ran.claim.id).await.record;
    harness.clock().advance(A_MINUTE);
    assert_eq!(node.bring_in(ran.clone()).await, Ok(BroughtIn::Again));
    node.judge(judgement(&record, Ruling::NotApplied), None).await.done();
    let before = found(&node, record.id).await;
    assert_eq!(node.bring_in(ran).await, Ok(BroughtIn::Again));
    assert_eq!(found(&node, record.id).await, before);
}

/// What the store knows of a key stands, and that something ran beside it is noted.
pub async fn what_ran_unprotected_does_not_replace_what_is_known<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (state, record) in one_of_each_state(&node).await {
        if state == State::Released {
            continue;
        }
        let before = found(&node, record.id).await;
        let ran = unprotected(a_claim_of(&record), before.now, Some(NOT_APPLIED));
        let answer = node.bring_in(ran.clone()).await;
        assert_eq!(answer, Ok(BroughtIn::Beside { found: Box::new(before.clone()) }), "{state:?}");
        assert_eq!(found(&node, record.id).await, before);
        let entries = node.history(record.claim).await.expect("a history");
        let words = entries.iter().rev().map(|entry| &*entry.what).take(2).collect::<Vec<_>>();
        assert_eq!(words, ["ended-unprotected", "ran-unprotected"]);
        assert_eq!(node.bring_in(ran).await, Ok(BroughtIn::Again));
    }
}

/// What may be under way without a record is an execution for everybody else, until its end is
/// known.
pub async fn what_runs_unprotected_is_executing_until_its_end<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let begun = harness.clock_now();
    harness.clock().advance(HOUR);
    for (settlement, expected) in [
        (success(), State::Succeeded),
        (failure(), State::FailedTerminal),
        (UNKNOWN, State::Uncertain),
    ] {
        let running = unprotected(a_claim(), begun, None);
        assert_eq!(node.bring_in(running.clone()).await, Ok(BroughtIn::Recorded));
        assert_eq!(node.bring_in(running.clone()).await, Ok(BroughtIn::Again));
        let there = found(&node, running.claim.id).await;
        assert_eq!(there.record.state(there.now), State::Executing);
        assert!(!there.record.lease_over(there.now), "it was begun long ago, and found now");
        let ended = Unprotected { end: ended(settlement), ..running.clone() };
        assert_eq!(node.bring_in(ended.clone()).await, Ok(BroughtIn::Recorded));
        let there = found(&node, running.claim.id).await;
        assert_eq!(there.record.state(there.now), expected);
        for again in [running, ended] {
            assert_eq!(node.bring_in(again).await, Ok(BroughtIn::Again));
        }
        assert_eq!(found(&node, there.record.id).await, there);
    }
}

/// Beside what ran without a record no refusal is final, and its success is the outcome of a record
/// that has none: noted and told at once, when no attempt executes any more.
pub async fn a_success_unprotected_is_the_outcome_where_there_is_none<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing(&node).await;
    let running = unprotected(a_claim_of(&record), harness.clock_now(), None);
    let beside = node.bring_in(running.clone()).await.expect("brought in");
    assert!(matches!(beside, BroughtIn::Beside { .. }), "{beside:?}");
    let ran = Unprotected { end: ended(success()), ..running };
    assert_eq!(node.bring_in(ran.clone()).await, Ok(BroughtIn::Later), "another one executes");
    for refusal in [failure(), NOT_APPLIED] {
        let (why, _) = node.settle(record.ownership(), refusal).await.refused();
        assert_eq!(why, WriteRefused::NotClean);
    }
    node.settle(record.ownership(), UNKNOWN).await.done();
    let stub = released(&node).await;
    let freed = unprotected(a_claim_of(&stub), harness.clock_now(), None);
    node.bring_in(freed.clone()).await.expect("brought in");
    let of = found(&node, stub.id).await.record;
    node.settle(of.ownership(), UNKNOWN).await.done();
    node.judge(judgement(&of, Ruling::NotApplied), None).await.done();
    for ran in [ran, Unprotected { end: ended(success()), ..freed }] {
        node.bring_in(ran.clone()).await.expect("brought in");
        let there = found(&node, ran.claim.id).await;
        assert_eq!(there.record.state(there.now), State::Succeeded);
        assert_eq!(there.response, Some(an_answer()));
        assert_eq!(node.bring_in(ran).await, Ok(BroughtIn::Again));
        assert_eq!(found(&node, there.record.id).await, there);
    }
}

fn ended(settlement: Settlement) -> Option<RunEnd> {
    Some(RunEnd { settlement, seen: "as the test says".to_owned() })
}

fn unprotected(claim: NewClaim, begun: StoreTime, settlement: Option<Settlement>) -> Unprotected {
    let reason = format!("run {:?}", claim.owner);
    let statement = Statement { actor: "hapax".to_owned(), reason };
    Unprotected { claim, begun, end: settlement.and_then(ended), statement }
}

fn a_taking() -> TakeDue {
    TakeDue {
        holder: an_owner(),
        lease: A_MINUTE,
        operations: vec![operation_name("another.one"), operation_name(OPERATION)],
        limit: 10,
    }
}

fn ids(due: &[Due]) -> Vec<hapax_core::RecordId> {
    due.iter().map(|due| due.found.record.id).collect()
}

fn statement() -> Statement {
    Statement { actor: "ada".to_owned(), reason: "the provider's list has it: no. 7".to_owned() }
}

fn applied(class: OutcomeClass) -> Ruling {
    Ruling::Applied(AppliedOutcome { class, status: 201, response: Some(an_answer()) })
}

fn judgement(of: &Record, ruling: Ruling) -> Judgement {
    let (token, of) = (an_owner(), of.ownership());
    Judgement { token, of, ruling, retention: RETENTION, statement: statement() }
}

/// How many executions were found to be abandoned, over the whole store.
async fn noticed(node: &Arc<dyn Store>) -> usize {
    let mut records = 0;
    loop {
        let doubted = node.doubt_abandoned(2).await.expect("looked");
        records += doubted.records;
        if !doubted.more && doubted.records == 0 {
            return records;
        }
    }
}

/// The store's time, as the suite has set it.
trait Now {
    fn clock_now(&self) -> StoreTime;
}

impl<H: Harness> Now for H {
    fn clock_now(&self) -> StoreTime {
        crate::Clock::now(self.clock())
    }
}
