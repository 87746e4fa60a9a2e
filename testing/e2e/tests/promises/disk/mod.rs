//! Disks that fail, fill up, hang, go read-only or get damaged under a running gateway, for real and
//! from outside of it.

mod damaged;
mod descriptors;
mod failing;
mod lasting;
mod nth;
mod shared;
mod starting;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hapax_testkit::{
    Answer, Gateway, Pending, Ran, Request, Serve, Upstream, UpstreamKind, Volume, eventually,
    fresh_key, hapax, until,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::SOON;

/// Within which every caller has its answer: `limits.store` and what a busy machine adds.
const BOUND: Duration = Duration::from_secs(6);

/// Within which a request that needs no store has its answer, on a machine that also compiles.
const UNHARMED: Duration = Duration::from_secs(2);

/// A gateway whose database lies in a directory of its own, and what it has done so far. Fields are
/// dropped in order: the gateway first.
struct Scene {
    gateway: Gateway,
    upstream: Upstream,
    volume: Option<Volume>,
    dir: TempDir,
    /// What callers were told to be stored.
    stored: Vec<(Request, Answer)>,
}

impl Scene {
    fn new() -> Self {
        Self::with(|_| None, |serve| serve)
    }

    /// On a file system of its own, and started as the function says.
    fn with(
        volume: impl FnOnce(&Path) -> Option<Volume>,
        serve: impl FnOnce(Serve) -> Serve,
    ) -> Self {
        Self::started(volume, |dir, upstream| {
            serve(Serve::new(dir, upstream).store(&dir.join("store/hapax.db")))
        })
    }

    fn started(
        volume: impl FnOnce(&Path) -> Option<Volume>,
        serve: impl FnOnce(&Path, &Upstream) -> Serve,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().join("store");
        std::fs::create_dir(&place).expect("a directory");
        let volume = volume(&place);
        let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
        let gateway = serve(dir.path(), &upstream).start();
        Self { gateway, upstream, volume, dir, stored: Vec::new() }
    }

    fn place(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn database(&self) -> PathBuf {
        self.place().join("hapax.db")
    }

    fn log(&self) -> PathBuf {
        self.place().join("hapax.db-wal")
    }

    /// Ends it in order.
    #[track_caller]
    fn stop(&mut self) {
        self.gateway.terminate();
        assert!(self.gateway.ended(SOON).success());
    }

    /// One that is started now ends by itself, with a message that names the file and a remedy.
    #[track_caller]
    fn assert_start_refused(&self, said: &str) {
        let ran = self.gateway.serve().run();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let named = self.database().display().to_string();
        assert!(ran.stderr.contains(&named) && ran.stderr.contains(said), "{said}: {ran:?}");
        assert!(!ran.stdout.contains("listening"), "{ran:?}");
    }

    /// `hapax records …` on the database.
    fn records(&self, args: &[&str]) -> Ran {
        let store = format!("sqlite:{}", self.database().display());
        let (verb, rest) = args.split_first().expect("a verb");
        hapax(["records", verb, "--store", &store].iter().chain(rest))
    }

    /// Sends so many payments that are stored.
    #[track_caller]
    fn store(&mut self, count: usize) {
        for _ in 0..count {
            let request = Request::payment(&fresh_key());
            let answer = self.gateway.send(&request);
            self.stored.push((request, answer.assert_stored(201).clone()));
        }
    }

    /// Whatever was told to be stored is replayed.
    #[track_caller]
    fn assert_replays(&self) {
        for (request, first) in &self.stored {
            self.gateway.send(request).assert_replays(first);
        }
    }

    /// How many requests with an effect id have arrived.
    fn keyed_arrivals(&self) -> usize {
        let arrivals = self.upstream.arrivals();
        arrivals.iter().filter(|arrival| !arrival.all("idempotency-key").is_empty()).count()
    }

    /// No effect id arrived twice.
    #[track_caller]
    fn assert_no_repeats(&self) {
        let mut by_id = BTreeMap::<_, usize>::new();
        for arrival in self.upstream.arrivals() {
            if !arrival.all("idempotency-key").is_empty() {
                *by_id.entry(arrival.effect_id()).or_default() += 1;
            }
        }
        let twice: Vec<_> = by_id.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "more than once: {twice:?}");
    }

    /// Requests without a key pass, and nobody notices anything.
    #[track_caller]
    fn assert_unkeyed_unharmed(&self) {
        for _ in 0..10 {
            let begun = Instant::now();
            let answer = self.gateway.send(&Request::payment("").without("idempotency-key"));
            assert_eq!(answer.status, 201, "{answer:?}");
            assert!(begun.elapsed() < UNHARMED, "{:?}", begun.elapsed());
        }
    }

