//! Who is asked before the outcome of an earlier attempt is shown.

use std::time::Duration;

use http::{
    HeaderName, Method,
    header::{AUTHORIZATION, COOKIE},
};

use crate::config::{At, Endpoint, Fault, address, header, section::Value, suggest::shown, tls};

/// The question that is asked before the outcome of an earlier attempt is shown.
///
/// 2xx allows it. 401 and 403 forbid it. After anything else it is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Authorize {
    /// Who is asked.
    pub url: Endpoint,
    /// The method of the question, which has no body. Default: GET. The request's own method is in
    /// `X-Original-Method`.
    pub method: Method,
    /// How long it may take in all, queueing included. Default: 2 s.
    pub timeout: Duration,
    /// The fields of the request that are repeated in it. Default: `authorization` and `cookie`.
    /// The field that the scope is taken from always is.
    pub headers: Vec<HeaderName>,
}

/// What is said about it: who is asked, or that nobody is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) enum Choice {
    Nobody,
    Asks(Box<Authorize>),
}

impl Choice {
    pub(in crate::config) fn asks(&self) -> Option<Authorize> {
        match self {
            Self::Nobody => None,
            Self::Asks(authorize) => Some(Authorize::clone(authorize)),
        }
    }
}

/// Beyond, callers give up first.
const LONGEST: Duration = Duration::from_secs(60);

/// Reads `{ url = … }`, or `false` for nobody.
pub(in crate::config) fn read(value: Value<'_>) -> Option<Choice> {
    const URL: &str = "http://127.0.0.1:3000/authorize";
    let example = format!("{{ url = {URL:?} }}");
    if matches!(value.toml(), toml::de::DeValue::Boolean(false)) {
        return Some(Choice::Nobody);
    }
    let mut section = value.section(&example)?;
    let url = match section.take("url") {
        Some(url) => url.parse("a URL", URL, |text| address::endpoint(text, URL)),
        None => {
            section.wrong("it does not say who is asked", format!("write it as in {example}"));
            None
        }
    };
    let tls = section.take("tls").and_then(tls::read_upstream);
    let method = match section.take("method") {
        Some(method) => method.parse("a method", "GET", parse_method).map(|method| method.value),
        None => Some(Method::GET),
    };
    let timeout = match section.take("timeout") {
        Some(timeout) => {
            let report = timeout.report();
            let timeout = timeout.positive_duration("2s");
            if let Some(At { place, .. }) = timeout.as_ref().filter(|at| at.value > LONGEST) {
                let what = "callers would wait for so long to get an outcome that is there";
                report.add(place, Fault::new(what, "write at most \"60s\"; \"2s\" suits most"));
            }
            timeout.map(|timeout| timeout.value)
        }
        None => Some(Duration::from_secs(2)),
    };
    let headers = match section.take("headers") {
        Some(headers) => {
            let headers = headers.list("header name", "authorization", header::asked_with);
            headers.into_iter().map(|header| header.value).collect()
        }
        None => vec![AUTHORIZATION, COOKIE],
    };
    let url = url.and_then(|url| tls::with(section.report(), url, tls));
    section.finish();
    Some(Choice::Asks(Box::new(Authorize {
        url: url?,
        method: method?,
        timeout: timeout?,
        headers,
    })))
}

fn parse_method(text: &str) -> Result<Method, Fault> {
    // The question has no body, and CONNECT and TRACE are no questions.
    match text {
        "GET" => Ok(Method::GET),
        "HEAD" => Ok(Method::HEAD),
        "POST" => Ok(Method::POST),
        _ => {
            let what = format!("{} is no method for a question without a body", shown(text));
            Err(Fault::new(what, "write \"GET\", \"HEAD\" or \"POST\""))
        }
    }
}
