//! What a run came to.

use std::fmt;

use thiserror::Error;

use super::{Fault, Point};

/// What was tried, and how it ended. Prints as a table of points and faults.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    pub(super) tried: Vec<Tried>,
}

/// One world: a fault at a point, and how that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Tried {
    /// Where.
    pub point: Point,
    /// What was done there.
    pub fault: Fault,
    /// What it came to.
    pub end: End,
    /// Whether nothing was wrong in it.
    pub is_right: bool,
}

/// What a request came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum End {
    /// A final answer.
    Final,
    /// Its outcome is unknown, and nothing is executed.
    OnHold,
    /// Nothing final within the retries.
    Open,
}

impl Report {
    /// All that was tried, in order.
    ///
    /// ```
    /// # fn print(report: &hapax::testing::Report) {
    /// for tried in report.tried() {
    ///     println!("{}: {}: {:?}", tried.point, tried.fault, tried.end);
    /// }
    /// # }
    /// ```
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut points: Vec<&Point> = Vec::new();
        for tried in &self.tried {
            if !points.contains(&&tried.point) {
                points.push(&tried.point);
            }
        }
        let is_tried = |fault: &Fault| self.tried.iter().any(|tried| tried.fault == *fault);
        let faults: Vec<_> = Fault::ALL.into_iter().filter(is_tried).collect();
        let wide = points.iter().map(|point| point.to_string().len()).max().unwrap_or(0);
        write!(f, "{:wide$}", "")?;
        for fault in &faults {
            write!(f, "  {}", fault.word())?;
        }
        for point in points {
            write!(f, "\n{:wide$}", point.to_string())?;
            for fault in &faults {
                let here = |tried: &&Tried| tried.point == *point && tried.fault == *fault;
                let cell = self.tried.iter().find(here).map_or("", Tried::word);
                write!(f, "  {cell:0$}", fault.word().len())?;
            }
        }
        Ok(())
    }
}

impl Tried {
    const fn word(&self) -> &'static str {
        match (self.is_right, self.end) {
            (false, _) => "WRONG",
            (true, End::OnHold) => "held",
            (true, End::Final | End::Open) => "once",
        }
    }
}

/// All that was wrong, and the table of what was tried.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub struct Violations {
    pub(super) violations: Vec<Violation>,
    pub(super) report: Report,
}

impl Violations {
    /// Each of them, in the order in which they were found.
    ///
    /// ```
    /// # use hapax::testing::{Rule, Violations};
    /// fn is_done_twice(violations: &Violations) -> bool {
    ///     violations.all().iter().any(|violation| violation.rule == Rule::EffectsOnce)
    /// }
    /// # let _ = is_done_twice;
    /// ```
    pub fn all(&self) -> &[Violation] {
        &self.violations
    }

    /// What was tried.
    pub const fn report(&self) -> &Report {
        &self.report
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times it was not as it should be", self.violations.len())?;
        for violation in &self.violations {
            write!(f, "\n\n{violation}")?;
        }
        if !self.report.tried.is_empty() {
            write!(f, "\n\n{}", self.report)?;
        }
        Ok(())
    }
}

/// Something that was not as it should be.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Violation {
    /// The point and the fault; `None`: undisturbed.
    pub at: Option<(Point, Fault)>,
    /// What should be.
    pub rule: Rule,
    /// What was seen instead.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((point, fault)) => writeln!(f, "at {point}: {fault}")?,
            None => writeln!(f, "undisturbed")?,
        }
        writeln!(f, "  seen:  {}", self.seen)?;
        writeln!(f, "  right: {}", self.rule)?;
        write!(f, "  look:  {}", self.rule.look())
    }
}

/// What is right.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Rule {
    /// A world has no effects before its request.
    Fresh,
    /// Undisturbed, the handler has an effect, and a success that is stored.
    Undisturbed,
    /// Every effect happens at most once, and once if a success was answered.
    EffectsOnce,
    /// All final answers are the same, and retries are told that they are replays.
    AnswersAgree,
    /// The final answer is one that the test calls right.
    AnswerRight,
    /// Another request under the same key is refused.
    IntentRefused,
    /// What the undisturbed handler passes, it passes each time.
    Reached,
    /// An attempt that succeeds passes the steps of the undisturbed one.
    StepsSame,
    /// A step has the same effect id in all attempts.
    EffectIdsSame,
    /// Retries come to an end.
    Ends,
    /// What may have happened, and may not be done again, is held.
    Holds,
    /// What is known, or may be done again, is not held.
    GoesOn,
}

impl Rule {
    const fn look(self) -> &'static str {
        match self {
            Self::Fresh => {
                "the closure that makes worlds shares something between them: a counter, a file, an \
                 engine"
            }
            Self::Undisturbed => {
                "the log of the engine says why an answer is not kept. Does the handler give its \
                 Tx back, and write through it alone? Are its effects counted?"
            }
            Self::EffectsOnce => {
                "what is done outside of a step is done by every attempt; an idempotent step, and \
                 a call that may be resent, is done again with the effect id that it is given: the \
                 other side has to get it, and to collapse on it; what belongs to a Tx or a step \
                 is written through its transaction"
            }
            Self::AnswersAgree => {
                "does something behind the layer change answers that are replayed?"
            }
            Self::AnswerRight => "the closure given to `right`, and what the answer is made of",
            Self::IntentRefused => "the fingerprint of the operation leaves out what is different",
            Self::Reached | Self::StepsSame => {
                "the names of steps, and which steps there are, depend on the request and on what \
                 earlier steps gave; never on the attempt, the time or chance"
            }
            Self::EffectIdsSame => "the effect secret is the same for all attempts",
            Self::Ends => "the log of the engine; does the handler fail for another reason?",
            Self::Holds | Self::GoesOn => {
                "this should not be possible: please report it with the table below"
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "a world has no effects before its request",
            Self::Undisturbed => {
                "undisturbed, the handler has an effect, and answers a success that is stored"
            }
            Self::EffectsOnce => {
                "every effect happens at most once, and once if a success was answered"
            }
            Self::AnswersAgree => "all final answers are the same bytes, and retries are replays",
            Self::AnswerRight => "the final answer is one that the test calls right",
            Self::IntentRefused => "another request under the same key is refused",
            Self::Reached => "what the undisturbed handler passes, it passes each time",
            Self::StepsSame => "an attempt that succeeds passes the steps of the undisturbed one",
            Self::EffectIdsSame => "a step has the same effect id in all attempts",
            Self::Ends => "retries come to a final answer, or are told that the outcome is held",
            Self::Holds => "what may have happened, and may not be done again, is held",
            Self::GoesOn => "what is known, or may be done again, is not held",
        })
    }
}
