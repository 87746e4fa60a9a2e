//! A lost answer of a commit is resolved by issuing the same write again with the same owner.

use hapax_core::{AdvanceReason, Ownership, Settlement, State};

use crate::{
    Claimed, StandingState,
    conformance::{Ability, Harness, given::*},
};

/// A claim issued again after a lost answer is ours, with one record, whether the first one was
/// committed or not (7; pitfall 25).
pub async fn a_claim_issued_again_is_ours<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    for committed in [true, false] {
        let claim = a_claim();
        if !lose_next(&mut harness, committed).await {
            return;
        }
        node.claim(claim.clone()).await.lost();
        assert_eq!(try_found(&node, claim.id).await.is_some(), committed);
        let ours = node.claim(claim.clone()).await.ours();
        assert_eq!((ours.attempt.number(), ours.owner), (1, claim.owner));
        let theirs = node.claim(by_another(&claim)).await.theirs();
        assert_eq!((theirs.record, count(&node, claim.id).await), (ours, 1));
    }
}

/// After a lost answer somebody else's claim is not taken for one's own, though it is attempt 1
/// as well (1).
pub async fn a_claim_issued_again_does_not_take_anothers_for_its_own<H: Harness>(mut harness: H) {
    let [first, second] = two_nodes(&mut harness).await;
    let claim = a_claim();
    if !lose_next(&mut harness, false).await {
        return;
    }
    first.claim(claim.clone()).await.lost();
    let theirs = second.claim(by_another(&claim)).await.ours();
    assert_eq!(first.claim(claim).await.theirs().record, theirs);
}

/// A takeover, a claim of a stub and a resend, issued again after a lost answer, are ours at the
/// next attempt, not at the one after it (7).
pub async fn an_advance_issued_again_is_ours<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    for committed in [true, false] {
        let (abandoned, stub) = (claimed(&node).await, released(&node).await);
        let unknown = uncertain(&node).await;
        harness.clock().advance(LEASE);
        let permission = resend(&found(&node, unknown.id).await);
        for (record, reason) in [
            (abandoned, AdvanceReason::LeaseOver),
            (stub, AdvanceReason::Released),
            (unknown, permission),
        ] {
            let advance = next(&record, reason);
            if !lose_next(&mut harness, committed).await {
                return;
            }
            node.advance(advance.clone()).await.lost();
            let after_loss = found(&node, record.id).await.record;
            assert_eq!(after_loss.attempt.number(), if committed { 2 } else { 1 });
            let ours = node.advance(advance.clone()).await.ours();
            assert_eq!((ours.attempt.number(), ours.owner), (2, advance.claim.owner));
            assert_eq!(found(&node, record.id).await.record, ours);
            let superseded = history(&node, record.claim).await;
            let superseded = superseded.iter().filter(|(_, what)| what == "superseded").count();
            assert_eq!(superseded, usize::from(reason != AdvanceReason::Released));
        }
    }
}

/// An admission and a renewal issued again after a lost answer are done.
pub async fn an_admission_or_renewal_issued_again_is_done<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    for committed in [true, false] {
        let record = claimed(&node).await;
        if !lose_next(&mut harness, committed).await {
            return;
        }
        node.admit(record.ownership(), LEASE, None).await.lost();
        let after_loss = if committed { State::Executing } else { State::Claimed };
        assert_eq!(state(&node, record.id).await, after_loss);
        node.admit(record.ownership(), LEASE, None).await.done();
        assert_eq!(state(&node, record.id).await, State::Executing);

        lose_next(&mut harness, committed).await;
        harness.clock().advance(LEASE / 2);
        node.renew(record.ownership(), LEASE).await.lost();
        let renewed = node.renew(record.ownership(), LEASE).await.done();
        assert_eq!(found(&node, record.id).await.record, renewed);
    }
}

/// A settle issued again after a lost answer comes to the same ending, once, with its first time
/// and its answer; another owner is fenced all the same (7; pitfall 49).
pub async fn a_settle_issued_again_comes_to_the_same_ending<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let observed = Settlement::Unknown { observed: Some(an_answer()) };
    for committed in [true, false] {
        for settlement in [success(), failure(), NOT_APPLIED, UNKNOWN, observed.clone()] {
            let record = executing(&node).await;
            if !lose_next(&mut harness, committed).await {
                return;
            }
            node.settle(record.ownership(), settlement.clone()).await.lost();
            let after_loss = found(&node, record.id).await;
            assert_eq!(after_loss.record != record, committed, "{settlement:?}");
            harness.clock().advance(A_MICROSECOND);
            let done = node.settle(record.ownership(), settlement.clone()).await.done();
            let there = found(&node, record.id).await;
            assert_eq!(there.record, done, "{settlement:?}");
            if committed {
                let once = (&after_loss.record, &after_loss.response);
                assert_eq!((&there.record, &there.response), once, "{settlement:?}");
            }
            assert!(history(&node, record.claim).await.len() <= 1, "{settlement:?}");
            let stranger = Ownership { owner: an_owner(), ..record.ownership() };
            node.settle(stranger, settlement).await.refused();
        }
    }
}

/// Losing an answer is no regression: the node goes on, even when it loses several in a row.
pub async fn lost_answers_are_no_regression<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    for committed in [true, true, false, false, true] {
        if !lose_next(&mut harness, committed).await {
            return;
        }
        node.claim(a_claim()).await.lost();
    }
    node.beat().await.expect("the store is there");
    assert_eq!(node.standing(), StandingState::Ready);
    assert!(matches!(node.claim(a_claim()).await, Ok(Claimed::Ours(_))));
}

async fn lose_next<H: Harness>(harness: &mut H, committed: bool) -> bool {
    let answer = harness.lose_next_answer(committed).await;
    Ability::LoseAnswers.is_there::<H>(answer)
}
