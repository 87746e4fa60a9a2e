//! The whole world as a value: the product's store, the processes, the service, what is under way.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use ahash::AHasher;
use bytes::Bytes;
use hapax_core::{
    AdvanceReason, Classified, EndedBy, Evidence, Found, Owner, Ownership, Record, StoreTime,
    StoredResponse,
};
use hapax_store::{MemoryAnchor, MemoryData, MemoryWatch};

use crate::{
    Budget, Promise,
    look::Look,
    service::{Packet, Service},
    setup::TICK,
};

/// The two gateways, then the reconciler.
pub(crate) const NODES: usize = 3;
pub(crate) const RECONCILER: usize = 2;

/// One state of the world.
#[derive(Clone)]
pub struct World {
    pub(crate) store: Arc<MemoryData>,
    /// What the store can go back to, and what a replica that is behind still shows.
    pub(crate) backup: Option<Arc<MemoryData>>,
    pub(crate) now: u8,
    pub(crate) nodes: [Node; NODES],
    pub(crate) service: Service,
    pub(crate) packets: Vec<Packet>,
    pub(crate) left: Budget,
    pub(crate) told: Told,
    /// The first promise that was broken.
    pub(crate) broken: Option<Promise>,
    pub(crate) reads: Reads,
}

/// What of a record anybody reads in a setup: what nobody does makes no two worlds different.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// When an attempt was first admitted: a resend.
    pub(crate) admissions: bool,
    /// When an ending is over: retention.
    pub(crate) endings: bool,
    /// Since when a lease is over: a deadline.
    pub(crate) passed: bool,
    /// When a look is due, and who has it: the background.
    pub(crate) watches: bool,
    /// Where marks stand: a store that goes back, and each commit that is in doubt then.
    pub(crate) marks: bool,
}

/// A process.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) anchor: MemoryAnchor,
    /// How often it was started.
    pub(crate) starts: u8,
    /// Which effect secret it has.
    pub(crate) secret: usize,
    pub(crate) up: bool,
    pub(crate) phase: Phase,
}

/// Where a process is with what it does: each phase ends with a step that others can come between.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Idle,
    /// `lost`: since when an answer is.
    Claiming {
        ask: Ask,
        lost: Option<u8>,
    },
    /// Taking over what it has read.
    Moving {
        ask: Ask,
        seen: Box<Record>,
        reason: AdvanceReason,
        lost: Option<u8>,
    },
    Doubting {
        ask: Ask,
        seen: Box<Record>,
    },
    /// Another attempt is under way: it waits, and reads.
    Following {
        ask: Ask,
    },
    /// The service is asked for a retry.
    Looking {
        ask: Ask,
        found: Box<Found>,
        look: Look,
    },
    Admitting {
        ask: Ask,
        record: Box<Record>,
        before: Option<StoreTime>,
    },
    /// Its attempt is admitted, and was sent.
    Sent {
        ask: Ask,
        record: Box<Record>,
    },
    Settling {
        ask: Ask,
        record: Box<Record>,
        came: Came,
    },
    Proving {
        ask: Ask,
        record: Box<Record>,
        came: Came,
        token: Owner,
    },
    /// The reconciler looks into a record that it holds.
    Held {
        holder: Owner,
        found: Box<Found>,
        look: Look,
    },
    PuttingOff {
        holder: Owner,
        of: Ownership,
        evidence: Evidence,
    },
}

/// A request on its way through a gateway.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Ask {
    pub(crate) intent: u8,
    pub(crate) owner: Owner,
    /// How often it had the service asked.
    pub(crate) looks: u8,
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Came {
    pub(crate) classified: Classified,
    pub(crate) status: u16,
    pub(crate) body: Option<Body>,
}

/// What callers were told, and what happened: known to nobody in the world, for judging it.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Told {
    pub(crate) success: Option<Body>,
    pub(crate) failed: [bool; 2],
    pub(crate) effects: [u8; 2],
}

/// What an effect answers: whose it is, and which one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Body {
    pub(crate) intent: u8,
    pub(crate) nth: u8,
}

impl Body {
    /// Effects are counted up to this.
    pub(crate) const MOST: u8 = 3;

    pub(crate) fn response(self) -> StoredResponse {
        const TEXTS: [[&[u8]; 3]; 2] = [[b"A1", b"A2", b"A3"], [b"B1", b"B2", b"B3"]];
        let body = TEXTS[usize::from(self.intent)][usize::from(self.nth) - 1];
        StoredResponse { status: 201, headers: Vec::new(), body: Bytes::from_static(body) }
    }

    pub(crate) fn read(response: &StoredResponse) -> Option<Self> {
        match *response.body {
            [intent @ (b'A' | b'B'), nth @ b'1'..=b'3'] => {
                Some(Self { intent: intent - b'A', nth: nth - b'0' })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", intent_word(self.intent), self.nth)
    }
}

pub(crate) const fn intent_word(intent: u8) -> &'static str {
    if intent == 0 { "A" } else { "B" }
}

impl World {
    /// The present moment on the store's clock.
    pub(crate) fn time(&self) -> StoreTime {
        StoreTime::default().after(TICK * u32::from(self.now))
    }

    /// The record, as the store has it.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.store.rows().next().map(|row| &row.record)
    }

