//! Taking a record: for the first time, and from somebody who is gone.

use std::sync::Arc;

use hapax_core::{
    Advance, AdvanceReason, Attempt, EndedBy, Ending, EndingKind, NewClaim, OwnState, Progress,
    Record, State, Until,
};

use crate::{
    Claimed, Clock, Store,
    conformance::{Ability, Harness, given::*, race::race},
};

const COPIES: usize = 64;

/// A claim is one atomic insert: of many copies that arrive together at two nodes exactly one is
/// ours, and all others are shown its record (rows; pitfall 1).
pub async fn one_of_many_copies_gets_a_new_key<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for _ in 0..6 {
        let copy = a_claim();
        let copies = (0..COPIES).map(|number| {
            let (node, claim) = (nodes[number % 2].clone(), by_another(&copy));
            async move { node.claim(claim).await.expect("a claim is answered") }
        });
        let ours = the_one_of(race(copies).await);
        assert_eq!(ours.attempt, Attempt::first(ours.attempt.epoch()), "it is the first attempt");
        assert_eq!(count(&nodes[0], copy.id).await, 1, "there is one record");
    }
}

/// A claim after a release is compare-and-set on the stub: one of many gets attempt n+1 (rows).
pub async fn one_of_many_copies_gets_a_released_key<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for _ in 0..4 {
        let stub = released(&nodes[0]).await;
        let ours = race_for(&nodes, &stub, AdvanceReason::Released).await;
        assert_eq!(ours.attempt, stub.attempt.next(stub.attempt.epoch()));
        assert_eq!(ours.claim, stub.claim, "it is the same record");
    }
}

/// A claimed record whose lease is over is taken over by one of many, with attempt n+1, and the
/// slot of the attempt before is closed by `superseded` (rows, 3).
pub async fn one_of_many_takes_over_an_abandoned_claim<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for _ in 0..4 {
        let abandoned = claimed(&nodes[0]).await;
        harness.clock().advance(LEASE);
        let ours = race_for(&nodes, &abandoned, AdvanceReason::LeaseOver).await;
        assert_eq!(ours.attempt, abandoned.attempt.next(abandoned.attempt.epoch()));
        assert_eq!(history(&nodes[0], ours.claim).await, [word(1, "superseded")]);
    }
}

/// While the lease of a claimed record is live, to its last microsecond, nobody takes it over.
pub async fn nobody_takes_over_a_live_claim<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    let live = claimed(&nodes[0]).await;
    harness.clock().advance(LEASE - A_MICROSECOND);
    for node in &nodes {
        let theirs = node.advance(next(&live, AdvanceReason::LeaseOver)).await.theirs();
        assert_eq!(theirs.record, live);
    }
    harness.clock().advance(A_MICROSECOND);
    nodes[1].advance(next(&live, AdvanceReason::LeaseOver)).await.ours();
}

/// An executing record is never taken over, however long its lease is over: the effect may exist.
pub async fn nobody_takes_over_an_execution<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing(&node).await;
    harness.clock().advance(YEARS);
    for reason in [AdvanceReason::LeaseOver, AdvanceReason::Released] {
        assert_eq!(node.advance(next(&record, reason)).await.theirs().record, record);
    }
}

/// No lease data means locked, never free (pitfall 4).
pub async fn a_record_without_lease_data_is_locked<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let (claimed, executing) = (claimed(&node).await, executing(&node).await);
    for id in [claimed.id, executing.id] {
        let erased = harness.erase_lease(id).await;
        if !Ability::EraseLease.is_there::<H>(erased) {
            return;
        }
    }
    harness.clock().advance(YEARS);
    let theirs = node.advance(next(&claimed, AdvanceReason::LeaseOver)).await.theirs();
    assert_eq!((theirs.record.attempt, theirs.record.lease_end), (claimed.attempt, None));
    node.doubt(executing.id, executing.seen()).await.expect("a doubt is answered");
    assert_eq!(state(&node, executing.id).await, State::Executing);
}

/// The condition of a takeover repeats everything that was read: attempt, owner, state,
/// fingerprint, progress and slot (3; pitfall 3).
pub async fn a_takeover_repeats_everything_that_was_seen<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = claimed(&node).await;
    harness.clock().advance(LEASE);
    for (what, stale) in misread(&record) {
        let advance = Advance { seen: stale.seen(), ..next(&record, AdvanceReason::LeaseOver) };
        let theirs = node.advance(advance).await.theirs();
        assert_eq!(theirs.record, record, "taken over by somebody who saw another {what}");
    }
    node.advance(next(&record, AdvanceReason::LeaseOver)).await.ours();
}

/// A record becomes uncertain by others only while it is executing with its lease over, and still
/// is as it was seen; the owner stays (3, 4).
pub async fn only_an_abandoned_execution_becomes_uncertain<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = executing(&node).await;
    let doubt = async |seen: &Record| {
        let found = node.doubt(record.id, seen.seen()).await.expect("a doubt is answered");
        found.expect("the record is there").record
    };
    harness.clock().advance(LEASE - A_MICROSECOND);
    assert_eq!(doubt(&record).await, record, "its lease is live");
    harness.clock().advance(A_MICROSECOND);
    for (what, stale) in misread(&record) {
        assert_eq!(doubt(&stale).await, record, "doubted by somebody who saw another {what}");
    }
    let doubted = doubt(&record).await;
    assert_eq!(doubted, Record { own_state: OwnState::Uncertain, ..record.clone() });
    assert_eq!(doubt(&record).await, doubted, "a second doubt changes nothing");
    assert_eq!(history(&node, record.claim).await, [word(1, "uncertain")]);
    for (state, other) in one_of_each_state(&node).await {
        harness.clock().advance(LEASE);
        if state != State::Executing {
            node.doubt(other.id, other.seen()).await.expect("a doubt is answered");
            assert_eq!(found(&node, other.id).await.record, other, "{state:?}");
        }
    }
}

