//! The body of a response.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use super::Resumed;

/// The body of a response: in memory, or `B` itself as it streams on.
#[derive(Debug)]
pub struct ResponseBody<B>(Content<B>);

#[derive(Debug)]
enum Content<B> {
    Whole { content: Option<Bytes>, trailers: Option<HeaderMap> },
    Streaming(B),
    Resumed(Resumed<B>),
}

impl<B> ResponseBody<B> {
    /// A body that is in memory.
    pub(in crate::http) fn whole(content: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self(Content::Whole { content: Some(content).filter(|c| !c.is_empty()), trailers })
    }

    /// A body of which nothing was read.
    pub const fn streaming(body: B) -> Self {
        Self(Content::Streaming(body))
    }

    /// A body of which a part was read ahead.
    pub(in crate::http) const fn resumed(body: Resumed<B>) -> Self {
        Self(Content::Resumed(body))
    }
}

impl<B> From<Bytes> for ResponseBody<B> {
    fn from(content: Bytes) -> Self {
        Self::whole(content, None)
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match &mut self.0 {
            Content::Whole { content, trailers } => {
                let frame = content.take().map(Frame::data);
                Poll::Ready(frame.or_else(|| trailers.take().map(Frame::trailers)).map(Ok))
            }
            Content::Streaming(body) => Pin::new(body).poll_frame(cx),
            Content::Resumed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole { content, trailers } => content.is_none() && trailers.is_none(),
            Content::Streaming(body) => body.is_end_stream(),
            Content::Resumed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            // A declared length would leave the trailers out: only a chunked body has any.
            Content::Whole { trailers: Some(_), .. } => SizeHint::new(),
            Content::Whole { content, .. } => {
                SizeHint::with_exact(content.as_ref().map_or(0, |content| content.len() as u64))
            }
            Content::Streaming(body) => body.size_hint(),
            Content::Resumed(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use http_body_util::{BodyExt, Empty};

    use super::*;

    #[tokio::test]
    async fn a_body_in_memory_says_its_length_unless_trailers_follow() {
        let body = ResponseBody::<Empty<Bytes>>::from(Bytes::from("ab"));
        assert_eq!(body.size_hint().exact(), Some(2));
        let body = ResponseBody::<Empty<Bytes>>::from(Bytes::new());
        assert!(body.is_end_stream() && body.size_hint().exact() == Some(0));

        let sum = HeaderMap::from_iter([(
            HeaderName::from_static("x-sum"),
            HeaderValue::from_static("1"),
        )]);
        let body = ResponseBody::<Empty<Bytes>>::whole(Bytes::from("ab"), Some(sum.clone()));
        assert_eq!(body.size_hint().exact(), None);
        let collected = body.collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&sum));
        assert_eq!(collected.to_bytes(), "ab");
    }
}
