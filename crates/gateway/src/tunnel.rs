//! Connections that become tunnels: WebSocket and other protocols that begin with `Upgrade`
//! (RFC 9110, section 7.8).

use std::{io, time::Duration};

use hapax::http::headers::{lists, members};
use http::{
    HeaderValue, Response, StatusCode, Version,
    header::{CONNECTION, UPGRADE},
    request::Parts,
};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use metrics::gauge;
use tokio::{io::copy_bidirectional, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use crate::{metric_definitions::TUNNELS, server::Place, upstream::UpstreamBody};

/// The tunnels that are open. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels {
    open: TaskTracker,
    cut: CancellationToken,
}

/// A client's end of a tunnel that may come about.
pub(crate) struct ClientEnd {
    on_upgrade: OnUpgrade,
    /// Among the connections that are allowed; the tunnel keeps it.
    place: Option<Place>,
}

/// The protocols that a request asks to go on with; `None` where it asks for none.
///
/// `h2c` is left out: it is about the client's own connection, some clients ask for it with every
/// request, and it is obsolete (RFC 9113, section 3.1).
pub(crate) fn asked(head: &Parts) -> Option<HeaderValue> {
    if head.version != Version::HTTP_11 || !lists(&head.headers, &CONNECTION, "upgrade") {
        return None;
    }
    let protocols = members(&head.headers, &UPGRADE);
    let others: Vec<_> = protocols.filter(|name| !name.eq_ignore_ascii_case(b"h2c")).collect();
    // Members of a valid value joined by ", " are a valid value.
    if others.is_empty() { None } else { HeaderValue::from_bytes(&others.join(&b", "[..])).ok() }
}

impl ClientEnd {
    /// Takes it from a request.
    pub(crate) fn take(head: &mut Parts) -> Option<Self> {
        let place = head.extensions.remove();
        head.extensions.remove().map(|on_upgrade| Self { on_upgrade, place })
    }
}

impl Tunnels {
    /// Joins both ends once the answer has gone out, if the service agreed.
    pub(crate) fn join(&self, client: ClientEnd, answer: &mut Response<UpstreamBody>) {
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        let Some(service) = answer.extensions_mut().remove::<OnUpgrade>() else { return };
        let cut = self.cut.clone();
        self.open.spawn(async move {
            let _open = Open::count();
            tokio::select! {
                ended = pass(client.on_upgrade, service) => {
                    if let Err(error) = ended {
                        debug!(%error, "a tunnel broke");
                    }
                }
                () = cut.cancelled() => {}
            }
            drop(client.place);
        });
    }

    /// Waits until all are closed, cuts those that are not within this time, and returns how many
    /// these were.
    pub(crate) async fn close(&self, within: Duration) -> usize {
        self.open.close();
        if timeout(within, self.open.wait()).await.is_ok() {
            return 0;
        }
        let left = self.open.len();
        self.cut.cancel();
        self.open.wait().await;
        left
    }
}

/// Passes bytes both ways until both ends have closed theirs.
async fn pass(client: OnUpgrade, service: OnUpgrade) -> io::Result<()> {
    let both = async { tokio::try_join!(client, service) };
    let (client, service) = both.await.map_err(io::Error::other)?;
    let (mut client, mut service) = (TokioIo::new(client), TokioIo::new(service));
    copy_bidirectional(&mut client, &mut service).await.map(|_| ())
}

/// Counted while it is there.
struct Open;

impl Open {
    fn count() -> Self {
        gauge!(TUNNELS).increment(1.0);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!(TUNNELS).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_is_asked_for_by_two_fields_and_h2c_is_none() {
        for (connection, upgrade, expected) in [
            ("upgrade", "websocket", Some("websocket")),
            ("keep-alive, Upgrade", "WebSocket", Some("WebSocket")),
            ("keep-alive", "websocket", None),
            ("upgrade", "", None),
            ("Upgrade, HTTP2-Settings", "h2c", None),
            ("upgrade", "h2c, websocket", Some("websocket")),
        ] {
            let request = http::Request::builder()
                .header(CONNECTION, connection)
                .header(UPGRADE, upgrade)
                .body(());
            let (head, ()) = request.expect("a request").into_parts();
            let expected = expected.map(HeaderValue::from_static);
            assert_eq!(asked(&head), expected, "{connection} {upgrade}");
        }
    }
}
