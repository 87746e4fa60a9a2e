//! Every configuration keeps what it promises, and every rule that is switched off is missed.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;

use hapax_model::{BASES, Model, Promise, RULES, Reached, SHOWN, Setup, check};

/// The configurations that one test sees to their end, by how their names begin.
const GROUPS: [&str; 15] = [
    "knows nothing",
    "collapses, hold",
    "collapses, resend; crashes",
    "collapses, resend; lost",
    "collapses, resend; another",
    "collapses, resend; its memory ends",
    "collapses, probe",
    "refuses older",
    "closes",
    "keeps deadlines",
    "can be asked",
    "separate admission",
    "the store",
    "another effect secret",
    "",
];

/// Those of a group, and of none before it.
fn group(nth: usize) -> Vec<Setup> {
    let is_of = |setup: &Setup, nth: usize| setup.name.starts_with(GROUPS[nth]);
    let first = |setup: &Setup| (0..GROUPS.len()).find(|nth| is_of(setup, *nth));
    BASES.iter().filter(|setup| first(setup) == Some(nth)).copied().collect()
}

fn keeps_its_promises(nth: usize) {
    let setups = group(nth);
    assert!(!setups.is_empty(), "{}", GROUPS[nth]);
    for setup in setups {
        let checked = check(&Model::new(setup).unwrap(), 1);
        println!("{}: {} states, {:.1} s", setup.name, checked.states, checked.seconds);
        if let Some(trace) = checked.broken {
            panic!("{}: {trace}", setup.name);
        }
        let mut expected = vec![Reached::SUCCESS];
        if setup.budget.refusals > 0 {
            expected.extend([Reached::FAILURE, Reached::LATER]);
        }
        assert!(expected.iter().all(|it| checked.reached.contains(it)), "{}", setup.name);
    }
}

macro_rules! groups {
    ($($name:ident: $nth:expr,)*) => {
        $(#[test] fn $name() { keeps_its_promises($nth); })*
    };
}

groups! {
    before_a_service_that_knows_nothing: 0,
    before_a_service_that_collapses_under_hold: 1,
    before_a_service_that_collapses_with_resends_and_crashes: 2,
    before_a_service_that_collapses_with_resends_and_lost_commits: 3,
    before_a_service_that_collapses_and_another_intent: 4,
    before_a_service_whose_memory_ends: 5,
    before_a_service_that_collapses_and_is_asked: 6,
    before_a_service_that_refuses_older_attempts: 7,
    before_a_service_that_closes: 8,
    before_a_service_that_keeps_deadlines: 9,
    before_a_service_that_can_be_asked: 10,
    where_admission_is_a_write_of_its_own: 11,
    where_the_store_goes_back: 12,
    where_a_process_has_another_effect_secret: 13,
    where_leases_are_renewed_outcomes_end_and_readings_are_old: 14,
}

#[test]
fn every_rule_that_is_switched_off_is_missed() {
    for shown in &SHOWN {
        let model = Model::mutated(shown.setup, shown.mutation, shown.breaks).unwrap();
        let checked = check(&model, 1);
        let trace = checked.broken.unwrap_or_else(|| panic!("not seen: {}", shown.words));
        assert_eq!(trace.promise, shown.breaks, "{}", shown.words);
        println!("{} (rule {}):\n{trace}", shown.words, shown.rule.unwrap_or("none"));
    }
}

#[test]
fn what_a_mutation_breaks_is_kept_without_it() {
    for shown in &SHOWN {
        let checked = check(&Model::watching(shown.setup, shown.breaks).unwrap(), 1);
        if let Some(trace) = checked.broken {
            panic!("{}: {trace}", shown.words);
        }
    }
}

#[test]
fn the_mutations_cover_every_starred_rule_that_is_built() {
    let shown: BTreeSet<_> = SHOWN.iter().filter_map(|shown| shown.rule).collect();
    let built: BTreeSet<_> =
        RULES.iter().filter(|rule| rule.built).map(|rule| rule.number).collect();
    assert_eq!(shown, built);
}

#[test]
fn the_page_on_the_model_lists_every_mutation() {
    let page = include_str!("../../../docs/model.md");
    for shown in &SHOWN {
        let (rule, dropped) = (shown.rule.unwrap_or("none"), shown.words);
        let row = format!("| {rule} | {dropped} | {} |", shown.breaks);
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn every_promise_is_seen_broken_and_is_made_somewhere() {
    for promise in Promise::ALL {
        assert!(SHOWN.iter().any(|shown| shown.breaks == promise), "{promise}");
        assert!(BASES.iter().any(|setup| setup.promises.contains(&promise)), "{promise}");
    }
}

#[test]
fn every_policy_is_one_that_the_product_accepts() {
    let setups = BASES.iter().chain(hapax_model::LARGER).chain(SHOWN.iter().map(|it| &it.setup));
    for setup in setups {
        assert_eq!(setup.policy().unwrap().check(), [], "{}", setup.name);
    }
}
