//! A request's body, read whole before anything is claimed.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hapax_core::{Problem, ProblemKind};
use http_body::Body;
use http_body_util::BodyExt;
use thiserror::Error;

use super::{BoxError, BufferBudget, Reservation};
use crate::poll_once::poll_once;

/// What one body may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadLimits {
    /// The most bytes of content.
    pub max_bytes: usize,
    /// The most bytes of content without its codings.
    pub max_decoded: usize,
    /// How long reading may take, from the first look to the end of the message.
    pub within: Duration,
}

impl Default for ReadLimits {
    /// 1 MiB, 8 MiB without codings, within 10 s.
    fn default() -> Self {
        Self { max_bytes: 1 << 20, max_decoded: 8 << 20, within: Duration::from_secs(10) }
    }
}

/// A body in memory. Its share of the [`BufferBudget`] is held until this is dropped, so keep it
/// as long as clones of [`bytes`](Self::bytes) are about.
#[derive(Debug)]
pub struct Buffered {
    bytes: Bytes,
    _held: Reservation,
}

impl Buffered {
    /// A body that somebody else read, with the reservation that has grown by its length.
    pub const fn new(bytes: Bytes, held: Reservation) -> Self {
        Self { bytes, _held: held }
    }

    /// The content, exactly as sent.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Why a body was not read. Nothing was claimed or sent, and the client may send again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// More content than the limit, declared or sent: 413.
    #[error("the request body is larger than {limit} bytes; send less, or raise the body limit")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The message did not end in time: 408.
    #[error("the request body did not arrive within {within:?}; send it faster")]
    TooSlow {
        /// The limit.
        within: Duration,
    },
    /// The bodies of other requests, or what it takes to read this one, fill the memory set aside for
    /// them: 503.
    #[error(
        "the buffered request bodies would take more than {budget} bytes; send again a little \
         later, or raise the buffer limit"
    )]
    NoRoom {
        /// The memory for all of them, in bytes.
        budget: usize,
    },
    /// Fields come behind the content: they would be part of the message and of no fingerprint, so
    /// they are refused rather than dropped or passed on: 400.
    #[error("a request with a key cannot have trailer fields; send them as header fields")]
    Trailers,
    /// Reading what it holds failed: 400. Nothing but a fault of this program does that.
    #[error("the request body could not be read; if it is sent again, send it in another form")]
    Unreadable,
    /// The client went away or the message is malformed: 400, if anybody still listens.
    #[error("the request body ended before it was complete; send the request again")]
    Incomplete(#[source] BoxError),
}

impl ReadError {
    /// The problem that the client is told.
    pub fn problem(&self) -> Problem {
        let kind = match self {
            Self::TooLarge { .. } => ProblemKind::BodyTooLarge,
            Self::TooSlow { .. } => ProblemKind::BodyTimeout,
            Self::NoRoom { .. } => ProblemKind::Overloaded,
            Self::Incomplete(_) | Self::Trailers | Self::Unreadable => ProblemKind::BodyInvalid,
        };
        let problem = Problem::new(kind, self.to_string());
        match self {
            Self::NoRoom { .. } => problem.retry_after(Duration::from_secs(1)),
            _ => problem,
        }
    }
}

/// Reads a request's body to its end, or refuses it.
///
/// A declared length past a bound is refused before a byte is read. The body must be one that
/// reports an early end as an error; hyper's ends quietly when an HTTP/2 client resets the stream with
/// `NO_ERROR`.
///
/// # Errors
/// [`ReadError`]; what was read is dropped and its room given back.
pub async fn read_bounded<B>(
    body: B,
    limits: ReadLimits,
    budget: &BufferBudget,
) -> Result<Buffered, ReadError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let within = limits.within;
    let mut reading = pin!(read(body, limits.max_bytes, budget));
    // Small ones have come with their head.
    match poll_once(reading.as_mut()).await {
        Poll::Ready(read) => read,
        Poll::Pending => {
            // Boxed: a timer is not part of what does not wait.
            let read = Box::pin(tokio::time::timeout(within, reading)).await;
            read.unwrap_or(Err(ReadError::TooSlow { within }))
        }
    }
}

fn read<B>(
    body: B,
    limit: usize,
    budget: &BufferBudget,
) -> impl Future<Output = Result<Buffered, ReadError>>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    async move {
        let no_room = || ReadError::NoRoom { budget: budget.limit() };
        let mut body = pin!(body);
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > limit {
            return Err(ReadError::TooLarge { limit });
        }
        if !budget.has_room(declared) {
            return Err(no_room());
        }

        let mut held = budget.reserve();
        let mut content = Content::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ReadError::Incomplete(error.into()))?;
            match frame.into_data() {
                Ok(data) => {
                    if data.len() > limit - content.len() {
                        return Err(ReadError::TooLarge { limit });
                    }
                    if !held.grow(data.len()) {
                        return Err(no_room());
                    }
                    content.push(data, declared);
                }
                Err(frame) if frame.trailers_ref().is_some_and(|trailers| !trailers.is_empty()) => {
                    return Err(ReadError::Trailers);
                }
                Err(_) => {}
            }
        }
        Ok(Buffered::new(content.into_bytes(), held))
    }
}

