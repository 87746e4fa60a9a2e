//! Passing requests while the store is not available, and bringing in what ran when it is back
//! (`store_down = "pass"`).

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use hapax::{
    Answer, Ended as Execution, Executed, Hapax, Operation, Reply, http::headers::HAPAX_OUTCOME,
};
use hapax_core::{
    AnswerFacts, Classified, EffectId, Fingerprint, Problem, ProblemKind, RecordId, Said,
    StoreTime, StoredResponse, Told, classify,
};
use hapax_store::{Clock, StandingState, SystemClock};
use http::{HeaderName, HeaderValue, Response};
use metrics::{counter, gauge};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::warn;

use crate::{
    answer_body::AnswerBody,
    metric_definitions::{UNPROTECTED, UNPROTECTED_PENDING},
    spool::{Begun, Ended, Line, Spool, VERSION},
};

mod bringing_in;
mod hexadecimal;

use hexadecimal::hexadecimal;

/// Marks an answer to a request that ran without a record.
const HAPAX_UNPROTECTED: HeaderName = HeaderName::from_static("hapax-unprotected");

/// How often it is looked whether the store is back.
const LOOK: Duration = Duration::from_secs(1);

/// How long a request waits for what the store knows of its key, while that takes no writes.
const READING: Duration = Duration::from_millis(500);

/// The largest answer that is kept in memory until it can be stored, and all of them together.
const KEPT: (usize, usize) = (64 << 10, 32 << 20);

/// What ran without a record, until it has one.
pub(crate) struct Outage {
    hapax: Hapax,
    database: PathBuf,
    /// This process's own; none where no operation passes.
    spool: Mutex<Option<Arc<Spool>>>,
    /// The registered operations, by name and digest, for what they were admitted under.
    operations: Mutex<Vec<Arc<Operation>>>,
    passed: Mutex<Passed>,
}

#[derive(Default)]
struct Passed {
    /// The latest run of each record.
    by_record: HashMap<RecordId, Run>,
    /// All runs in the order of their beginning, with what is known of their ends.
    runs: Vec<(Begun, Option<Ended>)>,
    /// The bytes of the answers that are kept.
    kept: usize,
}

/// What this process knows of a record that ran without being one.
struct Run {
    run: String,
    fingerprint: Fingerprint,
    ended: Option<RunEnded>,
}

struct RunEnded {
    classified: Classified,
    response: Option<StoredResponse>,
}

/// What a request is that may pass.
#[derive(Clone)]
pub(crate) struct Passing {
    pub(crate) operation: Arc<Operation>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
}

impl Outage {
    /// Brings in what other processes left behind.
    ///
    /// # Errors
    /// When a spool cannot be read or brought in.
    pub(crate) async fn begin(
        hapax: Hapax,
        database: PathBuf,
        operations: Vec<Arc<Operation>>,
    ) -> Result<Arc<Self>, OutageError> {
        let (spool, passed) = Default::default();
        let operations = Mutex::new(operations);
        let outage = Arc::new(Self { hapax, database, spool, operations, passed });
        outage.bring_in_left_behind().await?;
        Ok(outage)
    }

    /// Takes over the operations of a configuration, and begins to look for outages where one of
    /// them `passes`.
    ///
    /// # Errors
    /// When a spool cannot be made.
    pub(crate) fn is_for(
        self: &Arc<Self>,
        operations: Vec<Arc<Operation>>,
        passes: bool,
    ) -> Result<(), OutageError> {
        let mut spool = self.spool.lock();
        if passes && spool.is_none() {
            let name = hexadecimal(&token().map_err(io::Error::other)?);
            *spool = Some(Arc::new(Spool::create(&self.database, &name)?));
            tokio::spawn(look(Arc::downgrade(self)));
        }
        *self.operations.lock() = operations;
        Ok(())
    }

    /// Whether the store is known to fail, so that nobody waits to be told so again.
    pub(crate) fn is_on(&self) -> bool {
        matches!(self.hapax.store().standing(), StandingState::Failing { .. })
    }

