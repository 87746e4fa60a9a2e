//! What operators see: records, health, metrics; and what they must not see.

use std::fs;

use hapax_testkit::{Ran, Request, Serve, Stage, Upstream, UpstreamKind, fresh_key, hapax};
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
    assert_eq!(gateway.send(&large).status, 200);
    gateway.send(&large).assert_problem(409, "outcome-not-kept");
    hapax_testkit::eventually("the outcome expires", crate::SOON, || {
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

#[test]
fn no_effect_id_is_shown_that_another_secret_made() {
    let stage = Stage::new();
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    let effect_id = stage.upstream.only_arrival().effect_id().to_string();
    let foreign = stage.dir().join("foreign.key");
    fs::write(&foreign, "5".repeat(64)).expect("written");
    let foreign = foreign.display().to_string();
    let with_foreign =
        |args: &[&str]| stage.records(&[args, &["--effect-secret", &foreign]].concat());

    let listed = with_foreign(&["list", "--json"]);
    let record = lines(&listed).remove(0);
    assert_eq!(record["effect_id"], Value::Null, "{record}");
    assert_eq!(listed.stderr.matches("not the one").count(), 1, "{listed:?}");
    let id = record["record"].as_str().expect("an id");
    let shown = with_foreign(&["show", id]);
    assert!(shown.stdout.contains("? (the secret at hand is not this store's)"), "{shown:?}");
    assert_eq!(shown.stderr.matches("not the one").count(), 1, "{shown:?}");
    let searched = with_foreign(&["show", "--effect-id", &effect_id]);
    assert_eq!((searched.code, &*searched.stdout), (Some(2), ""), "{searched:?}");
    assert!(searched.stderr.contains("--effect-secret FILE"), "{searched:?}");

    // The same for one that took the place of the store's own.
    fs::copy(&foreign, stage.dir().join("hapax.db.effect-key")).expect("copied");
    assert_eq!(stage.records(&["show", "--effect-id", &effect_id]).code, Some(2));
    assert_eq!(stage.records(&["show", id, "--json"]).json()["effect_id"], Value::Null);
}

#[test]
fn an_uncertain_record_tells_what_was_observed() {
    let stage = Stage::new();
    let (answered, lost) = (fresh_key(), fresh_key());
    stage.gateway.send(&Request::payment(&answered).act("status 500")).assert_unresolved(500);
    let cut = Request::payment(&lost).act("effect; cut");
    stage.gateway.send(&cut).assert_problem(409, "outcome-unknown");
    let statuses: Vec<_> = lines(&stage.records(&["list", "--json"]))
        .iter()
        .map(|record| (record["status"].clone(), record["observed_status"].clone()))
        .collect();
    assert_eq!(statuses, [(Value::Null, Value::Null), (Value::Null, 500.into())]);
    let table = stage.records(&["list"]).stdout;
    assert_eq!(table.matches("(500)").count(), 1, "{table}");
    let shown = stage.records(&["show", "--key", &answered, "--json"]).json();
    assert_eq!(shown["observed_status"], 500, "{shown}");
    assert!(shown["history"][0]["attempt"].is_u64(), "{shown}");
    let line = |key: &str| {
        let shown = stage.records(&["show", "--key", key]).stdout;
        let line = shown.lines().find(|line| line.starts_with("observed status"));
        line.unwrap_or_else(|| panic!("{shown}")).to_owned()
    };
    assert!(line(&answered).ends_with(" 500"), "{}", line(&answered));
    assert!(line(&lost).contains("none"), "{}", line(&lost));
}

#[test]
fn a_list_that_stops_at_its_limit_says_how_to_go_on() {
    let stage = Stage::new();
    for _ in 0..5 {
        stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    }
    let whole = stage.records(&["list", "--limit", "5"]);
    assert!(!whole.stdout.contains("there are more"), "{whole:?}");
    let all = lines(&stage.records(&["list", "--json"]));
    let mut pages = Vec::new();
    let mut page = stage.records(&["list", "--limit", "2"]);
    while let Some((_, before)) = page.stdout.trim_end().split_once("--before ") {
        assert!(page.stdout.contains("2 shown, there are more: --limit N or"), "{page:?}");
        let paged = stage.records(&["list", "--limit", "2", "--json", "--before", before]);
        assert_eq!(paged.stderr.contains("there are more"), pages.is_empty(), "{paged:?}");
        pages.extend(lines(&paged));
        page = stage.records(&["list", "--limit", "2", "--before", before]);
    }
    assert_eq!(pages, all[2..]);
}

#[test]
fn a_search_in_vain_says_where_it_looked_and_what_there_is() {
    let stage = Stage::configured(
        UpstreamKind::Plain,
        r#"
        store = "sqlite:{dir}/hapax.db"
        scope = { header = "X-Account" }
        [[service]]
        upstream = "{upstream}"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        "#,
    );
    let key = fresh_key();
    let payment = Request::payment(&key).header("x-account", "anna");
    stage.gateway.send(&payment).assert_stored(201);
    let database = stage.database().display().to_string();
    let config = stage.dir().join("hapax.toml").display().to_string();
    let in_vain = |args: &[&str], said: &[&str]| {
        let ran = stage.records(&[&["show"], args].concat());
        assert_eq!((ran.code, &*ran.stdout), (Some(1), ""), "{ran:?}");
        for said in said.iter().chain(&[&*database]) {
            assert!(ran.stderr.contains(said), "{said}: {ran:?}");
        }
        ran.stderr
    };
    let there = "operations with records: payments.create";
    let said = in_vain(&["--key", &key], &["operation default", "single tenant", there]);
    assert!(!said.contains(&key) && !said.contains("refuses this key"), "{said}");
    let other = "say --operation payments.create";
    in_vain(&["--key", &key, "--scope", "anna"], &["scope \"anna\"", other]);
    let of_payments = ["--key", "short", "--operation", "payments.create", "--config", &config];
    in_vain(&["--key", "short"], &["refuses this key", "at least 16"]);
    in_vain(&of_payments, &["refuses this key", "header x-account: say --scope"]);
    in_vain(&["ffffffffff"], &["\"ffffffffff\""]);
    in_vain(&["--effect-id", &key], &[&key]);
    let listed = stage.records(&["list", "--operation", "other"]).stdout;
    assert!(listed.contains(&database) && listed.contains(there), "{listed}");
}

#[test]
fn the_gateways_configuration_names_store_and_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    fs::write(at("secret"), "5f".repeat(32)).expect("written");
    // What the file leaves out is said to `serve` alone.
    let text = "store = \"sqlite:{dir}/other.db\"\neffect_secret = { file = \"{dir}/secret\" }\n";
    let serve = Serve::configured(dir.path(), &upstream, text);
    let gateway = serve.args(["--upstream", &upstream.url(), "--single-tenant"]).start();
    let key = fresh_key();
    gateway.send(&Request::payment(&key)).assert_stored(201);
    let effect_id = upstream.only_arrival().effect_id().to_string();

    let config = at("hapax.toml");
    let shown = |args: &[&str]| hapax([&["records", "show", "--config", &config], args].concat());
    assert_eq!(shown(&["--key", &key, "--json"]).json()["effect_id"], effect_id);
    assert_eq!(shown(&["--effect-id", &effect_id]).code, Some(0));
    assert_eq!(lines(&hapax(["records", "list", "--config", &config, "--json"])).len(), 1);
    // Flags go before it.
    let absent = shown(&["--key", &key, "--store", &format!("sqlite:{}", at("absent.db"))]);
    assert_eq!(absent.code, Some(2), "{absent:?}");
    assert!(absent.stderr.contains("absent.db"), "{absent:?}");
    fs::write(at("foreign"), "6f".repeat(32)).expect("written");
    let foreign = shown(&["--effect-id", &effect_id, "--effect-secret", &at("foreign")]);
    assert_eq!(foreign.code, Some(2), "{foreign:?}");
    // From a variable: the message names it where it is missing.
    let by_env = fs::read_to_string(&config).expect("readable").replace("file =", "env =");
    fs::write(&config, by_env.replace(&at("secret"), "NO_SUCH_SECRET")).expect("written");
    let unset = shown(&["--key", &key]);
    assert_eq!(unset.code, Some(0), "{unset:?}");
    assert!(unset.stderr.contains("NO_SUCH_SECRET"), "{unset:?}");
    assert!(unset.stdout.contains("? (its secret is not at hand)"), "{unset:?}");
    assert_eq!(shown(&["--effect-id", &effect_id]).code, Some(2));
}
