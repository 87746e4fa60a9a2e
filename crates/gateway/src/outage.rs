//! Passing requests while the store is not available, and bringing in what ran when it is back
//! (`store_down = "pass"`).

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use hapax::{
    Ended as Execution, Executed, Hapax, Operation, OperationStatus, Recalled, Reply,
    http::RequestIntent,
};
use hapax_core::{Attempt, EffectId, Fingerprint, RecordId, StoreTime};
use hapax_store::{Clock, StandingState, SystemClock};
use http::Response;
use metrics::counter;
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::warn;

use crate::{
    answer_body::AnswerBody,
    metric_definitions::UNPROTECTED,
    spool::{Begun, Spool, Unreadable, VERSION},
};

mod bringing_in;
mod hexadecimal;
mod noting;
mod others;
mod passed;
mod words;

pub(crate) use passed::Claiming;

use hexadecimal::hexadecimal;
use noting::Noted;
use others::Others;
use passed::{Known, Passed, Run, RunEnded};
use words::{ended, in_flight, judge, mark, not_noted, without_answer, word};

/// How often it is looked whether the store is back.
const LOOK: Duration = Duration::from_secs(1);

/// How old what is known of other processes may be, while the disk answers.
const FRESH: Duration = Duration::from_millis(100);

/// How long a request waits for what the store knows of its key, while that takes no writes, and for
/// what others noted.
const READING: Duration = Duration::from_millis(500);

/// What ran without a record, until it has one.
pub(crate) struct Outage {
    hapax: Hapax,
    database: PathBuf,
    /// This process's own; none where no operation has ever passed.
    spool: Mutex<Option<Arc<Spool>>>,
    /// The registered operations, by name and digest, for what they were admitted under.
    operations: Mutex<Vec<Arc<Operation>>>,
    passed: Mutex<Passed>,
    others: Others,
    /// Whose turn it is to do something with the disk.
    disk: Arc<tokio::sync::Mutex<()>>,
}

/// What a request is that may pass.
#[derive(Clone)]
pub(crate) struct Passing {
    pub(crate) operation: Arc<Operation>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    /// For records that were made by other rules.
    pub(crate) intent: RequestIntent,
}

/// What a run carries downstream.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) effect_id: EffectId,
    /// No higher than the number that its record gets.
    pub(crate) attempt: Attempt,
    pub(crate) now: StoreTime,
}

impl Outage {
    /// Brings in what other processes noted, those that are gone and those that are not, and looks
    /// for it from now on.
    ///
    /// # Errors
    /// When what a process that is gone left behind cannot be read or brought in.
    pub(crate) async fn begin(
        hapax: Hapax,
        database: PathBuf,
        operations: Vec<Arc<Operation>>,
    ) -> Result<Arc<Self>, OutageError> {
        let outage = Arc::new(Self::new(hapax, database, operations));
        outage.bring_in_others().await?;
        outage.on_disk(Self::catch_up).await.map_err(io::Error::from)?;
        tokio::spawn(watch(Arc::downgrade(&outage)));
        tokio::spawn(look(Arc::downgrade(&outage)));
        Ok(outage)
    }

    fn new(hapax: Hapax, database: PathBuf, operations: Vec<Arc<Operation>>) -> Self {
        let others = Others::new(database.clone());
        let (spool, passed, disk) = Default::default();
        Self { hapax, database, spool, operations: Mutex::new(operations), passed, others, disk }
    }

    /// Takes over the operations of a configuration, and has a file to note in where one of them
    /// `passes`.
    ///
    /// # Errors
    /// When that cannot be made.
    pub(crate) fn is_for(
        &self,
        operations: Vec<Arc<Operation>>,
        passes: bool,
    ) -> Result<(), OutageError> {
        let mut spool = self.spool.lock();
        if passes && spool.is_none() {
            *spool = Some(self.new_spool()?);
        }
        *self.operations.lock() = operations;
        Ok(())
    }

