//! The `[cors]` table: which pages of other origins may use keyed operations in a browser.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::{At, Fault, header, section::Section, suggest::shown};

/// Which pages of other origins may use keyed operations (the Fetch standard's CORS protocol).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cors {
    /// The origins of these pages.
    pub origins: Origins,
    /// Whether a browser sends its credentials. Default: false.
    pub credentials: bool,
    /// Request headers that a page may set, beside the key's and those that every page may set.
    pub headers: Vec<HeaderName>,
    /// Response headers that a page may read, beside our own.
    pub expose: Vec<HeaderName>,
    /// How long a browser remembers what it was allowed. Default: 10 min.
    pub max_age: Duration,
}

/// Which origins are allowed something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origins {
    /// Whichever there are.
    Every,
    /// These.
    Listed(Vec<HeaderValue>),
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: Origins::Listed(Vec::new()),
            credentials: false,
            headers: Vec::new(),
            expose: Vec::new(),
            max_age: Duration::from_secs(600),
        }
    }
}

pub(super) fn read(mut section: Section<'_>) -> Cors {
    const EXAMPLE: &str = "https://shop.example";
    let mut cors = Cors::default();
    let place = section.place().clone();
    match section.take("origins") {
        None => section.wrong(
            "it names no origins",
            format!("add origins = [{EXAMPLE:?}], or origins = [\"*\"] for every page there is"),
        ),
        Some(origins) => {
            let given = origins.one_or_more("origin", EXAMPLE, origin);
            let every = given.iter().any(|at| at.value == "*");
            if every && given.len() > 1 {
                let fault = Fault::new("\"*\" is every origin already", "leave the others out");
                section.report().add(&place, fault);
            }
            cors.origins = if every {
                Origins::Every
            } else {
                Origins::Listed(given.into_iter().map(|at| at.value).collect())
            };
        }
    }
    if let Some(At { value, place }) = section.take("credentials").and_then(|value| value.boolean())
    {
        cors.credentials = value;
        if let Some(what) = too_many(&cors.origins).filter(|_| value) {
            section.report().add(&place, Fault::new(what, "name the origins one by one"));
        }
    }
    let mut names = |key: &'static str, example: &str| {
        let list = section.take(key).map(|list| list.list("header name", example, header::parse));
        list.unwrap_or_default().into_iter().map(|at| at.value).collect()
    };
    cors.headers = names("headers", "authorization");
    cors.expose = names("expose", "x-payment-id");
    if let Some(age) = section.take("max_age").and_then(|value| value.duration("10m")) {
        cors.max_age = age.value;
    }
    section.finish();
    cors
}

/// Why these origins are too many to send credentials for.
fn too_many(origins: &Origins) -> Option<&'static str> {
    match origins {
        Origins::Every => {
            Some("with credentials, every page there is could act for whoever looks at it")
        }
        // A page in a sandboxed frame has the origin null, whoever wrote it.
        Origins::Listed(listed) if listed.iter().any(|origin| origin == "null") => {
            Some("any page can be of origin null, and could act for whoever looks at it")
        }
        Origins::Listed(_) => None,
    }
}

/// An origin as a browser writes it: scheme, host and a port that is not the scheme's own.
fn origin(text: &str) -> Result<HeaderValue, Fault> {
    let wrong = || {
        Fault::new(
            format!("{} is not an origin", shown(text)),
            "write scheme and host, and the port if it is not the usual one, as in \
             \"https://shop.example\"",
        )
    };
    if text == "*" || text == "null" {
        return HeaderValue::try_from(text).map_err(|_| wrong());
    }
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    let scheme = uri.scheme_str().ok_or_else(wrong)?;
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => 0,
    };
    let is_plain = text == format!("{scheme}://{authority}")
        && !authority.as_str().contains('@')
        && authority.port_u16() != Some(usual)
        && text == text.to_ascii_lowercase();
    if is_plain { HeaderValue::try_from(text).map_err(|_| wrong()) } else { Err(wrong()) }
}
