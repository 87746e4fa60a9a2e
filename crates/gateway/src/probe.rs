//! Asking a service over HTTP what became of an effect.

use std::{fs, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax::{
    Finding, Prober, Probing, Question, Reply,
    http::{headers::HAPAX_ATTEMPT, read_reply},
};
use hapax_core::{
    AppliedOutcome, Json, OutcomeClass, Pointer, Said, StoredResponse, Verdict, class_of_status,
};
use http::{
    HeaderName, HeaderValue, Method, Request, Uri,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, LAST_MODIFIED},
    uri::PathAndQuery,
};
use thiserror::Error;

use crate::{
    config::{Closer, PathTemplate, Probe, SecretSource},
    upstream::{OutBody, Reuse, Upstream},
};

/// Asks the service of an operation as its configuration says.
pub(crate) struct HttpProber {
    upstream: Upstream,
    probe: Probe,
    authorization: Option<HeaderValue>,
    /// Fields of the answer that are kept beside the standard ones.
    replayed: Arc<[HeaderName]>,
    /// The largest answer that is kept.
    cap: usize,
}

impl HttpProber {
    pub(crate) fn new(
        upstream: Upstream,
        probe: Probe,
        replayed: Arc<[HeaderName]>,
        cap: usize,
    ) -> Result<Self, AuthorizationError> {
        let authorization = probe.authorization.as_ref().map(authorization).transpose()?;
        Ok(Self { upstream, probe, authorization, replayed, cap })
    }

    async fn ask(&self, method: Method, path: &PathTemplate, question: &Question) -> Answered {
        let asked = method.as_str().to_owned();
        let nothing = |why: String| Answered::Not(Finding::nothing(format!("{asked}: {why}")));
        let attempt = question.attempt.to_wire();
        let target = path.fill(&question.effect_id.to_string(), attempt);
        // A template is checked with the configuration, and an id and a number fit everywhere.
        let Ok(target) = PathAndQuery::try_from(target) else {
            return nothing("it has no path".to_owned());
        };
        let mut request = Request::new(OutBody::full(Bytes::new()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from(target);
        request.headers_mut().insert(HAPAX_ATTEMPT, HeaderValue::from(attempt));
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let answer = match self.upstream.send(request, Reuse::Keyed).await {
            Ok(answer) => answer,
            Err(_) => return nothing("no answer".to_owned()),
        };
        match read_reply(answer, self.cap, &self.replayed, None).await {
            Ok((reply, _)) => Answered::Whole(reply),
            Err(broken) => nothing(format!("an answer with {} broke off", broken.status)),
        }
    }

    /// What an answer says of the effect. `absent`: the statuses that say that it is not there,
    /// and what that amounts to.
    fn judge(&self, asked: &str, reply: Reply, absent: (&[u16], Verdict)) -> Finding {
        let status = reply.status;
        let seen = match reply.said {
            Some(said) => format!("{asked} answered {status}, {}", said_word(said)),
            None => format!("{asked} answered {status}"),
        };
        let verdict = match reply.said {
            Some(Said::Applied) => self.applied(reply),
            Some(Said::NotApplied) => Ok(absent.1),
            Some(Said::Unknown) => Ok(Verdict::Unknown),
            None if self.probe.applied.contains(&status) => self.applied(reply),
            None if absent.0.contains(&status) => Ok(absent.1),
            None => Ok(Verdict::Unknown),
        };
        match verdict {
            Ok(verdict) => Finding { verdict, seen },
            Err(why) => Finding::nothing(format!("{seen}, {why}")),
        }
    }

    /// The outcome that retries are answered with: the answer, or the part of it that is the
    /// operation's.
    fn applied(&self, reply: Reply) -> Result<Verdict, &'static str> {
        let status = self.probe.status.unwrap_or(reply.status);
        let response = match (reply.response, &self.probe.body) {
            (Some(response), Some(place)) => Some(part(response, place)?),
            (response, _) => response,
        };
        let response = response.map(|response| StoredResponse { status, ..response });
        // What is configured is a success; what the service says exists is one too.
        let class = class_of_status(status).unwrap_or(OutcomeClass::Succeeded);
        Ok(Verdict::Applied(AppliedOutcome { class, status, response }))
    }
}

impl Prober for HttpProber {
    fn probe(&self, question: Question) -> Probing<'_> {
        Box::pin(async move {
            match self.ask(Method::GET, &self.probe.get, &question).await {
                Answered::Whole(reply) => {
                    self.judge("GET", reply, (&self.probe.not_seen, Verdict::NotSeenYet))
                }
                Answered::Not(finding) => finding,
            }
        })
    }

    fn closes(&self) -> bool {
        self.probe.closer.is_some()
    }

    fn close(&self, question: Question) -> Probing<'_> {
        Box::pin(async move {
            let Some(Closer { post, closed }) = &self.probe.closer else {
                return Finding::nothing("there is no closer");
            };
            match self.ask(Method::POST, post, &question).await {
                Answered::Whole(reply) => self.judge("POST", reply, (closed, Verdict::NotApplied)),
                Answered::Not(finding) => finding,
            }
        })
    }

    fn timeout(&self) -> Duration {
        self.probe.timeout
    }
}

enum Answered {
    Whole(Reply),
    Not(Finding),
}

/// The value at a place of a JSON answer, as an answer of its own. What describes the whole
/// message does not describe the part.
fn part(mut response: StoredResponse, place: &Pointer) -> Result<StoredResponse, &'static str> {
    let is = |name: &Bytes, field: &HeaderName| name[..] == *field.as_str().as_bytes();
    if response.headers.iter().any(|(name, _)| is(name, &CONTENT_ENCODING)) {
        return Err("in an encoding in which its part cannot be read");
    }
    let json = Json::parse(&response.body).map_err(|_| "which is not JSON")?;
    let part = json.get(place).ok_or("without the part that is the outcome")?;
    let mut body = Vec::new();
    part.canonical(&mut body);
    response.body = body.into();
    let of_the_whole = [ETAG, LAST_MODIFIED, CONTENT_TYPE];
    response.headers.retain(|(name, _)| !of_the_whole.iter().any(|field| is(name, field)));
    let json = Bytes::from_static(b"application/json");
    response.headers.push((Bytes::from_static(b"content-type"), json));
    Ok(response)
}

const fn said_word(said: Said) -> &'static str {
    match said {
        Said::Applied => "applied",
        Said::NotApplied => "not-applied",
        Said::Unknown => "unknown",
    }
}

fn authorization(source: &SecretSource) -> Result<HeaderValue, AuthorizationError> {
    let text = match source {
        SecretSource::File(path) => fs::read_to_string(path).map_err(|source| {
            AuthorizationError::File { path: path.display().to_string(), source }
        })?,
        SecretSource::Env(name) => {
            std::env::var(name).map_err(|_| AuthorizationError::Env { name: name.clone() })?
        }
    };
    let mut value =
        HeaderValue::try_from(text.trim()).map_err(|_| AuthorizationError::NotAValue)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why there is nothing to send as `Authorization` where a service is asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// The file cannot be read.
    #[error("probe.authorization: {path} cannot be read; check the path and its permissions")]
    File {
        /// Which.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The variable is not set.
    #[error("probe.authorization: the environment variable {name} is not set; set it")]
    Env {
        /// Which.
        name: String,
    },
    /// What is there cannot be sent.
    #[error(
        "probe.authorization: what is there is not the value of a header; write it as in \
         \"Bearer …\", on one line"
    )]
    NotAValue,
}
