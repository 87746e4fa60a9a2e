//! What a service's answer amounts to (`protocol.md` 8 to 11).

use crate::{OutcomeClass, Progress, Retention, Settlement, StoredResponse};

mod outcome;

pub use outcome::{OutcomeRule, OutcomeRules, Told};

/// What the service said of the effect id in `Hapax-Outcome`.
///
/// It speaks for the effect id, not for the attempt: `NotApplied` means that nothing by any
/// attempt up to this one happened or will (`protocol.md` 9).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Said {
    /// `applied`: the effect exists.
    Applied,
    /// `not-applied`: it does not, by any attempt so far, and none of them will still make it.
    NotApplied,
    /// `unknown`: the service does not know either.
    Unknown,
}

impl Said {
    /// Reads the field's value; anything but the three words is `None`, as if it were not there.
    pub fn parse(value: &[u8]) -> Option<Self> {
        match value.trim_ascii() {
            b"applied" => Some(Self::Applied),
            b"not-applied" => Some(Self::NotApplied),
            b"unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// What is known of an answer when it is classified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AnswerFacts {
    /// The status code.
    pub status: u16,
    /// Whether the whole message arrived. A short body, a missing last chunk, a reset or a read
    /// timeout make it incomplete, whatever its status.
    pub complete: bool,
    /// Whether it is settled by its head: a body past the response cap, or an event stream.
    pub by_head: bool,
    /// `Hapax-Outcome`, if the service sent it.
    pub said: Option<Said>,
    /// What its body says, where the operation has it read. Counts with a status of 2xx.
    pub told: Option<Told>,
    /// Whether every admitted earlier attempt is proven not applied (`protocol.md` 8).
    pub clean: bool,
    /// Whether the operation keeps refusals (400, 401, 422, 429) instead of freeing the key.
    pub store_refusals: bool,
}

impl AnswerFacts {
    /// Those of a whole first answer of which no more than its status says anything.
    const fn of_first(status: u16) -> Self {
        Self {
            status,
            complete: true,
            by_head: false,
            said: None,
            told: None,
            clean: true,
            store_refusals: false,
        }
    }
}

/// Whether whoever sees no more of a first answer than its status takes it that nothing happened.
pub fn says_not_applied(status: u16) -> bool {
    classify(AnswerFacts::of_first(status)) == Classified::NotApplied
}

/// What an answer amounts to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Classified {
    /// Final: store it and replay it.
    Outcome(OutcomeClass),
    /// Nothing happened, and nothing by an earlier attempt either: the key is free again.
    NotApplied,
    /// The effect may exist.
    Uncertain {
        /// Whether the answer is complete and so may be shown to retries as observed.
        show: bool,
    },
}

/// Classifies the answer to an admitted attempt.
///
/// **A refusal proves nothing about earlier attempts**: unless the record is clean, only success
/// or the service's own word settles it. An incomplete answer proves nothing at all.
pub fn classify(answer: AnswerFacts) -> Classified {
    let uncertain = Classified::Uncertain { show: answer.complete && !answer.by_head };
    let is_success = (200..300).contains(&answer.status);
    if answer.by_head {
        // Settled before its end was seen, so only a success in the head can be believed; none where
        // the body was to tell.
        let applied = answer.said == Some(Said::Applied)
            || (answer.said.is_none() && is_success && answer.told.is_none());
        return if applied { Classified::Outcome(OutcomeClass::Succeeded) } else { uncertain };
    }
    if !answer.complete {
        return uncertain;
    }
    match answer.said {
        Some(Said::Applied) => return Classified::Outcome(OutcomeClass::Succeeded),
        Some(Said::NotApplied) => return Classified::NotApplied,
        Some(Said::Unknown) => return uncertain,
        None => {}
    }
    let by_answer = match answer.told {
        Some(told) if is_success => by_body(told),
        _ => by_status(answer.status),
    };
    match by_answer {
        ByAnswer::Applied => Classified::Outcome(OutcomeClass::Succeeded),
        _ if !answer.clean => uncertain,
        ByAnswer::NotApplied if answer.store_refusals && kept_refusal(answer.status) => {
            Classified::Outcome(OutcomeClass::FailedTerminal)
        }
        ByAnswer::NotApplied => Classified::NotApplied,
        ByAnswer::Terminal => Classified::Outcome(OutcomeClass::FailedTerminal),
        ByAnswer::Uncertain => uncertain,
    }
}

/// Classifies an attempt that was not answered: whether something of it `may_have_left`, and whether
/// every admitted earlier attempt is proven not applied.
///
/// That it was never sent says nothing about earlier attempts.
pub const fn classify_unanswered(may_have_left: bool, clean: bool) -> Classified {
    if clean && !may_have_left {
        Classified::NotApplied
    } else {
        Classified::Uncertain { show: false }
    }
}

impl Classified {
    /// What is stored of it. `said` is whether the service spoke for the effect id: its word is
    /// about every attempt, a refusal about its own alone.
    pub fn settlement(
        self,
        status: u16,
        said: bool,
        response: Option<StoredResponse>,
        retention: Retention,
    ) -> Settlement {
        match self {
            Self::Outcome(class) => Settlement::Outcome { class, status, response, retention },
            Self::NotApplied => Settlement::NotApplied { every_attempt: said, retention },
            Self::Uncertain { .. } => {
                Settlement::Unknown { observed: response.filter(|_| self.stores_answer()) }
            }
        }
    }

