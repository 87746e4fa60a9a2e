//! What callers of an operation get beside the service's own answers.

use std::time::Duration;

use hapax_core::InFlight;

use crate::config::{
    At, Fault, StatusCodes, draft::OperationDraft, problems, section::Section, section::Value,
    suggest::choice,
};

/// What callers of an operation get beside the service's own answers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answers {
    /// Whether a copy that still finds the first attempt under way gets 202 and the address of the
    /// operation's status instead of `in-flight`. Default: false.
    pub accept: bool,
    /// The preferences of callers that are honoured (RFC 7240). Default: none.
    pub prefer: Prefer,
    /// The status of kinds of problem that do not have their usual one.
    pub status_codes: StatusCodes,
}

/// The preferences of callers that are honoured (RFC 7240).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Prefer {
    /// `respond-async`: 202 with the address of the operation's status, while it goes on.
    pub respond_async: bool,
    /// `wait=n`, up to this long.
    pub wait: Option<Duration>,
}

pub(super) fn read(section: &mut Section<'_>, draft: &mut OperationDraft) {
    if let Some(in_flight) = section.take("in_flight")
        && let Some(At { place, value: (in_flight, accept) }) =
            read_in_flight(in_flight, draft.policy.in_flight)
    {
        draft.answers.accept = accept;
        let in_flight = Some(At { place, value: in_flight });
        draft.set("in_flight", in_flight, |policy, value| policy.in_flight = value);
    }
    if let Some(prefer) = section.take("prefer") {
        draft.answers.prefer = read_prefer(prefer);
    }
    if let Some(codes) = section.take("status_codes") {
        draft.answers.status_codes = problems::status_codes(codes);
    }
}

/// `usual` is what it gets where only what comes then is said.
fn read_in_flight(value: Value<'_>, usual: InFlight) -> Option<At<(InFlight, bool)>> {
    const THEN: [(&str, bool); 2] = [("conflict", false), ("accept", true)];
    if value.is_table() {
        let mut section = value.section("{ wait = \"2s\" }")?;
        let place = section.place().clone();
        let wait = section.take("wait");
        let wait_is_missing = wait.is_none();
        let wait = match wait {
            Some(wait) => wait
                .positive_duration("2s")
                .map(|At { place, value }| At { place, value: InFlight::Wait(value) }),
            None => Some(At { place, value: usual }),
        };
        let then = section.take("then");
        if wait_is_missing && then.is_none() {
            section.wrong("it says nothing", "write { wait = \"2s\" }, \"conflict\" or \"accept\"");
        }
        let then = then.map(|then| then.parse("a word", "accept", |text| choice(text, &THEN)));
        section.finish();
        let At { place, value } = wait?;
        let accept = match then {
            None => false,
            Some(then) => then?.value,
        };
        return Some(At { place, value: (value, accept) });
    }
    let parse = |text: &str| match text {
        "wait" => Err(Fault::new("it does not say how long", "write { wait = \"2s\" }")),
        _ => choice(text, &THEN).map(|accept| (InFlight::Conflict, accept)),
    };
    value.parse("\"conflict\", \"accept\" or { wait = … }", "conflict", parse)
}

fn read_prefer(value: Value<'_>) -> Prefer {
    let mut prefer = Prefer::default();
    let Some(mut section) = value.section("{ respond_async = true, wait = \"30s\" }") else {
        return prefer;
    };
    if let Some(respond) = section.take("respond_async").and_then(|value| value.boolean()) {
        prefer.respond_async = respond.value;
    }
    if let Some(wait) = section.take("wait").and_then(|value| value.positive_duration("30s")) {
        prefer.wait = Some(wait.value);
    }
    section.finish();
    prefer
}
