//! What `docs/library.md` says of the examples is so.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use hapax_testkit::{Request, fresh_key};
use kit::{Database, Program};

const LIBRARY: &str = include_str!("../../docs/library.md");
const BEFORE: &str = include_str!("../before_after/before.rs");
const AFTER: &str = include_str!("../before_after/after.rs");

fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    LIBRARY.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The lines of a unified diff, without its heads.
fn changes(diff: &str) -> impl Iterator<Item = (char, &str)> {
    let heads = ["--- ", "+++ ", "@@ "];
    let lines = diff.lines().filter(move |line| !heads.iter().any(|head| line.starts_with(head)));
    lines.map(|line| line.split_at_checked(1).map_or((' ', ""), |(sign, rest)| (first(sign), rest)))
}

fn first(text: &str) -> char {
    text.chars().next().unwrap()
}

#[test]
fn a_transactional_route_takes_at_most_ten_changed_lines() {
    let diffs = blocks("diff");
    let changed = diffs.iter().flat_map(|diff| changes(diff)).filter(|(sign, _)| *sign != ' ');
    let changed: Vec<_> = changed.collect();
    assert!(changed.len() <= 10, "{changed:#?}");
}

#[test]
fn the_shown_difference_is_that_of_the_two_files() {
    // Applied to the one it gives the other: every line that it shows of either is there.
    let mut before = BEFORE.lines();
    let mut after = Vec::new();
    for (sign, text) in changes(blocks("diff")[0]) {
        if sign == '+' {
            after.push(text);
            continue;
        }
        // Lines that are not shown are the same in both.
        loop {
            let line = before.next().unwrap_or_else(|| panic!("not in before.rs: {text}"));
            if line == text {
                break;
            }
            after.push(line);
        }
        if sign == ' ' {
            after.push(text);
        }
    }
    after.extend(before);
    assert_eq!(after, AFTER.lines().collect::<Vec<_>>());
}

#[test]
fn the_shown_service_is_that_of_the_file() {
    let shown = blocks("rust").into_iter().find(|block| block.contains("fn main")).unwrap();
    assert!(BEFORE.contains(shown.trim_end()), "{shown}");
}

#[test]
fn before_a_retry_makes_two_orders_and_after_it_makes_one() {
    let request = Request::post("/orders", r#"{"item":"tea"}"#).key(&fresh_key());
    for (binary, orders) in
        [(env!("CARGO_BIN_EXE_orders-before"), 2), (env!("CARGO_BIN_EXE_orders-after"), 1)]
    {
        let dir = tempfile::tempdir().unwrap();
        let service = Program::new(binary).within(dir.path()).serve();
        let first = service.send(&request);
        let second = service.send(&request);
        assert_eq!((first.status, second.status), (201, 201));
        assert_eq!(first.body == second.body, orders == 1, "{second:?}");
        let database = Database::in_file(&dir.path().join("orders.db"));
        assert_eq!(database.count("orders"), orders, "{binary}");
        assert_eq!(database.one::<i64>("SELECT left FROM stock"), 100 - orders, "{binary}");
        let unknown = Request::post("/orders", r#"{"item":"water"}"#).key(&fresh_key());
        assert_eq!(service.send(&unknown).status, 404);
        assert_eq!(database.count("orders"), orders, "{binary}");
    }
}
