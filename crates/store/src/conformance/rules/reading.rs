//! What is read is what was written.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use hapax_core::{ClaimNumber, OutcomeClass, Record, RecordId, Settlement, State, StoredResponse};

use crate::{
    ListFilter, Listed, Store,
    conformance::{Harness, given::*},
};

/// Status, headers and body come back byte for byte: empty ones, binary ones, large ones,
/// repeated fields in their order; from the same node, from another one and after a restart
/// (pitfalls 12, 16).
pub async fn an_answer_reads_back_byte_for_byte<H: Harness>(mut harness: H) {
    let [first, second] = two_nodes(&mut harness).await;
    let mut kept = Vec::new();
    for answer in answers() {
        let record = settled(&first, outcome(OutcomeClass::Succeeded, Some(answer.clone()))).await;
        assert_eq!(found(&first, record.id).await.response, Some(answer.clone()));
        let claim = a_claim_of(&record);
        assert_eq!(second.claim(claim).await.theirs().response, Some(answer.clone()));
        kept.push((record.id, answer));
    }
    drop(first);
    let first = harness.reopen().await;
    for (id, answer) in kept {
        assert_eq!(found(&first, id).await.response, Some(answer));
    }
}

/// What was observed of an uncertain attempt is kept as evidence and shown with it; the outcome
/// that is settled later replaces it, also where it keeps no answer.
pub async fn an_observed_answer_is_replaced_by_the_outcome<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let observed = StoredResponse { status: 502, ..an_answer() };
    let uncertain = Settlement::Unknown { observed: Some(observed.clone()) };
    for answer in [Some(an_answer()), None] {
        let record = settled(&node, uncertain.clone()).await;
        let there = found(&node, record.id).await;
        assert_eq!((there.record, there.response), (record.clone(), Some(observed.clone())));
        node.settle(record.ownership(), UNKNOWN).await.done();
        let evidence = found(&node, record.id).await.response;
        assert_eq!(evidence, Some(observed.clone()), "evidence is not lost");
        node.settle(record.ownership(), outcome(OutcomeClass::Succeeded, answer.clone()))
            .await
            .done();
        assert_eq!(found(&node, record.id).await.response, answer);
    }
    let record = settled(&node, uncertain).await;
    node.settle(record.ownership(), NOT_APPLIED).await.done();
    assert_eq!(found(&node, record.id).await.response, None, "nothing happened, nothing is shown");
}

/// A find after an acknowledged write of the same node sees it, and no find sees what nobody has
/// begun to write.
pub async fn a_find_is_never_before_the_acknowledged_nor_ahead_of_the_written<H: Harness>(
    harness: H,
) {
    let node = first_node(&harness).await;
    for _ in 0..20 {
        let claim = a_bare_claim();
        let id = claim.id;
        let [begun, acknowledged] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let reader = watch(node.clone(), id, begun.clone(), acknowledged.clone());
        let reader = tokio::spawn(reader);
        let begin = |write: u64| begun.store(write, Ordering::SeqCst);
        let seen_after = async |write: u64| {
            acknowledged.store(write, Ordering::SeqCst);
            assert_eq!(last_write_seen(&node, id).await, write, "of the acknowledged writes");
            tokio::task::yield_now().await;
        };
        begin(1);
        let record = node.claim(claim).await.ours();
        seen_after(1).await;
        begin(2);
        node.admit(record.ownership(), LEASE, None).await.done();
        seen_after(2).await;
        begin(3);
        node.settle(record.ownership(), success()).await.done();
        seen_after(3).await;
        reader.await.expect("the reader saw nothing wrong");
    }
}

/// Finding, claiming and listing show the same record, the same state and the same body, and the
/// time of the reading is not before what is read.
pub async fn finding_claiming_and_listing_agree<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let mut records = one_of_each_state(&node).await;
    let expired = succeeded(&node).await;
    harness.clock().advance(HOUR);
    records.retain(|(state, _)| !matches!(state, State::Succeeded | State::FailedTerminal));
    records.push((State::Succeeded, succeeded(&node).await));
    records.push((State::Tombstone, expired));
    for (state, record) in records {
        let there = found(&node, record.id).await;
        assert!(there.now >= record.created, "{state:?}");
        assert_eq!((there.record.state(there.now), &there.record), (state, &record));
        assert_eq!(node.claim(a_claim_of(&record)).await.theirs(), there, "{state:?}");
        let filter = ListFilter { id: Some(record.id), limit: 10, ..ListFilter::default() };
        let listed = listed(&node, filter).await;
        let expected = Listed {
            operation: Some(operation_name(OPERATION)),
            record,
            state,
            body_bytes: there.response.map(|response| response.body.len() as u64),
        };
        assert_eq!(listed, [expected]);
    }
}

