//! How records are written, and the words for them.

use std::{
    io::{ErrorKind, Write as _},
    process::ExitCode,
    time::Duration,
};

use hapax_core::{Ending, EndingKind, OutcomeClass, Progress, Record, State, StoreTime};
use hapax_store::Listed;
use serde_json::{Value, json};

use super::Reading;
use crate::failure::Failure;

/// Prints; a reader that went away (`| head`) is no error.
pub(super) fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(1, format!("standard output cannot be written: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Says something beside the output, for people.
pub(super) fn note(text: &str) {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(std::io::stderr(), "hapax: {text}");
}

/// A record as one JSON object.
pub(super) fn record_json(
    reading: &Reading,
    listed: &Listed,
    observed_status: Option<u16>,
) -> Value {
    let record = &listed.record;
    let ending = record.ending;
    json!({
        "record": record.id.to_string(),
        "effect_id": reading.effect_id(listed).map(|id| id.to_string()),
        "operation": listed.operation.as_ref().map(|name| name.as_str()),
        "state": state_word(listed.state),
        "class": ending.and_then(|ending| ending.class).map(class_word),
        "attempt": record.attempt.to_wire(),
        "clean": record.clean,
        "status": ending.and_then(|ending| ending.status),
        "observed_status": observed_status,
        "claimed": moment(record.created),
        "admitted": record.first_admitted.map(moment),
        "lease_until": record.lease_end.map(moment),
        "ended": ending.map(|ending| moment(ending.at)),
        "replayed_until": outcome(record).map(|ending| moment(ending.until.outcome)),
        "remembered_until": ending.map(|ending| moment(ending.until.tombstone)),
        "body_bytes": listed.body_bytes,
    })
}

/// The ending of an attempt that came to an outcome.
pub(super) fn outcome(record: &Record) -> Option<Ending> {
    record.ending.filter(|ending| ending.kind == EndingKind::Outcome)
}

/// The state, and what the lease adds to it.
pub(super) fn state_text(reading: &Reading, listed: &Listed) -> String {
    let word = state_word(listed.state);
    let held = matches!(listed.state, State::Claimed | State::Executing);
    if held && listed.record.lease_over(reading.now) {
        return format!("{word}, overdue");
    }
    // Where its steps account for every effect, nobody has to find out anything.
    if listed.state == State::Uncertain && listed.record.progress == Progress::Accounted {
        return format!("{word}, goes on");
    }
    word.to_owned()
}

pub(super) const fn state_word(state: State) -> &'static str {
    match state {
        State::Claimed => "claimed",
        State::Executing => "executing",
        State::Released => "released",
        State::Succeeded => "succeeded",
        State::FailedTerminal => "failed_terminal",
        State::Uncertain => "uncertain",
        State::Tombstone => "tombstone",
    }
}

/// The state of a word.
pub(super) fn parse_state(word: &str) -> Option<State> {
    [
        State::Claimed,
        State::Executing,
        State::Released,
        State::Succeeded,
        State::FailedTerminal,
        State::Uncertain,
        State::Tombstone,
    ]
    .into_iter()
    .find(|state| state_word(*state) == word)
}

const fn class_word(class: OutcomeClass) -> &'static str {
    match class {
        OutcomeClass::Succeeded => "succeeded",
        OutcomeClass::FailedTerminal => "failed_terminal",
    }
}

/// RFC 3339 in UTC; a moment outside its years as microseconds.
pub(super) fn moment(time: StoreTime) -> String {
    const LAST: i64 = 253_402_300_799_999_999;
    match u64::try_from(time.as_micros()) {
        Ok(micros) if time.as_micros() <= LAST => {
            let moment = std::time::UNIX_EPOCH + Duration::from_micros(micros);
            humantime::format_rfc3339_seconds(moment).to_string()
        }
        _ => time.to_string(),
    }
}

/// A duration in its two largest units.
pub(super) fn age(age: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(age.as_secs())).to_string();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_word() {
        for word in ["claimed", "executing", "released", "succeeded", "failed_terminal"] {
            assert_eq!(parse_state(word).map(state_word), Some(word));
        }
        assert_eq!(parse_state("gone"), None);
    }

    #[test]
    fn moments_and_ages_are_readable_at_the_extremes() {
        assert_eq!(moment(StoreTime::from_micros(0)), "1970-01-01T00:00:00Z");
        assert_eq!(moment(StoreTime::from_micros(i64::MAX)), format!("{}us", i64::MAX));
        assert_eq!(age(Duration::from_millis(90_500)), "1m 30s");
        assert_eq!(age(Duration::ZERO), "0s");
    }
}
