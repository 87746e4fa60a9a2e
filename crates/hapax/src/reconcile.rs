//! From evidence to a verdict on one uncertain record, whoever asks for it: a retry or the
//! background.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hapax_core::{
    AppliedOutcome, Attempt, Closer, DecisionRules, EffectId, Evidence, Fingerprint, Found,
    InFlight, Judgement, OperationName, OutcomeClass, Owner, Ownership, Proof, Record, RecordId,
    Ruling, State, Statement, Verdict, WriteRefused,
};
use hapax_store::{StoreError, Written};
use metrics::counter;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{info, warn};

use crate::{
    Finding, Hapax, Operation, Prober, Question,
    claim::Attempting,
    failpoints::{self, Failpoint},
    metric_definitions::PROBES,
};

/// How long a retry waits for evidence where the operation does not let duplicates wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// How a retry looks whether somebody else of this process has found out.
const POLL: Duration = Duration::from_millis(50);

/// Above this many, moments that are no longer needed are forgotten.
const MANY: usize = 1024;

/// An operation whose service can be asked.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) operation: Arc<Operation>,
    pub(crate) prober: Arc<dyn Prober>,
}

impl Asked {
    /// An operation that has several services is there once for each.
    fn is_of(&self, name: &OperationName, target: &str) -> bool {
        let policy = self.operation.policy();
        policy.name == *name && policy.target == target
    }
}

/// What this process knows of looks at uncertain records.
#[derive(Default)]
pub(crate) struct Looks {
    /// The records that retries look into now.
    under_way: Mutex<HashSet<RecordId>>,
    /// When this process first saw an attempt whose outcome is unknown, by the clock that cannot be
    /// set: a deadline is waited out on it too (`protocol.md` 12).
    noticed: Mutex<HashMap<(RecordId, Attempt), Instant>>,
}

/// What looking into a record came to.
pub(crate) enum Looked {
    /// The record ended, by this or by something else: decide again.
    Moved(Box<Found>),
    /// It is gone.
    Gone,
    /// It is as uncertain as before.
    Still {
        evidence: Evidence,
        /// Whose it is by now.
        of: Ownership,
        seen: String,
    },
}

/// Who looks.
#[derive(Clone, Copy)]
pub(crate) struct Looker {
    /// As the history names it.
    pub(crate) actor: &'static str,
    /// The token that holds the record, where it is held.
    pub(crate) holder: Option<Owner>,
}

impl Hapax {
    /// Has what becomes uncertain of an operation looked for by this prober: by retries, and in the
    /// background. Only where the operation's policy says `OnUnknown::Probe`.
    pub fn probe_with(&self, operation: &Arc<Operation>, prober: Arc<dyn Prober>) {
        let mut all = self.inner.asked.write();
        let target = &operation.policy().target;
        all.retain(|asked| !asked.is_of(operation.name(), target));
        all.push(Asked { operation: Arc::clone(operation), prober });
    }

    /// As [`probe_with`](Self::probe_with) for all operations that have a prober, in the place of
    /// those that had one before.
    pub fn probe_by(&self, probers: Vec<(Arc<Operation>, Arc<dyn Prober>)>) {
        let asked = |(operation, prober)| Asked { operation, prober };
        *self.inner.asked.write() = probers.into_iter().map(asked).collect();
    }

    /// Who is asked about effects of an operation at a target.
    pub(crate) fn asked(&self, name: &OperationName, target: &str) -> Option<Asked> {
        self.inner.asked.read().iter().find(|asked| asked.is_of(name, target)).cloned()
    }

    /// Who is asked about a record that was found in the store.
    pub(crate) async fn asked_about(
        &self,
        name: &OperationName,
        record: &Record,
    ) -> Result<Option<Asked>, StoreError> {
        let pinned = self.pinned_policy(record.policy).await?;
        Ok(pinned.and_then(|pinned| self.asked(name, &pinned.target)))
    }

