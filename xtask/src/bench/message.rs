//! The messages on the wire, as far as a measurement has to know them.

use std::{fmt, io};

use httparse::{EMPTY_HEADER, Header, Request, Response, Status};

/// How many fields a head may have.
const FIELDS: usize = 48;

/// The head of an answer that is there as a whole.
pub(super) struct Answer {
    /// Its length, with its body.
    pub(super) length: usize,
    pub(super) status: u16,
    /// Whether it is marked as a replay.
    pub(super) replayed: bool,
}

/// The first answer in `bytes`; `None` while it is not complete. `mark` is the field that replays
/// have.
pub(super) fn answer(bytes: &[u8], mark: &str) -> io::Result<Option<Answer>> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut head = Response::new(&mut fields);
    let Status::Complete(length) = head.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let Some(length) = whole(bytes, length, head.headers)? else {
        return Ok(None);
    };
    let replayed = field(head.headers, mark).is_some_and(|value| value != b"false");
    Ok(Some(Answer { length, status: head.code.unwrap_or_default(), replayed }))
}

/// The length of the first request in `bytes`; `None` while it is not complete.
pub(super) fn request(bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut head = Request::new(&mut fields);
    match head.parse(bytes).map_err(io::Error::other)? {
        Status::Complete(length) => whole(bytes, length, head.headers),
        Status::Partial => Ok(None),
    }
}

/// The length of a message with its body, once that is there.
fn whole(bytes: &[u8], head: usize, fields: &[Header<'_>]) -> io::Result<Option<usize>> {
    if field(fields, "transfer-encoding").is_some() {
        return chunked(bytes, head);
    }
    let length = match field(fields, "content-length") {
        Some(length) => number(length)?,
        None => 0,
    };
    let end = head.saturating_add(length);
    Ok((bytes.len() >= end).then_some(end))
}

/// The end of the chunks that begin at `at`.
fn chunked(bytes: &[u8], mut at: usize) -> io::Result<Option<usize>> {
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let (size_line, size) = match httparse::parse_chunk_size(rest) {
            Ok(Status::Complete(found)) => found,
            Ok(Status::Partial) => return Ok(None),
            Err(_) => return Err(io::Error::other("a chunk without a size")),
        };
        let size = usize::try_from(size).map_err(io::Error::other)?;
        // Behind each chunk, and behind the last one, which is empty, ends a line.
        at = at.saturating_add(size_line).saturating_add(size).saturating_add(2);
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

fn number(text: &[u8]) -> io::Result<usize> {
    str::from_utf8(text).map_err(io::Error::other)?.trim().parse().map_err(io::Error::other)
}

fn field<'h>(fields: &[Header<'h>], name: &str) -> Option<&'h [u8]> {
    fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

/// What is sent, and what has to come back.
#[derive(Clone)]
pub(super) struct Dialect {
    pub(super) path: String,
    /// Fields beside the usual ones, each with the end of its line.
    pub(super) fields: String,
    /// The status of every answer.
    pub(super) status: u16,
    /// The field that replays are marked with; none where they are not marked.
    pub(super) replay_mark: Option<&'static str>,
    /// Whether the key is written as a String of RFC 9651.
    pub(super) quoted: bool,
}

const BODY: &str = r#"{"amount":1200,"currency":"EUR","to":"bench"}"#;

impl Default for Dialect {
    /// The gateway's, and that of the service behind it.
    fn default() -> Self {
        Self {
            path: "/payments".to_owned(),
            fields: String::new(),
            status: 201,
            replay_mark: Some("idempotent-replayed"),
            quoted: true,
        }
    }
}

impl Dialect {
    /// Writes a request over what `buffer` holds.
    pub(super) fn write(&self, buffer: &mut Vec<u8>, key: Option<&str>) {
        let mut put = |texts: &[&str]| {
            texts.iter().for_each(|text| buffer.extend_from_slice(text.as_bytes()));
        };
        let quote = if self.quoted { "\"" } else { "" };
        put(&[
            "POST ",
            &self.path,
            " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n",
        ]);
        put(&["Content-Length: 45\r\n", &self.fields]);
        if let Some(key) = key {
            put(&["Idempotency-Key: ", quote, key, quote, "\r\n"]);
        }
        put(&["\r\n", BODY]);
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replayed = if self.replayed { ", a replay" } else { "" };
        write!(f, "status {}{replayed}", self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\nContent-length: 2\r\n\r\n{}";

    #[test]
    fn a_message_is_read_to_its_end_and_no_further() {
        let stream = [CREATED, b"HTTP/1.1 204 No\r\nIdempotent-Replayed: true\r\n\r\n"].concat();
        let first = answer(&stream, "idempotent-replayed").unwrap().unwrap();
        assert_eq!((first.length, first.status, first.replayed), (CREATED.len(), 201, false));
        let second = answer(&stream[first.length..], "idempotent-replayed").unwrap().unwrap();
        assert_eq!((second.status, second.replayed), (204, true));
    }

    #[test]
    fn what_is_cut_is_not_there_yet() {
        for end in 0..CREATED.len() {
            assert!(answer(&CREATED[..end], "").unwrap().is_none(), "{end}");
        }
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        for end in 0..chunked.len() {
            assert!(request(&chunked[..end]).unwrap().is_none(), "{end}");
        }
        assert_eq!(request(chunked).unwrap(), Some(chunked.len()));
    }

    #[test]
    fn a_request_is_written_as_it_is_read() {
        for key in [None, Some("0198c2f4-9a1e-7c55-9d0b-3f6a52e1b7aa")] {
            let mut bytes = Vec::new();
            Dialect::default().write(&mut bytes, key);
            assert_eq!(request(&bytes).unwrap(), Some(bytes.len()));
        }
    }
}
