//! The rules of an execution that is told by steps, as promises.
#![allow(clippy::expect_used)] // a test that cannot go on fails

use std::time::Duration;

use hapax_core::{
    Admission, Advance, AdvanceReason, ClaimNumber, Comparison, Decision, DecisionRules,
    Fingerprint, FingerprintRules, NewClaim, OnUnknown, OutcomeClass, OwnState, Owner, Ownership,
    PolicyDigest, Progress, Record, RecordId, Retention, Settlement, State, StepName,
    StepNameError, StoreTime, WriteRefused, decide,
};

const LEASE: Duration = Duration::from_secs(30);
const MEMORY: Duration = Duration::from_secs(100);
const RETENTION: Retention =
    Retention { outcome: Duration::from_secs(100), tombstone: Duration::from_secs(1000) };

const RULES: DecisionRules = DecisionRules {
    on_unknown: OnUnknown::Hold,
    collapse_for: None,
    late_arrival: LEASE,
    same_target: true,
};
const ELSEWHERE: DecisionRules = DecisionRules { same_target: false, ..RULES };

fn at(seconds: i64) -> StoreTime {
    StoreTime::from_micros(seconds * 1_000_000)
}

fn claim(owner: u8, admission: Admission) -> NewClaim {
    NewClaim {
        id: RecordId::from_bytes([1; 32]),
        owner: Owner::from_bytes([owner; 16]),
        fingerprint: Fingerprint::new(FingerprintRules::default().version(), [1; 32]),
        policy: PolicyDigest([0; 32]),
        lease: LEASE,
        admission,
        secret_version: 1,
    }
}

fn record(admission: Admission) -> Record {
    Record::new(&claim(1, admission), ClaimNumber(7), 0, at(0))
}

fn claimed() -> Record {
    record(Admission::BySteps)
}

fn begun(record: &Record, resend_for: Option<Duration>, now: i64) -> Record {
    record.begin_step(&record.ownership(), resend_for, LEASE, at(now)).expect("it may begin")
}

fn ended(record: &Record, now: i64) -> Record {
    record.end_step(&record.ownership(), LEASE, at(now)).expect("it may end")
}

/// Interrupted between two steps.
fn accounted() -> Record {
    doubted(&ended(&begun(&claimed(), None, 1), 2))
}

/// Interrupted within a step that was begun at 1 and may be done again until 101.
fn in_doubt() -> Record {
    doubted(&begun(&claimed(), Some(MEMORY), 1))
}

fn doubted(record: &Record) -> Record {
    settle(record, &UNKNOWN).expect("it may be unknown")
}

const UNKNOWN: Settlement = Settlement::Unknown { observed: None };

fn not_applied(every_attempt: bool) -> Settlement {
    Settlement::NotApplied { every_attempt, retention: RETENTION }
}

fn outcome(class: OutcomeClass) -> Settlement {
    Settlement::Outcome { class, status: 200, response: None, retention: RETENTION }
}

fn settle(record: &Record, settlement: &Settlement) -> Result<Record, WriteRefused> {
    record.settle(&record.ownership(), settlement, at(3))
}

fn advance(
    record: &Record,
    reason: AdvanceReason,
    admission: Admission,
    now: i64,
) -> Result<Record, WriteRefused> {
    let advance = Advance { seen: record.seen(), reason, claim: claim(2, admission) };
    record.advance(&advance, 0, at(now)).map(|(next, _)| next)
}

fn resumed() -> Record {
    advance(&accounted(), AdvanceReason::Resume, Admission::BySteps, 4).expect("accounted")
}

fn resent() -> Record {
    let reason = AdvanceReason::Resend { before: at(101) };
    advance(&in_doubt(), reason, Admission::BySteps, 4).expect("in time")
}

#[test]
fn a_steps_name_is_plain_and_short() {
    for name in ["charge", "Send-Mail_2.v1", &"x".repeat(128)] {
        assert_eq!(StepName::new(name).map(|name| name.to_string()), Ok(name.to_owned()));
    }
    for name in ["", "a b", "a/b", "straße", &"x".repeat(129)] {
        assert_eq!(StepName::new(name), Err(StepNameError), "{name:?}");
    }
}

