//! Faults that tests put in the way of commits. Without the `faults` feature there are none.

#[cfg(feature = "faults")]
use std::collections::VecDeque;

#[cfg(feature = "faults")]
use parking_lot::Mutex;

/// A fault in the way of the next commit.
#[cfg(feature = "faults")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// It fails in a way that does not tell whether it happened (`committed`), once.
    Ambiguous {
        /// Whether it happened.
        committed: bool,
    },
    /// As before, and the store cannot be reached afterwards to find out.
    LostAnswer {
        /// Whether it happened.
        committed: bool,
    },
}

/// The faults to come.
#[derive(Default)]
pub(super) struct Faults {
    #[cfg(feature = "faults")]
    steps: Mutex<VecDeque<Step>>,
}

#[cfg(feature = "faults")]
#[derive(Clone, Copy, Eq, PartialEq)]
enum Step {
    Begin,
    Commit { committed: bool },
}

#[cfg(feature = "faults")]
impl Faults {
    pub(super) fn put_in_the_way(&self, fault: Fault) {
        let mut steps = self.steps.lock();
        match fault {
            Fault::Ambiguous { committed } => steps.push_back(Step::Commit { committed }),
            Fault::LostAnswer { committed } => {
                steps.extend([Step::Commit { committed }, Step::Begin]);
            }
        }
    }

    /// Whether a transaction cannot begin now.
    pub(super) fn at_begin(&self) -> bool {
        self.steps.lock().pop_front_if(|step| *step == Step::Begin).is_some()
    }

    /// Whether a commit fails now, and whether it happens nevertheless.
    pub(super) fn at_commit(&self) -> Option<bool> {
        let step = self.steps.lock().pop_front_if(|step| *step != Step::Begin)?;
        match step {
            Step::Commit { committed } => Some(committed),
            Step::Begin => None,
        }
    }
}

#[cfg(not(feature = "faults"))]
impl Faults {
    pub(super) const fn at_begin(&self) -> bool {
        false
    }

    pub(super) const fn at_commit(&self) -> Option<bool> {
        None
    }
}
