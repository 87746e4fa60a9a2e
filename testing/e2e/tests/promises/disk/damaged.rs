//! Files that are damaged, cut off, taken away or kept from the gateway.

use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    time::{Duration, Instant},
};

use hapax_testkit::{Request, eventually, fresh_key, until};
use rusqlite::Connection;

use super::{BOUND, Scene, assert_refused_at_once};
use crate::SOON;

/// Bytes of a page of SQLite.
const PAGE: u32 = 4096;

/// What a page is overwritten with.
const GARBAGE: [u8; 4096] = [0xa5; 4096];

/// Where the index of claims by their ids begins.
fn index_of_claims(database: &Path) -> u64 {
    let connection = Connection::open(database).expect("the database opens");
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_hapax_record_1'";
    let page = connection.query_row(sql, (), |row| row.get::<_, u32>(0)).expect("an index");
    u64::from((page - 1) * PAGE)
}

/// Overwrites bytes in place; returns what was there.
fn overwrite(file: &Path, at: u64, bytes: &[u8]) -> Vec<u8> {
    let file = OpenOptions::new().read(true).write(true).open(file).expect("the file opens");
    let mut before = vec![0; bytes.len()];
    file.read_exact_at(&mut before, at).expect("there is so much");
    file.write_all_at(bytes, at).expect("it is written");
    before
}

/// Whatever a damaged store answers: it replays what was told, or refuses, and executes nothing
/// again.
#[track_caller]
fn assert_truthful(scene: &Scene) {
    for (request, first) in &scene.stored {
        let answer = scene.gateway.send(request);
        if answer.status == 201 {
            answer.assert_replays(first);
        } else {
            let problem = answer.problem().unwrap_or_default();
            let is_refused = problem == "store-unavailable" || problem == "store-regressed";
            assert!(answer.status == 503 && is_refused, "{answer:?}");
        }
    }
    scene.assert_no_repeats();
    scene.assert_unkeyed_unharmed();
}

#[test]
fn a_damaged_header_is_refused_at_start_and_left_as_it_is() {
    let mut scene = Scene::new();
    scene.store(2);
    scene.stop();
    for (at, bytes, said) in [
        (0, &b"SQLite formaX"[..], "is not a SQLite database"),
        (18, &[9, 9][..], "is not a SQLite database"),
        (100, &[0; 8][..], "is damaged"),
    ] {
        let before = overwrite(&scene.database(), at, bytes);
        let damaged = fs::read(scene.database()).expect("a file");
        scene.assert_start_refused(said);
        assert!(damaged == fs::read(scene.database()).expect("a file"), "it was written to");
        assert!(!scene.log().exists(), "and nothing is left beside it");
        overwrite(&scene.database(), at, &before);
    }
    scene.gateway.restart();
    scene.assert_replays();
}

#[test]
fn a_damaged_index_of_claims_refuses_until_a_whole_file_is_back() {
    let mut scene = Scene::new();
    scene.store(5);
    scene.stop();
    let at = index_of_claims(&scene.database());
    let before = overwrite(&scene.database(), at, &GARBAGE);
    scene.gateway.restart();
    assert_refused_at_once(&scene, 5);
    for (request, _) in &scene.stored {
        scene.gateway.send(request).assert_problem(503, "store-unavailable");
    }
    assert_eq!(scene.keyed_arrivals(), 5);
    scene.assert_not_ready();
    assert!(scene.gateway.operator("/readyz").text().contains("damaged"));
    // It stays so, although its mark can be written.
    let begun = Instant::now();
    until("two seconds have gone by", BOUND, || {
        assert_eq!(scene.gateway.operator("/readyz").status, 503);
        (begun.elapsed() > Duration::from_secs(2)).then_some(())
    });
    scene.stop();
    overwrite(&scene.database(), at, &before);
    scene.gateway.restart();
    scene.assert_replays();
    scene.store(1);
    scene.assert_no_repeats();
}

#[test]
fn a_page_that_is_damaged_under_it_never_makes_it_execute_again() {
    let mut scene = Scene::new();
    scene.store(5);
    // Into the file, so that the page is read from there from now on.
    scene.stop();
    scene.gateway.restart();
    let at = index_of_claims(&scene.database());
    overwrite(&scene.database(), at, &GARBAGE);
    assert_truthful(&scene);
    for _ in 0..5 {
        let answer = scene.gateway.send(&Request::payment(&fresh_key()));
        assert!([201, 503].contains(&answer.status), "{answer:?}");
    }
    assert_truthful(&scene);
    scene.gateway.restart();
    assert_truthful(&scene);
}

