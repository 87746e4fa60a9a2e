//! Receivers of events: the key is the event's id, and what it carries is not compared.

use bytes::Bytes;
use hapax_core::{BodyForm, FingerprintRules, Key, Problem, ProblemKind, Scope};
use http::{StatusCode, request::Parts};

use super::OperationLayer;
use crate::Hapax;

pub(super) type Verify = dyn Fn(&Parts, &Bytes) -> Result<Event, Rejected> + Send + Sync;

/// A verified event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Whose event it is: the sender, the account it is about.
    pub scope: Scope,
    /// Its id, 1 to 255 bytes: the same for each delivery of it.
    pub id: Vec<u8>,
}

/// A delivery that is not from who it says it is, or not an event: nothing is claimed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rejected(
    /// What the sender is told, usually 400 or 401.
    pub StatusCode,
);

impl Hapax {
    /// A layer for the receiver of a provider's events: each event takes effect once, however
    /// often it is delivered.
    ///
    /// `verify` checks the signature over the raw body and says which event it is. Deliveries of
    /// one event are compared by its id alone, since providers change fields between them.
    ///
    /// ```
    /// use hapax::{Event, Hapax, Rejected, Scope};
    /// use http::StatusCode;
    ///
    /// # fn is_genuine(_: &[u8], _: &[u8]) -> bool { true }
    /// fn receiver(h: &Hapax) -> hapax::OperationLayer {
    ///     h.webhook("psp.event", |head, body| {
    ///         let field = |name| head.headers.get(name).map(|value| value.as_bytes());
    ///         let signature = field("webhook-signature").ok_or(Rejected(StatusCode::UNAUTHORIZED))?;
    ///         if !is_genuine(signature, body) {
    ///             return Err(Rejected(StatusCode::UNAUTHORIZED));
    ///         }
    ///         let id = field("webhook-id").ok_or(Rejected(StatusCode::BAD_REQUEST))?;
    ///         let scope = Scope::principal(b"psp").map_err(|_| Rejected(StatusCode::BAD_REQUEST))?;
    ///         Ok(Event { scope, id: id.to_vec() })
    ///     })
    /// }
    /// ```
    ///
    /// # Panics
    /// As [`operation`](Self::operation).
    pub fn webhook(
        &self,
        name: &str,
        verify: impl Fn(&Parts, &Bytes) -> Result<Event, Rejected> + Send + Sync + 'static,
    ) -> OperationLayer {
        let layer = self.operation(name).policy(|policy| {
            policy.fingerprint =
                FingerprintRules { body: Some(BodyForm::None), ..FingerprintRules::default() };
        });
        layer.events(std::sync::Arc::new(verify))
    }
}

/// The key and the scope of an event.
pub(super) fn identify(
    verify: &Verify,
    head: &Parts,
    body: &Bytes,
) -> Result<(Key, Scope), Problem> {
    let Event { scope, id } = verify(head, body).map_err(|Rejected(status)| {
        Problem::new(ProblemKind::KeyInvalid, "This is not accepted as an event.")
            .with_status(status.as_u16())
    })?;
    let key = Key::from_bytes(&id)
        .map_err(|error| Problem::new(ProblemKind::KeyInvalid, error.to_string()))?;
    Ok((key, scope))
}
