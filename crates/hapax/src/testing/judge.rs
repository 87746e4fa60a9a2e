//! What is right, and what was seen instead.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{Response, header::CONTENT_TYPE};

use super::{
    Fault, Kind, Passed, Point,
    harness::IsRight,
    report::{End, Rule, Violation},
    trial::{Got, RETRIES, Seen, is_final},
};
use crate::{http::headers::IDEMPOTENT_REPLAYED, points::Moment};

/// What the undisturbed run teaches.
#[derive(Debug)]
pub(super) struct Undisturbed {
    effects: Vec<String>,
    steps: Vec<Point>,
    /// What may be done again while its outcome is unknown.
    resends: Vec<Point>,
    /// The service is one call, from its claim to its outcome.
    is_whole: bool,
}

impl Undisturbed {
    pub(super) fn of(seen: &Seen) -> Self {
        let happened = seen.effects.iter().filter(|(_, times)| *times > 0);
        let resends = seen.passed.iter().filter(|passed| passed.resends);
        Self {
            effects: happened.map(|(name, _)| name.clone()).collect(),
            steps: steps_of_last_attempt(&seen.passed),
            resends: resends.map(|passed| passed.point.clone()).collect(),
            is_whole: seen.passed.iter().any(|passed| passed.point.kind() == Kind::Service),
        }
    }

    /// How the outcome stands after this fault.
    fn expected(&self, point: &Point, fault: Fault) -> Expected {
        let kind = point.kind();
        let resends = |kind: Kind| self.resends.iter().any(|point| point.kind() == kind);
        let is_doubted = match kind {
            _ if self.is_whole => !resends(Kind::Service),
            Kind::Call => !self.resends.contains(point),
            _ => false,
        };
        match (fault, kind) {
            _ if !is_doubted => Expected::Known,
            (Fault::Stall, _) => Expected::Either,
            (Fault::Begun | Fault::After | Fault::Lost | Fault::Panic | Fault::Hang, _)
            | (Fault::Stored, Kind::Claim)
            | (Fault::Before, Kind::Service | Kind::Settle) => Expected::OnHold,
            _ => Expected::Known,
        }
    }
}

/// How the outcome stands after a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Expected {
    /// Unknown, and held.
    OnHold,
    /// It depends on who is first.
    Either,
    /// Known, or to be found out by doing it again.
    Known,
}

/// All that is wrong in what was seen. Without `undisturbed`, that is what is judged.
pub(super) fn judge(
    seen: &Seen,
    undisturbed: Option<&Undisturbed>,
    is_right: Option<&IsRight>,
) -> Vec<Violation> {
    let mut judge = Judge { seen, violations: Vec::new() };
    judge.effects(undisturbed);
    judge.answers(is_right);
    judge.changed();
    judge.effect_ids();
    match undisturbed {
        None => judge.undisturbed(),
        Some(undisturbed) => {
            judge.end(undisturbed);
            judge.steps(undisturbed);
        }
    }
    judge.violations
}

struct Judge<'a> {
    seen: &'a Seen,
    violations: Vec<Violation>,
}

