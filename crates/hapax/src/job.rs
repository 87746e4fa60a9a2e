//! Operations without HTTP: queue consumers, jobs, batches. The key is an event id, a message id
//! or a natural key.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{
    BodyInvalid, Fingerprint, Fingerprinter, IntentParts, Key, OperationName, OperationPolicy,
    Problem, ProblemKind, RecordId, Scope, StoredResponse,
};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::{
    Answer, ByReturn, Ended, Executed, Execution, Hapax, Intent, Reply,
    claim::Attempting,
    protected::{self, Protected},
    running::Running,
};

mod each;
mod held;

#[cfg(feature = "sqlite")]
pub(crate) use held::outcome;

pub use held::{Begun, Held, Outcome};

/// What came of an operation that is done once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Done<T> {
    /// Its value, from the attempt that did it.
    pub value: T,
    /// Whether that was an earlier attempt.
    pub replayed: bool,
}

/// Why an operation is not done, or not known to be.
///
/// ```
/// use hapax::NotDone;
///
/// /// Whether a queue is to deliver its message again.
/// fn redeliver<E>(why: &NotDone<E>) -> bool {
///     match why {
///         NotDone::Failed(_) | NotDone::Later(_) => true,
///         // For a person, and a message that can never be done.
///         NotDone::Unresolved(_) | NotDone::Refused(_) => false,
///     }
/// }
/// # assert!(redeliver(&NotDone::Failed(())));
/// ```
#[derive(Debug, Error)]
pub enum NotDone<E> {
    /// The closure's own error. Nothing final is stored: the next attempt goes on from the last
    /// step that was done, or begins anew if there was none.
    #[error("the operation failed")]
    Failed(E),
    /// Not now: another attempt is under way, or nothing could be claimed. Deliver it again.
    #[error(transparent)]
    Later(Refusal),
    /// It may have taken effect, and that has to be found out before anything else is done.
    #[error(transparent)]
    Unresolved(Refusal),
    /// It will not be done under this key: the key was used for something else, or is expired, or
    /// it failed for good (`Execution::fail`).
    #[error(transparent)]
    Refused(Refusal),
}

/// Why there is no outcome, as a caller over HTTP would be told it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{}", self.0.detail)]
pub struct Refusal(Problem);

impl Refusal {
    /// What kind of problem it is.
    pub const fn kind(&self) -> ProblemKind {
        self.0.kind
    }

    /// When it is worth trying again.
    pub const fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }
}

impl Hapax {
    /// Does an operation once: whoever calls this with the same scope and key, here or in another
    /// process, now or after a crash, gets the value of the one time that it was done.
    ///
    /// `intent` is what is asked for: the same key with another intent is refused. `act` begins
    /// at once, moves to a task of its own at its first wait, and goes on if the caller is dropped;
    /// what it returns is stored before it is answered.
    ///
    /// ```
    /// use hapax::{Execution, Hapax, NotDone, Scope, StepError};
    ///
    /// # async fn redeliver() {}
    /// /// A message from a queue that delivers at least once.
    /// async fn consume(h: &Hapax, id: &str, order: String) {
    ///     let ship = |mut x: Execution| async move {
    ///         let label = async |id| Ok::<_, std::io::Error>(format!("{order} under {id}"));
    ///         x.call("label", label).await
    ///     };
    ///     match h.once("orders.ship", &Scope::single_tenant(), id, "ship", ship).await {
    ///         Ok(done) => println!("shipped: {}", done.value),
    ///         Err(NotDone::Later(_) | NotDone::Failed(_)) => redeliver().await,
    ///         Err(unresolved_or_refused) => eprintln!("{unresolved_or_refused}"),
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() { consume(&Hapax::in_memory(), "message 7", "order 7".into()).await }
    /// ```
    ///
    /// # Errors
    /// [`NotDone`], which says whether to try again.
    ///
    /// # Panics
    /// If the operation's name is none: 1 to 128 characters of `a-z A-Z 0-9 . _ -`.
    pub async fn once<T, E, F, Fut>(
        &self,
        operation: &str,
        scope: &Scope,
        key: impl AsRef<[u8]>,
        intent: &(impl Serialize + ?Sized),
        act: F,
    ) -> Result<Done<T>, NotDone<E>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
        F: FnOnce(Execution) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let asked = Asked::new(operation, scope, key.as_ref(), intent).map_err(refused)?;
        let attempting = self.attempting(&asked).await.map_err(refused)?;
        let execute = async move |running| executed(act(driven(running)).await);
        let answer = self
            .track(|slot| async move { attempting.run_steps(&asked, execute, slot).await })
            .await;
        done(*answer)
    }

    /// The policy of an operation that is done without HTTP, or of a name that several routes
    /// share; without it an operation has the defaults of the product. To be called before the
    /// operation is first used.
    ///
    /// ```
    /// # use hapax::Hapax;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = Hapax::in_memory();
    /// h.define("orders.ship", |policy| policy.timeout = Duration::from_secs(120));
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the name is none, or the policy inconsistent, with what is wrong: that is found when the
    /// application starts.
    #[track_caller]
    pub fn define(&self, name: &str, change: impl FnOnce(&mut OperationPolicy)) {
        let mut policy = protected::policy_of(name);
        protected::change(&mut policy, change);
        let protected = Arc::new(Protected::new(&policy));
        self.inner.defined.write().insert(policy.name, protected);
    }

    pub(crate) fn protected(&self, name: &OperationName) -> Arc<Protected> {
        if let Some(defined) = self.inner.defined.read().get(name) {
            return Arc::clone(defined);
        }
        let new = || Arc::new(Protected::new(&OperationPolicy::new(name.clone(), "")));
        Arc::clone(self.inner.defined.write().entry(name.clone()).or_insert_with(new))
    }

    async fn attempting(&self, asked: &Asked) -> Result<Attempting, Problem> {
        let protected = self.protected(&asked.operation);
        let operation =
            protected.steps.ready(self).await.map_err(|error| self.store_problem(&error))?;
        let invalid =
            |error: BodyInvalid| Problem::new(ProblemKind::BodyInvalid, error.to_string());
        let fingerprint = operation.fingerprint(asked).map_err(invalid)?;
        Ok(Attempting::new(self.clone(), Arc::clone(operation), asked.id, fingerprint))
    }
}

