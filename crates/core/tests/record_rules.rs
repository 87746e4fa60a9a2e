//! The rules of the record, as promises.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

use std::time::Duration;

use hapax_core::{
    Admission, Advance, AdvanceReason, Attempt, ClaimNumber, Comparison, Decision, DecisionRules,
    Event, Fingerprint, FingerprintRules, IllegalTransition, NewClaim, OnUnknown, OutcomeClass,
    OwnState, Owner, PolicyDigest, Record, RecordId, Retention, Settlement, State, StoreTime,
    StoredResponse, WriteRefused, decide,
};

const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Retention =
    Retention { outcome: Duration::from_secs(100), tombstone: Duration::from_secs(1000) };

fn at(seconds: i64) -> StoreTime {
    StoreTime::from_micros(seconds * 1_000_000)
}

fn intent(n: u8) -> Fingerprint {
    Fingerprint::new(FingerprintRules::default().version(), [n; 32])
}

fn claim(owner: u8, admission: Admission) -> NewClaim {
    NewClaim {
        id: RecordId::from_bytes([1; 32]),
        owner: Owner::from_bytes([owner; 16]),
        fingerprint: intent(1),
        policy: PolicyDigest([0; 32]),
        lease: LEASE,
        admission,
        secret_version: 1,
    }
}

fn executing() -> Record {
    Record::new(&claim(1, Admission::WithClaim), ClaimNumber(7), 0, at(0))
}

fn outcome(class: OutcomeClass) -> Settlement {
    let response = Some(StoredResponse { status: 201, ..StoredResponse::default() });
    Settlement::Outcome { class, status: 201, response, retention: RETENTION }
}

fn released() -> Record {
    let settlement = Settlement::NotApplied { every_attempt: false, retention: RETENTION };
    let record = executing();
    record.settle(&record.ownership(), &settlement, at(1)).expect("clean")
}

fn uncertain() -> Record {
    let record = executing();
    record.doubt(&record.seen(), at(31)).expect("lease over")
}

fn advance(record: &Record, reason: AdvanceReason, claim: NewClaim) -> Advance {
    Advance { seen: record.seen(), reason, claim }
}

const HOLD: DecisionRules = DecisionRules {
    on_unknown: OnUnknown::Hold,
    collapse_for: None,
    late_arrival: LEASE,
    same_target: true,
};

/// The downstream collapses for 200 s and late arrivals take up to 30 s.
const RESEND: DecisionRules = DecisionRules {
    on_unknown: OnUnknown::Resend,
    collapse_for: Some(Duration::from_secs(200)),
    late_arrival: LEASE,
    same_target: true,
};

#[test]
fn the_table_of_states_has_these_steps_and_no_other() {
    use {Event as E, State as S};
    let states = [
        S::Claimed,
        S::Executing,
        S::Released,
        S::Succeeded,
        S::FailedTerminal,
        S::Uncertain,
        S::Tombstone,
    ];
    let events = [
        E::Admit,
        E::Succeed,
        E::FailTerminal,
        E::NotApplied,
        E::Doubt,
        E::TakeOver,
        E::Resend,
        E::Resume,
        E::Close,
        E::Expire,
    ];
    let legal = [
        (S::Claimed, E::Admit, S::Executing),
        (S::Claimed, E::NotApplied, S::Released),
        (S::Claimed, E::Doubt, S::Uncertain),
        (S::Claimed, E::TakeOver, S::Claimed),
        (S::Executing, E::Succeed, S::Succeeded),
        (S::Executing, E::FailTerminal, S::FailedTerminal),
        (S::Executing, E::NotApplied, S::Released),
        (S::Executing, E::Doubt, S::Uncertain),
        (S::Released, E::TakeOver, S::Claimed),
        (S::Uncertain, E::Succeed, S::Succeeded),
        (S::Uncertain, E::FailTerminal, S::FailedTerminal),
        (S::Uncertain, E::Close, S::Uncertain),
        (S::Uncertain, E::NotApplied, S::Released),
        (S::Uncertain, E::Doubt, S::Uncertain),
        (S::Uncertain, E::Resend, S::Claimed),
        (S::Uncertain, E::Resume, S::Claimed),
        (S::Succeeded, E::Expire, S::Tombstone),
        (S::FailedTerminal, E::Expire, S::Tombstone),
    ];
    for state in states {
        for event in events {
            let expected = legal
                .iter()
                .find(|(from, on, _)| (*from, *on) == (state, event))
                .map(|(_, _, to)| *to)
                .ok_or(IllegalTransition { state, event });
            assert_eq!(state.on(event), expected);
        }
    }
}

