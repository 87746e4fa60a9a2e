//! The judge of histories. Pure: a history in, findings out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{Arrived, Call, History, Made, Recorded, Told};

/// What must not be in a history.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// An intent took effect more than once.
    Twice,
    /// A success was told, and the service did nothing.
    SuccessWithoutEffect,
    /// A success names another effect than the one that was made.
    AnotherEffect,
    /// It was told that nothing happened, or will, and the effect was there.
    DeniedEffect,
    /// Two final answers of one intent differ.
    AnswersDisagree,
    /// After a final answer another one was given, or none; or the record knows nothing of it.
    Forgotten,
    /// One effect id asked for two things, and the first was not known to have done nothing.
    ChangedIntent,
    /// An intent was refused as another one, and there was no other.
    RefusedWithoutCause,
    /// An answer that settles nothing does not say so.
    DoubtNotSaid,
    /// One attempt arrived twice.
    SentTwice,
    /// An attempt followed one whose outcome was unknown, without a permission.
    NoPermit,
    /// What arrived has no record.
    NoRecord,
    /// Nobody is at it, and it still counts as executing.
    NotHealed,
}

/// What is wrong, and in which calls it shows.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Finding {
    /// Which rule is broken.
    pub rule: Rule,
    /// What happened.
    pub words: String,
    /// The numbers of the calls.
    pub calls: Vec<u64>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} (calls {:?})", self.rule, self.words, self.calls)
    }
}

/// What an answer says about the intent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Meaning {
    /// The effect exists, and this is its answer.
    Success,
    /// There is no effect, and there will be none.
    Failure,
    /// There is none so far, and the key is free.
    Freed,
    /// Nobody knows.
    Unknown,
    /// It was not looked at: nothing is said of the intent.
    Refused,
    /// It settles nothing and does not say so.
    Silent,
}

/// The statuses that free a key by themselves (GUARANTEES.md).
const FREEING: [u16; 17] =
    [307, 308, 400, 401, 405, 411, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429, 431];

/// The problems after which an earlier final answer may still be what holds.
const PASSING: [&str; 4] = ["store-unavailable", "draining", "policy-unknown", "key-expired"];

impl Told {
    fn meaning(&self) -> Meaning {
        let says_unknown = self.outcome.as_deref() == Some("unknown");
        match (self.problem.as_deref(), self.outcome.as_deref()) {
            (Some("outcome-unknown" | "in-flight"), _) if !says_unknown => Meaning::Silent,
            (Some("outcome-unknown" | "in-flight"), _) | (None, Some("unknown")) => {
                Meaning::Unknown
            }
            (_, Some("not-applied")) => Meaning::Freed,
            (Some(_), _) => Meaning::Refused,
            (None, _) if matches!(self.status, 200..=299 | 301..=303) => Meaning::Success,
            (None, _) if self.kept || self.replayed => Meaning::Failure,
            (None, _) if FREEING.contains(&self.status) => Meaning::Freed,
            (None, _) => Meaning::Silent,
        }
    }

    fn is_final(&self) -> bool {
        matches!(self.meaning(), Meaning::Success | Meaning::Failure)
    }

    fn shown(&self) -> String {
        match &self.problem {
            Some(problem) => format!("{} {problem}", self.status),
            None => format!("{} {}", self.status, self.body),
        }
    }
}

impl History {
    /// All that is wrong with it; nothing if it is as promised.
    pub fn findings(&self) -> Vec<Finding> {
        let mut judge = Judge::of(self);
        for intent in judge.intents.clone() {
            judge.effects_of(&intent);
            judge.answers_of(&intent);
        }
        for (_, calls) in by(&self.calls, |call| &call.key) {
            judge.intents_under_one_key(&calls);
        }
        for (effect_id, arrivals) in by(&self.arrivals, |arrival| &arrival.effect_id) {
            judge.attempts_of(&effect_id, &arrivals);
        }
        judge.records();
        judge.findings
    }

    /// Asserts that nothing is wrong with it.
    ///
    /// # Panics
    /// With all that is wrong, and the history of what is concerned.
    #[track_caller]
    pub fn assert_as_promised(&self) {
        let findings = self.findings();
        let text: Vec<_> = findings.iter().map(ToString::to_string).collect();
        let numbers: BTreeSet<_> = findings.iter().flat_map(|finding| &finding.calls).collect();
        let calls: Vec<_> = self.calls.iter().filter(|call| numbers.contains(&call.n)).collect();
        assert!(findings.is_empty(), "{}\n{calls:#?}", text.join("\n"));
    }
}

struct Judge<'a> {
    history: &'a History,
    records: BTreeMap<&'a str, &'a Recorded>,
    intents: BTreeSet<String>,
    findings: Vec<Finding>,
}

