//! The memory that stored answers take on their way to callers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax::Answer;
use hapax_core::{Problem, ProblemKind, StoredResponse};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is counted at once.
const UNIT: usize = 1024;

/// How many bytes of stored answers may wait for their callers at once, over all connections. Those
/// are given out as fast as they can be asked for, and taken as slowly as callers like. Clones share
/// it.
#[derive(Clone, Debug)]
pub(crate) struct ReplayRoom {
    units: Arc<Semaphore>,
    limit: usize,
}

/// A body in memory, and the room that it takes until its last byte has gone out.
struct Held {
    content: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

impl ReplayRoom {
    pub(crate) fn new(limit: usize) -> Self {
        let units = limit.div_ceil(UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)), limit }
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// The answer, counted; a problem in its place where there is no room for it.
    pub(crate) fn hold<T>(&self, answer: Answer<T>) -> Answer<T> {
        let held = match answer {
            Answer::Replayed { response, expires } => {
                self.hold_body(response).map(|response| Answer::Replayed { response, expires })
            }
            Answer::Observed { response, retry_after } => {
                self.hold_body(response).map(|response| Answer::Observed { response, retry_after })
            }
            // The first is the service's, made just now; it is not there a second time.
            answer @ (Answer::First { .. } | Answer::Shared { .. } | Answer::Problem(_)) => {
                Ok(answer)
            }
        };
        held.unwrap_or_else(Answer::Problem)
    }

    fn hold_body(&self, mut response: StoredResponse) -> Result<StoredResponse, Problem> {
        if response.body.is_empty() {
            return Ok(response);
        }
        // One that is larger than all of it passes alone.
        let most = self.limit.div_ceil(UNIT).max(1);
        let units = response.body.len().div_ceil(UNIT).min(most);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.units).try_acquire_many_owned(units);
        let _room = room.map_err(|_| self.full())?;
        response.body = Bytes::from_owner(Held { content: response.body, _room });
        Ok(response)
    }

    fn full(&self) -> Problem {
        let detail = format!(
            "the stored answers on their way to callers would take more than {} bytes; send again \
             a little later",
            self.limit
        );
        Problem::new(ProblemKind::Overloaded, detail).retry_after(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(bytes: usize) -> Answer<()> {
        let body = Bytes::from(vec![b'x'; bytes]);
        let response = StoredResponse { status: 500, headers: Vec::new(), body };
        Answer::Observed { response, retry_after: Duration::ZERO }
    }

    fn body(answer: Answer<()>) -> Option<Bytes> {
        match answer {
            Answer::Observed { response, .. } => Some(response.body),
            Answer::Problem(problem) => {
                assert_eq!(problem.kind, ProblemKind::Overloaded);
                None
            }
            _ => panic!("another answer"),
        }
    }

    #[test]
    fn stored_answers_take_no_more_than_their_room_until_the_last_byte_is_gone() {
        let room = ReplayRoom::new(10 * UNIT);
        let first = body(room.hold(observed(8 * UNIT))).unwrap();
        assert!(body(room.hold(observed(3 * UNIT))).is_none());
        assert!(body(room.hold(observed(0))).is_some(), "nothing takes no room");
        let rest = first.slice(1..);
        drop(first);
        assert!(body(room.hold(observed(3 * UNIT))).is_none(), "a part of it is there");
        drop(rest);
        let large = body(room.hold(observed(11 * UNIT))).unwrap();
        assert!(body(room.hold(observed(1))).is_none());
        drop(large);
        assert!(body(room.hold(observed(10 * UNIT))).is_some());
    }
}
