//! `job`: no request and no key of a client; each order of a day is billed once.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use hapax_testkit::{eventually, until};
use kit::{Database, ENDS, Program, SHORT_LEASE};
use tempfile::TempDir;

const DAY: &str = "2026-01-31";

fn world(orders: u32) -> (TempDir, Program, Database) {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_job")).database(dir.path());
    let program = program.arg("--lease", SHORT_LEASE);
    // A day without orders makes the tables.
    assert_eq!(program.clone().arg("--day", "2026-01-30").run().code, Some(0));
    let database = Database::of(dir.path());
    for n in 1..=orders {
        let amount = n * 100;
        database.execute(&format!("INSERT INTO orders VALUES ({n}, '{DAY}', {amount})"));
    }
    (dir, program.arg("--day", DAY), database)
}

#[track_caller]
fn assert_billed_once(database: &Database, orders: i64) {
    assert_eq!(database.count("bills"), orders);
    assert_eq!(database.one::<i64>("SELECT count(DISTINCT order_id) FROM bills"), orders);
    let wrong = "bills JOIN orders ON orders.id = order_id AND orders.amount != bills.amount";
    assert_eq!(database.count(wrong), 0);
    let total = format!("SELECT total FROM closings WHERE day = '{DAY}'");
    assert_eq!(database.one::<i64>(&total), orders * (orders + 1) / 2 * 100);
    assert_eq!(database.count(&format!("closings WHERE day = '{DAY}'")), 1);
}

#[test]
fn a_job_that_is_run_twice_bills_each_order_once_and_says_the_same() {
    let (_dir, program, database) = world(5);
    let (first, second) = (program.run(), program.run());
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{first:?} {second:?}");
    assert!(first.stdout.contains("order 3 has bill 3\n"), "{first:?}");
    assert_eq!(first.stdout, second.stdout);
    assert_billed_once(&database, 5);
}

#[test]
fn an_order_that_changed_since_it_was_billed_is_not_billed_again() {
    let (_dir, program, database) = world(3);
    assert_eq!(program.run().code, Some(0));
    database.execute("UPDATE orders SET amount = 1 WHERE id = 2");
    let changed = program.run();
    assert_eq!(changed.code, Some(1), "{changed:?}");
    assert!(changed.stderr.contains("order 2: "), "{changed:?}");
    assert_eq!(database.count("bills"), 3);
}

#[test]
fn two_runs_at_once_bill_each_order_once() {
    let (_dir, program, database) = world(20);
    let mut runs = [program.spawn(), program.spawn()];
    let codes = runs.each_mut().map(|run| run.ended(ENDS).code());
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 75))), "{codes:?}");
    until_closed(&program);
    assert_billed_once(&database, 20);
}

#[test]
fn t04_t05_a_job_that_is_killed_again_and_again_bills_each_order_once() {
    let (_dir, program, database) = world(30);
    let mut random = fastrand::Rng::with_seed(20_260_131);
    let mut kills = 0;
    while database.count("bills") < 30 {
        let mut job = program.spawn();
        let done = database.count("bills") + random.i64(1..6);
        eventually("it bills some more", ENDS, || {
            database.count("bills") >= done.min(30)
                || job.stdout().iter().any(|line| line.starts_with("run again"))
        });
        job.kill();
        kills += 1;
    }
    assert!(kills >= 5, "{kills}");
    until_closed(&program);
    assert_billed_once(&database, 30);
}

#[test]
fn wherever_it_dies_within_an_order_the_next_run_bills_it() {
    let places = ["row 1", "row 2", "row 3", "row 4", "row 5", "row 6"];
    kit::together(places, |place| {
        let (_dir, program, database) = world(2);
        let died = program.crashing(place).run();
        assert_eq!(died.code, None, "{place}: {died:?}");
        until_closed(&program);
        assert_billed_once(&database, 2);
    });
}

#[track_caller]
fn until_closed(program: &Program) {
    until("the day is closed", ENDS, || {
        let run = program.run();
        assert!(matches!(run.code, Some(0 | 75)), "{run:?}");
        (run.code == Some(0)).then_some(())
    });
}
