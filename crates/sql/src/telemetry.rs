//! What a store tells of itself through the `metrics` facade: names, units and labels.

use hapax_store::StoreError;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// How long a commit took, in seconds, from its first byte to the answer of the disk. Label
/// `result`: `ok`, `failed` (nothing was written) or `unknown`.
pub const COMMIT_SECONDS: &str = "hapax_store_commit_seconds";

/// How many operations shared a transaction.
pub const BATCH_SIZE: &str = "hapax_store_batch_size";

/// The length of the write-ahead log, in bytes.
pub const LOG_BYTES: &str = "hapax_store_log_bytes";

/// Operations that the store could not answer. Label `kind`: `unavailable`, `locked`, `full`,
/// `read-only`, `corrupt`, `regressed`, `constraint`, `ended-elsewhere`, `answer-lost` or `other`.
pub const ERRORS: &str = "hapax_store_errors_total";

/// Tells the recorder what each name means; called once, after it is installed.
pub fn describe() {
    describe_histogram!(COMMIT_SECONDS, Unit::Seconds, "Time a store's commit took, by result.");
    describe_histogram!(BATCH_SIZE, Unit::Count, "Operations that shared a transaction.");
    describe_gauge!(LOG_BYTES, Unit::Bytes, "Length of a store's write-ahead log.");
    describe_counter!(ERRORS, Unit::Count, "Operations a store could not answer, by kind.");
}

pub(crate) fn committed(seconds: f64, result: &'static str) {
    histogram!(COMMIT_SECONDS, "result" => result).record(seconds);
}

pub(crate) fn batch(size: usize) {
    // A batch is bounded by the configuration, far below 2^32.
    histogram!(BATCH_SIZE).record(u32::try_from(size).unwrap_or(u32::MAX));
}

pub(crate) fn log(bytes: u64) {
    // Exact up to 8 PiB.
    gauge!(LOG_BYTES).set(bytes as f64);
}

pub(crate) fn failed(error: &StoreError) {
    counter!(ERRORS, "kind" => kind(error)).increment(1);
}

const fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Unavailable { .. } => "unavailable",
        StoreError::Locked(_) => "locked",
        StoreError::Full => "full",
        StoreError::ReadOnly => "read-only",
        StoreError::Corrupt { .. } => "corrupt",
        StoreError::Regressed { .. } => "regressed",
        StoreError::Constraint { .. } => "constraint",
        StoreError::EndedElsewhere => "ended-elsewhere",
        StoreError::AnswerLost { .. } => "answer-lost",
        _ => "other",
    }
}
