//! Outcomes that the body of an answer tells, for services that answer 200 in any case.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

use crate::SOON;

/// A GraphQL service's mutation.
const GRAPHQL: &str = r#"
    [[operation]]
    name = "payments.create"
    routes = ["POST /graphql"]
    response_cap = "4KiB"
    outcome = [
        { at = "/errors/0/extensions/code", not_applied = ["BAD_USER_INPUT"], failed = ["DECLINED"] },
        { at = "/errors", present = "unknown" },
        { at = "/data/pay/status", applied = ["OK"] },
    ]
"#;

fn stage(more: &str) -> Stage {
    Stage::operations(UpstreamKind::Plain, &format!("{GRAPHQL}{more}"))
}

const OK: &str = r#"{"data":{"pay":{"status":"OK"}}}"#;

fn mutation(key: &str) -> Request {
    Request::post("/graphql", r#"{"query":"mutation { pay }"}"#).key(key)
}

/// The service makes its effect, or none, and answers 200 with this.
fn answered(request: &Request, effect: bool, body: &str) -> Request {
    let effect = if effect { "effect; " } else { "" };
    request.clone().act(&format!(
        "{effect}status 200; header content-type: application/graphql-response+json; body text {body}"
    ))
}

#[test]
fn an_answer_without_errors_is_stored_and_replayed() {
    let stage = stage("");
    let request = mutation(&fresh_key());
    let first = stage.gateway.send(&answered(&request, true, OK));
    first.assert_stored(200);
    assert_eq!(first.text(), OK);
    stage.gateway.send(&request).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_error_that_says_nothing_happened_frees_the_key_for_the_corrected_request() {
    let stage = stage("");
    let request = mutation(&fresh_key());
    let invalid = r#"{"errors":[{"extensions":{"code":"BAD_USER_INPUT"}}],"data":null}"#;
    let refused = stage.gateway.send(&answered(&request, false, invalid));
    assert_eq!((refused.status, refused.text().as_str()), (200, invalid), "{refused:?}");
    refused.assert_outcome("not-applied");
    assert_eq!(refused.field("idempotency-expires"), None);
    let corrected = request.json(r#"{"query":"mutation { pay(to: 1) }"}"#);
    let first = stage.gateway.send(&answered(&corrected, true, OK));
    first.assert_stored(200);
    stage.gateway.send(&corrected).assert_replays(&first);
    let attempts: Vec<_> = stage.upstream.arrivals().iter().map(|it| it.attempt()).collect();
    assert_eq!(attempts, [1, 2]);
    stage.upstream.assert_effects(1);
}

#[test]
fn a_stable_failure_is_replayed_whatever_its_status_says() {
    let stage = stage("");
    let request = mutation(&fresh_key());
    let declined = r#"{"errors":[{"extensions":{"code":"DECLINED"}}]}"#;
    let first = stage.gateway.send(&answered(&request, false, declined));
    first.assert_stored(200);
    stage.gateway.send(&answered(&request, true, OK)).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
    let labels = ["result=\"failed_terminal\""];
    assert_eq!(stage.gateway.metric("hapax_executions_total", &labels), 1.0);
}

#[test]
fn what_cannot_be_told_is_unknown_and_not_executed_again() {
    let stage = stage("");
    let large = format!(r#"{{"data":{{"pay":{{"status":"OK","note":"{}"}}}}}}"#, "x".repeat(5000));
    for (what, body, shown) in [
        ("another error", r#"{"errors":[{"extensions":{"code":"LATER"}}]}"#, true),
        ("an error without code", r#"{"errors":[{"message":"no"}],"data":null}"#, true),
        ("another status", r#"{"data":{"pay":{"status":"PENDING"}}}"#, true),
        ("nothing", r#"{"data":{"pay":null}}"#, true),
        ("no JSON", "OK", true),
        ("a member twice", r#"{"data":{"pay":{"status":"OK","status":"OK"}}}"#, true),
        ("empty", "", true),
        ("larger than what is kept", &large, false),
    ] {
        let request = mutation(&fresh_key());
        let before = stage.upstream.arrivals().len();
        let first = stage.gateway.send(&answered(&request, true, body));
        assert_eq!(first.text(), body, "{what}: the caller gets the answer");
        first.assert_unresolved(200);
        let retry = stage.gateway.send(&answered(&request, true, OK));
        if shown {
            retry.assert_unresolved(200);
            assert_eq!(retry.text(), body, "{what}");
        } else {
            retry.assert_problem(409, "outcome-unknown");
        }
        assert_eq!(stage.upstream.arrivals().len(), before + 1, "{what}");
    }
    let events = mutation(&fresh_key()).act("effect; status 200; body events");
    let streamed = stage.gateway.metric("hapax_executions_total", &["result=\"uncertain\""]);
    drop(stage.gateway.start(&events));
    hapax_testkit::eventually("the stream is settled", SOON, || {
        stage.gateway.metric("hapax_executions_total", &["result=\"uncertain\""]) > streamed
    });
    let retry = stage.gateway.send(&events);
    assert_eq!(retry.problem().as_deref(), Some("outcome-unknown"), "{retry:?}");
}

#[test]
fn the_services_own_word_goes_before_what_its_answer_tells() {
    let stage = stage("");
    let errors = r#"{"errors":[{"message":"no"}]}"#;
    let request = mutation(&fresh_key());
    let says = |word: &str, body: &str| {
        request.clone().act(&format!("status 200; header hapax-outcome: {word}; body text {body}"))
    };
    stage.gateway.send(&says("not-applied", OK)).assert_outcome("not-applied");
    let first = stage.gateway.send(&says("applied", errors));
    first.assert_stored(200);
    stage.gateway.send(&request).assert_replays(&first);
    stage.upstream.assert_arrivals(2);
    let unknown = mutation(&fresh_key())
        .act(&format!("status 200; header hapax-outcome: unknown; body text {OK}"));
    stage.gateway.send(&unknown).assert_unresolved(200);
}

#[test]
fn a_status_that_tells_is_believed_as_ever() {
    let stage = stage("");
    let failed = mutation(&fresh_key()).act(&format!("status 402; body text {OK}"));
    let first = stage.gateway.send(&failed);
    first.assert_stored(402);
    let refused = mutation(&fresh_key()).act(&format!("status 422; body text {OK}"));
    assert_eq!(stage.gateway.send(&refused).field("idempotency-expires"), None);
    let broken = mutation(&fresh_key()).act(&format!("status 500; body text {OK}"));
    stage.gateway.send(&broken).assert_unresolved(500);
}

#[test]
fn a_compressed_answer_is_read_and_passed_on_as_it_came() {
    let stage = stage("");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(OK.as_bytes()).unwrap();
    let body = encoder.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let request = mutation(&fresh_key());
    let raw = [head.as_bytes(), &body].concat();
    let first = stage.gateway.send(&request.clone().answered_raw("effect; ", &raw));
    first.assert_stored(200);
    assert_eq!(first.body, body);
    let replay = stage.gateway.send(&request);
    replay.assert_replays(&first);
    assert_eq!(replay.field("content-encoding").as_deref(), Some("gzip"));
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_single_rule_reads_presence_and_absence() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /graphql"]
        outcome = { at = "/errors", absent = "applied", present = "unknown" }
        "#,
    );
    let request = mutation(&fresh_key());
    let first = stage.gateway.send(&answered(&request, true, r#"{"data":{},"errors":null}"#));
    first.assert_stored(200);
    let request = mutation(&fresh_key());
    let unknown = stage.gateway.send(&answered(&request, true, r#"{"errors":[]}"#));
    unknown.assert_unresolved(200);
}

#[test]
fn observe_mode_reads_the_answers_that_tell_too() {
    let stage = stage("mode = \"observe\"\n");
    let observed = |word: &str| {
        let label = format!("would=\"{word}\"");
        stage.gateway.metric("hapax_observed_total", &[&label])
    };
    // Each time until its end is written down a copy would have waited.
    for (body, of_copies) in [
        (OK, "replay"),
        (r#"{"errors":[{"message":"no"}]}"#, "hold"),
        (r#"{"errors":[{"extensions":{"code":"DECLINED"}}]}"#, "replay"),
        (r#"{"errors":[{"extensions":{"code":"BAD_USER_INPUT"}}]}"#, "execute"),
    ] {
        let request = answered(&mutation(&fresh_key()), true, body);
        let executed = observed("execute");
        assert_eq!(stage.gateway.send(&request).text(), body);
        hapax_testkit::eventually("it would have been executed", SOON, || {
            observed("execute") > executed
        });
        let before = observed(of_copies);
        hapax_testkit::eventually(&format!("{body}: {of_copies}"), SOON, || {
            assert_eq!(stage.gateway.send(&request).text(), body);
            observed(of_copies) > before
        });
    }
}
