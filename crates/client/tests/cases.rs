//! The cases that the clients of all languages share: `clients/policy-cases.json`.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, SystemTime};

use hapax_client::{
    Policy,
    course::{Cost, Course, Next, Request},
    facts,
    observation::{Observation, OperationState},
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Cases {
    wall: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    policy: Policy,
    #[serde(default)]
    request: Facts,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Facts {
    safe: bool,
    repeatable: bool,
    idempotent: bool,
    retried_above: bool,
    in_doubt: bool,
    key_age: f64,
}

impl Default for Facts {
    fn default() -> Self {
        let (safe, idempotent, retried_above, in_doubt, key_age) = Default::default();
        Self { safe, repeatable: true, idempotent, retried_above, in_doubt, key_age }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: f64,
    random: f64,
    seen: Value,
    #[serde(default = "yes")]
    budget: bool,
    next: String,
    #[serde(default)]
    pause: f64,
    cost: Option<String>,
}

const fn yes() -> bool {
    true
}

#[test]
fn k7_every_case_is_decided_as_in_the_other_languages() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/policy-cases.json");
    let text = std::fs::read_to_string(path).expect("the cases are beside the clients");
    let cases: Cases = serde_json::from_str(&text).expect("the cases are JSON");
    let wall = httpdate::parse_http_date(&cases.wall).expect("a date");
    assert!(cases.cases.len() > 100, "they are all there");
    for case in &cases.cases {
        run(case, wall);
    }
}

fn run(case: &Case, wall: SystemTime) {
    let Facts { safe, repeatable, idempotent, retried_above, in_doubt, key_age } = case.request;
    let key_age = Duration::from_secs_f64(key_age);
    let request = Request { safe, repeatable, idempotent, retried_above, in_doubt, key_age };
    let mut course = Course::new(&case.policy, request, false);
    for (nth, step) in case.steps.iter().enumerate() {
        let context = format!("{}, step {}", case.name, nth + 1);
        let seen = seen(&case.policy, &step.seen, wall);
        let mut asked = None;
        let at = Duration::from_secs_f64(step.at);
        let next = course.next(&case.policy, &seen, at, step.random, |cost| {
            asked = Some(cost);
            step.budget
        });
        let (word, pause) = match next {
            Next::Resend(pause) => ("resend", pause),
            Next::Ask(pause) => ("ask", pause),
            Next::Done => ("done", Duration::ZERO),
            Next::Refused => ("refused", Duration::ZERO),
            Next::Unknown => ("unknown", Duration::ZERO),
        };
        assert_eq!(word, step.next, "{context}");
        let difference = (pause.as_secs_f64() - step.pause).abs();
        assert!(difference < 1e-6, "{context}: a pause of {pause:?}");
        let cost = asked.filter(|_| step.budget).map(|cost| match cost {
            Cost::Transient => "transient",
            Cost::Throttled => "throttled",
        });
        assert_eq!(cost, step.cost.as_deref(), "{context}");
    }
}

fn seen(policy: &Policy, seen: &Value, wall: SystemTime) -> Observation {
    if let Some(word) = seen.as_str() {
        return match word {
            "never-sent" => Observation::NeverSent { lasting: false },
            "never-sent-lasting" => Observation::NeverSent { lasting: true },
            "lost" => Observation::Lost,
            _ => panic!("nobody knows {word}"),
        };
    }
    if let Some(state) = seen.get("operation") {
        let state: OperationState = serde_json::from_value(state.clone()).expect("a state");
        let retry_after =
            seen.get("retry_after").map(|it| Duration::from_secs_f64(it.as_f64().unwrap()));
        return Observation::Status { state, retry_after };
    }
    let status = seen["status"].as_u64().and_then(|it| u16::try_from(it).ok()).expect("a status");
    let mut headers = HeaderMap::new();
    for (name, value) in seen["headers"].as_object().into_iter().flatten() {
        let name = HeaderName::try_from(name.as_str()).expect("a name");
        headers
            .append(name, HeaderValue::try_from(value.as_str().expect("text")).expect("a value"));
    }
    let mut body = seen.get("json").cloned();
    if let Some(problem) = seen.get("problem") {
        let kind = format!("{}{}", policy.problem_base, problem.as_str().expect("a name"));
        headers.insert("content-type", HeaderValue::from_static("application/problem+json"));
        body = Some(json!({ "type": kind, "title": "", "status": status }));
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    Observation::Answered(facts(policy, status, &headers, body.as_bytes(), wall))
}