    /// What a request gets whose record ran and was not brought in yet; `None`: nothing is known
    /// of it here.
    pub(crate) fn known(&self, passing: &Passing) -> Option<Result<StoredResponse, Problem>> {
        let passed = self.passed.lock();
        let run = passed.by_record.get(&passing.id)?;
        if run.fingerprint != passing.fingerprint {
            let detail = "This key was first used for another request. Send the same request \
                          again, or use a new key for a new intent.";
            return Some(Err(Problem::new(ProblemKind::KeyReused, detail)));
        }
        let Some(ended) = &run.ended else {
            let detail = "A request with this key is being executed. Ask again with the same key.";
            let problem = Problem::new(ProblemKind::InFlight, detail);
            return Some(Err(problem.retry_after(Duration::from_secs(1))));
        };
        match (ended.classified, &ended.response) {
            // Nothing happened: it may run again.
            (Classified::NotApplied, _) => None,
            (Classified::Outcome(_), Some(response)) => Some(Ok(response.clone())),
            _ => {
                let detail = "The operation ran while the store of operations was not available, \
                              and is not executed again. Ask again with the same key.";
                let problem = Problem::new(ProblemKind::OutcomeUnknown, detail);
                Some(Err(problem.retry_after(Duration::from_secs(5))))
            }
        }
    }

    /// What the store knows of a request's key, if it can be read: that goes before passing.
    pub(crate) async fn recall<T>(&self, passing: &Passing) -> Option<Answer<T>> {
        let Passing { operation, id, fingerprint } = passing;
        let reading = self.hapax.recall(operation, *id, *fingerprint);
        tokio::time::timeout(READING, reading).await.ok().flatten()
    }

    /// Sends a request without a record, once it is noted on disk. It goes on when its caller goes.
    pub(crate) async fn pass<F, Fut>(
        self: &Arc<Self>,
        passing: Passing,
        forward: F,
    ) -> Result<Response<AnswerBody>, Problem>
    where
        F: FnOnce(EffectId, StoreTime) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<Response<AnswerBody>>> + Send + 'static,
    {
        let outage = Arc::clone(self);
        let running = self.hapax.go_on(async move { outage.run(passing, forward).await })?;
        running.await.unwrap_or_else(|_| Err(not_noted()))
    }