    /// Whether the store is known to fail, so that nobody waits to be told so again.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.hapax.store().standing(), StandingState::Failing { .. })
    }

    /// Whether anything ran, here or elsewhere, that the store may not know of.
    pub(crate) async fn knows_something(self: &Arc<Self>) -> bool {
        // Another process may note something at any moment, and the store be back at the next. What
        // cannot be read in time counts as it was: the store is on the same disk.
        if self.others.are_listed() {
            let looking = Box::pin(self.on_disk(Self::catch_up));
            let _ = tokio::time::timeout(READING, looking).await;
        }
        !self.passed.lock().runs().is_empty() || self.others.are_there()
    }

    /// Looks what other processes noted. Blocks.
    fn catch_up(&self) {
        let own = self.spool.lock().clone();
        self.others.catch_up(own.as_deref().map(Spool::path));
    }

    /// What a request gets whose record ran and was not brought in yet; `None`: nothing is known
    /// of it here.
    pub(crate) fn known(&self, passing: &Passing) -> Option<Known> {
        if let Some(known) = self.passed.lock().known(passing) {
            return Some(known);
        }
        self.others.known(&passing.id).map(Err)
    }

    /// What became of a record that ran here and was not brought in yet.
    pub(crate) fn status(&self, id: &RecordId) -> Option<OperationStatus> {
        self.passed.lock().status(id)
    }

    /// Notes that a request is about to be claimed, unless something is known of its key.
    pub(crate) fn claim(self: &Arc<Self>, passing: &Passing) -> Result<Arc<Claiming>, Box<Known>> {
        let elsewhere = self.others.known(&passing.id);
        elsewhere.map_or_else(|| Claiming::begin(self, passing), |known| Err(Box::new(Err(known))))
    }

    /// What the store knows of a request's key, if it can be read: that goes before passing.
    pub(crate) async fn recall<T>(&self, passing: &Passing) -> Recalled<T> {
        let Passing { operation, id, fingerprint, .. } = passing;
        let reading = self.hapax.recall(operation, *id, *fingerprint);
        tokio::time::timeout(READING, reading).await.unwrap_or(Recalled::Unread)
    }

    /// Sends a request without a record, once it is noted on disk. It goes on when its caller goes.
    pub(crate) async fn pass<F, Fut>(
        self: &Arc<Self>,
        passing: Passing,
        attempt: Attempt,
        forward: F,
    ) -> Known
    where
        F: FnOnce(Identity) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<Response<AnswerBody>>> + Send + 'static,
    {
        let outage = Arc::clone(self);
        let running =
            self.hapax.go_on(async move { outage.run(passing, attempt, forward).await })?;
        running.await.unwrap_or_else(|_| Err(not_noted()))
    }

    async fn run<F, Fut>(self: &Arc<Self>, passing: Passing, attempt: Attempt, forward: F) -> Known
    where
        F: FnOnce(Identity) -> Fut,
        Fut: Future<Output = Executed<Response<AnswerBody>>>,
    {
        let policy = passing.operation.policy();
        let count = |result: &'static str| {
            let operation = policy.name.as_str().to_owned();
            counter!(UNPROTECTED, "operation" => operation, "result" => result).increment(1);
        };
        let (Some((effect_id, secret_version)), Ok(token)) =
            (self.hapax.identity(&passing.id), token())
        else {
            return Err(not_noted());
        };
        let identity = Identity { effect_id, attempt, now: SystemClock.now() };
        let begun = begun(&passing, identity, secret_version, &token);
        let run = begun.run.clone();
        // What others noted until now has to be known, or this would run beside it.
        let Ok(()) = self.on_disk(Self::catch_up).await else {
            count("not_noted");
            return Err(not_noted());
        };
        if let Some(known) = self.take(&passing, identity, &begun) {
            return known;
        }
        let noted = self.note_begun(passing.id, begun).await;
        if !matches!(noted, Noted::OnDisk) {
            if let Noted::Failed(error) = noted {
                warn!(%error, record = %passing.id, "a request could not be noted, and did not pass");
                self.passed.lock().forget(Some(passing.id), &run);
            }
            count("not_noted");
            return Err(not_noted());
        }
        warn!(record = %passing.id, %effect_id, "the store is down: a request passes unprotected");
        let executed = tokio::time::timeout(policy.timeout, forward(identity)).await;
        let executed = executed.unwrap_or(Executed { ended: Execution::Lost, live: None });
        let ended = ended(&run, &executed.ended);
        let word = word(policy.store_refusals, &ended);
        count(word);
        let response = match executed.ended {
            Execution::Answered(Reply { response, .. }) => response,
            Execution::NeverSent | Execution::Lost => None,
        };
        let as_first = judge(policy.store_refusals, &ended, true);
        let (status, at) = (ended.status, SystemClock.now());
        let came_to = RunEnded { as_first, word, status, at, response };
        self.passed.lock().end(&passing.id, ended.clone(), came_to);
        self.note_ended(ended).await;
        let Some(mut live) = executed.live else { return Err(without_answer(word)) };
        mark(&mut live, word);
        Ok(live)
    }

    /// Makes this the run of its record, unless something is known of that: it ran, it executes, or
    /// it will as soon as its claim is there.
    fn take(&self, passing: &Passing, identity: Identity, begun: &Begun) -> Option<Known> {
        let elsewhere = self.others.ever_known(&passing.id);
        if let Some(known) = elsewhere {
            return Some(Err(known));
        }
        // Asked and taken under one lock, which those who claim take too.
        let mut passed = self.passed.lock();
        if let Some(known) = passed.known(passing) {
            return Some(known);
        }
        if passed.is_claiming(&passing.id) || self.hapax.executes(&passing.id) {
            return Some(Err(in_flight()));
        }
        let run = Run {
            run: begun.run.clone(),
            operation: Arc::clone(&passing.operation),
            fingerprint: passing.fingerprint,
            effect_id: identity.effect_id,
            attempt: identity.attempt,
            begun: identity.now,
            ended: None,
        };
        passed.begin(passing.id, run, begun.clone());
        None
    }
}