#[test]
fn p02_every_write_after_the_claim_matches_attempt_and_owner() {
    let record = executing();
    let mine = record.ownership();
    let other_owner = hapax_core::Ownership { owner: Owner::from_bytes([9; 16]), ..mine };
    let other_attempt = hapax_core::Ownership { attempt: mine.attempt.next(0), ..mine };
    for stranger in [other_owner, other_attempt] {
        let fenced = Err(WriteRefused::Fenced);
        assert_eq!(record.renew(&stranger, LEASE, at(1)), fenced);
        assert_eq!(record.admit(&stranger, LEASE, None, at(1)), fenced);
        assert_eq!(record.settle(&stranger, &outcome(OutcomeClass::Succeeded), at(1)), fenced);
    }
}

#[test]
fn p04_a_record_without_lease_data_is_locked() {
    let record = Record { lease_end: None, ..executing() };
    assert!(!record.lease_over(StoreTime::from_micros(i64::MAX)));
    assert_eq!(record.doubt(&record.seen(), at(1_000_000)), Err(WriteRefused::LeaseLive));
    let decided = decide(&record, Comparison::Same, at(1_000_000), &RESEND);
    assert_eq!(decided, Decision::InFlight);
}

#[test]
fn p51_a_release_keeps_the_attempt_number_and_the_next_claim_is_one_higher() {
    let stub = released();
    assert_eq!(stub.attempt, Attempt::first(0));
    let next = advance(&stub, AdvanceReason::Released, claim(2, Admission::WithClaim));
    let (record, superseded) = stub.advance(&next, 0, at(2)).expect("released");
    assert_eq!(record.attempt.number(), 2);
    assert_eq!(superseded, None, "the slot holds `released` already");
    assert_eq!(record.first_admitted, Some(at(2)), "nothing before it can be under way");
    assert_eq!(record.state(at(2)), State::Executing);
}

#[test]
fn a_clean_stub_takes_a_new_intent_and_an_unclean_one_does_not() {
    let stub = released();
    let other = NewClaim { fingerprint: intent(2), ..claim(2, Admission::WithClaim) };
    let next = advance(&stub, AdvanceReason::Released, other.clone());
    assert_eq!(stub.advance(&next, 0, at(2)).expect("clean").0.fingerprint, intent(2));
    let unclean = Record { clean: false, ..stub };
    let next = advance(&unclean, AdvanceReason::Released, other);
    assert_eq!(unclean.advance(&next, 0, at(2)), Err(WriteRefused::Fenced));
    assert_eq!(decide(&unclean, Comparison::Different, at(2), &HOLD), Decision::KeyReused);
}

#[test]
fn release_of_an_unclean_record_needs_the_services_word_for_every_attempt() {
    let record = Record { clean: false, ..executing() };
    let settle = |every_attempt| {
        let settlement = Settlement::NotApplied { every_attempt, retention: RETENTION };
        record.settle(&record.ownership(), &settlement, at(1))
    };
    assert_eq!(settle(false), Err(WriteRefused::NotClean));
    assert!(settle(true).expect("every attempt").clean);
}

