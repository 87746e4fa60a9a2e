//! A permitted second execution under the same effect id.

use std::sync::Arc;

use hapax_core::{
    Admission, AdvanceReason, OwnState, PolicyDigest, Record, Settlement, State, StoreTime,
    WriteRefused,
};

use crate::{
    Clock, Store,
    conformance::{Harness, given::*},
};

/// A resend is the next attempt of an uncertain record: not clean, under the policy and the first
/// admission of the first one, whose slot `superseded` closes (rows, 8).
pub async fn a_resend_is_the_next_attempt_and_not_clean<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let answer = Settlement::Unknown { observed: Some(an_answer()) };
    let first = settled(&node, answer).await;
    harness.clock().advance(LEASE);
    let before = found(&node, first.id).await;
    let mut advance = next(&first, resend(&before));
    advance.claim.policy = PolicyDigest::of("{\"present\":\"policy\"}");
    let second = node.advance(advance.clone()).await.ours();
    let expected = Record {
        attempt: first.attempt.next(first.attempt.epoch()),
        owner: advance.claim.owner,
        own_state: OwnState::Executing,
        lease_end: Some(before.now.after(LEASE)),
        clean: false,
        ending: None,
        ..first.clone()
    };
    assert_eq!(second, expected);
    let there = found(&node, first.id).await;
    assert_eq!((there.record, there.response), (second.clone(), None), "nothing is answered yet");
    let words = [word(1, "uncertain"), word(1, "superseded"), word(2, "resent")];
    assert_eq!(history(&node, first.claim).await, words);
    node.settle(second.ownership(), success()).await.done();
    assert_eq!(state(&node, first.id).await, State::Succeeded);
}

/// Only an uncertain record is resent.
pub async fn only_an_uncertain_record_is_resent<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (state, record) in one_of_each_state(&node).await {
        let before = found(&node, record.id).await;
        if state != State::Uncertain {
            let theirs = node.advance(next(&record, resend(&before))).await.theirs();
            assert_eq!(theirs, before, "{state:?}");
        }
    }
}

/// The permission to resend is checked on the store's clock when it is used for the claim (13).
pub async fn a_resend_is_not_claimed_after_its_permission_ended<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    let before = harness.clock().now().after(HOUR);
    harness.clock().advance(HOUR);
    let late = next(&record, AdvanceReason::Resend { before });
    assert_eq!(node.advance(late).await.theirs().record, record);
    let in_time = AdvanceReason::Resend { before: before.after(A_MICROSECOND) };
    node.advance(next(&record, in_time)).await.ours();
}

/// The permission is checked again when it is used for the admission (13).
pub async fn a_resend_is_not_admitted_after_its_permission_ended<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let before = harness.clock().now().after(HOUR);
    let record = resent_but_not_admitted(&node, before).await;
    assert_refused(&node, &record, None).await;
    harness.clock().advance(HOUR);
    assert_refused(&node, &record, Some(before)).await;
    let in_time = Some(before.after(A_MICROSECOND));
    let admitted = node.admit(record.ownership(), LEASE, in_time).await.done();
    assert_eq!(admitted.first_admitted, record.first_admitted, "the first admission stays");
    // One whose answer was lost is used only when it is issued again.
    harness.clock().advance(A_MICROSECOND);
    let (why, there) = node.admit(record.ownership(), LEASE, in_time).await.refused();
    assert_eq!((why, there.record), (WriteRefused::ResendOver, admitted));
}

/// A record is released only while every earlier attempt is proven not applied, or when the
/// service speaks for all of them; then it is clean (8; pitfall 51).
pub async fn a_release_needs_every_attempt_proven_not_applied<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let first = uncertain(&node).await;
    let permission = resend(&found(&node, first.id).await);
    let second = node.advance(next(&first, permission)).await.ours();
    let (why, there) = node.settle(second.ownership(), NOT_APPLIED).await.refused();
    assert_eq!((why, &there.record), (WriteRefused::NotClean, &second));
    assert_eq!(state(&node, first.id).await, State::Executing);
    let stub = node.settle(second.ownership(), NEVER_APPLIED).await.done();
    assert_eq!((stub.clean, state(&node, first.id).await), (true, State::Released));
}

/// A takeover of a claimed resend is not clean either.
pub async fn a_takeover_of_an_unclean_claim_stays_unclean<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let before = harness.clock().now().after(HOUR);
    let record = resent_but_not_admitted(&node, before).await;
    harness.clock().advance(LEASE);
    let mut advance = next(&record, AdvanceReason::LeaseOver);
    advance.claim.admission = Admission::Separate;
    let third = node.advance(advance).await.ours();
    assert_eq!((third.clean, third.first_admitted), (false, record.first_admitted));
    assert_refused(&node, &third, None).await;
}

async fn resent_but_not_admitted(node: &Arc<dyn Store>, before: StoreTime) -> Record {
    let first = uncertain(node).await;
    let mut advance = next(&first, AdvanceReason::Resend { before });
    advance.claim.admission = Admission::Separate;
    node.advance(advance).await.ours()
}

async fn assert_refused(node: &Arc<dyn Store>, record: &Record, before: Option<StoreTime>) {
    let (why, there) = node.admit(record.ownership(), LEASE, before).await.refused();
    assert_eq!((why, &there.record), (WriteRefused::ResendOver, record));
    assert_eq!(state(node, record.id).await, State::Claimed);
}
