//! Every single call of many that fails: whatever was in the middle of a commit then, callers are told
//! the truth, and a crash afterwards loses nothing.
//!
//! `cargo xtask soak` runs the same for many more.

use std::{env, fs::OpenOptions, io::Write};

use hapax_testkit::{Call, DiskFault, Request, Serve, Trouble, fresh_key, is_missing, until};
use serde_json::json;

use super::Scene;
use crate::SOON;

/// How many calls each test lets fail, one after the other.
const CALLS: u32 = 4;

/// What became of the requests around one failed call.
#[derive(Default)]
struct Told {
    stored: usize,
    refused: usize,
    unknown: usize,
}

/// Pays until `is_over`, and sees to it that every caller was told the truth.
fn pay_until(scene: &mut Scene, is_over: impl Fn(&Scene, usize) -> bool) -> Told {
    let (mut told, mut refused, mut unknown) = (Told::default(), Vec::new(), Vec::new());
    let before = (scene.stored.len(), scene.keyed_arrivals());
    for paid in 0.. {
        if is_over(scene, paid) {
            break;
        }
        let request = Request::payment(&fresh_key());
        let answer = scene.gateway.send(&request);
        match (answer.status, answer.problem().as_deref()) {
            (201, _) => scene.stored.push((request, answer.assert_stored(201).clone())),
            (503, Some("store-unavailable")) => refused.push(request),
            (409, Some("outcome-unknown")) => unknown.push(request),
            _ => panic!("{answer:?}"),
        }
    }
    (told.stored, told.refused) = (scene.stored.len() - before.0, refused.len());
    told.unknown = unknown.len();
    let executed = scene.keyed_arrivals() - before.1;
    assert_eq!(executed, told.stored + told.unknown, "what was refused was executed");
    for request in unknown {
        let answer = until("it is settled", SOON, || {
            let answer = scene.gateway.send(&request);
            (answer.status == 201).then_some(answer)
        });
        assert!(answer.is_replay(), "{answer:?}");
    }
    refused.into_iter().for_each(|request| scene.retry_until_stored(request));
    told
}

/// What holds after everything, a crash included.
#[track_caller]
fn assert_nothing_is_lost(scene: &mut Scene) {
    scene.assert_ready_again();
    scene.assert_replays();
    scene.gateway.kill();
    scene.assert_intact();
    scene.gateway.restart();
    scene.assert_replays();
    scene.store(1);
    scene.assert_no_repeats();
}

/// The first of the calls that fail; the soak goes on from where it was.
fn first() -> u32 {
    env::var("HAPAX_SOAK_ROUND").map_or(1, |round| round.parse::<u32>().unwrap() * CALLS + 1)
}

/// Adds a line to the soak's report.
fn report(what: &str, at: u64, told: &Told) {
    let Ok(path) = env::var("HAPAX_SOAK_REPORT") else { return };
    let Told { stored, refused, unknown } = told;
    let line = json!({
        "what": what, "at": at, "stored": stored, "refused": refused, "unknown": unknown,
    });
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

fn every_nth(what: &str, call: Call, error: &'static str) {
    if DiskFault::is_left_out() {
        return;
    }
    for nth in first()..first() + CALLS {
        let mut scene = Scene::new();
        scene.store(1);
        let files = [scene.log(), scene.database()];
        let files = [&*files[0], &*files[1]];
        let fault = DiskFault::on(&scene.gateway, &files, call, Trouble::FailsAt(error, nth));
        let hit = std::cell::Cell::new(None);
        let told = pay_until(&mut scene, |_, paid| {
            assert!(paid < 2000, "it never comes to that");
            if hit.get().is_none() && fault.hits() > 0 {
                hit.set(Some(paid));
            }
            hit.get().is_some_and(|hit| paid > hit + 2)
        });
        drop(fault);
        assert_nothing_is_lost(&mut scene);
        report(what, nth.into(), &told);
    }
}

#[test]
fn every_nth_write_may_fail() {
    every_nth("a write fails with EIO", Call::Write, "EIO");
}

#[test]
fn for_every_nth_write_there_may_be_no_space() {
    every_nth("a write fails with ENOSPC", Call::Write, "ENOSPC");
}

#[test]
fn every_nth_sync_may_fail() {
    every_nth("a sync fails with EIO", Call::Sync, "EIO");
}

#[test]
fn a_write_may_be_cut_short_anywhere() {
    if is_missing("prlimit") {
        return;
    }
    // Past the end of the log: within a frame's head, at its end, in its page, and further on.
    let first = u64::from(first());
    let places =
        if first == 1 { [1, 23, 24, 977] } else { [0, 1, 2, 3].map(|n| (first + n) * 977) };
    for at in places {
        let mut scene = Scene::with(|_| None, |serve: Serve| serve.with_room_for(1 << 20));
        scene.store(1);
        let length = std::fs::metadata(scene.log()).expect("a log").len();
        scene.gateway.limit_file_size(Some(length + at));
        let told = pay_until(&mut scene, |scene, paid| {
            let is_full = scene.gateway.operator("/readyz").status == 503;
            if paid > 200 || is_full {
                scene.gateway.limit_file_size(None);
            }
            assert!(paid < 200, "it never comes to that");
            is_full
        });
        assert!(told.refused + told.unknown > 0, "nobody noticed");
        assert_nothing_is_lost(&mut scene);
        report("a write is cut short", at, &told);
    }
}
