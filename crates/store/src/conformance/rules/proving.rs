//! Who wrote an ending, and proof that an effect exists where a record says that it does not.

use hapax_core::{
    AdvanceReason, AppliedOutcome, Judgement, OutcomeClass, Proof, Record, Ruling, Settlement,
    State, Statement, StoredResponse, WriteRefused,
};

use crate::{
    Clock,
    conformance::{Harness, given::*},
};

/// An ending belongs to who wrote it: another write that comes to the same class and status is
/// refused, whatever else it says, and what is stored stands. (pitfalls 2, 3)
pub async fn an_ending_belongs_to_who_wrote_it<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for kept in [true, false] {
        let record = uncertain(&node).await;
        let stored = kept.then(an_answer);
        let verdict = judgement(&record, applied(stored));
        node.judge(verdict.clone(), None).await.done();
        let before = found(&node, record.id).await;
        let late = Settlement::Outcome {
            class: OutcomeClass::Succeeded,
            status: 201,
            response: Some(another_answer()),
            retention: RETENTION,
        };
        let (why, there) = node.settle(record.ownership(), late).await.refused();
        assert_eq!((why, there), (WriteRefused::Fenced, before.clone()), "the owner's, later");
        let second = judgement(&record, applied(Some(another_answer())));
        let (why, there) = node.judge(second, None).await.refused();
        assert_eq!((why, there), (WriteRefused::Fenced, before.clone()), "another verdict");
        node.judge(verdict, None).await.done();
        assert_eq!(found(&node, record.id).await, before, "the same verdict, issued again");
        let words = [word(1, "uncertain"), word(1, "judged-applied")];
        assert_eq!(history(&node, record.claim).await, words);
    }
    let settled = succeeded(&node).await;
    let (why, _) = node.judge(judgement(&settled, applied(None)), None).await.refused();
    assert_eq!(why, WriteRefused::Fenced, "a verdict on what its owner has settled");
    let freed = uncertain(&node).await;
    node.judge(judgement(&freed, Ruling::NotApplied), None).await.done();
    let (why, _) = node.judge(judgement(&freed, Ruling::NotApplied), None).await.refused();
    assert_eq!(why, WriteRefused::Fenced, "another verdict that frees it");
}

/// Proof that an effect exists settles the record that was freed and that nobody has claimed since,
/// by an attempt of its own. A claim that read the free key finds the outcome.
pub async fn proof_settles_what_was_freed<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for response in [Some(another_answer()), None] {
        let record = uncertain(&node).await;
        let stub = node.judge(judgement(&record, Ruling::NotApplied), None).await.done();
        let proof = proof(&record, response.clone());
        let proven = node.prove(proof.clone()).await.done();
        let there = found(&node, record.id).await;
        assert_eq!((&there.record, there.response.clone()), (&proven, response));
        assert_eq!(there.record.state(there.now), State::Succeeded);
        assert_eq!((proven.attempt.number(), proven.clean), (2, false));
        harness.clock().advance(A_MICROSECOND);
        assert_eq!(node.prove(proof.clone()).await.done(), proven, "issued again");
        let late = node.advance(next(&stub, AdvanceReason::Released)).await.theirs();
        assert_eq!(late.record, proven, "who read the free key executes nothing");
        let words =
            [word(1, "uncertain"), word(1, "judged-not-applied"), word(2, "applied-after-all")];
        assert_eq!(history(&node, record.claim).await, words);
        let said = node.history(record.claim).await.expect("a history");
        assert_eq!(said.last().and_then(|last| last.statement.clone()), Some(proof.statement));
    }
    harness.clock().advance(HOUR);
    assert_eq!(node.sweep(harness.clock().now(), 10).await.expect("swept").bodies, 1);
    harness.clock().advance(DAY);
    assert_eq!(node.sweep(harness.clock().now(), 10).await.expect("swept").purged, 2);
}

/// Proof changes nothing where the freed key is used again, for this intent or another one, or has
/// another outcome; it is noted there, once. What does not deny the effect takes no note either.
pub async fn proof_that_comes_too_late_is_noted<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for other_intent in [false, true] {
        let record = uncertain(&node).await;
        let stub = node.judge(judgement(&record, Ruling::NotApplied), None).await.done();
        let mut again = next(&stub, AdvanceReason::Released);
        if other_intent {
            again.claim.fingerprint = intent(9);
        }
        let second = node.advance(again).await.ours();
        let proof = proof(&record, Some(another_answer()));
        let count_of_notes = async || {
            let words = history(&node, record.claim).await;
            words.iter().filter(|entry| **entry == word(2, "applied-too-late")).count()
        };
        for _ in 0..2 {
            let (_, there) = node.prove(proof.clone()).await.refused();
            assert_eq!(there.record, second, "somebody is at it");
            assert_eq!(count_of_notes().await, 1);
        }
        node.settle(second.ownership(), NOT_APPLIED).await.done();
        if other_intent {
            node.prove(proof).await.refused();
            assert_eq!(state(&node, record.id).await, State::Released, "it is another intent's");
        } else {
            node.prove(proof).await.done();
            assert_eq!(state(&node, record.id).await, State::Succeeded, "it is free again");
        }
    }
    let record = uncertain(&node).await;
    let stub = node.judge(judgement(&record, Ruling::NotApplied), None).await.done();
    let second = node.advance(next(&stub, AdvanceReason::Released)).await.ours();
    let second = node.settle(second.ownership(), success()).await.done();
    let (_, there) = node.prove(proof(&record, None)).await.refused();
    assert_eq!(there.record, second, "it happened twice");
    assert_eq!(history(&node, record.claim).await.last(), Some(&word(2, "applied-too-late")));
    for record in [uncertain(&node).await, succeeded(&node).await, executing(&node).await] {
        let before = (found(&node, record.id).await, history(&node, record.claim).await);
        node.prove(proof(&record, None)).await.refused();
        let after = (found(&node, record.id).await, history(&node, record.claim).await);
        assert_eq!(after, before, "it does not deny the effect");
    }
}

fn statement() -> Statement {
    Statement { actor: "ada".to_owned(), reason: "in the provider's list".to_owned() }
}

fn another_answer() -> StoredResponse {
    StoredResponse { body: "another".into(), ..an_answer() }
}

fn applied(response: Option<StoredResponse>) -> Ruling {
    Ruling::Applied(AppliedOutcome { class: OutcomeClass::Succeeded, status: 201, response })
}

fn judgement(of: &Record, ruling: Ruling) -> Judgement {
    let (token, of) = (an_owner(), of.ownership());
    Judgement { token, of, ruling, retention: RETENTION, statement: statement() }
}

fn proof(of: &Record, response: Option<StoredResponse>) -> Proof {
    Proof {
        token: an_owner(),
        of: of.ownership(),
        fingerprint: of.fingerprint,
        status: 201,
        response,
        retention: RETENTION,
        statement: Statement { reason: "it was answered after all".to_owned(), ..statement() },
    }
}
