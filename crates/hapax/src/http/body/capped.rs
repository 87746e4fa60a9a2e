//! An answer's body, kept if it is small and passed on if it is not.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// What became of a body.
#[derive(Debug)]
pub enum Collected<B: Body> {
    /// All of it, and its end.
    Complete {
        /// The content.
        bytes: Bytes,
        /// The trailer fields, where there were any.
        trailers: Option<HeaderMap>,
    },
    /// It is larger than the cap; this yields all of it, from its first byte.
    OverCap(Resumed<B>),
    /// It broke off: the message is incomplete and proves nothing.
    Broken {
        /// How many bytes had arrived.
        received: usize,
        /// Why it ended.
        error: B::Error,
    },
}

/// Reads a body to its end, or until it turns out to be larger than `cap` bytes.
///
/// There is no time limit in here: bound the future, and drop it to give the body up.
pub async fn collect_capped<B>(mut body: B, cap: usize) -> Collected<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut read = VecDeque::new();
    if body.size_hint().lower() > u64::try_from(cap).unwrap_or(u64::MAX) {
        return Collected::OverCap(Resumed { read, rest: body });
    }
    let mut received = 0;
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Collected::Broken { received, error },
        };
        match frame.into_data() {
            Ok(data) => {
                received += data.len();
                read.push_back(data);
                if received > cap {
                    return Collected::OverCap(Resumed { read, rest: body });
                }
            }
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Collected::Complete { bytes: join(read, received), trailers }
}

/// A body of which a part was read ahead: yields that part, then the rest.
#[derive(Debug)]
pub struct Resumed<B> {
    read: VecDeque<Bytes>,
    rest: B,
}

impl<B> Body for Resumed<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.read.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self.read.iter().map(|data| data.len() as u64).sum();
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            hint.set_upper(upper);
        }
        hint
    }
}

fn join(mut parts: VecDeque<Bytes>, length: usize) -> Bytes {
    if parts.len() < 2 {
        return parts.pop_front().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(length);
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all.freeze()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use http_body_util::Full;

    use super::super::scripted::{Scripted, Step};
    use super::*;

    fn data(text: &'static str) -> Step {
        Step::Frame(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test]
    async fn a_body_of_exactly_the_cap_is_kept() {
        let sum = HeaderMap::from_iter([(
            HeaderName::from_static("x-sum"),
            HeaderValue::from_static("1"),
        )]);
        let body =
            Scripted::new([data("ab"), data("cd"), Step::Frame(Frame::trailers(sum.clone()))]);
        let Collected::Complete { bytes, trailers } = collect_capped(body, 4).await else {
            panic!("not complete");
        };
        assert_eq!((&bytes[..], trailers), (&b"abcd"[..], Some(sum)));
    }

    #[tokio::test]
    async fn an_empty_body_is_complete() {
        let collected = collect_capped(Full::new(Bytes::new()), 0).await;
        assert!(matches!(collected, Collected::Complete { bytes, .. } if bytes.is_empty()));
    }

    #[tokio::test]
    async fn a_body_past_the_cap_streams_on_from_its_first_byte() {
        let body = Scripted::new([data("ab"), data("cd"), data("ef")]);
        let Collected::OverCap(resumed) = collect_capped(body, 3).await else {
            panic!("not over the cap");
        };
        assert_eq!(resumed.size_hint().lower(), 4);
        assert!(!resumed.is_end_stream());
        let all = resumed.collect().await.unwrap().to_bytes();
        assert_eq!(all, "abcdef");
    }

    #[tokio::test]
    async fn a_declared_length_past_the_cap_is_not_read_ahead() {
        let Collected::OverCap(resumed) = collect_capped(Full::from("abcdef"), 3).await else {
            panic!("not over the cap");
        };
        assert_eq!(resumed.size_hint().exact(), Some(6));
        assert_eq!(resumed.read.len(), 0);
    }

    #[tokio::test]
    async fn a_broken_body_is_never_complete_and_breaks_when_resumed() {
        let broken =
            |cap| collect_capped(Scripted::new([data("ab"), data("cd"), Step::Break]), cap);
        assert!(matches!(broken(9).await, Collected::Broken { received: 4, .. }));
        let Collected::OverCap(resumed) = broken(1).await else {
            panic!("not over the cap");
        };
        assert!(resumed.collect().await.is_err());
    }
}
