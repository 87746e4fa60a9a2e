//! Content codings, removed within bounds (RFC 9110, section 8.4).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{Problem, ProblemKind};
use http::{HeaderMap, header::CONTENT_ENCODING};
use thiserror::Error;
use tokio::{task::yield_now, time::timeout};

use self::decoder::Decoder;
use super::{BufferBudget, Buffered, ReadLimits};
use crate::http::headers;

mod decoder;

/// How many codings are removed at the most, one after the other.
const MOST_CODINGS: usize = 3;

/// How much is decoded before others get their turn, in bytes.
const PIECE: usize = 64 << 10;

/// How many times larger than what was sent the content may be, once it is larger than a piece, however
/// many codings there are. A `gzip` cannot reach it with much else than a single byte again and again.
const MOST_RATIO: usize = 1000;

/// The content of a request's body: what was sent, without its content codings. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Content(Inner);

#[derive(Clone, Debug)]
enum Inner {
    /// The body itself, which has no coding.
    AsSent,
    Decoded(Arc<Buffered>),
    Coded,
}

impl Content {
    /// Of a body whose coding is of no interest.
    pub const CODED: Self = Self(Inner::Coded);

    /// Of a body that has none.
    #[cfg(test)]
    pub(in crate::http) const AS_SENT: Self = Self(Inner::AsSent);

    /// The bytes of a body that was `sent`; `None` where a coding is not known here, so that nothing
    /// can be said of them.
    pub fn of<'a>(&'a self, sent: &'a Bytes) -> Option<&'a Bytes> {
        match &self.0 {
            Inner::AsSent => Some(sent),
            Inner::Decoded(buffered) => Some(buffered.bytes()),
            Inner::Coded => None,
        }
    }
}

/// Removes the content codings of a request's body: `gzip`, `deflate`, `br` and `zstd`, and lists of
/// at most 3 of them. What is decoded counts in the budget for as long as the content is kept.
///
/// # Errors
/// [`DecodeError`]: nothing was claimed or sent.
pub async fn content(
    headers: &HeaderMap,
    sent: &Bytes,
    limits: ReadLimits,
    budget: &BufferBudget,
) -> Result<Content, DecodeError> {
    let codings = match Codings::of(headers) {
        _ if sent.is_empty() => return Ok(Content(Inner::AsSent)),
        Codings::Unknown => return Ok(Content::CODED),
        Codings::Known(codings) if codings.is_empty() => return Ok(Content(Inner::AsSent)),
        Codings::Known(codings) => codings,
    };
    let mut held = budget.reserve();
    let mut count = |bytes| {
        let budget = budget.limit();
        if held.grow(bytes) { Ok(()) } else { Err(DecodeError::NoRoom { budget }) }
    };
    // Boxed: what decoders hold is not part of every request's future.
    let decoded = Box::pin(decode_all(&codings, sent, limits, &mut count)).await?;
    Ok(Content(Inner::Decoded(Arc::new(Buffered::new(decoded, held)))))
}

/// Removes the content codings of an answer that is in memory; `None` where that cannot be done
/// within the bounds.
pub(in crate::http) async fn content_of_answer(headers: &HeaderMap, body: &Bytes) -> Option<Bytes> {
    match Codings::of(headers) {
        Codings::Unknown => None,
        Codings::Known(codings) if codings.is_empty() || body.is_empty() => Some(body.clone()),
        Codings::Known(codings) => {
            let mut count = |_| Ok(());
            Box::pin(decode_all(&codings, body, ReadLimits::default(), &mut count)).await.ok()
        }
    }
}