/// Content so far; a body of one frame, as most are, is never copied.
#[derive(Default)]
struct Content {
    first: Bytes,
    all: BytesMut,
}

impl Content {
    fn len(&self) -> usize {
        self.first.len() + self.all.len()
    }

    fn push(&mut self, data: Bytes, declared: usize) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(declared.max(self.first.len() + data.len()));
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use http_body::{Frame, SizeHint};
    use http_body_util::{Empty, Full};

    use super::super::scripted::{Scripted, Step};
    use super::*;

    const LIMITS: ReadLimits =
        ReadLimits { max_bytes: 8, max_decoded: 8, within: Duration::from_secs(10) };

    fn data(text: &'static str) -> Step {
        Step::Frame(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test]
    async fn trailer_fields_are_refused() {
        let fields = HeaderMap::from_iter([(
            http::HeaderName::from_static("hapax-attempt"),
            HeaderValue::from_static("7"),
        )]);
        let with = |fields| Scripted::new([data("ab"), Step::Frame(Frame::trailers(fields))]);
        let budget = BufferBudget::new(6);
        let read = read_bounded(with(fields), LIMITS, &budget).await;
        assert!(matches!(read, Err(ReadError::Trailers)));
        assert_eq!(budget.used(), 0);
        let read = read_bounded(with(HeaderMap::new()), LIMITS, &budget).await;
        assert!(read.is_ok_and(|read| read.bytes() == "ab"), "none are there");
    }

    #[tokio::test]
    async fn a_body_arrives_whole() {
        let body = Scripted::new([data("ab"), data(""), data("cd"), data("ef")]);
        let budget = BufferBudget::new(6);
        let read = read_bounded(body, LIMITS, &budget).await.unwrap();
        assert_eq!(&read.bytes()[..], b"abcdef");
        assert_eq!(budget.used(), 6);
        drop(read);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_body_of_one_frame_is_not_copied() {
        let content = Bytes::from_static(b"abcdefgh");
        let read =
            read_bounded(Full::new(content.clone()), LIMITS, &BufferBudget::new(8)).await.unwrap();
        assert_eq!(read.bytes().as_ptr(), content.as_ptr());
    }

    #[tokio::test]
    async fn no_body_is_an_empty_body() {
        let read = read_bounded(Empty::<Bytes>::new(), LIMITS, &BufferBudget::new(0)).await;
        assert!(read.is_ok_and(|read| read.bytes().is_empty()));
    }

    #[tokio::test]
    async fn a_declared_length_past_a_bound_is_refused_before_reading() {
        let declared = |length| {
            let mut body = Scripted::new([Step::Never]);
            body.hint = SizeHint::with_exact(length);
            body
        };
        let budget = BufferBudget::new(4);
        let read = read_bounded(declared(9), LIMITS, &budget).await;
        assert!(matches!(read, Err(ReadError::TooLarge { limit: 8 })));
        let read = read_bounded(declared(u64::MAX), LIMITS, &budget).await;
        assert!(matches!(read, Err(ReadError::TooLarge { limit: 8 })));
        let read = read_bounded(declared(5), LIMITS, &budget).await;
        assert!(matches!(read, Err(ReadError::NoRoom { budget: 4 })));
    }

    #[tokio::test]
    async fn an_undeclared_body_is_bounded_as_it_arrives() {
        let budget = BufferBudget::new(100);
        let read =
            read_bounded(Scripted::new([data("12345"), data("6789")]), LIMITS, &budget).await;
        assert!(matches!(read, Err(ReadError::TooLarge { limit: 8 })));

        let budget = BufferBudget::new(6);
        let first = read_bounded(Scripted::new([data("1234")]), LIMITS, &budget).await;
        assert!(first.is_ok());
        let second = read_bounded(Scripted::new([data("12"), data("34")]), LIMITS, &budget).await;
        assert!(matches!(second, Err(ReadError::NoRoom { budget: 6 })));
        assert_eq!(budget.used(), 4, "a refused body gives its room back");
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_in_time_is_refused() {
        let limits = ReadLimits { within: Duration::from_millis(20), ..LIMITS };
        let budget = BufferBudget::new(8);
        let read = read_bounded(Scripted::new([data("12"), Step::Never]), limits, &budget).await;
        assert!(matches!(read, Err(ReadError::TooSlow { .. })));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_incomplete_never_short() {
        let budget = BufferBudget::new(8);
        let read = read_bounded(Scripted::new([data("12"), Step::Break]), LIMITS, &budget).await;
        assert!(matches!(read, Err(ReadError::Incomplete(_))));
        assert_eq!(budget.used(), 0);
    }
}
