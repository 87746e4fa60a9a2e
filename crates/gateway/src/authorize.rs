//! Authorization before replay: the service is asked whether this caller may see what an earlier
//! attempt came to.

use std::{sync::Arc, time::Duration};

use hapax::http::{authorization_unavailable, headers::ends_here, replay_forbidden};
use hapax_core::{OperationName, Problem, Scope};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, WWW_AUTHENTICATE},
    request::Parts,
    uri::Uri,
};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use metrics::{counter, histogram};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::info;

use crate::{
    causes::with_causes,
    config::Authorize,
    headers,
    metric_definitions::{AUTHORIZATION_SECONDS, AUTHORIZATIONS},
    upstream::{BaseError, OutBody, Reuse, SendError, Upstream, UpstreamBody},
};

/// The method of the request that is asked about.
const X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");

/// Its target, as it came.
const X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");

/// The operation it is an attempt at.
const HAPAX_OPERATION: HeaderName = HeaderName::from_static("hapax-operation");

/// Whose it is, each name percent-encoded, with commas between them. Absent for a single tenant.
const HAPAX_SCOPE: HeaderName = HeaderName::from_static("hapax-scope");

/// How many questions are under way at once; more wait, within their time.
const MOST: usize = 256;

/// An answer's body up to this size is read, so that its connection can be used again.
const READ_ON: usize = 16 * 1024;

/// And for so long.
const READ_ON_WITHIN: Duration = Duration::from_secs(1);

/// Asks who may see what earlier attempts came to, over connections of its own.
pub(crate) struct Authorizer {
    rules: Authorize,
    upstream: Upstream,
    room: Semaphore,
}

/// What is asked about one request, kept while the request itself is used up.
pub(crate) struct Question {
    method: Method,
    target: Uri,
    headers: HeaderMap,
}

impl Authorizer {
    pub(crate) fn new(
        rules: &Authorize,
        connect_timeout: Duration,
    ) -> Result<Arc<Self>, BaseError> {
        let upstream = Upstream::asked_at(&rules.url, connect_timeout)?;
        Ok(Arc::new(Self { rules: rules.clone(), upstream, room: Semaphore::new(MOST) }))
    }

    /// The connections to whom it asks.
    pub(crate) const fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Whether it asks by these rules.
    pub(crate) fn follows(&self, rules: &Authorize) -> bool {
        self.rules == *rules
    }

    /// What will be asked about a request, should it come to that.
    pub(crate) fn question(
        &self,
        head: &Parts,
        scope_header: Option<&HeaderName>,
        scope: &Scope,
        operation: &OperationName,
    ) -> Question {
        let mut headers = HeaderMap::new();
        for name in self.rules.headers.iter().chain(scope_header) {
            // What ends at this hop is not passed on, here as elsewhere.
            if !headers.contains_key(name) && !ends_here(&head.headers, name) {
                for value in head.headers.get_all(name) {
                    headers.append(name.clone(), value.clone());
                }
            }
        }
        // What HTTP/2 splits into lines is one again.
        headers::to_upstream(&mut headers, head.version);
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let ours = [
            (X_ORIGINAL_METHOD, Some(head.method.as_str().to_owned())),
            (X_ORIGINAL_URI, Some(target.to_owned())),
            (HAPAX_OPERATION, Some(operation.as_str().to_owned())),
            (HAPAX_SCOPE, shown(scope)),
        ];
        for (name, value) in ours {
            // Each is made of visible ASCII.
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                headers.insert(name, value);
            }
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let target = Uri::from(self.rules.url.target.clone());
        Question { method: self.rules.method.clone(), target, headers }
    }

    /// Asks. The problem is the answer where the outcome is not to be shown.
    pub(crate) async fn ask(
        &self,
        question: &Question,
        operation: &OperationName,
    ) -> Result<(), Problem> {
        let begun = Instant::now();
        let asked = timeout(self.rules.timeout, self.verdict(question)).await;
        let verdict = asked.unwrap_or_else(|_| {
            Verdict::Unavailable(format!("no answer within {:?}", self.rules.timeout))
        });
        let name = operation.as_str().to_owned();
        histogram!(AUTHORIZATION_SECONDS, "operation" => name.clone())
            .record(begun.elapsed().as_secs_f64());
        counter!(AUTHORIZATIONS, "operation" => name, "result" => verdict.word()).increment(1);
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Forbidden { status, challenge } => {
                let problem = replay_forbidden().with_status(status.as_u16());
                Err(match challenge {
                    Some(challenge) => problem.challenging(challenge),
                    None => problem,
                })
            }
            Verdict::Unavailable(why) => {
                info!(url = %self.rules.url, why, "whether a replay may be shown is not known");
                Err(authorization_unavailable())
            }
        }
    }

    async fn verdict(&self, question: &Question) -> Verdict {
        // Never closed, so always acquired.
        let _permit = self.room.acquire().await;
        let mut sent = self.send(question).await;
        // An idle connection may have been closed meanwhile; a question can be asked twice.
        if matches!(sent, Err(SendError::Unknown { .. })) {
            sent = self.send(question).await;
        }
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => return Verdict::Unavailable(with_causes(&error)),
        };
        let verdict = Verdict::of(&answer);
        read_on(answer.into_body());
        verdict
    }

    async fn send(&self, question: &Question) -> Result<Response<UpstreamBody>, SendError> {
        let mut request = Request::new(OutBody::full(bytes::Bytes::new()));
        *request.method_mut() = question.method.clone();
        *request.uri_mut() = question.target.clone();
        *request.headers_mut() = question.headers.clone();
        self.upstream.send(request, Reuse::Keyed).await
    }
}

/// What the answer to a question means.
enum Verdict {
    Allowed,
    Forbidden { status: StatusCode, challenge: Option<String> },
    Unavailable(String),
}

impl Verdict {
    fn of(answer: &Response<UpstreamBody>) -> Self {
        let status = answer.status();
        match status {
            _ if status.is_success() => Self::Allowed,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                // How to prove who one is, is the service's to say (RFC 9110, section 15.5.2).
                // Several lines are one list (section 5.3).
                let lines = answer.headers().get_all(WWW_AUTHENTICATE).iter();
                let challenges: Vec<_> = lines.filter_map(|line| line.to_str().ok()).collect();
                let challenge = (!challenges.is_empty()).then(|| challenges.join(", "));
                Self::Forbidden { status, challenge }
            }
            _ => Self::Unavailable(format!("the answer is {status}")),
        }
    }

    const fn word(&self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Forbidden { .. } => "forbidden",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

/// Reads a short body to its end, beside the way: the verdict is in the head, whatever comes.
fn read_on(body: UpstreamBody) {
    let is_short = body.size_hint().upper().is_some_and(|most| most <= READ_ON as u64);
    if is_short && !body.is_end_stream() {
        #[expect(clippy::disallowed_methods, reason = "bounded here, in bytes and in time")]
        let reading = Limited::new(body, READ_ON).collect();
        tokio::spawn(timeout(READ_ON_WITHIN, reading));
    }
}

fn shown(scope: &Scope) -> Option<String> {
    const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'@')
        .remove(b':');
    let names = scope.to_names();
    let names = names.iter().map(|name| percent_encode(name, ENCODED).to_string());
    Some(names.collect::<Vec<_>>().join(",")).filter(|text| !text.is_empty())
}