impl<'a> Judge<'a> {
    fn of(history: &'a History) -> Self {
        let records = history.records.iter();
        let called = history.calls.iter().map(|call| call.intent.clone());
        let arrived = history.arrivals.iter().map(|arrival| arrival.intent.clone());
        Self {
            history,
            records: records.map(|record| (&*record.effect_id, record)).collect(),
            intents: called.chain(arrived).collect(),
            findings: Vec::new(),
        }
    }

    fn find(&mut self, rule: Rule, calls: &[&Call], words: String) {
        let calls = calls.iter().map(|call| call.n).collect();
        self.findings.push(Finding { rule, words, calls });
    }

    fn calls_of(&self, intent: &str) -> Vec<&'a Call> {
        self.history.calls.iter().filter(|call| call.intent == intent).collect()
    }

    fn arrivals_of(&self, intent: &str) -> Vec<&'a Arrived> {
        self.history.arrivals.iter().filter(|arrival| arrival.intent == intent).collect()
    }

    fn effects_by(&self, arrivals: &[&Arrived]) -> Vec<&'a Made> {
        let by_one = |made: &&Made| arrivals.iter().any(|arrival| arrival.n == made.arrival);
        self.history.effects.iter().filter(by_one).collect()
    }

    /// At most one effect of each thing that was asked for, and one if a success was told.
    fn effects_of(&mut self, intent: &str) {
        let calls = self.calls_of(intent);
        let arrivals = self.arrivals_of(intent);
        let successes = with(&calls, |told| told.meaning() == Meaning::Success);
        let denials = with(&calls, |told| told.meaning() == Meaning::Failure);
        if !successes.is_empty() && arrivals.is_empty() {
            let words = format!("{intent}: a success is told, and nothing arrived");
            self.find(Rule::SuccessWithoutEffect, &successes, words);
        }
        for (content, arrivals) in by(arrivals.iter().copied(), |arrival| &arrival.content) {
            let effects = self.effects_by(&arrivals);
            let first = effects.first();
            if self.history.one_effect && effects.len() > 1 {
                let words = format!("{intent}: {} effects of {content}", effects.len());
                self.find(Rule::Twice, &calls, words);
            }
            let Some(first) = first else {
                if !successes.is_empty() {
                    let words = format!("{intent}: a success is told, and no effect of {content}");
                    self.find(Rule::SuccessWithoutEffect, &successes, words);
                }
                continue;
            };
            let before = with(&calls, |told| told.meaning() == Meaning::Freed);
            let before = before.into_iter().filter(|call| call.began > first.at);
            let denied: Vec<_> = denials.iter().copied().chain(before).collect();
            if !denied.is_empty() {
                let words = format!("{intent}: an effect is denied that is there, of {content}");
                self.find(Rule::DeniedEffect, &denied, words);
            }
        }
        self.names_of(intent, &successes, &arrivals);
        for arrival in arrivals.iter().filter(|_| !successes.is_empty()) {
            let state = self.records.get(&*arrival.effect_id).map(|record| &*record.state);
            if state.is_some_and(|state| !["succeeded", "tombstone"].contains(&state)) {
                let words = format!("{intent}: a success is told, and its record is {state:?}");
                self.find(Rule::Forgotten, &successes, words);
            }
        }
    }

    /// A success that names an effect names one of its own.
    fn names_of(&mut self, intent: &str, successes: &[&Call], arrivals: &[&Arrived]) {
        let own: Vec<_> =
            self.effects_by(arrivals).iter().map(|made| format!("pay_{}", made.n)).collect();
        let wrong = |told: &Told| {
            let body: serde_json::Value = serde_json::from_str(&told.body).unwrap_or_default();
            let named = body["id"].as_str().filter(|id| id.starts_with("pay_"));
            named.is_some_and(|id| !own.iter().any(|own| own == id))
        };
        let wrong = with(successes, wrong);
        if !wrong.is_empty() && !own.is_empty() {
            let words = format!("{intent}: the effect is {own:?}, and another one is told");
            self.find(Rule::AnotherEffect, &wrong, words);
        }
    }

    /// Final answers are one answer, and stay; what is none says so.
    fn answers_of(&mut self, intent: &str) {
        let calls = self.calls_of(intent);
        for call in with(&calls, |told| told.meaning() == Meaning::Silent) {
            let words = format!("{intent}: told without a mark that it is unknown");
            self.find(Rule::DoubtNotSaid, &[call], words);
        }
        let finals = with(&calls, Told::is_final);
        let Some((first, said)) =
            finals.first().and_then(|call| Some((*call, call.told.as_ref()?)))
        else {
            return;
        };
        for call in with(&finals, |now| now.status != said.status || now.body != said.body) {
            let words = format!("{intent}: told {}, and {}", said.shown(), shown(call));
            self.find(Rule::AnswersDisagree, &[first, call], words);
        }
        let since = finals.iter().map(|call| ended(call)).min().unwrap_or(u64::MAX);
        let later: Vec<_> = calls.iter().filter(|call| call.began > since).copied().collect();
        let passes = |now: &Told| {
            now.is_final() || now.problem.as_deref().is_some_and(|it| PASSING.contains(&it))
        };
        for call in with(&later, |now| !passes(now)) {
            let words = format!("{intent}: told {}, and later {}", said.shown(), shown(call));
            self.find(Rule::Forgotten, &[first, call], words);
        }
    }

    /// Of the intents under one key, what is not the first to end is refused, and nothing else is.
    fn intents_under_one_key(&mut self, calls: &[&'a Call]) {
        let is_refused = |told: &Told| told.problem.as_deref() == Some("key-reused");
        for call in with(calls, is_refused) {
            if !calls.iter().any(|it| it.intent != call.intent && it.began < ended(call)) {
                let words = format!("{}: the key was used for nothing else", call.intent);
                self.find(Rule::RefusedWithoutCause, &[call], words);
            }
        }
        let Some(first) = with(calls, Told::is_final).into_iter().min_by_key(|call| ended(call))
        else {
            return;
        };
        let changed =
            calls.iter().filter(|call| call.intent != first.intent && call.began > ended(first));
        let changed: Vec<_> = changed.copied().collect();
        let takes_part = |told: &Told| !is_refused(told) && told.meaning() != Meaning::Refused;
        for call in with(&changed, takes_part) {
            let (ended, other) = (&first.intent, &call.intent);
            let words = format!("{ended} has ended, and {other} is told {}", shown(call));
            self.find(Rule::ChangedIntent, &[first, call], words);
        }
    }

    /// Of the attempts under one effect id each arrives once, and none follows one in doubt.
    fn attempts_of(&mut self, effect_id: &str, arrivals: &[&'a Arrived]) {
        let asks = |call: &&Call| arrivals.iter().any(|it| it.intent == call.intent);
        let calls: Vec<_> = self.history.calls.iter().filter(asks).collect();
        let Some(record) = self.records.get(effect_id).copied() else {
            let words = format!("effect id {effect_id} arrived and has no record");
            return self.find(Rule::NoRecord, &calls, words);
        };
        let mut sorted = arrivals.to_vec();
        sorted.sort_by_key(|arrival| (arrival.attempt, arrival.n));
        for (earlier, later) in sorted.iter().zip(sorted.iter().skip(1)) {
            let between = earlier.attempt..later.attempt;
            let is_freed = record.entries.iter().any(|entry| {
                between.contains(&entry.attempt)
                    && ["released", "judged-not-applied"].contains(&&*entry.what)
            });
            let is_resent = self.history.resends
                && record.on_unknown != "hold"
                && record.entries.iter().any(|entry| {
                    entry.attempt == later.attempt && ["resent", "resumed"].contains(&&*entry.what)
                });
            let attempts = (earlier.attempt, later.attempt);
            if earlier.attempt == later.attempt {
                let words = format!("attempt {} of {effect_id} arrived twice", later.attempt);
                self.find(Rule::SentTwice, &calls, words);
            } else if !is_freed && !is_resent {
                let words = format!("attempts {attempts:?} of {effect_id} without a permission");
                self.find(Rule::NoPermit, &calls, words);
            }
            if earlier.content != later.content && !is_freed {
                let words =
                    format!("attempts {attempts:?} of {effect_id} ask for different things");
                self.find(Rule::ChangedIntent, &calls, words);
            }
        }
    }

    /// Nothing is left as if somebody were at it.
    fn records(&mut self) {
        for record in &self.history.records {
            if ["executing", "claimed"].contains(&&*record.state) {
                let words = format!("effect id {} is {}", record.effect_id, record.state);
                self.find(Rule::NotHealed, &[], words);
            }
        }
    }
}

/// The calls with an answer of which this holds.
fn with<'a>(calls: &[&'a Call], holds: impl Fn(&Told) -> bool) -> Vec<&'a Call> {
    calls.iter().copied().filter(|call| call.told.as_ref().is_some_and(&holds)).collect()
}

fn shown(call: &Call) -> String {
    call.told.as_ref().map(Told::shown).unwrap_or_default()
}

fn ended(call: &Call) -> u64 {
    call.told.as_ref().map_or(u64::MAX, |told| told.at)
}

/// Grouped, in order.
fn by<'a, T>(
    all: impl IntoIterator<Item = &'a T>,
    key: impl Fn(&T) -> &str,
) -> BTreeMap<String, Vec<&'a T>> {
    let mut groups = BTreeMap::<String, Vec<&T>>::new();
    for one in all {
        groups.entry(key(one).to_owned()).or_default().push(one);
    }
    groups
}
