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
///
/// A [`replay_forbidden`] says what is so: an outcome that was observed need not be one, and behind
/// the refusal that a copy waited for, the key is free, so that copy is told to ask again.
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
        Err(problem) => Answer::Problem(withheld(&answer, problem)),
    }
}

fn withheld<T>(answer: &Answer<T>, mut problem: Problem) -> Problem {
    if problem.kind != ProblemKind::ReplayForbidden {
        return problem;
    }
    match answer {
        Answer::Shared { .. } => Problem::new(
            ProblemKind::InFlight,
            "A request with this key was being executed, and what came of it is not shown to this \
             caller. Ask again with the same key.",
        )
        .retry_after(Duration::from_secs(1)),
        Answer::Observed { .. } => {
            problem.detail =
                "The operation may have been done before, and what is known of it is not \
                              shown to this caller. Nothing was executed by this request."
                    .into();
            problem
        }
        _ => problem,
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

    /// The problem that stands for an answer, if it is asked about.
    async fn told(answer: Answer<()>, problem: Problem) -> Option<Problem> {
        let mut asked = false;
        let answer = authorized(answer, || {
            asked = true;
            async { Err(problem) }
        });
        match (answer.await, asked) {
            (Answer::Problem(problem), true) => Some(problem),
            _ => None,
        }
    }

    async fn refused(answer: Answer<()>) -> bool {
        told(answer, replay_forbidden()).await.is_some()
    }

    #[tokio::test]
    async fn what_is_withheld_is_not_said_to_have_been_done_where_it_need_not_have_been() {
        let (response, retry_after) = (StoredResponse::default, Duration::from_secs(9));
        let shared = || Answer::Shared { response: response() };
        let observed = || Answer::Observed { response: response(), retry_after };
        let replayed =
            || Answer::Replayed { response: response(), expires: StoreTime::from_micros(0) };

        // The key is free: the next one with it executes.
        let in_flight = told(shared(), replay_forbidden()).await.unwrap();
        assert_eq!(in_flight.kind, ProblemKind::InFlight);
        assert_eq!((in_flight.retry_after.is_some(), in_flight.says), (true, Some("unknown")));

        let forbidden = replay_forbidden().with_status(401).challenging("Bearer");
        let unknown = told(observed(), forbidden.clone()).await.unwrap();
        assert_eq!((unknown.kind, unknown.status), (forbidden.kind, 401));
        assert_eq!(unknown.challenge, forbidden.challenge);
        assert!(!unknown.detail.contains("was done"), "{}", unknown.detail);
        assert_eq!(told(replayed(), forbidden.clone()).await, Some(forbidden));

        for answer in [shared(), observed(), replayed()] {
            let told = told(answer, authorization_unavailable()).await;
            assert_eq!(told, Some(authorization_unavailable()));
        }
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
            Answer::First { live: (), outcome: FirstOutcome::Stored { expires: Some(expires) } },
            problem(ProblemKind::InFlight),
            problem(ProblemKind::KeyReused),
            problem(ProblemKind::OutcomeUnknown),
            problem(ProblemKind::UpstreamUnreachable),
        ] {
            assert!(!refused(other).await);
        }
    }
}