    async fn run<F, Fut>(
        &self,
        passing: Passing,
        forward: F,
    ) -> Result<Response<AnswerBody>, Problem>
    where
        F: FnOnce(EffectId, StoreTime) -> Fut,
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
        let now = SystemClock.now();
        let begun = Begun {
            v: VERSION,
            run: hexadecimal(&token),
            record: passing.id.to_string(),
            operation: policy.name.as_str().to_owned(),
            policy: hexadecimal(&passing.operation.digest().0),
            fingerprint: hexadecimal(&passing.fingerprint.to_bytes()),
            secret_version,
            effect_id: effect_id.to_string(),
            at: now.as_micros(),
        };
        if let Some(known) = self.take(&passing, &begun) {
            return known;
        }
        if let Err(error) = self.append(Line::Begun(begun.clone())).await {
            warn!(%error, record = %passing.id, "a request could not be noted, and did not pass");
            self.forget(&passing.id, &begun.run);
            count("not_noted");
            return Err(not_noted());
        }
        warn!(record = %passing.id, %effect_id, "the store is down: a request passes unprotected");
        let executed = tokio::time::timeout(policy.timeout, forward(effect_id, now)).await;
        let executed = executed.unwrap_or(Executed { ended: Execution::Lost, live: None });
        let ended = ended(&begun.run, &executed.ended);
        // Nobody knows what earlier attempts came to; only what the service says speaks for them.
        let as_first = judge(&passing.operation, &ended, true);
        let word = word(judge(&passing.operation, &ended, false), &ended);
        count(word);
        let response = match executed.ended {
            Execution::Answered(Reply { response, .. }) => response,
            Execution::NeverSent | Execution::Lost => None,
        };
        self.note_end(&passing, ended.clone(), as_first, response);
        if let Err(error) = self.append(Line::Ended(ended)).await {
            warn!(%error, record = %passing.id, "the end of a request could not be noted");
        }
        let Some(mut live) = executed.live else { return Err(without_answer(word)) };
        mark(&mut live, word);
        Ok(live)
    }

    /// Makes this the run of its record, unless there is one.
    fn take(
        &self,
        passing: &Passing,
        begun: &Begun,
    ) -> Option<Result<Response<AnswerBody>, Problem>> {
        match self.known(passing) {
            Some(Err(problem)) => return Some(Err(problem)),
            Some(Ok(response)) => return Some(Ok(kept(response))),
            None => {}
        }
        let mut passed = self.passed.lock();
        let (run, fingerprint) = (begun.run.clone(), passing.fingerprint);
        // Asked and taken under one lock: another one may have come in between.
        if let Some(there) = passed.by_record.get(&passing.id)
            && there.ended.as_ref().is_none_or(|it| it.classified != Classified::NotApplied)
        {
            drop(passed);
            let busy = Problem::new(ProblemKind::InFlight, "A request with this key is executed.");
            return Some(Err(busy.retry_after(Duration::from_secs(1))));
        }
        passed.by_record.insert(passing.id, Run { run, fingerprint, ended: None });
        passed.runs.push((begun.clone(), None));
        gauge!(UNPROTECTED_PENDING).set(passed.runs.len() as f64);
        None
    }

    /// It did not run.
    fn forget(&self, id: &RecordId, run: &str) {
        let mut passed = self.passed.lock();
        passed.forget(id, run);
        passed.runs.retain(|(begun, _)| begun.run != run);
        gauge!(UNPROTECTED_PENDING).set(passed.runs.len() as f64);
    }

    fn note_end(
        &self,
        passing: &Passing,
        ended: Ended,
        classified: Classified,
        response: Option<StoredResponse>,
    ) {
        let mut passed = self.passed.lock();
        let size = response.as_ref().map_or(0, |response| response.body.len());
        let fits = size <= KEPT.0 && passed.kept.saturating_add(size) <= KEPT.1;
        let response = response.filter(|_| fits);
        if response.is_some() {
            passed.kept += size;
        }
        if let Some(run) = passed.by_record.get_mut(&passing.id).filter(|it| it.run == ended.run) {
            run.ended = Some(RunEnded { classified, response });
        }
        if let Some((_, end)) = passed.runs.iter_mut().find(|(begun, _)| begun.run == ended.run) {
            *end = Some(ended);
        }
    }

    /// Writes a line on a thread that may block.
    async fn append(&self, line: Line) -> io::Result<()> {
        let Some(spool) = self.spool.lock().clone() else {
            return Err(io::Error::other("there is no spool"));
        };
        tokio::task::spawn_blocking(move || spool.append(&line)).await.map_err(io::Error::other)?
    }
}

impl Passed {
    fn forget(&mut self, id: &RecordId, run: &str) {
        if self.by_record.get(id).is_some_and(|there| there.run == run)
            && let Some(Run { ended: Some(RunEnded { response: Some(response), .. }), .. }) =
                self.by_record.remove(id)
        {
            self.kept = self.kept.saturating_sub(response.body.len());
        }
    }
}

/// Looks whether the store is back, and brings in what ran meanwhile.
async fn look(outage: Weak<Outage>) {
    loop {
        sleep(LOOK).await;
        let Some(outage) = outage.upgrade() else { return };
        if outage.hapax.is_draining() {
            return;
        }
        if let Err(error) = outage.bring_in().await {
            warn!(%error, "what ran unprotected could not be brought in yet");
        }
    }
}

/// An answer that is kept in memory until it can be stored.
pub(crate) fn kept(response: StoredResponse) -> Response<AnswerBody> {
    let mut response = hapax::http::respond(Answer::Shared { response });
    mark(&mut response, "applied");
    response
}

fn mark(response: &mut Response<AnswerBody>, word: &'static str) {
    let said = match word {
        "applied" => "applied",
        "not_applied" => "not-applied",
        _ => "unknown",
    };
    let headers = response.headers_mut();
    headers.insert(HAPAX_OUTCOME, HeaderValue::from_static(said));
    headers.insert(HAPAX_UNPROTECTED, HeaderValue::from_static("store-down"));
}

/// What a run came to, as far as a spool keeps it.
fn ended(run: &str, execution: &Execution) -> Ended {
    let run = run.to_owned();
    let nothing = |sent| Ended {
        run: run.clone(),
        sent,
        status: None,
        by_head: false,
        said: None,
        told: None,
    };
    match execution {
        Execution::Answered(reply) => Ended {
            run: run.clone(),
            sent: true,
            status: Some(reply.status),
            by_head: reply.response.is_none(),
            said: reply.said.map(|said| said_word(said).to_owned()),
            told: reply.told.map(|told| told_word(told).to_owned()),
        },
        Execution::Lost => nothing(true),
        Execution::NeverSent => nothing(false),
    }
}

