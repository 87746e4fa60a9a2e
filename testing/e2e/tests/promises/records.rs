//! What operators see: records, health, metrics; and what they must not see.

use std::fs;

use hapax_e2e::{Ran, Request, Stage, UpstreamKind, fresh_key, hapax};
use serde_json::Value;

/// The lines of a listing in JSON.
#[track_caller]
fn lines(ran: &Ran) -> Vec<Value> {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A record in every state that a request can leave behind.
struct Scene {
    stage: Stage,
    succeeded: String,
    failed: String,
    released: String,
    uncertain: String,
    executing: String,
}

impl Scene {
    fn new() -> Self {
        let stage = Stage::new();
        let [succeeded, failed, released, uncertain, executing] = [(); 5].map(|()| fresh_key());
        stage.gateway.send(&Request::payment(&succeeded)).assert_stored(201);
        stage.gateway.send(&Request::payment(&failed).act("status 402")).assert_stored(402);
        assert_eq!(stage.gateway.send(&Request::payment(&released).act("status 400")).status, 400);
        let lost = Request::payment(&uncertain).act("effect; cut");
        stage.gateway.send(&lost).assert_problem(409, "outcome-unknown");
        let _running = stage.gateway.start(&Request::payment(&executing).act("gate never"));
        stage.upstream.arrived(5);
        Self { stage, succeeded, failed, released, uncertain, executing }
    }
}

#[test]
fn b10_records_are_listed_by_state_and_operation_and_shown_by_key_and_effect_id() {
    let scene = Scene::new();
    let Scene { stage, succeeded, failed, released, uncertain, executing } = &scene;
    assert_eq!(lines(&stage.records(&["list", "--json"])).len(), 5);
    let arrivals = stage.upstream.arrivals();
    for (n, (key, state)) in [
        (succeeded, "succeeded"),
        (failed, "failed_terminal"),
        (released, "released"),
        (uncertain, "uncertain"),
        (executing, "executing"),
    ]
    .into_iter()
    .enumerate()
    {
        let listed = lines(&stage.records(&["list", "--state", state, "--json"]));
        assert_eq!(listed.len(), 1, "{state}: {listed:#?}");
        let record = &listed[0];
        let effect_id = arrivals[n].effect_id().to_string();
        assert_eq!(record["state"], state, "{record}");
        assert_eq!(record["effect_id"], effect_id, "{record}");
        assert_eq!(record["operation"], "default", "{record}");
        assert_eq!(record["attempt"], 1, "{record}");
        let by_key = stage.records(&[
            "show",
            "--key",
            key,
            "--single-tenant",
            "--operation",
            "default",
            "--json",
        ]);
        assert_eq!(by_key.json()["record"], record["record"]);
        let by_effect = stage.records(&["show", "--effect-id", &effect_id, "--json"]);
        assert_eq!(by_effect.json()["record"], record["record"]);
        let text = stage.records(&["show", "--effect-id", &effect_id]).stdout;
        assert!(text.contains(state) && text.contains(&effect_id), "{text}");
    }
    let table = stage.records(&["list"]).stdout;
    for word in ["succeeded", "failed_terminal", "released", "uncertain", "executing", "default"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    assert_eq!(lines(&stage.records(&["list", "--operation", "default", "--json"])).len(), 5);
    assert_eq!(lines(&stage.records(&["list", "--operation", "other", "--json"])).len(), 0);
    // Also when nobody runs on it.
    let mut scene = scene;
    scene.stage.gateway.kill();
    assert_eq!(lines(&scene.stage.records(&["list", "--json"])).len(), 5);
}

#[test]
fn what_is_not_there_is_said_so() {
    let stage = Stage::new();
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    let unknown = fresh_key();
    for args in [
        &["show", "--key", &unknown][..],
        &["show", "--effect-id", &unknown],
        &["show", "ffffffffff"],
        &["show"],
        &["show", "--effect-id", "no uuid"],
        &["list", "--state", "lost"],
    ] {
        let ran = stage.records(args);
        assert!(matches!(ran.code, Some(1 | 2)), "{args:?}: {ran:?}");
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
    let nowhere = hapax(["records", "list", "--store", "sqlite:/nowhere/hapax.db"]);
    assert!(matches!(nowhere.code, Some(1 | 2)), "{nowhere:?}");
    assert!(nowhere.stderr.contains("/nowhere/hapax.db"), "{nowhere:?}");
    // Looking at a database that is not there does not make one.
    let absent = stage.dir().join("absent.db");
    let ran = hapax(["records", "list", "--store", &format!("sqlite:{}", absent.display())]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(!absent.exists());
}

#[test]
fn a_records_history_tells_what_happened_beside_its_plain_course() {
    let stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("effect; cut")).assert_problem(503, "outcome-unknown");
    stage.gateway.send(&payment).assert_stored(201);
    let effect_id = stage.upstream.arrivals()[0].effect_id().to_string();
    let shown = stage.records(&["show", "--effect-id", &effect_id, "--json"]).json();
    assert_eq!((&shown["state"], &shown["attempt"]), (&"succeeded".into(), &2.into()), "{shown}");
    let history = shown["history"].as_array().expect("a history");
    assert!(history.len() >= 2, "unknown, then resent: {shown}");
}

#[test]
fn scopes_and_operations_are_part_of_what_is_shown() {
    let stage = Stage::of(UpstreamKind::Plain, |serve| {
        serve.without("--single-tenant", 0).args(["--scope-header", "X-Account"])
    });
    let key = fresh_key();
    for account in ["anna", "bert"] {
        stage.gateway.send(&Request::payment(&key).header("x-account", account)).assert_stored(201);
    }
    let shown = |scope: &str| stage.records(&["show", "--key", &key, "--scope", scope, "--json"]);
    let (anna, bert) = (shown("anna").json(), shown("bert").json());
    assert_ne!(anna["record"], bert["record"]);
    assert_eq!(anna["effect_id"], stage.upstream.arrivals()[0].effect_id().to_string());
    assert_eq!(shown("carl").code, Some(1));
    assert_eq!(stage.records(&["show", "--key", &key, "--single-tenant"]).code, Some(1));
}

#[test]
fn f9_keys_scopes_and_bodies_are_in_no_database_index_log_or_metric() {
    let mut stage = Stage::of(UpstreamKind::Plain, |serve| {
        serve
            .without("--single-tenant", 0)
            .args(["--scope-header", "X-Account"])
            .env("HAPAX_LOG", "trace")
    });
    let key = fresh_key();
    let secret = "4f1d7c-very-secret-iban";
    let payment = Request::post("/payments", &format!(r#"{{"amount":1,"to":"{secret}"}}"#))
        .key(&key)
        .header("x-account", "account-of-anna");
    stage.gateway.send(&payment).assert_stored(201);
    stage.gateway.send(&payment);
    stage.gateway.send(&payment.clone().json("{}")).assert_problem(422, "key-reused");
    stage.gateway.send(&payment.clone().key(&fresh_key()).act("effect; cut"));
    stage.gateway.send(&payment.clone().bare_key(&format!("{key},")));
    let metrics = stage.gateway.operator("/metrics").text();
    let log = stage.gateway.stderr().join("\n") + &stage.gateway.stdout().join("\n");
    stage.gateway.terminate();
    stage.gateway.ended(crate::SOON);
    let mut database = Vec::new();
    for name in ["hapax.db", "hapax.db-wal"] {
        database.extend(fs::read(stage.dir().join(name)).unwrap_or_default());
    }
    let listed = stage.records(&["list", "--json"]).stdout + &stage.records(&["list"]).stdout;
    for private in [key.as_str(), secret, "account-of-anna"] {
        assert!(!metrics.contains(private), "{private} in the metrics: {metrics}");
        assert!(!log.contains(private), "{private} in the log: {log}");
        assert!(!listed.contains(private), "{private} in the listing: {listed}");
        let found = database.windows(private.len()).any(|window| window == private.as_bytes());
        assert!(!found, "{private} in the database");
    }
}

#[test]
fn health_and_readiness_are_told() {
    let stage = Stage::new();
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = stage.gateway.operator(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    assert_eq!(stage.gateway.operator("/elsewhere").status, 404);
    // They are not where callers are: that path belongs to the service.
    let answer = stage.gateway.send(&Request::get("/metrics"));
    assert!(answer.text().contains("arrival"), "{answer:?}");
}

#[test]
fn b9_every_decision_and_execution_and_store_commit_is_counted() {
    let stage = Stage::with(&["--retain", "4s"]);
    let gateway = &stage.gateway;
    let payment = Request::payment(&fresh_key());
    let first = gateway.send(&payment);
    gateway.send(&payment).assert_replays(&first);
    gateway.send(&payment.clone().json("{}")).assert_problem(422, "key-reused");
    let running = Request::payment(&fresh_key()).act("gate answer");
    let pending = gateway.start(&running);
    stage.upstream.arrived(2);
    assert_eq!(gateway.metric("hapax_executing", &[]), 1.0);
    gateway.send(&running).assert_problem(409, "in-flight");
    stage.upstream.open("answer");
    pending.answer().assert_stored(201);
    let refused = Request::payment(&fresh_key()).act("status 400");
    gateway.send(&refused);
    let failed = Request::payment(&fresh_key()).act("status 404");
    gateway.send(&failed).assert_stored(404);
    let observed = Request::payment(&fresh_key()).act("status 500");
    gateway.send(&observed).assert_unresolved(500);
    gateway.send(&observed).assert_unresolved(500);
    let lost = Request::payment(&fresh_key()).act("cut");
    gateway.send(&lost);
    gateway.send(&lost).assert_problem(409, "outcome-unknown");
    let large = Request::payment(&fresh_key()).act("effect; status 200; body sized 2000000");
    gateway.send(&large).assert_stored(200);
    gateway.send(&large).assert_problem(409, "outcome-not-kept");
    hapax_e2e::eventually("the outcome expires", crate::SOON, || {
        gateway.send(&payment).problem().as_deref() == Some("key-expired")
    });
    for (decision, count) in [
        ("execute", 7.0),
        ("key_reused", 1.0),
        ("in_flight", 1.0),
        ("observed", 1.0),
        ("hold", 1.0),
        ("not_kept", 1.0),
        ("key_expired", 1.0),
    ] {
        let label = format!("decision=\"{decision}\"");
        assert_eq!(gateway.metric("hapax_decisions_total", &[&label]), count, "{decision}");
    }
    assert!(gateway.metric("hapax_decisions_total", &["decision=\"replay\""]) >= 1.0);
    for (result, count) in [("succeeded", 3.0), ("failed_terminal", 1.0), ("not_applied", 1.0)] {
        let label = format!("result=\"{result}\"");
        assert_eq!(gateway.metric("hapax_executions_total", &[&label]), count, "{result}");
    }
    assert_eq!(gateway.metric("hapax_executing", &[]), 0.0);
    let text = gateway.operator("/metrics").text();
    let is_commit = |line: &&str| line.starts_with("hapax_") && line.contains("commit");
    assert!(text.lines().any(|line| is_commit(&line)), "commits are counted: {text}");
}
