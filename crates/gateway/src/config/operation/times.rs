//! The times of an operation.

use std::time::Duration;

use crate::config::{
    draft::OperationDraft,
    section::{Section, Value},
};

pub(super) fn read(section: &mut Section<'_>, draft: &mut OperationDraft) {
    if let Some(collapse_for) = section.take("collapse_for") {
        let collapse_for = collapse_for.positive_duration("24h");
        draft.set("collapse_for", collapse_for, |policy, value| policy.collapse_for = Some(value));
    }
    if let Some(late_arrival) = section.take("late_arrival") {
        let late_arrival = late_arrival.duration("60s");
        draft.set("late_arrival", late_arrival, |policy, value| policy.late_arrival = value);
    }
    if let Some(lease) = section.take("lease") {
        let lease = lease.duration("30s");
        draft.set("lease", lease, |policy, value| policy.lease = value);
    }
    if let Some(timeout) = section.take("timeout") {
        let timeout = timeout.positive_duration("20s");
        draft.set("timeout", timeout, |policy, value| policy.timeout = value);
    }
    if let Some(retention) = section.take("retention") {
        read_retention(retention, draft);
    }
    if let Some(retried_by) = section.take("retried_by") {
        draft.places.insert("retried_by", retried_by.place().clone());
        draft.policy.retried_by = read_retried_by(retried_by);
    }
}

fn read_retention(value: Value<'_>, draft: &mut OperationDraft) {
    let example = "{ outcome = \"24h\", tombstone = \"30d\" }";
    let Some(mut section) = value.section(example) else { return };
    if let Some(outcome) = section.take("outcome") {
        let outcome = outcome.positive_duration("24h");
        draft.set("retention.outcome", outcome, |policy, value| policy.retention.outcome = value);
    }
    if let Some(tombstone) = section.take("tombstone") {
        let tombstone = tombstone.positive_duration("30d");
        draft.set("retention.tombstone", tombstone, |policy, value| {
            policy.retention.tombstone = value;
        });
    }
    section.finish();
}

fn read_retried_by(value: Value<'_>) -> Vec<(String, Duration)> {
    let Some(mut section) = value.section("{ client = \"24h\" }") else {
        return Vec::new();
    };
    let sources = section.take_all().into_iter();
    sources
        .filter_map(|(source, value)| Some((source, value.positive_duration("24h")?.value)))
        .collect()
}
