//! One document from a URL, within bounds of size and time.

use std::time::Duration;

use bytes::Bytes;
use hapax::http::body::{Collected, collect_capped};
use http::{
    HeaderValue, Request, StatusCode,
    header::ACCEPT,
    uri::{PathAndQuery, Uri},
};
use thiserror::Error;
use tokio::time::timeout;

use crate::{
    causes::with_causes,
    upstream::{IncompleteAnswer, OutBody, Reuse, SendError, Upstream},
};

/// The largest document.
const MOST: usize = 1 << 20;

/// How long it may take in all.
const WITHIN: Duration = Duration::from_secs(5);

/// Fetches a document.
pub(super) async fn fetch(upstream: &Upstream, target: &PathAndQuery) -> Result<Bytes, FetchError> {
    let mut request = Request::new(OutBody::full(Bytes::new()));
    *request.uri_mut() = Uri::from(target.clone());
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
    let fetching = async {
        let answer = upstream.send(request, Reuse::Keyed).await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status { status: answer.status() });
        }
        match collect_capped(answer.into_body(), MOST).await {
            Collected::Complete { bytes, .. } => Ok(bytes),
            Collected::OverCap(_) => Err(FetchError::TooLarge),
            Collected::Broken { error, .. } => Err(FetchError::BrokenOff(error)),
        }
    };
    timeout(WITHIN, fetching).await.unwrap_or(Err(FetchError::TooSlow))
}

/// Why there is no document.
#[derive(Debug, Error)]
pub(super) enum FetchError {
    /// No answer.
    #[error("{}", with_causes(.0))]
    Send(#[from] SendError),
    /// An answer that is none; redirections are not followed.
    #[error("the answer is {status}, and 200 is needed; redirections are not followed")]
    Status { status: StatusCode },
    #[error("the answer is larger than {MOST} bytes")]
    TooLarge,
    #[error("the answer broke off: {0}")]
    BrokenOff(IncompleteAnswer),
    #[error("there was no complete answer within {WITHIN:?}")]
    TooSlow,
}