#[test]
fn takeover_repeats_all_that_was_seen() {
    let claimed = Record::new(&claim(1, Admission::Separate), ClaimNumber(7), 0, at(0));
    let takeover = advance(&claimed, AdvanceReason::LeaseOver, claim(2, Admission::WithClaim));
    assert_eq!(claimed.advance(&takeover, 0, at(29)), Err(WriteRefused::LeaseLive));
    let (moved, superseded) = claimed.advance(&takeover, 0, at(30)).expect("lease over");
    assert_eq!((moved.attempt.number(), moved.clean), (2, true), "nothing was admitted");
    assert!(superseded.is_some());
    let changed = [
        Record { attempt: claimed.attempt.next(0), ..claimed.clone() },
        Record { owner: Owner::from_bytes([9; 16]), ..claimed.clone() },
        Record { own_state: OwnState::Executing, ..claimed.clone() },
        Record { fingerprint: intent(2), ..claimed.clone() },
        claimed
            .settle(
                &claimed.ownership(),
                &Settlement::NotApplied { every_attempt: false, retention: RETENTION },
                at(1),
            )
            .expect("unadmitted"),
    ];
    for now in changed {
        assert_eq!(now.advance(&takeover, 0, at(30)), Err(WriteRefused::Fenced), "{now:?}");
    }
}

#[test]
fn p07_an_executing_record_is_never_taken_over_it_becomes_uncertain() {
    let record = executing();
    assert_eq!(record.doubt(&record.seen(), at(29)), Err(WriteRefused::LeaseLive));
    let doubted = record.doubt(&record.seen(), at(30)).expect("lease over");
    assert_eq!(doubted.state(at(30)), State::Uncertain);
    let takeover = advance(&record, AdvanceReason::LeaseOver, claim(2, Admission::WithClaim));
    assert!(matches!(record.advance(&takeover, 0, at(30)), Err(WriteRefused::Illegal(_))));
    // The old owner's renewals touch nothing, its late truthful settle is welcome.
    assert_eq!(doubted.renew(&record.ownership(), LEASE, at(31)), Err(WriteRefused::Fenced));
    let settled = doubted.settle(&record.ownership(), &outcome(OutcomeClass::Succeeded), at(31));
    assert_eq!(settled.expect("its owner").state(at(31)), State::Succeeded);
}

#[test]
fn a_resend_supersedes_keeps_the_first_admission_and_is_not_clean() {
    let record = uncertain();
    let before = at(170);
    let resend = advance(&record, AdvanceReason::Resend { before }, claim(2, Admission::WithClaim));
    let (moved, superseded) = record.advance(&resend, 0, at(40)).expect("permitted");
    assert!(superseded.is_some());
    assert_eq!((moved.attempt.number(), moved.clean), (2, false));
    assert_eq!(moved.first_admitted, Some(at(0)));
    assert_eq!(record.advance(&resend, 0, before), Err(WriteRefused::ResendOver));
    // A permission is checked again when it is used at a separate admission.
    let resend = advance(&record, AdvanceReason::Resend { before }, claim(2, Admission::Separate));
    let (moved, _) = record.advance(&resend, 0, at(40)).expect("permitted");
    let admit = |now| moved.admit(&moved.ownership(), LEASE, Some(before), now);
    assert!(admit(at(169)).is_ok());
    assert_eq!(admit(before), Err(WriteRefused::ResendOver));
    assert_eq!(
        moved.admit(&moved.ownership(), LEASE, None, at(41)),
        Err(WriteRefused::ResendOver),
        "no permission is no permission"
    );
    // One whose answer was lost was not used: issued again, it is used only now.
    let admitted = admit(at(169)).expect("permitted");
    let again = |now| admitted.admit(&moved.ownership(), LEASE, Some(before), now);
    assert_eq!(again(at(169)).as_ref(), Ok(&admitted));
    assert_eq!(again(before), Err(WriteRefused::ResendOver));
}

#[test]
fn a_settle_issued_again_changes_nothing_and_another_one_is_fenced() {
    let record = executing();
    let mine = record.ownership();
    let settled = record.settle(&mine, &outcome(OutcomeClass::Succeeded), at(1)).expect("mine");
    let again = settled.settle(&mine, &outcome(OutcomeClass::Succeeded), at(9)).expect("again");
    assert_eq!(again, settled, "the first ending's times stay");
    let others = [
        outcome(OutcomeClass::FailedTerminal),
        Settlement::NotApplied { every_attempt: true, retention: RETENTION },
        Settlement::Unknown { observed: None },
    ];
    for other in others {
        assert_eq!(settled.settle(&mine, &other, at(9)), Err(WriteRefused::Fenced), "{other:?}");
    }
}

