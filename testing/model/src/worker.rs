//! A gateway on its way with a request: the order of writes that the engine keeps. What each of them
//! may do, and what is decided between them, is the product's own code.

use hapax_core::{
    Advance, AdvanceReason, AnswerFacts, AppliedOutcome, ClaimNumber, Classified, Comparison,
    Decision, EndingKind, Evidence, Found, NewClaim, OutcomeClass, OwnState, Record,
    StoredResponse, WriteRefused, classify, classify_unanswered, decide,
};
use hapax_store::{Claimed, Written};

use crate::{
    Mutation, Promise,
    look::{Look, Looked},
    service::{Packet, refusal},
    setup::{DEADLINE, LEASE, ServiceKind, ticks},
    tampered::Write,
    turn::{Failed, Fault, Turn},
    world::{Ask, Body, Came, Phase, intent_word},
};

/// How often one request has the service asked, at most.
const LOOKS: u8 = 2;

impl Turn<'_> {
    /// A request arrives.
    pub(crate) fn arrive(&mut self, nth: usize, intent: u8, fault: Fault) {
        self.world.left.requests[usize::from(intent)] -= 1;
        self.say(|| format!("a request for intent {} arrives", intent_word(intent)));
        let ask = Ask { intent, owner: self.token(), looks: 0 };
        self.claim(nth, ask, None, fault);
    }

    /// The next step of a gateway.
    pub(crate) fn go_on(&mut self, nth: usize, fault: Fault) {
        match self.node(nth).phase.clone() {
            Phase::Claiming { ask, lost } => self.claim(nth, ask, lost, fault),
            Phase::Moving { ask, seen, reason, lost } => {
                self.take_over(nth, ask, &seen, (reason, lost), fault)
            }
            Phase::Doubting { ask, seen } => self.doubt(nth, ask, &seen, fault),
            Phase::Looking { ask, found, look } => self.look_for(nth, ask, *found, look, fault),
            Phase::Admitting { ask, record, before } => {
                self.admit(nth, ask, record, before, fault);
            }
            Phase::Settling { ask, record, came } => self.settle(nth, ask, record, came, fault),
            Phase::Proving { ask, record, came, token } => {
                self.prove(nth, ask, record, came, token, fault);
            }
            Phase::Following { ask } => self.read(nth, ask, false),
            _ => {}
        }
    }

    fn new_claim(&self, ask: Ask) -> NewClaim {
        NewClaim {
            id: self.model.id,
            owner: ask.owner,
            fingerprint: self.model.fingerprints[usize::from(ask.intent)],
            policy: self.model.digest,
            lease: ticks(LEASE),
            admission: self.model.setup.admission,
            secret_version: 1,
        }
    }

    fn claim(&mut self, nth: usize, ask: Ask, lost: Option<u8>, fault: Fault) {
        let again = lost.is_some();
        self.say(|| if again { "claims again".to_owned() } else { "claims".to_owned() });
        let (tampered, claim) = (self.model.tampered, self.new_claim(ask));
        let claimed = self
            .write(nth, Write::Claim, fault, |data, now| tampered.claim(data, &claim, again, now));
        match claimed {
            Ok(claimed) => self.claimed(nth, ask, claimed, lost),
            Err(Failed::Lost) => {
                let lost = lost.or(Some(self.world.now));
                self.enter(nth, Phase::Claiming { ask, lost });
            }
            Err(Failed::Regressed) if again && self.has(Mutation::InsistsOnAnotherIncarnation) => {
                self.say(|| "joins anew and insists".to_owned());
                self.start(nth);
                self.enter(nth, Phase::Claiming { ask, lost });
            }
            Err(Failed::Regressed) => self.refuse(nth, "store-regressed"),
        }
    }

    fn claimed(&mut self, nth: usize, ask: Ask, claimed: Claimed, lost: Option<u8>) {
        match claimed {
            Claimed::Ours(record) => {
                let attempt = record.attempt;
                self.say(|| format!("the record is its own, at attempt {attempt}"));
                self.own(nth, ask, record, (None, lost));
            }
            Claimed::Theirs(found) => self.decide(nth, ask, *found, None),
            Claimed::Gone => self.enter(nth, Phase::Claiming { ask, lost: None }),
        }
    }

    /// Goes on with a record that is its own: it is sent once it is admitted.
    fn own(
        &mut self,
        nth: usize,
        ask: Ask,
        record: Box<Record>,
        (reason, lost): (Option<AdvanceReason>, Option<u8>),
    ) {
        if record.own_state == OwnState::Executing {
            if lost.is_some_and(|since| since < self.world.now) {
                // Its caller was told that nothing is executed: that is kept true.
                self.say(|| "gives it back: its caller does not wait any more".to_owned());
                let came = Came::unanswered(classify_unanswered(false, record.clean));
                return self.enter(nth, Phase::Settling { ask, record, came });
            }
            return self.send(nth, ask, record);
        }
        let before = match reason {
            Some(AdvanceReason::Resend { before }) => Some(before),
            _ => None,
        };
        self.enter(nth, Phase::Admitting { ask, record, before });
    }

    /// What is sent is under way from its admission on: a process that pauses before it sends, or is
    /// killed there, is one whose request is late, or lost.
    fn send(&mut self, nth: usize, ask: Ask, record: Box<Record>) {
        let service = self.model.setup.service;
        let deadline = match service {
            ServiceKind::KeepsDeadline => record.refused_after(ticks(LEASE), ticks(DEADLINE)),
            _ => None,
        };
        self.world.packets.push(Packet {
            works: false,
            effect: self.node(nth).secret,
            attempt: record.attempt,
            intent: ask.intent,
            owner: *record.owner.as_bytes(),
            sent: if service == ServiceKind::Collapses { self.world.now } else { 0 },
            deadline,
        });
        self.say(|| "sends it to the service".to_owned());
        self.enter(nth, Phase::Sent { ask, record });
    }

    /// What the decision on a record that was found says to do.
    fn decide(&mut self, nth: usize, ask: Ask, found: Found, evidence: Option<Evidence>) {
        let (decision, now) = (self.decision(ask, &found, evidence), found.now);
        let seen = || Box::new(found.record.clone());
        self.say(|| {
            format!("finds attempt {} {:?}", found.record.attempt, found.record.state(now))
        });
        let phase = match decision {
            Decision::Advance(reason) => Phase::Moving { ask, seen: seen(), reason, lost: None },
            Decision::Doubt => Phase::Doubting { ask, seen: seen() },
            // Two that look at one time can keep each other busy: the engine has a bound, too.
            Decision::Probe if ask.looks == LOOKS => return self.refuse(nth, "in-flight"),
            Decision::Probe => {
                let ask = Ask { looks: ask.looks + 1, ..ask };
                Phase::Looking { ask, found: Box::new(found), look: Look::Asking }
            }
            Decision::InFlight if self.world.left.stale > 0 => Phase::Following { ask },
            decision => return self.answer_from(nth, ask, &found, decision),
        };
        self.enter(nth, phase);
    }

    fn decision(&self, ask: Ask, found: &Found, evidence: Option<Evidence>) -> Decision {
        let mut rules = self.model.rules;
        if self.has(Mutation::CollapsesForEver) {
            rules.collapse_for = Some(ticks(u8::MAX));
        }
        let rules = evidence.map_or(rules, |evidence| rules.after(evidence));
        let intent = self.model.fingerprints[usize::from(ask.intent)];
        let compared =
            if found.record.fingerprint == intent || self.has(Mutation::IntentIsNotCompared) {
                Comparison::Same
            } else {
                Comparison::Different
            };
        decide(&found.record, compared, found.now, &rules)
    }

    fn take_over(
        &mut self,
        nth: usize,
        ask: Ask,
        seen: &Record,
        (reason, lost): (AdvanceReason, Option<u8>),
        fault: Fault,
    ) {
        self.say(|| format!("moves the record on: {}", reason_word(reason)));
        let (tampered, claim) = (self.model.tampered, self.new_claim(ask));
        let advance = Advance { seen: seen.seen(), reason, claim };
        let moved = self.write(nth, Write::TakeOver, fault, |data, now| {
            tampered.advance(data, seen, advance, now)
        });
        match moved {
            Ok(Claimed::Ours(record)) => {
                let attempt = record.attempt;
                self.say(|| format!("the record is its own, at attempt {attempt}"));
                self.own(nth, ask, record, (Some(reason), lost));
            }
            Ok(claimed) => self.claimed(nth, ask, claimed, lost),
            Err(Failed::Lost) => {
                let seen = Box::new(seen.clone());
                let lost = lost.or(Some(self.world.now));
                self.enter(nth, Phase::Moving { ask, seen, reason, lost });
            }
            Err(Failed::Regressed) => self.refuse(nth, "store-regressed"),
        }
    }

    fn doubt(&mut self, nth: usize, ask: Ask, seen: &Record, fault: Fault) {
        self.say(|| "the lease is over: makes it uncertain".to_owned());
        let (id, seen) = (self.model.id, seen.seen());
        let now_is = self.write(nth, Write::Other, fault, |data, now| data.doubt(&id, &seen, now));
        match now_is {
            Ok(Some(found)) => self.decide(nth, ask, found, None),
            Ok(None) => self.enter(nth, Phase::Claiming { ask, lost: None }),
            // It is issued again.
            Err(Failed::Lost) => {}
            Err(Failed::Regressed) => self.refuse(nth, "store-regressed"),
        }
    }

    fn look_for(&mut self, nth: usize, ask: Ask, mut found: Found, look: Look, fault: Fault) {
        match self.look(nth, &found, look, None, fault) {
            Looked::GoesOn(look) => {
                self.enter(nth, Phase::Looking { ask, found: Box::new(found), look });
            }
            Looked::Moved(now) => self.decide(nth, ask, *now, None),
            Looked::Gone => self.enter(nth, Phase::Claiming { ask, lost: None }),
            Looked::Still { evidence, of } => {
                // A closer is an attempt of its own.
                (found.record.attempt, found.record.owner) = (of.attempt, of.owner);
                self.decide(nth, ask, found, Some(evidence));
            }
        }
    }

    fn admit(
        &mut self,
        nth: usize,
        ask: Ask,
        record: Box<Record>,
        before: Option<hapax_core::StoreTime>,
        fault: Fault,
    ) {
        self.say(|| "admits its attempt".to_owned());
        let (tampered, by) = (self.model.tampered, record.ownership());
        let admitted = self.write(nth, Write::Admit, fault, |data, now| {
            tampered.admit(data, by, ticks(LEASE), before, now)
        });
        match admitted {
            Ok(Written::Done(record)) => self.send(nth, ask, record),
            Ok(Written::Refused { why, .. }) => {
                self.say(|| format!("refused: {why}"));
                let came = Came::unanswered(classify_unanswered(false, record.clean));
                self.enter(nth, Phase::Settling { ask, record, came });
            }
            Ok(Written::Missing) | Err(Failed::Regressed) => self.refuse(nth, "store-regressed"),
            Err(Failed::Lost) => {
                self.enter(nth, Phase::Admitting { ask, record, before });
            }
        }
    }

    /// The lease of an execution is renewed.
    pub(crate) fn renew(&mut self, nth: usize) {
        let Phase::Sent { record, .. } = &self.node(nth).phase else { return };
        let by = record.ownership();
        self.world.left.renewals -= 1;
        self.say(|| "renews its lease".to_owned());
        let _ = self
            .write(nth, Write::Other, Fault::None, |data, now| data.renew(&by, ticks(LEASE), now));
    }

    /// The answer to its request arrives.
    pub(crate) fn receive(&mut self, nth: usize, status: u16, body: Option<Body>) {
        let Phase::Sent { ask, record } = self.node(nth).phase.clone() else { return };
        let pretends = self.has(Mutation::RefusalReleases) || self.has(Mutation::FailureIsTerminal);
        let classified = classify(AnswerFacts {
            status,
            complete: true,
            by_head: false,
            said: None,
            told: None,
            clean: record.is_accounted() || pretends,
            store_refusals: false,
        });
        self.say(|| format!("gateway {} takes the answer for {}", nth + 1, came_word(classified)));
        let came = Came { classified, status, body };
        self.enter(nth, Phase::Settling { ask, record, came });
    }

    /// No answer comes, or its request was never sent.
    pub(crate) fn give_up(&mut self, nth: usize, may_have_left: bool) {
        let Phase::Sent { ask, record } = self.node(nth).phase.clone() else { return };
        if may_have_left {
            self.say(|| "gives up waiting for the answer".to_owned());
        } else {
            self.say(|| "could not reach the service: nothing was sent".to_owned());
            self.world.left.refusals -= 1;
            self.world.packets.retain(|packet| !packet.is_of(&record.owner));
        }
        let mut came = Came::unanswered(classify_unanswered(may_have_left, record.clean));
        if may_have_left && self.has(Mutation::LostIsSuccess) {
            let body = Some(Body { intent: ask.intent, nth: 1 });
            let classified = Classified::Outcome(OutcomeClass::Succeeded);
            came = Came { classified, status: 201, body };
        }
        self.enter(nth, Phase::Settling { ask, record, came });
    }

    fn settle(&mut self, nth: usize, ask: Ask, record: Box<Record>, came: Came, fault: Fault) {
        self.say(|| format!("settles attempt {}: {}", record.attempt, came_word(came.classified)));
        let tampered = self.model.tampered;
        let settlement =
            came.classified.settlement(came.status, false, came.response(), self.model.retention);
        let settled = self.write(nth, Write::Other, fault, |data, now| {
            tampered.settle(data, &record, settlement, now)
        });
        match settled {
            Ok(Written::Done(_)) => self.settled(nth, ask, came),
            Ok(Written::Refused { why, found }) => {
                self.say(|| format!("refused: {why}"));
                let is_its_own = found.record.ownership() == record.ownership();
                let success = came.classified == Classified::Outcome(OutcomeClass::Succeeded);
                if why == WriteRefused::NotClean && came.classified.is_refusal() && is_its_own {
                    let came = Came::unanswered(Classified::Uncertain { show: false });
                    self.enter(nth, Phase::Settling { ask, record, came });
                } else if success && found.record.denies(&record.ownership()) {
                    let token = self.token();
                    self.enter(nth, Phase::Proving { ask, record, came, token });
                } else {
                    self.answer_fenced(nth, ask, &found);
                }
            }
            Ok(Written::Missing) => {
                self.say(|| "the record is gone: the store has lost history".to_owned());
                self.world.nodes[nth].anchor.distrust("the record is gone".to_owned());
                self.refuse(nth, "outcome-unknown");
            }
            Err(Failed::Regressed) => self.refuse(nth, "outcome-unknown"),
            Err(Failed::Lost) => {
                self.enter(nth, Phase::Settling { ask, record, came });
            }
        }
    }

    fn prove(
        &mut self,
        nth: usize,
        ask: Ask,
        record: Box<Record>,
        came: Came,
        token: hapax_core::Owner,
        fault: Fault,
    ) {
        self.say(|| "writes the proof that its effect exists".to_owned());
        let outcome = AppliedOutcome {
            class: OutcomeClass::Succeeded,
            status: came.status,
            response: came.response(),
        };
        let proof = self.proof(&record, record.ownership(), token, outcome);
        let proven = self.write(nth, Write::Other, fault, |data, now| data.prove(&proof, now));
        match proven {
            Ok(Written::Done(_)) => self.settled(nth, ask, came),
            Ok(Written::Refused { found, .. }) => self.answer_fenced(nth, ask, &found),
            // The settle is tried again, and comes to the same.
            Err(Failed::Lost) => {
                self.enter(nth, Phase::Settling { ask, record, came });
            }
            Ok(Written::Missing) | Err(Failed::Regressed) => self.refuse(nth, "outcome-unknown"),
        }
    }

    /// The caller gets the answer of its own attempt, once it is durable what that came to.
    fn settled(&mut self, nth: usize, ask: Ask, came: Came) {
        match came.classified {
            Classified::Outcome(class) => self.tell_outcome(nth, ask, class, came.response()),
            Classified::NotApplied => self.refuse(nth, "the refusal; the key is free"),
            Classified::Uncertain { .. } => self.tell_unknown(nth),
        }
    }

    fn answer_fenced(&mut self, nth: usize, ask: Ask, found: &Found) {
        match self.decision(ask, found, None) {
            Decision::Advance(_) => self.tell_unknown(nth),
            decision => self.answer_from(nth, ask, found, decision),
        }
    }

    /// A copy that waits reads what there is; `stale`: from a replica that is behind.
    pub(crate) fn read(&mut self, nth: usize, ask: Ask, stale: bool) {
        let now = self.world.time();
        let read = if stale { self.world.backup.as_ref() } else { Some(&self.world.store) };
        let found = read.and_then(|store| store.find(&self.model.id, now));
        if stale {
            self.world.left.stale -= 1;
        }
        self.say(|| if stale { "reads from behind".to_owned() } else { "reads".to_owned() });
        let Some(found) = found else {
            if self.has(Mutation::NothingThereFromAReading) {
                let claim = self.new_claim(ask);
                let record = Record::new(&claim, ClaimNumber(2), 0, now);
                self.say(|| "finds nothing there, and executes".to_owned());
                self.send(nth, ask, Box::new(record));
            }
            return;
        };
        let decision = self.decision(ask, &found, None);
        let decision = if self.has(Mutation::FinalFromAReading) {
            decision
        } else {
            decision.without_authority()
        };
        self.answer_from(nth, ask, &found, decision);
    }

    /// The answer of a decision that executes nothing.
    fn answer_from(&mut self, nth: usize, ask: Ask, found: &Found, decision: Decision) {
        let ending = found.record.ending;
        match decision {
            Decision::Replay => {
                let class = ending.filter(|ending| ending.kind == EndingKind::Outcome);
                match class.and_then(|ending| ending.class) {
                    Some(class) => self.tell_outcome(nth, ask, class, found.response.clone()),
                    None => self.refuse(nth, "outcome-not-kept"),
                }
            }
            Decision::KeyReused => {
                if self.world.told.effects[usize::from(ask.intent)] > 0 {
                    self.breaks(Promise::ReusedIsTrue);
                }
                self.refuse(nth, "key-reused");
            }
            Decision::Hold | Decision::Probe => self.tell_unknown(nth),
            Decision::KeyExpired(_) => self.refuse(nth, "key-expired"),
            Decision::NotKept => self.refuse(nth, "outcome-not-kept"),
            Decision::PolicyUnknown => self.refuse(nth, "policy-unknown"),
            Decision::InFlight | Decision::Doubt | Decision::Advance(_) => {
                self.refuse(nth, "in-flight");
            }
        }
    }

    fn tell_outcome(
        &mut self,
        nth: usize,
        ask: Ask,
        class: OutcomeClass,
        response: Option<StoredResponse>,
    ) {
        let told = self.world.told;
        let body = response.as_ref().and_then(Body::read);
        match (class, body) {
            (OutcomeClass::Succeeded, Some(body)) => {
                self.say(|| format!("tells its caller: success, {body}"));
                self.world.told.success.get_or_insert(body);
                let happened = told.effects[usize::from(body.intent)] >= 1
                    && body.nth <= told.effects[0] + told.effects[1];
                if told.effects == [0, 0] {
                    self.breaks(Promise::SuccessHasEffect);
                }
                if !happened || told.success.is_some_and(|earlier| earlier != body) {
                    self.breaks(Promise::AnswersAgree);
                }
                if body.intent != ask.intent {
                    self.breaks(Promise::OwnOutcome);
                }
            }
            (OutcomeClass::Succeeded, None) => {
                self.say(|| "tells its caller: success".to_owned());
            }
            (OutcomeClass::FailedTerminal, _) => {
                self.say(|| "tells its caller: a terminal failure".to_owned());
                self.world.told.failed[usize::from(ask.intent)] = true;
                if told.effects[usize::from(ask.intent)] > 0 {
                    self.breaks(Promise::FailureHasNone);
                }
            }
        }
        self.enter(nth, Phase::Idle);
    }

    fn tell_unknown(&mut self, nth: usize) {
        let told = self.world.told;
        if told.success.is_some() || told.failed.contains(&true) {
            self.breaks(Promise::ToldStaysKnown);
        }
        self.refuse(nth, "outcome-unknown");
    }

    /// Tells a caller something that says nothing of an effect.
    fn refuse(&mut self, nth: usize, words: &'static str) {
        self.say(|| format!("tells its caller: {words}"));
        self.enter(nth, Phase::Idle);
    }
}

