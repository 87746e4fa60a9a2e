//! Whether an operation's policy is consistent, and what to do where it is not.

use std::time::Duration;

use hapax_core::PolicyError;

use super::{Fault, Report, draft::OperationDraft, duration::show};

/// Less than this and a healthy holder's renewals, at a third of it, would be late now and then.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

pub(super) fn policy(operation: &OperationDraft, report: &Report) {
    let policy = &operation.policy;
    for error in policy.check() {
        let (keys, fault) = explain(operation, error);
        report.add(operation.place_of(keys), fault);
    }
    if !policy.lease.is_zero() && policy.lease < SHORTEST_LEASE {
        let what = format!("a lease of {} is renewed too often to be kept", show(policy.lease));
        let fault = Fault::new(what, "write at least \"1s\"; \"30s\" suits most");
        report.add(operation.place_of(&["lease"]), fault);
    }
}

/// The settings that an error is about, the likelier to be wrong first, and its text.
fn explain(operation: &OperationDraft, error: PolicyError) -> (&'static [&'static str], Fault) {
    let policy = &operation.policy;
    let tombstone = show(policy.retention.tombstone);
    let by_flag = operation.places.values().any(super::Place::is_flag);
    let fix = |flag: &str, key: &str| if by_flag { flag } else { key }.to_owned();
    match error {
        PolicyError::ResendWithoutCollapse => {
            let what = "a resend is safe only while the service collapses requests with the same \
                        Idempotency-Key into one effect, and nothing says for how long it does";
            let help = fix(
                "say --collapse-for 24h if it does so for a day; say hold if it does not",
                "add collapse_for = \"24h\" if it does so for a day; write \"hold\" if it does not",
            );
            (&["on_unknown"], Fault::new(what, help))
        }
        PolicyError::CollapseTooShort { needed } => {
            let what = format!(
                "a resend needs more than late_arrival ({}) and timeout ({}) together, but the \
                 service's memory ends after {}",
                show(policy.late_arrival),
                show(policy.timeout),
                show(policy.collapse_for.unwrap_or_default()),
            );
            let help = format!(
                "make it longer than {}, if the service's memory is, or {}",
                show(needed),
                fix("say --on-unknown hold", "write on_unknown = \"hold\""),
            );
            (&["collapse_for"], Fault::new(what, help))
        }
        PolicyError::TombstoneBeforeOutcome => {
            let what = format!(
                "outcomes would be kept for {}, and the key itself for {tombstone} only",
                show(policy.retention.outcome),
            );
            let help = fix(
                &format!(
                    "say at most {tombstone}; a file can keep keys longer: \
                     retention = {{ outcome = …, tombstone = … }}"
                ),
                "make retention.tombstone at least as long as retention.outcome",
            );
            (&["retention.tombstone", "retention.outcome"], Fault::new(what, help))
        }
        PolicyError::TombstoneBeforeDownstream => {
            let what = format!(
                "the service would remember the effect for {}, and this side for {tombstone} only",
                show(policy.collapse_for.unwrap_or_default()),
            );
            let help = fix(
                &format!(
                    "say at most {tombstone}; a file can keep keys longer: \
                     retention = {{ tombstone = … }}"
                ),
                "make retention.tombstone at least as long as collapse_for",
            );
            (&["retention.tombstone", "collapse_for"], Fault::new(what, help))
        }
        PolicyError::RetriedLonger { source_name } => {
            let what = format!(
                "{source_name} retries for longer than keys are remembered ({tombstone}), and a \
                 retry after that would execute again",
            );
            let help = "make retention.tombstone at least as long";
            (&["retried_by"], Fault::new(what, help))
        }
        PolicyError::Zero("lease") => {
            (&["lease"], Fault::new("it cannot be zero", "write a longer one, such as \"30s\""))
        }
        PolicyError::Zero("retention.outcome") => (
            &["retention.outcome"],
            Fault::new("it cannot be zero", "write a longer one, such as \"24h\""),
        ),
        PolicyError::OutcomeSaysNothing => (
            &["outcome"],
            Fault::new(
                "no answer would be read as applied, and every outcome be unknown",
                "name the values that say so, or write absent = \"applied\" or present = \"applied\"",
            ),
        ),
        PolicyError::Fingerprint(text) => {
            let (what, help) = text.split_once("; ").unwrap_or((&text, "correct the fingerprint"));
            (&["fingerprint"], Fault::new(what, help))
        }
        other => (&[], Fault::new(other.to_string(), "correct the operation's settings")),
    }
}
