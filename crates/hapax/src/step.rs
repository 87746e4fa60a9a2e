//! A step as a handler names it, and how it may go wrong.

use std::{borrow::Cow, convert::Infallible, fmt, time::Duration};

use hapax_core::{StepData, StepName};
use hapax_store::StoreError;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

/// A named part of an execution: a name, or more where it differs from the operation.
///
/// A name alone, as text, is a step too.
///
/// ```
/// use std::time::Duration;
///
/// use hapax::Step;
///
/// // The provider remembers the identity of a charge for a day.
/// let charge = Step::new("charge").resend_for(Duration::from_secs(86_400));
/// // Its data gained a field; what the older version stored is brought up.
/// let ordered = Step::new("ordered").version(2).upgrade(|version, mut data| {
///     (version == 1).then(|| {
///         data["currency"] = "EUR".into();
///         data
///     })
/// });
/// # let _ = (charge, ordered);
/// ```
#[derive(Clone, Debug)]
pub struct Step<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) version: u32,
    pub(crate) upgrade: Option<Upgrade>,
    /// Whether it may be done again while its outcome is unknown, where that differs from the
    /// operation.
    pub(crate) resend_for: Option<Option<Duration>>,
}

/// Brings the data that an older version of a step stored to the present form; `None` where it
/// cannot.
pub type Upgrade = fn(version: u32, data: Value) -> Option<Value>;

impl<'a> Step<'a> {
    /// A step of this name, 1 to 128 characters of `a-z A-Z 0-9 . _ -`. The name enters the step's
    /// effect id and finds its data again: renaming it makes it new for executions under way.
    pub const fn new(name: &'a str) -> Self {
        Self { name: Cow::Borrowed(name), version: 1, upgrade: None, resend_for: None }
    }

    /// The version of the form of its data; 1 unless set.
    #[must_use]
    pub fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// How data of another version is brought to the present form.
    #[must_use]
    pub fn upgrade(self, upgrade: Upgrade) -> Self {
        Self { upgrade: Some(upgrade), ..self }
    }

    /// While its outcome is unknown it may be done again with the same effect id, for so long
    /// after its first beginning: the time for which the other side collapses calls of one
    /// identity into one effect, less the longest time a call can be under way.
    #[must_use]
    pub fn resend_for(self, memory: Duration) -> Self {
        Self { resend_for: Some(Some(memory)), ..self }
    }

    /// While its outcome is unknown it is not done again, whatever holds for the operation.
    #[must_use]
    pub fn hold(self) -> Self {
        Self { resend_for: Some(None), ..self }
    }

    pub(crate) fn step_name(&self) -> Result<StepName, Interrupted> {
        StepName::new(&self.name)
            .map_err(|error| Interrupted::Misused(format!("{:?}: {error}", self.name)))
    }

    pub(crate) fn encode<T: Serialize>(&self, value: &T) -> Result<StepData, Interrupted> {
        let bytes = serde_json::to_vec(value).map_err(|error| self.data(error.to_string()))?;
        Ok(StepData { version: self.version, bytes: bytes.into() })
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, data: &StepData) -> Result<T, Interrupted> {
        let read = |error: serde_json::Error| self.data(error.to_string());
        if data.version == self.version {
            return serde_json::from_slice(&data.bytes).map_err(read);
        }
        let value = serde_json::from_slice(&data.bytes).map_err(read)?;
        let upgraded = self.upgrade.and_then(|upgrade| upgrade(data.version, value));
        let upgraded = upgraded.ok_or_else(|| {
            self.data(format!("it has version {}, known is {}", data.version, self.version))
        })?;
        serde_json::from_value(upgraded).map_err(read)
    }

    fn data(&self, reason: String) -> Interrupted {
        Interrupted::Data { step: self.name.clone().into_owned(), reason }
    }
}

/// For parts of which there are several: `format!("line-{number}")`.
impl From<String> for Step<'_> {
    fn from(name: String) -> Self {
        Self { name: Cow::Owned(name), ..Step::new("") }
    }
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(name: &'a str) -> Self {
        Self::new(name)
    }
}

