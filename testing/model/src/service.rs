//! The service behind, and what is under way to it. It is no part of the product: here are the
//! modes that a deployment may meet.

use hapax_core::{
    AppliedOutcome, Attempt, OutcomeClass, Owner, StoreTime, StoredResponse, Verdict,
};

use crate::{
    Promise,
    model::Model,
    setup::{LATE, LEASE, ServiceKind, ticks},
    turn::Turn,
    world::{Body, Phase, RECONCILER, World},
};

/// What the service remembers.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Service {
    /// By effect id: the first effect.
    pub(crate) known: [Option<Entry>; 2],
    /// The newest attempt that it has seen, or that was closed.
    pub(crate) newest: Option<Attempt>,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Entry {
    pub(crate) body: Body,
    pub(crate) at: u8,
}

/// A request under way. Its answer is there for whoever waits as soon as it is given: one that comes
/// late, or never, is one that nobody waited for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Packet {
    /// Whether the service works on it.
    pub(crate) works: bool,
    /// Which effect id it carries.
    pub(crate) effect: usize,
    pub(crate) attempt: Attempt,
    pub(crate) intent: u8,
    /// The connection it is on.
    pub(crate) owner: [u8; 16],
    /// When it was sent, where that bounds its way.
    pub(crate) sent: u8,
    /// After which moment it is to be refused, where the service does so.
    pub(crate) deadline: Option<StoreTime>,
}

impl Packet {
    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        self.owner == *owner.as_bytes()
    }
}

/// What happens to a request that arrives.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Landing {
    /// The service takes it.
    Taken,
    /// It is refused with this status before the service looks at the effect id.
    Refused(u16),
}

/// What is asked of a world, without taking a step.
#[derive(Clone, Copy)]
pub(crate) struct View<'w> {
    pub(crate) model: &'w Model,
    pub(crate) world: &'w World,
}

impl View<'_> {
    /// Whether an effect may still come of a packet.
    pub(crate) fn may_act(self, packet: &Packet) -> bool {
        packet.works || !self.refuses(packet)
    }

    fn refuses(self, packet: &Packet) -> bool {
        let newest = self.world.service.newest;
        match self.model.setup.service {
            ServiceKind::RefusesOlder => newest.is_some_and(|newest| packet.attempt < newest),
            ServiceKind::Closes => newest.is_some_and(|newest| packet.attempt <= newest),
            // Its clock may be off by no more than a lease.
            ServiceKind::KeepsDeadline => {
                let skewed = |deadline: StoreTime| deadline.after(ticks(LEASE));
                packet.deadline.is_some_and(|deadline| skewed(deadline) <= self.world.time())
            }
            ServiceKind::Collapses | ServiceKind::CanBeAsked | ServiceKind::KnowsNothing => false,
        }
    }

    /// The effect that a service remembers under an id.
    pub(crate) fn remembered(self, effect: usize) -> Option<Entry> {
        let entry = self.world.service.known[effect]?;
        let collapses = self.model.setup.service == ServiceKind::Collapses;
        let forgotten = collapses && self.world.now >= entry.at + self.model.setup.collapse_for;
        (!forgotten).then_some(entry)
    }

    /// What the service answers to a question for an effect.
    pub(crate) fn probe(self, effect: usize) -> Verdict {
        match self.remembered(effect) {
            Some(entry) => Verdict::Applied(AppliedOutcome {
                class: OutcomeClass::Succeeded,
                status: 201,
                response: Some(entry.body.response()),
            }),
            None => Verdict::NotSeenYet,
        }
    }

    /// Whether a packet is of the attempt that the record is at.
    fn is_present(self, packet: &Packet) -> bool {
        self.world.record().is_some_and(|record| {
            record.ending.is_none()
                && record.attempt == packet.attempt
                && packet.is_of(&record.owner)
        })
    }

    /// Whether time may go on: what is under way arrives within its bound or is lost.
    pub(crate) fn may_tick(self) -> bool {
        let bounded = self.model.setup.service == ServiceKind::Collapses;
        let late = |packet: &Packet| !packet.works && self.world.now >= packet.sent + LATE;
        self.world.now < self.world.left.ticks && !(bounded && self.world.packets.iter().any(late))
    }
}

