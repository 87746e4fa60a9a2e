//! The steps of an execution that was interrupted, or is over.

use std::sync::Arc;

use hapax_core::{
    Admission, AdvanceReason, NewClaim, OutcomeClass, OwnState, Progress, Record, Retention,
    Settlement, State, StepEnd, StoreTime, WriteRefused,
};

use crate::{
    Clock, Store, Swept,
    conformance::{Harness, given::*},
};

/// An execution whose steps account for every effect goes on as the next attempt, which is not
/// clean, and is told what was done before it.
pub async fn a_resumed_execution_keeps_its_steps<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    let first = interrupted_after(&nodes[0], &["first", "second"]).await;
    let before = steps(&nodes[1], first.claim).await;
    harness.clock().advance(HOUR);
    let resume = next_by_steps(&first, AdvanceReason::Resume);
    let second = nodes[1].advance(resume.clone()).await.ours();
    let expected = Record {
        attempt: first.attempt.next(first.attempt.epoch()),
        owner: resume.claim.owner,
        own_state: OwnState::Claimed,
        lease_end: Some(harness.clock().now().after(LEASE)),
        clean: false,
        ..first.clone()
    };
    assert_eq!(second, expected);
    assert_eq!(found(&nodes[0], first.id).await.record, second);
    assert_eq!(steps(&nodes[0], first.claim).await, before);
    let words = [word(1, "uncertain"), word(1, "superseded"), word(2, "resumed")];
    assert_eq!(history(&nodes[0], first.claim).await, words);
    assert_eq!(nodes[1].advance(resume).await.ours(), second, "issued again");
    let third = stepped(&nodes[1], &second, "third").await;
    assert_eq!(third.first_admitted, first.first_admitted);
    let after = steps(&nodes[0], first.claim).await;
    assert_eq!((&after[..2], after.len()), (&before[..], 3));
    assert_eq!((after[0].attempt, after[2].attempt), (first.attempt, second.attempt));
    nodes[1].settle(second.ownership(), success()).await.done();
    assert_eq!(steps(&nodes[0], first.claim).await, after, "they are kept with the outcome");
}

/// Nothing else is resumed: neither a step in doubt nor an attempt that is judged as a whole, and
/// nothing that is under way or over. Steps and a whole do not continue each other.
pub async fn only_an_accounted_execution_is_resumed<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let done = executing_with(&node, &["first"]).await;
    let mut others = vec![
        interrupted_in(&node, for_an_hour("first")).await,
        executing_with(&node, &[]).await,
        executing_with(&node, &["first"]).await,
        node.settle(done.ownership(), success()).await.done(),
    ];
    others.extend(one_of_each_state(&node).await.into_iter().map(|(_, record)| record));
    for record in &others {
        let theirs = node.advance(next_by_steps(record, AdvanceReason::Resume)).await.theirs();
        assert_eq!(theirs.record, *record);
    }
    let accounted = interrupted_after(&node, &["first"]).await;
    for admission in [Admission::WithClaim, Admission::Separate] {
        let mut as_a_whole = next_by_steps(&accounted, AdvanceReason::Resume);
        as_a_whole.claim.admission = admission;
        assert_eq!(node.advance(as_a_whole).await.theirs().record, accounted);
    }
    let whole = uncertain(&node).await;
    let permission = resend(&found(&node, whole.id).await);
    assert_eq!(node.advance(next_by_steps(&whole, permission)).await.theirs().record, whole);
}

/// A later attempt does a step in doubt again only before the moment that was fixed when it was
/// first begun, whatever it claims or a takeover comes between (13).
pub async fn a_step_in_doubt_is_begun_again_within_its_permission<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let before = harness.clock().now().after(HOUR);
    let record = interrupted_in(&node, for_an_hour("first")).await;
    let begun_first = steps(&node, record.claim).await[0].begun;
    let resend = |seen: &Record| next_by_steps(seen, AdvanceReason::Resend { before: far(before) });
    let second = node.advance(resend(&record)).await.ours();
    harness.clock().advance(LEASE);
    let third = node.advance(next_by_steps(&second, AdvanceReason::LeaseOver)).await.ours();
    assert_eq!((third.progress, third.clean), (record.progress, false));
    for other in [once("second"), for_an_hour("second")] {
        let (why, _) = node.begin_step(third.ownership(), other, LEASE).await.refused();
        assert_eq!(why, WriteRefused::StepInDoubt);
    }
    let by = third.ownership();
    let (why, _) = node.end_step(by, step_name("first"), done_with("first"), LEASE).await.refused();
    assert_eq!(why, WriteRefused::StepInDoubt, "its end is not known to somebody else");

    harness.clock().advance(HOUR - LEASE - A_MICROSECOND);
    let in_time = begun(&node, &third, for_an_hour("first")).await;
    assert_eq!(in_time.progress, record.progress, "what was permitted first counts");
    let again = &steps(&node, record.claim).await[0];
    assert_eq!((again.begun, again.attempt), (begun_first, third.attempt));
    node.settle(by, UNKNOWN).await.done();
    let unknown = found(&node, record.id).await.record;
    let fourth = node.advance(resend(&unknown)).await.ours();
    harness.clock().advance(A_MICROSECOND);
    let late = node.begin_step(fourth.ownership(), for_an_hour("first"), LEASE).await.refused();
    assert_eq!((late.0, late.1.record), (WriteRefused::ResendOver, fourth.clone()));
    let over = node.settle(fourth.ownership(), UNKNOWN).await.done();
    assert_eq!(node.advance(resend(&over)).await.theirs().record, over, "nor is it claimed");

    let never = interrupted_in(&node, once("first")).await;
    assert_eq!(node.advance(resend(&never)).await.theirs().record, never);
}

