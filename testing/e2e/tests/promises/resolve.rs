//! Operators settle what is unknown, while the gateway runs.

use std::thread;

use hapax_testkit::{Ran, Request, Stage, eventually, fresh_key};

use crate::SOON;

const BODY: &str = r#"{"id":"pay_1","said":"by hand"}"#;

/// A payment whose outcome is unknown, and its effect id.
fn unknown(stage: &Stage, script: &str) -> (Request, String) {
    let payment = Request::payment(&fresh_key());
    let answer = stage.gateway.send(&payment.clone().act(script));
    answer.assert_problem(409, "outcome-unknown");
    let arrivals = stage.upstream.arrivals();
    (payment, arrivals.last().expect("an arrival").effect_id().to_string())
}

fn resolve(stage: &Stage, args: &[&str]) -> Ran {
    stage.records(&[&["resolve", "--actor", "ada", "--reason", "INC-42"], args].concat())
}

#[track_caller]
fn assert_ran(ran: &Ran, code: i32, said: &str) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(ran.stdout.contains(said) || ran.stderr.contains(said), "{said}: {ran:?}");
}

#[test]
fn b10_an_outcome_that_an_operator_found_out_is_what_retries_get() {
    let stage = Stage::new();
    let (payment, effect_id) = unknown(&stage, "effect; cut");
    let body = stage.dir().join("payment.json");
    std::fs::write(&body, BODY).expect("written");
    let body = format!("@{}", body.display());
    let applied = ["--effect-id", &effect_id, "--applied", "--status", "201"];
    let answer = ["--header", "Content-Type: application/json", "--body", &body];
    assert_ran(&resolve(&stage, &[&applied[..], &answer].concat()), 0, "applied");
    let replay = stage.gateway.send(&payment);
    assert_eq!((replay.status, &*replay.text()), (201, BODY), "{replay:?}");
    assert!(replay.is_replay(), "{replay:?}");
    assert_eq!(replay.all("content-type"), ["application/json"]);
    stage.upstream.assert_arrivals(1);
    let shown = stage.records(&["show", "--effect-id", &effect_id]).stdout;
    assert!(shown.contains("judged-applied  by ada: INC-42"), "{shown}");
    let json = stage.records(&["show", "--effect-id", &effect_id, "--json"]).json();
    let last = json["history"].as_array().and_then(|history| history.last()).expect("an entry");
    assert_eq!((&last["actor"], &last["reason"]), (&"ada".into(), &"INC-42".into()));
    // It is final.
    assert_ran(&resolve(&stage, &applied), 1, "it has an outcome");
    stage.gateway.send(&payment).assert_replays(&replay);
}

#[test]
fn an_outcome_without_its_answer_is_not_executed_again() {
    let stage = Stage::new();
    let (payment, effect_id) = unknown(&stage, "effect; cut");
    assert_ran(
        &resolve(&stage, &["--effect-id", &effect_id, "--applied", "--status", "201"]),
        0,
        "applied",
    );
    stage.gateway.send(&payment).assert_problem(409, "outcome-not-kept");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t18_not_applied_needs_a_word_on_what_is_still_under_way_and_frees_the_key() {
    let stage = Stage::new();
    let (payment, effect_id) = unknown(&stage, "cut");
    let not_applied = ["--effect-id", &effect_id, "--not-applied"];
    assert_ran(&resolve(&stage, &not_applied), 2, "--risk");
    stage.gateway.send(&payment).assert_problem(409, "outcome-unknown");
    let risk = ["--risk", "it was a test"];
    assert_ran(&resolve(&stage, &[&not_applied[..], &risk].concat()), 0, "the key is free");
    stage.gateway.send(&payment).assert_stored(201);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.iter().map(|it| it.attempt()).collect::<Vec<_>>(), [1, 2]);
    let shown = stage.records(&["show", "--effect-id", &effect_id]).stdout;
    let said = "judged-not-applied  by ada: INC-42 (risk accepted: it was a test)";
    assert!(shown.contains(said), "{shown}");
}

