//! Requests whose end is not clear.
//!
//! A request with a length and a chunked body, or with lines that end in a bare LF, is read in one
//! way here and perhaps in another by a proxy before us: what one takes for content is the next
//! request to the other (RFC 9112, section 11.2). hyper reads such requests and does not tell, so
//! the bytes are looked at on their way to it.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, ReadBuf};

use crate::through::writes_through;

/// How much of a line is looked at: the fields that matter are shorter, and where one is not, what it
/// says is not clear.
const LOOKED_AT: usize = 256;

/// The first line of an HTTP/2 connection, which is no request (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// Put into the extensions of a request whose end is not clear.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unclear;

/// From which request of a connection on the ends are not clear. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt {
    /// The number of the first, from 1; 0 where all are clear.
    first: Arc<AtomicU64>,
    /// How many have been handed out.
    seen: Arc<AtomicU64>,
}

impl Doubt {
    /// Counts an HTTP/1 request of the connection, and says whether its end is unclear.
    pub(super) fn next_is_unclear(&self) -> bool {
        let number = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        let first = self.first.load(Ordering::Relaxed);
        first != 0 && number >= first
    }
}

/// A stream whose requests are followed from head to head.
pub(super) struct Followed<S> {
    inner: S,
    scan: Scan,
}

/// Where a connection's bytes are.
struct Scan {
    at: At,
    line: Line,
    head: Head,
    /// The number of the request that is read.
    number: u64,
    doubt: Doubt,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// Before a request, or in its head.
    Head,
    /// In content of which so much is to come.
    Content(u64),
    ChunkSize,
    /// In a chunk of which so much is to come, its line end included.
    Chunk(u64),
    Trailers,
    /// It is not HTTP/1 any more, or nothing behind it is clear.
    Lost,
}

/// What matters of a head.
#[derive(Default)]
struct Head {
    begun: bool,
    length: Option<u64>,
    chunked: bool,
}

/// The beginning of the line that is read.
#[derive(Default)]
struct Line {
    start: Vec<u8>,
    is_cut: bool,
    last: Option<u8>,
}

impl<S> Followed<S> {
    pub(super) fn new(inner: S) -> (Self, Doubt) {
        let doubt = Doubt::default();
        let scan = Scan {
            at: At::Head,
            line: Line::default(),
            head: Head::default(),
            number: 0,
            doubt: doubt.clone(),
        };
        (Self { inner, scan }, doubt)
    }
}

impl Scan {
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = match self.at {
                At::Lost => return,
                At::Content(left) | At::Chunk(left) => self.skip(left, bytes),
                At::Head | At::ChunkSize | At::Trailers => self.read_line(bytes),
            };
        }
    }

    fn skip<'b>(&mut self, left: u64, bytes: &'b [u8]) -> &'b [u8] {
        let some = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let left = left - some as u64;
        self.at = match (self.at, left) {
            (At::Content(_), 0) => At::Head,
            (At::Content(_), left) => At::Content(left),
            (_, 0) => At::ChunkSize,
            (_, left) => At::Chunk(left),
        };
        bytes.split_at(some).1
    }

    fn read_line<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        self.line.add(part);
        let Some((_, rest)) = end.and_then(|_| rest.split_first()) else { return rest };
        let line = std::mem::take(&mut self.line);
        let text = line.start.strip_suffix(b"\r").unwrap_or(&line.start);
        match self.at {
            At::ChunkSize => self.end_chunk_size(text, line.is_cut),
            At::Trailers if text.is_empty() => self.at = At::Head,
            At::Trailers => {}
            _ => self.end_head_line(text, line.is_cut),
        }
        if line.last != Some(b'\r') {
            self.doubt();
        }
        rest
    }

    fn end_head_line(&mut self, text: &[u8], is_cut: bool) {
        if !self.head.begun {
            // Empty lines may stand before a request (RFC 9112, section 2.2).
            if !text.is_empty() {
                self.begin_head(text, is_cut);
            }
        } else if text.is_empty() {
            self.end_head();
        } else if let Some((name, value)) = split_field(text) {
            let is_length = name.eq_ignore_ascii_case(b"content-length");
            let is_coding = name.eq_ignore_ascii_case(b"transfer-encoding");
            if is_length {
                self.head.length = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            }
            self.head.chunked |= is_coding;
            let is_read = !is_length || self.head.length.is_some();
            if (is_length || is_coding) && (is_cut || !is_read) {
                self.doubt();
            }
        }
    }

    fn begin_head(&mut self, line: &[u8], is_cut: bool) {
        self.head.begun = true;
        self.number += 1;
        if self.number == 1 && line == PREFACE {
            self.at = At::Lost;
        } else if !is_cut && !line.windows(7).any(|version| version == b"HTTP/1.") {
            self.doubt();
        }
    }

    fn end_head(&mut self) {
        let head = std::mem::take(&mut self.head);
        if head.chunked && head.length.is_some() {
            return self.doubt();
        }
        self.at = match head.length {
            _ if head.chunked => At::ChunkSize,
            None | Some(0) => At::Head,
            Some(length) => At::Content(length),
        };
    }

    fn end_chunk_size(&mut self, text: &[u8], is_cut: bool) {
        let digits = text.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(digits.trim_ascii()).ok();
        let size = size.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match size {
            Some(0) if !is_cut => self.at = At::Trailers,
            Some(size) if !is_cut => self.at = At::Chunk(size.saturating_add(2)),
            _ => self.doubt(),
        }
    }

    /// From the request that is read on nothing is clear. The first doubt counts.
    fn doubt(&mut self) {
        self.at = At::Lost;
        let first = &self.doubt.first;
        let _ = first.compare_exchange(0, self.number.max(1), Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Line {
    fn add(&mut self, part: &[u8]) {
        self.last = part.last().copied().or(self.last);
        let room = LOOKED_AT.saturating_sub(self.start.len());
        self.is_cut |= part.len() > room;
        self.start.extend_from_slice(part.get(..room).unwrap_or(part));
    }
}

fn split_field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = text.iter().position(|byte| *byte == b':')?;
    let (name, value) = text.split_at(colon);
    Some((name, value.get(1..).unwrap_or_default().trim_ascii()))
}

impl<S: AsyncRead + Unpin> AsyncRead for Followed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.scan.see(buffer.filled().get(before..).unwrap_or_default());
        polled
    }
}

