//! What is kept beside the records: policies and the fingerprints of secrets.

use hapax_core::PolicyDigest;

use crate::{
    ListFilter, SecretPin,
    conformance::{Harness, given::*},
};

/// A policy's text reads back exactly, on every node and after a restart; storing it again
/// changes nothing, and an unknown digest has none.
pub async fn a_policy_reads_back_exactly<H: Harness>(mut harness: H) {
    let [first, second] = two_nodes(&mut harness).await;
    let text = "{\"name\": \"Überweisung\", \"quote\": \"'\\\"\", \"nul\": \"\\u0000\"}";
    let digest = remember(&first, "transfers.create", text).await;
    assert_eq!(remember(&second, "transfers.create", text).await, digest);
    let unknown = PolicyDigest([0; 32]);
    for node in [&first, &second] {
        assert_eq!(node.policy(digest).await, Ok(Some(text.to_owned())));
        assert_eq!(node.policy(unknown).await, Ok(None));
    }
    drop(first);
    assert_eq!(harness.reopen().await.policy(digest).await, Ok(Some(text.to_owned())));
}

/// A record is listed under the operation of the policy that it was admitted under.
pub async fn a_record_belongs_to_its_policys_operation<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let mut claim = a_claim();
    claim.policy = remember(&node, "transfers.create", "{\"transfers\":1}").await;
    let record = node.claim(claim).await.ours();
    let filter = ListFilter { id: Some(record.id), limit: 1, ..ListFilter::default() };
    let listed = listed(&node, filter).await;
    assert_eq!(listed[0].operation, Some(operation_name("transfers.create")));
}

/// The first fingerprint of an effect secret's version is kept; another one is noticed, on every
/// node and after a restart, and does not replace it (15; pitfall 53).
pub async fn another_effect_secret_is_noticed<H: Harness>(mut harness: H) {
    let [first, second] = two_nodes(&mut harness).await;
    assert_eq!(first.pinned_secret(1).await, Ok(None));
    assert_eq!(first.pin_secret(1, [1; 16]).await, Ok(SecretPin::Same));
    assert_eq!(first.pin_secret(1, [1; 16]).await, Ok(SecretPin::Same));
    assert_eq!(second.pin_secret(1, [2; 16]).await, Ok(SecretPin::Different));
    assert_eq!(second.pin_secret(2, [2; 16]).await, Ok(SecretPin::Same));
    drop(first);
    let first = harness.reopen().await;
    assert_eq!(first.pin_secret(1, [2; 16]).await, Ok(SecretPin::Different));
    assert_eq!(first.pinned_secret(1).await, Ok(Some([1; 16])));
    assert_eq!(first.pinned_secret(2).await, Ok(Some([2; 16])));
}