#[test]
fn t18_what_is_under_way_is_not_resolved() {
    let stage = Stage::new();
    let key = fresh_key();
    let first = stage.gateway.start(&Request::payment(&key).act("gate answer"));
    stage.upstream.arrived(1);
    let applied = ["--key", &key, "--applied", "--status", "201"];
    assert_ran(&resolve(&stage, &applied), 1, "an attempt is under way");
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    assert_ran(&resolve(&stage, &applied), 1, "it has an outcome");
    stage.gateway.send(&Request::payment(&key)).assert_replays(&first);
}

#[test]
fn what_a_dead_gateway_left_behind_can_be_resolved() {
    let mut stage = Stage::with(&["--lease", "1s"]);
    let key = fresh_key();
    let _lost = stage.gateway.start(&Request::payment(&key).act("effect; gate answer"));
    eventually("the effect happens", SOON, || stage.upstream.effects().len() == 1);
    stage.gateway.kill();
    let resolve = || {
        let answer = ["--key", &key, "--applied", "--status", "200", "--body", BODY];
        resolve(&stage, &answer).code == Some(0)
    };
    eventually("its lease is over", SOON, resolve);
    stage.gateway.restart();
    assert_eq!(stage.gateway.send(&Request::payment(&key)).text(), BODY);
}

#[test]
fn many_are_resolved_by_a_filter_within_a_limit_and_not_at_all_on_trial() {
    let stage = Stage::new();
    let payments: Vec<_> = (0..3).map(|_| unknown(&stage, "effect; cut").0).collect();
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    let all = ["--state", "uncertain", "--applied", "--status", "201"];
    let with = |more: &[&str]| resolve(&stage, &[&all[..], more].concat());
    assert_ran(&with(&[]), 2, "--max");
    assert_ran(&with(&["--max", "2"]), 2, "3 records match, and --max is 2: none is resolved");
    assert_ran(&with(&["--max", "9", "--older-than", "1h"]), 1, "no uncertain record matches");
    assert_ran(&with(&["--max", "9", "--operation", "other"]), 1, "no uncertain record matches");
    assert_ran(&with(&["--max", "9", "--dry-run"]), 0, "would be applied");
    let answer = ["--max", "9", "--body", BODY];
    assert_ran(&with(&answer), 2, "3 records match, and an answer belongs to one");
    for scope in [&["--scope", "acme"][..], &["--single-tenant"]] {
        let of_a_scope = [&["--max", "9", "--dry-run"], scope].concat();
        assert_ran(&with(&of_a_scope), 2, "cannot be used with");
    }
    for payment in &payments {
        stage.gateway.send(payment).assert_problem(409, "outcome-unknown");
    }
    let ran = with(&["--max", "3", "--operation", "default", "--json"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 3), "{ran:?}");
    assert!(ran.stdout.lines().all(|line| line.contains("\"resolved\":true")), "{ran:?}");
    for payment in &payments {
        stage.gateway.send(payment).assert_problem(409, "outcome-not-kept");
    }
    stage.upstream.assert_arrivals(4);
}

#[test]
fn of_many_verdicts_at_once_one_stands() {
    let stage = Stage::new();
    let (payment, effect_id) = unknown(&stage, "effect; cut");
    let statuses = ["200", "201", "202", "402"];
    let resolved = thread::scope(|scope| {
        let one = |status| {
            let args = ["--effect-id", &*effect_id, "--applied", "--status", status, "--body", ""];
            (resolve(&stage, &args).code == Some(0)).then_some(status)
        };
        let runs = statuses.map(|status| scope.spawn(move || one(status)));
        runs.into_iter().filter_map(|run| run.join().expect("it ran")).collect::<Vec<_>>()
    });
    assert_eq!(resolved.len(), 1, "{resolved:?}");
    assert_eq!(stage.gateway.send(&payment).status.to_string(), resolved[0]);
}