writes_through!(Followed);

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
    const LONG: &str =
        "POST /b HTTP/1.1\r\nContent-Length: 36\r\n\r\nGET / HTTP/1.1\nContent-Length: 3\r\n\r\n";
    const CHUNKED: &str = "POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
        19;x=y\r\nContent-Length: 5\r\nA: b\r\n\r\n0\r\nX-Sum: 1\r\n\r\n";
    const BOTH: &str =
        "POST /d HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    const OTHER_ORDER: &str =
        "POST /d HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nCONTENT-LENGTH: 4\r\n\r\n0\r\n\r\n";
    const BARE: &str = "GET /e HTTP/1.1\r\nHost: a\nX: y\r\n\r\n";

    const CHUNKED_HEAD: &str = "POST /f HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// A request with a field whose value stands behind more space than is looked at.
    fn padded(name: &str, value: &str) -> String {
        format!("POST /g HTTP/1.1\r\n{name}:{}{value}\r\n\r\n", " ".repeat(300))
    }

    #[test]
    fn the_first_request_whose_end_is_unclear_is_found_however_it_arrives() {
        for (requests, expected) in [
            (&[PLAIN, LONG, CHUNKED, PLAIN][..], 0),
            (&[BOTH], 1),
            (&[OTHER_ORDER], 1),
            (&[BARE], 1),
            (&[PLAIN, LONG, CHUNKED, BOTH, PLAIN], 4),
            (&["\r\n", CHUNKED, BARE], 2),
            (&["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", BARE], 0),
            (&["GET\n", BARE], 1),
            (&["\n", PLAIN], 1),
            (&[PLAIN, "GET /\r\n\r\n"], 2),
            (&[PLAIN, "PRI * HTTP/2.0\r\n"], 2),
            (&[&padded("Content-Length", "4"), PLAIN], 1),
            (&[PLAIN, &padded("content-length", "0"), PLAIN], 2),
            (&[&padded("Transfer-Encoding", "chunked")], 1),
            (&[&padded("X-Other", "1"), PLAIN], 0),
            (&["POST /d HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n"], 1),
            (&[PLAIN, CHUNKED_HEAD, "5\n"], 2),
            (&[PLAIN, CHUNKED_HEAD, "5x\r\n"], 2),
            (&[CHUNKED_HEAD, &"0".repeat(300), "5\r\nhello\r\n0\r\n\r\n"], 1),
            (&[CHUNKED_HEAD, &format!("5;{}\r\nhello\r\n", "x".repeat(300))], 1),
            (&[CHUNKED_HEAD, "0\r\nA: b\n\n"], 1),
            (&[CHUNKED_HEAD, &format!("0\r\nA: {}\r\n\r\n", "b".repeat(300)), PLAIN], 0),
        ] {
            let bytes = requests.concat().into_bytes();
            for size in [1, 2, 3, 7, bytes.len()] {
                let (mut stream, doubt) = Followed::new(());
                bytes.chunks(size).for_each(|part| stream.scan.see(part));
                let first = doubt.first.load(Ordering::Relaxed);
                assert_eq!(first, expected, "{requests:?} by {size}");
            }
        }
    }

    #[test]
    fn requests_before_the_doubt_are_clear_and_those_behind_it_are_not() {
        let (mut stream, doubt) = Followed::new(());
        stream.scan.see([PLAIN, BOTH, PLAIN].concat().as_bytes());
        let unclear: Vec<_> = (0..3).map(|_| doubt.next_is_unclear()).collect();
        assert_eq!(unclear, [false, true, true]);
    }

    #[test]
    fn no_line_takes_memory() {
        let (mut stream, _) = Followed::new(());
        (0..1024).for_each(|_| stream.scan.see(&[b'x'; 1024]));
        assert!(stream.scan.line.start.len() <= LOOKED_AT);
    }
}
