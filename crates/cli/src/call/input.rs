//! What the command line says of the request.

use std::{fmt, io::Read};

use hapax_client::Key;
use http::{HeaderName, HeaderValue, Method, header::CONTENT_TYPE};

use crate::failure::Failure;

/// A field.
#[derive(Clone)]
pub(super) struct Header(pub(super) HeaderName, pub(super) HeaderValue);

pub(super) fn method(text: &str) -> Result<Method, String> {
    let no_method = |_| format!("`{text}` is no method");
    Method::from_bytes(text.as_bytes()).map_err(no_method)
}

/// The value may be a secret.
impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Header").field(&self.0).finish_non_exhaustive()
    }
}

pub(super) fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text.split_once(':').ok_or("write it as NAME: VALUE, with the colon")?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| "the name is none of a field")?;
    let value = HeaderValue::from_bytes(value.trim().as_bytes())
        .map_err(|_| "the value has characters that a field cannot carry")?;
    Ok(Header(name, value))
}

/// Text, or what `@` names.
pub(super) fn content(data: String) -> Result<Vec<u8>, Failure> {
    let Some(file) = data.strip_prefix('@') else { return Ok(data.into_bytes()) };
    if file == "-" {
        let mut content = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut content);
        read.map_err(|error| Failure::new(1, format!("standard input cannot be read: {error}")))?;
        return Ok(content);
    }
    std::fs::read(file).map_err(|error| Failure::start(format!("{file} cannot be read: {error}")))
}

pub(super) const fn usual_method(has_content: bool) -> Method {
    if has_content { Method::POST } else { Method::GET }
}

/// What the content is, where no field says it: as curl has it, a form.
pub(super) fn content_type(headers: &[Header], is_json: bool) -> Option<(HeaderName, HeaderValue)> {
    let is_told = headers.iter().any(|Header(name, _)| name == CONTENT_TYPE);
    let kind = if is_json { "application/json" } else { "application/x-www-form-urlencoded" };
    (!is_told).then(|| (CONTENT_TYPE, HeaderValue::from_static(kind)))
}

pub(super) fn key(text: &str) -> Result<Key, Failure> {
    Key::from_bytes(text.as_bytes()).map_err(|error| Failure::start_because(&error))
}
