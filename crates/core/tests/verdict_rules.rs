//! What evidence makes of an uncertain record, as promises.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

use std::time::Duration;

use hapax_core::{
    Admission, Advance, AdvanceReason, AppliedOutcome, ClaimNumber, Closer, Comparison, Decision,
    DecisionRules, EndingKind, Evidence, Fingerprint, FingerprintRules, Judgement, NewClaim,
    OnUnknown, OutcomeClass, OwnState, Owner, PolicyDigest, Record, RecordId, Retention, Ruling,
    State, Statement, StoreTime, Verdict, WriteRefused, decide,
};

const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Retention =
    Retention { outcome: Duration::from_secs(100), tombstone: Duration::from_secs(1000) };
const PROBE: DecisionRules = DecisionRules {
    on_unknown: OnUnknown::Probe,
    collapse_for: None,
    late_arrival: LEASE,
    same_target: true,
};

fn at(seconds: i64) -> StoreTime {
    StoreTime::from_micros(seconds * 1_000_000)
}

fn claim(owner: u8) -> NewClaim {
    NewClaim {
        id: RecordId::from_bytes([1; 32]),
        owner: Owner::from_bytes([owner; 16]),
        fingerprint: Fingerprint::new(FingerprintRules::default().version(), [1; 32]),
        policy: PolicyDigest([0; 32]),
        lease: LEASE,
        admission: Admission::WithClaim,
        secret_version: 1,
    }
}

fn executing() -> Record {
    Record::new(&claim(1), ClaimNumber(7), 0, at(0))
}

fn uncertain() -> Record {
    let record = executing();
    record.doubt(&record.seen(), at(31)).expect("lease over")
}

fn judgement(of: &Record, ruling: Ruling) -> Judgement {
    let statement = Statement { actor: "ada".to_owned(), reason: "looked it up".to_owned() };
    let token = Owner::from_bytes([90; 16]);
    Judgement { token, of: of.ownership(), ruling, retention: RETENTION, statement }
}

fn applied(class: OutcomeClass) -> Ruling {
    Ruling::Applied(AppliedOutcome { class, status: 201, response: None })
}

#[test]
fn a_verdict_ends_an_uncertain_record_whatever_it_says() {
    for (ruling, state) in [
        (applied(OutcomeClass::Succeeded), State::Succeeded),
        (applied(OutcomeClass::FailedTerminal), State::FailedTerminal),
        (Ruling::NotApplied, State::Released),
    ] {
        // Its second attempt: an earlier one is not proven not applied.
        let record = Record { clean: false, ..uncertain() };
        let judgement = judgement(&record, ruling);
        let judged = record.judge(&judgement, at(40)).expect("uncertain");
        assert_eq!(judged.state(at(40)), state);
        assert_eq!(judged.clean, state == State::Released, "only that frees the key");
        assert_eq!(judged.judge(&judgement, at(50)), Ok(judged.clone()), "issued again");
    }
}

#[test]
fn a_verdict_about_what_has_moved_on_changes_nothing() {
    let record = uncertain();
    let verdict = judgement(&record, Ruling::NotApplied);
    let success = judgement(&record, applied(OutcomeClass::Succeeded)).settlement();
    let settled = record.settle(&record.ownership(), &success, at(32)).expect("late but welcome");
    assert_eq!(settled.judge(&verdict, at(40)), Err(WriteRefused::Fenced));
    let reason = AdvanceReason::Resend { before: at(100) };
    let advance = Advance { seen: record.seen(), reason, claim: claim(2) };
    let (resent, _) = record.advance(&advance, 0, at(33)).expect("permitted");
    assert_eq!(resent.judge(&verdict, at(40)), Err(WriteRefused::Fenced));
    let live = judgement(&executing(), Ruling::NotApplied);
    assert!(matches!(executing().judge(&live, at(1)), Err(WriteRefused::Illegal(_))));
}

#[test]
fn a_judged_key_is_free_and_its_next_attempt_is_clean() {
    let record = uncertain();
    let freed = record.judge(&judgement(&record, Ruling::NotApplied), at(40)).expect("uncertain");
    assert_eq!(
        decide(&freed, Comparison::Same, at(41), &PROBE),
        Decision::Advance(AdvanceReason::Released)
    );
    let advance = Advance { seen: freed.seen(), reason: AdvanceReason::Released, claim: claim(2) };
    let (next, _) = freed.advance(&advance, 0, at(41)).expect("free");
    assert_eq!((next.attempt.number(), next.clean), (2, true));
    assert_eq!(next.first_admitted, Some(at(41)));
}

