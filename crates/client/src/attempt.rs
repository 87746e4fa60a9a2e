//! One attempt: a request, its complete answer, and what was seen of it.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tokio::time::timeout;
use tower_service::Service;
use tracing::{Instrument, Span, field::Empty};

use crate::{
    facts::{LONGEST_PROBLEM, facts},
    intent::Intent,
    observation::Observation,
    policy::Policy,
    service::{BoxError, Reached},
};

/// What was seen of an attempt.
pub(crate) struct Seen {
    pub(crate) observation: Observation,
    pub(crate) response: Option<Response<Bytes>>,
    /// Whether the content of the response is cut.
    pub(crate) cut: bool,
    /// For a person.
    pub(crate) why: String,
    /// How its time is to be counted.
    pub(crate) timing: Timing,
}

impl Seen {
    /// With no more than this of the response's content.
    fn kept_to(mut self, longest: usize) -> Self {
        if let Some(response) = &mut self.response
            && response.body().len() > longest
        {
            response.body_mut().truncate(longest);
            self.cut = true;
        }
        self
    }
}

/// How an attempt's time is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Timing {
    Answered,
    TimedOut,
    /// A failure at once says nothing of how long answers take.
    Failed,
}

/// How an attempt is made.
pub(crate) struct Attempt<'a> {
    pub(crate) policy: &'a Policy,
    /// How often the intent was sent before.
    pub(crate) resend: u32,
    /// Whether who is below is told that it is sent again from here or above.
    pub(crate) tells_below: bool,
    pub(crate) timeout: Duration,
    pub(crate) longest_content: usize,
    pub(crate) reached: Reached,
}

/// Why there is no whole answer.
enum Failure {
    NotReady(BoxError),
    Request(BoxError),
    Content(BoxError),
}

impl Attempt<'_> {
    /// Sends an intent.
    pub(crate) async fn send<S, B>(&self, service: S, intent: &Intent) -> Seen
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: Body,
        B::Error: Into<BoxError>,
    {
        let mut request = intent.request();
        if self.tells_below {
            let (name, value) = (hapax_above::FIELD, hapax_above::ABOVE);
            request
                .headers_mut()
                .insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        self.exchange(service, request).await.kept_to(self.longest_content)
    }

    /// Sends a request and reads its answer, within the time of an attempt.
    pub(crate) async fn exchange<S, B>(&self, service: S, request: Request<Full<Bytes>>) -> Seen
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: Body,
        B::Error: Into<BoxError>,
    {
        let span = self.span(&request);
        // What an answer says is read whole, however little of it is kept.
        let longest = self.longest_content.max(LONGEST_PROBLEM);
        let exchange = exchange(service, request, longest).instrument(span.clone());
        let seen = match timeout(self.timeout, exchange).await {
            Ok(Ok((response, cut))) => self.answered(response, cut),
            Ok(Err(failure)) => self.failed(&failure),
            Err(_) => {
                let why = format!("no complete answer within {:?}", self.timeout);
                let observation = Observation::Lost;
                Seen { observation, response: None, cut: false, why, timing: Timing::TimedOut }
            }
        };
        tell(&span, &seen);
        seen
    }

    /// One span for each attempt (OpenTelemetry, semantic conventions of HTTP clients).
    fn span(&self, request: &Request<Full<Bytes>>) -> Span {
        let uri = request.uri();
        let port = uri.port_u16().or_else(|| match uri.scheme_str() {
            Some("https") => Some(443),
            Some("http") => Some(80),
            _ => None,
        });
        let span = tracing::info_span!(
            "http.client",
            otel.name = request.method().as_str(),
            otel.kind = "client",
            http.request.method = request.method().as_str(),
            http.request.resend_count = Empty,
            http.response.status_code = Empty,
            server.address = uri.host().unwrap_or_default(),
            server.port = port,
            error.r#type = Empty,
        );
        // It is absent on the first attempt.
        if self.resend > 0 {
            span.record("http.request.resend_count", self.resend);
        }
        span
    }

    fn answered(&self, response: Response<Bytes>, cut: bool) -> Seen {
        let (status, headers) = (response.status(), response.headers());
        let now = SystemTime::now();
        let answer = facts(self.policy, status.as_u16(), headers, response.body(), now);
        let why = match answer.problem {
            Some(kind) => format!("{}: {}", status.as_u16(), kind.name()),
            None => format!("{status}"),
        };
        let observation = Observation::Answered(answer);
        Seen { observation, response: Some(response), cut, why, timing: Timing::Answered }
    }

    fn failed(&self, failure: &Failure) -> Seen {
        let observation = match failure {
            // A service that takes no request has taken none.
            Failure::NotReady(_) => Observation::NeverSent { lasting: false },
            Failure::Request(error) => (self.reached)(&**error),
            Failure::Content(_) => Observation::Lost,
        };
        let why = failure.to_string();
        Seen { observation, response: None, cut: false, why, timing: Timing::Failed }
    }
}

fn tell(span: &Span, seen: &Seen) {
    let Some(response) = &seen.response else {
        let kind = match (seen.observation, seen.timing) {
            (Observation::NeverSent { .. }, _) => "never_sent",
            (_, Timing::TimedOut) => "timeout",
            _ => "lost",
        };
        span.record("error.type", kind);
        return;
    };
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    if status.is_client_error() || status.is_server_error() {
        span.record("error.type", status.as_str());
    }
}

async fn exchange<S, B>(
    mut service: S,
    request: Request<Full<Bytes>>,
    longest: usize,
) -> Result<(Response<Bytes>, bool), Failure>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    let ready = std::future::poll_fn(|context| service.poll_ready(context)).await;
    ready.map_err(|error| Failure::NotReady(error.into()))?;
    let response = service.call(request).await;
    let (head, body) = response.map_err(|error| Failure::Request(error.into()))?.into_parts();
    let (content, cut) = read(body, longest).await.map_err(Failure::Content)?;
    Ok((Response::from_parts(head, content), cut))
}

/// The content up to `longest` bytes, and whether there is more. The caller bounds the time.
async fn read<B>(body: B, longest: usize) -> Result<(Bytes, bool), BoxError>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let mut content = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Into::into)?.into_data() else { continue };
        let room = longest.saturating_sub(content.len());
        let is_cut = data.remaining() > room;
        content.put(data.take(room));
        if is_cut {
            return Ok((content.freeze(), true));
        }
    }
    Ok((content.freeze(), false))
}

/// What a person reads: the reasons, one after the other, each once.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotReady(error) | Self::Request(error) | Self::Content(error)) = self;
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let reason = cause.to_string();
            if !text.contains(&reason) {
                text = format!("{text}: {reason}");
            }
            source = cause.source();
        }
        f.write_str(&text)
    }
}
