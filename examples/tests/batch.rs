//! `batch`: many operations in one request, each with its own id and outcome.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use std::path::Path;

use hapax_testkit::{Answer, Pending, Request, eventually, until};
use kit::{Database, ENDS, Program, SHORT_LEASE};
use serde_json::{Value, json};

fn batch_in(dir: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_batch")).database(dir).arg("--lease", SHORT_LEASE)
}

fn batch(items: impl IntoIterator<Item = (String, u32)>) -> Request {
    let items: Vec<_> =
        items.into_iter().map(|(id, amount)| json!({ "id": id, "amount": amount })).collect();
    Request::post("/payments/batch", &json!({ "items": items }).to_string())
}

fn items(count: u32) -> impl Iterator<Item = (String, u32)> + Clone {
    (0..count).map(|n| (format!("item-{n}"), n + 1))
}

fn read(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 207, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// What the items say, but for whether it is a replay.
fn numbers(answers: &[Value]) -> Vec<(String, i64)> {
    let number = |answer: &Value| Some((answer["id"].as_str()?.into(), answer["number"].as_i64()?));
    answers.iter().filter_map(number).collect()
}

#[test]
fn f1_each_item_of_a_batch_has_its_own_outcome_and_is_done_once() {
    let dir = tempfile::tempdir().unwrap();
    let service = batch_in(dir.path()).serve();
    let database = Database::of(dir.path());
    let item = |id: &str, amount| (id.to_owned(), amount);
    let mixed = batch([item("a", 10), item("b", 0), item("a", 10), item("a", 99), item("c", 30)]);
    let answers = read(&service.send(&mixed));
    let statuses: Vec<_> =
        answers.iter().map(|a| (a["id"].as_str(), a["status"].as_u64())).collect();
    let expected = [("a", 201), ("b", 422), ("a", 201), ("a", 422), ("c", 201)];
    assert_eq!(statuses, expected.map(|(id, status)| (Some(id), Some(status))));
    // Which of two copies at once does it is open; it is one of them.
    assert_ne!(answers[0]["replayed"], answers[2]["replayed"], "{answers:?}");
    assert_eq!(answers[0]["number"], answers[2]["number"]);
    assert_eq!(database.count("payments"), 2);

    // All of it again, corrected: only what was not done is.
    let again = read(&service.send(&batch([item("a", 10), item("b", 20), item("c", 30)])));
    let replayed: Vec<_> = again.iter().map(|answer| answer["replayed"].as_bool()).collect();
    assert_eq!(replayed, [Some(true), Some(false), Some(true)], "{again:?}");
    assert_eq!(again[0]["number"], answers[0]["number"]);
    // In which order the items of a batch are done is open.
    let ids = "SELECT group_concat(id) FROM (SELECT id FROM payments ORDER BY id)";
    assert_eq!(database.one::<String>(ids), "a,b,c");
}

#[test]
fn a_batch_of_hundreds_is_done_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let service = batch_in(dir.path()).serve();
    let first = read(&service.send(&batch(items(200))));
    let ids: Vec<_> = numbers(&first).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, items(200).map(|(id, _)| id).collect::<Vec<_>>(), "{first:?}");
    assert_eq!(Database::of(dir.path()).count("payments"), 200);
    assert_eq!(numbers(&read(&service.send(&batch(items(200))))), numbers(&first));
}

#[test]
fn t01_copies_of_a_batch_at_once_do_each_item_once() {
    let dir = tempfile::tempdir().unwrap();
    let service = batch_in(dir.path()).serve();
    let copies: Vec<_> = (0..4).map(|_| service.start(&batch(items(20)))).collect();
    let answers: Vec<_> = copies.into_iter().map(Pending::answer).collect();
    for answer in &answers {
        assert_eq!(numbers(&read(answer)).len(), 20, "{answer:?}");
        assert_eq!(numbers(&read(answer)), numbers(&read(&answers[0])));
    }
    assert_eq!(Database::of(dir.path()).count("payments"), 20);
}

#[test]
fn killed_in_the_middle_and_sent_again_each_item_is_done_once() {
    let dir = tempfile::tempdir().unwrap();
    let program = batch_in(dir.path());
    let mut service = program.serve();
    let database = Database::of(dir.path());
    let whole = batch(items(60));
    let mut killed = 0;
    // Each time when some more are done, and not all.
    for done in [5, 20, 40] {
        let mut asked = service.start(&whole);
        eventually("some are done", ENDS, || {
            // Items that died with the last process are told to be sent again, until their lease
            // is over.
            if asked.is_done() {
                asked = service.start(&whole);
            }
            database.count("payments") >= done
        });
        service.process.kill();
        killed += i32::from(asked.result().is_err());
        service = program.serve();
    }
    assert!(killed > 0, "it was never killed in the middle");
    let answers = until("all are done", ENDS, || {
        let answers = read(&service.send(&whole));
        (numbers(&answers).len() == 60).then_some(answers)
    });
    assert_eq!(database.count("payments"), 60);
    assert_eq!(database.one::<i64>("SELECT count(DISTINCT id) FROM payments"), 60);
    for (id, number) in numbers(&answers) {
        let stored = format!("SELECT id FROM payments WHERE n = {number}");
        assert_eq!(database.one::<String>(&stored), id);
    }
}