/// A stable failure of a later attempt is accepted where the steps account for every effect, and
/// not while one is in doubt (8).
pub async fn a_failure_needs_its_steps_accounted_for<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let first = interrupted_after(&node, &["first"]).await;
    let second = node.advance(next_by_steps(&first, AdvanceReason::Resume)).await.ours();
    let by = second.ownership();
    let in_doubt = begun(&node, &second, for_an_hour("second")).await;
    let (why, there) = node.settle(by, failure()).await.refused();
    assert_eq!((why, there.record), (WriteRefused::NotClean, in_doubt));
    node.end_step(by, step_name("second"), StepEnd::NotApplied, LEASE).await.done();
    node.settle(by, failure()).await.done();
    assert_eq!(state(&node, first.id).await, State::FailedTerminal);
}

/// After its first step an execution is released only by the word for every attempt. The stub has
/// no steps, and neither has what takes its place, whatever it is judged by.
pub async fn a_release_forgets_the_steps<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for admission in [Admission::BySteps, Admission::WithClaim] {
        let record = executing_with(&node, &["first"]).await;
        let record = begun(&node, &record, once("second")).await;
        let (why, there) = node.settle(record.ownership(), NOT_APPLIED).await.refused();
        assert_eq!((why, &there.record), (WriteRefused::NotClean, &record));
        let stub = node.settle(record.ownership(), NEVER_APPLIED).await.done();
        assert_eq!((stub.progress, stub.clean), (Progress::Whole, true));
        assert_eq!(found(&node, record.id).await.record, stub);
        assert_eq!(steps(&node, record.claim).await, []);
        let mut advance = next_by_steps(&stub, AdvanceReason::Released);
        (advance.claim.fingerprint, advance.claim.admission) = (intent(2), admission);
        let next = node.advance(advance).await.ours();
        assert_eq!(steps(&node, record.claim).await, []);
        if admission == Admission::BySteps {
            stepped(&node, &next, "first").await;
            assert_eq!(course(&node, record.claim).await, [is_done("first")]);
        }
    }
    let unbegun = executing_with(&node, &[]).await;
    node.settle(unbegun.ownership(), NOT_APPLIED).await.done();
    assert_eq!(state(&node, unbegun.id).await, State::Released);
}

/// Steps go when the outcome's retention is over, also of one whose answer was not kept, and not
/// before.
pub async fn steps_are_swept_with_the_outcome<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for settlement in [success(), failure(), outcome(OutcomeClass::Succeeded, None)] {
        let record = executing_with(&node, &["first", "second"]).await;
        let other = executing_with(&node, &["first"]).await;
        node.settle(record.ownership(), settlement.clone()).await.done();
        harness.clock().advance(HOUR - A_MICROSECOND);
        assert_eq!(sweep(&node, &harness).await, Swept::default());
        assert_eq!(steps(&node, record.claim).await.len(), 2, "{settlement:?}");
        harness.clock().advance(A_MICROSECOND);
        assert_eq!(sweep(&node, &harness).await, Swept { bodies: 1, purged: 0 });
        assert_eq!(steps(&node, record.claim).await, [], "{settlement:?}");
        assert_eq!(state(&node, record.id).await, State::Tombstone);
        assert_eq!(course(&node, other.claim).await, [is_done("first")], "what is under way stays");
        harness.clock().advance(DAY);
        assert_eq!(sweep(&node, &harness).await, Swept { bodies: 0, purged: 1 });
    }
}

/// Steps are purged with their record, also where the outcome is kept as long as the tombstone.
pub async fn steps_are_purged_with_their_record<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing_with(&node, &["first"]).await;
    let settlement = Settlement::Outcome {
        class: OutcomeClass::Succeeded,
        status: 201,
        response: Some(an_answer()),
        retention: Retention { outcome: DAY, tombstone: DAY },
    };
    node.settle(record.ownership(), settlement).await.done();
    harness.clock().advance(DAY);
    assert_eq!(sweep(&node, &harness).await.purged, 1);
    assert_eq!(steps(&node, record.claim).await, []);
    let claim = NewClaim { admission: Admission::BySteps, ..a_claim_of(&record) };
    let anew = node.claim(claim).await.ours();
    assert_eq!(steps(&node, anew.claim).await, []);
}

/// A moment that is later than the permission, as a claimant might trust in.
fn far(before: StoreTime) -> StoreTime {
    before.after(YEARS)
}

async fn sweep<H: Harness>(node: &Arc<dyn Store>, harness: &H) -> Swept {
    node.sweep(harness.clock().now(), 100).await.expect("a sweep succeeds")
}