#[test]
fn the_first_step_admits_and_each_leaves_a_doubt_until_it_ends() {
    let first = begun(&claimed(), None, 5);
    assert_eq!(first.state(at(5)), State::Executing);
    assert_eq!(first.first_admitted, Some(at(5)));
    assert_eq!(first.lease_end, Some(at(35)));
    assert_eq!(first.progress, Progress::InDoubt { resend_before: None });
    let between = ended(&first, 6);
    assert_eq!((between.progress, between.lease_end), (Progress::Accounted, Some(at(36))));
    let second = begun(&between, Some(MEMORY), 7);
    assert_eq!(second.progress, Progress::InDoubt { resend_before: Some(at(107)) });
    assert_eq!(second.first_admitted, Some(at(5)), "it was admitted before");
    assert_eq!(begun(&second, None, 8).progress, second.progress, "issued again by its attempt");
}

#[test]
fn a_stranger_is_fenced_from_steps_before_it_learns_anything() {
    for record in [claimed(), begun(&claimed(), None, 1), record(Admission::WithClaim), resent()] {
        let mine = record.ownership();
        let other_owner = Ownership { owner: Owner::from_bytes([9; 16]), ..mine };
        let other_attempt = Ownership { attempt: mine.attempt.next(0), ..mine };
        for stranger in [other_owner, other_attempt] {
            let begun = record.begin_step(&stranger, None, LEASE, at(500));
            assert_eq!(begun, Err(WriteRefused::Fenced));
            assert_eq!(record.end_step(&stranger, LEASE, at(500)), Err(WriteRefused::Fenced));
        }
    }
}

#[test]
fn what_is_uncertain_or_ended_begins_no_step() {
    let done = settle(&accounted(), &outcome(OutcomeClass::Succeeded)).expect("its owner");
    assert!(done.end_step(&done.ownership(), LEASE, at(5)).is_err());
    for record in [accounted(), in_doubt(), done] {
        let mine = record.ownership();
        assert!(record.begin_step(&mine, None, LEASE, at(5)).is_err(), "{record:?}");
    }
}

#[test]
fn the_late_end_of_a_step_accounts_for_it_and_begins_nothing() {
    let record = in_doubt();
    assert_eq!(record.own_state, OwnState::Uncertain);
    let mine = record.ownership();
    let ended = record.end_step(&mine, LEASE, at(5)).expect("its owner knows");
    assert_eq!(ended, Record { progress: Progress::Accounted, ..record.clone() });
    assert_eq!(ended.end_step_again(&mine, LEASE, at(6)), Ok(ended.clone()));
    assert!(ended.begin_step(&mine, None, LEASE, at(6)).is_err());
    let stranger = Ownership { owner: Owner::from_bytes([9; 16]), ..mine };
    assert_eq!(record.end_step(&stranger, LEASE, at(5)), Err(WriteRefused::Fenced));
}

#[test]
fn an_attempt_judged_as_a_whole_takes_no_steps() {
    for admission in [Admission::WithClaim, Admission::Separate] {
        let record = record(admission);
        let mine = record.ownership();
        assert_eq!(record.begin_step(&mine, None, LEASE, at(1)), Err(WriteRefused::NoSteps));
        assert_eq!(record.end_step(&mine, LEASE, at(1)), Err(WriteRefused::NoSteps));
    }
}

