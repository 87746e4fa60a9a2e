//! How the service is asked what became of an effect.

use std::time::Duration;

use hapax_core::{OnUnknown, Pointer};
use http::{StatusCode, uri::PathAndQuery};

use crate::config::{
    Fault, Place, SecretSource,
    draft::OperationDraft,
    section::{Section, Value},
};

const EXAMPLE: &str = "{ get = \"/v1/payments/by-operation/{effect_id}\" }";

/// The longest time that one question may take.
const LONGEST: Duration = Duration::from_secs(60);

/// The shortest deadline that a service can keep.
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);

/// How the service is asked what became of an effect.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Probe {
    /// The path and query that are asked with GET.
    pub get: PathTemplate,
    /// The statuses that say that the effect exists. Default: 200.
    pub applied: Vec<u16>,
    /// The statuses that say that it is not there. Default: 404.
    pub not_seen: Vec<u16>,
    /// The status that a retry is answered with. Default: that of the answer.
    pub status: Option<u16>,
    /// The part of the answer that a retry is answered with. Default: all of it.
    pub body: Option<Pointer>,
    /// How long one question may take. Default: 5 s.
    pub timeout: Duration,
    /// Where the value of `Authorization` comes from. Default: none is sent.
    pub authorization: Option<SecretSource>,
    /// What is asked with POST to make "not there" final. Default: nothing.
    pub closer: Option<Closer>,
}

/// What makes "not there" final: the service refuses every attempt up to this one from then on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Closer {
    /// The path and query that are asked with POST.
    pub post: PathTemplate,
    /// The statuses that say that nothing was applied and nothing will be. Default: none, so that
    /// only `Hapax-Outcome: not-applied` says so: a place that does not exist answers 404 too.
    pub closed: Vec<u16>,
}

/// A path and query with places for what is asked about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathTemplate(String);

impl PathTemplate {
    /// The path and query for an effect and an attempt.
    pub fn fill(&self, effect_id: &str, attempt: u64) -> String {
        self.0.replace("{effect_id}", effect_id).replace("{attempt}", &attempt.to_string())
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        const HELP: &str = "write it as in \"/v1/payments/by-operation/{effect_id}\"";
        let wrong = |what: &str| Err(Fault::new(what, HELP));
        if !text.starts_with('/') {
            return wrong("a path begins with a slash: it is on the same service");
        }
        if !text.contains("{effect_id}") {
            return wrong("it does not say which effect it asks about");
        }
        let filled = Self(text.to_owned()).fill("0", 1);
        if filled.contains(['{', '}']) {
            return wrong("there are two places to fill in: {effect_id} and {attempt}");
        }
        match PathAndQuery::try_from(&*filled) {
            Ok(_) if !text.contains('#') => Ok(Self(text.to_owned())),
            _ => wrong("it is not a path and query"),
        }
    }
}

pub(super) fn read(value: Value<'_>, draft: &mut OperationDraft) {
    let place = value.place().clone();
    draft.places.insert("probe", place.clone());
    let Some(mut section) = value.section(EXAMPLE) else { return };
    let get = match section.take("get") {
        Some(get) => template(get, "/v1/payments/by-operation/{effect_id}"),
        None => {
            section.wrong("it does not say where the service is asked", format!("write {EXAMPLE}"));
            None
        }
    };
    let applied = statuses(&mut section, "applied", "[200]").unwrap_or_else(|| vec![200]);
    let not_seen = statuses(&mut section, "not_seen", "[404]").unwrap_or_else(|| vec![404]);
    refuse_both(&section, &place, &applied, &not_seen, "not_seen");
    let (status, body) = section.take("outcome").map(read_outcome).unwrap_or_default();
    check_outcome(&section, &place, &applied, (status, body.as_ref()));
    let timeout = section.take("timeout").and_then(|value| value.positive_duration("5s"));
    if let Some(timeout) = timeout.as_ref().filter(|timeout| timeout.value > LONGEST) {
        let what =
            "a question that takes longer than a minute keeps others of the operation waiting";
        section.report().add(&timeout.place, Fault::new(what, "write a shorter one, such as 5s"));
    }
    let authorization = section.take("authorization").and_then(|value| {
        SecretSource::read(value, "/etc/hapax/probe-authorization", "PROBE_AUTHORIZATION")
    });
    let closer = section.take("closer").and_then(|closer| read_closer(closer, draft, &applied));
    section.finish();
    let Some(get) = get else { return };
    let timeout = timeout.map_or(Duration::from_secs(5), |timeout| timeout.value);
    draft.probe =
        Some(Probe { get, applied, not_seen, status, body, timeout, authorization, closer });
}

/// Whether what is asked and what is done about unknown outcomes go together.
pub(super) fn check(section: &Section<'_>, draft: &OperationDraft) {
    let probes = draft.policy.on_unknown == OnUnknown::Probe;
    let given = draft.places.contains_key("probe");
    if given && draft.probe.is_none() {
        // It is wrong by itself, which is reported.
        return;
    }
    let fault = match (probes, given) {
        (true, false) => Fault::new(
            "it does not say how the service is asked what became of an effect",
            format!("add probe = {EXAMPLE}"),
        ),
        (false, true) => Fault::new(
            "the service is asked only where unknown outcomes are probed",
            "write on_unknown = \"probe\", or remove it",
        ),
        _ => return,
    };
    let key = if probes { "on_unknown" } else { "probe" };
    section.report().add(draft.place_of(&[key]), fault);
}

