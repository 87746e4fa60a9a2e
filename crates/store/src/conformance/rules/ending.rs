//! An attempt ends by exactly one row in its slot.

use std::sync::Arc;

use hapax_core::{
    AdvanceReason, Attempt, EndingKind, OutcomeClass, Record, Settlement, State, WriteRefused,
};

use crate::{
    Claimed, Clock, Store, Written,
    conformance::{Harness, given::*, race::race},
};

/// A release, a settle and takeovers of an abandoned claim race: one of them ends the attempt,
/// and the record shows that one (rows; pitfall 51).
pub async fn one_of_settle_release_and_takeover_ends_a_claim<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for round in 0..12 {
        let record = claimed(&nodes[0]).await;
        harness.clock().advance(LEASE);
        let mut contenders = vec![Contender::Settle(NOT_APPLIED), Contender::AdmitAndSettle];
        contenders.resize(10, Contender::Advance(AdvanceReason::LeaseOver));
        one_ends(&nodes, &record, contenders, round).await;
    }
}

/// Contradicting settles of an uncertain attempt and resends race: one of them ends it, and the
/// record shows that one (rows).
pub async fn one_of_settles_and_resends_ends_an_uncertain_attempt<H: Harness>(mut harness: H) {
    let nodes = two_nodes(&mut harness).await;
    for round in 0..12 {
        let record = uncertain(&nodes[0]).await;
        let permission = resend(&found(&nodes[0], record.id).await);
        let settles = [success(), failure(), NEVER_APPLIED].map(Contender::Settle);
        let mut contenders = settles.to_vec();
        contenders.resize(10, Contender::Advance(permission));
        one_ends(&nodes, &record, contenders, round).await;
    }
}

/// An outcome is final: no other settlement, renewal or claim changes it, and the same one again
/// changes nothing either (rows).
pub async fn an_outcome_is_final<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (first, others) in [
        (success(), [failure(), NOT_APPLIED, NEVER_APPLIED, UNKNOWN]),
        (failure(), [success(), NOT_APPLIED, NEVER_APPLIED, UNKNOWN]),
    ] {
        let settled = settled(&node, first.clone()).await;
        let before = found(&node, settled.id).await;
        for other in others {
            let (why, there) = node.settle(settled.ownership(), other).await.refused();
            assert_eq!((why, there), (WriteRefused::Fenced, before.clone()));
        }
        for reason in [AdvanceReason::LeaseOver, AdvanceReason::Released, resend(&before)] {
            assert_eq!(node.advance(next(&settled, reason)).await.theirs(), before);
        }
        harness.clock().advance(A_MICROSECOND);
        assert_eq!(node.settle(settled.ownership(), first).await.done(), settled);
        assert_eq!(found(&node, settled.id).await.record, settled);
    }
}

/// The settle of an uncertain attempt by its owner is welcome, though late: it knows (6).
pub async fn a_late_settle_of_an_uncertain_attempt_is_welcome<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    for (settlement, state_after, what) in [
        (success(), State::Succeeded, "settled-late"),
        (failure(), State::FailedTerminal, "settled-late"),
        (NOT_APPLIED, State::Released, "released"),
    ] {
        let record = executing(&node).await;
        harness.clock().advance(LEASE);
        node.doubt(record.id, record.seen()).await.expect("a doubt is answered");
        assert_eq!(state(&node, record.id).await, State::Uncertain);
        node.settle(record.ownership(), settlement).await.done();
        assert_eq!(state(&node, record.id).await, state_after);
        let words = [word(1, "uncertain"), word(1, what)];
        assert_eq!(history(&node, record.claim).await, words);
    }
}

/// A release leaves a stub that keeps the attempt number, so that no attempt comes back (2;
/// pitfall 51).
pub async fn a_release_keeps_the_attempt_number<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let mut record = executing(&node).await;
    for number in 1..=5 {
        assert_eq!(record.attempt.number(), number);
        let stub = node.settle(record.ownership(), NOT_APPLIED).await.done();
        assert_eq!(state(&node, record.id).await, State::Released);
        assert_eq!((stub.claim, stub.attempt), (record.claim, record.attempt));
        let claim = node.claim(a_claim_of(&stub)).await;
        assert_eq!(claim.theirs().record, stub, "a claim does not replace the stub");
        record = node.advance(next(&stub, AdvanceReason::Released)).await.ours();
    }
    let words = (1..=5).map(|number| word(number, "released")).collect::<Vec<_>>();
    assert_eq!(history(&node, record.claim).await, words);
}

/// A claim that was never admitted can be given back.
pub async fn a_bare_claim_can_be_released<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = claimed(&node).await;
    let stub = node.settle(record.ownership(), NOT_APPLIED).await.done();
    assert_eq!(state(&node, record.id).await, State::Released);
    assert_eq!(node.advance(next(&stub, AdvanceReason::Released)).await.ours().first_admitted, {
        Some(harness.clock().now())
    });
}

