//! One client's connection.

use std::{convert::Infallible, error::Error, net::SocketAddr, pin::pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, Version, header::UPGRADE};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{rt::TokioIo, server::conn::auto};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    Inbound, Peer, Place,
    detect::Detecting,
    framing::{Followed, Unclear},
    handshake::Handshakes,
    room::Taken,
    stall::Stalling,
    taking::{Answering, Streams, Taking},
};
use crate::{sockets, tls::ClientCertificate};

/// One client's connection.
pub(super) struct Connection {
    pub(super) builder: Arc<auto::Builder<Streams>>,
    pub(super) handshakes: Option<Arc<Handshakes>>,
    pub(super) peer: SocketAddr,
    pub(super) shutdown: CancellationToken,
    pub(super) cut: CancellationToken,
    pub(super) detect_within: Duration,
    pub(super) stalled: Duration,
    pub(super) taken: Taken,
}

impl Connection {
    pub(super) async fn run<S, F, B>(self, stream: TcpStream, service: S)
    where
        S: Fn(Request<Inbound>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        sockets::prepare(&stream);
        let Some(handshakes) = self.handshakes.clone() else {
            return self.serve(stream, None, service).await;
        };
        let shaken = tokio::select! {
            shaken = handshakes.shake(stream) => shaken,
            // Nothing was asked yet.
            () = self.shutdown.cancelled() => return,
        };
        match shaken {
            Ok((stream, certificate)) => self.serve(stream, certificate, service).await,
            Err(error) => debug!(%error, peer = %self.peer, "no connection came about"),
        }
    }

    async fn serve<I, S, F, B>(self, stream: I, certificate: Option<ClientCertificate>, service: S)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        S: Fn(Request<Inbound>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let peer = Peer { address: self.peer, over_tls: self.handshakes.is_some() };
        let place = Place(Arc::new(self.taken));
        let stalled = self.stalled;
        let stream = Stalling::new(Detecting::new(stream, self.detect_within), stalled);
        let (stream, doubt) = Followed::new(stream);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let unclear = request.version() != Version::HTTP_2 && doubt.next_is_unclear();
            let has_upgrade = request.headers().contains_key(UPGRADE);
            let extensions = request.extensions_mut();
            extensions.insert(peer);
            if let Some(certificate) = &certificate {
                extensions.insert(certificate.clone());
            }
            if unclear {
                extensions.insert(Unclear);
            }
            if has_upgrade {
                extensions.insert(place.clone());
            }
            let (request, answered) = Inbound::wrap(request, stalled);
            // Boxed: hyper keeps room for this future in each connection, also while it is idle, and
            // moves it several times.
            let answering = Box::pin(service(request));
            async move {
                let answer = answering.await;
                answered.say();
                let taking = Taking::of_this_stream();
                Ok::<_, Infallible>(answer.map(|body| Answering::new(body, taking)))
            }
        });

        let io = TokioIo::new(stream);
        let mut connection = pin!(self.builder.serve_connection_with_upgrades(io, service));
        let mut finishing = false;
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                () = self.shutdown.cancelled(), if !finishing => {
                    finishing = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = self.cut.cancelled() => return,
            }
        };
        if let Err(error) = ended {
            debug!(%error, peer = %self.peer, "a client's connection ended");
        }
    }
}