fn begun(passing: &Passing, identity: Identity, secret_version: u32, token: &[u8]) -> Begun {
    Begun {
        v: VERSION,
        run: hexadecimal(token),
        record: passing.id.to_string(),
        operation: passing.operation.name().as_str().to_owned(),
        policy: hexadecimal(&passing.operation.digest().0),
        fingerprint: hexadecimal(&passing.fingerprint.to_bytes()),
        secret_version,
        effect_id: identity.effect_id.to_string(),
        at: identity.now.as_micros(),
    }
}

/// Looks what other processes noted, again and again: what takes long to read is not read all the
/// time.
async fn watch(outage: Weak<Outage>) {
    loop {
        let Some(took) = outage.upgrade().map(|outage| outage.others.took()) else { return };
        sleep(FRESH.max(took * 10)).await;
        let Some(outage) = outage.upgrade() else { return };
        // One that hangs is tried again when its time is over.
        let _ = outage.on_disk(Outage::catch_up).await;
    }
}

/// Looks whether the store is back, and brings in what ran meanwhile, here or elsewhere.
async fn look(outage: Weak<Outage>) {
    loop {
        sleep(LOOK).await;
        let Some(outage) = outage.upgrade() else { return };
        if outage.hapax.is_draining() {
            return;
        }
        if let Err(error) = outage.bring_in().await {
            let error = crate::causes::with_causes(&error);
            warn!(error, "what ran unprotected could not be brought in yet");
        }
    }
}

fn token() -> Result<[u8; 16], getrandom::Error> {
    let mut token = [0; 16];
    getrandom::fill(&mut token)?;
    Ok(token)
}

/// Why what runs without a record cannot be noted or brought in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutageError {
    /// The files beside the database.
    #[error(
        "store_down = \"pass\" notes beside the database what ran unprotected, and that file \
         cannot be made or read; check its directory and permissions"
    )]
    Spool(#[from] io::Error),
    /// A file that was left behind.
    #[error(
        "a file beside the database says what ran unprotected, and its keys would run again; start \
         the version that wrote it once, or move it away if it is not one of hapax's"
    )]
    Unreadable(#[from] Unreadable),
    /// A run of a form that this version does not know.
    #[error(
        "a file beside the database says what ran unprotected, and this version does not read run \
         {run} of it; start the version that wrote it once"
    )]
    UnknownRun {
        /// The run's own token.
        run: String,
    },
    /// The store.
    #[error("what ran unprotected could not be brought into the store")]
    Store(#[from] hapax_store::StoreError),
}

#[cfg(test)]
mod tests {
    use hapax_core::{OperationName, OperationPolicy, ProblemKind, StoredResponse};

    use super::*;
    use crate::spool::Line;

