//! How commits are shared, lost, refused and bounded in time.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod kit;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hapax_core::{Advance, AdvanceReason, NewClaim, RecordId, Retention, Settlement, StoreTime};
use hapax_sql::{Fault, SqliteConfig, SqliteStore};
use hapax_store::{
    Claimed, Claims, Clock, Lookup, ManualClock, Owned, Standing, StandingState, StoreError, Sweep,
    SystemClock,
};
use kit::*;
use tokio::task::JoinSet;

/// How many commits the only node of a store has made.
fn commits(place: &Place) -> i64 {
    number(&place.shell(), "SELECT max(seq) FROM hapax_mark")
}

#[tokio::test(flavor = "multi_thread")]
async fn many_claims_share_a_commit() {
    let place = Place::new();
    let store = Arc::new(place.open());
    let before = commits(&place);
    let mut claims = JoinSet::new();
    for _ in 0..1000 {
        let store = store.clone();
        claims.spawn(async move { ours(store.claim(a_claim()).await) });
    }
    assert_eq!(claims.join_all().await.len(), 1000);
    let commits = commits(&place) - before;
    assert!(commits < 300, "{commits} commits for 1000 claims");
    assert_eq!(number(&place.shell(), "SELECT count(*) FROM hapax_record"), 1000);
}

#[tokio::test]
async fn claims_that_are_made_together_are_one_commit() {
    let place = Place::new();
    let store = place.open();
    let before = commits(&place);
    let claims = (0..1000).map(|_| a_claim()).collect::<Vec<_>>();
    let answers = store.claim_all(claims.clone()).await.expect("claims are answered");
    for (claim, answer) in claims.iter().zip(answers) {
        assert_eq!(ours(Ok(answer)).owner, claim.owner);
    }
    assert_eq!(commits(&place), before + 1);
    let again = store.claim_all(claims).await.expect("claims are answered");
    assert_eq!(again.len(), 1000);
    assert_eq!(commits(&place), before + 1, "issued again, they change nothing");
}

#[tokio::test]
async fn claims_that_are_made_together_with_a_damaged_record_claim_nothing() {
    let place = Place::new();
    let store = place.open();
    // Claims are made in the order of ids: this one is the last.
    let bad = ours(store.claim(claim_of(RecordId::from_bytes([0xff; 32]))).await);
    let damage = "UPDATE hapax_record SET state = 9 WHERE claim = ?1";
    assert_eq!(place.shell().execute(damage, [bad.claim.0]), Ok(1));
    let mut claims = (0..20).map(|_| a_claim()).collect::<Vec<_>>();
    claims.push(claim_of(bad.id));
    let (many, one) = tokio::join!(store.claim_all(claims.clone()), store.claim(a_claim()));
    assert!(matches!(many, Err(StoreError::Corrupt { .. })), "{many:?}");
    ours(one);
    claims.pop();
    for claim in &claims {
        assert_eq!(store.find(claim.id).await, Ok(None), "nothing was written");
    }
    store.claim_all(claims).await.expect("the others can be claimed");
}

#[tokio::test]
async fn what_changes_nothing_commits_nothing() {
    let place = Place::new();
    let store = place.open();
    let record = executing(&store).await;
    let before = commits(&place);
    let theirs = store.claim(claim_of(record.id)).await;
    assert!(matches!(theirs, Ok(Claimed::Theirs(_))));
    assert_eq!(store.sweep(record.created, 100).await, Ok(Default::default()));
    assert_eq!(commits(&place), before);
    store.beat().await.expect("a heartbeat");
    assert_eq!(commits(&place), before + 1);
}

#[tokio::test]
async fn an_ambiguous_commit_is_found_out() {
    let place = Place::new();
    let store = place.open();
    for committed in [true, false] {
        store.put_in_the_way(Fault::Ambiguous { committed });
        let record = executing(&store).await;
        store.put_in_the_way(Fault::Ambiguous { committed });
        done(store.settle(record.ownership(), outcome("done")).await);
        let found = store.find(record.id).await.expect("a find").expect("it is there");
        assert_eq!(found.response.expect("kept").body, "done");
        assert_eq!(store.standing(), StandingState::Ready);
    }
    assert_eq!(number(&place.shell(), "SELECT count(*) FROM hapax_record"), 2);
    assert_eq!(number(&place.shell(), "SELECT count(*) FROM hapax_ending"), 2);
}

