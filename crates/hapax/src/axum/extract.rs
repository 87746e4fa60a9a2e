//! Extractors.

use ::axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::{StatusCode, request::Parts};
use tracing::error;

use crate::{Attempt, ByReturn, Execution, Interrupted, NotTaken, StepError};

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
        let status = match self {
            Self::Fenced | Self::InDoubt { .. } | Self::Store(_) | Self::TooLong => {
                StatusCode::SERVICE_UNAVAILABLE
            }
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