/// A claim of a key that is there changes nothing and says what is there, whatever its state.
pub async fn a_claim_of_a_known_key_changes_nothing<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for (state, record) in one_of_each_state(&nodes[0]).await {
        let before = found(&nodes[0], record.id).await;
        assert_eq!(before.record, record, "{state:?}");
        for node in &nodes {
            let claim = NewClaim { id: record.id, fingerprint: intent(9), ..a_claim() };
            assert_eq!(node.claim(claim).await.theirs(), before, "{state:?}");
        }
        assert_eq!(found(&nodes[0], record.id).await, before, "{state:?}");
    }
}

/// A record that is not there is neither advanced nor doubted: the answer is that it is gone (22).
pub async fn an_advance_of_a_missing_record_says_that_it_is_gone<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = claimed(&node).await;
    harness.clock().advance(LEASE);
    let missing = Record { id: an_id(), ..record };
    let advance = node.advance(next(&missing, AdvanceReason::LeaseOver)).await;
    assert_eq!(advance, Ok(Claimed::Gone));
    assert_eq!(node.doubt(missing.id, missing.seen()).await, Ok(None));
    assert_eq!(try_found(&node, missing.id).await, None, "nothing was made");
}

/// A clean stub takes a new intent, under the policy that it comes with (8).
pub async fn a_clean_stub_takes_a_new_intent<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let policy = remember(&node, OPERATION, "{\"another\":\"policy\"}").await;
    let stub = released(&node).await;
    let mut advance = next(&stub, AdvanceReason::Released);
    (advance.claim.fingerprint, advance.claim.policy) = (intent(2), policy);
    let ours = node.advance(advance).await.ours();
    assert_eq!((ours.fingerprint, ours.policy), (intent(2), policy));
    assert_eq!(found(&node, stub.id).await.record, ours);
}

/// Where something may have happened under the first intent, another one takes over nothing.
pub async fn a_changed_intent_takes_over_nothing_else<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let (abandoned, unknown) = (claimed(&node).await, uncertain(&node).await);
    harness.clock().advance(LEASE);
    let permission = resend(&found(&node, unknown.id).await);
    for (record, reason) in [(abandoned, AdvanceReason::LeaseOver), (unknown, permission)] {
        let mut advance = next(&record, reason);
        advance.claim.fingerprint = intent(2);
        assert_eq!(node.advance(advance).await.theirs().record, record);
    }
}

/// A later attempt uses the effect secret of the first one (15).
pub async fn a_later_attempt_keeps_the_effect_secret<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let stub = released(&node).await;
    let mut advance = next(&stub, AdvanceReason::Released);
    advance.claim.secret_version = 7;
    assert_eq!(node.advance(advance).await.ours().secret_version, stub.secret_version);
}

/// Claim numbers rise and are never used again, not even after a purge and a restart (rows).
pub async fn claim_numbers_are_never_reused<H: Harness>(mut harness: H) {
    let node = first_node(&harness).await;
    let first = released(&node).await;
    let last = released(&node).await;
    assert!(last.claim > first.claim);
    harness.clock().advance(DAY);
    node.sweep(harness.clock().now(), 10).await.expect("a sweep succeeds");
    assert_eq!(try_found(&node, last.id).await, None, "the last claim is purged");
    let later = claimed(&node).await;
    assert!(later.claim > last.claim, "{:?} again after a purge", later.claim);
    drop(node);
    let node = harness.reopen().await;
    assert!(claimed(&node).await.claim > later.claim, "a number again after a restart");
}

/// The one answer that is ours; all others are shown its record.
#[track_caller]
fn the_one_of(answers: Vec<Claimed>) -> Record {
    let (ours, theirs): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| matches!(answer, Claimed::Ours(_)));
    let [Claimed::Ours(ours)] = ours.as_slice() else {
        panic!("{} of the copies were told that it is theirs, not one", ours.len());
    };
    for other in theirs {
        assert!(
            matches!(&other, Claimed::Theirs(found) if found.record == **ours),
            "another copy was shown {other:?}, not {ours:?}"
        );
    }
    (**ours).clone()
}

async fn race_for(nodes: &[Arc<dyn Store>; 2], seen: &Record, reason: AdvanceReason) -> Record {
    let contenders = (0..COPIES).map(|number| {
        let (node, advance) = (nodes[number % 2].clone(), next(seen, reason));
        async move { node.advance(advance).await.expect("an advance is answered") }
    });
    let ours = the_one_of(race(contenders).await);
    assert_eq!(found(&nodes[0], seen.id).await.record, ours);
    ours
}

/// The record as somebody would have it who misread one thing.
fn misread(record: &Record) -> [(&'static str, Record); 6] {
    let other_state = match record.own_state {
        OwnState::Claimed => OwnState::Executing,
        _ => OwnState::Claimed,
    };
    let now = record.created;
    let ending = Ending {
        kind: EndingKind::Released,
        class: None,
        status: None,
        kept: false,
        at: now,
        until: Until { outcome: now, tombstone: now },
        by: EndedBy::Owner,
    };
    [
        ("attempt", Record { attempt: record.attempt.next(0), ..record.clone() }),
        ("owner", Record { owner: an_owner(), ..record.clone() }),
        ("state", Record { own_state: other_state, ..record.clone() }),
        ("fingerprint", Record { fingerprint: intent(9), ..record.clone() }),
        ("progress", Record { progress: Progress::Accounted, ..record.clone() }),
        ("slot", Record { ending: Some(ending), ..record.clone() }),
    ]
}