    /// Looks into an uncertain record once, and stores what is certain then.
    ///
    /// # Errors
    /// When the store cannot be read or written: nothing was decided.
    pub(crate) async fn look_into(
        &self,
        asked: &Asked,
        found: &Found,
        looker: Looker,
    ) -> Result<Looked, StoreError> {
        let record = &found.record;
        let (effect_id, deadline) = match self.askable(asked, record).await? {
            Ok(askable) => askable,
            Err(why) => {
                return Ok(Looked::Still {
                    evidence: Evidence::Unknown,
                    of: record.ownership(),
                    seen: why.to_owned(),
                });
            }
        };
        // Both clocks have passed it before the service is asked.
        let closed = deadline.is_some_and(|deadline| {
            let waited = self.inner.looks.waited(record, deadline);
            waited && record.deadline_over(deadline, found.now)
        });
        let question = Question { record: record.id, effect_id, attempt: record.attempt };
        let prober = &*asked.prober;
        let finding = bounded(prober, prober.probe(question)).await;
        let closer = match (closed, prober.closes()) {
            (true, _) => Closer::DeadlineOver,
            (false, true) => Closer::Attempt,
            (false, false) => Closer::None,
        };
        let Finding { verdict, mut seen } = finding;
        let (of, finding) = match verdict.under(closer) {
            Some(verdict) => {
                if closed && verdict == Verdict::NotApplied {
                    seen.push_str(", after everything sent is refused");
                }
                (record.ownership(), Finding { verdict, seen })
            }
            None => match self.close(asked, record, question, seen, looker).await? {
                Ok(closed) => closed,
                Err(moved) => return Ok(moved),
            },
        };
        count(asked, &finding.verdict);
        info!(record = %record.id, %effect_id, seen = %finding.seen, "asked what became of it");
        let ruling = match finding.verdict {
            Verdict::Applied(outcome) => Ruling::Applied(outcome),
            Verdict::NotApplied => Ruling::NotApplied,
            Verdict::NotSeenYet => {
                let evidence = Evidence::NotSeenYet;
                return Ok(Looked::Still { evidence, of, seen: finding.seen });
            }
            Verdict::Unknown => {
                let evidence = Evidence::Unknown;
                return Ok(Looked::Still { evidence, of, seen: finding.seen });
            }
        };
        let statement = Statement { actor: looker.actor.to_owned(), reason: finding.seen };
        let retention = asked.operation.policy().retention;
        let token = self.token()?;
        failpoints::pass(Failpoint::Probed).await;
        let judgement = Judgement { token, of, ruling, retention, statement };
        let judged = match self.inner.store.judge(judgement.clone(), looker.holder).await? {
            Written::Refused { why, found } => {
                Box::pin(self.overruled(judgement, record.fingerprint, why, found)).await?
            }
            judged => judged,
        };
        if matches!(judged, Written::Done(_)) {
            self.inner.looks.forget(record);
        }
        self.moved(judged, record.id).await
    }

    /// What a verdict that was refused comes to: that the effect exists is proof against a record
    /// that somebody freed meanwhile.
    async fn overruled(
        &self,
        judgement: Judgement,
        fingerprint: Fingerprint,
        why: WriteRefused,
        found: Box<Found>,
    ) -> Result<Written, StoreError> {
        let Judgement { token, of, ruling, retention, statement } = judgement;
        let Ruling::Applied(AppliedOutcome { class: OutcomeClass::Succeeded, status, response }) =
            ruling
        else {
            return Ok(Written::Refused { why, found });
        };
        let proof = Proof { token, of, fingerprint, status, response, retention, statement };
        self.prove(proof, why, found).await
    }

    /// The effect id to ask for, and how long after its lease nothing of an attempt comes any more
    /// where the service enforces a deadline; or why it is not asked.
    async fn askable(
        &self,
        asked: &Asked,
        record: &Record,
    ) -> Result<Result<(EffectId, Option<Duration>), &'static str>, StoreError> {
        let Some(secret) = self.inner.secrets.of(record.secret_version) else {
            return Ok(Err("its effect id was made with a secret that is not here"));
        };
        let Some(pinned) = self.pinned_policy(record.policy).await? else {
            return Ok(Err("the policy it was admitted under is not known here"));
        };
        let present = asked.operation.pinned();
        if !DecisionRules::stricter(&pinned, present).probes(record) {
            return Ok(Err("the policy it was admitted under does not let the service be asked"));
        }
        let deadline = match (pinned.deadline, present.deadline) {
            (Some(pinned), Some(present)) => Some(pinned.max(present)),
            _ => None,
        };
        // What came in time may still be at work then; for how long, the operation says.
        let at_work = asked.operation.policy().timeout;
        let deadline = deadline.map(|deadline| deadline.saturating_add(at_work));
        Ok(Ok((EffectId::new(secret, &record.id, ""), deadline)))
    }

    /// Closes the earlier attempts by one that is committed first. `Err`: the record has moved on.
    async fn close(
        &self,
        asked: &Asked,
        record: &Record,
        question: Question,
        seen: String,
        looker: Looker,
    ) -> Result<Result<(Ownership, Finding), Looked>, StoreError> {
        let closing = self.token()?;
        let statement = Statement { actor: looker.actor.to_owned(), reason: seen };
        let closed = self.inner.store.close_earlier(record.ownership(), closing, statement).await?;
        let Written::Done(closing) = closed else {
            return Ok(Err(self.moved(closed, record.id).await?));
        };
        failpoints::pass(Failpoint::Closing).await;
        let question = Question { attempt: closing.attempt, ..question };
        let prober = &*asked.prober;
        let finding = bounded(prober, prober.close(question)).await;
        Ok(Ok((closing.ownership(), finding)))
    }

    async fn moved(&self, written: Written, id: RecordId) -> Result<Looked, StoreError> {
        match written {
            Written::Refused { found, .. } => Ok(Looked::Moved(found)),
            Written::Missing => Ok(Looked::Gone),
            Written::Done(_) => {
                let found = self.bounded(self.inner.store.find(id)).await?;
                Ok(found.map_or(Looked::Gone, |found| Looked::Moved(Box::new(found))))
            }
        }
    }
}

