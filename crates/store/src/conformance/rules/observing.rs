//! Observe mode's memory.

use std::sync::Arc;

use hapax_core::{ObservedEnd, OnUnknown, OutcomeClass, RecordId, Would};

use crate::{
    Clock, ListFilter, Store,
    conformance::{Harness, given::*},
};

/// Arrivals are judged as enforcing would judge them: the first one executes, a copy of it waits,
/// a copy after the outcome is replayed, another intent is refused, an unknown outcome holds.
pub async fn arrivals_are_judged_as_enforcing_would<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    let arrive = async |id, fingerprint| {
        let judged = nodes[0].arrive(an_arrival(id, fingerprint, OnUnknown::Hold)).await;
        judged.expect("an arrival is noted")
    };
    let key = an_id();
    assert_eq!(arrive(key, intent(1)).await, Would::Execute);
    assert_eq!(arrive(key, intent(1)).await, Would::Wait);
    assert_eq!(arrive(key, intent(2)).await, Would::Refuse, "in flight too");
    finish(&nodes[0], key, ObservedEnd::Outcome(OutcomeClass::Succeeded)).await;
    assert_eq!(arrive(key, intent(1)).await, Would::Replay);
    assert_eq!(arrive(key, intent(2)).await, Would::Refuse);
    let there = nodes[1].arrive(an_arrival(key, intent(1), OnUnknown::Hold)).await;
    assert_eq!(there, Ok(Would::Replay), "nodes share what was observed");
    harness.clock().advance(HOUR);
    assert_eq!(arrive(key, intent(2)).await, Would::Expire);

    let released = an_id();
    assert_eq!(arrive(released, intent(1)).await, Would::Execute);
    finish(&nodes[0], released, ObservedEnd::NotApplied).await;
    assert_eq!(arrive(released, intent(2)).await, Would::Execute, "nothing happened");

    let unknown = an_id();
    assert_eq!(arrive(unknown, intent(1)).await, Would::Execute);
    finish(&nodes[0], unknown, ObservedEnd::Unknown).await;
    assert_eq!(arrive(unknown, intent(1)).await, Would::Hold);
    let resend = nodes[0].arrive(an_arrival(unknown, intent(1), OnUnknown::Resend)).await;
    assert_eq!(resend, Ok(Would::Execute));

    let vanished = an_id();
    assert_eq!(arrive(vanished, intent(1)).await, Would::Execute);
    harness.clock().advance(LEASE - A_MICROSECOND);
    assert_eq!(arrive(vanished, intent(1)).await, Would::Wait);
    harness.clock().advance(A_MICROSECOND);
    assert_eq!(arrive(vanished, intent(1)).await, Would::Hold);
}

/// What was observed is counted and read back, last arrival first, also after a restart.
pub async fn observations_are_counted_and_read_back<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let (older, newer) = (an_id(), an_id());
    for (id, fingerprint) in
        [(older, 1), (newer, 1), (newer, 1), (newer, 2), (older, 1), (newer, 1)]
    {
        node.arrive(an_arrival(id, intent(fingerprint), OnUnknown::Hold)).await.expect("noted");
        harness.clock().advance(A_MICROSECOND);
    }
    let end = ObservedEnd::Outcome(OutcomeClass::FailedTerminal);
    finish(&node, newer, end).await;
    finish(&node, an_id(), end).await;
    let seen = node.observed(10).await.expect("observations are read");
    let [first, second] = seen.as_slice() else { panic!("two keys arrived: {seen:?}") };
    assert_eq!((first.id, second.id), (newer, older));
    assert_eq!((first.arrivals, first.waits, first.refusals, first.replays), (4, 2, 1, 0));
    assert_eq!((second.arrivals, second.waits, second.duplicates()), (2, 1, 1));
    assert_eq!(first.fingerprint, intent(1));
    assert_eq!((first.keyed, first.operation.as_str()), (true, OPERATION));
    assert_eq!(first.end.map(|(end, _)| end), Some(end));
    assert_eq!(second.end, None);
    assert!(first.first < first.last);
    assert_eq!(node.observed(1).await, Ok(vec![first.clone()]));
    drop(node);
    assert_eq!(harness.reopen().await.observed(10).await, Ok(seen));
}

/// Observing never makes a record: the key is new to enforcing.
pub async fn observing_makes_no_record<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let claim = a_claim();
    node.arrive(an_arrival(claim.id, claim.fingerprint, OnUnknown::Hold)).await.expect("noted");
    finish(&node, claim.id, ObservedEnd::Outcome(OutcomeClass::Succeeded)).await;
    assert_eq!(try_found(&node, claim.id).await, None);
    assert_eq!(listed(&node, ListFilter { limit: 10, ..ListFilter::default() }).await, []);
    let record = node.claim(claim).await.ours();
    let seen = node.observed(10).await.expect("observations are read");
    assert_eq!(seen.len(), 1, "a claim makes no observation");
    assert_eq!(found(&node, record.id).await.response, None);
}

/// Observations are forgotten by the sweep when their tombstone would be over, not before.
pub async fn observations_are_swept_when_they_are_over<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    node.arrive(an_arrival(an_id(), intent(1), OnUnknown::Hold)).await.expect("noted");
    harness.clock().advance(DAY - A_MICROSECOND);
    node.sweep(harness.clock().now(), 10).await.expect("a sweep succeeds");
    assert_eq!(node.observed(10).await.map(|seen| seen.len()), Ok(1));
    harness.clock().advance(YEARS);
    node.sweep(harness.clock().now(), 10).await.expect("a sweep succeeds");
    assert_eq!(node.observed(10).await, Ok(Vec::new()));
}

async fn finish(node: &Arc<dyn Store>, id: RecordId, end: ObservedEnd) {
    node.finish(id, end).await.expect("an end is noted");
}