    async fn outage() -> (tempfile::TempDir, Arc<Outage>, Passing) {
        let dir = tempfile::tempdir().unwrap();
        let hapax = Hapax::in_memory();
        let policy = OperationPolicy::new(OperationName::new("pay").unwrap(), "http://a:1");
        let operation = hapax.register(policy).await.unwrap();
        let database = dir.path().join("hapax.db");
        let outage = Arc::new(Outage::new(hapax, database, vec![Arc::clone(&operation)]));
        outage.is_for(vec![Arc::clone(&operation)], true).unwrap();
        let passing = passing(operation, r#"{"amount":1,"client_time":7}"#);
        (dir, outage, passing)
    }

    fn passing(operation: Arc<Operation>, body: &'static str) -> Passing {
        let head = http::Request::post("/pay").header("content-type", "application/json");
        let (head, ()) = head.body(()).unwrap().into_parts();
        let intent = RequestIntent::new(operation.name(), &Arc::new(head), &body.into());
        let fingerprint = operation.fingerprint(&intent).unwrap();
        Passing { operation, id: RecordId::from_bytes([1; 32]), fingerprint, intent }
    }

    fn answered(status: u16, size: usize) -> Executed<Response<AnswerBody>> {
        let body = "x".repeat(size).into();
        let response = Some(StoredResponse { status, headers: Vec::new(), body });
        let (said, told, retry_after) = (None, None, None);
        let reply = Reply { status, said, told, replayed: false, response, retry_after };
        let live = Response::new(AnswerBody::from(bytes::Bytes::new()));
        Executed { ended: Execution::Answered(reply), live: Some(live) }
    }

    async fn pass(outage: &Arc<Outage>, passing: &Passing, status: u16, size: usize) -> Known {
        let forward = move |_| async move { answered(status, size) };
        outage.pass(passing.clone(), Attempt::first(0), forward).await
    }

    fn outcome(known: &Known) -> &str {
        known.as_ref().unwrap().headers()["hapax-outcome"].to_str().unwrap()
    }

    #[tokio::test]
    async fn what_cannot_be_noted_on_disk_does_not_run() {
        let (_dir, outage, passing) = outage().await;
        *outage.spool.lock() = Some(Arc::new(Spool::on_a_full_disk()));
        for _ in 0..2 {
            let forward = |_| async { panic!("it was not noted, and runs") };
            let passed = outage.pass(passing.clone(), Attempt::first(0), forward).await;
            let problem = passed.unwrap_err();
            assert_eq!((problem.kind, problem.status), (ProblemKind::StoreUnavailable, 503));
            assert!(outage.known(&passing).is_none(), "it may be tried again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_holds_no_caller_and_nothing_runs() {
        let (_dir, outage, passing) = outage().await;
        let hanging = Arc::clone(&outage.disk).lock_owned().await;
        let forward = |_| async { panic!("it was not noted, and runs") };
        let passed = outage.pass(passing.clone(), Attempt::first(0), forward).await;
        assert_eq!(passed.unwrap_err().kind, ProblemKind::StoreUnavailable);
        // Those who need nothing of the disk are answered by what is known.
        assert!(!outage.knows_something().await);
        assert!(outage.claim(&passing).is_ok());
        drop(hanging);
        assert_eq!(outcome(&pass(&outage, &passing, 201, 0).await), "applied");
    }

    #[tokio::test]
    async fn what_was_given_up_before_it_was_noted_did_not_run_and_says_so() {
        let (_dir, outage, passing) = outage().await;
        let spool = outage.spool.lock().clone().unwrap();
        let hanging = spool.hang();
        let forward = |_| async { panic!("it was not noted, and runs") };
        let passed = outage.pass(passing.clone(), Attempt::first(0), forward).await;
        assert_eq!(passed.unwrap_err().kind, ProblemKind::StoreUnavailable);
        let problem = outage.known(&passing).unwrap().unwrap_err();
        assert_eq!(problem.kind, ProblemKind::InFlight, "it is not certain yet");
        drop(hanging);
        // The disk has gone on when it is somebody else's turn.
        assert!(outage.on_disk(|_| ()).await.is_ok());
        assert!(outage.known(&passing).is_none(), "it may be tried again");
        let lines = outage.passed.lock().lines();
        assert!(matches!(&lines[..], [Line::Begun(_), Line::Ended(end)] if !end.sent));
        assert_eq!(Spool::others(&outage.database, None).unwrap().remove(0).unwrap().lines, lines);
        outage.bring_in().await.unwrap();
        assert!(!outage.knows_something().await);
        assert_eq!(outcome(&pass(&outage, &passing, 201, 0).await), "applied");
    }

    #[tokio::test]
    async fn nothing_passes_beside_a_claim_that_may_yet_execute() {
        let (_dir, outage, passing) = outage().await;
        let claiming = outage.claim(&passing).unwrap();
        let problem = pass(&outage, &passing, 201, 0).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::InFlight);
        // Given up, it is certain not to execute.
        claiming.give_up();
        assert_eq!(outcome(&pass(&outage, &passing, 201, 0).await), "applied");
        assert!(outage.claim(&passing).is_err(), "what ran is not claimed");
        drop(claiming);
    }

    #[tokio::test]
    async fn a_retry_of_a_refusal_is_marked_as_it_was() {
        use hapax_core::State::{Succeeded, Uncertain};
        for (status, word, state) in
            [(402, "unknown", Uncertain), (409, "unknown", Uncertain), (201, "applied", Succeeded)]
        {
            let (_dir, outage, passing) = outage().await;
            assert_eq!(outcome(&pass(&outage, &passing, status, 0).await), word);
            let again = outage.known(&passing).unwrap();
            assert_eq!(outcome(&again), word, "{status}");
            assert_eq!(again.unwrap().headers()["idempotent-replayed"], "true");
            assert_eq!(outage.status(&passing.id).unwrap().state, state);
        }
    }

    #[tokio::test]
    async fn refusals_of_one_key_do_not_use_up_the_memory_for_answers() {
        let (_dir, outage, passing) = outage().await;
        // More than there is room for, of answers that may be tried again.
        for _ in 0..600 {
            pass(&outage, &passing, 422, 60_000).await.unwrap();
        }
        assert_eq!(outcome(&pass(&outage, &passing, 201, 60_000).await), "applied");
        assert!(outage.known(&passing).unwrap().is_ok(), "there is room for it");
    }

    #[tokio::test]
    async fn a_run_is_compared_by_the_rules_it_was_admitted_under() {
        let (_dir, outage, passing) = outage().await;
        pass(&outage, &passing, 201, 0).await.unwrap();
        let mut policy = passing.operation.policy().clone();
        policy.fingerprint.exclude = vec!["/client_time".parse().unwrap()];
        let changed = outage.hapax.register(policy).await.unwrap();
        let same = self::passing(Arc::clone(&changed), r#"{"client_time":7,"amount":1}"#);
        assert_ne!(same.fingerprint, passing.fingerprint);
        assert!(outage.known(&same).unwrap().is_ok());
        let other = self::passing(changed, r#"{"amount":1,"client_time":8}"#);
        let problem = outage.known(&other).unwrap().unwrap_err();
        assert_eq!(problem.kind, ProblemKind::KeyReused);
    }

    #[tokio::test]
    async fn what_another_process_noted_does_not_run_here() {
        let (_dir, outage, passing) = outage().await;
        let elsewhere = Outage::new(
            outage.hapax.clone(),
            outage.database.clone(),
            vec![Arc::clone(&passing.operation)],
        );
        let elsewhere = Arc::new(elsewhere);
        elsewhere.is_for(Vec::new(), true).unwrap();
        assert!(elsewhere.on_disk(Outage::catch_up).await.is_ok());
        assert!(!elsewhere.knows_something().await);
        pass(&outage, &passing, 201, 0).await.unwrap();
        // At once: its next request may find the store back.
        assert!(elsewhere.knows_something().await);
        let problem = pass(&elsewhere, &passing, 201, 0).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::OutcomeUnknown);
        assert!(elsewhere.claim(&passing).is_err());
        // Once the store knows that it may be under way, that answers.
        elsewhere.bring_in().await.unwrap();
        assert!(elsewhere.known(&passing).is_none());
        let status = outage.hapax.status(passing.id).await.unwrap().unwrap();
        assert_eq!(status.state, hapax_core::State::Executing);
        // Its process is gone, and this one takes over what it left.
        drop(outage);
        elsewhere.bring_in().await.unwrap();
        let status = elsewhere.hapax.status(passing.id).await.unwrap().unwrap();
        assert_eq!(status.state, hapax_core::State::Succeeded);
        assert_eq!(crate::spool::listed(&elsewhere.database).unwrap().len(), 1, "its own");
    }

    #[tokio::test]
    async fn a_file_that_was_removed_is_written_anew_with_all_that_ran() {
        let (_dir, outage, passing) = outage().await;
        pass(&outage, &passing, 201, 0).await.unwrap();
        let removed = outage.spool.lock().clone().unwrap();
        std::fs::remove_file(removed.path()).unwrap();
        let other = Passing { id: RecordId::from_bytes([2; 32]), ..passing.clone() };
        pass(&outage, &other, 201, 0).await.unwrap();
        let others = Spool::others(&outage.database, None).unwrap();
        let lines = others.into_iter().flat_map(|it| it.unwrap().lines).collect::<Vec<_>>();
        for id in [passing.id, other.id] {
            let record = id.to_string();
            let is_noted =
                |line: &Line| matches!(line, Line::Begun(begun) if begun.record == record);
            assert!(lines.iter().any(is_noted), "{record}");
        }
    }
}