impl Judge<'_> {
    fn violated(&mut self, rule: Rule, seen: String) {
        let at = self.seen.disturbed.clone();
        self.violations.push(Violation { at, rule, seen });
    }

    fn effects(&mut self, undisturbed: Option<&Undisturbed>) {
        let seen = self.seen;
        for (name, times) in seen.effects_before.iter().filter(|(_, times)| *times > 0) {
            let seen = format!("`{name}` had happened {times} times before the request");
            self.violated(Rule::Fresh, seen);
        }
        for (name, times) in seen.effects.iter().filter(|(_, times)| *times > 1) {
            let answers = self.all_answers();
            self.violated(
                Rule::EffectsOnce,
                format!("`{name}` happened {times} times; answers: {answers}"),
            );
        }
        let success = seen.answers.iter().flatten().find(|answer| answer.status().is_success());
        let (Some(success), Some(undisturbed)) = (success, undisturbed) else { return };
        for name in &undisturbed.effects {
            let there = seen.effects.iter().any(|(there, times)| there == name && *times > 0);
            if !there {
                let answer = described(success);
                self.violated(
                    Rule::EffectsOnce,
                    format!("`{name}` did not happen, and the answer was {answer}"),
                );
            }
        }
    }

    fn answers(&mut self, is_right: Option<&IsRight>) {
        let mut finals = self.seen.answers.iter().filter(|got| is_final(got)).flatten();
        let Some(first) = finals.next() else { return };
        for other in finals.chain(self.seen.replay.iter().flatten()) {
            if !are_same(first, other) {
                let seen = format!("first {}, then {}", described(first), described(other));
                self.violated(Rule::AnswersAgree, seen);
            }
        }
        let replayed = |got: &Got| {
            got.as_ref().is_ok_and(|answer| answer.headers().contains_key(IDEMPOTENT_REPLAYED))
        };
        if let Some(replay) = self.seen.replay.as_ref().filter(|replay| !replayed(replay)) {
            self.violated(Rule::AnswersAgree, format!("one more retry got {}", told(replay)));
        }
        if is_right.is_some_and(|is_right| !is_right(first)) {
            self.violated(Rule::AnswerRight, format!("the final answer is {}", described(first)));
        }
    }

    fn changed(&mut self) {
        // While a claim is not committed, it is not known what it is for.
        let is_refused = |got: &&Got| {
            got.as_ref().is_ok_and(|answer| {
                let problem = problem(answer);
                problem.ends_with(":key-reused") || problem.ends_with(":in-flight")
            })
        };
        for got in self.seen.changed.iter().filter(|got| !is_refused(got)) {
            self.violated(Rule::IntentRefused, format!("it got {}", told(got)));
        }
    }

    fn effect_ids(&mut self) {
        let mut ids = BTreeMap::<_, BTreeSet<_>>::new();
        for passed in &self.seen.passed {
            if let Some((_, id)) = passed.step {
                ids.entry(passed.point.name()).or_default().insert(id.to_string());
            }
        }
        for (step, ids) in ids.into_iter().filter(|(_, ids)| ids.len() > 1) {
            self.violated(Rule::EffectIdsSame, format!("`{step}` was done under {ids:?}"));
        }
    }

    fn undisturbed(&mut self) {
        let seen = self.seen;
        let first = seen.answers.first();
        let is_success = |got: &&Got| {
            is_final(got) && got.as_ref().is_ok_and(|answer| answer.status().is_success())
        };
        if first.filter(is_success).is_none() {
            let answer = first.map_or_else(String::new, told);
            self.violated(Rule::Undisturbed, format!("the first answer was {answer}"));
        }
        if seen.effects.iter().all(|(_, times)| *times == 0) {
            self.violated(Rule::Undisturbed, "no effect was counted".to_owned());
        }
    }

    fn end(&mut self, undisturbed: &Undisturbed) {
        let seen = self.seen;
        let Some((point, fault)) = &seen.disturbed else { return };
        if !seen.is_struck {
            return self.violated(Rule::Reached, format!("`{point}` was not passed this time"));
        }
        match (seen.end, undisturbed.expected(point, *fault)) {
            (End::Open, _) => {
                let seen = format!("after {RETRIES} retries: {}", self.all_answers());
                self.violated(Rule::Ends, seen);
            }
            (End::OnHold, Expected::Known) => {
                let seen = self.all_answers();
                self.violated(Rule::GoesOn, format!("the outcome is held: {seen}"));
            }
            (End::Final, Expected::OnHold) => {
                let seen = self.all_answers();
                self.violated(Rule::Holds, format!("it was executed again: {seen}"));
            }
            _ => {}
        }
    }

    fn steps(&mut self, undisturbed: &Undisturbed) {
        let is_success = |got: &Got| {
            is_final(got) && got.as_ref().is_ok_and(|answer| answer.status().is_success())
        };
        if !self.seen.answers.iter().any(is_success) {
            return;
        }
        let steps = steps_of_last_attempt(&self.seen.passed);
        if steps != undisturbed.steps {
            let (steps, before) = (list(&steps), list(&undisturbed.steps));
            self.violated(Rule::StepsSame, format!("{steps}; undisturbed: {before}"));
        }
    }

    fn all_answers(&self) -> String {
        let answers: Vec<_> = self.seen.answers.iter().map(told).collect();
        answers.join(", ")
    }
}

/// The steps that the last attempt passed, in order.
fn steps_of_last_attempt(passed: &[Passed]) -> Vec<Point> {
    let begun = || {
        let steps = passed.iter().filter(|passed| passed.moment == Moment::Before);
        steps.filter_map(|passed| Some((passed.step?.0.to_wire(), &passed.point)))
    };
    let last = begun().map(|(attempt, _)| attempt).max();
    begun().filter(|(attempt, _)| Some(*attempt) == last).map(|(_, point)| point.clone()).collect()
}

fn are_same(one: &Response<Bytes>, other: &Response<Bytes>) -> bool {
    let media_type = |answer: &Response<Bytes>| answer.headers().get(CONTENT_TYPE).cloned();
    one.status() == other.status()
        && one.body() == other.body()
        && media_type(one) == media_type(other)
}

/// The type of the problem that an answer is; empty for another one.
fn problem(answer: &Response<Bytes>) -> String {
    let is_problem = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|media_type| media_type == "application/problem+json");
    let parsed = serde_json::from_slice::<serde_json::Value>(answer.body());
    let Some(problem) = parsed.ok().filter(|_| is_problem) else { return String::new() };
    problem["type"].as_str().unwrap_or_default().to_owned()
}

fn told(got: &Got) -> String {
    match got {
        Ok(answer) => described(answer),
        Err(why) => format!("({why})"),
    }
}

fn described(answer: &Response<Bytes>) -> String {
    let status = answer.status().as_u16();
    let problem = problem(answer);
    if !problem.is_empty() {
        return format!("{status} {problem}");
    }
    let body = String::from_utf8_lossy(answer.body());
    let short: String = body.chars().take(120).collect();
    let more = if short.len() < body.len() { "…" } else { "" };
    format!("{status} {short:?}{more}")
}

fn list(points: &[Point]) -> String {
    let names: Vec<_> = points.iter().map(ToString::to_string).collect();
    names.join(", ")
}