#[tokio::test]
async fn a_caller_that_goes_away_stops_nothing() {
    let place = Place::new();
    let store = place.open();
    let claim = a_claim();
    let id = claim.id;
    tokio::select! {
        biased;
        _ = store.claim(claim) => panic!("a commit takes longer than nothing"),
        () = std::future::ready(()) => {}
    }
    store.beat().await.expect("it comes behind the claim");
    assert!(store.find(id).await.expect("a find").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_by_another_program_is_told_in_time_and_nothing_is_written() {
    let place = Place::new();
    let store = Arc::new(place.open());
    let record = executing(&store).await;
    let shell = place.shell();
    shell.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free");
    let started = Instant::now();
    let mut claims = JoinSet::new();
    for _ in 0..300 {
        let store = store.clone();
        claims.spawn(async move {
            let claim = a_claim();
            (claim.id, store.claim(claim).await)
        });
    }
    assert!(store.find(record.id).await.expect("reading goes on").is_some());
    let refused = claims.join_all().await;
    let waited = started.elapsed();
    assert!(waited > Duration::from_millis(1900), "{waited:?}");
    assert!(waited < Duration::from_millis(3500), "{waited:?}");
    assert!(matches!(store.standing(), StandingState::Failing { .. }));
    let of_two_seconds = StoreError::Locked(Duration::from_secs(2));
    assert!(refused.iter().any(|(_, refused)| *refused == Err(of_two_seconds.clone())));
    let message =
        "the store stayed locked for 2s, by another process or an open transaction of this one";
    assert_eq!(of_two_seconds.to_string(), message);

    shell.execute_batch("ROLLBACK").expect("it is given back");
    executing(&store).await;
    assert_eq!(store.standing(), StandingState::Ready);
    for (id, refused) in refused {
        assert!(
            matches!(refused, Err(StoreError::Locked(_) | StoreError::Unavailable { .. })),
            "{refused:?}"
        );
        assert_eq!(store.find(id).await, Ok(None), "refused means not written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_given_back_in_time_is_waited_for() {
    let place = Place::new();
    let store = Arc::new(place.open());
    let shell = place.shell();
    shell.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free");
    let claim = tokio::spawn({
        let store = store.clone();
        async move { store.claim(a_claim()).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    shell.execute_batch("ROLLBACK").expect("it is given back");
    ours(claim.await.expect("no panic"));
}

/// A clock that stands in for a disk that hangs: whoever asks for the time waits.
#[derive(Default)]
struct Hanging(AtomicBool);

impl Clock for Hanging {
    fn now(&self) -> StoreTime {
        while self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        SystemClock.now()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_hangs_no_caller_and_certainty_is_told() {
    let place = Place::new();
    let clock = Arc::new(Hanging::default());
    let config = SqliteConfig::new(place.file());
    let timeout = Duration::from_millis(200);
    let config = SqliteConfig { timeout, clock: clock.clone(), ..config };
    let store = Arc::new(SqliteStore::open(config).expect("the store opens"));
    let claim = |claim: NewClaim| {
        let store = store.clone();
        tokio::spawn(async move { store.claim(claim).await })
    };
    clock.0.store(true, Ordering::SeqCst);
    let (under_way, queued) = (a_claim(), a_claim());
    let first = claim(under_way.clone());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = claim(queued.clone());
    let lost = first.await.expect("no panic");
    assert!(matches!(lost, Err(StoreError::AnswerLost { .. })), "{lost:?}");
    let refused = second.await.expect("no panic");
    let reason = "the store did not get to it within 200ms".to_owned();
    assert_eq!(refused, Err(StoreError::Unavailable { reason }));
    // By now it is known to hang: it says so, and nobody waits for it or fills its queue.
    let reason = "the disk has not answered for more than 200ms".to_owned();
    let hangs = StoreError::Unavailable { reason };
    let late = StandingState::Failing { reason: hangs.to_string() };
    until("it is seen", || store.standing() == late).await;
    let begun = Instant::now();
    assert_eq!(store.claim(a_claim()).await.map(drop), Err(hangs));
    assert!(begun.elapsed() < timeout, "{:?}", begun.elapsed());
    clock.0.store(false, Ordering::SeqCst);
    until("it goes on", || store.standing() == StandingState::Ready).await;
    store.beat().await.expect("it goes on");
    assert_eq!(store.find(queued.id).await, Ok(None), "refused means not written");
    ours(store.claim(under_way).await);
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect(what);
}

#[tokio::test]
async fn commits_that_stay_lost_let_nothing_be_written_until_one_gets_through() {
    let place = Place::new();
    let store = place.open();
    let known = executing(&store).await;
    // It is lost, and so is the one that was to find out about it.
    for committed in [false, true] {
        store.put_in_the_way(Fault::Ambiguous { committed: false });
        store.put_in_the_way(Fault::Ambiguous { committed });
        let claim = a_claim();
        let lost = store.claim(claim.clone()).await;
        assert!(matches!(lost, Err(StoreError::AnswerLost { .. })), "{lost:?}");
        let refused = a_claim();
        let answer = store.claim(refused.clone()).await;
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
        assert_eq!(store.find(refused.id).await, Ok(None), "refused means not written");
        assert!(matches!(store.standing(), StandingState::Failing { .. }));
        // What writes nothing is answered.
        let theirs = store.claim(claim_of(known.id)).await;
        assert!(matches!(theirs, Ok(Claimed::Theirs(_))), "{theirs:?}");
        assert!(matches!(store.standing(), StandingState::Failing { .. }), "that proves nothing");
        let gets_through = async {
            while store.beat().await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), gets_through).await.expect("a commit");
        assert_eq!(store.standing(), StandingState::Ready);
        let again = ours(store.claim(claim.clone()).await);
        assert_eq!(again.owner, claim.owner);
    }
}

#[tokio::test]
async fn a_claim_of_a_stub_takes_its_slot() {
    let place = Place::new();
    let store = place.open();
    let record = executing(&store).await;
    let retention = Retention::default();
    let nothing = Settlement::NotApplied { every_attempt: false, retention };
    let stub = done(store.settle(record.ownership(), nothing).await);
    let due = "SELECT count(*) FROM hapax_ending WHERE due IS NOT NULL";
    assert_eq!(number(&place.shell(), due), 1);
    let claim = claim_of(stub.id);
    let advance = Advance { seen: stub.seen(), reason: AdvanceReason::Released, claim };
    ours(store.advance(advance).await);
    assert_eq!(number(&place.shell(), due), 0, "nothing is left for the sweeper to find");
}

fn bounded(place: &Place, clock: &Arc<ManualClock>, max_bytes: u64) -> SqliteStore {
    let config = SqliteConfig::new(place.file());
    let config = SqliteConfig { max_bytes: Some(max_bytes), clock: clock.clone(), ..config };
    SqliteStore::open(config).expect("the store opens")
}

#[tokio::test]
async fn a_full_store_says_so_writes_nothing_half_and_goes_on_when_there_is_space() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new());
    let store = bounded(&place, &clock, 1 << 20);
    let body = Bytes::from(vec![7; 100_000]);
    let mut settled = 0;
    let full = loop {
        let record = executing(&store).await;
        match store.settle(record.ownership(), outcome(body.clone())).await {
            Ok(_) => settled += 1,
            Err(error) => break (record, error),
        }
    };
    let (record, error) = full;
    assert_eq!(error, StoreError::Full);
    assert_eq!(error.to_string(), "the store's disk is full; free space on it");
    assert!(matches!(store.standing(), StandingState::Failing { .. }));
    let found = store.find(record.id).await.expect("a find").expect("it is there");
    assert_eq!((found.record, found.response), (record.clone(), None), "nothing of the settle");
    let shell = place.shell();
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_ending"), settled);
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_body"), settled);

    let month = Duration::from_secs(31 * 86_400);
    clock.advance(month);
    let swept = store.sweep(record.created.after(month), 100).await.expect("a sweep");
    assert_eq!(i64::try_from(swept.purged), Ok(settled));
    done(store.settle(record.ownership(), outcome(body)).await);
    assert_eq!(store.standing(), StandingState::Ready);
}

/// On a real small disk, where this process may mount one.
#[tokio::test]
async fn a_full_disk_is_a_full_store() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(place.dir()) else {
        println!("not run: this process may not mount a disk");
        return;
    };
    let store = place.open();
    let kept = executing(&store).await;
    let ballast = place.dir().join("ballast");
    let mut size = 0;
    while std::fs::write(&ballast, vec![0; size]).is_ok() {
        size += 1 << 16;
    }
    let full = loop {
        let claim = a_claim();
        match store.claim(claim.clone()).await {
            Ok(_) => {}
            Err(error) => break (claim, error),
        }
    };
    let (claim, error) = full;
    assert_eq!(error, StoreError::Full);
    assert_eq!(store.beat().await, Err(StoreError::Full));
    assert_eq!(store.find(claim.id).await, Ok(None), "refused means not written");
    assert!(store.find(kept.id).await.expect("reading goes on").is_some());

    std::fs::remove_file(&ballast).expect("space is made");
    ours(store.claim(claim).await);
    done(store.settle(kept.ownership(), outcome("done")).await);
    assert_eq!(store.standing(), StandingState::Ready);
    let intact =
        place.shell().query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(intact.expect("a check"), "ok");
    store.close().await;
}

/// A disk of a few megabytes, until it is dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &std::path::Path) -> Option<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(at);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the store may still be closing.
        let unmounted = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{:?} stays mounted", self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_fails_alone() {
    let place = Place::new();
    let store = Arc::new(bounded(&place, &Arc::new(ManualClock::new()), 1 << 20));
    let record = executing(&store).await;
    let shell = place.shell();
    // All of it queues up behind the lock, so it shares a transaction.
    shell.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free");
    let large = tokio::spawn({
        let (store, body) = (store.clone(), vec![7; 2 << 20]);
        async move { store.settle(record.ownership(), outcome(body)).await }
    });
    let mut claims = JoinSet::new();
    for _ in 0..50 {
        let store = store.clone();
        claims.spawn(async move { store.claim(a_claim()).await });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    shell.execute_batch("ROLLBACK").expect("it is given back");
    assert_eq!(large.await.expect("no panic"), Err(StoreError::Full));
    for claimed in claims.join_all().await {
        ours(claimed);
    }
}

#[tokio::test]
async fn a_log_that_grew_is_cut_when_there_is_time() {
    let place = Place::new();
    let store = place.open();
    let shell = place.shell();
    shell.execute_batch("BEGIN; SELECT count(*) FROM hapax_record").expect("somebody reads");
    let body = Bytes::from(vec![7; 1 << 20]);
    for _ in 0..10 {
        let record = executing(&store).await;
        done(store.settle(record.ownership(), outcome(body.clone())).await);
    }
    let log = || std::fs::metadata(place.beside("-wal")).expect("a log").len();
    assert!(log() > 10 << 20, "{}", log());
    shell.execute_batch("ROLLBACK").expect("somebody has read");
    let cut = async {
        while log() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), cut).await.expect("it is cut");
    executing(&store).await;
}

#[tokio::test]
async fn a_sweep_of_large_bodies_goes_in_steps_too() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new());
    let store = bounded(&place, &clock, 1 << 30);
    let body = Bytes::from(vec![7; 6 << 20]);
    for _ in 0..4 {
        let record = executing(&store).await;
        done(store.settle(record.ownership(), outcome(body.clone())).await);
    }
    clock.advance(Duration::from_secs(2 * 86_400));
    for bodies in [3, 1, 0] {
        let swept = store.sweep(clock.now(), 100).await.expect("a sweep");
        assert_eq!((swept.bodies, swept.purged), (bodies, 0));
    }
}

#[tokio::test]
async fn a_damaged_row_fails_alone() {
    let place = Place::new();
    let store = place.open();
    let (bad, good) = (executing(&store).await, executing(&store).await);
    let damage = "UPDATE hapax_record SET state = 9 WHERE claim = ?1";
    assert_eq!(place.shell().execute(damage, [bad.claim.0]), Ok(1));
    let renew = |of: &hapax_core::Record| store.renew(of.ownership(), Duration::from_secs(9));
    let (bad, good) = tokio::join!(renew(&bad), renew(&good));
    assert!(matches!(bad, Err(StoreError::Corrupt { .. })), "{bad:?}");
    done(good);
    assert_eq!(store.standing(), StandingState::Ready);
}

#[tokio::test]
async fn closing_finishes_what_was_asked_for_and_leaves_one_file() {
    let place = Place::new();
    let store = place.open();
    let claims = (0..20).map(|_| a_claim()).collect::<Vec<_>>();
    let ids = claims.iter().map(|claim| claim.id).collect::<Vec<RecordId>>();
    let all = futures_join(claims.into_iter().map(|claim| store.claim(claim)).collect());
    let (answers, ()) = tokio::join!(all, store.close());
    for answer in answers {
        ours(answer);
    }
    assert!(!place.beside("-wal").exists(), "the log is in the file");
    assert!(matches!(store.claim(a_claim()).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(store.find(ids[0]).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(store.standing(), StandingState::Failing { .. }));
    store.close().await;
    let store = place.open();
    for id in ids {
        assert!(store.find(id).await.expect("a find").is_some());
    }
}

/// Polls all futures together.
async fn futures_join<T>(futures: Vec<impl Future<Output = T> + Unpin>) -> Vec<T> {
    let mut futures = futures.into_iter().map(Some).collect::<Vec<_>>();
    let mut answers = futures.iter().map(|_| None).collect::<Vec<_>>();
    std::future::poll_fn(move |cx| {
        for (future, answer) in futures.iter_mut().zip(&mut answers) {
            if let Some(running) = future
                && let std::task::Poll::Ready(value) = std::pin::Pin::new(running).poll(cx)
            {
                (*future, *answer) = (None, Some(value));
            }
        }
        match answers.iter().all(Option::is_some) {
            true => std::task::Poll::Ready(answers.drain(..).flatten().collect()),
            false => std::task::Poll::Pending,
        }
    })
    .await
}
