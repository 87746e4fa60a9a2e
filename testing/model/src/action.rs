//! What can happen next.

use std::sync::Arc;

use hapax_core::{OnUnknown, Record, State};

use crate::{
    Budget,
    service::{Landing, Packet, View},
    setup::ServiceKind,
    turn::{Fault, Turn},
    world::{Phase, RECONCILER},
};

/// One thing that happens.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A request with an intent arrives at a gateway.
    Arrive(usize, u8, Fault),
    /// A gateway takes its next step, which may be a write whose answer is lost.
    GoOn(usize, Fault),
    /// A gateway reads from a replica that is behind.
    ReadStale(usize),
    /// A gateway renews a lease.
    Renew(usize),
    /// A gateway gives up waiting for it.
    GiveUp(usize),
    /// A gateway could not reach the service.
    NeverSent(usize),
    /// A process is killed and starts again.
    Kill(usize),
    /// A process that noticed a regression is started again.
    Restart(usize),
    /// The background takes its next step.
    Reconcile(Fault),
    /// A request arrives at the service.
    Land(usize, Landing),
    /// The service ends its work on a request: the effect.
    Act(usize),
    /// A request is lost on its way.
    Drop(usize),
    /// Time goes on.
    Tick,
    /// The store is backed up.
    BackUp,
    /// The store goes back.
    Restore,
    /// What is over is swept.
    Sweep,
}

/// The statuses of a service that refuses without having looked at the effect id: one that frees a
/// clean key, one that is terminal for it.
const REFUSALS: [u16; 2] = [429, 403];

impl View<'_> {
    /// Everything that can happen in this world; nothing once a promise is broken.
    pub(crate) fn possible(self, actions: &mut Vec<Action>) {
        let world = self.world;
        if world.broken.is_some() {
            return;
        }
        for nth in 0..RECONCILER {
            self.of_gateway(nth, actions);
        }
        self.of_background(actions);
        self.of_service(actions);
        if self.may_tick() {
            actions.push(Action::Tick);
        }
        let Budget { restores, stale, .. } = world.left;
        match &world.backup {
            None if restores > 0 || stale > 0 => actions.push(Action::BackUp),
            Some(backup) if restores > 0 && !Arc::ptr_eq(backup, &world.store) => {
                actions.push(Action::Restore);
            }
            _ => {}
        }
        if self.model.setup.outcome > 0 && world.record().is_some() {
            actions.push(Action::Sweep);
        }
    }

    fn of_gateway(self, nth: usize, actions: &mut Vec<Action>) {
        let left = &self.world.left;
        let node = &self.world.nodes[nth];
        if !node.up {
            return;
        }
        if node.anchor.has_regressed() && self.model.setup.restarts {
            actions.push(Action::Restart(nth));
        }
        match &node.phase {
            Phase::Idle => {
                for intent in (0..2).filter(|intent| left.requests[usize::from(*intent)] > 0) {
                    let faults = self.faults(nth, true);
                    actions.extend(faults.map(|fault| Action::Arrive(nth, intent, fault)));
                }
                return;
            }
            Phase::Sent { record, .. } => {
                let under_way = |packet: &Packet| !packet.works && packet.is_of(&record.owner);
                if left.refusals > 0 && self.world.packets.iter().any(under_way) {
                    actions.push(Action::NeverSent(nth));
                }
                actions.push(Action::GiveUp(nth));
                if left.renewals > 0 && self.renewal_counts(record) {
                    actions.push(Action::Renew(nth));
                }
            }
            Phase::Following { .. } => {
                actions.push(Action::GoOn(nth, Fault::None));
                if left.stale > 0 && self.world.backup.is_some() {
                    actions.push(Action::ReadStale(nth));
                }
            }
            phase => {
                let faults = self.faults(nth, phase.is_at_a_write());
                actions.extend(faults.map(|fault| Action::GoOn(nth, fault)));
            }
        }
        if left.crashes > 0 {
            actions.push(Action::Kill(nth));
        }
    }

    fn renewal_counts(self, record: &Record) -> bool {
        self.world.record().is_some_and(|there| {
            there.ownership() == record.ownership() && there.lease_over(self.world.time())
        })
    }

    /// The ways in which the next step of a process may end.
    fn faults(self, nth: usize, writes: bool) -> impl Iterator<Item = Fault> + use<> {
        let regressed = self.world.nodes[nth].anchor.has_regressed();
        let lossy = self.world.left.lost > 0 && writes && !regressed;
        let faults: &[Fault] = if lossy {
            &[Fault::None, Fault::LostCommitted, Fault::LostAborted]
        } else {
            &[Fault::None]
        };
        faults.iter().copied()
    }

    fn of_background(self, actions: &mut Vec<Action>) {
        let world = self.world;
        let phase = &world.nodes[RECONCILER].phase;
        if matches!(phase, Phase::Idle) {
            let now = world.time();
            let there_is_work = world.record().is_some_and(|record| match record.state(now) {
                State::Executing => record.lease_over(now),
                State::Uncertain => {
                    self.model.setup.on_unknown == OnUnknown::Probe && world.left.looks > 0
                }
                _ => false,
            });
            if there_is_work {
                actions.push(Action::Reconcile(Fault::None));
            }
            return;
        }
        actions.extend(self.faults(RECONCILER, phase.is_at_a_write()).map(Action::Reconcile));
        if world.left.crashes > 0 {
            actions.push(Action::Kill(RECONCILER));
        }
    }

    fn of_service(self, actions: &mut Vec<Action>) {
        let world = self.world;
        for (nth, packet) in world.packets.iter().enumerate() {
            if packet.works {
                actions.push(Action::Act(nth));
                continue;
            }
            actions.push(Action::Land(nth, Landing::Taken));
            if world.left.refusals > 0 {
                let refused = |status| Action::Land(nth, Landing::Refused(status));
                actions.extend(REFUSALS.map(refused));
            }
            if self.model.setup.service == ServiceKind::Collapses {
                actions.push(Action::Drop(nth));
            }
        }
    }
}

