//! `webhook`: an event of a provider takes effect once, however often it is delivered.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use std::path::Path;

use hapax_testkit::{Pending, Request, until};
use hmac::{Hmac, KeyInit, Mac};
use kit::{Database, ENDS, Program};
use sha2::Sha256;

const SECRET: &str = "whsec_of_the_tests";

fn receiver(dir: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_webhook")).database(dir).env("WEBHOOK_SECRET", SECRET)
}

/// A delivery, whose number the provider writes into it.
fn delivery(id: &str, cents: u32, number: u32) -> Request {
    let body = format!(r#"{{"account":"acme","cents":{cents},"delivery":{number}}}"#);
    let signature = sign(id, &body);
    Request::post("/events", &body).header("webhook-id", id).header("webhook-signature", &signature)
}

fn sign(id: &str, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{id}.{body}").as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn cents(database: &Database) -> i64 {
    database.one("SELECT coalesce(sum(cents), 0) FROM balances")
}

#[test]
fn p56_an_event_is_received_once_also_when_the_provider_changes_it_between_deliveries() {
    let dir = tempfile::tempdir().unwrap();
    let service = receiver(dir.path()).serve();
    let database = Database::of(dir.path());
    let first = service.send(&delivery("evt_1", 500, 1));
    first.assert_stored(204);
    for number in 2..5 {
        service.send(&delivery("evt_1", 500, number)).assert_replays(&first);
    }
    assert_eq!(cents(&database), 500);
    service.send(&delivery("evt_2", 70, 1)).assert_stored(204);
    assert_eq!(cents(&database), 570);
}

#[test]
fn what_is_not_signed_claims_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let service = receiver(dir.path()).serve();
    let database = Database::of(dir.path());
    let genuine = delivery("evt_1", 500, 1);
    let forged = genuine.clone().json(r#"{"account":"mallory","cents":500}"#);
    let moved = genuine.clone().without("webhook-id").header("webhook-id", "evt_2");
    for (request, status) in [
        (&forged, 401),
        (&moved, 401),
        (&genuine.clone().without("webhook-signature"), 401),
        (&genuine.clone().without("webhook-id"), 400),
    ] {
        service.send(request).assert_problem(status, "key-invalid");
    }
    assert_eq!(database.count("hapax_record"), 0);
    service.send(&genuine).assert_stored(204);
}

#[test]
fn t01_deliveries_at_once_are_received_once_and_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let service = receiver(dir.path()).serve();
    let deliveries: Vec<_> =
        (0..20).map(|number| service.start(&delivery("evt_1", 100, number))).collect();
    let answers: Vec<_> = deliveries.into_iter().map(Pending::answer).collect();
    assert!(answers.iter().all(|answer| answer.status == 204), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1, "{answers:?}");
    assert_eq!(cents(&Database::of(dir.path())), 100);
}

#[test]
fn t09_deliveries_at_once_and_kills_between_them_are_received_once() {
    let dir = tempfile::tempdir().unwrap();
    let program = receiver(dir.path());
    let mut service = program.serve();
    let database = Database::of(dir.path());
    for round in 0..4 {
        let id = format!("evt_{round}");
        let deliveries: Vec<_> =
            (0..20).map(|number| service.start(&delivery(&id, 100, number))).collect();
        // Killed at once, or when the first is answered.
        if round % 2 == 1 {
            deliveries.into_iter().next().map(Pending::answer).unwrap();
        }
        service.process.kill();
        service = program.serve();
        let again = until("it is received", ENDS, || {
            let answer = service.send(&delivery(&id, 100, 20));
            (answer.status == 204).then_some(answer)
        });
        service.send(&delivery(&id, 100, 21)).assert_replays(&again);
        assert_eq!(cents(&database), 100 * (round + 1));
    }
}

#[test]
fn t05_wherever_the_receiver_dies_the_next_delivery_is_received_once() {
    kit::together(["row 1", "row 2", "row 3"], |place| {
        let dir = tempfile::tempdir().unwrap();
        let program = receiver(dir.path());
        let mut service = program.crashing(place).serve();
        let database = Database::of(dir.path());
        if service.start(&delivery("evt_1", 500, 1)).result().is_err() {
            assert!(!service.process.ended(ENDS).success());
            assert_eq!((cents(&database), database.count("hapax_record")), (0, 0), "{place}");
        }
        let service = program.serve();
        assert_eq!(service.send(&delivery("evt_1", 500, 2)).status, 204, "{place}");
        assert_eq!(cents(&database), 500, "{place}");
    });
}