/// What a call came to, where its error tells more than that nothing is known.
///
/// A plain `Result` is a call too: its error leaves the call in doubt.
///
/// ```
/// use hapax::Called;
///
/// struct Charge;
/// enum ProviderError { Refused, Timeout }
///
/// fn told(answer: Result<Charge, ProviderError>) -> Called<Charge, ProviderError> {
///     match answer {
///         Ok(charge) => Called::Applied(charge),
///         Err(refused @ ProviderError::Refused) => Called::NotApplied(refused),
///         Err(unknown) => Called::Unknown(unknown),
///     }
/// }
/// # assert!(matches!(told(Err(ProviderError::Timeout)), Called::Unknown(_)));
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Called<T, E> {
    /// It took effect.
    Applied(T),
    /// It certainly did not, and will not: the step may be done again at any time.
    NotApplied(E),
    /// Nobody knows. The execution stops here.
    Unknown(E),
}

impl<T, E> From<Result<T, E>> for Called<T, E> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Applied(value),
            Err(error) => Self::Unknown(error),
        }
    }
}

/// Why a step gave no value.
///
/// A handler usually turns both into its own error:
///
/// ```
/// use hapax::{Interrupted, StepError};
///
/// enum AppError { Database, Interrupted(Interrupted) }
///
/// impl From<Interrupted> for AppError {
///     fn from(why: Interrupted) -> Self {
///         Self::Interrupted(why)
///     }
/// }
///
/// impl<E> From<StepError<E>> for AppError
/// where
///     AppError: From<E>,
/// {
///     fn from(error: StepError<E>) -> Self {
///         error.into_error()
///     }
/// }
/// ```
#[derive(Debug)]
pub enum StepError<E = Infallible> {
    /// The step itself failed, with its own error.
    Failed(E),
    /// The execution cannot go on.
    Interrupted(Interrupted),
}

impl<E> StepError<E> {
    /// Either as the handler's own error.
    pub fn into_error<A: From<E> + From<Interrupted>>(self) -> A {
        match self {
            Self::Failed(error) => error.into(),
            Self::Interrupted(why) => why.into(),
        }
    }
}

impl<E> From<Interrupted> for StepError<E> {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl From<StepError> for Interrupted {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Failed(never) => match never {},
            StepError::Interrupted(why) => why,
        }
    }
}

impl<E: fmt::Display> fmt::Display for StepError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(_) => f.write_str("a step failed"),
            Self::Interrupted(_) => f.write_str("the execution was interrupted"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for StepError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Failed(error) => error,
            Self::Interrupted(why) => why,
        })
    }
}

/// Why an execution cannot go on here. Whatever the handler answers to it, the caller is told what
/// the record says.
///
/// ```
/// use hapax::Interrupted;
///
/// fn log(why: &Interrupted) {
///     match why {
///         // Of the code: somebody has to look.
///         Interrupted::Data { .. } | Interrupted::Misused(_) => eprintln!("{why}"),
///         _ => println!("{why}"),
///     }
/// }
/// # log(&Interrupted::Fenced);
/// ```
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum Interrupted {
    /// Another attempt has the record by now, or it has ended.
    #[error("another attempt has this execution by now; stop here")]
    Fenced,
    /// What a step came to is unknown, and it may not be done again.
    #[error("the outcome of step {step} is not known; nothing may follow it")]
    InDoubt {
        /// The step.
        step: String,
    },
    /// The store did not take the step. Nothing was done in it.
    #[error("the store did not take the step")]
    Store(#[source] StoreError),
    /// The data that a step stored before cannot be read, or the present data not be stored.
    #[error("the data of step {step} cannot be used: {reason}; give the step an upgrade")]
    Data {
        /// The step.
        step: String,
        /// Why.
        reason: String,
    },
    /// A transaction was open for more than a third of the lease. It is rolled back.
    #[error("a transaction took longer than a third of the lease, and is rolled back")]
    TooLong,
    /// The execution was used in a way that it is not made for.
    #[error("{0}")]
    Misused(String),
}