#[test]
fn only_what_the_steps_account_for_is_resumed() {
    let resumed = resumed();
    assert_eq!((resumed.attempt.number(), resumed.clean), (2, false));
    assert_eq!((resumed.own_state, resumed.progress), (OwnState::Claimed, Progress::Accounted));
    assert_eq!(resumed.first_admitted, Some(at(1)));
    let resume = |record: &Record, admission| advance(record, AdvanceReason::Resume, admission, 4);
    assert_eq!(resume(&in_doubt(), Admission::BySteps), Err(WriteRefused::StepInDoubt));
    let whole = doubted(&record(Admission::WithClaim));
    for admission in [Admission::BySteps, Admission::WithClaim] {
        assert_eq!(resume(&whole, admission), Err(WriteRefused::StepInDoubt));
    }
    for record in [claimed(), begun(&claimed(), None, 1), ended(&begun(&claimed(), None, 1), 2)] {
        let refused = resume(&record, Admission::BySteps);
        assert!(matches!(refused, Err(WriteRefused::Illegal(_))), "{refused:?}");
    }
}

#[test]
fn a_step_in_doubt_is_done_again_only_before_its_moment() {
    let record = in_doubt();
    // A claimant that trusts in more than the step was given is refused all the same.
    for (before, now) in [(at(101), 101), (at(9999), 101), (at(50), 50)] {
        let reason = AdvanceReason::Resend { before };
        let late = advance(&record, reason, Admission::BySteps, now);
        assert_eq!(late, Err(WriteRefused::ResendOver));
    }
    let never = doubted(&begun(&claimed(), None, 1));
    let reason = AdvanceReason::Resend { before: at(9999) };
    let refused = advance(&never, reason, Admission::BySteps, 4);
    assert_eq!(refused, Err(WriteRefused::ResendOver));

    let next = advance(&record, reason, Admission::BySteps, 100).expect("in time");
    assert_eq!((next.own_state, next.progress), (OwnState::Claimed, record.progress));
    let mine = next.ownership();
    let begin = |now| next.begin_step(&mine, Some(MEMORY), LEASE, at(now));
    assert_eq!(begin(101), Err(WriteRefused::ResendOver), "it is checked when it is used");
    assert_eq!(
        begin(100).expect("in time").progress,
        record.progress,
        "the first beginning counts"
    );
    assert_eq!(next.end_step(&mine, LEASE, at(100)), Err(WriteRefused::StepInDoubt));
    let admitted = next.admit(&mine, LEASE, Some(at(9999)), at(100));
    assert_eq!(admitted, Err(WriteRefused::StepInDoubt), "only that step admits");
    // Once it is begun again, it may take longer than that.
    assert!(begun(&begin(100).expect("in time"), None, 120).lease_end == Some(at(150)));
}

#[test]
fn a_takeover_of_a_later_attempt_keeps_the_doubt() {
    let reason = AdvanceReason::LeaseOver;
    for (record, progress) in [(resumed(), Progress::Accounted), (resent(), in_doubt().progress)] {
        let third = advance(&record, reason, Admission::BySteps, 40).expect("its lease is over");
        assert_eq!((third.attempt.number(), third.clean), (3, false));
        assert_eq!((third.progress, third.first_admitted), (progress, Some(at(1))));
    }
    let fresh = advance(&claimed(), reason, Admission::WithClaim, 40).expect("nothing happened");
    assert_eq!((fresh.progress, fresh.clean), (Progress::Whole, true));
}

#[test]
fn steps_and_a_whole_do_not_continue_each_other() {
    let whole = doubted(&record(Admission::WithClaim));
    let resend = AdvanceReason::Resend { before: at(50) };
    let no_steps = Err(WriteRefused::NoSteps);
    assert_eq!(advance(&whole, resend, Admission::BySteps, 4), no_steps);
    for admission in [Admission::WithClaim, Admission::Separate] {
        assert_eq!(advance(&in_doubt(), resend, admission, 4), no_steps);
        assert_eq!(advance(&accounted(), AdvanceReason::Resume, admission, 4), no_steps);
        assert_eq!(advance(&resumed(), AdvanceReason::LeaseOver, admission, 40), no_steps);
    }
    // A stub has had none: it takes either.
    let stub = settle(&claimed(), &not_applied(false)).expect("nothing happened");
    for admission in [Admission::WithClaim, Admission::Separate, Admission::BySteps] {
        advance(&stub, AdvanceReason::Released, admission, 4).expect("it is free");
    }
}

