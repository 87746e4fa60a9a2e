//! Waiting for the attempt that is under way.

use std::time::Duration;

use hapax_core::{Decision, DecisionRules, Found, InFlight};
use metrics::gauge;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    Answer, Intent,
    claim::{Attempting, Taken},
    metric_definitions::WAITING,
    reply_slot::Early,
    waiters::Freed,
};

/// How waiters across processes poll.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

impl Attempting {
    /// Waits for the attempt under way, as long as the policy says.
    pub(crate) async fn wait<R>(&self, intent: &dyn Intent, early: &dyn Early) -> Taken<R> {
        let InFlight::Wait(patience) = self.in_flight else {
            return self.in_flight();
        };
        let waiting = gauge!(WAITING);
        waiting.increment(1);
        self.engine.waits();
        // A wait that no clock can hold is one of a year.
        let deadline = Instant::now().checked_add(patience);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(31_536_000));
        let taken = self.wait_until(deadline, intent, early).await;
        waiting.decrement(1);
        taken
    }

    async fn wait_until<R>(
        &self,
        deadline: Instant,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> Taken<R> {
        let inner = &self.engine.inner;
        let mut pause = POLL.0;
        loop {
            // Woken in process; polled across processes. A leader may have ended between the claim
            // and here, so the first look comes at once.
            let leader = inner.waiters.follow(&self.id, &self.fingerprint);
            let look = async {
                if let Some(mut leader) = leader
                    && let Some(freed) = leader.freed().await
                {
                    return Looked::Freed(freed);
                }
                let found = self.engine.bounded(inner.store.find(self.id)).await;
                // A failing read leaves the wait as it is; its bound ends it.
                if let Ok(Some(found)) = found
                    && let Ok((decision, rules)) = self.decide(&found, Some(intent), None).await
                    && decision != Decision::InFlight
                {
                    return Looked::Decided(decision, Box::new(found), rules);
                }
                sleep(pause).await;
                Looked::Nothing
            };
            let looked = tokio::select! {
                biased;
                looked = look => looked,
                () = sleep_until(deadline) => return self.in_flight(),
                () = inner.abandon.cancelled() => return self.in_flight(),
                () = early.closed() => return self.in_flight(),
            };
            match looked {
                Looked::Freed(freed) => return shared(freed),
                Looked::Decided(decision, found, rules) => {
                    return self.after_waiting(decision, found, &rules);
                }
                Looked::Nothing => pause = (pause * 2).min(POLL.1),
            }
        }
    }

    /// A copy that waited answers from what it found; it never executes in turn. The next retry
    /// does, where that is permitted.
    fn after_waiting<R>(
        &self,
        decision: Decision,
        found: Box<Found>,
        rules: &DecisionRules,
    ) -> Taken<R> {
        let (word, answer) = self.answer(decision.without_authority(), found, rules);
        Taken::Answered(word, answer)
    }
}

/// What a look at the attempt under way showed.
enum Looked {
    Nothing,
    Freed(Freed),
    Decided(Decision, Box<Found>, DecisionRules),
}

fn shared<R>(freed: Freed) -> Taken<R> {
    let answer = match freed {
        Freed::Response(response) => Answer::Shared { response },
        Freed::Problem(problem) => Answer::Problem(problem),
    };
    Taken::Answered("shared", answer)
}