/// What a run's end amounts to. `clean`: nothing was known of its key before.
fn judge(operation: &Operation, ended: &Ended, clean: bool) -> Classified {
    judge_by(operation.policy().store_refusals, ended, clean)
}

fn judge_by(store_refusals: bool, ended: &Ended, clean: bool) -> Classified {
    let Some(status) = ended.status else {
        let not_applied = !ended.sent && clean;
        return if not_applied {
            Classified::NotApplied
        } else {
            Classified::Uncertain { show: false }
        };
    };
    classify(AnswerFacts {
        status,
        complete: true,
        by_head: ended.by_head,
        said: ended.said.as_deref().and_then(|said| Said::parse(said.as_bytes())),
        told: ended.told.as_deref().map(told_of),
        clean,
        store_refusals,
    })
}

fn word(classified: Classified, ended: &Ended) -> &'static str {
    match classified {
        Classified::Outcome(hapax_core::OutcomeClass::Succeeded) => "applied",
        Classified::Outcome(hapax_core::OutcomeClass::FailedTerminal) => "refused",
        Classified::NotApplied => "not_applied",
        Classified::Uncertain { .. } if !ended.sent => "not_sent",
        Classified::Uncertain { .. } => "unknown",
    }
}

const fn said_word(said: Said) -> &'static str {
    match said {
        Said::Applied => "applied",
        Said::NotApplied => "not-applied",
        Said::Unknown => "unknown",
    }
}

const fn told_word(told: Told) -> &'static str {
    match told {
        Told::Applied => "applied",
        Told::NotApplied => "not-applied",
        Told::Failed => "failed",
        Told::Unknown => "unknown",
    }
}

fn told_of(word: &str) -> Told {
    match word {
        "applied" => Told::Applied,
        "not-applied" => Told::NotApplied,
        "failed" => Told::Failed,
        _ => Told::Unknown,
    }
}

fn not_noted() -> Problem {
    Problem::new(
        ProblemKind::StoreUnavailable,
        "Nothing was executed: the store of operations is not available. Send the same request \
         with the same key again.",
    )
    .retry_after(Duration::from_secs(1))
}

fn without_answer(word: &str) -> Problem {
    if word == "not_sent" {
        return Problem::new(
            ProblemKind::UpstreamUnreachable,
            "Nothing was executed now: the service could not be reached. Send the same request \
             with the same key again.",
        )
        .retry_after(Duration::from_secs(1));
    }
    Problem::new(
        ProblemKind::OutcomeUnknown,
        "The operation may have taken effect and its outcome is not known. Ask again with the \
         same key; do not send it under a new one.",
    )
    .retry_after(Duration::from_secs(5))
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
    /// The store.
    #[error("what ran unprotected could not be brought into the store")]
    Store(#[from] hapax_store::StoreError),
}

#[cfg(test)]
mod tests {
    use hapax_core::{FingerprintRules, OperationName, OperationPolicy};

    use super::*;

    #[tokio::test]
    async fn what_cannot_be_noted_on_disk_does_not_run() {
        let hapax = Hapax::in_memory();
        let policy = OperationPolicy::new(OperationName::new("pay").unwrap(), "http://a:1");
        let operation = hapax.register(policy).await.unwrap();
        let outage = Arc::new(Outage {
            hapax,
            database: PathBuf::from("hapax.db"),
            spool: Mutex::new(Some(Arc::new(Spool::on_a_full_disk()))),
            operations: Mutex::default(),
            passed: Mutex::default(),
        });
        let passing = Passing {
            operation,
            id: RecordId::from_bytes([1; 32]),
            fingerprint: Fingerprint::new(FingerprintRules::default().version(), [1; 32]),
        };
        for _ in 0..2 {
            let forward = |_, _| async { panic!("it was not noted, and runs") };
            let problem = outage.pass(passing.clone(), forward).await.unwrap_err();
            assert_eq!((problem.kind, problem.status), (ProblemKind::StoreUnavailable, 503));
            assert!(outage.known(&passing).is_none(), "it may be tried again");
        }
    }
}
