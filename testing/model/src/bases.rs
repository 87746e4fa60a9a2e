//! The configurations in which everything has to hold.

use hapax_core::{Admission, OnUnknown};

use crate::{
    Promise,
    setup::{Budget, Restore, ServiceKind, Setup},
};

use OnUnknown::{Hold, Probe, Resend};
use ServiceKind::{CanBeAsked, Closes, Collapses, KeepsDeadline, KnowsNothing, RefusesOlder};

/// A process is killed, a request is refused or never sent.
const CRASH: Budget = Budget { lost: 0, ..Budget::USUAL };
/// The answer of a commit is lost.
const LOST: Budget = Budget { crashes: 0, refusals: 0, ..Budget::USUAL };
/// The store goes back.
const BACK: Budget = Budget { requests: [2, 1], restores: 1, ticks: 1, ..CALM };
/// The same, and nobody asks for something else.
const ONE_INTENT: Budget = Budget { requests: [2, 0], ..CRASH };
/// Long enough for a service to forget.
const ENDS: Budget = Budget { requests: [2, 0], lost: 1, ticks: 4, ..CALM };
/// One more request.
const MORE: Budget = Budget { requests: [3, 0], ..Budget::USUAL };
/// Nothing goes wrong but time.
const CALM: Budget = Budget { lost: 0, crashes: 0, refusals: 0, ..Budget::USUAL };

const fn of(
    name: &'static str,
    service: ServiceKind,
    on_unknown: OnUnknown,
    budget: Budget,
) -> Setup {
    let collapse_for = if matches!(service, Collapses) { 3 } else { 0 };
    Setup { name, service, on_unknown, collapse_for, budget, ..Setup::PLAIN }
}

const fn separate(setup: Setup) -> Setup {
    Setup { admission: Admission::Separate, ..setup }
}

/// After a restart a forgotten key is new: only what the service collapses stays one effect. A
/// service that says 409 to what another attempt is at is taken at its word.
const COLLAPSED: &[Promise] = &[
    Promise::OneEffect,
    Promise::AnswersAgree,
    Promise::OwnOutcome,
    Promise::SuccessHasEffect,
    Promise::PresentIsNotOld,
];

/// Where nothing is read from behind and the store does not go back.
const KNOWN: &[Promise] = &Promise::ALL;

/// Those that every run of the tests sees to their end.
pub const BASES: &[Setup] = &[
    of("knows nothing, hold; crashes", KnowsNothing, Hold, CRASH),
    of("knows nothing, hold; lost commits", KnowsNothing, Hold, LOST),
    of("collapses, hold; crashes", Collapses, Hold, ONE_INTENT),
    of("collapses, resend; crashes", Collapses, Resend, ONE_INTENT),
    of("collapses, resend; lost commits", Collapses, Resend, Budget { requests: [2, 0], ..LOST }),
    of("collapses, resend; another intent", Collapses, Resend, Budget { refusals: 1, ..CALM }),
    of("collapses, resend; its memory ends", Collapses, Resend, ENDS),
    of("collapses, probe; crashes", Collapses, Probe, Budget { looks: 0, ..ONE_INTENT }),
    of("collapses, probe; lost commits", Collapses, Probe, Budget { requests: [2, 0], ..LOST }),
    of("refuses older, hold; crashes", RefusesOlder, Hold, CRASH),
    of("closes, hold; crashes", Closes, Hold, CRASH),
    of("can be asked, hold; crashes", CanBeAsked, Hold, CRASH),
    of("refuses older, probe; crashes", RefusesOlder, Probe, CRASH),
    of("refuses older, probe; lost commits", RefusesOlder, Probe, LOST),
    of("closes, probe; crashes", Closes, Probe, Budget { looks: 0, ..ONE_INTENT }),
    of("closes, probe; lost commits", Closes, Probe, Budget { looks: 0, ..LOST }),
    of("closes, probe; another intent", Closes, Probe, Budget { looks: 0, refusals: 1, ..CALM }),
    of(
        "keeps deadlines, probe; crashes",
        KeepsDeadline,
        Probe,
        Budget { looks: 0, ticks: 4, ..ONE_INTENT },
    ),
    of(
        "keeps deadlines, probe; lost commits",
        KeepsDeadline,
        Probe,
        Budget { requests: [2, 0], looks: 0, ticks: 4, ..LOST },
    ),
    of(
        "keeps deadlines, probe; another intent",
        KeepsDeadline,
        Probe,
        Budget { looks: 0, refusals: 1, ticks: 4, ..CALM },
    ),
    of("can be asked, probe; crashes", CanBeAsked, Probe, CRASH),
    of("can be asked, probe; lost commits", CanBeAsked, Probe, LOST),
    separate(of("separate admission, hold; crashes", KnowsNothing, Hold, CRASH)),
    separate(of("separate admission, hold; lost commits", KnowsNothing, Hold, LOST)),
    separate(of("separate admission, resend; its memory ends", Collapses, Resend, ENDS)),
    of("renewals", KnowsNothing, Hold, Budget { renewals: 2, ..ONE_INTENT }),
    Setup {
        outcome: 1,
        promises: KNOWN,
        ..of("outcomes end", KnowsNothing, Hold, Budget { ticks: 3, ..ONE_INTENT })
    },
    of(
        "readings from behind",
        KnowsNothing,
        Hold,
        Budget { requests: [1, 2], refusals: 1, stale: 1, ticks: 1, ..CALM },
    ),
    of("the store goes back", KnowsNothing, Hold, Budget { refusals: 1, ..BACK }),
    of("the store goes back, lost commits", KnowsNothing, Hold, Budget { lost: 1, ..BACK }),
    separate(of("the store goes back, separate admission", KnowsNothing, Hold, BACK)),
    of("the store goes back, probe", CanBeAsked, Probe, Budget { requests: [2, 0], ..BACK }),
    Setup {
        restore: Restore::AsAnother,
        ..of(
            "the store is another one",
            KnowsNothing,
            Hold,
            Budget { requests: [2, 0], lost: 1, ..BACK },
        )
    },
    Setup {
        restarts: true,
        promises: COLLAPSED,
        ..of(
            "the store goes back, restarts, resend",
            Collapses,
            Resend,
            Budget { requests: [2, 0], ..BACK },
        )
    },
    Setup {
        restarts: true,
        promises: &[Promise::PresentIsNotOld],
        ..of(
            "the store goes back, restarts, refuses older",
            RefusesOlder,
            Hold,
            Budget { requests: [3, 0], refusals: 1, ..BACK },
        )
    },
    Setup { other_secret: true, ..of("another effect secret", Collapses, Resend, CALM) },
];

