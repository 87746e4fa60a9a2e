//! Forgetting what is over, and nothing else.

use std::sync::Arc;

use hapax_core::{AdvanceReason, Record, Settlement, State, StoreTime};

use crate::{
    Clock, ListFilter, Store, Swept,
    conformance::{Harness, given::*},
};

/// An outcome is replayed until its retention is over, to the microsecond; from then on the
/// record is a tombstone, swept or not (7 of the design).
pub async fn an_outcome_becomes_a_tombstone_when_its_retention_is_over<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = succeeded(&node).await;
    harness.clock().advance(HOUR - A_MICROSECOND);
    assert_eq!(state(&node, record.id).await, State::Succeeded);
    assert_eq!(found(&node, record.id).await.response, Some(an_answer()));
    harness.clock().advance(A_MICROSECOND);
    assert_eq!(state(&node, record.id).await, State::Tombstone);
    let claim = a_claim_of(&record);
    let theirs = node.claim(claim).await.theirs();
    assert_eq!((theirs.record.state(theirs.now), theirs.record), (State::Tombstone, record));
}

/// The sweep drops the body of an outcome whose retention is over, and never before; identity,
/// class and times stay.
pub async fn a_body_is_dropped_when_its_retention_is_over<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = succeeded(&node).await;
    harness.clock().advance(HOUR - A_MICROSECOND);
    assert_eq!(sweep(&node, &harness).await, Swept::default());
    let there = found(&node, record.id).await;
    assert_eq!((&there.record, there.response), (&record, Some(an_answer())));
    harness.clock().advance(A_MICROSECOND);
    assert_eq!(sweep(&node, &harness).await, Swept { bodies: 1, purged: 0 });
    let there = found(&node, record.id).await;
    assert_eq!((&there.record, there.response), (&record, None));
    assert_eq!(body_bytes(&node, &record).await, None);
    assert_eq!(sweep(&node, &harness).await, Swept::default(), "it is dropped once");
}

/// A record is purged with its endings when its tombstone is over, and never before; then the key
/// is new, with a new claim number (rows, 16; pitfall 20).
pub async fn a_record_is_purged_when_its_tombstone_is_over<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for settlement in [success(), failure(), NOT_APPLIED] {
        let record = settled(&node, settlement.clone()).await;
        harness.clock().advance(DAY - A_MICROSECOND);
        assert_eq!(sweep(&node, &harness).await.purged, 0, "{settlement:?}");
        assert_eq!(found(&node, record.id).await.record, record);
        harness.clock().advance(A_MICROSECOND);
        assert_eq!(sweep(&node, &harness).await.purged, 1, "{settlement:?}");
        assert_eq!(try_found(&node, record.id).await, None);
        assert_eq!(count(&node, record.id).await, 0);
        assert_eq!(history(&node, record.claim).await, []);
        let claim = a_claim_of(&record);
        let new = node.claim(claim).await.ours();
        assert!(new.claim > record.claim);
        assert_eq!((new.attempt.number(), new.ending, new.clean), (1, None, true));
        let there = found(&node, record.id).await;
        assert_eq!((there.record, there.response), (new, None), "nothing of the old one is left");
    }
}

/// The stub of a released record is kept for a tombstone's time; the body's retention is not its
/// end.
pub async fn a_stub_is_kept_for_its_tombstone<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let stub = released(&node).await;
    harness.clock().advance(HOUR);
    assert_eq!(sweep(&node, &harness).await, Swept::default());
    assert_eq!(state(&node, stub.id).await, State::Released);
    node.advance(next(&stub, AdvanceReason::Released)).await.ours();
}

/// What is claimed, executing or uncertain is never swept, however old: a claim that moved on
/// from a stub is none any more, and a late outcome counts from its settle.
pub async fn nothing_unsettled_is_ever_swept<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let observed = Settlement::Unknown { observed: Some(an_answer()) };
    let stub = released(&node).await;
    let unsettled = [
        claimed(&node).await,
        executing(&node).await,
        uncertain(&node).await,
        settled(&node, observed).await,
        node.advance(next(&stub, AdvanceReason::Released)).await.ours(),
    ];
    harness.clock().advance(YEARS);
    for _ in 0..3 {
        assert_eq!(sweep(&node, &harness).await, Swept::default());
    }
    for record in &unsettled {
        assert_eq!(found(&node, record.id).await.record, *record);
    }
    let evidence = found(&node, unsettled[3].id).await.response;
    assert_eq!(evidence, Some(an_answer()), "what was observed of an uncertain record stays");
    node.settle(unsettled[3].ownership(), success()).await.done();
    assert_eq!(sweep(&node, &harness).await, Swept::default());
    assert_eq!(found(&node, unsettled[3].id).await.response, Some(an_answer()));
}

/// Only what the store's clock and the sweeper's own both call over is touched (23).
pub async fn a_sweep_needs_both_clocks<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = succeeded(&node).await;
    let settled_at = harness.clock().now();
    let far = settled_at.after(YEARS);
    assert_eq!(node.sweep(far, 10).await, Ok(Swept::default()), "the store's clock says no");
    harness.clock().advance(YEARS);
    for own_clock in [StoreTime::from_micros(0), settled_at, settled_at.after(HOUR - A_MICROSECOND)]
    {
        let swept = node.sweep(own_clock, 10).await;
        assert_eq!(swept, Ok(Swept::default()), "the sweeper's clock says no");
    }
    assert_eq!(body_bytes(&node, &record).await, Some(an_answer().body.len() as u64));
    let body_only = settled_at.after(DAY - A_MICROSECOND);
    assert_eq!(node.sweep(body_only, 10).await, Ok(Swept { bodies: 1, purged: 0 }));
    assert_eq!(node.sweep(settled_at.after(DAY), 10).await, Ok(Swept { bodies: 0, purged: 1 }));
}

/// A step of a sweep touches at most as many as it is told, and the steps come to an end.
pub async fn a_sweep_goes_in_steps<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for _ in 0..5 {
        succeeded(&node).await;
    }
    let step = async || node.sweep(harness.clock().now(), 2).await.expect("a sweep succeeds");
    harness.clock().advance(HOUR);
    let bodies = [step().await, step().await, step().await, step().await];
    assert_eq!(bodies.map(|swept| swept.bodies), [2, 2, 1, 0]);
    harness.clock().advance(DAY);
    let purges = [step().await, step().await, step().await, step().await];
    assert_eq!(purges.map(|swept| swept.purged), [2, 2, 1, 0]);
}

async fn sweep<H: Harness>(node: &Arc<dyn Store>, harness: &H) -> Swept {
    node.sweep(harness.clock().now(), 100).await.expect("a sweep succeeds")
}

async fn body_bytes(node: &Arc<dyn Store>, record: &Record) -> Option<u64> {
    let filter = ListFilter { id: Some(record.id), limit: 1, ..ListFilter::default() };
    listed(node, filter).await.first().and_then(|listed| listed.body_bytes)
}
