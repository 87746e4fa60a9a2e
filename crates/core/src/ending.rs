//! The one row that ends an attempt, and who wrote it.

use crate::{Event, OutcomeClass, Owner, Settlement, StoreTime};

/// How an attempt ended: the kind of the one row in its slot.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EndingKind {
    /// An outcome is stored.
    Outcome,
    /// A later attempt took over.
    Superseded,
    /// Nothing happened; the key is free.
    Released,
}

/// The one row that ends an attempt.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ending {
    /// How it ended.
    pub kind: EndingKind,
    /// The class of the outcome; for [`EndingKind::Outcome`] alone.
    pub class: Option<OutcomeClass>,
    /// The status that was answered; for [`EndingKind::Outcome`] alone.
    pub status: Option<u16>,
    /// Whether the response was kept: false for one over the cap or an event stream.
    pub kept: bool,
    /// When, on the store's clock.
    pub at: StoreTime,
    /// How long it is remembered.
    pub until: Until,
    /// Who wrote it.
    pub by: EndedBy,
}

/// Who wrote an ending: only the same write, issued again after a lost answer, is the same ending.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum EndedBy {
    /// The attempt's own owner, or whoever took over from it.
    Owner,
    /// A verdict, by its token.
    Verdict(Owner),
}

/// How long an ending is remembered, on the store's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Until {
    /// From here on the outcome is not replayed: the record is a tombstone.
    pub outcome: StoreTime,
    /// From here on the record may be purged.
    pub tombstone: StoreTime,
}

impl Ending {
    /// What a settlement is to the record, and the ending that it writes, if it ends the attempt.
    pub(crate) fn of(settlement: &Settlement, by: EndedBy, at: StoreTime) -> (Event, Option<Self>) {
        match settlement {
            Settlement::Outcome { class, status, response, retention } => {
                let event = match class {
                    OutcomeClass::Succeeded => Event::Succeed,
                    OutcomeClass::FailedTerminal => Event::FailTerminal,
                };
                let ending = Self {
                    kind: EndingKind::Outcome,
                    class: Some(*class),
                    status: Some(*status),
                    kept: response.is_some(),
                    at,
                    until: retention.until(at),
                    by,
                };
                (event, Some(ending))
            }
            Settlement::NotApplied { retention, .. } => {
                let tombstone = retention.until(at).tombstone;
                let until = Until { outcome: tombstone, tombstone };
                let ending = Self { kind: EndingKind::Released, until, by, ..Self::superseded(at) };
                (Event::NotApplied, Some(ending))
            }
            Settlement::Unknown { .. } => (Event::Doubt, None),
        }
    }

    /// The ending of an attempt that a later one takes over from.
    pub(crate) const fn superseded(at: StoreTime) -> Self {
        Self {
            kind: EndingKind::Superseded,
            class: None,
            status: None,
            kept: false,
            at,
            until: Until { outcome: at, tombstone: at },
            by: EndedBy::Owner,
        }
    }

    /// Whether this is what is there already, issued again. What is stored with an ending is told
    /// apart by who wrote it: an owner and a verdict may come to one status with other bytes.
    pub(crate) fn is_again(&self, there: &Self) -> bool {
        // An owner that releases what was released says nothing else.
        let freed = self.kind == EndingKind::Released && self.by == EndedBy::Owner;
        let meaning = |ending: &Self| (ending.kind, ending.class, ending.status);
        meaning(self) == meaning(there)
            && (freed || (self.by == there.by && self.kept == there.kept))
    }
}