impl Attempting {
    /// Has the service asked for a retry, within its patience. What cannot be stored or read
    /// leaves the record as uncertain as it was.
    pub(crate) async fn ask(&self, found: &Found) -> Looked {
        let unknown = |seen: &str| Looked::Still {
            evidence: Evidence::Unknown,
            of: found.record.ownership(),
            seen: seen.to_owned(),
        };
        let policy = self.operation.policy();
        let asked = self.engine.asked(&policy.name, &policy.target);
        let Some(asked) = asked else { return unknown("there is nobody to ask") };
        let patience = match self.in_flight {
            InFlight::Wait(patience) => patience,
            InFlight::Conflict => PATIENCE,
        };
        // A wait that no clock can hold is one of a year.
        let deadline = Instant::now().checked_add(patience);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(31_536_000));
        let looking = async {
            let Some(_under_way) = self.engine.inner.looks.begin(self.id) else {
                return self.watch(found).await;
            };
            let looker = Looker { actor: "hapax, for a retry", holder: None };
            match self.engine.look_into(&asked, found, looker).await {
                Ok(looked) => looked,
                Err(error) => {
                    warn!(%error, record = %self.id, "what became of it could not be stored");
                    unknown("the store is not available")
                }
            }
        };
        match timeout_at(deadline, looking).await {
            Ok(looked) => looked,
            Err(_) => unknown("no answer within the wait of a retry"),
        }
    }

    /// Waits for what another retry of this process finds out.
    async fn watch(&self, found: &Found) -> Looked {
        loop {
            let is_over = !self.engine.inner.looks.is_under_way(self.id);
            let read = self.engine.bounded(self.engine.inner.store.find(self.id)).await;
            match read {
                Ok(None) => return Looked::Gone,
                Ok(Some(now)) if now.record.state(now.now) != State::Uncertain => {
                    return Looked::Moved(Box::new(now));
                }
                _ if is_over => {
                    let of = found.record.ownership();
                    let seen = "another retry found nothing".to_owned();
                    return Looked::Still { evidence: Evidence::Unknown, of, seen };
                }
                _ => sleep(POLL).await,
            }
        }
    }
}

impl Looks {
    /// Begins to look into a record, unless somebody does.
    fn begin(&self, id: RecordId) -> Option<UnderWay<'_>> {
        let is_first = self.under_way.lock().insert(id);
        is_first.then(|| UnderWay { looks: self, id })
    }

    fn is_under_way(&self, id: RecordId) -> bool {
        self.under_way.lock().contains(&id)
    }

    /// Whether this process has seen the record's attempt in doubt for so long.
    fn waited(&self, record: &Record, deadline: Duration) -> bool {
        let now = Instant::now();
        let mut noticed = self.noticed.lock();
        if noticed.len() > MANY {
            let lately = deadline.saturating_mul(2).max(Duration::from_secs(3600));
            noticed.retain(|_, since| now.duration_since(*since) < lately);
        }
        let since = *noticed.entry((record.id, record.attempt)).or_insert(now);
        now.duration_since(since) >= deadline
    }

    fn forget(&self, record: &Record) {
        self.noticed.lock().remove(&(record.id, record.attempt));
    }
}

/// A look of a retry; it ends with it, whatever becomes of the retry.
struct UnderWay<'a> {
    looks: &'a Looks,
    id: RecordId,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.looks.under_way.lock().remove(&self.id);
    }
}

async fn bounded(prober: &dyn Prober, probing: crate::Probing<'_>) -> Finding {
    let bound = prober.timeout();
    let late = |_| Finding::nothing(format!("no answer within {bound:?}"));
    timeout(bound, probing).await.unwrap_or_else(late)
}

fn count(asked: &Asked, verdict: &Verdict) {
    let verdict = match verdict {
        Verdict::Applied(_) => "applied",
        Verdict::NotApplied => "not_applied",
        Verdict::NotSeenYet => "not_seen",
        Verdict::Unknown => "unknown",
    };
    let operation = asked.operation.label();
    counter!(PROBES, "operation" => operation, "verdict" => verdict).increment(1);
}