/// What is asked for, as an intent.
struct Asked {
    operation: OperationName,
    id: RecordId,
    /// What is to be done, as JSON.
    what: Bytes,
}

impl Asked {
    fn new(
        operation: &str,
        scope: &Scope,
        key: &[u8],
        intent: &(impl Serialize + ?Sized),
    ) -> Result<Self, Problem> {
        let invalid = |kind, reason: String| Problem::new(kind, reason);
        let operation = protected::name_of(operation);
        let key = Key::from_bytes(key)
            .map_err(|error| invalid(ProblemKind::KeyInvalid, error.to_string()))?;
        let what = serde_json::to_vec(intent)
            .map_err(|error| invalid(ProblemKind::BodyInvalid, error.to_string()))?;
        let id = RecordId::new(scope, &operation, &key);
        Ok(Self { operation, id, what: what.into() })
    }
}

impl Intent for Asked {
    fn fingerprint(&self, fingerprinter: &Fingerprinter) -> Result<Fingerprint, BodyInvalid> {
        fingerprinter.fingerprint(&IntentParts {
            operation: self.operation.as_str(),
            method: "",
            path: "",
            query: None,
            media_type: Some(b"application/json"),
            content_encoding: None,
            headers: &[],
            body: &self.what,
            decoded: None,
        })
    }
}

const fn driven(running: Arc<Running>) -> Execution {
    Execution { running, door: ByReturn(()) }
}

/// What a closure came back with, as the answer of a service.
fn executed<T: Serialize, E>(result: Result<T, E>) -> Box<Executed<Result<T, E>>> {
    let reply = |status, response| Reply {
        status,
        said: None,
        told: None,
        replayed: false,
        response,
        retry_after: None,
    };
    let ended = match &result {
        Ok(value) => match stored(value) {
            Ok(response) => Ended::Answered(reply(200, Some(response))),
            // It was done all the same.
            Err(error) => {
                tracing::error!(%error, "the value of an operation cannot be stored");
                Ended::Answered(reply(200, None))
            }
        },
        Err(_) => Ended::Lost,
    };
    Box::new(Executed { ended, live: Some(result) })
}

/// A value as it is stored.
fn stored<T: Serialize + ?Sized>(value: &T) -> Result<StoredResponse, serde_json::Error> {
    let json = (Bytes::from_static(b"content-type"), Bytes::from_static(b"application/json"));
    let body = serde_json::to_vec(value)?.into();
    Ok(StoredResponse { status: 200, headers: vec![json], body })
}

fn done<T, E>(answer: Answer<Result<T, E>>) -> Result<Done<T>, NotDone<E>>
where
    T: DeserializeOwned,
{
    match answer {
        Answer::First { live: Ok(value), outcome: crate::FirstOutcome::Stored { .. } } => {
            Ok(Done { value, replayed: false })
        }
        Answer::First { live: Ok(_), .. } => Err(refused(Problem::new(
            ProblemKind::OutcomeUnknown,
            "The operation was done, and its outcome could not be stored.",
        ))),
        Answer::First { live: Err(error), .. } => Err(NotDone::Failed(error)),
        Answer::Observed { retry_after, .. } => Err(NotDone::Unresolved(unresolved(retry_after))),
        // Its holder has settled it so; the body is the reason, and no value.
        Answer::Replayed { response, .. } if !(200..300).contains(&response.status) => {
            Err(NotDone::Refused(Refusal(Problem::new(
                ProblemKind::HandlerFailed,
                "The operation failed for good under this key, and is not done again.",
            ))))
        }
        Answer::Replayed { response, .. } | Answer::Shared { response } => {
            match serde_json::from_slice(&response.body) {
                Ok(value) => Ok(Done { value, replayed: true }),
                Err(error) => Err(refused(Problem::new(
                    ProblemKind::OutcomeNotKept,
                    format!("The operation is done, and its stored value cannot be read: {error}."),
                ))),
            }
        }
        Answer::Problem(problem) => Err(refused(problem)),
    }
}

/// What was answered settled nothing.
fn unresolved(retry_after: Duration) -> Refusal {
    let problem = Problem::new(
        ProblemKind::OutcomeUnknown,
        "The operation may have taken effect and its outcome is not known. It is not executed again.",
    );
    Refusal(problem.retry_after(retry_after))
}

/// A problem by what is to be done about it.
fn refused<E>(problem: Problem) -> NotDone<E> {
    use ProblemKind as Kind;
    let refusal = Refusal(problem);
    match refusal.kind() {
        // The next attempt goes on.
        Kind::OutcomeUnknown if refusal.0.status == 503 => NotDone::Later(refusal),
        Kind::OutcomeUnknown => NotDone::Unresolved(refusal),
        Kind::InFlight
        | Kind::StoreUnavailable
        | Kind::StoreRegressed
        | Kind::PolicyUnknown
        | Kind::UpstreamUnreachable
        | Kind::HandlerFailed
        | Kind::Overloaded
        | Kind::Draining => NotDone::Later(refusal),
        _ => NotDone::Refused(refusal),
    }
}
