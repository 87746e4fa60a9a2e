//! A body that does as it is told. The gateway's tests of bodies include this file too.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

#[derive(Debug)]
pub(crate) enum Step {
    Frame(Frame<Bytes>),
    Break,
    Never,
}

#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) hint: SizeHint,
    steps: VecDeque<Step>,
}

impl Scripted {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { hint: SizeHint::new(), steps: steps.into_iter().collect() }
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Frame(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Step::Break) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            Some(Step::Never) => {
                self.steps.push_front(Step::Never);
                Poll::Pending
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}