fn template(value: Value<'_>, example: &str) -> Option<PathTemplate> {
    value.parse("a path", example, PathTemplate::parse).map(|template| template.value)
}

fn statuses(section: &mut Section<'_>, key: &'static str, example: &str) -> Option<Vec<u16>> {
    let value = section.take(key)?;
    let place = value.place().clone();
    let report = value.report();
    let statuses = value.whole_numbers(200, 499, example);
    if statuses.as_ref().is_some_and(Vec::is_empty) {
        let what = "it names no status";
        report.add(&place, Fault::new(what, format!("write {key} = {example}, or remove it")));
    }
    let statuses = statuses?.into_iter().map(|status| u16::try_from(status).unwrap_or(u16::MAX));
    Some(statuses.collect())
}

fn refuse_both(
    section: &Section<'_>,
    place: &Place,
    applied: &[u16],
    absent: &[u16],
    absent_key: &str,
) {
    if let Some(both) = applied.iter().find(|status| absent.contains(status)) {
        let what = format!("{both} cannot say both that the effect exists and that it does not");
        let help = format!("leave it out of applied or of {absent_key}");
        section.report().add(place, Fault::new(what, help));
    }
}

fn read_outcome(value: Value<'_>) -> (Option<u16>, Option<Pointer>) {
    let Some(mut section) = value.section("{ status = 201 }") else { return (None, None) };
    let status = section.take("status").and_then(|status| {
        let (place, report) = (status.place().clone(), status.report());
        let status = u16::try_from(status.whole_number(200, 299, "201")?.value).ok()?;
        if [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::PARTIAL_CONTENT]
            .iter()
            .any(|none| *none == status)
        {
            let what = format!("an answer with {status} does not hold what is there");
            report.add(&place, Fault::new(what, "write 200, 201 or 202"));
        }
        Some(status)
    });
    let body = section.take("body").and_then(|body| {
        let pointer = |text: &str| {
            Pointer::parse(text)
                .map_err(|error| Fault::new(error.to_string(), "write it as in \"/payment\""))
        };
        body.parse("a JSON Pointer", "/payment", pointer).map(|body| body.value)
    });
    section.finish();
    (status, body)
}

/// Whether what says that the effect exists can be what retries are answered with.
fn check_outcome(
    section: &Section<'_>,
    place: &Place,
    applied: &[u16],
    (status, body): (Option<u16>, Option<&Pointer>),
) {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    let is_bodiless = |status: &&u16| bodiless.iter().any(|none| none == *status);
    if let (Some(none), Some(_)) = (applied.iter().find(is_bodiless), body) {
        let what = format!("an answer with {none} has no body, so the outcome is not in it");
        let help = "leave it out of applied, or remove outcome.body";
        section.report().add(place, Fault::new(what, help));
    }
    if let (Some(failure), None) = (applied.iter().find(|status| **status >= 300), status) {
        let what =
            format!("{failure} says that the effect exists, and retries would be told {failure}");
        let help = "say what they are told: outcome = { status = 201 }";
        section.report().add(place, Fault::new(what, help));
    }
}

fn read_closer(value: Value<'_>, draft: &mut OperationDraft, applied: &[u16]) -> Option<Closer> {
    const REMEDY: &str = "write { deadline = \"60s\" } if the service refuses requests after their \
                          Hapax-Deadline, or { post = \"/v1/payments/close/{effect_id}\
                          ?attempt={attempt}\" } if it can refuse all attempts up to one";
    let place = value.place().clone();
    let mut section = value.section("{ deadline = \"60s\" }")?;
    let (deadline, post) = (section.take("deadline"), section.take("post"));
    let closed = statuses(&mut section, "closed", "[404]");
    if let (Some(_), None) = (&closed, &post) {
        section.wrong("closed is what the answer to a post says", REMEDY);
    }
    let closed = closed.unwrap_or_default();
    refuse_both(&section, &place, applied, &closed, "closer.closed");
    let closer = match (deadline, post) {
        (Some(deadline), None) => {
            let report = deadline.report();
            let deadline = deadline.positive_duration("60s");
            if let Some(deadline) = deadline.as_ref().filter(|it| it.value < SHORTEST_DEADLINE) {
                let what = "no request gets there in less than a second";
                report.add(&deadline.place, Fault::new(what, "write a longer one, such as 60s"));
            }
            draft.set("probe.closer", deadline, |policy, value| policy.deadline = Some(value));
            None
        }
        (None, Some(post)) => {
            let place = post.place().clone();
            let report = post.report();
            let post = template(post, "/v1/payments/close/{effect_id}?attempt={attempt}")?;
            if !post.0.contains("{attempt}") {
                let what = "it does not say up to which attempt the service is to refuse";
                report.add(&place, Fault::new(what, REMEDY));
            }
            Some(Closer { post, closed })
        }
        (Some(_), Some(_)) => {
            section.wrong("it names a deadline and a post", REMEDY);
            None
        }
        (None, None) => {
            section.wrong("it names neither a deadline nor a post", REMEDY);
            None
        }
    };
    section.finish();
    closer
}
