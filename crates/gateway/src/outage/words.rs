//! What a run without a record came to, in the words of spools, answers and metrics.

use std::time::Duration;

use hapax::{
    Ended as Execution,
    http::headers::{HAPAX_OUTCOME, IDEMPOTENT_REPLAYED},
};
use hapax_core::{
    AnswerFacts, Classified, OutcomeClass, Problem, ProblemKind, Said, StoredResponse, Told,
    classify,
};
use http::{HeaderName, HeaderValue, Response};

use crate::{answer_body::AnswerBody, spool::Ended};

/// Marks an answer to a request that ran without a record.
const HAPAX_UNPROTECTED: HeaderName = HeaderName::from_static("hapax-unprotected");

/// An answer that is kept in memory until it can be stored, marked as it was the first time.
pub(super) fn kept(response: StoredResponse, word: &'static str) -> Response<AnswerBody> {
    let mut response = hapax::http::respond(hapax::Answer::Shared { response });
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    mark(&mut response, word);
    response
}

pub(super) fn mark(response: &mut Response<AnswerBody>, word: &'static str) {
    let said = match word {
        "applied" => "applied",
        "not_applied" => "not-applied",
        _ => "unknown",
    };
    let headers = response.headers_mut();
    headers.insert(HAPAX_OUTCOME, HeaderValue::from_static(said));
    headers.insert(HAPAX_UNPROTECTED, HeaderValue::from_static("store-down"));
}

/// What a run came to, as far as a spool keeps it.
pub(super) fn ended(run: &str, execution: &Execution) -> Ended {
    let run = run.to_owned();
    let nothing = |sent| Ended {
        run: run.clone(),
        sent,
        status: None,
        by_head: false,
        said: None,
        told: None,
    };
    match execution {
        Execution::Answered(reply) => Ended {
            run: run.clone(),
            sent: true,
            status: Some(reply.status),
            by_head: reply.response.is_none(),
            said: reply.said.map(|said| said_word(said).to_owned()),
            told: reply.told.map(|told| told_word(told).to_owned()),
        },
        Execution::Lost => nothing(true),
        Execution::NeverSent => nothing(false),
    }
}

/// What a run's end amounts to. `clean`: nothing was known of its key before.
pub(super) fn judge(store_refusals: bool, ended: &Ended, clean: bool) -> Classified {
    let Some(status) = ended.status else {
        let not_applied = !ended.sent && clean;
        return if not_applied {
            Classified::NotApplied
        } else {
            Classified::Uncertain { show: false }
        };
    };
    classify(AnswerFacts {
        status,
        complete: true,
        by_head: ended.by_head,
        said: ended.said.as_deref().and_then(|said| Said::parse(said.as_bytes())),
        told: ended.told.as_deref().map(told_of),
        clean,
        store_refusals,
    })
}

/// What its caller is told of it. Nobody knows what earlier attempts came to; only what the service
/// says speaks for them.
pub(super) fn word(store_refusals: bool, ended: &Ended) -> &'static str {
    match judge(store_refusals, ended, false) {
        Classified::Outcome(OutcomeClass::Succeeded) => "applied",
        Classified::NotApplied => "not_applied",
        Classified::Uncertain { .. } if !ended.sent => "not_sent",
        // A refusal says nothing of earlier attempts, and nobody knows of any.
        Classified::Outcome(OutcomeClass::FailedTerminal) | Classified::Uncertain { .. } => {
            "unknown"
        }
    }
}

const fn said_word(said: Said) -> &'static str {
    match said {
        Said::Applied => "applied",
        Said::NotApplied => "not-applied",
        Said::Unknown => "unknown",
    }
}

const fn told_word(told: Told) -> &'static str {
    match told {
        Told::Applied => "applied",
        Told::NotApplied => "not-applied",
        Told::Failed => "failed",
        Told::Unknown => "unknown",
    }
}

fn told_of(word: &str) -> Told {
    match word {
        "applied" => Told::Applied,
        "not-applied" => Told::NotApplied,
        "failed" => Told::Failed,
        _ => Told::Unknown,
    }
}

/// What the history says of an end.
pub(super) fn seen(ended: &Ended) -> String {
    match ended.status {
        Some(status) => format!("answered {status}"),
        None if ended.sent => "sent, without a complete answer".to_owned(),
        None => "never sent".to_owned(),
    }
}

pub(super) fn not_noted() -> Problem {
    Problem::new(
        ProblemKind::StoreUnavailable,
        "Nothing was executed: the store of operations is not available. Send the same request \
         with the same key again.",
    )
    .retry_after(Duration::from_secs(1))
}

pub(super) fn without_answer(word: &str) -> Problem {
    if word == "not_sent" {
        return Problem::new(
            ProblemKind::UpstreamUnreachable,
            "Nothing was executed now: the service could not be reached. Send the same request \
             with the same key again.",
        )
        .retry_after(Duration::from_secs(1));
    }
    Problem::new(
        ProblemKind::OutcomeUnknown,
        "The operation may have taken effect and its outcome is not known. Ask again with the \
         same key; do not send it under a new one.",
    )
    .retry_after(Duration::from_secs(5))
}

pub(super) fn key_reused() -> Problem {
    Problem::new(
        ProblemKind::KeyReused,
        "This key was first used for another request. Send the same request again, or use a new \
         key for a new intent.",
    )
}

pub(super) fn in_flight() -> Problem {
    Problem::new(
        ProblemKind::InFlight,
        "A request with this key is being executed. Ask again with the same key.",
    )
    .retry_after(Duration::from_secs(1))
}

pub(super) fn ran_without_record() -> Problem {
    Problem::new(
        ProblemKind::OutcomeUnknown,
        "The operation ran while the store of operations was not available, and is not executed \
         again. Ask again with the same key.",
    )
    .retry_after(Duration::from_secs(5))
}
