//! The body of what a client gets.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax::http::body::{BoxError, ResponseBody};
use http_body::{Body, Frame, SizeHint};

use crate::{
    body::{Recording, Tapped, Watching},
    upstream::UpstreamBody,
};

/// The body of an answer.
#[derive(Debug)]
pub struct AnswerBody(Content);

#[derive(Debug)]
enum Content {
    Plain(ResponseBody<UpstreamBody>),
    Watched(Tapped<UpstreamBody, Watching>),
    Recorded(Tapped<UpstreamBody, Recording>),
}

impl AnswerBody {
    pub(crate) const fn upstream(body: UpstreamBody) -> Self {
        Self(Content::Plain(ResponseBody::streaming(body)))
    }

    pub(crate) const fn recorded(body: Tapped<UpstreamBody, Recording>) -> Self {
        Self(Content::Recorded(body))
    }

    pub(crate) const fn watched(body: Tapped<UpstreamBody, Watching>) -> Self {
        Self(Content::Watched(body))
    }
}

impl From<Bytes> for AnswerBody {
    fn from(content: Bytes) -> Self {
        ResponseBody::from(content).into()
    }
}

impl From<ResponseBody<UpstreamBody>> for AnswerBody {
    fn from(body: ResponseBody<UpstreamBody>) -> Self {
        Self(Content::Plain(body))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = match &mut self.0 {
            Content::Plain(body) => Pin::new(body).poll_frame(cx),
            Content::Watched(body) => Pin::new(body).poll_frame(cx),
            Content::Recorded(body) => Pin::new(body).poll_frame(cx),
        };
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Plain(body) => body.is_end_stream(),
            Content::Watched(body) => body.is_end_stream(),
            Content::Recorded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Plain(body) => body.size_hint(),
            Content::Watched(body) => body.size_hint(),
            Content::Recorded(body) => body.size_hint(),
        }
    }
}
