//! One step of the world, and what is said of it.

use std::sync::Arc;

use hapax_core::{Owner, StoreTime};
use hapax_store::{MemoryAnchor, MemoryData};

use crate::{
    Mutation, Promise,
    model::Model,
    service::View,
    setup::{Restore, ServiceKind},
    tampered::{Write, was_admitted},
    world::{Node, Phase, World},
};

/// What comes between a process and its write.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Fault {
    None,
    /// It is committed, and the answer is lost.
    LostCommitted,
    /// It is not committed, and the answer is lost.
    LostAborted,
}

/// Why a write has no answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failed {
    /// It may have happened.
    Lost,
    /// The store has lost history.
    Regressed,
}

/// A step that is being taken.
pub(crate) struct Turn<'m> {
    pub(crate) model: &'m Model,
    pub(crate) world: World,
    words: Option<Vec<String>>,
    speaker: Option<&'static str>,
}

impl<'m> Turn<'m> {
    pub(crate) fn new(model: &'m Model, world: &World, told: bool) -> Self {
        Self { model, world: world.clone(), words: told.then(Vec::new), speaker: None }
    }

    pub(crate) const fn view(&self) -> View<'_> {
        View { model: self.model, world: &self.world }
    }

    /// Names who does what is said next.
    pub(crate) fn speaks(&mut self, who: &'static str) {
        if self.words.is_some() {
            self.speaker = Some(who);
        }
    }

    /// Says what happens, if somebody listens.
    pub(crate) fn say(&mut self, words: impl FnOnce() -> String) {
        if let Some(said) = &mut self.words {
            said.push(words());
        }
    }

    pub(crate) fn end(mut self) -> (World, String) {
        self.world.packets.sort_unstable();
        let said = self.words.unwrap_or_default().join("; ");
        let words = self.speaker.map_or_else(|| said.clone(), |who| format!("{who}: {said}"));
        (self.world, words)
    }

    /// A promise is broken; the first one counts, of those that are made here.
    pub(crate) fn breaks(&mut self, promise: Promise) {
        if self.model.promises().contains(&promise) && self.world.broken.is_none() {
            self.world.broken = Some(promise);
            self.say(|| format!("BROKEN: {promise}"));
        }
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.model.mutation == Some(mutation)
    }

    pub(crate) fn node(&self, nth: usize) -> &Node {
        &self.world.nodes[nth]
    }

    pub(crate) fn enter(&mut self, nth: usize, phase: Phase) {
        self.world.nodes[nth].phase = phase;
    }

    /// A write to the store by one process, guarded by its mark.
    pub(crate) fn write<T>(
        &mut self,
        nth: usize,
        kind: Write,
        fault: Fault,
        write: impl FnOnce(&mut MemoryData, StoreTime) -> T,
    ) -> Result<T, Failed> {
        let now = self.world.time();
        if fault != Fault::None {
            self.world.left.lost -= 1;
        }
        if fault == Fault::LostAborted {
            self.say(|| "does not commit, and the answer is lost".to_owned());
            self.world.nodes[nth].anchor.lose_answer(false);
            return Err(Failed::Lost);
        }
        let before = self.world.record().cloned();
        let store = Arc::make_mut(&mut self.world.store);
        let anchor = &mut self.world.nodes[nth].anchor;
        if self.model.tampered.has(Mutation::IgnoresTheIncarnation) {
            anchor.take_over_epoch(store);
        }
        if self.model.tampered.guards(kind) && anchor.advance_mark(store).is_err() {
            // As the store in a file does: what comes later is newer than all that was lost.
            if anchor.epoch() == store.epoch() && !self.has(Mutation::EpochStays) {
                Arc::make_mut(&mut self.world.store).raise_epoch();
            }
            self.say(|| "the store has lost history: nothing is written".to_owned());
            return Err(Failed::Regressed);
        }
        let written = write(store, now);
        if fault == Fault::LostCommitted {
            anchor.lose_answer(true);
            self.say(|| "commits, and the answer is lost".to_owned());
        }
        if was_admitted(before.as_ref(), self.world.record()) {
            self.judge_admission();
        }
        if fault == Fault::LostCommitted { Err(Failed::Lost) } else { Ok(written) }
    }

    /// What is true of the earlier attempts when one is admitted, whatever the record says of them.
    fn judge_admission(&mut self) {
        let Some(record) = self.world.record() else { return };
        let owner = record.owner;
        let intent = self.model.intent_of(record);
        let others = self.world.packets.iter().filter(|packet| !packet.is_of(&owner));
        let open: Vec<_> = others.filter(|packet| self.view().may_act(packet)).copied().collect();
        let happened = self.world.told.effects.iter().any(|effects| *effects > 0);
        if open.is_empty() && !happened {
            return;
        }
        let setup = &self.model.setup;
        let one_intent = open.iter().all(|packet| packet.intent == intent)
            && self.world.told.effects[usize::from(1 - intent)] == 0;
        // What is sent now arrives while the first effect is remembered.
        let remembered = self
            .world
            .service
            .known
            .iter()
            .flatten()
            .all(|entry| self.world.now + crate::setup::LATE < entry.at + setup.collapse_for);
        if setup.service != ServiceKind::Collapses || !one_intent || !remembered {
            self.breaks(Promise::AdmittedByPermission);
        }
    }

    /// A process is killed, and starts again.
    pub(crate) fn kill(&mut self, nth: usize) {
        self.world.left.crashes -= 1;
        self.say(|| "is killed, and starts again".to_owned());
        self.start(nth);
    }

    pub(crate) fn start(&mut self, nth: usize) {
        let world = &mut self.world;
        let node = &mut world.nodes[nth];
        node.starts += 1;
        node.phase = Phase::Idle;
        let id = nth + crate::world::NODES * usize::from(node.starts);
        node.anchor = MemoryAnchor::join(Arc::make_mut(&mut world.store), id as u64);
    }

    pub(crate) fn back_up(&mut self) {
        self.say(|| "the store is backed up".to_owned());
        self.world.backup = Some(Arc::clone(&self.world.store));
    }

    /// The store goes back to its backup.
    pub(crate) fn restore(&mut self) {
        let world = &mut self.world;
        let Some(backup) = world.backup.take() else { return };
        world.left.restores -= 1;
        if self.model.setup.restore == Restore::InPlace {
            let store = Arc::make_mut(&mut world.store);
            for node in &mut world.nodes {
                // One that is out of use writes nothing.
                let _ = node.anchor.advance_mark(store);
            }
        }
        world.store = backup;
        if self.model.setup.restore == Restore::AsAnother {
            Arc::make_mut(&mut world.store).raise_epoch();
        }
        self.say(|| "THE STORE GOES BACK to its backup".to_owned());
    }

    pub(crate) fn sweep(&mut self) {
        let now = self.world.time();
        self.say(|| "what is over is swept".to_owned());
        let store = Arc::make_mut(&mut self.world.store);
        self.model.tampered.sweep(store, &self.model.id, now);
    }

    pub(crate) fn token(&self) -> Owner {
        self.world.fresh_token()
    }
}