#[test]
fn what_an_interrupted_execution_gets() {
    let never = doubted(&begun(&claimed(), None, 1));
    let resend = Decision::Advance(AdvanceReason::Resend { before: at(101) });
    let resume = Decision::Advance(AdvanceReason::Resume);
    let take_over = Decision::Advance(AdvanceReason::LeaseOver);
    let cases = [
        (accounted(), 5, &RULES, resume),
        (accounted(), 9999, &RULES, resume),
        (accounted(), 5, &ELSEWHERE, Decision::Hold),
        (in_doubt(), 100, &RULES, resend),
        (in_doubt(), 101, &RULES, Decision::Hold),
        (in_doubt(), 5, &ELSEWHERE, Decision::Hold),
        (never, 5, &RULES, Decision::Hold),
        (begun(&claimed(), None, 1), 30, &RULES, Decision::InFlight),
        (begun(&claimed(), None, 1), 31, &RULES, Decision::Doubt),
        (resumed(), 40, &RULES, take_over),
        (resumed(), 40, &ELSEWHERE, Decision::Hold),
        (resent(), 40, &ELSEWHERE, Decision::Hold),
        // Nothing was done anywhere.
        (claimed(), 40, &ELSEWHERE, take_over),
    ];
    for (record, now, rules, expected) in cases {
        let decided = decide(&record, Comparison::Same, at(now), rules);
        assert_eq!(decided, expected, "{record:?} at {now}");
    }
}

#[test]
fn a_failure_needs_every_effect_accounted_for() {
    let failure = outcome(OutcomeClass::FailedTerminal);
    let resumed = begun(&resumed(), None, 5);
    assert_eq!(settle(&resumed, &failure), Err(WriteRefused::NotClean), "a step is in doubt");
    assert!(settle(&ended(&resumed, 6), &failure).is_ok());
    assert!(settle(&accounted(), &failure).is_ok(), "a late one of an accounted execution");
    assert_eq!(settle(&in_doubt(), &failure), Err(WriteRefused::NotClean));
    let unclean = Record { clean: false, ..record(Admission::WithClaim) };
    assert_eq!(settle(&unclean, &failure), Err(WriteRefused::NotClean));
    assert!(settle(&record(Admission::WithClaim), &failure).is_ok());
}

#[test]
fn after_the_first_step_a_release_needs_the_word_for_every_attempt() {
    let first = begun(&claimed(), None, 1);
    for record in [first.clone(), ended(&first, 2), accounted(), in_doubt(), resumed(), resent()] {
        assert_eq!(settle(&record, &not_applied(false)), Err(WriteRefused::NotClean));
        let stub = settle(&record, &not_applied(true)).expect("nothing happened at all");
        assert_eq!((stub.clean, stub.progress), (true, Progress::Whole), "a stub has no steps");
        assert_eq!(settle(&stub, &not_applied(true)), Ok(stub.clone()), "issued again");
    }
    assert!(settle(&claimed(), &not_applied(false)).is_ok(), "no step was begun");
}

#[test]
fn a_claim_that_was_not_admitted_is_unknown_only_if_it_was_before() {
    for record in [resumed(), resent()] {
        let unknown = settle(&record, &UNKNOWN).expect("an earlier attempt leaves it in doubt");
        assert_eq!(unknown.state(at(4)), State::Uncertain);
        assert_eq!(unknown.progress, record.progress);
    }
    for admission in [Admission::BySteps, Admission::Separate] {
        let refused = settle(&record(admission), &UNKNOWN);
        assert!(matches!(refused, Err(WriteRefused::Illegal(_))), "{refused:?}");
    }
}

#[test]
fn what_was_seen_includes_the_progress() {
    let record = accounted();
    let seen = Record { progress: Progress::InDoubt { resend_before: None }, ..record.clone() };
    let reason = AdvanceReason::Resume;
    let advance = Advance { seen: seen.seen(), reason, claim: claim(2, Admission::BySteps) };
    assert_eq!(record.advance(&advance, 0, at(4)), Err(WriteRefused::Fenced));
}
