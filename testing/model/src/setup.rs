//! What is explored: the service, the policy, and how much may go wrong.

use std::time::Duration;

use hapax_core::{Admission, OnUnknown, OperationName, OperationPolicy, Retention};

use crate::Promise;

/// One tick of the model's clock, on which everything lasts a whole number of ticks.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// How long a holder is presumed alive.
pub(crate) const LEASE: u8 = 1;

/// How the service behind treats what it is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServiceKind {
    /// It collapses on the effect id for `collapse_for`, works for a while, answers 409 meanwhile,
    /// and refuses another intent under the id. It can be asked.
    Collapses,
    /// It refuses attempts that are older than the newest it has seen. It can be asked.
    RefusesOlder,
    /// It can be told to refuse every attempt up to one, and tells then what came of the earlier.
    Closes,
    /// It refuses what comes after the attempt's deadline. It can be asked.
    KeepsDeadline,
    /// It does everything that it is sent, and can be asked.
    CanBeAsked,
    /// It does everything that it is sent, and tells nothing.
    KnowsNothing,
}

/// How a store goes back to its backup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Restore {
    /// In its place, so that the marks alone tell. Each running process has written its heartbeat
    /// since the backup, as it does every second.
    InPlace,
    /// As another incarnation. Nobody need have written since the backup.
    AsAnother,
}

/// How often each of these may happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Budget {
    /// Requests with each of the two intents.
    pub requests: [u8; 2],
    /// Processes that are killed and start again.
    pub crashes: u8,
    /// Commits whose answer is lost, whether they happened or not.
    pub lost: u8,
    /// Refusals of the service before it looks at the effect id, and requests that are never sent.
    pub refusals: u8,
    /// Restores of the store.
    pub restores: u8,
    /// Readings of waiting copies from a replica that is behind.
    pub stale: u8,
    /// Renewals of a lease.
    pub renewals: u8,
    /// Times that the background asks the service.
    pub looks: u8,
    /// Ticks of the clock.
    pub ticks: u8,
}

impl Budget {
    /// Two requests for one intent, one for another; one of each usual fault.
    pub const USUAL: Self = Self {
        requests: [2, 1],
        crashes: 1,
        lost: 1,
        refusals: 1,
        restores: 0,
        stale: 0,
        renewals: 0,
        looks: 1,
        ticks: 2,
    };
}

/// One configuration.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Its name.
    pub name: &'static str,
    /// The service.
    pub service: ServiceKind,
    /// What may be done about an unknown outcome.
    pub on_unknown: OnUnknown,
    /// When an effect may begin.
    pub admission: Admission,
    /// How long the service collapses, in ticks; 0: it does not.
    pub collapse_for: u8,
    /// How long an outcome is replayed, in ticks; 0: for ever.
    pub outcome: u8,
    /// How the store goes back, where the budget has it.
    pub restore: Restore,
    /// Whether processes that noticed it are started again.
    pub restarts: bool,
    /// Whether the second process was given another effect secret.
    pub other_secret: bool,
    /// How often what happens.
    pub budget: Budget,
    /// What is promised here.
    pub promises: &'static [Promise],
}

/// How long a sent request can be under way, in ticks, where that has a bound.
pub(crate) const LATE: u8 = 1;

/// How long after its admission a service that keeps deadlines takes an attempt, in ticks.
pub(crate) const DEADLINE: u8 = 1;

/// All but [`Promise::ToldStaysKnown`], which a reading from behind and a restore rightly break.
const USUAL: &[Promise] = &[
    Promise::OneEffect,
    Promise::AnswersAgree,
    Promise::OwnOutcome,
    Promise::SuccessHasEffect,
    Promise::FailureHasNone,
    Promise::ReusedIsTrue,
    Promise::AdmittedByPermission,
    Promise::PresentIsNotOld,
];

impl Setup {
    /// Everything as usual, under `hold`, before a service that knows nothing.
    pub const PLAIN: Self = Self {
        name: "",
        service: ServiceKind::KnowsNothing,
        on_unknown: OnUnknown::Hold,
        admission: Admission::WithClaim,
        collapse_for: 0,
        outcome: 0,
        restore: Restore::InPlace,
        restarts: false,
        other_secret: false,
        budget: Budget::USUAL,
        promises: USUAL,
    };

    /// The operation's policy, as the configuration of the product would have it.
    pub fn policy(&self) -> Option<OperationPolicy> {
        let mut policy =
            OperationPolicy::new(OperationName::new("pay").ok()?, "http://service.example");
        policy.on_unknown = self.on_unknown;
        policy.lease = ticks(LEASE);
        policy.timeout = TICK;
        policy.late_arrival = ticks(LATE);
        policy.collapse_for = (self.collapse_for > 0).then(|| ticks(self.collapse_for));
        policy.deadline = (self.service == ServiceKind::KeepsDeadline).then(|| ticks(DEADLINE));
        if self.outcome > 0 {
            policy.retention.outcome = ticks(self.outcome);
        }
        Some(policy)
    }

    pub(crate) fn retention(&self) -> Retention {
        self.policy().map(|policy| policy.retention).unwrap_or_default()
    }
}

pub(crate) fn ticks(n: u8) -> Duration {
    TICK * u32::from(n)
}
