//! Faults that do not end: what they cost, and how a gateway is left while they last.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use hapax_testkit::{
    Call, DiskFault, Pending, Request, Serve, Trouble, Upstream, Volume, eventually, fresh_key,
    until,
};

use super::{Scene, UNHARMED, assert_refused_at_once};
use crate::SOON;

/// What many requests may cost that are refused.
const AFFORDABLE: usize = 16 << 20;

#[test]
fn many_requests_while_it_lasts_cost_nothing_that_stays() {
    if DiskFault::is_left_out() {
        return;
    }
    for trouble in [Trouble::Fails("EIO"), Trouble::Hangs] {
        let mut scene = Scene::new();
        scene.store(1);
        let fault = DiskFault::on(&scene.gateway, &[&scene.log()], Call::Sync, trouble);
        let note = "x".repeat(30_000);
        let body = format!(r#"{{"amount":1200,"note":"{note}"}}"#);
        let wave = || {
            let request = || Request::payment(&fresh_key()).json(&body);
            let pending: Vec<_> = (0..100).map(|_| scene.gateway.start(&request())).collect();
            for answer in pending.into_iter().map(Pending::answer) {
                answer.assert_problem(503, "store-unavailable");
            }
        };
        // What all connections and the first callers take.
        (0..5).for_each(|_| wave());
        let before = scene.gateway.peak_memory();
        let begun = Instant::now();
        (0..8).for_each(|_| wave());
        let grown = scene.gateway.peak_memory().saturating_sub(before);
        assert!(grown < AFFORDABLE, "{trouble:?}: {grown} bytes for 800 requests");
        assert!(begun.elapsed() < SOON, "known to fail, it refuses at once: {:?}", begun.elapsed());
        scene.assert_unkeyed_unharmed();
        drop(fault);
        scene.assert_ready_again();
        scene.store(1);
        assert_eq!(scene.keyed_arrivals(), 2, "{trouble:?}");
        // What may have been claimed is found out about, and given back.
        let lost = scene.gateway.stderr();
        let lost = lost.iter().filter(|line| line.contains("a claim's answer was lost")).count();
        assert!(lost <= 100, "{lost} were lost: those that were there when it came");
        until("all of it is known", SOON, || {
            let of =
                |state| scene.records(&["list", "--limit", "1000", "--state", state, "--json"]);
            let (open, known) = (of("executing"), of("released"));
            let known = known.stdout.lines().count();
            (open.stdout.is_empty() && known == lost).then_some(())
        });
        scene.gateway.terminate();
        assert!(scene.gateway.ended(SOON).success());
        let said = scene.gateway.stderr().join("\n");
        assert!(said.contains("under_way=0"), "nothing of it is under way: {said}");
    }
}

#[test]
fn in_observe_mode_a_disk_that_hangs_delays_nobody() {
    if DiskFault::is_left_out() {
        return;
    }
    let scene = Scene::with(|_| None, |serve| serve.args(["--observe"]));
    let _fault = DiskFault::on(&scene.gateway, &[&scene.log()], Call::Sync, Trouble::Hangs);
    for _ in 0..5 {
        let begun = Instant::now();
        let answer = scene.gateway.send(&Request::payment(&fresh_key()));
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(begun.elapsed() < UNHARMED, "{:?}", begun.elapsed());
    }
    scene.assert_unkeyed_unharmed();
}

/// A gateway with its database in this directory that has a second to finish in.
fn hasty(place: &Path) -> impl Fn(&Path, &Upstream) -> Serve {
    let text = format!(
        "store = \"sqlite:{}/hapax.db\"\nscope = {{ single_tenant = true }}\n\
         [[service]]\nupstream = \"{{upstream}}\"\n[limits]\nstore = \"500ms\"\n\
         drain = \"1s\"\n[[operation]]\nname = \"payments.create\"\n\
         routes = [\"POST /payments\"]\nlease = \"2s\"\ntimeout = \"10s\"\n",
        place.display()
    );
    move |dir, upstream| Serve::configured(dir, upstream, &text)
}

#[test]
fn a_stop_while_it_lasts_ends_in_time_and_what_ran_is_unknown_afterwards() {
    if DiskFault::is_left_out() {
        return;
    }
    for (call, trouble) in [
        (Call::Sync, Trouble::Fails("EIO")),
        (Call::Write, Trouble::Fails("ENOSPC")),
        (Call::Sync, Trouble::Hangs),
        (Call::Write, Trouble::Hangs),
    ] {
        let mut scene =
            Scene::started(|_| None, |dir, upstream| hasty(&dir.join("store"))(dir, upstream));
        scene.store(2);
        let running = Request::payment(&fresh_key()).act("effect; gate never");
        let _run = scene.gateway.start(&running);
        until("it runs", SOON, || (scene.keyed_arrivals() == 3).then_some(()));
        let fault = DiskFault::on(&scene.gateway, &[&scene.log()], call, trouble);
        let refused = assert_refused_at_once(&scene, 3);
        let begun = Instant::now();
        scene.gateway.terminate();
        let stopped = || scene.gateway.stderr().iter().any(|line| line.ends_with(": stopped"));
        eventually("it has done what it can", SOON, stopped);
        // The drain, and what the store is waited for: twice for endings and twice to be closed.
        assert!(begun.elapsed() < Duration::from_secs(6), "{trouble:?}: {:?}", begun.elapsed());
        // No process ends while the system still holds one of its threads in a call.
        drop(fault);
        let status = scene.gateway.ended(SOON);
        assert!(status.success(), "{trouble:?}: {status}");
        scene.assert_intact();
        scene.gateway.restart();
        scene.assert_replays();
        until("its lease is over", SOON, || {
            let answer = scene.gateway.send(&running);
            let problem = answer.problem().unwrap_or_default();
            assert!(["in-flight", "outcome-unknown"].contains(&&*problem), "{answer:?}");
            (problem == "outcome-unknown").then_some(())
        });
        assert_eq!(scene.keyed_arrivals(), 3, "{trouble:?}: nothing runs by itself");
        // A claim that was lost may be found: then its key is held, and it is not executed.
        for request in refused {
            let answer = scene.gateway.send(&request);
            let problem = answer.problem();
            let is_held = matches!(problem.as_deref(), Some("in-flight" | "outcome-unknown"));
            assert!(answer.status == 201 || is_held, "{answer:?}");
        }
        scene.assert_no_repeats();
    }
}

#[test]
fn on_a_file_system_that_breaks_down_nothing_runs_and_nothing_is_lost() {
    if Volume::is_left_out() {
        return;
    }
    let volume = |at: &Path| Some(Volume::on_disk(at, 16 << 10));
    let serve = |dir: &Path, upstream: &Upstream| hasty(&dir.join("store"))(dir, upstream);
    let mut scene = Scene::started(volume, serve);
    scene.store(5);
    scene.volume.as_ref().expect("a volume").break_down();
    assert_refused_at_once(&scene, 10);
    scene.assert_not_ready();
    scene.assert_replays();
    scene.gateway.terminate();
    assert!(scene.gateway.ended(SOON).success());
    // What can still be read is all that was told.
    let rescued = scene.dir.path().join("rescued");
    fs::create_dir(&rescued).expect("a directory");
    for file in fs::read_dir(scene.place()).expect("a directory").flatten() {
        if file.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::copy(file.path(), rescued.join(file.file_name())).expect("it can be read");
        }
    }
    let gateway = hasty(&rescued)(scene.dir.path(), &scene.upstream).start();
    for (request, first) in &scene.stored {
        gateway.send(request).assert_replays(first);
    }
    assert_eq!(scene.keyed_arrivals(), 5);
}