/// Those of the long run.
pub const LARGER: &[Setup] = &[
    of("knows nothing, hold", KnowsNothing, Hold, MORE),
    of("collapses, hold", Collapses, Hold, Budget::USUAL),
    of("collapses, resend", Collapses, Resend, Budget::USUAL),
    of(
        "collapses, resend; its memory ends",
        Collapses,
        Resend,
        Budget { requests: [3, 0], refusals: 1, ticks: 4, ..CALM },
    ),
    of("collapses, probe", Collapses, Probe, Budget::USUAL),
    of("refuses older, probe", RefusesOlder, Probe, Budget::USUAL),
    of("closes, probe; another intent", Closes, Probe, Budget { refusals: 1, ..CALM }),
    of("closes, probe; crashes", Closes, Probe, Budget { refusals: 0, ..CRASH }),
    of("closes, probe; lost commits", Closes, Probe, Budget { requests: [3, 0], looks: 0, ..LOST }),
    of("keeps deadlines, probe; crashes", KeepsDeadline, Probe, Budget { ticks: 4, ..CRASH }),
    of("keeps deadlines, probe; lost commits", KeepsDeadline, Probe, Budget { ticks: 4, ..LOST }),
    of("can be asked, probe", CanBeAsked, Probe, Budget::USUAL),
    separate(of("separate admission, hold", KnowsNothing, Hold, Budget::USUAL)),
    separate(of(
        "separate admission, resend",
        Collapses,
        Resend,
        Budget { requests: [2, 0], ticks: 4, ..Budget::USUAL },
    )),
    of("renewals", KnowsNothing, Hold, Budget { renewals: 2, ticks: 3, ..Budget::USUAL }),
    of(
        "readings from behind",
        KnowsNothing,
        Hold,
        Budget { requests: [2, 2], refusals: 1, stale: 1, ..CALM },
    ),
    of(
        "the store goes back",
        KnowsNothing,
        Hold,
        Budget { crashes: 0, restores: 1, ..Budget::USUAL },
    ),
    separate(of(
        "the store goes back, separate admission",
        KnowsNothing,
        Hold,
        Budget { crashes: 0, restores: 1, ..Budget::USUAL },
    )),
    Setup {
        restore: Restore::AsAnother,
        ..of("the store is another one", CanBeAsked, Probe, Budget { lost: 1, ..BACK })
    },
    Setup {
        restarts: true,
        promises: COLLAPSED,
        ..of("the store goes back, restarts, resend", Collapses, Resend, Budget { lost: 1, ..BACK })
    },
];
