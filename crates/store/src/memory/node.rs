//! What a node knows outside the store: where it left its mark, and whether the store is the one
//! it knows. Never rolled back with the data, which is the point of it.

use std::{
    collections::VecDeque,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::data::Data;
use crate::{StandingState, StoreError};

/// Where a node's mark stands in the store.
pub(super) type Mark = u64;

/// The identity of a node, never given twice in a process: a store that went back in time must
/// not give a new node the mark of one that it forgot.
pub(super) type NodeId = u64;

static NODES: AtomicU64 = AtomicU64::new(0);

/// A node and its own memory of the store.
pub(super) struct Node {
    id: NodeId,
    known: Mutex<Known>,
}

struct Known {
    epoch: u32,
    /// Where the last acknowledged write left the mark.
    mark: Mark,
    /// Whether an answer was lost since: the mark may stand one further.
    in_doubt: bool,
    standing: StandingState,
    faults: VecDeque<Fault>,
}

/// A fault in the way of the next write to a record.
pub(super) enum Fault {
    Fail(StoreError),
    LoseAnswer { committed: bool },
}

impl Node {
    pub(super) fn join(data: &mut Data) -> Self {
        let id = NODES.fetch_add(1, Ordering::Relaxed);
        data.marks.insert(id, 0);
        Self {
            id,
            known: Mutex::new(Known {
                epoch: data.epoch,
                mark: 0,
                in_doubt: false,
                standing: StandingState::Ready,
                faults: VecDeque::new(),
            }),
        }
    }

    pub(super) fn standing(&self) -> StandingState {
        self.known.lock().standing.clone()
    }

    /// The store is not to be used on; the first reason stays.
    pub(super) fn distrust(&self, reason: String) {
        let mut known = self.known.lock();
        if !matches!(known.standing, StandingState::Regressed { .. }) {
            known.standing = StandingState::Regressed { reason };
        }
    }

    pub(super) fn put_in_the_way(&self, fault: Fault) {
        self.known.lock().faults.push_back(fault);
    }

    /// The mark guard of a write (`protocol.md` 17, 18): the mark has to stand where this node
    /// left it, in the same incarnation; it is moved on together with the write.
    pub(super) fn advance_mark(&self, data: &mut Data) -> Result<(), StoreError> {
        let mut known = self.known.lock();
        if let StandingState::Regressed { reason } = &known.standing {
            return Err(StoreError::Regressed { reason: reason.clone() });
        }
        match known.stands_in(data, self.id) {
            Ok(mark) => {
                *mark += 1;
                known.mark = *mark;
                known.in_doubt = false;
                known.standing = StandingState::Ready;
                Ok(())
            }
            Err(reason) => {
                known.standing = StandingState::Regressed { reason: reason.clone() };
                Err(StoreError::Regressed { reason })
            }
        }
    }

    /// Runs a write with the next fault, if there is one, in its way.
    pub(super) fn with_faults<T>(
        &self,
        write: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.known.lock().faults.pop_front();
        match fault {
            None => write(),
            Some(Fault::Fail(error)) => Err(self.failed(error)),
            Some(Fault::LoseAnswer { committed }) => {
                if committed {
                    write()?;
                    // The answer brought the mark's new place, and it was lost.
                    self.known.lock().mark -= 1;
                }
                self.known.lock().in_doubt = true;
                let reason = "the answer was lost on purpose".to_owned();
                Err(self.failed(StoreError::AnswerLost { reason }))
            }
        }
    }

    fn failed(&self, error: StoreError) -> StoreError {
        let mut known = self.known.lock();
        known.standing = match (&known.standing, &error) {
            (StandingState::Regressed { .. }, _) => return error,
            (_, StoreError::Regressed { reason }) => {
                StandingState::Regressed { reason: reason.clone() }
            }
            (_, other) => StandingState::Failing { reason: other.to_string() },
        };
        error
    }
}

impl Known {
    fn stands_in<'a>(&self, data: &'a mut Data, node: NodeId) -> Result<&'a mut Mark, String> {
        if data.epoch != self.epoch {
            return Err("the store is another incarnation than the one this node joined".to_owned());
        }
        let Some(mark) = data.marks.get_mut(&node) else {
            return Err("the store does not know this node's mark".to_owned());
        };
        if *mark == self.mark || self.in_doubt && *mark == self.mark + 1 {
            return Ok(mark);
        }
        Err(format!("this node's mark stands at {mark}, it was left at {}", self.mark))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.id, self.standing())
    }
}