    /// An owner token that nothing in the world names: as good as one that was never given.
    pub(crate) fn fresh_token(&self) -> Owner {
        let mut used = [false; 256];
        let mut see = |owner: &Owner| used[usize::from(owner.as_bytes()[0])] = true;
        let stores = [Some(&self.store), self.backup.as_ref()];
        for row in stores.into_iter().flatten().flat_map(|store| store.rows()) {
            see(&row.record.owner);
            row.watch.as_ref().and_then(MemoryWatch::holder).iter().for_each(&mut see);
            if let Some(EndedBy::Verdict(token)) = row.record.ending.map(|ending| ending.by) {
                see(&token);
            }
        }
        self.packets.iter().for_each(|packet| see(&Owner::from_bytes(packet.owner)));
        self.nodes.iter().for_each(|node| node.phase.tokens(&mut see));
        let free = (1..u8::MAX).find(|n| !used[usize::from(*n)]);
        Owner::from_bytes([free.unwrap_or(u8::MAX); 16])
    }
}

impl Phase {
    fn tokens(&self, see: &mut impl FnMut(&Owner)) {
        match self {
            Self::Idle => {}
            Self::Claiming { ask, .. } | Self::Following { ask } => see(&ask.owner),
            Self::Moving { ask, seen, .. } | Self::Doubting { ask, seen } => {
                see(&ask.owner);
                see(&seen.owner);
            }
            Self::Looking { ask, found, look } => {
                see(&ask.owner);
                see(&found.record.owner);
                look.tokens(see);
            }
            Self::Admitting { ask, record, .. }
            | Self::Sent { ask, record }
            | Self::Settling { ask, record, .. } => {
                see(&ask.owner);
                see(&record.owner);
            }
            Self::Proving { ask, record, token, .. } => {
                see(&ask.owner);
                see(&record.owner);
                see(token);
            }
            Self::Held { holder, found, look } => {
                see(holder);
                see(&found.record.owner);
                look.tokens(see);
            }
            Self::PuttingOff { holder, of, .. } => {
                see(holder);
                see(&of.owner);
            }
        }
    }
}

/// Two worlds are the same when everything that can still happen in them is.
///
/// Histories are not compared: they are told and never read back here. Marks are compared by how far
/// they stand from where their process left them. Moments that have passed are one moment, and those
/// that nobody reads are none. The two gateways can stand for each other.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.left, self.told, self.broken).hash(state);
        self.service.hash(state);
        self.packets.hash(state);
        self.hash_store(&self.store, state);
        if let Some(backup) = &self.backup {
            self.hash_store(backup, state);
        }
        let mut nodes = [0, 1, RECONCILER].map(|nth| digest(&At(self, nth)));
        nodes[..RECONCILER].sort_unstable();
        nodes.hash(state);
    }
}

impl World {
    fn hash_store<H: Hasher>(&self, store: &MemoryData, state: &mut H) {
        store.epoch().hash(state);
        for row in store.rows() {
            self.hash_record(&row.record, state);
            row.response.hash(state);
            if self.reads.watches {
                row.watch.hash(state);
            }
        }
    }

    fn hash_record<H: Hasher>(&self, record: &Record, state: &mut H) {
        let now = self.time();
        let passed = |at: StoreTime| if self.reads.passed { at } else { at.max(now) };
        let ending = record.ending.map(|ending| {
            let at = self.reads.endings.then_some((ending.at, ending.until.outcome));
            (ending.kind, ending.class, ending.status, ending.kept, ending.by, at)
        });
        (record.claim, record.attempt, record.owner, record.own_state, record.clean).hash(state);
        (record.fingerprint.digest()[0], record.lease_end.map(passed), ending).hash(state);
        self.reads.admissions.then_some(record.first_admitted).hash(state);
    }

    fn hash_phase<H: Hasher>(&self, phase: &Phase, state: &mut H) {
        std::mem::discriminant(phase).hash(state);
        match phase {
            Phase::Idle => {}
            Phase::Claiming { ask, lost } => (ask, lost).hash(state),
            Phase::Following { ask } => ask.hash(state),
            Phase::Moving { ask, seen, reason, lost } => {
                (ask, reason, lost).hash(state);
                self.hash_record(seen, state);
            }
            Phase::Doubting { ask, seen: record } | Phase::Sent { ask, record } => {
                ask.hash(state);
                self.hash_record(record, state);
            }
            Phase::Looking { ask, found, look } => {
                (ask, found.now, &found.response, look).hash(state);
                self.hash_record(&found.record, state);
            }
            Phase::Admitting { ask, record, before } => {
                (ask, before).hash(state);
                self.hash_record(record, state);
            }
            Phase::Settling { ask, record, came } => {
                (ask, came).hash(state);
                self.hash_record(record, state);
            }
            Phase::Proving { ask, record, came, token } => {
                (ask, came, token).hash(state);
                self.hash_record(record, state);
            }
            Phase::Held { holder, found, look } => {
                (holder, found.now, look).hash(state);
                self.hash_record(&found.record, state);
            }
            Phase::PuttingOff { holder, of, evidence } => (holder, of, evidence).hash(state),
        }
    }
}

/// A process in its world.
struct At<'w>(&'w World, usize);

impl Hash for At<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self(world, nth) = *self;
        let Node { anchor, secret, up, phase, .. } = &world.nodes[nth];
        (secret, up).hash(state);
        world.hash_phase(phase, state);
        if !world.reads.marks {
            return;
        }
        (anchor.epoch(), anchor.is_in_doubt(), anchor.has_regressed()).hash(state);
        // A mark that stands further back than an answer in doubt explains is as good as any such.
        let drift = |store: &MemoryData| anchor.drift(store).map(|drift| drift.clamp(-2, 2));
        drift(&world.store).hash(state);
        world.backup.as_deref().map(drift).hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = AHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}
