//! Extractors.

use std::{convert::Infallible, sync::Arc};

use ::axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use hapax_core::{Problem, ProblemKind};
use http::{StatusCode, request::Parts};
use tracing::error;

use crate::{Attempt, ByReturn, Execution, Interrupted, StepError, desk::Desk, http::refuse};

/// The handler got no attempt, and is not called. The layer answers: what an earlier attempt came
/// to, or why there is none.
#[derive(Debug)]
pub struct NotTaken(Why);

#[derive(Debug)]
enum Why {
    /// The layer in front answers; nobody sees what is said here.
    Answered,
    /// No layer of hapax is in front of the handler.
    NoLayer,
}

impl NotTaken {
    const ANSWERED: Self = Self(Why::Answered);
}

impl IntoResponse for NotTaken {
    /// Seen only where no layer of hapax is in front of the handler.
    fn into_response(self) -> Response {
        match self.0 {
            Why::Answered => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Why::NoLayer => refuse(&Problem::new(
                ProblemKind::HandlerFailed,
                "The service is not set up to protect this operation. Nothing was executed.",
            )),
        }
    }
}

/// The desk that the layer has put beside the request.
pub(super) fn desk(parts: &Parts) -> Result<&Arc<Desk>, NotTaken> {
    parts.extensions.get::<Arc<Desk>>().ok_or_else(|| {
        error!(
            path = parts.uri.path(),
            "a handler takes an attempt, and its route has no layer that gives one: add \
             .layer(h.operation(\"…\")), without bracketed()"
        );
        NotTaken(Why::NoLayer)
    })
}

impl<S: Send + Sync> FromRequestParts<S> for Execution<ByReturn> {
    type Rejection = NotTaken;

    /// Claims the operation for this handler.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotTaken> {
        match desk(parts)?.take_steps().await {
            Ok(running) => Ok(Self { running, door: ByReturn(()) }),
            Err(_) => Err(NotTaken::ANSWERED),
        }
    }
}

#[cfg(feature = "sqlite")]
impl<S: Send + Sync> FromRequestParts<S> for crate::Tx {
    type Rejection = NotTaken;

    /// Begins the transaction of this handler, with the claim in it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotTaken> {
        desk(parts)?.take_transaction().await.map_err(|_| NotTaken::ANSWERED)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Attempt {
    type Rejection = NotTaken;

    /// The facts of the attempt that this handler has taken: to be extracted after it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotTaken> {
        if let Some(attempt) = parts.extensions.get::<Self>() {
            return Ok(attempt.clone());
        }
        let desk = desk(parts)?;
        desk.attempt().ok_or_else(|| {
            desk.misuse("Attempt is extracted after Tx or Execution, not before");
            NotTaken::ANSWERED
        })
    }
}

impl IntoResponse for Interrupted {
    /// What a handler answers that cannot go on; the layer says what the record says instead.
    fn into_response(self) -> Response {
        let status = match self {
            Self::Fenced | Self::InDoubt { .. } | Self::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Data { .. } | Self::Misused(_) => {
                error!(error = %self, "an execution cannot go on");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        status.into_response()
    }
}

impl<E: IntoResponse> IntoResponse for StepError<E> {
    fn into_response(self) -> Response {
        match self {
            Self::Failed(error) => error.into_response(),
            Self::Interrupted(why) => why.into_response(),
        }
    }
}

impl From<StepError<Infallible>> for Interrupted {
    fn from(error: StepError<Infallible>) -> Self {
        match error {
            StepError::Failed(never) => match never {},
            StepError::Interrupted(why) => why,
        }
    }
}