    /// Whether the answer itself is stored with it.
    pub const fn stores_answer(self) -> bool {
        matches!(self, Self::Outcome(_) | Self::Uncertain { show: true })
    }

    /// Whether this is final only of a record that is clean.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::NotApplied | Self::Outcome(OutcomeClass::FailedTerminal))
    }
}

/// Classifies the answer of a handler whose effects are told by its steps, none of which is in
/// doubt; with one in doubt every answer is uncertain.
///
/// A refusal after the first step frees nothing: what the steps did is there. The execution goes
/// on from there with the next retry, unless the handler says that it has undone it all
/// (`Hapax-Outcome: not-applied`).
pub fn classify_steps(answer: AnswerFacts, progress: Progress) -> Classified {
    if let Progress::InDoubt { .. } = progress {
        return Classified::Uncertain { show: answer.complete && !answer.by_head };
    }
    match classify(answer) {
        Classified::NotApplied if answer.said != Some(Said::NotApplied) => {
            Classified::Uncertain { show: true }
        }
        classified => classified,
    }
}

/// Classifies the answer of a handler whose effects are in one transaction: what is not an outcome
/// is rolled back, so it is never uncertain.
pub fn classify_transaction(answer: AnswerFacts) -> Classified {
    match classify(AnswerFacts { clean: true, ..answer }) {
        Classified::Uncertain { .. } => Classified::NotApplied,
        classified => classified,
    }
}

enum ByAnswer {
    Applied,
    NotApplied,
    Terminal,
    Uncertain,
}

/// As with a status, what it says is of this attempt alone.
const fn by_body(told: Told) -> ByAnswer {
    match told {
        Told::Applied => ByAnswer::Applied,
        Told::NotApplied => ByAnswer::NotApplied,
        Told::Failed => ByAnswer::Terminal,
        Told::Unknown => ByAnswer::Uncertain,
    }
}

/// The documented trust in the upstream (`protocol.md` 10).
fn by_status(status: u16) -> ByAnswer {
    match status {
        200..=299 | 301..=303 => ByAnswer::Applied,
        307
        | 308
        | 400
        | 401
        | 405
        | 411
        | 413..=415
        | 417
        | 421
        | 422
        | 425
        | 426
        | 428
        | 429
        | 431 => ByAnswer::NotApplied,
        402 | 403 | 404 | 409 | 410 | 412 | 451 => ByAnswer::Terminal,
        // 406, 408, 416, 418, 424, every 5xx, other 3xx and whatever nobody has defined.
        _ => ByAnswer::Uncertain,
    }
}

