//! Every metric of the engine, in one place. Labels are bounded: operation names come from the
//! configuration, the other values from closed sets; no key, scope or body reaches a signal.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

/// What attempts got, by `operation` and `decision`.
pub const DECISIONS: &str = "hapax_decisions_total";
/// How executions ended, by `operation` and `result`.
pub const EXECUTIONS: &str = "hapax_executions_total";
/// How long executions took, by `operation`.
pub const EXECUTION_SECONDS: &str = "hapax_execution_seconds";
/// Executions under way now.
pub const EXECUTING: &str = "hapax_executing";
/// Attempts that wait for another's answer now.
pub const WAITING: &str = "hapax_waiting";
/// Settles that had to be issued again because the store failed.
pub const SETTLE_RETRIES: &str = "hapax_settle_retries_total";
/// Owners that found their record taken over when they settled.
pub const FENCED: &str = "hapax_fenced_total";
/// First attempts that the downstream answered as a replay: somebody used this identity before.
pub const DOWNSTREAM_REPLAYS: &str = "hapax_downstream_replays_total";
/// Requests with a key whose service did not keep to its side: it took no attempt, or two.
pub const ATTEMPTS_MISUSED: &str = "hapax_attempts_misused_total";
/// Transactions of handlers that were not given back, or ended by the handler itself.
pub const TRANSACTIONS_KEPT: &str = "hapax_transactions_kept_total";
/// Requests under new keys that the application's own rules found to be duplicates, by `operation`.
pub const BUSINESS_DUPLICATES: &str = "hapax_business_duplicates_total";
/// Records that were gone when their owner settled: the store lost history.
pub const RECORDS_MISSING: &str = "hapax_records_missing_total";
/// Questions what became of an effect, by `operation` and `verdict`.
pub const PROBES: &str = "hapax_probes_total";
/// Records whose outcome is unknown now, by `operation` and `age`.
pub const UNCERTAIN: &str = "hapax_uncertain_records";
/// How long the oldest unknown outcome has been unknown, by `operation`.
pub const UNCERTAIN_OLDEST_SECONDS: &str = "hapax_uncertain_oldest_seconds";
/// Bodies dropped after their retention.
pub const SWEPT_BODIES: &str = "hapax_swept_bodies_total";
/// Records purged after their tombstone's retention.
pub const SWEPT_RECORDS: &str = "hapax_swept_records_total";

/// Problems answered over HTTP, by `type`.
#[cfg(feature = "http")]
pub const PROBLEMS: &str = "hapax_problems_total";
/// Bytes of request bodies in memory now.
#[cfg(feature = "http")]
pub const BUFFERED_BYTES: &str = "hapax_buffered_bytes";

/// Describes every metric to the installed recorder.
///
/// ```
/// // After a recorder of the crate `metrics` is installed.
/// hapax::metric_definitions::describe();
/// ```
pub fn describe() {
    describe_counter!(DECISIONS, "What attempts got, by operation and decision");
    describe_counter!(EXECUTIONS, "How executions ended, by operation and result");
    describe_histogram!(EXECUTION_SECONDS, Unit::Seconds, "How long executions took");
    describe_gauge!(EXECUTING, "Executions under way");
    describe_gauge!(WAITING, "Attempts waiting for another's answer");
    describe_counter!(SETTLE_RETRIES, "Settles issued again because the store failed");
    describe_counter!(FENCED, "Owners that found their record taken over");
    describe_counter!(DOWNSTREAM_REPLAYS, "First attempts answered as a replay downstream");
    describe_counter!(ATTEMPTS_MISUSED, "Requests whose handler took no attempt, or two");
    describe_counter!(TRANSACTIONS_KEPT, "Transactions that handlers kept or ended themselves");
    describe_counter!(BUSINESS_DUPLICATES, "Duplicates found by the application's own rules");
    describe_counter!(RECORDS_MISSING, "Records gone at their settle: the store lost history");
    describe_counter!(PROBES, "Questions what became of an effect, by operation and verdict");
    describe_gauge!(UNCERTAIN, "Records whose outcome is unknown, by operation and age");
    describe_gauge!(
        UNCERTAIN_OLDEST_SECONDS,
        Unit::Seconds,
        "How long the oldest unknown outcome has been unknown, by operation"
    );
    describe_counter!(SWEPT_BODIES, "Bodies dropped after their retention");
    describe_counter!(SWEPT_RECORDS, "Records purged after their tombstone");
    #[cfg(feature = "http")]
    {
        describe_counter!(PROBLEMS, "Problems answered, by type");
        describe_gauge!(BUFFERED_BYTES, Unit::Bytes, "Bytes of request bodies in memory");
    }
    // There from the start, so that the first of them is an increase.
    for alarm in [
        SETTLE_RETRIES,
        FENCED,
        DOWNSTREAM_REPLAYS,
        ATTEMPTS_MISUSED,
        TRANSACTIONS_KEPT,
        RECORDS_MISSING,
    ] {
        counter!(alarm).absolute(0);
    }
}
