//! Faults that end: while they last callers are refused in time, and afterwards it goes on.

use std::{fs, time::Duration};

use hapax_testkit::{Call, DiskFault, Request, Trouble, Volume, eventually, fresh_key};
use rusqlite::Connection;

use super::{Endured, Scene, assert_refused_at_once, endures};
use crate::SOON;

/// What the log is asked for comes to trouble.
fn endures_of_the_log(call: Call, trouble: Trouble, endured: Endured) {
    if DiskFault::is_left_out() {
        return;
    }
    let fault = |scene: &Scene| DiskFault::on(&scene.gateway, &[&scene.log()], call, trouble);
    endures(&mut Scene::new(), fault, endured);
}

const READABLE: Endured = Endured { replays: true };
const UNREADABLE: Endured = Endured { replays: false };

#[test]
fn p11_a_disk_that_cannot_sync_refuses_and_goes_on_afterwards() {
    endures_of_the_log(Call::Sync, Trouble::Fails("EIO"), READABLE);
}

#[test]
fn p11_a_disk_that_cannot_be_written_refuses_and_goes_on_afterwards() {
    endures_of_the_log(Call::Write, Trouble::Fails("EIO"), READABLE);
}

#[test]
fn p11_a_disk_without_space_refuses_and_goes_on_afterwards() {
    endures_of_the_log(Call::Write, Trouble::Fails("ENOSPC"), READABLE);
}

#[test]
fn p11_a_file_system_that_became_read_only_refuses_and_goes_on_afterwards() {
    endures_of_the_log(Call::Write, Trouble::Fails("EROFS"), READABLE);
}

#[test]
fn p11_a_disk_that_hangs_in_a_sync_refuses_and_goes_on_afterwards() {
    endures_of_the_log(Call::Sync, Trouble::Hangs, UNREADABLE);
}

#[test]
fn p11_a_disk_that_hangs_in_a_write_refuses_and_goes_on_afterwards() {
    endures_of_the_log(Call::Write, Trouble::Hangs, UNREADABLE);
}

#[test]
fn p11_a_lock_that_another_process_never_gives_back_refuses_and_goes_on_afterwards() {
    let fault = |scene: &Scene| {
        let connection = Connection::open(scene.database()).expect("the database opens");
        connection.busy_timeout(SOON).expect("a timeout");
        connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is taken");
        connection
    };
    endures(&mut Scene::new(), fault, UNREADABLE);
}

/// Removes the file that takes all the room.
struct Full(std::path::PathBuf);

impl Drop for Full {
    fn drop(&mut self) {
        fs::remove_file(&self.0).expect("there is room");
    }
}

#[test]
fn p11_a_file_system_that_is_full_refuses_and_goes_on_when_there_is_room() {
    if Volume::is_left_out() {
        return;
    }
    let mut scene = Scene::with(|at| Some(Volume::in_memory(at, 4096)), |serve| serve);
    let fault = |scene: &Scene| Full(scene.volume.as_ref().expect("a volume").fill());
    endures(&mut scene, fault, READABLE);
}

#[test]
fn what_cannot_be_read_is_not_taken_for_what_is_not_there() {
    if DiskFault::is_left_out() {
        return;
    }
    for trouble in [Trouble::Fails("EIO"), Trouble::Hangs] {
        let mut scene = Scene::new();
        scene.store(3);
        // Nothing of it is in the memory of the one that is started now.
        scene.gateway.terminate();
        assert!(scene.gateway.ended(SOON).success());
        scene.gateway.restart();
        let (database, log) = (scene.database(), scene.log());
        let fault = DiskFault::on(&scene.gateway, &[&database, &log], Call::Read, trouble);
        for (request, _) in &scene.stored {
            scene.gateway.send(request).assert_problem(503, "store-unavailable");
        }
        assert_refused_at_once(&scene, 5);
        assert_eq!(scene.keyed_arrivals(), 3, "{trouble:?}");
        drop(fault);
        scene.assert_ready_again();
        scene.assert_replays();
        scene.store(1);
        scene.assert_no_repeats();
    }
}

#[test]
fn a_sync_that_fails_once_is_found_out_about_and_nobody_is_refused() {
    if DiskFault::is_left_out() {
        return;
    }
    let mut scene = Scene::new();
    scene.store(1);
    for nth in [1, 2] {
        let trouble = Trouble::FailsAt("EIO", nth);
        let fault = DiskFault::on(&scene.gateway, &[&scene.log()], Call::Sync, trouble);
        scene.store(2);
        assert_eq!(fault.hits(), 1);
        drop(fault);
        assert_eq!(scene.gateway.operator("/readyz").status, 200);
    }
    scene.assert_survives_a_kill();
}

