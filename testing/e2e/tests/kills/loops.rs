//! Random kills and pauses, for every kind of service and policy. `HAPAX_KILLS` says how many for each, and
//! `HAPAX_KILLS_SEED` with which seed; `HAPAX_KILLS_REPORTS` is where reports are written.

use std::{env, fs, path::Path};

use hapax_testkit::{Downstream, Scene};

use crate::storm::{Disturbance, storm};

const SEED: u64 = 1;

/// One of each kind.
const KILLS: usize = 5;

#[track_caller]
fn assert_kept_through_kills(name: &str) {
    let kills = env::var("HAPAX_KILLS").map_or(KILLS, |kills| kills.parse().expect("a number"));
    let seed = env::var("HAPAX_KILLS_SEED").map_or(SEED, |seed| seed.parse().expect("a number"));
    let downstream = Downstream::named(name);
    let storm = storm(Scene::new(downstream), seed, Disturbance::Strikes, kills);
    println!("{}", storm.report);
    if let Ok(reports) = env::var("HAPAX_KILLS_REPORTS") {
        let path = Path::new(&reports).join(format!("{name}.json"));
        fs::write(path, storm.report.to_string()).expect("the report is written");
    }
    let findings: Vec<_> = storm.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    if downstream.finds && downstream.goes_on {
        assert_eq!(storm.uncertain, 0, "everything is found out there");
    }
}

#[test]
fn a_service_that_cannot_be_asked_acts_once_and_nobody_claims_to_know_more() {
    assert_kept_through_kills("plain-hold");
}

#[test]
fn a_service_that_can_be_asked_acts_once() {
    assert_kept_through_kills("asked-probe");
}

#[test]
fn a_service_that_closes_attempts_acts_once_and_all_is_found_out() {
    assert_kept_through_kills("closing-probe");
}

#[test]
fn a_service_that_enforces_deadlines_acts_once_and_all_is_found_out() {
    assert_kept_through_kills("closing-deadline");
}

#[test]
fn a_service_that_refuses_older_attempts_acts_once() {
    assert_kept_through_kills("refusing-probe");
}

#[test]
fn a_service_that_refuses_duplicates_and_can_be_asked_acts_once() {
    assert_kept_through_kills("unique-probe");
}

#[test]
fn a_service_that_refuses_duplicates_acts_once_and_its_refusals_are_no_failures() {
    assert_kept_through_kills("unique-resend");
}

#[test]
fn a_service_that_collapses_and_can_be_asked_acts_once_and_all_is_found_out() {
    assert_kept_through_kills("collapsing-probe");
}

#[test]
fn a_service_that_collapses_acts_once_and_all_is_found_out() {
    assert_kept_through_kills("collapsing-resend");
}