impl Turn<'_> {
    /// A request arrives.
    pub(crate) fn land(&mut self, nth: usize, landing: Landing) {
        let packet = self.world.packets[nth];
        let attempt = packet.attempt;
        let setup = &self.model.setup;
        if let Landing::Refused(status) = landing {
            self.world.left.refusals -= 1;
            self.say(|| format!("the service refuses attempt {attempt} with {status}, unread"));
            return self.answer(nth, status, None);
        }
        if self.view().refuses(&packet) {
            self.say(|| format!("the service refuses attempt {attempt} as closed or older: 409"));
            if setup.service != ServiceKind::KeepsDeadline && self.view().is_present(&packet) {
                self.breaks(Promise::PresentIsNotOld);
            }
            return self.answer(nth, 409, None);
        }
        if setup.service == ServiceKind::Collapses {
            return self.collapse(nth, &packet);
        }
        if setup.service == ServiceKind::RefusesOlder {
            self.world.service.newest = Some(attempt);
        }
        self.act(nth);
    }

    fn collapse(&mut self, nth: usize, packet: &Packet) {
        let attempt = packet.attempt;
        let works = |other: &Packet| other.works && other.effect == packet.effect;
        match self.view().remembered(packet.effect) {
            Some(Entry { body, .. }) if body.intent == packet.intent => {
                self.say(|| {
                    format!("the service collapses attempt {attempt}: 201 {body} as before")
                });
                self.answer(nth, 201, Some(body));
            }
            Some(_) => {
                self.say(|| format!("the service refuses attempt {attempt}: another intent, 422"));
                self.answer(nth, 422, None);
            }
            None if self.world.packets.iter().any(works) => {
                self.say(|| format!("the service refuses attempt {attempt}: 409, in progress"));
                self.answer(nth, 409, None);
            }
            None => {
                self.say(|| format!("the service begins to work on attempt {attempt}"));
                self.world.packets[nth].works = true;
            }
        }
    }

    /// The effect happens.
    pub(crate) fn act(&mut self, nth: usize) {
        let Packet { effect, attempt, intent, .. } = self.world.packets[nth];
        let told = &mut self.world.told;
        let happened = told.effects[0] + told.effects[1];
        let body = Body { intent, nth: (happened + 1).min(Body::MOST) };
        let seen = &mut told.effects[usize::from(intent)];
        *seen = (*seen + 1).min(Body::MOST);
        let failed = told.failed[usize::from(intent)];
        let collapses = self.model.setup.service == ServiceKind::Collapses;
        let at = if collapses { self.world.now } else { 0 };
        if self.view().remembered(effect).is_none() {
            self.world.service.known[effect] = Some(Entry { body, at });
        }
        self.say(|| format!("THE EFFECT happens, by attempt {attempt}: 201 {body}"));
        if happened > 0 {
            self.breaks(Promise::OneEffect);
        }
        if failed {
            self.breaks(Promise::FailureHasNone);
        }
        self.answer(nth, 201, Some(body));
    }

    fn answer(&mut self, nth: usize, status: u16, body: Option<Body>) {
        let packet = self.world.packets.remove(nth);
        let waits = (0..RECONCILER).find(|nth| match &self.node(*nth).phase {
            Phase::Sent { record, .. } => packet.is_of(&record.owner),
            _ => false,
        });
        if let Some(gateway) = waits {
            self.receive(gateway, status, body);
        }
    }

    /// The service closes every attempt up to this one, and says what the earlier ones came to.
    pub(crate) fn close(&mut self, effect: usize, attempt: Attempt) -> Verdict {
        let newest = &mut self.world.service.newest;
        *newest = (*newest).max(Some(attempt));
        match self.view().probe(effect) {
            Verdict::NotSeenYet => Verdict::NotApplied,
            verdict => verdict,
        }
    }
}

/// The answer of a definite refusal, as it is kept.
pub(crate) fn refusal(status: u16) -> StoredResponse {
    StoredResponse { status, ..StoredResponse::default() }
}
