//! A service on the library behind the gateway: two layers of hapax, one effect. The effect id of
//! the outer one is the key of the inner one.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod kit;

use std::path::Path;

use hapax_testkit::{Gateway, Request, Serve, fresh_key};
use kit::{Database, Program, Service};
use tempfile::TempDir;

struct World {
    gateway: Gateway,
    service: Option<Service>,
    program: Program,
    database: Database,
    _dir: TempDir,
}

impl World {
    fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = Program::new(env!("CARGO_BIN_EXE_orders")).database(dir.path());
        let service = program.serve();
        let database = Database::of(dir.path());
        let gateway = gateway(dir.path(), &service, args);
        Self { gateway, service: Some(service), program, database, _dir: dir }
    }

    fn orders(&self) -> i64 {
        self.database.count("orders")
    }
}

fn gateway(dir: &Path, service: &Service, args: &[&str]) -> Gateway {
    let upstream = format!("http://{}", service.address);
    Serve::bare(dir)
        .args(["--upstream", &upstream, "--single-tenant"])
        .args(args)
        .store(&dir.join("gateway.db"))
        .start()
}

fn order() -> Request {
    let json = r#"{"customer":"acme","reference":"PO-1","lines":[{"sku":"tea","count":2}]}"#;
    Request::post("/orders", json).key(&fresh_key())
}

#[test]
fn an_order_through_both_is_made_once_and_replayed_by_the_outer_one() {
    let world = World::new(&[]);
    let order = order();
    let first = world.gateway.send(&order);
    first.assert_stored(201);
    world.gateway.send(&order).assert_replays(&first);
    assert_eq!((world.orders(), world.database.count("hapax_record")), (1, 1));
}

#[test]
fn a_handler_that_failed_and_was_rolled_back_frees_the_key_of_the_outer_one_too() {
    let world = World::new(&[]);
    let order = order();
    world.database.execute("ALTER TABLE lines RENAME TO away");
    // A 503 would be unknown to the gateway if the service did not say what it knows.
    let failed = world.gateway.send(&order);
    assert_eq!(failed.status, 503, "{failed:?}");
    failed.assert_outcome("not-applied");
    world.database.execute("ALTER TABLE away RENAME TO lines");
    world.gateway.send(&order).assert_stored(201);
    assert_eq!(world.orders(), 1);
}

#[test]
fn a_service_that_dies_in_its_transaction_is_asked_again_under_the_same_key() {
    let mut world = World::new(&["--on-unknown", "resend", "--collapse-for", "24h"]);
    let order = order();
    // The same address for its successor: the gateway knows no other.
    let service = world.service.take().unwrap();
    let address = service.address;
    service.stop();
    let crashing = world.program.crashing("row 1").arg("--listen", address).serve();
    world.gateway.send(&order).assert_problem(503, "outcome-unknown");
    drop(crashing);
    assert_eq!((world.orders(), world.database.count("hapax_record")), (0, 0));
    let _successor = world.program.clone().arg("--listen", address).serve();
    world.gateway.send(&order).assert_stored(201);
    assert_eq!(world.orders(), 1);
}
