//! Observe mode: nothing is changed, everything is reported.

use hapax_testkit::{Request, Serve, Stage, UpstreamKind, eventually, fresh_key};
use serde_json::Value;

use crate::SOON;

fn stage() -> Stage {
    Stage::with(&["--observe"])
}

/// What `records list --observed` says, once so many arrivals are counted in it.
#[track_caller]
fn observed(stage: &Stage, arrivals: u64) -> Vec<Value> {
    hapax_testkit::until(&format!("{arrivals} observed arrivals"), SOON, || {
        let listed = stage.records(&["list", "--observed", "--json"]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let lines = listed.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let lines: Vec<Value> = lines.collect();
        let counted: u64 = lines.iter().filter_map(|line| line["arrivals"].as_u64()).sum();
        (counted >= arrivals).then_some(lines)
    })
}

#[track_caller]
fn assert_would(stage: &Stage, would: &str, keyed: &str, count: f64) {
    let labels = [format!("would=\"{would}\""), format!("keyed=\"{keyed}\"")];
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let value = || stage.gateway.metric("hapax_observed_total", &labels);
    eventually(&format!("{count} would {would}"), SOON, || value() >= count);
    assert_eq!(value(), count, "would {would}");
}

#[test]
fn everything_is_forwarded_as_it_came_and_answered_as_it_was() {
    let stage = stage();
    let key = fresh_key();
    let payment = Request::payment(&key)
        .header("hapax-attempt", "7")
        .header("hapax-anything", "x")
        .header("x-twice", "1")
        .header("x-twice", "2");
    let answers = [(); 3].map(|()| stage.gateway.send(&payment));
    stage.upstream.assert_effects(3);
    for (answer, n) in answers.iter().zip(1..) {
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.all("set-cookie"), [format!("session=secret-{n}; HttpOnly")]);
        for ours in ["idempotent-replayed", "idempotency-expires", "hapax-outcome", "retry-after"] {
            assert_eq!(answer.all(ours), [""; 0], "{answer:?}");
        }
    }
    for arrival in stage.upstream.arrivals() {
        assert_eq!(arrival.field("idempotency-key"), format!("\"{key}\""));
        assert_eq!(arrival.field("hapax-attempt"), "7");
        assert_eq!(arrival.field("hapax-anything"), "x");
        assert_eq!(arrival.all("x-twice"), ["1", "2"]);
        assert_eq!(arrival.field("host"), "gateway");
        let names: Vec<_> = arrival.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut known = vec!["content-type", "idempotency-key", "hapax-attempt", "hapax-anything"];
        known.extend(["x-twice", "host", "content-length", "accept", "user-agent"]);
        assert!(names.iter().all(|name| known.contains(name)), "added: {names:?}");
    }
    // The upstream's own word goes to the client as it is.
    let word =
        "status 200; header hapax-outcome: applied; header idempotent-replayed: true; body empty";
    let answer = stage.gateway.send(&Request::payment(&fresh_key()).act(word));
    assert_eq!(answer.all("hapax-outcome"), ["applied"]);
    assert_eq!(answer.all("idempotent-replayed"), ["true"]);
}

#[test]
fn keys_that_enforcing_would_refuse_go_through() {
    let stage = stage();
    let payment = Request::payment(&fresh_key());
    for key in ["\"\"", "short", "\"unclosed", "jane@example.com-0123456789", "?1"] {
        let answer = stage.gateway.send(&payment.clone().bare_key(key));
        assert_eq!(answer.status, 201, "{key}: {answer:?}");
    }
    let two = payment.header("idempotency-key", "\"another-one\"");
    assert_eq!(stage.gateway.send(&two).status, 201);
    let last = stage.upstream.arrivals().pop().expect("one");
    assert_eq!(last.all("idempotency-key").len(), 2, "{last:?}");
    stage.upstream.assert_arrivals(6);
    assert_would(&stage, "refuse_key", "yes", 6.0);
}

