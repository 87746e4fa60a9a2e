//! Each rule switched off in turn, around the product's code.

use hapax_core::{Admission, OnUnknown};

use crate::{
    Promise,
    setup::{Budget, Restore, ServiceKind, Setup},
};

/// One condition that is dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mutation {
    /// A settle succeeds although a takeover ended the attempt.
    SettlesBesideATakeover,
    /// A sweep drops the ending before its record.
    PurgesTheEndingFirst,
    /// A claim that is issued again takes any first attempt for its own.
    TakesAnyFirstAttemptForItsOwn,
    /// A release deletes the record.
    ReleaseDeletes,
    /// The epoch stays when history is lost.
    EpochStays,
    /// A takeover compares attempt and lease alone.
    TakesOverBlindly,
    /// A claim whose answer was lost is issued again after the process joined another incarnation.
    InsistsOnAnotherIncarnation,
    /// A refusal of any attempt releases.
    RefusalReleases,
    /// A definite failure of any attempt is terminal.
    FailureIsTerminal,
    /// What a probe does not see was not applied.
    NotSeenIsNotApplied,
    /// The closing attempt is told to the service and not committed.
    ClosesWithoutCommitting,
    /// The service is believed to collapse for ever.
    CollapsesForEver,
    /// A claim believes the decision before it.
    ClaimBelievesTheDecision,
    /// An admission believes the claim before it.
    AdmissionBelievesTheClaim,
    /// Any effect secret will do.
    AnySecretStarts,
    /// A first claim asks no mark.
    ClaimsUnguarded,
    /// A takeover asks no mark.
    TakesOverUnguarded,
    /// An admission asks no mark.
    AdmitsUnguarded,
    /// Another incarnation is taken for the same.
    IgnoresTheIncarnation,
    /// A copy that waited answers anything from what it read.
    FinalFromAReading,
    /// A copy that waited executes when it reads that nothing is there.
    NothingThereFromAReading,
    /// Every intent is taken for the record's.
    IntentIsNotCompared,
    /// An answer that did not come is taken for a success.
    LostIsSuccess,
}

/// What a mutation drops, where, and what breaks.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The mutation.
    pub mutation: Mutation,
    /// The number of the rule that it switches off; `None` for one that has no star.
    pub rule: Option<&'static str>,
    /// What is done instead, in words.
    pub words: &'static str,
    /// Where it is seen.
    pub setup: Setup,
    /// What it breaks.
    pub breaks: Promise,
}

const NONE: Budget = Budget {
    requests: [2, 0],
    crashes: 0,
    lost: 0,
    refusals: 0,
    restores: 0,
    stale: 0,
    renewals: 0,
    looks: 0,
    ticks: 1,
};

const HOLD: Setup = Setup { name: "mutation", budget: NONE, ..Setup::PLAIN };
const SEPARATE: Setup = Setup { admission: Admission::Separate, ..HOLD };
const PROBE: Setup = Setup {
    service: ServiceKind::CanBeAsked,
    on_unknown: OnUnknown::Probe,
    budget: Budget { looks: 1, ..NONE },
    ..HOLD
};
const CLOSER: Setup = Setup { service: ServiceKind::Closes, ..PROBE };
const RESEND: Setup = Setup {
    service: ServiceKind::Collapses,
    on_unknown: OnUnknown::Resend,
    collapse_for: 3,
    ..HOLD
};
const RESTORED: Setup = Setup { budget: Budget { restores: 1, ..NONE }, ..HOLD };

