//! What is asked of the system for each connection.

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tracing::debug;

/// After how long a silence the other machine is asked whether it is there, and how often then. One
/// that is gone without a word would keep its connection for as long as nothing is written to it.
const ASKED_AFTER: Duration = Duration::from_secs(60);
const ASKED_EVERY: Duration = Duration::from_secs(15);

/// Small writes go out at once, and a machine that is gone is noticed.
pub(crate) fn prepare(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "TCP_NODELAY is not set");
    }
    let keepalive = TcpKeepalive::new().with_time(ASKED_AFTER).with_interval(ASKED_EVERY);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        debug!(%error, "TCP keep-alive is not set");
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_machine_that_is_gone_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&stream);
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && stream.nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), ASKED_AFTER);
    }
}
