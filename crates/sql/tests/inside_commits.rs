//! A record, what the application writes and the outcome: together, or not at all.
#![cfg(feature = "sqlx")]
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod kit;

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    Admission, Advance, AdvanceReason, BeginStep, NewClaim, OwnState, Progress, Retention,
    Settlement, State, StepData, StepName, WriteRefused,
};
use hapax_sql::Fault;
use hapax_store::{Claimed, Claims, Inspect, Owned, Steps, StoreError, Written};
use kit::{inside::*, *};
use sqlx::Connection;

const LEASE: Duration = Duration::from_secs(30);

fn not_applied() -> Settlement {
    Settlement::NotApplied { every_attempt: false, retention: Retention::default() }
}

fn by_steps() -> NewClaim {
    NewClaim { admission: Admission::BySteps, ..a_claim() }
}

#[tokio::test]
async fn all_commit_together_and_the_store_replays_it_byte_for_byte() {
    let app = Application::new().await;
    let claim = a_claim();
    let (mut open, record) = app.claimed(&claim).await;
    pay(&mut open, 700).await;
    let bytes = Bytes::from((0..=255).collect::<Vec<u8>>());
    let settled = done(open.settle(&record.ownership(), &outcome(bytes.clone())).await);
    assert_eq!(app.found(record.id).await, None, "nobody sees it before");
    open.commit().await.expect("a commit");

    let found = app.found(record.id).await.expect("it is there");
    assert_eq!(found.record, settled);
    assert_eq!(found.record.state(found.now), State::Succeeded);
    let response = found.response.expect("kept");
    assert_eq!((response.status, response.body), (201, bytes));
    assert_eq!(app.payments(), 1);
    assert!(matches!(app.store.claim(claim_of(claim.id)).await, Ok(Claimed::Theirs(_))));
}

#[tokio::test]
async fn a_rollback_leaves_neither() {
    let app = Application::new().await;
    let (mut open, record) = app.claimed(&a_claim()).await;
    pay(&mut open, 700).await;
    done(open.settle(&record.ownership(), &outcome("paid")).await);
    open.roll_back().await.expect("a rollback");
    assert_eq!((app.payments(), app.records()), (0, 0));

    // The connection is as good as new.
    let (open, _) = app.claimed(&a_claim()).await;
    open.commit().await.expect("a commit");
    assert_eq!(app.records(), 1);
}

