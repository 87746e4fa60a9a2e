//! A file that is replaced, removed or set back under an open store is noticed before anything is
//! admitted, and is not harmed.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod kit;

use std::{fs, time::Duration};

use hapax_store::{Claims, Lookup, Owned, Standing, StandingState, StoreError};
use kit::*;

#[tokio::test]
async fn a_backup_renamed_over_the_file_trips_and_becomes_the_newer_incarnation() {
    let place = Place::new();
    let store = place.open();
    let kept = executing(&store).await;
    let backup = place.back_up();
    let lost = executing(&store).await;
    fs::rename(&backup, place.file()).expect("it is renamed");

    let claim = a_claim();
    let reason = regressed(store.claim(claim.clone()).await);
    assert!(reason.ends_with("hapax.db was replaced by another file"), "{reason}");
    regressed(store.settle(kept.ownership(), outcome("late")).await);
    regressed(store.find(kept.id).await);
    assert!(matches!(store.standing(), StandingState::Regressed { .. }));

    let shell = place.shell();
    assert_eq!(number(&shell, "SELECT epoch FROM hapax_store"), 1);
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_record"), 1, "nothing of the old file");
    let intact = shell.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(intact.expect("a check"), "ok");
    drop(shell);

    let restarted = place.open();
    assert_eq!(restarted.find(lost.id).await, Ok(None));
    let record = ours(restarted.claim(claim).await);
    assert_eq!((record.attempt.epoch(), record.attempt.number()), (1, 1));
    assert!(record.attempt > lost.attempt, "newer than all that the lost history knew");
    store.close().await;
    executing(&restarted).await;
    assert_eq!(restarted.standing(), StandingState::Ready);
}

#[tokio::test]
async fn a_replaced_file_does_not_answer_from_the_old_one() {
    let place = Place::new();
    let store = place.open();
    let backup = place.back_up();
    let record = executing(&store).await;
    fs::rename(&backup, place.file()).expect("it is renamed");
    let reason = regressed(store.find(record.id).await);
    assert!(reason.contains("was replaced"), "{reason}");
    regressed(store.beat().await);
}

#[tokio::test]
async fn an_idle_store_notices_by_itself() {
    let place = Place::new();
    let store = place.open();
    let backup = place.back_up();
    fs::rename(&backup, place.file()).expect("it is renamed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(store.standing(), StandingState::Regressed { .. }));
}

#[tokio::test]
async fn a_removed_file_trips() {
    let place = Place::new();
    let store = place.open();
    executing(&store).await;
    fs::remove_file(place.file()).expect("it is removed");
    let reason = regressed(store.claim(a_claim()).await);
    assert!(reason.ends_with("hapax.db is gone"), "{reason}");
    assert!(!place.file().exists(), "nothing is made in its place");
}

#[tokio::test]
async fn a_backup_copied_into_the_file_trips() {
    let place = Place::new();
    let store = place.open();
    let kept = executing(&store).await;
    let backup = place.back_up();
    let lost = executing(&store).await;
    // As a restore script does it: the same file, other bytes, and no log that belongs to them.
    run("cp", &[&backup, &place.file()]);
    run("rm", &[&place.beside("-wal"), &place.beside("-shm")]);

    let reason = regressed(store.claim(a_claim()).await);
    assert!(reason.contains("-wal was removed or replaced"), "{reason}");
    regressed(store.renew(lost.ownership(), Duration::from_secs(1)).await);
    store.close().await;

    let shell = place.shell();
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_record"), 1, "nothing of the old log");
    let intact = shell.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(intact.expect("a check"), "ok");
    drop(shell);
    let restarted = place.open();
    assert!(restarted.find(kept.id).await.expect("a find").is_some());
    assert_eq!(restarted.find(lost.id).await, Ok(None));
}

#[tokio::test]
async fn a_mark_elsewhere_than_it_was_left_trips_and_raises_the_epoch() {
    let cases = [
        ("UPDATE hapax_mark SET seq = seq - 1", "went back in time"),
        ("UPDATE hapax_mark SET seq = seq + 1", "stands at"),
        ("DELETE FROM hapax_mark", "mark is missing"),
        ("UPDATE hapax_store SET uuid = zeroblob(16)", "another store"),
        ("DELETE FROM hapax_store", "another store"),
    ];
    for (tampering, expected) in cases {
        let place = Place::new();
        let store = place.open();
        executing(&store).await;
        place.shell().execute(tampering, ()).expect("it is tampered with");
        let claim = a_claim();
        let reason = regressed(store.claim(claim.clone()).await);
        assert!(reason.contains(expected), "{tampering}: {reason}");
        assert_eq!(store.find(claim.id).await, Ok(None), "{tampering}: nothing was admitted");
        regressed(store.beat().await);
        let raised = number(&place.shell(), "SELECT coalesce(max(epoch), -1) FROM hapax_store");
        let expected = if tampering == "DELETE FROM hapax_store" { -1 } else { 1 };
        assert_eq!(raised, expected, "{tampering}");
    }
}

#[tokio::test]
async fn one_nodes_regression_stops_all_until_they_restart_and_is_raised_once() {
    let place = Place::new();
    let (first, second) = (place.open(), place.open());
    executing(&first).await;
    executing(&second).await;
    place.shell().execute("UPDATE hapax_mark SET seq = 0", ()).expect("both marks go back");
    regressed(first.claim(a_claim()).await);
    regressed(second.claim(a_claim()).await);
    assert_eq!(
        number(&place.shell(), "SELECT epoch FROM hapax_store"),
        2,
        "each lost its own mark"
    );

    let (first, second) = (place.open(), place.open());
    executing(&second).await;
    // The mark of the one that has not written since it opened.
    let idle = "UPDATE hapax_mark SET seq = 7 \
                WHERE seq = 0 AND at = (SELECT max(at) FROM hapax_mark WHERE seq = 0)";
    place.shell().execute(idle, ()).expect("its mark moves");
    regressed(first.claim(a_claim()).await);
    let reason = regressed(second.claim(a_claim()).await);
    assert!(reason.contains("raised the epoch from 2 to 3"), "{reason}");
    assert_eq!(number(&place.shell(), "SELECT epoch FROM hapax_store"), 3);
}

#[tokio::test]
async fn a_regressed_store_closes_in_order() {
    let place = Place::new();
    let store = place.open();
    let backup = place.back_up();
    fs::rename(&backup, place.file()).expect("it is renamed");
    regressed(store.beat().await);
    store.close().await;
    assert!(matches!(store.standing(), StandingState::Regressed { .. }), "the reason stays");
    let after = store.claim(a_claim()).await;
    assert!(matches!(after, Err(StoreError::Regressed { .. })), "{after:?}");
}

#[tokio::test]
async fn a_store_that_its_user_distrusts_is_not_used_on() {
    let place = Place::new();
    let (store, neighbour) = (place.open(), place.open());
    let record = executing(&store).await;
    store.distrust("an acknowledged record is gone".to_owned());
    store.distrust("something else".to_owned());
    assert_eq!(regressed(store.claim(a_claim()).await), "an acknowledged record is gone");
    assert!(store.find(record.id).await.expect("it can be looked at").is_some());
    store.close().await;
    assert_eq!(number(&place.shell(), "SELECT epoch FROM hapax_store"), 1);
    regressed(neighbour.claim(a_claim()).await);
}