#[test]
fn attempts_of_a_later_epoch_are_newer_than_all_before() {
    let stub = released();
    let next = advance(&stub, AdvanceReason::Released, claim(2, Admission::WithClaim));
    let (record, _) = stub.advance(&next, 3, at(2)).expect("released");
    assert_eq!((record.attempt.epoch(), record.attempt.number()), (3, 1));
}

#[test]
fn t14_just_before_the_end_of_retention_it_replays_and_just_after_it_is_expired() {
    let record = executing();
    let settled = record.settle(&record.ownership(), &outcome(OutcomeClass::Succeeded), at(1));
    let settled = settled.expect("mine");
    let end = settled.ending.expect("settled").until.outcome;
    let before = StoreTime::from_micros(end.as_micros() - 1);
    assert_eq!(decide(&settled, Comparison::Same, before, &HOLD), Decision::Replay);
    // A tombstone is answered before any comparison.
    for compared in [Comparison::Same, Comparison::Different, Comparison::UnknownVersion] {
        let decided = decide(&settled, compared, end, &HOLD);
        assert_eq!(decided, Decision::KeyExpired(Some(OutcomeClass::Succeeded)));
    }
}

#[test]
fn p14_t02_another_intent_is_refused_in_every_state() {
    let record = executing();
    let settle = |class| record.settle(&record.ownership(), &outcome(class), at(1)).expect("mine");
    let claimed = Record::new(&claim(1, Admission::Separate), ClaimNumber(7), 0, at(0));
    let states = [
        claimed,
        executing(),
        uncertain(),
        settle(OutcomeClass::Succeeded),
        settle(OutcomeClass::FailedTerminal),
    ];
    for record in states {
        for now in [at(2), at(60)] {
            for rules in [&HOLD, &RESEND] {
                let decided = decide(&record, Comparison::Different, now, rules);
                assert_eq!(decided, Decision::KeyReused, "{record:?}");
                let decided = decide(&record, Comparison::UnknownVersion, now, rules);
                assert_eq!(decided, Decision::PolicyUnknown, "{record:?}");
            }
        }
    }
}

#[test]
fn what_each_state_gets_for_the_same_intent() {
    let record = executing();
    let kept = record.settle(&record.ownership(), &outcome(OutcomeClass::FailedTerminal), at(1));
    let not_kept = Settlement::Outcome {
        class: OutcomeClass::Succeeded,
        status: 200,
        response: None,
        retention: RETENTION,
    };
    let not_kept = record.settle(&record.ownership(), &not_kept, at(1)).expect("mine");
    let claimed = Record::new(&claim(1, Admission::Separate), ClaimNumber(7), 0, at(0));
    let cases = [
        (claimed.clone(), at(29), Decision::InFlight),
        (claimed, at(30), Decision::Advance(AdvanceReason::LeaseOver)),
        (executing(), at(29), Decision::InFlight),
        (executing(), at(30), Decision::Doubt),
        (released(), at(2), Decision::Advance(AdvanceReason::Released)),
        (kept.expect("mine"), at(2), Decision::Replay),
        (not_kept, at(2), Decision::NotKept),
        (uncertain(), at(40), Decision::Hold),
    ];
    for (record, now, expected) in cases {
        assert_eq!(decide(&record, Comparison::Same, now, &HOLD), expected, "{record:?}");
    }
}

#[test]
fn a_resend_is_permitted_within_the_downstreams_memory_only() {
    let record = uncertain();
    // First admission at 0, memory of 200 s, late arrivals up to 30 s: until 170.
    let before = at(170);
    let permitted = Decision::Advance(AdvanceReason::Resend { before });
    assert_eq!(decide(&record, Comparison::Same, at(169), &RESEND), permitted);
    assert_eq!(decide(&record, Comparison::Same, before, &RESEND), Decision::Hold);
    let forgetful = DecisionRules { collapse_for: None, ..RESEND };
    assert_eq!(decide(&record, Comparison::Same, at(40), &forgetful), Decision::Hold);
    let never_admitted = Record { first_admitted: None, ..record };
    assert_eq!(decide(&never_admitted, Comparison::Same, at(40), &RESEND), Decision::Hold);
}