#[test]
fn duplicates_and_changed_intents_are_reported() {
    let stage = stage();
    let payment = Request::payment(&fresh_key());
    for _ in 0..3 {
        assert_eq!(stage.gateway.send(&payment).status, 201);
        // In order: an arrival is reported once its answer was passed on.
        observed(&stage, stage.upstream.arrivals().len() as u64);
    }
    let changed = payment.clone().json(r#"{"amount":7}"#);
    assert_eq!(stage.gateway.send(&changed).status, 201);
    let seen = observed(&stage, 4);
    assert_eq!(seen.len(), 1, "{seen:#?}");
    let line = &seen[0];
    assert_eq!(line["keyed"], true, "{line}");
    assert_eq!(line["operation"], "default", "{line}");
    assert_eq!(line["would_refuse"], 1, "{line}");
    assert_eq!(line["duplicates"], 2, "{line}");
    assert_would(&stage, "execute", "yes", 1.0);
    assert_would(&stage, "refuse", "yes", 1.0);
    assert_eq!(
        line["would_replay"].as_u64().unwrap() + line["would_wait"].as_u64().unwrap(),
        2,
        "{line}"
    );
    stage.upstream.assert_arrivals(4);
    let text = stage.records(&["list", "--observed"]).stdout;
    assert!(text.contains("default") && text.lines().count() == 2, "{text}");
}

#[test]
fn a_copy_at_the_same_time_and_a_retry_after_a_5xx_are_reported_as_what_they_are() {
    let stage = stage();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    observed(&stage, 1);
    let second = stage.gateway.start(&payment);
    stage.upstream.arrived(2);
    stage.upstream.open("answer");
    assert_eq!([first.answer().status, second.answer().status], [201, 201]);
    assert_would(&stage, "wait", "yes", 1.0);

    let failing = Request::payment(&fresh_key()).act("status 500");
    assert_eq!(stage.gateway.send(&failing).status, 500);
    // The end of the first has to be written down before the second is compared with it.
    let ended = || {
        let seen = observed(&stage, 3);
        assert_eq!(stage.gateway.send(&failing).status, 500);
        observed(&stage, 4);
        seen.len() == 2
    };
    assert!(ended());
    let holds = || stage.gateway.metric("hapax_observed_total", &["would=\"hold\""]);
    let waits = || stage.gateway.metric("hapax_observed_total", &["would=\"wait\""]);
    eventually("it is reported", SOON, || holds() + waits() >= 2.0);
}

#[test]
fn unkeyed_duplicates_are_reported_by_scope_method_target_and_bytes() {
    let stage = Stage::of(UpstreamKind::Plain, |serve| {
        serve.without("--single-tenant", 0).args(["--scope-header", "X-Account", "--observe"])
    });
    let request = Request::post("/payments?x=1", r#"{"amount":1}"#).header("x-account", "anna");
    let others = [
        request.clone().json(r#"{"amount":2}"#),
        request.clone().json(r#"{"amount": 1}"#),
        request.clone().to("/payments?x=2"),
        request.clone().method("PATCH"),
        request.clone().without("x-account").header("x-account", "bert"),
    ];
    assert_eq!(stage.gateway.send(&request).status, 201);
    observed(&stage, 1);
    for other in &others {
        assert_eq!(stage.gateway.send(other).status, 201);
    }
    assert_eq!(stage.gateway.send(&request.chunked()).status, 201);
    let seen = observed(&stage, 7);
    assert_eq!(seen.len(), 6, "{seen:#?}");
    let doubled: Vec<_> = seen.iter().filter(|line| line["duplicates"] != 0).collect();
    assert_eq!(doubled.len(), 1, "{seen:#?}");
    assert_eq!(
        (&doubled[0]["keyed"], &doubled[0]["arrivals"]),
        (&Value::from(false), &Value::from(2))
    );
    // A request that does not say whose it is goes through, too.
    let nobody = Request::post("/payments", "{}").key(&fresh_key());
    assert_eq!(stage.gateway.send(&nobody).status, 201);
    stage.upstream.assert_arrivals(8);
}

#[test]
fn observed_requests_stream_and_have_no_limit() {
    let stage = stage();
    let mut client = stage.gateway.connect();
    client.write(format!(
        "POST /echo HTTP/1.1\r\nHost: gateway\r\nX-Do: body duplex\r\nIdempotency-Key: \"{}\"\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        fresh_key()
    ));
    for part in ["first part", "2nd part!!"] {
        client.write(format!("a\r\n{part}\r\n"));
        client.read_until(part);
    }
    client.write("0\r\n\r\n");
    assert!(client.answer().complete);
    let large = Request::new("POST", "/upload").body("application/octet-stream", vec![1; 8 << 20]);
    for request in [large.clone(), large.key(&fresh_key())] {
        assert_eq!(stage.gateway.send(&request).status, 201);
    }
    let mut client = stage.gateway.connect();
    client.write(Request::payment(&fresh_key()).act("status 200; body events").to_bytes());
    client.read_until("data: event 3\n");
}

#[test]
fn a_store_that_fails_is_ignored() {
    let stage = stage();
    let payment = Request::payment(&fresh_key());
    assert_eq!(stage.gateway.send(&payment).status, 201);
    observed(&stage, 1);
    let lock = rusqlite::Connection::open(stage.database()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for _ in 0..5 {
        let begun = std::time::Instant::now();
        assert_eq!(stage.gateway.send(&payment).status, 201);
        assert!(begun.elapsed() < std::time::Duration::from_millis(1500), "{:?}", begun.elapsed());
    }
    lock.execute_batch("ROLLBACK").unwrap();
    std::fs::remove_file(stage.database()).unwrap();
    for _ in 0..5 {
        assert_eq!(stage.gateway.send(&payment).status, 201);
    }
    stage.upstream.assert_arrivals(11);
}

#[test]
fn what_was_observed_is_kept_apart_and_enforcing_starts_from_none_of_it() {
    let mut stage = stage();
    let payment = Request::payment(&fresh_key());
    assert_eq!(stage.gateway.send(&payment).status, 201);
    observed(&stage, 1);
    let records = stage.records(&["list", "--json"]);
    assert_eq!((records.code, records.stdout.as_str()), (Some(0), ""));
    stage.gateway.kill();
    let enforcing = Serve::new(stage.dir(), &stage.upstream).start();
    let first = enforcing.send(&payment);
    first.assert_stored(201);
    enforcing.send(&payment).assert_replays(&first);
    assert_eq!(stage.upstream.arrivals()[1].attempt(), 1);
    stage.upstream.assert_arrivals(2);
}

#[test]
fn one_operation_can_be_observed_while_another_enforces() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        [[operation]]
        name = "orders.create"
        routes = ["POST /orders"]
        mode = "observe"
        "#,
    );
    let payment = Request::payment(&fresh_key());
    let order = payment.clone().to("/orders");
    let first = stage.gateway.send(&payment);
    stage.gateway.send(&payment).assert_replays(&first);
    for _ in 0..2 {
        assert_eq!(stage.gateway.send(&order).status, 201);
    }
    stage.upstream.assert_arrivals(3);
    assert_eq!(observed(&stage, 2)[0]["operation"], "orders.create");
}
