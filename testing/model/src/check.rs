//! Running a model to its end, or to the first promise that is broken.

use std::{fmt, time::Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model as _};

use crate::{Promise, model::Model};

/// What a check came to.
#[derive(Clone, Debug)]
pub struct Checked {
    /// How many different worlds were seen.
    pub states: usize,
    /// The most steps that lead to one of them.
    pub depth: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What was seen that has to be seen somewhere.
    pub reached: Vec<&'static str>,
    /// The promise that is broken, and a shortest way there; `None`: every world was seen, and none
    /// breaks one.
    pub broken: Option<Trace>,
}

/// The way to a broken promise.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Which.
    pub promise: Promise,
    /// Who did what, in order.
    pub steps: Vec<String>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "broken: {}", self.promise)?;
        for (nth, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:>4}. {step}", nth + 1)?;
        }
        Ok(())
    }
}

/// Sees every world that a model can come to, nearest first, on so many threads.
pub fn check(model: &Model, threads: usize) -> Checked {
    let mut checked = look(model, threads, None);
    // The checker ends in blocks, so the first way that it tells need not be a shortest one.
    while let Some(trace) = &checked.broken {
        let shorter = look(model, threads, Some(trace.steps.len()));
        if shorter.broken.is_none() {
            break;
        }
        checked = shorter;
    }
    checked
}

/// Only ways of fewer steps than `below`, where that is said.
fn look(model: &Model, threads: usize, below: Option<usize>) -> Checked {
    #[expect(clippy::disallowed_methods, reason = "a duration for people, on no test's clock")]
    let begun = Instant::now();
    let checker = model.clone().checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let checker = match below {
        // The checker counts worlds, of which the first has no step.
        Some(steps) => checker.target_max_depth(steps + 1),
        None => checker,
    };
    let checker = checker.spawn_bfs().join();
    let mut discoveries = checker.discoveries();
    let always = |words: &&'static str| {
        let is_it = |promise: &Promise| promise.words() == *words;
        Promise::ALL.into_iter().find(is_it)
    };
    let broken = discoveries.keys().find_map(always).and_then(|promise| {
        let steps = discoveries.remove(promise.words())?.into_vec().into_iter();
        let steps = steps.filter_map(|(world, action)| Some(model.tell(&world, action?).1));
        Some(Trace { promise, steps: steps.collect() })
    });
    let properties = model.properties();
    let sometimes = properties
        .iter()
        .filter(|property| property.expectation == Expectation::Sometimes)
        .map(|property| property.name);
    Checked {
        states: checker.unique_state_count(),
        depth: checker.max_depth().saturating_sub(1),
        seconds: begun.elapsed().as_secs_f64(),
        reached: sometimes.filter(|name| discoveries.contains_key(name)).collect(),
        broken,
    }
}
