//! The background: it notices abandoned executions, holds what is due, asks, and writes verdicts.

use std::time::Duration;

use hapax_core::{Evidence, Found, Owner, Ownership};
use hapax_store::{PutOff, TakeDue};

use crate::{
    look::{Look, Looked},
    setup::TICK,
    tampered::Write,
    turn::{Fault, Turn},
    world::{Phase, RECONCILER},
};

impl Turn<'_> {
    /// One round of the background, or the next step of a look.
    pub(crate) fn reconcile(&mut self, fault: Fault) {
        match self.node(RECONCILER).phase.clone() {
            Phase::Idle => self.round(fault),
            Phase::Held { holder, found, look } => self.look_into(holder, *found, look, fault),
            Phase::PuttingOff { holder, of, evidence } => {
                self.put_off(holder, of, evidence, fault);
            }
            _ => {}
        }
    }

    /// Executions that were abandoned become uncertain, and what is due is held.
    fn round(&mut self, fault: Fault) {
        let holder = self.token();
        let operations = vec![self.model.operation.clone()];
        let take = TakeDue { holder, lease: TICK, operations, limit: 1 };
        let asks = self.world.left.looks > 0;
        let taken = self.write(RECONCILER, Write::Other, fault, |data, now| {
            let doubted = data.doubt_abandoned(1, now).records;
            (doubted, if asks { data.take_due(&take, now) } else { Vec::new() })
        });
        let Ok((doubted, due)) = taken else { return };
        if doubted > 0 {
            self.say(|| "notices an abandoned execution: it is uncertain".to_owned());
        }
        if let Some(due) = due.into_iter().next() {
            self.world.left.looks -= 1;
            self.say(|| format!("takes attempt {} to look into it", due.found.record.attempt));
            let found = Box::new(due.found);
            self.enter(RECONCILER, Phase::Held { holder, found, look: Look::Asking });
        }
    }

    fn look_into(&mut self, holder: Owner, found: Found, look: Look, fault: Fault) {
        let lost = self.world.left.lost;
        let phase = match self.look(RECONCILER, &found, look, Some(holder), fault) {
            Looked::GoesOn(look) => Phase::Held { holder, found: Box::new(found), look },
            Looked::Moved(_) | Looked::Gone => Phase::Idle,
            // A failing store leaves it held.
            Looked::Still { .. } if lost > self.world.left.lost => Phase::Idle,
            Looked::Still { evidence, of } => Phase::PuttingOff { holder, of, evidence },
        };
        self.enter(RECONCILER, phase);
    }

    fn put_off(&mut self, holder: Owner, of: Ownership, evidence: Evidence, fault: Fault) {
        self.say(|| "puts it off".to_owned());
        let statement = self.model.statement.clone();
        let after = Duration::ZERO;
        let put_off = PutOff { of, holder, after, evidence, statement };
        let _ =
            self.write(RECONCILER, Write::Other, fault, |data, now| data.put_off(&put_off, now));
        self.enter(RECONCILER, Phase::Idle);
    }
}
