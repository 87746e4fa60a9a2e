//! `payments`: an effect that is partly elsewhere, at a provider that honours the identity.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use std::{collections::BTreeSet, fs, path::Path};

use hapax_testkit::{Answer, Pending, Request, fresh_key, until};
use kit::{Database, ENDS, Program, SHORT_LEASE, Service, together};
use serde_json::Value;
use tempfile::TempDir;

struct World {
    program: Program,
    provider: Service,
    database: Database,
    dir: TempDir,
}

impl World {
    fn new() -> (Self, Service) {
        let dir = tempfile::tempdir().unwrap();
        let provider = Program::new(env!("CARGO_BIN_EXE_provider"));
        let provider = provider.arg("--dir", dir.path().display()).serve();
        let program = Program::new(env!("CARGO_BIN_EXE_payments"))
            .database(dir.path())
            .arg("--provider", provider.address)
            .arg("--lease", SHORT_LEASE);
        let service = program.serve();
        let database = Database::of(dir.path());
        (Self { program, provider, database, dir }, service)
    }

    /// What becomes of the next charge.
    fn next(&self, mood: &str) {
        assert_eq!(self.provider.send(&Request::post(&format!("/next/{mood}"), "")).status, 200);
    }

    fn arrivals(&self) -> Vec<Value> {
        lines(&self.dir.path().join("arrivals.jsonl"))
    }

    fn charges(&self) -> Vec<Value> {
        lines(&self.dir.path().join("charges.jsonl"))
    }

    #[track_caller]
    fn arrived(&self, count: usize) {
        until("it arrives at the provider", ENDS, || {
            (self.arrivals().len() >= count).then_some(())
        });
    }

