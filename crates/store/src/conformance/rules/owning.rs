//! What an owner may do, and nobody else.

use std::sync::Arc;

use hapax_core::{AdvanceReason, Ownership, Record, State, WriteRefused};

use crate::{
    Clock, Store, Written,
    conformance::{Harness, given::*},
};

/// Every write matches the owner's token: another owner of the same attempt, whose own claim was
/// lost, changes nothing (1; pitfall 2).
pub async fn another_owner_of_the_same_attempt_is_fenced<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for (state, record) in one_of_each_state(&nodes[0]).await {
        let stranger = Ownership { owner: an_owner(), ..record.ownership() };
        for node in &nodes {
            assert_fenced(node, stranger, &record, state).await;
        }
    }
}

/// A first worker that was paused past its lease cannot admit, renew or complete what its
/// successor has taken over, whether that one is under way or done (1; pitfall 2).
pub async fn a_paused_worker_cannot_complete_its_successors_record<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    let paused = claimed(&nodes[0]).await;
    harness.clock().advance(LEASE);
    let successor = nodes[1].advance(next(&paused, AdvanceReason::LeaseOver)).await.ours();
    assert_fenced(&nodes[0], paused.ownership(), &successor, State::Executing).await;
    let done = nodes[1].settle(successor.ownership(), success()).await.done();
    assert_fenced(&nodes[0], paused.ownership(), &done, State::Succeeded).await;
}

/// After a resend the first attempt's own settle is fenced: its slot is taken.
pub async fn a_resent_attempt_cannot_be_settled_by_the_first<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let first = uncertain(&node).await;
    let permission = resend(&found(&node, first.id).await);
    let second = node.advance(next(&first, permission)).await.ours();
    assert_fenced(&node, first.ownership(), &second, State::Executing).await;
}

/// Admission is where the effect may begin: the record executes from then on under a lease of its
/// own, and the moment is kept. A second admission by the owner changes nothing.
pub async fn admission_begins_the_execution_once<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = claimed(&node).await;
    assert_eq!(record.first_admitted, None);
    harness.clock().advance(HOUR);
    let admitted = node.admit(record.ownership(), LEASE, None).await.done();
    let now = harness.clock().now();
    assert_eq!(state(&node, record.id).await, State::Executing);
    assert_eq!((admitted.first_admitted, admitted.lease_end), (Some(now), Some(now.after(LEASE))));
    harness.clock().advance(A_MICROSECOND);
    let again = node.admit(record.ownership(), LEASE, None).await.done();
    assert_eq!(again, admitted);
    assert_eq!(found(&node, record.id).await.record, admitted);
}

/// A renewal extends the lease from the moment it is made: nobody takes over or doubts a record
/// whose holder lives (pitfall 6).
pub async fn a_renewal_extends_the_lease<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let (claimed, executing) = (claimed(&node).await, executing(&node).await);
    for _ in 0..3 {
        harness.clock().advance(LEASE - A_MICROSECOND);
        for record in [&claimed, &executing] {
            let renewed = node.renew(record.ownership(), LEASE).await.done();
            assert_eq!(renewed.lease_end, Some(harness.clock().now().after(LEASE)));
            assert_eq!(renewed, found(&node, record.id).await.record);
        }
    }
    harness.clock().advance(LEASE - A_MICROSECOND);
    node.advance(next(&claimed, AdvanceReason::LeaseOver)).await.theirs();
    node.doubt(executing.id, executing.seen()).await.expect("a doubt is answered");
    assert_eq!(state(&node, executing.id).await, State::Executing);
    harness.clock().advance(A_MICROSECOND);
    node.advance(next(&claimed, AdvanceReason::LeaseOver)).await.ours();
}

/// A renewal of an uncertain record touches nothing, so its old owner learns of it (4); so does
/// one of an ended record.
pub async fn a_renewal_of_an_uncertain_or_ended_record_is_refused<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (state, record) in one_of_each_state(&node).await {
        if !matches!(state, State::Claimed | State::Executing) {
            let (why, there) = node.renew(record.ownership(), LEASE).await.refused();
            assert_eq!((why, there.record), (WriteRefused::Fenced, record), "{state:?}");
        }
    }
}

/// An uncertain record is not admitted by its owner: that would be an execution without a
/// permission.
pub async fn an_uncertain_record_is_not_admitted<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = uncertain(&node).await;
    let (_, there) = node.admit(record.ownership(), LEASE, None).await.refused();
    assert_eq!(there.record, record);
}

/// A write to a record that is not there says so: history was lost, which is no fence (6).
pub async fn a_write_to_a_missing_record_says_that_it_is_missing<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let by = Ownership { id: an_id(), ..executing(&node).await.ownership() };
    for settlement in settlements() {
        assert_eq!(node.settle(by, settlement).await, Ok(Written::Missing));
    }
    assert_eq!(node.admit(by, LEASE, None).await, Ok(Written::Missing));
    assert_eq!(node.renew(by, LEASE).await, Ok(Written::Missing));
    assert_eq!(try_found(&node, by.id).await, None, "nothing was made");
}

/// Everything that an owner can do is refused as fenced, and the record stays as it is.
async fn assert_fenced(node: &Arc<dyn Store>, by: Ownership, record: &Record, state: State) {
    let mut writes =
        vec![node.admit(by, LEASE, None).await.refused(), node.renew(by, LEASE).await.refused()];
    for settlement in settlements() {
        writes.push(node.settle(by, settlement).await.refused());
    }
    for (why, there) in writes {
        assert_eq!((why, &there.record), (WriteRefused::Fenced, record), "{state:?}");
    }
    assert_eq!(found(node, record.id).await.record, *record, "{state:?}");
}