/// What `docs/decisions/0018` rests on.
#[test]
fn what_a_failed_sync_covered_is_written_again_before_the_next_one() {
    if DiskFault::is_left_out() {
        return;
    }
    let mut scene = Scene::new();
    scene.store(1);
    let trouble = Trouble::FailsAt("EIO", 1);
    let fault = DiskFault::on(&scene.gateway, &[&scene.log()], Call::Sync, trouble);
    scene.store(1);
    let told = fault.told();
    let mut lines = told.lines();
    // Where each write began: the last number of `pwrite64(13, "…", 4096, 168976) = 4096`.
    let mut written = |until: &str| -> Vec<u64> {
        let before = lines.by_ref().take_while(|line| !line.contains(until));
        let place = |line: &str| line.rsplit_once(") = ")?.0.rsplit_once(", ")?.1.parse().ok();
        before.filter_map(place).collect()
    };
    let lost = written("(INJECTED)");
    let again = written("fsync(");
    assert!(!lost.is_empty(), "{told}");
    assert!(lost.iter().all(|place| again.contains(place)), "{lost:?} {again:?}: {told}");
}

#[test]
fn a_slow_disk_is_waited_for() {
    if DiskFault::is_left_out() {
        return;
    }
    let mut scene = Scene::new();
    let slow = Trouble::Takes(Duration::from_millis(400));
    let fault = DiskFault::on(&scene.gateway, &[&scene.log()], Call::Sync, slow);
    scene.store(2);
    assert_eq!(scene.gateway.operator("/readyz").status, 200);
    assert!(fault.hits() >= 4, "a claim and an outcome each");
}

#[test]
fn a_database_that_cannot_take_the_log_stops_nobody_and_is_told() {
    if DiskFault::is_left_out() {
        return;
    }
    let mut scene = Scene::new();
    let database = scene.database();
    let fault = DiskFault::on(&scene.gateway, &[&database], Call::Write, Trouble::Fails("EIO"));
    let long = |bytes: f64| bytes > f64::from(8 << 20);
    // Answers that fill the log.
    let big = || Request::payment(&fresh_key()).act("effect; status 201; body sized 200000");
    while !long(scene.gateway.metric("hapax_store_log_bytes", &[])) {
        let request = big();
        let answer = scene.gateway.send(&request);
        scene.stored.push((request, answer.assert_stored(201).clone()));
        assert!(scene.stored.len() < 200, "the log does not grow");
    }
    let told = || {
        let said = scene.gateway.stderr();
        said.iter().filter(|line| line.contains("cannot be brought into the database")).count()
    };
    eventually("it is told", SOON, || told() > 0);
    assert!(fault.hits() > 0);
    assert_eq!(scene.gateway.operator("/readyz").status, 200);
    assert_eq!(told(), 1, "once, not each time");
    drop(fault);
    eventually("the log is cut", SOON, || {
        let cut = fs::metadata(scene.log()).expect("a log").len() < 8 << 20;
        cut && !long(scene.gateway.metric("hapax_store_log_bytes", &[]))
    });
    scene.assert_survives_a_kill();
}

#[test]
fn an_index_of_the_log_that_cannot_grow_refuses_and_goes_on_afterwards() {
    if DiskFault::is_left_out() {
        return;
    }
    let mut scene = Scene::new();
    scene.store(1);
    // Who reads an old state keeps the log from starting over, and so its index grows.
    let reader = Connection::open(scene.database()).expect("the database opens");
    reader.execute_batch("BEGIN; SELECT count(*) FROM hapax_record").expect("a reading");
    let index = scene.place().join("hapax.db-shm");
    let fault = DiskFault::on(&scene.gateway, &[&index], Call::Write, Trouble::Fails("ENOSPC"));
    let mut unknown = Vec::new();
    let refused = (0..300).find_map(|_| {
        let request = Request::payment(&fresh_key()).act("effect; status 201; body sized 200000");
        let answer = scene.gateway.send(&request);
        match answer.problem().as_deref() {
            None => scene.stored.push((request, answer.assert_stored(201).clone())),
            Some("outcome-unknown") => unknown.push(request),
            Some(_) => return Some((request, answer)),
        }
        None
    });
    let (refused, answer) = refused.expect("there is an end to it");
    answer.assert_problem(503, "store-unavailable");
    assert!(fault.hits() > 0);
    assert_refused_at_once(&scene, 10);
    scene.assert_not_ready();
    drop(fault);
    scene.assert_ready_again();
    unknown.push(refused);
    unknown.into_iter().for_each(|request| scene.retry_until_stored(request));
    scene.assert_replays();
    drop(reader);
    scene.assert_survives_a_kill();
}