#[test]
fn a_file_that_is_cut_off_under_it_never_makes_it_execute_again() {
    for pages in [0, 1, 8] {
        let mut scene = Scene::new();
        scene.store(5);
        scene.stop();
        scene.gateway.restart();
        scene.gateway.send(&scene.stored[0].0).assert_replays(&scene.stored[0].1);
        let file = OpenOptions::new().write(true).open(scene.database()).expect("the file");
        file.set_len(u64::from(pages * PAGE)).expect("it is cut off");
        assert_truthful(&scene);
        let answer = scene.gateway.send(&Request::payment(&fresh_key()));
        assert!([201, 503].contains(&answer.status), "{answer:?}");
        assert_truthful(&scene);
        scene.stop();
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused_at_start() {
    let mut scene = Scene::new();
    scene.store(5);
    scene.stop();
    let whole = fs::read(scene.database()).expect("a file");
    for pages in [1, 8] {
        let file = OpenOptions::new().write(true).open(scene.database()).expect("the file");
        file.set_len(u64::from(pages * PAGE)).expect("it is cut off");
        scene.assert_start_refused("is damaged");
        fs::write(scene.database(), &whole).expect("the backup is put back");
    }
    scene.gateway.restart();
    scene.assert_replays();
}

#[test]
fn what_a_damaged_log_has_lost_is_forgotten_and_executes_under_the_same_identity() {
    let mut scene = Scene::new();
    scene.store(10);
    scene.gateway.kill();
    let middle = fs::metadata(scene.log()).expect("a log").len() / 2;
    overwrite(&scene.log(), middle, &[0xa5; 64]);
    scene.gateway.restart();
    // As after a restore while it was stopped: nothing outside the database knows what is missing.
    let (mut replayed, mut again) = (0, 0);
    for (request, first) in &scene.stored {
        let answer = scene.gateway.send(request);
        if answer.is_replay() {
            answer.assert_replays(first);
            replayed += 1;
        } else {
            let arrivals = scene.upstream.arrivals();
            let last = arrivals.last().expect("it arrived").effect_id();
            let count = arrivals.iter().filter(|arrival| arrival.effect_id() == last).count();
            // The one whose outcome alone was lost is unknown, and does not execute.
            let is_held = answer.status == 409;
            assert!(is_held || count == 2, "under the same effect id: {answer:?}");
            again += 1;
        }
    }
    assert!(replayed > 0 && again > 0, "{replayed} replayed, {again} not");
    scene.assert_intact();
}

#[test]
fn a_directory_that_is_removed_stops_keyed_requests_alone() {
    let mut scene = Scene::new();
    scene.store(2);
    fs::remove_dir_all(scene.place()).expect("it is removed");
    for (request, _) in &scene.stored {
        scene.gateway.send(request).assert_problem(503, "store-regressed");
    }
    let fresh = scene.gateway.send(&Request::payment(&fresh_key()));
    fresh.assert_problem(503, "store-regressed");
    assert!(fresh.field("retry-after").is_some(), "{fresh:?}");
    scene.assert_not_ready();
    scene.assert_unkeyed_unharmed();
    assert_eq!(scene.keyed_arrivals(), 2);
    scene.stop();
    assert!(!scene.place().exists(), "nothing is made anew");
    scene.assert_start_refused("does not exist; create it first");
}

#[test]
fn a_database_that_is_gone_at_start_is_told_by_the_secret_that_is_left() {
    let mut scene = Scene::new();
    scene.store(1);
    scene.stop();
    let told = |scene: &Scene| {
        scene.gateway.stderr().iter().any(|line| line.contains("what that knew is forgotten"))
    };
    scene.gateway.restart();
    assert!(!told(&scene), "it is there");
    scene.stop();
    fs::remove_file(scene.database()).expect("it is removed");
    scene.gateway.restart();
    eventually("it is told", SOON, || told(&scene));
    // Nothing knows that it ran, and the secret has it run under the same effect id.
    scene.gateway.send(&scene.stored[0].0).assert_stored(201);
    let arrivals = scene.upstream.arrivals();
    assert_eq!(arrivals.len(), 2);
    assert_eq!(arrivals[0].effect_id(), arrivals[1].effect_id());
}

#[test]
fn permissions_that_are_taken_away_stop_the_next_start_and_nothing_that_runs() {
    let mut scene = Scene::with(|_| None, hapax_testkit::Serve::bound_by_permissions);
    scene.store(1);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("they are changed");
    };
    let files = [scene.database(), scene.log(), scene.place().join("hapax.db-shm")];
    for taken in [0o000, 0o400] {
        files.iter().for_each(|file| mode(file, taken));
        mode(&scene.place(), 0o500);
        scene.store(1);
        scene.assert_replays();
        assert_eq!(scene.gateway.operator("/readyz").status, 200);
        let said = if taken == 0 { "no permission to use" } else { "is read-only" };
        scene.assert_start_refused(said);
        files.iter().for_each(|file| mode(file, 0o600));
        mode(&scene.place(), 0o700);
    }
    mode(&scene.place(), 0o000);
    scene.store(1);
    mode(&scene.place(), 0o700);
    scene.gateway.restart();
    scene.assert_replays();
    scene.assert_no_repeats();
}

#[test]
fn an_index_of_the_log_that_is_cut_off_loses_nothing() {
    let mut scene = Scene::new();
    scene.store(3);
    let index = scene.place().join("hapax.db-shm");
    let file = OpenOptions::new().write(true).open(index).expect("the file");
    file.set_len(0).expect("it is cut off");
    // The process dies of it: the index is memory that it shares with others.
    let lost = scene.gateway.start(&Request::payment(&fresh_key())).result();
    assert!(lost.is_err(), "{lost:?}");
    assert!(!scene.gateway.ended(SOON).success());
    scene.gateway.restart();
    scene.assert_replays();
    scene.store(1);
    scene.assert_no_repeats();
    scene.assert_intact();
}
