//! The judge finds each thing that must not be, and nothing in what is as promised.

use super::*;

const PAID: &str = r#"{"id":"pay_1","amount":1200}"#;

fn told(at: u64, status: u16, body: &str) -> Told {
    Told {
        at,
        status,
        problem: None,
        outcome: None,
        replayed: false,
        kept: status < 300,
        body: body.to_owned(),
    }
}

fn problem(at: u64, status: u16, name: &str, outcome: &str) -> Told {
    let outcome = Some(outcome.to_owned()).filter(|said| !said.is_empty());
    Told { problem: Some(name.to_owned()), outcome, kept: false, ..told(at, status, "{}") }
}

fn call(n: u64, began: u64, told: Option<Told>) -> Call {
    Call { n, key: "key a".to_owned(), intent: "a".to_owned(), began, told }
}

fn arrived(n: u64, at: u64, attempt: u64) -> Arrived {
    let (effect_id, intent) = ("id a".to_owned(), "a".to_owned());
    Arrived { n, at, effect_id, attempt, intent, content: "a".to_owned() }
}

fn recorded(state: &str, on_unknown: &str, entries: &[(u64, &str)]) -> Recorded {
    let entry = |(attempt, what): &(u64, &str)| Entry { attempt: *attempt, what: (*what).into() };
    Recorded {
        effect_id: "id a".to_owned(),
        state: state.to_owned(),
        on_unknown: on_unknown.to_owned(),
        entries: entries.iter().map(entry).collect(),
    }
}

/// Lost, unknown, sent again by permission, told, replayed; another intent is refused.
fn good() -> History {
    let replayed = Told { replayed: true, ..told(70, 201, PAID) };
    let changed = call(5, 80, Some(problem(90, 422, "key-reused", "")));
    History {
        one_effect: true,
        resends: true,
        calls: vec![
            call(1, 10, None),
            call(2, 30, Some(problem(40, 503, "outcome-unknown", "unknown"))),
            call(3, 45, Some(told(60, 201, PAID))),
            call(4, 65, Some(replayed)),
            Call { intent: "b".to_owned(), ..changed },
        ],
        arrivals: vec![arrived(1, 15, 1), arrived(2, 50, 2)],
        effects: vec![Made { n: 1, at: 16, arrival: 1 }],
        records: vec![recorded("succeeded", "resend", &[(1, "superseded"), (2, "resent")])],
    }
}

#[track_caller]
fn assert_finds(name: &str, rules: &[Rule], break_it: impl FnOnce(&mut History)) {
    let mut history = good();
    break_it(&mut history);
    let mut found: Vec<_> = history.findings().iter().map(|finding| finding.rule).collect();
    found.sort();
    found.dedup();
    assert_eq!(found, rules, "{name}: {:#?}", history.findings());
}

#[test]
fn what_is_as_promised_has_no_findings() {
    good().assert_as_promised();
    History::default().assert_as_promised();
}

