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
    known: Mutex<Anchor>,
    faults: Mutex<VecDeque<Fault>>,
}

/// What a node remembers of a store in memory, outside of it: which incarnation it joined, and where
/// its last acknowledged write left its mark.
#[derive(Clone, Debug)]
pub struct Anchor {
    id: NodeId,
    epoch: u32,
    /// Where the last acknowledged write left the mark.
    mark: Mark,
    /// Whether an answer was lost since: the mark may stand one further.
    in_doubt: bool,
    standing: StandingState,
}

/// A fault in the way of the next write to a record.
pub(super) enum Fault {
    Fail(StoreError),
    LoseAnswer { committed: bool },
}

impl Anchor {
    /// A node joins, with a mark of its own. No two nodes of a store have one `id`, not even after
    /// the store went back in time.
    pub fn join(data: &mut Data, id: u64) -> Self {
        data.marks.insert(id, 0);
        Self { id, epoch: data.epoch, mark: 0, in_doubt: false, standing: StandingState::Ready }
    }

    /// The guard of a write (`protocol.md` 17, 18): the mark has to stand where this node left it,
    /// in the same incarnation; it is moved on together with the write.
    ///
    /// # Errors
    /// [`StoreError::Regressed`], from the first time that it does not stand there on.
    pub fn advance_mark(&mut self, data: &mut Data) -> Result<(), StoreError> {
        if let StandingState::Regressed { reason } = &self.standing {
            return Err(StoreError::Regressed { reason: reason.clone() });
        }
        match self.stands_in(data) {
            Ok(mark) => {
                *mark += 1;
                self.mark = *mark;
                self.in_doubt = false;
                self.standing = StandingState::Ready;
                Ok(())
            }
            Err(reason) => {
                self.distrust(reason.clone());
                Err(StoreError::Regressed { reason })
            }
        }
    }

    /// The answer to a write was lost, whether it happened or not. A committed one brought the
    /// mark's new place, which is not known here then.
    pub const fn lose_answer(&mut self, committed: bool) {
        if committed {
            self.mark -= 1;
        }
        self.in_doubt = true;
    }

    /// The store is not to be used on; the first reason stays.
    pub fn distrust(&mut self, reason: String) {
        if !self.has_regressed() {
            self.standing = StandingState::Regressed { reason };
        }
    }

    /// Whether the store was noticed to have lost history.
    pub const fn has_regressed(&self) -> bool {
        matches!(self.standing, StandingState::Regressed { .. })
    }

    /// Whether an answer was lost, so that the mark may stand one further than it was left.
    pub const fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// The incarnation that it joined.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Takes whatever incarnation is there for the one that it joined: a fault.
    pub const fn take_over_epoch(&mut self, data: &Data) {
        self.epoch = data.epoch;
    }

    /// How far its mark stands in the store from where it was left; `None` where it has none.
    pub fn drift(&self, data: &Data) -> Option<i64> {
        data.marks.get(&self.id).map(|there| there.wrapping_sub(self.mark).cast_signed())
    }

    fn stands_in<'a>(&self, data: &'a mut Data) -> Result<&'a mut Mark, String> {
        if data.epoch != self.epoch {
            return Err("the store is another incarnation than the one this node joined".to_owned());
        }
        let Some(mark) = data.marks.get_mut(&self.id) else {
            return Err("the store does not know this node's mark".to_owned());
        };
        if *mark == self.mark || self.in_doubt && *mark == self.mark + 1 {
            return Ok(mark);
        }
        Err(format!("this node's mark stands at {mark}, it was left at {}", self.mark))
    }

    fn failed(&mut self, error: StoreError) -> StoreError {
        self.standing = match (&self.standing, &error) {
            (StandingState::Regressed { .. }, _) => return error,
            (_, StoreError::Regressed { reason }) => {
                StandingState::Regressed { reason: reason.clone() }
            }
            (_, other) => StandingState::Failing { reason: other.to_string() },
        };
        error
    }
}

impl Node {
    pub(super) fn join(data: &mut Data) -> Self {
        let id = NODES.fetch_add(1, Ordering::Relaxed);
        Self { known: Mutex::new(Anchor::join(data, id)), faults: Mutex::default() }
    }

    pub(super) fn standing(&self) -> StandingState {
        self.known.lock().standing.clone()
    }

    pub(super) fn distrust(&self, reason: String) {
        self.known.lock().distrust(reason);
    }

    pub(super) fn put_in_the_way(&self, fault: Fault) {
        self.faults.lock().push_back(fault);
    }

    pub(super) fn advance_mark(&self, data: &mut Data) -> Result<(), StoreError> {
        self.known.lock().advance_mark(data)
    }

    /// Runs a write with the next fault, if there is one, in its way.
    pub(super) fn with_faults<T>(
        &self,
        write: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.faults.lock().pop_front();
        match fault {
            None => write(),
            Some(Fault::Fail(error)) => Err(self.known.lock().failed(error)),
            Some(Fault::LoseAnswer { committed }) => {
                if committed {
                    write()?;
                }
                let reason = "the answer was lost on purpose".to_owned();
                let mut known = self.known.lock();
                known.lose_answer(committed);
                Err(known.failed(StoreError::AnswerLost { reason }))
            }
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.lock();
        write!(f, "{} ({:?})", known.id, known.standing)
    }
}
