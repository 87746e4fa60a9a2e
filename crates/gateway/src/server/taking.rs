//! HTTP/2 callers that take nothing of an answer.
//!
//! TCP moves for as long as such a caller answers PINGs, so nobody notices one that gives a stream
//! no window: its answer stays in memory, and what it comes from stays open. So each stream is
//! watched, from what was handed to hyper to what went out to the socket.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::{
    task::futures::TaskLocalFuture,
    task_local,
    time::{Instant, Sleep, sleep},
};
use tracing::debug;

use crate::Workers;

/// The most that is handed over at once: what h2 holds of a stream is then bounded.
const PART: usize = 16 * 1024;

/// Of so much the end is not waited for: the stream itself holds as much.
const LITTLE: usize = 1024;

task_local! {
    /// The stream whose task runs.
    static TAKING: Arc<Taking>;
}

/// How much of a stream's answer was handed over and did not go out yet.
#[derive(Debug, Default)]
pub(super) struct Taking {
    untaken: AtomicUsize,
    /// How often some of it went out.
    moves: AtomicUsize,
    /// Who waits for all of it to go out.
    waiting: Mutex<Option<Waker>>,
}

impl Taking {
    /// That of the stream whose task asks; none over HTTP/1.
    pub(super) fn of_this_stream() -> Option<Arc<Self>> {
        TAKING.try_with(Arc::clone).ok()
    }

    fn took(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.moves.fetch_add(1, Ordering::Relaxed);
        if self.untaken.fetch_sub(bytes, Ordering::AcqRel) == bytes
            && let Some(waiting) = self.waiting.lock().take()
        {
            waiting.wake();
        }
    }

    fn is_taken(&self) -> bool {
        self.untaken.load(Ordering::Acquire) == 0
    }

    fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        if self.is_taken() {
            return Poll::Ready(());
        }
        *self.waiting.lock() = Some(cx.waker().clone());
        // The last of it may have gone out in between.
        if self.is_taken() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A piece of an answer, which tells when it has gone out.
#[derive(Debug)]
pub(super) struct Part {
    content: Bytes,
    taking: Option<Arc<Taking>>,
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.content.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.content
    }

    fn advance(&mut self, count: usize) {
        self.content.advance(count);
        if let Some(taking) = &self.taking {
            taking.took(count);
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(taking) = &self.taking {
            taking.took(self.content.len());
        }
    }
}

/// An answer's body on its way to the caller.
#[derive(Debug)]
pub(super) struct Answering<B> {
    inner: B,
    /// None over HTTP/1, where the connection itself is watched.
    taking: Option<Arc<Taking>>,
    handed_over: usize,
    rest: Bytes,
    trailers: Option<HeaderMap>,
}

impl<B> Answering<B> {
    pub(super) const fn new(inner: B, taking: Option<Arc<Taking>>) -> Self {
        Self { inner, taking, handed_over: 0, rest: Bytes::new(), trailers: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Answering<B> {
    fn part(&mut self, taking: Arc<Taking>) -> Part {
        let content = self.rest.split_to(self.rest.len().min(PART));
        self.handed_over = self.handed_over.saturating_add(content.len());
        taking.untaken.fetch_add(content.len(), Ordering::AcqRel);
        Part { content, taking: Some(taking) }
    }

    /// The end of the stream goes out once all before it is out: behind it hyper lets go of the
    /// stream, and nobody could end it any more.
    fn poll_end(&self, taking: &Taking, cx: &Context<'_>) -> Poll<()> {
        if self.handed_over <= LITTLE { Poll::Ready(()) } else { taking.poll_taken(cx) }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answering<B> {
    type Data = Part;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, B::Error>>> {
        let me = &mut *self;
        let Some(taking) = me.taking.clone() else {
            let polled = ready!(Pin::new(&mut me.inner).poll_frame(cx));
            let part = |content| Part { content, taking: None };
            return Poll::Ready(polled.map(|frame| frame.map(|frame| frame.map_data(part))));
        };
        if !me.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(me.part(taking)))));
        }
        if me.trailers.is_none() && !me.inner.is_end_stream() {
            match ready!(Pin::new(&mut me.inner).poll_frame(cx)).transpose() {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(None) => {}
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => {
                        me.rest = data;
                        return Poll::Ready(Some(Ok(Frame::data(me.part(taking)))));
                    }
                    Err(frame) => me.trailers = frame.into_trailers().ok(),
                },
            }
        }
        ready!(me.poll_end(&taking, cx));
        Poll::Ready(me.trailers.take().map(Frame::trailers).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        let is_taken = |taking: &Arc<Taking>| self.handed_over <= LITTLE || taking.is_taken();
        self.rest.is_empty()
            && self.trailers.is_none()
            && self.inner.is_end_stream()
            && self.taking.as_ref().is_none_or(is_taken)
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

/// Runs each stream of HTTP/2 connections in a task of its own, until its caller takes nothing any
/// more.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) stalled: Duration,
    /// A connection of a proxy may carry more than one thread's work.
    pub(super) workers: Workers,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let taking = Arc::<Taking>::default();
        let running = TAKING.scope(Arc::clone(&taking), stream);
        self.workers.spawn(run(running, taking, self.stalled));
    }
}

/// Dropped, a stream that is not at its end is reset (CANCEL), and what is left of its answer goes
/// with it.
async fn run<F: Future>(
    stream: TaskLocalFuture<Arc<Taking>, F>,
    taking: Arc<Taking>,
    within: Duration,
) {
    let mut stream = pin!(stream);
    let mut watch = Watch { taking, within, moves: 0, timer: None };
    let ended = std::future::poll_fn(|cx| match stream.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => watch.poll_stalled(cx).map(|()| false),
    });
    if !ended.await {
        debug!("a caller takes nothing of its answer over HTTP/2; its stream is reset");
    }
}

/// Looks whether anything goes out of what was handed over.
struct Watch {
    taking: Arc<Taking>,
    within: Duration,
    moves: usize,
    /// Made when a stream first waits for its caller. It is not touched with each part: when it is
    /// over, it is seen whether any went out.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() && self.taking.is_taken() {
            return Poll::Pending;
        }
        let moves = self.taking.moves.load(Ordering::Relaxed);
        let timer = self.timer.get_or_insert_with(|| {
            self.moves = moves;
            Box::pin(sleep(self.within))
        });
        while timer.as_mut().poll(cx).is_ready() {
            if self.taking.is_taken() {
                self.timer = None;
                return Poll::Pending;
            }
            if self.moves == moves {
                return Poll::Ready(());
            }
            self.moves = moves;
            timer.as_mut().reset(Instant::now() + self.within);
        }
        Poll::Pending
    }
}
