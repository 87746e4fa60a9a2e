//! `orders`: an effect that is one transaction.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use std::path::Path;

use hapax_testkit::{Answer, Pending, Request, eventually, fresh_key};
use kit::{Database, ENDS, Program, Service};
use tempfile::TempDir;

fn orders(dir: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_orders")).database(dir)
}

fn world() -> (TempDir, Program, Service, Database) {
    let dir = tempfile::tempdir().unwrap();
    let program = orders(dir.path());
    let service = program.serve();
    let database = Database::of(dir.path());
    (dir, program, service, database)
}

fn order(reference: &str, lines: &[(&str, u32)]) -> Request {
    let lines: Vec<_> =
        lines.iter().map(|(sku, count)| format!(r#"{{"sku":"{sku}","count":{count}}}"#)).collect();
    let lines = lines.join(",");
    let json = format!(r#"{{"customer":"acme","reference":"{reference}","lines":[{lines}]}}"#);
    Request::post("/orders", &json).key(&fresh_key())
}

/// Everything that an order changes.
#[derive(Debug, Eq, PartialEq)]
struct Written {
    orders: i64,
    lines: i64,
    tea: i64,
    coffee: i64,
    records: i64,
    endings: i64,
    bodies: i64,
}

impl Written {
    fn in_(database: &Database) -> Self {
        let left = |sku| database.one(&format!("SELECT left FROM stock WHERE sku = '{sku}'"));
        Self {
            orders: database.count("orders"),
            lines: database.count("lines"),
            tea: left("tea"),
            coffee: left("coffee"),
            records: database.count("hapax_record"),
            endings: database.count("hapax_ending"),
            bodies: database.count("hapax_body"),
        }
    }

    const NOTHING: Self =
        Self { orders: 0, lines: 0, tea: 100, coffee: 5, records: 0, endings: 0, bodies: 0 };

    const ONCE: Self =
        Self { orders: 1, lines: 2, tea: 98, coffee: 4, records: 1, endings: 1, bodies: 1 };
}

#[test]
fn an_order_is_made_once_and_its_retries_get_the_same_bytes() {
    let (_dir, program, service, database) = world();
    let request = order("PO-1", &[("tea", 2), ("coffee", 1)]);
    let first = service.send(&request);
    first.assert_stored(201);
    assert_eq!(first.field("location").as_deref(), Some("/orders/1"));
    service.send(&request).assert_replays(&first);
    assert_eq!(Written::in_(&database), Written::ONCE);
    // Also by the next process, whether this one ended in order or was killed.
    service.stop();
    let mut service = program.serve();
    service.send(&request).assert_replays(&first);
    service.process.kill();
    program.serve().send(&request).assert_replays(&first);
    assert_eq!(Written::in_(&database), Written::ONCE);
}

#[test]
fn t02_a_changed_order_under_a_used_key_is_refused() {
    let (_dir, _, service, database) = world();
    let key = fresh_key();
    service.send(&order("PO-1", &[("tea", 2), ("coffee", 1)]).key(&key)).assert_stored(201);
    let changed = order("PO-1", &[("tea", 3), ("coffee", 1)]).key(&key);
    service.send(&changed).assert_problem(422, "key-reused");
    let without = Request::post("/orders", "{}");
    service.send(&without).assert_problem(400, "key-missing");
    assert_eq!(Written::in_(&database), Written::ONCE);
}

#[test]
fn t01_copies_at_once_make_one_order() {
    let (_dir, _, service, database) = world();
    let request = order("PO-1", &[("tea", 2), ("coffee", 1)]);
    let copies: Vec<_> = (0..20).map(|_| service.start(&request)).collect();
    let answers: Vec<Answer> = copies.into_iter().map(Pending::answer).collect();
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (201, &answers[0].body), "{answer:?}");
    }
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(Written::in_(&database), Written::ONCE);
}

#[test]
fn what_is_no_order_frees_the_key_for_the_corrected_one() {
    let (_dir, _, service, database) = world();
    let key = fresh_key();
    for invalid in [
        order("PO-1", &[]),
        // Found out in the middle, with the order already written.
        order("PO-1", &[("tea", 1), ("water", 1)]),
    ] {
        let answer = service.send(&invalid.key(&key));
        assert_eq!(answer.status, 422, "{answer:?}");
        assert_eq!(answer.problem(), None);
    }
    let no_json = Request::post("/orders", r#"{"customer":"acme"}"#).key(&key);
    assert_eq!(service.send(&no_json).status, 422, "refused by axum's Json");
    assert_eq!(Written::in_(&database), Written::NOTHING);
    service.send(&order("PO-1", &[("tea", 2), ("coffee", 1)]).key(&key)).assert_stored(201);
    assert_eq!(Written::in_(&database), Written::ONCE);
}

#[test]
fn what_is_sold_out_is_refused_for_good_and_nothing_of_it_is_written() {
    let (_dir, _, service, database) = world();
    let request = order("PO-1", &[("tea", 2), ("coffee", 6)]);
    let first = service.send(&request);
    first.assert_stored(409);
    // A delivery comes in; this key's answer stays what it was, a new one gets the goods.
    database.execute("UPDATE stock SET left = 100 WHERE sku = 'coffee'");
    service.send(&request).assert_replays(&first);
    assert_eq!(database.count("orders") + database.count("lines"), 0);
    assert_eq!(database.one::<i64>("SELECT left FROM stock WHERE sku = 'tea'"), 100);
    service.send(&request.key(&fresh_key())).assert_stored(201);
}

#[test]
fn c19_a_second_order_of_one_reference_is_refused_by_the_business_and_counted_apart() {
    let (_dir, _, service, database) = world();
    let request = order("PO-1", &[("tea", 2), ("coffee", 1)]);
    let first = service.send(&request);
    first.assert_stored(201);
    // Equal content under another key is another intent: hapax lets it through, the business
    // does not.
    let other_key = request.clone().key(&fresh_key());
    let refused = service.send(&other_key);
    refused.assert_stored(409);
    assert_eq!((refused.problem(), refused.text().as_str()), (None, "this reference has an order"));
    service.send(&other_key).assert_replays(&refused);
    service.send(&request).assert_replays(&first);
    assert_eq!(database.count("orders"), 1);
    let metrics = service.send(&Request::get("/metrics")).text();
    let duplicates = r#"hapax_business_duplicates_total{operation="orders.create"} 1"#;
    assert!(metrics.contains(duplicates), "{metrics}");
    let replays = r#"hapax_decisions_total{operation="orders.create",decision="replay"} 2"#;
    assert!(metrics.contains(replays), "{metrics}");
    let all = service.send(&Request::get("/orders")).text();
    assert_eq!(all, r#"[{"id":1,"customer":"acme","reference":"PO-1"}]"#);
}

#[test]
fn t04_t05_a_crash_at_any_statement_leaves_nothing_and_the_retry_makes_one_order() {
    let request = order("PO-1", &[("tea", 2), ("coffee", 1)]);
    let mut crashes = 0;
    // Until there is no statement left to die at.
    loop {
        let dir = tempfile::tempdir().unwrap();
        let program = orders(dir.path());
        let place = format!("row {}", crashes + 1);
        let mut service = program.crashing(&place).serve();
        let database = Database::of(dir.path());
        let Err(_) = service.start(&request).result() else { break };
        assert!(!service.process.ended(ENDS).success());
        crashes += 1;
        assert_eq!(Written::in_(&database), Written::NOTHING, "{place}");

        let service = program.serve();
        let first = service.send(&request);
        first.assert_stored(201);
        service.send(&request).assert_replays(&first);
        assert_eq!(Written::in_(&database), Written::ONCE, "{place}");
    }
    // The claim, an order, two of stock, two lines, and the answer, right before the commit.
    assert_eq!(crashes, 7);
}

#[test]
fn orders_that_are_killed_at_any_moment_are_made_once() {
    let (_dir, program, mut service, database) = world();
    let requests: Vec<_> = (0..12).map(|n| order(&format!("PO-{n}"), &[("tea", 1)])).collect();
    for (number, request) in requests.iter().enumerate() {
        let copies: Vec<_> = (0..3).map(|_| service.start(request)).collect();
        // Killed at once, when it is committed and perhaps not yet answered, or when it is answered.
        match number % 3 {
            0 => {}
            1 => eventually("it is committed", ENDS, || {
                database.count(&format!("orders WHERE reference = 'PO-{number}'")) == 1
            }),
            _ => drop(copies.into_iter().next().map(Pending::result)),
        }
        service.process.kill();
        service = program.serve();
    }
    for request in &requests {
        let first = service.insist(request);
        service.send(request).assert_replays(&first);
    }
    assert_eq!((database.count("orders"), database.count("lines")), (12, 12));
    assert_eq!(database.one::<i64>("SELECT left FROM stock WHERE sku = 'tea'"), 88);
}