#[tokio::test]
async fn what_is_dropped_leaves_neither_and_the_next_one_begins() {
    let app = Application::new().await;
    for _ in 0..3 {
        let (mut open, record) = app.claimed(&a_claim()).await;
        pay(&mut open, 700).await;
        done(open.settle(&record.ownership(), &outcome("paid")).await);
        drop(open);
        let mut next = app.begin().await;
        assert_eq!(next.find(&record.id).await, Ok(None));
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM payment");
        assert_eq!(count.fetch_one(&mut *next).await.expect("a count"), 0);
    }
    assert_eq!((app.payments(), app.records()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_within_a_statement_leaves_nothing() {
    let app = Application::new().await;
    let (mut open, record) = app.claimed(&a_claim()).await;
    let long = "INSERT INTO payment (cents) WITH RECURSIVE up (n) AS \
                (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 300000) SELECT n FROM up";
    tokio::select! {
        biased;
        _ = sqlx::query(long).execute(&mut *open) => panic!("it takes longer than nothing"),
        () = std::future::ready(()) => {}
    }
    drop(open);
    let mut next = app.begin().await;
    assert_eq!(next.find(&record.id).await, Ok(None));
    next.roll_back().await.expect("a rollback");
    assert_eq!((app.payments(), app.records()), (0, 0));
}

#[tokio::test]
async fn a_write_that_was_not_waited_for_is_not_committed() {
    let app = Application::new().await;
    let open = loop {
        let (mut open, record) = app.claimed(&a_claim()).await;
        let (by, paid) = (record.ownership(), outcome("paid"));
        let is_cut = tokio::select! {
            biased;
            // The connection's thread may be as fast as that.
            _ = open.settle(&by, &paid) => false,
            () = std::future::ready(()) => true,
        };
        if is_cut {
            break open;
        }
        open.roll_back().await.expect("a rollback");
    };
    let refused = open.commit().await;
    assert!(matches!(&refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    app.begin().await.roll_back().await.expect("a rollback");
    assert_eq!(app.records(), 0);
}

#[tokio::test]
async fn a_duplicate_sees_theirs() {
    let app = Application::new().await;
    let claim = a_claim();
    let (mut open, record) = app.claimed(&claim).await;
    assert_eq!(ours(open.claim(&claim).await), record, "its own claim recognises itself");
    done(open.settle(&record.ownership(), &outcome("paid")).await);
    open.commit().await.expect("a commit");

    let mut second = app.begin().await;
    let Ok(Claimed::Theirs(theirs)) = second.claim(&claim_of(claim.id)).await else {
        panic!("the first one has it");
    };
    assert_eq!(theirs.response.expect("kept").body, "paid");
    second.roll_back().await.expect("a rollback");
    assert_eq!(app.records(), 1);
}

#[tokio::test]
async fn nothing_happened_is_settled_without_what_the_application_wrote() {
    let app = Application::new().await;
    let (mut open, record) = app.claimed(&a_claim()).await;
    pay(&mut open, 700).await;
    open.undo().await.expect("back to behind the claim");
    done(open.settle(&record.ownership(), &not_applied()).await);
    open.commit().await.expect("a commit");
    assert_eq!(app.payments(), 0);
    let found = app.found(record.id).await.expect("a stub");
    assert_eq!(found.record.state(found.now), State::Released);
    let history = app.store.history(record.claim).await.expect("its history");
    assert_eq!(history.iter().map(|entry| &*entry.what).collect::<Vec<_>>(), ["released"]);
}

#[tokio::test]
async fn what_is_undone_to_before_the_claim_is_not_settled() {
    let app = Application::new().await;
    let mut open = app.begin().await;
    let record = ours(open.claim(&a_claim()).await);
    open.undo().await.expect("back to the beginning");
    assert_eq!(open.settle(&record.ownership(), &outcome("paid")).await, Ok(Written::Missing));
}

#[tokio::test]
async fn a_stub_that_the_store_released_is_advanced() {
    let app = Application::new().await;
    let stub = executing(&app.store).await;
    let stub = done(app.store.settle(stub.ownership(), not_applied()).await);
    let (seen, reason) = (stub.seen(), AdvanceReason::Released);
    let advance = Advance { seen, reason, claim: claim_of(stub.id) };
    let mut open = app.begin().await;
    let record = ours(open.advance(&advance).await);
    assert_eq!(record.attempt.number(), 2);
    pay(&mut open, 700).await;
    done(open.settle(&record.ownership(), &outcome("paid")).await);
    open.commit().await.expect("a commit");
    assert_eq!(app.payments(), 1);
    let found = app.found(stub.id).await.expect("it is there");
    assert_eq!((found.record.claim, found.record.attempt), (stub.claim, record.attempt));
    assert_eq!(found.response.expect("kept").body, "paid");

    let mut late = app.begin().await;
    let late = late.advance(&Advance { claim: claim_of(stub.id), ..advance }).await;
    assert!(matches!(late, Ok(Claimed::Theirs(_))), "{late:?}");
}

#[tokio::test]
async fn a_step_is_done_with_what_the_application_writes() {
    let app = Application::new().await;
    let record = ours(app.store.claim(by_steps()).await);
    let by = record.ownership();
    let name = StepName::new("book").expect("a name");
    let data = StepData { version: 3, bytes: Bytes::from_static(b"booked") };

    let mut open = app.begin().await;
    pay(&mut open, 700).await;
    let after = done(open.end_step(&by, &name, &data, LEASE).await);
    assert_eq!((after.own_state, after.progress), (OwnState::Executing, Progress::Accounted));
    // What comes behind the step can be taken back without it.
    pay(&mut open, 800).await;
    open.undo().await.expect("back to behind the step");
    open.commit().await.expect("a commit");
    assert_eq!(app.payments(), 1);
    let steps = app.store.steps(record.claim).await.expect("its steps");
    let [step] = &steps[..] else { panic!("one step, not {steps:?}") };
    assert_eq!((&step.name, step.done.as_ref()), (&name, Some(&data)));

    // One that was begun before ends here too; another one does not end beside it.
    let begun = BeginStep { name: StepName::new("ship").expect("a name"), resend_for: None };
    done(app.store.begin_step(by, begun.clone(), LEASE).await);
    let mut open = app.begin().await;
    let other = StepName::new("notify").expect("a name");
    let refused = open.end_step(&by, &other, &data, LEASE).await;
    assert!(
        matches!(&refused, Ok(Written::Refused { why: WriteRefused::StepInDoubt, .. })),
        "{refused:?}"
    );
    done(open.end_step(&by, &begun.name, &data, LEASE).await);
    open.commit().await.expect("a commit");
    // Done again, what is written beside it would be there twice.
    let mut open = app.begin().await;
    let again = open.end_step(&by, &begun.name, &data, LEASE).await;
    assert!(
        matches!(&again, Ok(Written::Refused { why: WriteRefused::StepEnded, .. })),
        "{again:?}"
    );
    open.roll_back().await.expect("a rollback");
    done(app.store.settle(by, outcome("shipped")).await);
}

#[tokio::test]
async fn a_stranger_settles_nothing() {
    let app = Application::new().await;
    let record = executing(&app.store).await;
    let mut open = app.begin().await;
    let stranger = hapax_core::Ownership { owner: a_claim().owner, ..record.ownership() };
    let refused = open.settle(&stranger, &outcome("mine")).await;
    let Ok(Written::Refused { why: WriteRefused::Fenced, .. }) = refused else {
        panic!("a stranger has no say: {refused:?}");
    };
    done(open.settle(&record.ownership(), &Settlement::Unknown { observed: None }).await);
    open.commit().await.expect("a commit");
    let found = app.found(record.id).await.expect("it is there");
    assert_eq!(found.record.state(found.now), State::Uncertain);
}

#[tokio::test]
async fn transactions_of_the_application_nest() {
    let app = Application::new().await;
    let (mut open, record) = app.claimed(&a_claim()).await;
    let mut nested = open.begin().await.expect("a savepoint");
    pay(&mut nested, 1).await;
    nested.commit().await.expect("it is kept");
    let mut nested = open.begin().await.expect("a savepoint");
    pay(&mut nested, 2).await;
    nested.rollback().await.expect("it is taken back");
    let mut nested = open.begin().await.expect("a savepoint");
    pay(&mut nested, 3).await;
    drop(nested);
    done(open.settle(&record.ownership(), &outcome("paid")).await);
    open.commit().await.expect("a commit");
    assert_eq!(number(&app.place.shell(), "SELECT sum(cents) FROM payment"), 1);
    assert!(app.found(record.id).await.is_some());
}

#[tokio::test]
async fn a_deferred_constraint_fails_the_commit_cleanly() {
    let app = Application::new().await;
    let (mut open, record) = app.claimed(&a_claim()).await;
    pay(&mut open, 700).await;
    execute(&mut open, "INSERT INTO refund (payment) VALUES (77)").await;
    done(open.settle(&record.ownership(), &outcome("refunded")).await);
    let refused = open.commit().await;
    let Err(StoreError::Constraint { reason }) = refused else {
        panic!("a clean failure, not {refused:?}");
    };
    assert!(reason.contains("FOREIGN KEY constraint failed"), "{reason}");
    let mut next = app.begin().await;
    assert_eq!(next.find(&record.id).await, Ok(None));
    next.roll_back().await.expect("a rollback");
    assert_eq!((app.payments(), app.records()), (0, 0));
}

#[tokio::test]
async fn a_lost_commit_is_found_out_in_the_next_transaction() {
    let app = Application::new().await;
    let mut payments = 0;
    for fault in [
        Fault::Ambiguous { committed: true },
        Fault::Ambiguous { committed: false },
        Fault::LostAnswer { committed: true },
        Fault::LostAnswer { committed: false },
    ] {
        let (mut open, record) = app.claimed(&a_claim()).await;
        pay(&mut open, 700).await;
        done(open.settle(&record.ownership(), &outcome("paid")).await);
        app.transactions.put_in_the_way(fault);
        let lost = open.commit().await;
        assert!(matches!(lost, Err(StoreError::AnswerLost { .. })), "{lost:?}");
        if let Fault::LostAnswer { .. } = fault {
            app.transactions.begin().await.expect_err("it cannot be reached");
        }
        let mut next = app.begin().await;
        let found = next.find(&record.id).await.expect("a find");
        next.roll_back().await.expect("a rollback");
        let committed = matches!(
            fault,
            Fault::Ambiguous { committed: true } | Fault::LostAnswer { committed: true }
        );
        assert_eq!(found.is_some(), committed, "{fault:?}");
        payments += i64::from(committed);
        assert_eq!(app.payments(), payments, "{fault:?}");
    }
}