    /// One paid order, one charge, and however often it was asked for, under one identity.
    #[track_caller]
    fn assert_paid_once(&self, when: &str) {
        let charges = self.charges();
        assert_eq!(charges.len(), 1, "{when}: {charges:?}");
        let arrivals = self.arrivals();
        let identities: BTreeSet<_> = arrivals.iter().map(|a| a["key"].to_string()).collect();
        assert_eq!(identities.len(), 1, "{when}: {arrivals:?}");
        assert_eq!(self.database.count("orders"), 1, "{when}");
        let paid = "SELECT charge FROM orders WHERE state = 'paid'";
        assert_eq!(self.database.one::<String>(paid), charges[0]["charge"], "{when}");
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn payment() -> Request {
    Request::post("/payments", r#"{"amount":1200}"#).key(&fresh_key())
}

#[test]
fn a_payment_is_charged_once_and_its_retries_get_the_same_bytes() {
    let (world, service) = World::new();
    let request = payment();
    let first = service.send(&request);
    first.assert_stored(201);
    service.send(&request).assert_replays(&first);
    service.stop();
    let service = world.program.serve();
    service.send(&request).assert_replays(&first);
    let changed = request.json(r#"{"amount":1300}"#);
    service.send(&changed).assert_problem(422, "key-reused");
    assert_eq!(world.arrivals().len(), 1);
    world.assert_paid_once("");
    // Another key is another payment.
    service.send(&payment()).assert_stored(201);
    assert_eq!((world.charges().len(), world.database.count("orders")), (2, 2));
}

#[test]
fn k6_killed_anywhere_the_next_retries_end_with_one_charge_and_one_paid_order() {
    // Between the rows of the first commit, that of the order, and those of the second, that of the
    // answer, are the call's beginning and its end.
    let named = ["at ordered", "at charged"].map(str::to_owned);
    let rows = (1..=ROWS).map(|n| format!("row {n}"));
    together(named.into_iter().chain(rows), |place| {
        let (world, service) = World::new();
        drop(service);
        let mut service = world.program.crashing(&place).serve();
        let request = payment();
        assert!(service.start(&request).result().is_err(), "{place}");
        assert!(!service.process.ended(ENDS).success(), "{place}");

        let service = world.program.serve();
        let answer = service.insist(&request);
        answer.assert_stored(201);
        service.send(&request).assert_replays(&answer);
        world.assert_paid_once(&place);
    });
    // There is no other place to die at.
    let (world, service) = World::new();
    drop(service);
    let program = world.program.crashing(&format!("row {}", ROWS + 1));
    program.serve().send(&payment()).assert_stored(201);
}

/// What is written in the transactions of the application: the order, the record as admitted, the
/// order as paid, the answer.
const ROWS: usize = 4;

#[test]
fn t05_t06_killed_before_and_after_the_provider_commits_it_is_charged_once() {
    together([("hang", 0), ("hang-after", 1)], |(mood, charged)| {
        let (world, mut service) = World::new();
        world.next(mood);
        let request = payment();
        let asked = service.start(&request);
        world.arrived(1);
        until("the provider has done it", ENDS, || {
            (world.charges().len() == charged).then_some(())
        });
        service.process.kill();
        assert!(asked.result().is_err());

        let service = world.program.serve();
        let answer = service.insist(&request);
        answer.assert_stored(201);
        service.send(&request).assert_replays(&answer);
        world.assert_paid_once(mood);
        assert_eq!(world.arrivals().len(), 2, "{mood}");
    });
}

#[test]
fn f10_payments_at_once_that_are_killed_again_and_again_are_charged_once_each() {
    let (world, mut service) = World::new();
    let payments: Vec<_> = (0..12).map(|_| payment()).collect();
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..5 {
        let (seen, more) = (world.arrivals().len(), random.usize(1..5));
        if random.bool() {
            world.next("cut");
        }
        let asked: Vec<_> = payments.iter().map(|payment| service.start(payment)).collect();
        until("some more are asked for", ENDS, || {
            let done = asked.iter().all(Pending::is_done);
            (done || world.arrivals().len() >= seen + more).then_some(())
        });
        service.process.kill();
        asked.into_iter().for_each(|asked| drop(asked.result()));
        service = world.program.serve();
    }
    for payment in &payments {
        let answer = service.insist(payment);
        assert_eq!(answer.status, 201, "{answer:?}");
        service.send(payment).assert_replays(&answer);
    }
    assert_eq!(world.charges().len(), 12);
    let identities: BTreeSet<_> = world.arrivals().iter().map(|a| a["key"].to_string()).collect();
    assert_eq!(identities.len(), 12);
    assert_eq!(world.database.count("orders"), 12);
    assert_eq!(world.database.count("orders WHERE state = 'paid'"), 12);
}

#[test]
fn t06_without_a_word_of_the_provider_the_outcome_is_unknown_and_the_retry_asks_again() {
    let moods = [("fail", 0), ("fail-after", 1), ("cut", 1), ("hang", 0), ("hang-after", 1)];
    together(moods, |(mood, charged)| {
        let (world, service) = World::new();
        world.next(mood);
        let request = payment();
        service.send(&request).assert_unresolved(502);
        assert_eq!(world.charges().len(), charged, "{mood}");
        assert_eq!(world.database.one::<String>("SELECT state FROM orders"), "ordered");
        let changed = request.clone().json(r#"{"amount":1300}"#);
        service.send(&changed).assert_problem(422, "key-reused");
        let answer = service.send(&request);
        answer.assert_stored(201);
        service.send(&request).assert_replays(&answer);
        world.assert_paid_once(mood);
    });
}

#[test]
fn a_provider_that_cannot_be_reached_has_charged_nothing_and_the_retry_goes_on() {
    let (mut world, service) = World::new();
    let (request, address) = (payment(), world.provider.address);
    world.provider.process.kill();
    service.send(&request).assert_unresolved(502);
    let provider = Program::new(env!("CARGO_BIN_EXE_provider"));
    world.provider =
        provider.arg("--dir", world.dir.path().display()).arg("--listen", address).serve();
    service.send(&request).assert_stored(201);
    world.assert_paid_once("unreachable");
}

#[test]
fn a_declined_charge_is_an_outcome_and_its_rows_commit_with_it() {
    let (world, service) = World::new();
    world.next("decline");
    let request = payment();
    let first = service.send(&request);
    first.assert_stored(402);
    // The provider would charge now; this payment stays declined.
    service.send(&request).assert_replays(&first);
    assert_eq!((world.arrivals().len(), world.charges().len()), (1, 0));
    assert_eq!(world.database.one::<String>("SELECT state FROM orders"), "declined");
}

#[test]
fn a_charge_that_is_declined_after_a_crash_is_an_outcome_all_the_same() {
    let (world, service) = World::new();
    drop(service);
    let mut service = world.program.crashing("at ordered").serve();
    let request = payment();
    assert!(service.start(&request).result().is_err());
    service.process.ended(ENDS);
    let service = world.program.serve();
    world.next("decline");
    let first = service.insist(&request);
    first.assert_stored(402);
    service.send(&request).assert_replays(&first);
    assert_eq!((world.arrivals().len(), world.charges().len()), (1, 0));
    assert_eq!(world.database.one::<String>("SELECT state FROM orders"), "declined");
}

#[test]
fn what_is_no_payment_frees_the_key() {
    let (world, service) = World::new();
    let request = payment();
    let invalid = service.send(&request.clone().json(r#"{"amount":0}"#));
    assert_eq!(invalid.status, 422);
    service.send(&request).assert_stored(201);
    world.assert_paid_once("corrected");
}

#[test]
fn t01_copies_at_once_are_one_payment() {
    let (world, service) = World::new();
    let request = payment();
    let copies: Vec<_> = (0..20).map(|_| service.start(&request)).collect();
    let answers: Vec<Answer> = copies.into_iter().map(Pending::answer).collect();
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (201, &answers[0].body), "{answer:?}");
    }
    assert_eq!(world.arrivals().len(), 1);
    world.assert_paid_once("copies");
}

#[test]
fn a_service_that_is_told_to_stop_ends_what_is_under_way() {
    let (world, service) = World::new();
    world.next("hang-after");
    let request = payment();
    let asked = service.start(&request);
    world.arrived(1);
    service.stop();
    // The provider's answer did not come in time; that is what the client is told.
    asked.answer().assert_unresolved(502);
    world.program.serve().send(&request).assert_stored(201);
    world.assert_paid_once("stopped");
}