#[test]
fn a_history_is_data() {
    let text = serde_json::to_string(&good()).unwrap();
    let read: History = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

/// A client's timeout is neither a success nor a failure.
#[test]
fn p50_a_call_without_an_answer_may_have_done_anything() {
    for effects in [vec![], vec![Made { n: 1, at: 16, arrival: 1 }]] {
        for state in ["succeeded", "uncertain", "released"] {
            let mut history = good();
            history.calls.truncate(1);
            history.arrivals.truncate(1);
            history.effects.clone_from(&effects);
            history.records = vec![recorded(state, "hold", &[])];
            history.assert_as_promised();
        }
    }
    // Nothing may have arrived, and nothing be recorded.
    let calls = vec![call(1, 10, None)];
    History { one_effect: true, calls, ..History::default() }.assert_as_promised();
}

#[test]
fn p49_each_rule_is_seen_failing() {
    use Rule::*;
    let second = Made { n: 2, at: 51, arrival: 2 };
    assert_finds("two effects", &[Twice], |it| it.effects.push(second));
    assert_finds("no effect", &[SuccessWithoutEffect], |it| it.effects.clear());
    assert_finds("nothing arrived", &[SuccessWithoutEffect], |it| {
        (it.arrivals, it.effects) = (vec![], vec![]);
    });
    assert_finds("another's effect", &[AnotherEffect], |it| {
        for call in &mut it.calls[2..4] {
            call.told.as_mut().unwrap().body = r#"{"id":"pay_7"}"#.to_owned();
        }
    });
    assert_finds("a refusal is told after the effect", &[DeniedEffect], |it| {
        it.calls[1].told = Some(told(40, 401, "no"));
    });
    assert_finds("not-applied is told after the effect", &[DeniedEffect], |it| {
        it.calls[1].told = Some(problem(40, 503, "upstream-unreachable", "not-applied"));
    });
    assert_finds("a failure is final and there is an effect", &[DeniedEffect], |it| {
        for call in &mut it.calls[2..4] {
            *call.told.as_mut().unwrap() = Told { kept: true, ..told(60, 402, "declined") };
        }
    });
    assert_finds("two answers", &[AnswersDisagree], |it| {
        it.calls[3].told.as_mut().unwrap().body = r#"{"id":"pay_1","amount":1}"#.to_owned();
    });
    assert_finds("two statuses", &[AnswersDisagree], |it| {
        it.calls[3].told.as_mut().unwrap().status = 200;
    });
    assert_finds("unknown after an answer", &[Forgotten], |it| {
        it.calls[3].told = Some(problem(70, 409, "outcome-unknown", "unknown"));
    });
    assert_finds("in flight after an answer", &[Forgotten], |it| {
        it.calls[3].told = Some(problem(70, 409, "in-flight", "unknown"));
    });
    assert_finds("the record knows nothing of it", &[Forgotten], |it| {
        it.records[0].state = "uncertain".to_owned();
    });
    assert_finds("another intent is answered", &[SuccessWithoutEffect, ChangedIntent], |it| {
        it.calls[4].told = Some(Told { replayed: true, ..told(90, 201, PAID) });
    });
    assert_finds("another intent is sent", &[SuccessWithoutEffect, ChangedIntent], |it| {
        it.arrivals[1].content = "b".to_owned();
    });
    assert_finds("refused, and it is the only one", &[RefusedWithoutCause], |it| {
        it.calls[4].key = "key b".to_owned();
    });
    assert_finds("a doubt that is not said", &[DoubtNotSaid], |it| {
        it.calls[1].told = Some(problem(40, 409, "outcome-unknown", ""));
    });
    assert_finds("a 500 without a mark", &[DoubtNotSaid], |it| {
        it.calls[1].told = Some(told(40, 500, "broken"));
    });
    assert_finds("one attempt twice", &[SentTwice], |it| it.arrivals[1].attempt = 1);
    assert_finds("sent again under hold", &[NoPermit], |it| {
        it.records[0].on_unknown = "hold".to_owned();
    });
    assert_finds("sent again though the service does not collapse", &[NoPermit], |it| {
        it.resends = false;
    });
    assert_finds("sent again without a word", &[NoPermit], |it| it.records[0].entries.clear());
    assert_finds("no record", &[NoRecord], |it| it.records.clear());
    for state in ["executing", "claimed"] {
        assert_finds(state, &[NotHealed], |it| {
            it.calls.truncate(2);
            it.records[0].state = state.to_owned();
        });
    }
}

#[test]
fn a_verdict_that_nothing_happened_permits_the_next_attempt() {
    for freed in ["released", "judged-not-applied"] {
        let mut history = good();
        history.records = vec![recorded("succeeded", "hold", &[(1, freed)])];
        history.effects = vec![Made { n: 1, at: 51, arrival: 2 }];
        history.assert_as_promised();
    }
}
