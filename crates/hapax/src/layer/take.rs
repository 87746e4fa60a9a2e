//! How a service takes the attempt that the layer holds for it.

use std::sync::Arc;

use http::{Extensions, Response, StatusCode};
use tracing::error;

use super::service::not_set_up;
use crate::{Attempt, ByReturn, Execution, desk::Desk, http::refuse};

/// There is no attempt for this request, and nothing is to be done: the layer answers with what an
/// earlier attempt came to, or why there is none. What the service answers instead is not used.
///
/// ```
/// use bytes::Bytes;
/// use hapax::{Execution, NotTaken};
/// use http::{Request, Response};
///
/// async fn service(request: Request<Bytes>) -> Result<Response<Bytes>, NotTaken> {
///     let x = Execution::take(request.extensions()).await?;
///     Ok(Response::new(x.attempt().effect_id().to_string().into()))
/// }
/// # let _ = service;
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotTaken(Why);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Why {
    /// The layer in front answers; nobody sees what is said here.
    Answered,
    /// No layer of hapax is in front of the service.
    NoLayer,
}

impl NotTaken {
    const ANSWERED: Self = Self(Why::Answered);

    /// A response, for a service that has to give one.
    pub fn response<B: From<bytes::Bytes>>(self) -> Response<B> {
        match self.0 {
            Why::Answered => {
                let mut unseen = Response::new(B::from(bytes::Bytes::new()));
                *unseen.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                unseen
            }
            Why::NoLayer => refuse(&not_set_up()),
        }
    }
}

impl Execution<ByReturn> {
    /// Takes the attempt of a request in a service that has no extractors, by the request's
    /// extensions. An axum handler takes it as an argument.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use hapax::Execution;
    /// use http::{Request, Response};
    ///
    /// async fn pay(request: Request<Bytes>) -> Response<Bytes> {
    ///     let mut x = match Execution::take(request.extensions()).await {
    ///         Ok(x) => x,
    ///         Err(not_taken) => return not_taken.response(),
    ///     };
    ///     let charged = x.call("charge", async |id| Ok::<_, String>(format!("under {id}"))).await;
    ///     match charged {
    ///         Ok(charge) => Response::new(charge.into()),
    ///         Err(_) => {
    ///             let mut failed = Response::new(Bytes::new());
    ///             *failed.status_mut() = http::StatusCode::BAD_GATEWAY;
    ///             failed
    ///         }
    ///     }
    /// }
    /// # let _ = pay;
    /// ```
    ///
    /// # Errors
    /// [`NotTaken`] when there is nothing to be executed.
    pub async fn take(extensions: &Extensions) -> Result<Self, NotTaken> {
        match desk(extensions)?.take_steps().await {
            Ok(running) => Ok(Self { running, door: ByReturn(()) }),
            Err(_) => Err(NotTaken::ANSWERED),
        }
    }
}

#[cfg(feature = "sqlite")]
impl crate::Tx {
    /// Begins the transaction of a request in a service that has no extractors, by the request's
    /// extensions. An axum handler takes it as an argument.
    ///
    /// # Errors
    /// [`NotTaken`] when there is nothing to be executed.
    pub async fn take(extensions: &Extensions) -> Result<Self, NotTaken> {
        desk(extensions)?.take_transaction().await.map_err(|_| NotTaken::ANSWERED)
    }
}

impl Attempt {
    /// The facts of the attempt, in a service that has no extractors: once it is taken, or from the
    /// start in one that is protected as a whole.
    ///
    /// # Errors
    /// [`NotTaken`] where none is taken.
    pub fn of(extensions: &Extensions) -> Result<Self, NotTaken> {
        if let Some(attempt) = extensions.get::<Self>() {
            return Ok(attempt.clone());
        }
        let desk = desk(extensions)?;
        desk.attempt().ok_or_else(|| {
            desk.misuse("the facts of an attempt are there after Tx or Execution is taken");
            NotTaken::ANSWERED
        })
    }
}

/// The desk that the layer has put beside the request.
fn desk(extensions: &Extensions) -> Result<&Arc<Desk>, NotTaken> {
    extensions.get::<Arc<Desk>>().ok_or_else(|| {
        match extensions.get::<Attempt>() {
            Some(attempt) => {
                // The service is not called, so nothing has left.
                attempt.sent().set(false);
                error!(
                    operation = %attempt.operation(),
                    "a service takes an attempt, and is protected as a whole: leave out bracketed()"
                );
            }
            None => error!(
                "a service takes an attempt, and none was made for this request: it has no layer \
                 h.operation(\"…\") in front of it, or it has no key and the policy requires none"
            ),
        }
        NotTaken(Why::NoLayer)
    })
}
