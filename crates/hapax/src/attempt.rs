//! What an execution is told of itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hapax_core::{
    EffectId, EffectSecret, OperationName, OperationPolicy, Record, RecordId, StoreTime,
};
use metrics::counter;

use crate::metric_definitions::BUSINESS_DUPLICATES;

/// The facts of one attempt at an effect: what it may carry downstream and write into logs.
///
/// Cheap to clone; read-only.
///
/// ```
/// use hapax::Attempt;
///
/// /// What a call of another service carries.
/// fn fields(attempt: &Attempt) -> [(&'static str, String); 2] {
///     [
///         ("idempotency-key", format!("\"{}\"", attempt.effect_id_of("charge"))),
///         ("hapax-attempt", attempt.number().to_wire().to_string()),
///     ]
/// }
/// # let _ = fields;
/// ```
#[derive(Clone)]
pub struct Attempt(Arc<Facts>);

struct Facts {
    operation: OperationName,
    id: RecordId,
    secret: EffectSecret,
    number: hapax_core::Attempt,
    clean: bool,
    deadline: Option<StoreTime>,
    sent: Sent,
}

impl Attempt {
    /// `record` is as it was claimed.
    pub(crate) fn new(policy: &OperationPolicy, record: &Record, secret: &EffectSecret) -> Self {
        let refused_after = |deadline| record.refused_after(policy.lease, deadline);
        Self(Arc::new(Facts {
            operation: policy.name.clone(),
            deadline: policy.deadline.and_then(refused_after),
            id: record.id,
            secret: secret.clone(),
            number: record.attempt,
            clean: record.clean,
            sent: Sent::default(),
        }))
    }

    /// The operation's name.
    pub fn operation(&self) -> &OperationName {
        &self.0.operation
    }

    /// The identity of the record.
    pub fn record_id(&self) -> RecordId {
        self.0.id
    }

    /// The identity to carry downstream where the attempt is one call: the same for every attempt
    /// of this record.
    pub fn effect_id(&self) -> EffectId {
        self.effect_id_of("")
    }

    /// The identity of a step, likewise: one id for two calls would make the provider refuse the
    /// second.
    pub fn effect_id_of(&self, step: &str) -> EffectId {
        EffectId::new(&self.0.secret, &self.0.id, step)
    }

    /// The attempt's fencing number, for `Hapax-Attempt`.
    pub fn number(&self) -> hapax_core::Attempt {
        self.0.number
    }

    /// After which moment the service is to refuse this attempt, for `Hapax-Deadline`: where the
    /// operation declares that it does, what is not there later never will be.
    pub fn deadline(&self) -> Option<StoreTime> {
        self.0.deadline
    }

    /// Whether no earlier attempt can have had an effect.
    pub fn is_clean(&self) -> bool {
        self.0.clean
    }

    /// Counts that this attempt is a duplicate by a rule of the application, such as a reference
    /// that has an order already: another key, and so another intent, for the same business.
    ///
    /// Keys know nothing of such rules. The application keeps them itself (with a unique
    /// constraint) and answers by them, usually with 409; this tells them apart in
    /// `hapax_business_duplicates_total`.
    ///
    /// ```
    /// use axum::http::StatusCode;
    /// use hapax::{Tx, sqlx};
    ///
    /// async fn create(mut tx: Tx, reference: String) -> StatusCode {
    ///     let insert = sqlx::query("INSERT INTO orders (reference) VALUES (?)").bind(reference);
    ///     match insert.execute(&mut *tx).await {
    ///         Ok(_) => StatusCode::CREATED,
    ///         Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
    ///             tx.attempt().count_business_duplicate();
    ///             StatusCode::CONFLICT
    ///         }
    ///         Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    ///     }
    /// }
    /// # fn app(h: &hapax::Hapax) -> axum::Router {
    /// #     axum::Router::new().route("/orders", h.operation("orders.create").post(create))
    /// # }
    /// ```
    pub fn count_business_duplicate(&self) {
        let operation = self.0.operation.as_str().to_owned();
        counter!(BUSINESS_DUPLICATES, "operation" => operation).increment(1);
    }

    /// Where the execution keeps whether anything may have left this process.
    ///
    /// It begins as "may have": an execution that is cut short, by its timeout or at the end of a
    /// drain, has an unknown outcome. One that [says](Sent::set) `false` while it only prepares,
    /// and `true` before its first byte goes out, was not applied if it is cut before that.
    pub fn sent(&self) -> &Sent {
        &self.0.sent
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("operation", &self.0.operation)
            .field("record", &self.0.id)
            .field("number", &self.0.number)
            .field("clean", &self.0.clean)
            .finish_non_exhaustive()
    }
}

/// Whether anything of an execution may have left this process.
#[derive(Debug)]
pub struct Sent(AtomicBool);

impl Default for Sent {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Sent {
    /// Says whether anything may have left by now.
    pub fn set(&self, sent: bool) {
        self.0.store(sent, Ordering::SeqCst);
    }

    /// Whether anything may have left.
    pub fn may_have_left(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
