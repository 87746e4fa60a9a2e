//! What is written down before it is sent.

use std::sync::Arc;

use hapax_client::{
    Client, Ended, Intent, Journal, JournalError, Key, Operation, Outcome, SendError, Settings,
    SqliteJournal,
};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

use crate::{
    created, done, quick, replayed,
    server::{Play, Server},
};

/// A disk that is full.
struct Full;

impl Journal for Full {
    fn begin(&self, _: &Intent) -> Result<(), JournalError> {
        Err(JournalError::new("the disk is full"))
    }

    fn end(&self, _: &Key, _: Ended) -> Result<(), JournalError> {
        panic!("nothing began");
    }
}

#[tokio::test]
async fn what_cannot_be_written_down_is_not_sent() {
    let server = Server::playing([created()]).await;
    let client = Client::with(Settings::new(quick()).journal(Arc::new(Full)), None).unwrap();
    let error = client.send(server.post().build().unwrap()).await.unwrap_err();
    assert!(matches!(error, SendError::Journal(_)));
    assert!(server.arrivals().is_empty());
}

#[tokio::test]
async fn b1_an_intent_is_durable_until_its_outcome_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("intents.db");
    let journal = Arc::new(SqliteJournal::open(&path).unwrap());
    let server = Server::playing([Play::Reset, Play::Reset, Play::Reset, replayed()]).await;
    let client = |journal: &Arc<SqliteJournal>| {
        let journal: Arc<dyn Journal> = journal.clone();
        Client::with(Settings::new(quick()).journal(journal), None).unwrap()
    };
    let secret = HeaderValue::from_static("Bearer s3cret");
    let intent = server.post().header(AUTHORIZATION, secret.clone()).build().unwrap();
    let outcome = client(&journal).send(intent.clone()).await.unwrap();
    assert!(matches!(outcome, Outcome::Unknown(_)));
    drop(journal);

    // Another process.
    let journal = Arc::new(SqliteJournal::open(&path).unwrap());
    let open = journal.open_intents().unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].key(), open[0].body()), (intent.key(), intent.body()));
    assert!(!open[0].headers().contains_key(AUTHORIZATION), "credentials are not kept");
    let credentials = HeaderMap::from_iter([(AUTHORIZATION, secret)]);
    let resumed = open[0].with_credentials(&credentials);
    let outcome = client(&journal).find_out(Operation::of(resumed)).await.unwrap();
    assert!(done(outcome).replayed);
    let arrivals = server.arrivals();
    let key = arrivals[0].field("idempotency-key");
    assert!(arrivals.iter().all(|it| it.field("idempotency-key") == key));
    assert_eq!(arrivals[3].field("authorization"), Some("Bearer s3cret"));
    assert!(journal.open_intents().unwrap().is_empty());
}

#[tokio::test]
async fn a_key_is_for_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(&folder.path().join("intents.db")).unwrap();
    let server = Server::playing([]).await;
    let intent =
        |body: &'static str| server.post().body(body).key("order-7").unwrap().build().unwrap();
    journal.begin(&intent("a")).unwrap();
    journal.begin(&intent("a")).unwrap();
    assert!(journal.begin(&intent("b")).is_err());
    let key = Key::from_bytes(b"order-7").unwrap();
    assert!(journal.open_intent(&key).unwrap().is_some());
    journal.end(&key, Ended::Done(201)).unwrap();
    assert!(journal.open_intent(&key).unwrap().is_none());
    journal.begin(&intent("a")).unwrap();
    assert!(journal.open_intent(&key).unwrap().is_some(), "whoever wants the answer again");
}

#[tokio::test]
async fn a_journal_is_its_owners_alone_and_nothing_else_is_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("intents.db");
    drop(SqliteJournal::open(&path).unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let other = folder.path().join("letter.txt");
    std::fs::write(&other, "Dear reader, this is not a database at all, whatever you think of it.")
        .unwrap();
    assert!(SqliteJournal::open(&other).is_err());
    assert!(SqliteJournal::open(&folder.path().join("no/such/folder.db")).is_err());
}
