//! Several processes on one file, and proxies that send a request again when one of them is in
//! trouble.

use std::thread;

use hapax_testkit::{
    Call, DiskFault, Gateway, Pending, ProxyKind, Request, Trouble, eventually, fresh_key, until,
};
use rusqlite::Connection;

use super::Scene;
use crate::SOON;

/// It is replayed by each of them.
#[track_caller]
fn assert_replayed_by(gateways: [&Gateway; 2], request: &Request, first: &hapax_testkit::Answer) {
    for gateway in gateways {
        let replay = until("it is replayed", SOON, || {
            let answer = gateway.send(request);
            (answer.status == 201).then_some(answer)
        });
        assert!(replay.is_replay() && replay.body == first.body, "{replay:?}");
    }
}

#[test]
fn p11_a_503_that_a_proxy_sends_again_by_itself_makes_one_effect() {
    if DiskFault::is_left_out() || ProxyKind::Nginx.is_left_out() {
        return;
    }
    let scene = Scene::new();
    let other = scene.gateway.twin();
    // As the recipe has it: a request with a key is sent again on 503, to the other gateway.
    let proxy = ProxyKind::Nginx.start(scene.gateway.address(), other.address());
    for (call, trouble) in [(Call::Sync, Trouble::Fails("EIO")), (Call::Write, Trouble::Hangs)] {
        let fault = DiskFault::on(&scene.gateway, &[&scene.log()], call, trouble);
        if trouble == Trouble::Hangs {
            // While one hangs in a write it has the lock, and the other one can only refuse.
            let pending = scene.gateway.start(&Request::payment(&fresh_key()));
            pending.answer().assert_problem(503, "store-unavailable");
            let request = Request::payment(&fresh_key());
            proxy.send(&request).assert_problem(503, "store-unavailable");
        } else {
            let requests: Vec<_> = (0..20).map(|_| Request::payment(&fresh_key())).collect();
            let pending: Vec<_> = requests.iter().map(|request| proxy.start(request)).collect();
            let answers: Vec<_> = pending.into_iter().map(Pending::answer).collect();
            let refused = scene.gateway.metric("hapax_problems_total", &["store-unavailable"]);
            assert!(refused > 0.0, "nothing was sent again");
            for (request, first) in requests.iter().zip(&answers) {
                assert_eq!(first.status, 201, "{first:?}");
                other.send(request).assert_replays(first);
            }
            drop(fault);
            scene.assert_ready_again();
            for (request, first) in requests.iter().zip(&answers) {
                assert_replayed_by([&scene.gateway, &other], request, first);
            }
            assert_eq!(scene.keyed_arrivals(), 20);
            continue;
        }
        drop(fault);
        scene.assert_ready_again();
    }
    assert_eq!(scene.keyed_arrivals(), 20, "what was refused twice did not run");
    scene.assert_no_repeats();
}

#[test]
fn p37_two_gateways_a_backup_and_a_shell_share_one_file() {
    let scene = Scene::new();
    let other = scene.gateway.twin();
    let (database, place) = (scene.database(), scene.place());
    let shell = thread::spawn(move || {
        let connection = Connection::open(&database).expect("the database opens");
        connection.busy_timeout(SOON).expect("a timeout");
        for turn in 0..10 {
            let copy = place.join(format!("backup-{turn}.db")).display().to_string();
            connection.execute("VACUUM INTO ?1", [copy]).expect("a backup");
            // Somebody else's lock, for as long as a statement takes.
            connection.execute_batch("BEGIN IMMEDIATE; COMMIT").expect("a lock");
            connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
        }
    });
    let mut stored = Vec::new();
    while !shell.is_finished() || stored.len() < 100 {
        let requests: Vec<_> = (0..20).map(|_| Request::payment(&fresh_key())).collect();
        // Each at both at once.
        let pending: Vec<_> = requests
            .iter()
            .map(|request| [scene.gateway.start(request), other.start(request)])
            .collect();
        for (request, pending) in requests.into_iter().zip(pending) {
            let answers = pending.map(Pending::answer);
            let first = answers.iter().find(|answer| answer.status == 201);
            let first = first.unwrap_or_else(|| panic!("nobody is refused: {answers:?}"));
            stored.push((request, first.clone()));
        }
    }
    shell.join().expect("backups are made");
    for (request, first) in &stored {
        assert_replayed_by([&scene.gateway, &other], request, first);
    }
    assert_eq!(scene.keyed_arrivals(), stored.len());
    scene.assert_no_repeats();
    let ready = |gateway: &Gateway| gateway.operator("/readyz").status == 200;
    eventually("both are ready", SOON, || ready(&scene.gateway) && ready(&other));
    scene.assert_intact();
}
