//! Several processes on one file, and processes that are killed.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod kit;

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use hapax_core::RecordId;
use hapax_sql::{SqliteConfig, SqliteStore};
use hapax_store::{Claimed, Claims, Inspect, ListFilter, Lookup, Owned, Standing, StandingState};
use kit::*;
use tokio::task::JoinSet;

/// How many tasks of a process do the same at once.
const TASKS: usize = 32;

/// Not a test by itself: what the other process does. It claims numbers, upwards or downwards,
/// each many times at once, settles what is its own, and says which those are.
#[test]
fn child() {
    let Ok(file) = std::env::var("HAPAX_TEST_FILE") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let store = SqliteStore::open(SqliteConfig::new(file)).expect("the store opens");
        let store = Arc::new(store);
        println!("ready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("the word to go");
        let (direction, count) = line.trim().split_once(' ').expect("two words");
        let numbers = 0..count.parse().expect("a number");
        let numbers: Vec<u64> =
            if direction == "up" { numbers.collect() } else { numbers.rev().collect() };
        claim_all(store, numbers, |number| println!("ours {number}")).await;
        println!("done");
    });
}

async fn claim_all(store: Arc<SqliteStore>, numbers: Vec<u64>, ours: fn(u64)) {
    let numbers: Arc<[u64]> = numbers.into();
    let mut running = JoinSet::new();
    for _ in 0..TASKS {
        let (store, numbers) = (store.clone(), numbers.clone());
        running.spawn(async move {
            for &number in &*numbers {
                match store.claim(claim_of(id(number))).await.expect("a claim is answered") {
                    Claimed::Ours(record) => {
                        done(store.settle(record.ownership(), outcome("done")).await);
                        ours(number);
                    }
                    Claimed::Theirs(_) => {}
                    Claimed::Gone => panic!("it was there"),
                }
            }
        });
    }
    while let Some(task) = running.join_next().await {
        task.expect("no task panics");
    }
}

fn id(number: u64) -> RecordId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    RecordId::from_bytes(bytes)
}

struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(place: &Place) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--nocapture"])
            .env("HAPAX_TEST_FILE", place.file())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let out = child.stdout.take().expect("a pipe");
        let mut process = Self { child, lines: BufReader::new(out).lines() };
        while process.next() != "ready" {}
        process
    }

    fn go(&mut self, direction: &str, count: u64) {
        let mut stdin = self.child.stdin.take().expect("a pipe");
        writeln!(stdin, "{direction} {count}").expect("it listens");
    }

    fn next(&mut self) -> String {
        self.lines.next().expect("it says more").expect("text")
    }

    /// What it claimed, until it is done.
    fn ours(mut self) -> Vec<u64> {
        let mut ours = Vec::new();
        loop {
            let line = self.next();
            match line.strip_prefix("ours ") {
                Some(number) => ours.push(number.parse().expect("a number")),
                None if line == "done" => break,
                None => {}
            }
        }
        assert!(self.child.wait().expect("it ends").success());
        ours
    }
}

#[test]
fn two_processes_share_a_file() {
    let place = Place::new();
    let mut processes = [Process::start(&place), Process::start(&place)];
    processes[0].go("up", 200);
    processes[1].go("down", 200);
    let claimed = processes.map(Process::ours);
    let all = claimed.iter().flatten().collect::<HashSet<_>>();
    assert_eq!(claimed.iter().map(Vec::len).sum::<usize>(), 200, "each was claimed once");
    assert_eq!(all.len(), 200);
    let shares = claimed.map(|ours| ours.len());
    assert!(shares.iter().all(|share| *share > 0), "one of them starved: {shares:?}");
    let shell = place.shell();
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_record"), 200);
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_ending"), 200);
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_body"), 200);
}

#[tokio::test]
async fn what_a_killed_process_acknowledged_is_there() {
    let place = Place::new();
    let mut process = Process::start(&place);
    process.go("up", 100_000);
    let mut acknowledged = Vec::new();
    while acknowledged.len() < 500 {
        if let Some(number) = process.next().strip_prefix("ours ") {
            acknowledged.push(number.parse().expect("a number"));
        }
    }
    process.child.kill().expect("it is killed");
    process.child.wait().expect("it ends");
    // What it said before it was killed.
    while let Some(Ok(line)) = process.lines.next() {
        if let Some(number) = line.strip_prefix("ours ").and_then(|text| text.parse().ok()) {
            acknowledged.push(number);
        }
    }
    assert!(place.beside("-wal").exists(), "it had no time to tidy up");
    // Looking first: what is only in the log is there for a reader too.
    let reader = SqliteStore::open_read_only(place.file()).expect("it opens");
    let store = place.open();
    for number in acknowledged {
        for node in [&reader, &store] {
            let found = node.find(id(number)).await.expect("a find").expect("acknowledged");
            assert_eq!(found.response.expect("kept").body, "done");
        }
    }
    executing(&store).await;
    assert_eq!(store.standing(), StandingState::Ready);
}

#[tokio::test]
async fn what_was_acknowledged_is_there_when_nobody_closed() {
    let place = Place::new();
    let store = place.open();
    let record = executing(&store).await;
    done(store.settle(record.ownership(), outcome("done")).await);
    drop(store);
    let store = place.open();
    let found = store.find(record.id).await.expect("a find").expect("it was acknowledged");
    assert_eq!(found.response.expect("kept").body, "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_on_two_nodes_claim_each_key_once() {
    let place = Place::new();
    let nodes = [Arc::new(place.open()), Arc::new(place.open())];
    let all = nodes.clone().map(|node| tokio::spawn(claim_all(node, (0..100).collect(), |_| {})));
    for tasks in all {
        tasks.await.expect("no panic");
    }
    let filter = ListFilter { limit: 1000, ..ListFilter::default() };
    let listed = nodes[0].list(filter).await.expect("a list");
    assert_eq!(listed.len(), 100);
    assert!(nodes.iter().all(|node| node.standing() == StandingState::Ready));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_node_does_not_starve_another() {
    let place = Place::new();
    let nodes = [Arc::new(place.open()), Arc::new(place.open())];
    let until = Instant::now() + Duration::from_secs(1);
    let busy = |node: Arc<SqliteStore>| async move {
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let node = node.clone();
            tasks.spawn(async move {
                let mut claims = 0_u32;
                while Instant::now() < until {
                    executing(&node).await;
                    claims += 1;
                }
                claims
            });
        }
        tasks.join_all().await.into_iter().sum::<u32>()
    };
    let [first, second] = nodes.map(|node| tokio::spawn(busy(node)));
    let shares = [first.await.expect("no panic"), second.await.expect("no panic")];
    let (least, most) = (shares.iter().min(), shares.iter().max());
    println!("{shares:?}");
    assert!(least.zip(most).is_some_and(|(least, most)| *most < least * 10), "{shares:?}");
}
