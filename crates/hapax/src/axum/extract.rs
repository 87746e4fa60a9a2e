//! Extractors.

use std::time::Duration;

use ::axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use hapax_core::{Problem, ProblemKind};
use http::request::Parts;
use tracing::error;

use crate::{
    Attempt, ByReturn, Execution, Interrupted, NotTaken, StepError,
    http::{headers::HAPAX_OUTCOME, refuse},
};

impl IntoResponse for NotTaken {
    fn into_response(self) -> Response {
        self.response()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Execution<ByReturn> {
    type Rejection = NotTaken;

    /// Claims the operation for this handler.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotTaken> {
        Self::take(&parts.extensions).await
    }
}

#[cfg(feature = "sqlite")]
impl<S: Send + Sync> FromRequestParts<S> for crate::Tx {
    type Rejection = NotTaken;

    /// Begins the transaction of this handler, with the claim in it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotTaken> {
        Self::take(&parts.extensions).await
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Attempt {
    type Rejection = NotTaken;

    /// The facts of the attempt that this handler has taken: to be extracted after it.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NotTaken> {
        Self::of(&parts.extensions)
    }
}

impl IntoResponse for Interrupted {
    /// What a handler answers that cannot go on; the layer says what the record says instead.
    fn into_response(self) -> Response {
        let soon = Duration::from_secs(1);
        let problem = match self {
            // Steps may have been done before the store failed: only the layer knows.
            Self::Store(_) | Self::Fenced | Self::InDoubt { .. } | Self::TooLong => Problem::new(
                ProblemKind::OutcomeUnknown,
                "The operation was interrupted. Send the same request with the same key again.",
            )
            .with_status(503)
            .retry_after(soon),
            Self::Data { .. } | Self::Misused(_) => {
                error!(error = %self, "an execution cannot go on");
                Problem::new(ProblemKind::HandlerFailed, "The service failed.")
            }
        };
        let mut response = refuse(&problem);
        // It is not the service's word on what the execution came to.
        response.headers_mut().remove(HAPAX_OUTCOME);
        response
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test collects, it made")]
mod tests {
    use hapax_store::StoreError;

    use super::*;

    #[tokio::test]
    async fn whoever_is_interrupted_does_not_say_that_nothing_was_executed() {
        let reason = "away".to_owned();
        let interruptions = [
            Interrupted::Store(StoreError::Unavailable { reason }),
            Interrupted::Fenced,
            Interrupted::InDoubt { step: "charge".to_owned() },
            Interrupted::TooLong,
        ];
        for interrupted in interruptions {
            let response = interrupted.into_response();
            assert_eq!(response.status(), 503);
            assert!(!response.headers().contains_key(HAPAX_OUTCOME));
            let body = ::axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
            let body = std::str::from_utf8(&body).unwrap();
            assert!(body.contains("urn:hapax:problem:outcome-unknown"), "{body}");
        }
    }
}
