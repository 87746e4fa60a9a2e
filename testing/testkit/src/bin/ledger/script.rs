//! What a request asks for in `X-Do`: steps in order, separated by `; ` (with the space).
//!
//! | step | meaning |
//! |---|---|
//! | `gate NAME` | waits until the file `gates/NAME` is there |
//! | `sleep MS` | waits |
//! | `effect` | makes the effect here |
//! | `header NAME: VALUE` | adds a field to the answer |
//! | `status N` | the answer's status |
//! | `body KIND …` | `empty`, `text …`, `echo`, `binary`, `sized N`, `chunked N`, `endless`, `events`, `trailers`, `duplex` |
//! | `raw PERCENT-ENCODED` | writes exactly these bytes as its answer and closes |
//! | `upgrade` | agrees to the `Upgrade`, and sends back all that comes through the tunnel |
//! | `early` | does not read the request's body |
//! | `cut` | closes without an answer |
//! | `die` | ends the process |
//!
//! So `effect; cut` acts and loses the answer, `effect; status 500` fails after the effect and
//! `status 500` before it, and `effect; status 402` lies.
//!
//! Without `effect`, `status`, `raw`, `cut` or `die` the effect is made after the last step.

use std::time::Duration;

use http::{HeaderName, HeaderValue, response};

use crate::Arrival;

pub(crate) enum Step {
    Gate(String),
    Sleep(Duration),
    Effect,
    Header(HeaderName, HeaderValue),
    Status(u16),
    Body(BodyKind),
    Raw(Vec<u8>),
    Early,
    Upgrade,
    Cut,
    Die,
}

impl Step {
    /// Whether a script with this step says itself where the effect is.
    pub(crate) fn decides(&self) -> bool {
        matches!(self, Self::Effect | Self::Status(_) | Self::Raw(_) | Self::Cut | Self::Die)
    }
}

pub(crate) enum BodyKind {
    Empty,
    Text(String),
    Echo,
    Binary,
    Sized(usize),
    Chunked(usize),
    Endless,
    Events,
    Trailers,
    Duplex,
}

impl BodyKind {
    pub(crate) fn headers(
        &self,
        arrival: &Arrival,
        answer: response::Builder,
    ) -> response::Builder {
        match self {
            Self::Binary => answer.header("content-type", "application/octet-stream"),
            Self::Sized(length) => answer.header("content-length", *length),
            Self::Events => answer.header("content-type", "text/event-stream"),
            Self::Trailers => answer.header("trailer", "x-sum"),
            Self::Echo => match arrival.head.headers.get("content-type") {
                Some(sent) => answer.header("content-type", sent),
                None => answer,
            },
            _ => answer,
        }
    }
}

pub(crate) fn parse(field: Option<&HeaderValue>) -> Vec<Step> {
    let text = field.map_or("", |value| value.to_str().expect("X-Do is text"));
    text.split("; ").map(str::trim).filter(|step| !step.is_empty()).map(step).collect()
}

fn step(text: &str) -> Step {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "gate" => Step::Gate(rest.to_owned()),
        "sleep" => Step::Sleep(Duration::from_millis(rest.parse().expect("milliseconds"))),
        "effect" => Step::Effect,
        "header" => {
            let (name, value) = rest.split_once(": ").expect("header NAME: VALUE");
            Step::Header(name.parse().expect("a name"), value.parse().expect("a value"))
        }
        "status" => Step::Status(rest.parse().expect("a status")),
        "body" => Step::Body(body(rest)),
        "raw" => Step::Raw(decode(rest)),
        "early" => Step::Early,
        "upgrade" => Step::Upgrade,
        "cut" => Step::Cut,
        "die" => Step::Die,
        other => panic!("unknown step {other}"),
    }
}

fn body(text: &str) -> BodyKind {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "empty" => BodyKind::Empty,
        "text" => BodyKind::Text(rest.to_owned()),
        "echo" => BodyKind::Echo,
        "binary" => BodyKind::Binary,
        "sized" => BodyKind::Sized(rest.parse().expect("a length")),
        "chunked" => BodyKind::Chunked(rest.parse().expect("a length")),
        "endless" => BodyKind::Endless,
        "events" => BodyKind::Events,
        "trailers" => BodyKind::Trailers,
        "duplex" => BodyKind::Duplex,
        other => panic!("unknown body {other}"),
    }
}

fn decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text;
    while let Some((plain, encoded)) = rest.split_once('%') {
        decoded.extend_from_slice(plain.as_bytes());
        let (digits, after) = encoded.split_at(2);
        decoded.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
        rest = after;
    }
    decoded.extend_from_slice(rest.as_bytes());
    decoded
}