/// Why the content of a body cannot be read. Nothing was claimed or sent.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body is not what its coding says, or something follows its end: 400.
    #[error("the request body is not what its Content-Encoding says; send it as it says, whole")]
    Malformed,
    /// More codings than are removed: 400.
    #[error("the request body has more than 3 content codings; send it with one, or without")]
    TooMany,
    /// More content than the limit: 413.
    #[error(
        "the request body is larger than {limit} bytes without its content coding; send less, or \
         raise the limit of decoded bodies"
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// Out of all proportion to what was sent: 413.
    #[error(
        "the request body is more than 1000 times larger without its content coding; send it \
         without"
    )]
    TooDense,
    /// The bodies of other requests fill the memory set aside for them: 503.
    #[error(
        "the buffered request bodies would take more than {budget} bytes; send again a little \
         later, or raise the buffer limit"
    )]
    NoRoom {
        /// The memory for all of them, in bytes.
        budget: usize,
    },
    /// Decoding took too long, on a machine that has much to do: 503.
    #[error("the request body could not be decoded within {within:?}; send again a little later")]
    TooSlow {
        /// The limit.
        within: Duration,
    },
}

impl DecodeError {
    /// Whether it is of this moment, not of the body.
    pub(in crate::http) const fn is_passing(&self) -> bool {
        matches!(self, Self::NoRoom { .. } | Self::TooSlow { .. })
    }

    /// The problem that the client is told.
    pub fn problem(&self) -> Problem {
        let kind = match self {
            Self::Malformed | Self::TooMany => ProblemKind::BodyInvalid,
            Self::TooLarge { .. } | Self::TooDense => ProblemKind::BodyTooLarge,
            Self::NoRoom { .. } | Self::TooSlow { .. } => ProblemKind::Overloaded,
        };
        let problem = Problem::new(kind, self.to_string());
        match kind {
            ProblemKind::Overloaded => problem.retry_after(Duration::from_secs(1)),
            _ => problem,
        }
    }
}

/// A coding that can be removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The codings of a body, in the order in which they were applied.
enum Codings {
    Known(Vec<Coding>),
    Unknown,
}

impl Codings {
    fn of(headers: &HeaderMap) -> Self {
        let mut known = Vec::new();
        for name in headers::members(headers, &CONTENT_ENCODING) {
            match name.to_ascii_lowercase().as_slice() {
                b"identity" => {}
                b"gzip" | b"x-gzip" => known.push(Coding::Gzip),
                b"deflate" => known.push(Coding::Deflate),
                b"br" => known.push(Coding::Brotli),
                b"zstd" => known.push(Coding::Zstd),
                _ => return Self::Unknown,
            }
        }
        Self::Known(known)
    }
}

/// Asks for room for so many bytes more, before they are kept.
type Count<'a> = dyn FnMut(usize) -> Result<(), DecodeError> + Send + 'a;

async fn decode_all(
    codings: &[Coding],
    sent: &Bytes,
    limits: ReadLimits,
    count: &mut Count<'_>,
) -> Result<Bytes, DecodeError> {
    if codings.len() > MOST_CODINGS {
        return Err(DecodeError::TooMany);
    }
    let within = limits.within;
    let bounds = Bounds {
        limit: limits.max_decoded,
        dense: sent.len().saturating_mul(MOST_RATIO).max(PIECE),
    };
    let decoding = async {
        let mut content = sent.clone();
        for coding in codings.iter().rev() {
            content = decode(*coding, &content, bounds, count).await?;
        }
        Ok(content)
    };
    timeout(within, decoding).await.unwrap_or(Err(DecodeError::TooSlow { within }))
}

/// How large the content may be without any of its codings, in bytes.
#[derive(Clone, Copy)]
struct Bounds {
    limit: usize,
    /// By what was sent.
    dense: usize,
}

async fn decode(
    coding: Coding,
    coded: &[u8],
    Bounds { limit, dense }: Bounds,
    count: &mut Count<'_>,
) -> Result<Bytes, DecodeError> {
    let mut decoder = Decoder::new(coding, coded);
    let mut content = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        let read = decoder.read(&mut piece).ok_or(DecodeError::Malformed)?;
        let Some(data) = piece.get(..read).filter(|data| !data.is_empty()) else {
            return Ok(content.into());
        };
        let length = content.len() + data.len();
        if length > limit {
            return Err(DecodeError::TooLarge { limit });
        }
        if length > dense {
            return Err(DecodeError::TooDense);
        }
        count(data.len())?;
        content.extend_from_slice(data);
        yield_now().await;
    }
}

#[cfg(test)]
mod tests;