/// Every mutation, each with a rule that it shows.
pub const SHOWN: [Shown; 25] = {
    use Mutation as M;
    use Promise as P;
    const fn shows(
        rule: &'static str,
        mutation: Mutation,
        words: &'static str,
        setup: Setup,
        breaks: Promise,
    ) -> Shown {
        Shown { mutation, rule: Some(rule), words, setup, breaks }
    }
    [
        shows(
            "rows a",
            M::SettlesBesideATakeover,
            "a settle counts although a takeover has ended the attempt",
            Setup { budget: Budget { refusals: 1, ..NONE }, ..RESEND },
            P::FailureHasNone,
        ),
        shows(
            "rows b",
            M::PurgesTheEndingFirst,
            "a sweep drops the ending and leaves the record",
            Setup { outcome: 1, ..HOLD },
            P::ToldStaysKnown,
        ),
        shows(
            "1",
            M::TakesAnyFirstAttemptForItsOwn,
            "a claim issued again takes any first attempt for its own",
            Setup { budget: Budget { lost: 1, ..NONE }, ..HOLD },
            P::OneEffect,
        ),
        shows(
            "1",
            M::TakesAnyFirstAttemptForItsOwn,
            "a claim issued again takes any first attempt for its own, and both are answered",
            Setup { budget: Budget { lost: 1, ..NONE }, ..HOLD },
            P::AnswersAgree,
        ),
        shows(
            "2a",
            M::ReleaseDeletes,
            "a release deletes the record, so that attempt 1 comes again",
            Setup { budget: Budget { looks: 1, ..NONE }, ..CLOSER },
            P::PresentIsNotOld,
        ),
        shows(
            "2b",
            M::EpochStays,
            "the epoch stays when history is lost",
            Setup {
                service: ServiceKind::RefusesOlder,
                restarts: true,
                budget: Budget { requests: [3, 0], refusals: 1, restores: 1, ..NONE },
                ..HOLD
            },
            P::PresentIsNotOld,
        ),
        shows(
            "3",
            M::TakesOverBlindly,
            "a takeover compares the attempt and the lease alone",
            Setup { budget: Budget { ticks: 2, ..NONE }, ..SEPARATE },
            P::OneEffect,
        ),
        shows(
            "7",
            M::InsistsOnAnotherIncarnation,
            "a claim whose answer was lost is issued again on another incarnation",
            Setup {
                restore: Restore::AsAnother,
                budget: Budget { lost: 1, restores: 1, ..NONE },
                ..SEPARATE
            },
            P::OneEffect,
        ),
        shows(
            "8a",
            M::RefusalReleases,
            "a refusal of a later attempt releases the record",
            Setup { budget: Budget { requests: [3, 0], refusals: 1, ticks: 3, ..NONE }, ..RESEND },
            P::OneEffect,
        ),
        shows(
            "8b",
            M::FailureIsTerminal,
            "a definite failure of a later attempt is terminal",
            Setup { budget: Budget { refusals: 1, ..NONE }, ..RESEND },
            P::FailureHasNone,
        ),
        shows("12a", M::NotSeenIsNotApplied, "a probe's 404 frees the key", PROBE, P::OneEffect),
        shows(
            "12a",
            M::NotSeenIsNotApplied,
            "a probe's 404 frees the key, since older attempts are refused",
            Setup { service: ServiceKind::RefusesOlder, ..PROBE },
            P::AdmittedByPermission,
        ),
        shows(
            "12b",
            M::ClosesWithoutCommitting,
            "the closing attempt is told to the service and not committed",
            CLOSER,
            P::PresentIsNotOld,
        ),
        shows(
            "13a",
            M::CollapsesForEver,
            "the service is believed to collapse for ever",
            Setup { budget: Budget { ticks: 4, ..NONE }, ..RESEND },
            P::OneEffect,
        ),
        shows(
            "13b",
            M::ClaimBelievesTheDecision,
            "a claim believes the decision before it",
            Setup { budget: Budget { ticks: 4, ..NONE }, ..RESEND },
            P::OneEffect,
        ),
        shows(
            "13c",
            M::AdmissionBelievesTheClaim,
            "an admission believes the claim before it",
            Setup { admission: Admission::Separate, budget: Budget { ticks: 4, ..NONE }, ..RESEND },
            P::OneEffect,
        ),
        shows(
            "15",
            M::AnySecretStarts,
            "a process starts with another effect secret",
            Setup { other_secret: true, ..RESEND },
            P::OneEffect,
        ),
        shows("17a", M::ClaimsUnguarded, "a first claim asks no mark", RESTORED, P::OneEffect),
        shows(
            "17b",
            M::TakesOverUnguarded,
            "a takeover asks no mark",
            Setup { budget: Budget { requests: [3, 0], refusals: 1, restores: 1, ..NONE }, ..HOLD },
            P::OneEffect,
        ),
        shows(
            "17c",
            M::AdmitsUnguarded,
            "an admission asks no mark",
            Setup { budget: Budget { restores: 1, ..NONE }, ..SEPARATE },
            P::OneEffect,
        ),
        shows(
            "18a",
            M::IgnoresTheIncarnation,
            "another incarnation is taken for the same",
            Setup { restore: Restore::AsAnother, ..RESTORED },
            P::OneEffect,
        ),
        shows(
            "21a",
            M::FinalFromAReading,
            "a copy that waited says key-reused from a reading",
            Setup { budget: Budget { requests: [1, 2], refusals: 1, stale: 1, ..NONE }, ..HOLD },
            P::ReusedIsTrue,
        ),
        shows(
            "21b",
            M::NothingThereFromAReading,
            "a copy that reads that nothing is there executes",
            Setup { budget: Budget { stale: 1, ..NONE }, ..HOLD },
            P::OneEffect,
        ),
        Shown {
            mutation: M::IntentIsNotCompared,
            rule: None,
            words: "every intent is taken for the one that is stored",
            setup: Setup { budget: Budget { requests: [1, 1], ..NONE }, ..HOLD },
            breaks: P::OwnOutcome,
        },
        Shown {
            mutation: M::LostIsSuccess,
            rule: None,
            words: "an answer that did not come is taken for a success",
            setup: HOLD,
            breaks: P::SuccessHasEffect,
        },
    ]
};
