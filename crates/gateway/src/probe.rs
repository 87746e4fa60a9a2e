//! Asking a service over HTTP what became of an effect.

use std::{borrow::Cow, collections::HashMap, fs, sync::Arc, time::Duration};

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
use serde_json::value::RawValue;
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
}

impl Prober for HttpProber {
    fn probe(&self, question: Question) -> Probing<'_> {
        Box::pin(async move {
            match self.ask(Method::GET, &self.probe.get, &question).await {
                Answered::Whole(reply) => {
                    judge(&self.probe, "GET", reply, (&self.probe.not_seen, Verdict::NotSeenYet))
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
                Answered::Whole(reply) => {
                    judge(&self.probe, "POST", reply, (closed, Verdict::NotApplied))
                }
                Answered::Not(finding) => finding,
            }
        })
    }

    fn timeout(&self) -> Duration {
        self.probe.timeout
    }
}

/// What an answer says of the effect. `absent`: the statuses that say that it is not there, and what
/// that amounts to.
fn judge(probe: &Probe, asked: &str, reply: Reply, absent: (&[u16], Verdict)) -> Finding {
    let status = reply.status;
    let seen = match reply.said {
        Some(said) => format!("{asked} answered {status}, {}", said_word(said)),
        None => format!("{asked} answered {status}"),
    };
    let verdict = match reply.said {
        Some(Said::Applied) => applied(probe, reply),
        Some(Said::NotApplied) => Ok(absent.1),
        Some(Said::Unknown) => Ok(Verdict::Unknown),
        None if probe.applied.contains(&status) => applied(probe, reply),
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
fn applied(probe: &Probe, reply: Reply) -> Result<Verdict, &'static str> {
    let response = match (reply.response, &probe.body) {
        (Some(response), Some(place)) => Some(part(response, place)?),
        (None, Some(_)) => return Err("too large, or a stream, to find the outcome in"),
        (response, None) => response,
    };
    let status = probe.status.unwrap_or(reply.status);
    // That the effect exists is never a failure. An answer that looks like one was found in another
    // way than by its status, and is nothing to replay.
    let is_success = class_of_status(status) == Some(OutcomeClass::Succeeded);
    let response = response.filter(|_| is_success);
    let response = response.map(|response| StoredResponse { status, ..response });
    let class = OutcomeClass::Succeeded;
    Ok(Verdict::Applied(AppliedOutcome { class, status, response }))
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
    if let None | Some(Json::Null | Json::Bool(false)) = json.get(place) {
        return Err("without the part that is the outcome");
    }
    let text = text_at(&response.body, place).ok_or("without the part that is the outcome")?;
    response.body = response.body.slice_ref(text.as_bytes());
    let of_the_whole = [ETAG, LAST_MODIFIED, CONTENT_TYPE];
    response.headers.retain(|(name, _)| !of_the_whole.iter().any(|field| is(name, field)));
    let json = Bytes::from_static(b"application/json");
    response.headers.push((Bytes::from_static(b"content-type"), json));
    Ok(response)
}

/// The text of the value at a place of a JSON text that can be read: as the service wrote it.
fn text_at<'t>(text: &'t [u8], place: &Pointer) -> Option<&'t str> {
    let mut value: &RawValue = serde_json::from_slice(text).ok()?;
    for token in place.tokens() {
        value = if value.get().starts_with('{') {
            serde_json::from_str::<HashMap<Cow<'_, str>, _>>(value.get()).ok()?.remove(token)?
        } else {
            let items = serde_json::from_str::<Vec<_>>(value.get()).ok()?;
            *items.get(token.parse::<usize>().ok()?)?
        };
    }
    Some(value.get())
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
    let text = text.trim();
    let mut value = HeaderValue::try_from(text).map_err(|_| AuthorizationError::NotAValue)?;
    if text.is_empty() {
        return Err(AuthorizationError::NotAValue);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(body: Option<&str>) -> Probe {
        Probe {
            get: PathTemplate::parse("/effects/{effect_id}").expect("a path"),
            applied: vec![200],
            not_seen: vec![404],
            status: None,
            body: body.map(|place| Pointer::parse(place).expect("a place")),
            timeout: Duration::from_secs(5),
            authorization: None,
            closer: None,
        }
    }

    fn reply(status: u16, body: &'static str) -> Reply {
        let response = StoredResponse { status, headers: Vec::new(), body: body.into() };
        let (said, told, retry_after) = (None, None, None);
        Reply { status, said, told, replayed: false, response: Some(response), retry_after }
    }

    fn verdict(probe: &Probe, reply: Reply) -> Verdict {
        judge(probe, "GET", reply, (&[404], Verdict::NotSeenYet)).verdict
    }

    fn outcome(probe: &Probe, reply: Reply) -> AppliedOutcome {
        match verdict(probe, reply) {
            Verdict::Applied(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_part_that_is_the_outcome_keeps_its_bytes() {
        for (text, place, expected) in [
            (
                r#"{"payment": {"z": 1, "amount": 1234567890.10,  "big": 12345678901234567890123}}"#,
                "/payment",
                r#"{"z": 1, "amount": 1234567890.10,  "big": 12345678901234567890123}"#,
            ),
            (r#"{"a/b":[0,{"\u00e9":"\u0041"}] }"#, "/a~1b/1/é", r#""\u0041""#),
            (" [1, 2.50 ] ", "", "[1, 2.50 ]"),
            (r#"{"n":0}"#, "/n", "0"),
        ] {
            let stored = outcome(&probe(Some(place)), reply(200, text)).response.expect("kept");
            assert_eq!(stored.body, expected, "{text}");
        }
    }

    #[test]
    fn where_no_outcome_is_nothing_was_learned() {
        for text in [
            r#"{"payment":null}"#,
            r#"{"payment":false}"#,
            r#"{"other":{}}"#,
            r#"{"payment":1,"payment":2}"#,
            "not JSON",
        ] {
            assert_eq!(verdict(&probe(Some("/payment")), reply(200, text)), Verdict::Unknown);
        }
        let by_head = Reply { response: None, ..reply(200, "") };
        assert_eq!(verdict(&probe(Some("/payment")), by_head.clone()), Verdict::Unknown);
        assert_eq!(outcome(&probe(None), by_head).response, None, "it is applied, and not kept");
    }

    #[test]
    fn what_exists_is_a_success_whatever_its_status_says() {
        for status in [404, 409, 503] {
            let said = Reply { said: Some(Said::Applied), ..reply(status, "no") };
            let outcome = outcome(&probe(None), said);
            assert_eq!((outcome.class, outcome.response), (OutcomeClass::Succeeded, None));
        }
        let named = Probe { applied: vec![409], status: Some(201), ..probe(Some("/p")) };
        let outcome = outcome(&named, reply(409, r#"{"p":{}}"#));
        let response = outcome.response.map(|response| (response.status, response.body));
        assert_eq!((outcome.class, outcome.status), (OutcomeClass::Succeeded, 201));
        assert_eq!(response, Some((201, "{}".into())));
    }
}
