//! What must hold in every order of events.

use std::fmt;

/// A property of safety, by what it promises.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Promise {
    /// The effect happens at most once.
    OneEffect,
    /// Success answers agree with each other and with the effect.
    AnswersAgree,
    /// No success is told for another intent.
    OwnOutcome,
    /// No success is told without an effect.
    SuccessHasEffect,
    /// No terminal failure is told where the effect exists, or comes to exist.
    FailureHasNone,
    /// `key-reused` is never told to the intent that took effect.
    ReusedIsTrue,
    /// No attempt is admitted while an earlier one may take effect, unless the service collapses
    /// both.
    AdmittedByPermission,
    /// The service never refuses the present owner as an older attempt.
    PresentIsNotOld,
    /// An outcome that was told is not unknown again.
    ToldStaysKnown,
}

impl Promise {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::OneEffect,
        Self::AnswersAgree,
        Self::OwnOutcome,
        Self::SuccessHasEffect,
        Self::FailureHasNone,
        Self::ReusedIsTrue,
        Self::AdmittedByPermission,
        Self::PresentIsNotOld,
        Self::ToldStaysKnown,
    ];

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::OneEffect => "the effect happens at most once",
            Self::AnswersAgree => "success answers agree with each other and with the effect",
            Self::OwnOutcome => "no success is told for another intent",
            Self::SuccessHasEffect => "no success is told without an effect",
            Self::FailureHasNone => "no terminal failure is told where the effect exists",
            Self::ReusedIsTrue => "key-reused is never told to the intent that took effect",
            Self::AdmittedByPermission => {
                "no attempt is admitted while an earlier one may take effect, without a permission"
            }
            Self::PresentIsNotOld => "the present owner is never refused as an older attempt",
            Self::ToldStaysKnown => "an outcome that was told is not unknown again",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