#[test]
fn the_service_is_asked_before_anything_is_decided() {
    let ask = |rules| decide(&uncertain(), Comparison::Same, at(40), rules);
    assert_eq!(ask(&PROBE), Decision::Probe);
    let elsewhere = DecisionRules { same_target: false, ..PROBE };
    assert_eq!(ask(&elsewhere), Decision::Hold, "another service knows nothing of it");
}

#[test]
fn not_seen_yet_permits_only_what_the_downstream_collapses() {
    let ask = |rules: DecisionRules, now| decide(&uncertain(), Comparison::Same, now, &rules);
    assert_eq!(ask(PROBE.after(Evidence::NotSeenYet), at(40)), Decision::Hold);
    let collapsing = DecisionRules { collapse_for: Some(Duration::from_secs(200)), ..PROBE };
    assert_eq!(ask(collapsing, at(40)), Decision::Probe, "it is asked first");
    let before = at(170);
    let permitted = Decision::Advance(AdvanceReason::Resend { before });
    assert_eq!(ask(collapsing.after(Evidence::NotSeenYet), at(169)), permitted);
    assert_eq!(ask(collapsing.after(Evidence::NotSeenYet), before), Decision::Hold);
    assert_eq!(ask(collapsing.after(Evidence::Unknown), at(40)), Decision::Hold);
    let held = DecisionRules { on_unknown: OnUnknown::Hold, ..collapsing };
    assert_eq!(ask(held.after(Evidence::NotSeenYet), at(40)), Decision::Hold);
}

#[test]
fn closing_is_the_next_attempt_and_fences_the_ones_before() {
    let record = uncertain();
    let closer = Owner::from_bytes([9; 16]);
    let (closing, ending) =
        record.close(&record.ownership(), closer, 0, at(40)).expect("uncertain");
    assert_eq!((closing.attempt.number(), closing.own_state), (2, OwnState::Uncertain));
    assert_eq!((ending.kind, closing.clean), (EndingKind::Superseded, false));
    assert!(closing.is_closed_by(&closer) && !record.is_closed_by(&closer));
    let late = judgement(&record, applied(OutcomeClass::Succeeded)).settlement();
    let fenced = closing.settle(&record.ownership(), &late, at(41));
    assert_eq!(fenced, Err(WriteRefused::Fenced));
    let live = executing();
    assert!(live.close(&live.ownership(), closer, 0, at(1)).is_err(), "someone is at it");
}

#[test]
fn a_deadline_is_over_a_lease_after_everything_sent_is_refused() {
    const DEADLINE: Duration = Duration::from_secs(60);
    let record = executing();
    assert_eq!(record.refused_after(LEASE, DEADLINE), Some(at(60)));
    assert!(!record.deadline_over(DEADLINE, at(89)));
    assert!(record.deadline_over(DEADLINE, at(90)));
    let locked = Record { lease_end: None, ..record };
    assert!(!locked.deadline_over(DEADLINE, at(1_000_000)), "nothing is known of its time");
}

#[test]
fn not_there_is_final_only_by_a_closer() {
    for seen in [Verdict::NotSeenYet, Verdict::NotApplied] {
        assert_eq!(seen.clone().under(Closer::None), Some(Verdict::NotSeenYet));
        assert_eq!(seen.clone().under(Closer::Attempt), None, "the earlier ones are closed first");
        assert_eq!(seen.under(Closer::DeadlineOver), Some(Verdict::NotApplied));
    }
    for closer in [Closer::None, Closer::Attempt, Closer::DeadlineOver] {
        assert_eq!(Verdict::Unknown.under(closer), Some(Verdict::Unknown));
    }
}

#[test]
fn a_reading_executes_nothing_and_says_nothing_final() {
    let before = StoreTime::default();
    for (decided, by_reading) in [
        (Decision::Replay, Decision::Replay),
        (Decision::NotKept, Decision::NotKept),
        (Decision::Hold, Decision::Hold),
        (Decision::Probe, Decision::Hold),
        (Decision::Advance(AdvanceReason::Resend { before }), Decision::Hold),
        (Decision::Advance(AdvanceReason::Resume), Decision::Hold),
        (Decision::Advance(AdvanceReason::Released), Decision::InFlight),
        (Decision::Doubt, Decision::InFlight),
        (Decision::KeyReused, Decision::InFlight),
        (Decision::KeyExpired(None), Decision::InFlight),
        (Decision::PolicyUnknown, Decision::InFlight),
    ] {
        assert_eq!(decided.without_authority(), by_reading, "{decided:?}");
    }
}