impl Came {
    const fn unanswered(classified: Classified) -> Self {
        Self { classified, status: 0, body: None }
    }

    fn response(&self) -> Option<StoredResponse> {
        let kept = self.classified.stores_answer();
        kept.then(|| self.body.map_or_else(|| refusal(self.status), Body::response))
    }
}

impl Phase {
    /// Whether the next step is a write, whose answer may be lost.
    pub(crate) const fn is_at_a_write(&self) -> bool {
        match self {
            Self::Looking { look, .. } | Self::Held { look, .. } => look.writes(),
            Self::Idle | Self::Sent { .. } | Self::Following { .. } => false,
            _ => true,
        }
    }
}

const fn came_word(classified: Classified) -> &'static str {
    match classified {
        Classified::Outcome(OutcomeClass::Succeeded) => "a success",
        Classified::Outcome(OutcomeClass::FailedTerminal) => "a terminal failure",
        Classified::NotApplied => "not applied",
        Classified::Uncertain { .. } => "unknown",
    }
}

const fn reason_word(reason: AdvanceReason) -> &'static str {
    match reason {
        AdvanceReason::LeaseOver => "the lease of a claim that was not admitted is over",
        AdvanceReason::Released => "the key is free",
        AdvanceReason::Resend { .. } => "a resend is permitted",
        AdvanceReason::Resume => "its steps account for everything",
    }
}