/// A list is of the newest claims first, and each filter leaves out what does not match.
pub async fn a_list_is_newest_first_and_filtered<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let mut expected = one_of_each_state(&node).await;
    let mut claim = a_claim();
    claim.policy = remember(&node, "transfers.create", "{\"transfers\":1}").await;
    let transfer = node.claim(claim).await.ours();
    expected.push((State::Executing, transfer.clone()));
    expected.reverse();
    let numbers = |of: &dyn Fn(&(State, Record)) -> bool| -> Vec<ClaimNumber> {
        expected.iter().filter(|row| of(row)).map(|(_, record)| record.claim).collect()
    };
    let list = async |filter: ListFilter| -> Vec<ClaimNumber> {
        listed(&node, filter).await.iter().map(|listed| listed.record.claim).collect()
    };
    let all = ListFilter { limit: 100, ..ListFilter::default() };
    assert_eq!(list(all.clone()).await, numbers(&|_| true));
    for (state, _) in &expected {
        let filter = ListFilter { state: Some(*state), ..all.clone() };
        assert_eq!(list(filter).await, numbers(&|row| row.0 == *state), "{state:?}");
    }
    let filter = ListFilter { state: Some(State::Tombstone), ..all.clone() };
    assert_eq!(list(filter).await, []);
    for (operation, of_transfers) in [("transfers.create", true), (OPERATION, false)] {
        let filter = ListFilter { operation: Some(operation_name(operation)), ..all.clone() };
        let matching = numbers(&|row| (row.1.id == transfer.id) == of_transfers);
        assert_eq!(list(filter).await, matching, "{operation}");
    }
    let filter = ListFilter { operation: Some(operation_name("no.such")), ..all.clone() };
    assert_eq!(list(filter).await, []);
    assert_eq!(list(ListFilter { id: Some(an_id()), ..all }).await, []);
}

/// Every operation that a policy was stored for is known, once each.
pub async fn every_operation_with_a_policy_is_known<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (operation, text) in [("b", "1"), ("a", "2"), ("b", "3")] {
        remember(&node, operation, text).await;
    }
    let known = node.operations().await.expect("a reading");
    let ours = known.iter().map(|name| name.as_str()).filter(|name| *name != OPERATION);
    assert_eq!(ours.collect::<Vec<_>>(), ["a", "b"]);
}

/// Pages of a list, each before the last of the one before, hold every record once.
pub async fn a_list_pages_without_gaps<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.push(executing(&node).await.claim);
        succeeded(&node).await;
    }
    expected.reverse();
    let mut filter =
        ListFilter { state: Some(State::Executing), limit: 3, ..ListFilter::default() };
    for page in expected.chunks(3).chain([&[][..]]) {
        let there = listed(&node, filter.clone()).await;
        let there = there.iter().map(|listed| listed.record.claim).collect::<Vec<_>>();
        assert_eq!(there, page);
        filter.before = there.last().copied();
    }
}

/// Finds until the last write is seen, and compares each answer with the counters around it.
async fn watch(
    node: Arc<dyn Store>,
    id: RecordId,
    begun: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
) {
    loop {
        let at_least = acknowledged.load(Ordering::SeqCst);
        let seen = last_write_seen(&node, id).await;
        let at_most = begun.load(Ordering::SeqCst);
        assert!(at_least <= seen, "write {at_least} was acknowledged, a find saw {seen}");
        assert!(seen <= at_most, "a find saw write {seen}, only {at_most} had begun");
        if seen == 3 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Which of claim, admission and settle a find sees, from 1; 0 for none.
async fn last_write_seen(node: &Arc<dyn Store>, id: RecordId) -> u64 {
    let Some(found) = try_found(node, id).await else { return 0 };
    match found.record.state(found.now) {
        State::Claimed => 1,
        State::Executing => 2,
        State::Succeeded if found.response == Some(an_answer()) => 3,
        other => panic!("{other:?} was never written, with {:?}", found.response),
    }
}

fn answers() -> Vec<StoredResponse> {
    let field = |name: &'static str, value: &'static [u8]| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value))
    };
    let of_body = |body: Vec<u8>| StoredResponse { body: body.into(), ..an_answer() };
    vec![
        StoredResponse { status: 204, headers: Vec::new(), body: Bytes::new() },
        of_body(Vec::new()),
        of_body((0..=255).collect()),
        of_body(vec![0; 3]),
        of_body("Grüße, 世界 \u{0}".as_bytes().to_vec()),
        of_body((0..1 << 20).map(|n: u32| n.to_be_bytes()[3] ^ n.to_be_bytes()[2]).collect()),
        StoredResponse {
            headers: vec![
                field("link", b"</a>; rel=a"),
                field("etag", b"\"x\""),
                field("link", b"</b>; rel=b, </c>"),
                field("link", b"</a>; rel=a"),
                field("x-empty", b""),
                field("x-bytes", &[0x09, 0x80, 0xff, b' ']),
            ],
            ..an_answer()
        },
    ]
}
