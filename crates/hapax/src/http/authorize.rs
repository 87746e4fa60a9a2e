//! Authorization before replay: what an earlier attempt came to is shown to those who may see it.

use std::time::Duration;

use hapax_core::{Problem, ProblemKind};

use crate::Answer;

/// Withholds what an earlier attempt came to from a caller that may not see it.
///
/// `may_see` is asked only about an answer that reveals something of an earlier attempt: its
/// outcome, what was observed of it, the answer that this copy waited for, that it was settled, or
/// how it ended before its key expired. Where it says no, that problem is the answer, the record
/// stays as it is, and nothing is executed. A first execution is not its business.
pub async fn authorized<T, F, Fut>(answer: Answer<T>, may_see: F) -> Answer<T>
where
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<(), Problem>>,
{
    if !reveals_an_earlier_attempt(&answer) {
        return answer;
    }
    match may_see().await {
        Ok(()) => answer,
        Err(problem) => Answer::Problem(problem),
    }
}

/// The problem of a caller that may not see what an earlier attempt came to.
pub fn replay_forbidden() -> Problem {
    Problem::new(
        ProblemKind::ReplayForbidden,
        "The operation was done before, and its outcome is not shown to this caller. It is not \
         executed again.",
    )
}

/// The problem where it cannot be found out whether a caller may see what an earlier attempt came
/// to.
pub fn authorization_unavailable() -> Problem {
    Problem::new(
        ProblemKind::AuthorizationUnavailable,
        "Whether this caller may see the outcome cannot be found out now. Nothing was executed. \
         Send the same request with the same key again.",
    )
    .retry_after(Duration::from_secs(1))
}

fn reveals_an_earlier_attempt<T>(answer: &Answer<T>) -> bool {
    match answer {
        Answer::Replayed { .. } | Answer::Observed { .. } | Answer::Shared { .. } => true,
        Answer::Problem(problem) => {
            matches!(problem.kind, ProblemKind::OutcomeNotKept | ProblemKind::KeyExpired)
        }
        Answer::First { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{StoreTime, StoredResponse};

    use super::*;
    use crate::FirstOutcome;

    async fn refused(answer: Answer<()>) -> bool {
        let answer = authorized(answer, || async { Err(replay_forbidden()) }).await;
        matches!(answer, Answer::Problem(problem) if problem == replay_forbidden())
    }

    #[tokio::test]
    async fn whatever_shows_an_earlier_attempt_is_withheld_and_nothing_else_is_asked_about() {
        let response = StoredResponse::default;
        let expires = StoreTime::from_micros(0);
        let retry_after = Duration::from_secs(1);
        let problem = |kind| Answer::Problem(Problem::new(kind, ""));
        for revealing in [
            Answer::Replayed { response: response(), expires },
            Answer::Observed { response: response(), retry_after },
            Answer::Shared { response: response() },
            problem(ProblemKind::KeyExpired),
            problem(ProblemKind::OutcomeNotKept),
        ] {
            assert!(refused(revealing).await);
        }
        for other in [
            Answer::First { live: (), outcome: FirstOutcome::Stored { expires } },
            problem(ProblemKind::InFlight),
            problem(ProblemKind::KeyReused),
            problem(ProblemKind::OutcomeUnknown),
            problem(ProblemKind::UpstreamUnreachable),
        ] {
            assert!(!refused(other).await);
        }
    }
}
