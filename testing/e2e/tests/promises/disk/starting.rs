//! Starts while the disk is in trouble: refused with a reason and a remedy, and nothing half-made.

use std::fs;

use hapax_testkit::{Call, DiskFault, Serve, Trouble, Volume};
use rusqlite::Connection;

use super::Scene;
use crate::SOON;

#[test]
fn on_a_full_disk_it_does_not_start_and_when_there_is_room_it_does() {
    if Volume::is_left_out() {
        return;
    }
    // As much as any of the files needs, and less than all.
    for kib in [4, 16, 64, 96] {
        let mut scene = Scene::with(|at| Some(Volume::in_memory(at, 4096)), |serve| serve);
        scene.stop();
        for file in fs::read_dir(scene.place()).expect("a directory").flatten() {
            fs::remove_file(file.path()).expect("it is removed");
        }
        let volume = scene.volume.as_ref().expect("a volume");
        let ballast = volume.fill_but(kib);
        scene.assert_start_refused("free space on its disk");
        fs::remove_file(ballast).expect("there is room");
        scene.gateway.restart();
        scene.store(2);
        scene.assert_replays();
        scene.stop();
        scene.assert_intact();
    }
}

#[test]
fn on_a_read_only_file_system_it_does_not_start() {
    if Volume::is_left_out() {
        return;
    }
    let mut scene = Scene::with(|at| Some(Volume::in_memory(at, 4096)), |serve| serve);
    scene.store(2);
    scene.stop();
    let volume = scene.volume.as_ref().expect("a volume");
    volume.remount("ro");
    scene.assert_start_refused("is read-only");
    volume.remount("rw");
    scene.gateway.restart();
    scene.assert_replays();
}

#[test]
fn on_a_locked_database_it_does_not_start() {
    let mut scene = Scene::new();
    scene.store(2);
    scene.stop();
    let lock = Connection::open(scene.database()).expect("the database opens");
    lock.busy_timeout(SOON).expect("a timeout");
    lock.execute_batch("BEGIN EXCLUSIVE").expect("the lock is taken");
    scene.assert_start_refused("stayed locked by another process");
    drop(lock);
    scene.gateway.restart();
    scene.assert_replays();
}

#[test]
fn on_a_disk_that_fails_it_does_not_start_and_when_it_works_it_does() {
    if DiskFault::is_left_out() {
        return;
    }
    for (call, killed) in
        [(Call::Sync, false), (Call::Write, false), (Call::Read, false), (Call::Sync, true)]
    {
        let mut scene = Scene::new();
        scene.store(2);
        if killed {
            scene.gateway.kill()
        } else {
            scene.stop()
        }
        let database = scene.database();
        let in_trouble = |serve: &Serve| {
            let files = [database.clone(), scene.log(), scene.place()];
            serve.clone().in_trouble(&files, call, Trouble::Fails("EIO"))
        };
        let ran = in_trouble(scene.gateway.serve()).run();
        assert_eq!(ran.code, Some(2), "{call:?}: {ran:?}");
        assert!(ran.stderr.contains(&database.display().to_string()), "{call:?}: {ran:?}");
        assert!(ran.stderr.contains("look at what the system's log says"), "{call:?}: {ran:?}");
        scene.gateway.restart();
        scene.assert_replays();
        scene.store(1);
        scene.stop();
        scene.assert_intact();
    }
}

#[test]
fn what_a_crash_left_in_the_log_is_written_again_before_anything_follows_it() {
    if DiskFault::is_left_out() {
        return;
    }
    let mut scene = Scene::new();
    scene.store(3);
    scene.gateway.kill();
    // The system may take for written what is in its memory alone: a sync that failed says so once.
    let length = fs::metadata(scene.log()).expect("a log").len();
    let told = scene.dir.path().join("told");
    let serve = scene.gateway.serve().clone();
    scene.gateway = serve.traced(&[scene.log()], &[Call::Write, Call::Sync], &told).start();
    scene.assert_replays();
    let told = fs::read_to_string(&told).expect("what was called");
    let synced = told.lines().position(|line| line.contains(" fsync(")).expect("it is synced");
    let written =
        told.lines().take(synced).filter_map(|line| line.rsplit_once("= ")?.1.parse::<u64>().ok());
    assert_eq!(written.sum::<u64>(), length, "all of it: {told}");
}