    /// It says that it is not ready, and why; and that it runs.
    #[track_caller]
    fn assert_not_ready(&self) {
        let readiness = until("it is not ready", BOUND, || {
            let readiness = self.gateway.operator("/readyz");
            (readiness.status == 503).then_some(readiness)
        });
        let text = readiness.text();
        assert!(text.starts_with("not ready: ") && text.len() > 20, "{text}");
        assert_eq!(self.gateway.operator("/healthz").status, 200);
    }

    #[track_caller]
    fn assert_ready_again(&self) {
        eventually("it is ready again", SOON, || self.gateway.operator("/readyz").status == 200);
    }

    /// The file is whole, by SQLite's own check.
    #[track_caller]
    fn assert_intact(&self) {
        let connection = Connection::open(self.database()).expect("the database opens");
        connection.busy_timeout(SOON).expect("a timeout");
        let check = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0));
        assert_eq!(check, Ok("ok".to_owned()));
    }

    /// Killed and started again, the file is whole and nothing that was told is lost or repeated.
    #[track_caller]
    fn assert_survives_a_kill(&mut self) {
        self.gateway.kill();
        self.assert_intact();
        self.gateway.restart();
        self.assert_replays();
        self.assert_no_repeats();
    }

    /// Sends a request again until it is stored, and remembers that.
    #[track_caller]
    fn retry_until_stored(&mut self, request: Request) {
        let answer = until("it is stored", SOON, || {
            let answer = self.gateway.send(&request);
            (answer.status == 201).then_some(answer)
        });
        assert!(answer.field("idempotency-expires").is_some(), "{answer:?}");
        self.stored.push((request, without_mark(answer)));
    }
}

/// As the first caller would have got it, for comparing replays with it.
fn without_mark(mut answer: Answer) -> Answer {
    answer.headers.retain(|(name, _)| name != "idempotent-replayed");
    answer
}

/// What is different from fault to fault.
#[derive(Clone, Copy, Debug)]
struct Endured {
    /// Whether what is stored can be read while it lasts.
    replays: bool,
}

/// Many new requests at once are all refused within the bound, and none arrives.
#[track_caller]
fn assert_refused_at_once(scene: &Scene, count: usize) -> Vec<Request> {
    let before = scene.keyed_arrivals();
    let requests: Vec<_> = (0..count).map(|_| Request::payment(&fresh_key())).collect();
    let begun = Instant::now();
    let pending: Vec<_> = requests.iter().map(|request| scene.gateway.start(request)).collect();
    scene.assert_unkeyed_unharmed();
    for answer in pending.into_iter().map(Pending::answer) {
        answer.assert_problem(503, "store-unavailable");
        assert!(answer.field("retry-after").is_some(), "{answer:?}");
        assert_eq!(answer.field("hapax-outcome"), None, "it knows nothing: {answer:?}");
    }
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(scene.keyed_arrivals(), before, "nothing was executed");
    requests
}

/// What holds of every fault that ends: callers are refused in time, nothing runs that is not
/// recorded, what runs is told truthfully, nothing is lost, and it goes on by itself.
#[track_caller]
fn endures<F>(scene: &mut Scene, fault: impl FnOnce(&Scene) -> F, endured: Endured) {
    scene.store(3);
    let running = Request::payment(&fresh_key()).act("gate running; effect; status 201");
    let run = scene.gateway.start(&running);
    until("it runs", SOON, || (scene.keyed_arrivals() == 4).then_some(()));

    let lasting = fault(scene);
    let mut refused = assert_refused_at_once(scene, 20);
    // What ran when it came may have taken effect, and that cannot be stored.
    scene.upstream.open("running");
    run.answer().assert_problem(409, "outcome-unknown").assert_outcome("unknown");
    scene.assert_not_ready();
    // Those that come later are refused as those that were there.
    refused.extend(assert_refused_at_once(scene, 20));
    if endured.replays {
        scene.assert_replays();
    }
    let kept = scene.gateway.send(&running);
    let known = kept.problem().unwrap_or_default();
    assert!(
        ["in-flight", "outcome-unknown", "store-unavailable"].contains(&known.as_str()),
        "neither executed again nor told to be over: {kept:?}"
    );
    scene.assert_not_ready();

    drop(lasting);
    scene.assert_ready_again();
    // Its outcome was kept in memory until it could be stored.
    let settled = until("it is settled", SOON, || {
        let answer = scene.gateway.send(&running);
        (answer.status == 201).then_some(answer)
    });
    assert!(settled.is_replay(), "{settled:?}");
    scene.stored.push((running, without_mark(settled)));
    refused.into_iter().for_each(|request| scene.retry_until_stored(request));
    scene.assert_replays();
    scene.assert_no_repeats();
    // What was told is on disk, and the disk has nothing else.
    scene.assert_survives_a_kill();
}
