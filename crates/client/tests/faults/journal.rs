//! What is written down before it is sent.

use std::{sync::Arc, time::Duration};

use hapax_client::{
    Begun, Client, Ended, Intent, Journal, JournalError, Key, KeyStyle, Operation, Outcome, Policy,
    SendError, Settings, SqliteJournal,
};
use http::{
    HeaderMap, HeaderValue,
    header::{AUTHORIZATION, CONTENT_TYPE},
};

use crate::{
    created, done, quick, replayed,
    server::{Play, Server},
};

/// A disk that is full.
struct Full;

impl Journal for Full {
    fn begin(&self, _: &Intent) -> Result<Begun, JournalError> {
        Err(JournalError::new("the disk is full"))
    }

    fn end(&self, _: &Key, _: Ended) -> Result<(), JournalError> {
        panic!("nothing began");
    }
}

/// A disk that hangs, until its end is let go.
struct Hanging(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl Journal for Hanging {
    fn begin(&self, _: &Intent) -> Result<Begun, JournalError> {
        let _ = self.0.lock().unwrap().recv();
        Ok(Begun::New)
    }

    fn end(&self, _: &Key, _: Ended) -> Result<(), JournalError> {
        panic!("nothing began");
    }
}

#[tokio::test]
async fn a_disk_that_hangs_holds_nobody_longer_than_everything_may_take() {
    let server = Server::playing([created()]).await;
    let (let_go, held) = std::sync::mpsc::channel();
    let journal: Arc<dyn Journal> = Arc::new(Hanging(std::sync::Mutex::new(held)));
    let policy = Policy { deadline: Duration::from_millis(100), ..quick() };
    let client = Client::with(Settings::new(policy).journal(journal), None).unwrap();
    let error = client.send(server.post().build().unwrap()).await.unwrap_err();
    assert!(matches!(error, SendError::Journal(_)));
    assert!(server.arrivals().is_empty());
    drop(let_go);
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
    let journal = SqliteJournal::open(&path).unwrap();
    let intent = Intent::post("http://a.example/x".parse().unwrap()).build().unwrap();
    journal.begin(&intent).unwrap();
    #[cfg(unix)]
    for name in ["intents.db", "intents.db-wal", "intents.db-shm"] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let other = folder.path().join("letter.txt");
    std::fs::write(&other, "Dear reader, this is not a database at all, whatever you think of it.")
        .unwrap();
    assert!(SqliteJournal::open(&other).is_err());
    assert!(SqliteJournal::open(&folder.path().join("no/such/folder.db")).is_err());
}

/// A port that nobody listens at.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/payments", listener.local_addr().unwrap())
}

/// As by a process that was killed before it knew the outcome, and one that sends the same again.
#[tokio::test]
async fn what_is_in_the_journal_may_have_been_sent_whoever_sends_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("intents.db");
    let journal = Arc::new(SqliteJournal::open(&path).unwrap());
    let policy = Policy { deadline: Duration::from_millis(200), ..quick() };
    let settings = Settings::new(policy).journal(Arc::clone(&journal) as _);
    let client = Client::with(settings, None).unwrap();
    let uri = nowhere();
    let intent =
        || Intent::post(uri.parse().unwrap()).key("order-7").unwrap().body("a").build().unwrap();
    // Nobody knows whether it was sent.
    journal.begin(&intent()).unwrap();
    let outcome = client.send(intent()).await.unwrap();
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    let key = Key::from_bytes(b"order-7").unwrap();
    assert!(journal.open_intent(&key).unwrap().is_some(), "it is still to be found out");
    // It was done, and somebody wants the answer again.
    journal.end(&key, Ended::Done(201)).unwrap();
    let outcome = client.send(intent()).await.unwrap();
    assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}");
    // It was refused, and is tried once more.
    for ended in [Ended::Refused, Ended::Done(401)] {
        journal.end(&key, ended).unwrap();
        let outcome = client.send(intent()).await.unwrap();
        assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        journal.begin(&intent()).unwrap();
    }
}

#[test]
fn a_key_is_as_old_as_when_it_was_first_written_down() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(&folder.path().join("intents.db")).unwrap();
    let intent = |style| {
        let builder = Intent::post("http://a.example/x".parse().unwrap()).key("order-7").unwrap();
        builder.key_style(style).build().unwrap()
    };
    let first = intent(KeyStyle::Quoted);
    assert_eq!(journal.begin(&first).unwrap(), Begun::New);
    let Begun::Again { made } = journal.begin(&intent(KeyStyle::Quoted)).unwrap() else {
        panic!("it is there")
    };
    let apart = first.made().duration_since(made).unwrap();
    assert!(apart < Duration::from_millis(1), "but for parts of a microsecond: {apart:?}");
    // For a service that does not read quotes it is another key.
    assert!(journal.begin(&intent(KeyStyle::Bare)).is_err());
}

#[test]
fn a_database_of_somebody_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    for version in [0, 1] {
        let path = folder.path().join(format!("accounts-{version}.db"));
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute("CREATE TABLE account (id INTEGER PRIMARY KEY)", ()).unwrap();
        conn.pragma_update(None, "user_version", version).unwrap();
        drop(conn);
        let before = std::fs::read(&path).unwrap();
        assert!(SqliteJournal::open(&path).is_err(), "version {version}");
        assert!(std::fs::read(&path).unwrap() == before, "version {version}");
    }
}

#[test]
fn processes_that_make_a_journal_at_once_share_it() {
    let folder = tempfile::tempdir().unwrap();
    for nth in 0..20 {
        let path = folder.path().join(format!("intents-{nth}.db"));
        let open = || SqliteJournal::open(&path).map(drop);
        let opened = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            opening.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(opened.iter().all(Result::is_ok), "{opened:?}");
    }
}

#[test]
fn what_looks_like_a_credential_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(&folder.path().join("intents.db")).unwrap();
    let mut builder = Intent::post("http://a.example/x".parse().unwrap()).key("order-7").unwrap();
    for name in ["X-Api-Key", "apikey", "X-Auth-Token", "X-Amz-Security-Token", "Client-Secret"] {
        builder = builder.header(name.parse().unwrap(), HeaderValue::from_static("s3cret"));
    }
    let mut hidden = HeaderValue::from_static("s3cret");
    hidden.set_sensitive(true);
    builder = builder.header("x-else".parse().unwrap(), hidden);
    builder = builder.header("x-tenant".parse().unwrap(), HeaderValue::from_static("a"));
    journal.begin(&builder.build().unwrap()).unwrap();
    let kept = journal.open_intents().unwrap().remove(0);
    let mut names: Vec<_> = kept.headers().keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["idempotency-key", "x-tenant"]);
}

/// What describes the content is a part of the intent.
#[test]
fn credentials_change_nothing_of_the_intent() {
    let intent = Intent::post("http://a.example/x".parse().unwrap()).body("abc");
    let intent = intent.header(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let intent = intent.build().unwrap();
    let more = ["content-type", "content-length", "content-encoding", "transfer-encoding"];
    let more = more.into_iter().chain(["connection", "idempotency-key"]);
    let more: HeaderMap =
        more.map(|name| (name.parse().unwrap(), HeaderValue::from_static("1"))).collect();
    assert_eq!(intent.with_credentials(&more).headers(), intent.headers());
}