/// The refusals that `store_refusals = true` keeps.
const fn kept_refusal(status: u16) -> bool {
    matches!(status, 400 | 401 | 422 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCEEDED: Classified = Classified::Outcome(OutcomeClass::Succeeded);
    const TERMINAL: Classified = Classified::Outcome(OutcomeClass::FailedTerminal);
    const SHOWN: Classified = Classified::Uncertain { show: true };
    const HIDDEN: Classified = Classified::Uncertain { show: false };

    #[test]
    fn the_lists_of_the_protocol_on_a_clean_attempt() {
        for status in (100..=999).chain([0, u16::MAX]) {
            let expected = match status {
                200..=299 | 301 | 302 | 303 => SUCCEEDED,
                307 | 308 | 400 | 401 | 405 | 411 | 413 | 414 | 415 | 417 | 421 | 422 | 425
                | 426 | 428 | 429 | 431 => Classified::NotApplied,
                402 | 403 | 404 | 409 | 410 | 412 | 451 => TERMINAL,
                _ => SHOWN,
            };
            assert_eq!(classify(AnswerFacts::of_first(status)), expected, "{status}");
        }
    }

    #[test]
    fn after_a_step_a_refusal_frees_nothing_and_in_doubt_nothing_is_final() {
        let said = |said| AnswerFacts { said: Some(said), ..AnswerFacts::of_first(503) };
        for (answer, expected) in [
            (AnswerFacts::of_first(200), SUCCEEDED),
            (AnswerFacts::of_first(402), TERMINAL),
            (AnswerFacts::of_first(422), SHOWN),
            (AnswerFacts::of_first(500), SHOWN),
            (said(Said::Applied), SUCCEEDED),
            (said(Said::NotApplied), Classified::NotApplied),
            (AnswerFacts { complete: false, ..AnswerFacts::of_first(200) }, HIDDEN),
        ] {
            assert_eq!(classify_steps(answer, Progress::Accounted), expected, "{answer:?}");
            let in_doubt = Progress::InDoubt { resend_before: None };
            let expected = if answer.complete { SHOWN } else { HIDDEN };
            assert_eq!(classify_steps(answer, in_doubt), expected, "{answer:?}");
        }
    }

    #[test]
    fn in_a_transaction_nothing_is_uncertain() {
        for (answer, expected) in [
            (AnswerFacts::of_first(201), SUCCEEDED),
            (AnswerFacts::of_first(409), TERMINAL),
            (AnswerFacts::of_first(422), Classified::NotApplied),
            (AnswerFacts::of_first(500), Classified::NotApplied),
            (AnswerFacts::of_first(418), Classified::NotApplied),
            (AnswerFacts { complete: false, ..AnswerFacts::of_first(200) }, Classified::NotApplied),
            (AnswerFacts { by_head: true, ..AnswerFacts::of_first(200) }, SUCCEEDED),
            (AnswerFacts { by_head: true, ..AnswerFacts::of_first(402) }, Classified::NotApplied),
        ] {
            assert_eq!(classify_transaction(answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn p51_a_refusal_of_a_later_attempt_proves_nothing_about_the_earlier() {
        for status in [400, 401, 402, 404, 409, 422, 429, 500, 503] {
            let answer = AnswerFacts { clean: false, ..AnswerFacts::of_first(status) };
            assert_eq!(classify(answer), SHOWN, "{status}");
        }
        assert_eq!(classify(AnswerFacts { clean: false, ..AnswerFacts::of_first(201) }), SUCCEEDED);
    }

    #[test]
    fn an_incomplete_answer_proves_nothing_whatever_it_says() {
        for said in [None, Some(Said::Applied), Some(Said::NotApplied)] {
            for status in [200, 400, 500] {
                let answer = AnswerFacts { complete: false, said, ..AnswerFacts::of_first(status) };
                assert_eq!(classify(answer), HIDDEN, "{status} {said:?}");
            }
        }
    }

    #[test]
    fn the_services_own_word_goes_before_its_status() {
        for clean in [true, false] {
            let said = |said, status| {
                classify(AnswerFacts { said: Some(said), clean, ..AnswerFacts::of_first(status) })
            };
            assert_eq!(said(Said::Applied, 500), SUCCEEDED);
            assert_eq!(said(Said::NotApplied, 503), Classified::NotApplied);
            assert_eq!(said(Said::Unknown, 200), SHOWN);
        }
    }

    #[test]
    fn an_answer_settled_by_its_head_is_success_or_uncertain() {
        let head = |status, said| AnswerFacts {
            complete: false,
            by_head: true,
            said,
            ..AnswerFacts::of_first(status)
        };
        assert_eq!(classify(head(200, None)), SUCCEEDED);
        assert_eq!(classify(head(302, None)), HIDDEN);
        assert_eq!(classify(head(400, None)), HIDDEN);
        assert_eq!(classify(head(500, Some(Said::Applied))), SUCCEEDED);
        assert_eq!(classify(head(200, Some(Said::Unknown))), HIDDEN);
        assert_eq!(classify(head(200, Some(Said::NotApplied))), HIDDEN);
    }

    #[test]
    fn where_the_body_tells_its_word_goes_before_a_2xx_and_after_the_services_own() {
        let told = |told, status| AnswerFacts { told: Some(told), ..AnswerFacts::of_first(status) };
        for (told_, expected) in [
            (Told::Applied, SUCCEEDED),
            (Told::NotApplied, Classified::NotApplied),
            (Told::Failed, TERMINAL),
            (Told::Unknown, SHOWN),
        ] {
            assert_eq!(classify(told(told_, 200)), expected, "{told_:?}");
            let later = AnswerFacts { clean: false, ..told(told_, 200) };
            let expected = if told_ == Told::Applied { SUCCEEDED } else { SHOWN };
            assert_eq!(classify(later), expected, "a later attempt, {told_:?}");
            let broken = AnswerFacts { complete: false, ..told(told_, 200) };
            assert_eq!(classify(broken), HIDDEN, "{told_:?}");
            let said = AnswerFacts { said: Some(Said::Unknown), ..told(told_, 200) };
            assert_eq!(classify(said), SHOWN, "{told_:?}");
            assert_eq!(classify(told(told_, 404)), TERMINAL, "{told_:?}");
            assert_eq!(classify(told(told_, 500)), SHOWN, "{told_:?}");
        }
        let head = AnswerFacts { by_head: true, complete: false, ..told(Told::Unknown, 200) };
        assert_eq!(classify(head), HIDDEN);
        let said = AnswerFacts { said: Some(Said::Applied), ..head };
        assert_eq!(classify(said), SUCCEEDED);
    }

    #[test]
    fn store_refusals_keeps_the_four_refusals_and_only_when_clean() {
        for (status, expected) in [
            (400, TERMINAL),
            (401, TERMINAL),
            (422, TERMINAL),
            (429, TERMINAL),
            (413, Classified::NotApplied),
            (500, SHOWN),
        ] {
            let answer = AnswerFacts { store_refusals: true, ..AnswerFacts::of_first(status) };
            assert_eq!(classify(answer), expected, "{status}");
            if status < 500 {
                assert_eq!(classify(AnswerFacts { clean: false, ..answer }), SHOWN);
            }
        }
    }

    #[test]
    fn only_the_three_words_are_an_outcome() {
        assert_eq!(Said::parse(b" applied "), Some(Said::Applied));
        assert_eq!(Said::parse(b"Applied"), None);
        assert_eq!(Said::parse(b""), None);
        assert_eq!(Said::parse(b"\xff"), None);
    }
}