/// What was never admitted has no outcome and no doubt.
pub async fn a_bare_claim_has_no_outcome<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let record = claimed(&node).await;
    for settlement in [success(), failure(), UNKNOWN] {
        let (_, there) = node.settle(record.ownership(), settlement).await.refused();
        assert_eq!((there.record, there.response), (record.clone(), None));
    }
}

/// An outcome says class, status, time, retention, and whether its answer is kept.
pub async fn an_outcome_says_what_it_is<H: Harness>(harness: H) {
    let node = first_node(&harness).await;
    let now = harness.clock().now();
    for class in [OutcomeClass::Succeeded, OutcomeClass::FailedTerminal] {
        for answer in [Some(an_answer()), None] {
            let record = settled(&node, outcome(class, answer.clone())).await;
            let ending = record.ending.expect("it has ended");
            assert_eq!((ending.kind, ending.class), (EndingKind::Outcome, Some(class)));
            assert_eq!(ending.status, Some(answer.as_ref().map_or(200, |answer| answer.status)));
            assert_eq!(ending.kept, answer.is_some(), "an answer that is not there is not kept");
            assert_eq!((ending.at, ending.until), (now, RETENTION.until(now)));
            let found = found(&node, record.id).await;
            assert_eq!((found.record, found.response), (record, answer));
        }
    }
}

#[derive(Clone)]
enum Contender {
    Settle(Settlement),
    AdmitAndSettle,
    Advance(AdvanceReason),
}

impl Contender {
    /// Whether it ended the attempt; for a takeover with the record that it is now.
    async fn run(self, node: Arc<dyn Store>, record: Record) -> Option<(Self, Record)> {
        let by = record.ownership();
        let written = match &self {
            Self::Settle(settlement) => node.settle(by, settlement.clone()).await,
            Self::AdmitAndSettle => match node.admit(by, LEASE, None).await {
                Ok(Written::Done(_)) => node.settle(by, success()).await,
                other => other,
            },
            Self::Advance(reason) => {
                return match node.advance(next(&record, *reason)).await {
                    Ok(Claimed::Ours(record)) => Some((self, *record)),
                    Ok(Claimed::Theirs(_)) => None,
                    other => panic!("expected Ours or Theirs, got {other:?}"),
                };
            }
        };
        match written {
            Ok(Written::Done(record)) => Some((self, *record)),
            Ok(Written::Refused { .. }) => None,
            other => panic!("expected Done or Refused, got {other:?}"),
        }
    }

    fn ends_as(&self) -> (EndingKind, Option<OutcomeClass>) {
        match self {
            Self::Advance(_) => (EndingKind::Superseded, None),
            Self::AdmitAndSettle => (EndingKind::Outcome, Some(OutcomeClass::Succeeded)),
            Self::Settle(Settlement::Outcome { class, .. }) => (EndingKind::Outcome, Some(*class)),
            Self::Settle(_) => (EndingKind::Released, None),
        }
    }
}

async fn one_ends(
    nodes: &[Arc<dyn Store>; 2],
    record: &Record,
    mut contenders: Vec<Contender>,
    round: usize,
) {
    // Who comes first in the line differs from round to round.
    let by = round % contenders.len();
    contenders.rotate_left(by);
    let runs = contenders.into_iter().enumerate().map(|(number, contender)| {
        contender.run(nodes[(number + round) % 2].clone(), record.clone())
    });
    let ended = race(runs).await.into_iter().flatten().collect::<Vec<_>>();
    let [(winner, shown)] = ended.as_slice() else {
        panic!("{} of them ended the attempt, not one", ended.len());
    };
    let there = found(&nodes[0], record.id).await.record;
    assert_eq!(there, *shown, "the record is not what the winner was shown");
    let second = record.attempt.next(record.attempt.epoch());
    let (attempt, ending) = match winner.ends_as() {
        (EndingKind::Superseded, _) => (second, None),
        ending => (record.attempt, Some(ending)),
    };
    let shown_ending = there.ending.map(|ending| (ending.kind, ending.class));
    assert_eq!((there.attempt, shown_ending), (attempt, ending));
    assert_one_slot(&nodes[0], record, attempt).await;
}

/// The history holds `superseded` for the first attempt exactly if there is a second one, and
/// never beside `released`.
async fn assert_one_slot(node: &Arc<dyn Store>, record: &Record, now_at: Attempt) {
    let words = history(node, record.claim).await;
    let count = |what: &str| words.iter().filter(|entry| **entry == word(1, what)).count();
    assert_eq!(count("superseded"), usize::from(now_at > record.attempt), "{words:?}");
    assert!(count("superseded") + count("released") <= 1, "{words:?}");
}