impl Turn<'_> {
    /// Takes a step.
    pub(crate) fn take(&mut self, action: Action) {
        self.name(action);
        match action {
            Action::Arrive(nth, intent, fault) => self.arrive(nth, intent, fault),
            Action::GoOn(nth, fault) => self.go_on(nth, fault),
            Action::ReadStale(nth) => {
                if let Phase::Following { ask } = self.node(nth).phase {
                    self.read(nth, ask, true);
                }
            }
            Action::Renew(nth) => self.renew(nth),
            Action::GiveUp(nth) => self.give_up(nth, true),
            Action::NeverSent(nth) => self.give_up(nth, false),
            Action::Kill(nth) => self.kill(nth),
            Action::Restart(nth) => {
                self.say(|| "is started again".to_owned());
                self.start(nth);
            }
            Action::Reconcile(fault) => self.reconcile(fault),
            Action::Land(nth, landing) => self.land(nth, landing),
            Action::Act(nth) => self.act(nth),
            Action::Drop(nth) => {
                let packet = self.world.packets.remove(nth);
                self.say(|| format!("attempt {} is lost on its way", packet.attempt));
            }
            Action::Tick => {
                self.world.now += 1;
                let now = self.world.now;
                self.say(|| format!("time goes on to {now}"));
            }
            Action::BackUp => self.back_up(),
            Action::Restore => self.restore(),
            Action::Sweep => self.sweep(),
        }
    }

    /// Says who does it.
    fn name(&mut self, action: Action) {
        let gateway = match action {
            Action::Arrive(nth, ..)
            | Action::GoOn(nth, _)
            | Action::ReadStale(nth)
            | Action::Renew(nth)
            | Action::GiveUp(nth)
            | Action::NeverSent(nth)
            | Action::Kill(nth)
            | Action::Restart(nth) => nth,
            Action::Reconcile(_) => RECONCILER,
            _ => return,
        };
        self.speaks(match gateway {
            0 => "gateway 1",
            1 => "gateway 2",
            _ => "background",
        });
    }
}
