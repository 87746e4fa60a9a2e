//! Scopes from verified tokens.

use std::{fs, path::Path};

use hapax_testkit::{
    Issuer, Request, Serve, Stage, Upstream, UpstreamKind, eventually, fresh_key, until,
};
use serde_json::json;
use tempfile::TempDir;

use crate::SOON;

/// A configuration whose tokens are verified as these settings say.
fn configuration(settings: &str) -> String {
    format!(
        "store = \"sqlite:{{dir}}/hapax.db\"\nscope = {{ jwt = {{ {settings} }} }}\n\
         [[service]]\nupstream = \"{{upstream}}\"\n"
    )
}

/// A gateway with the key set of these issuers in a file, and the service.
fn by_file(issuers: &[Issuer], settings: &str) -> (Serve, Upstream, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    write_key_set(dir.path(), issuers);
    let text = configuration(&format!("jwks_file = \"{{dir}}/jwks.json\"{settings}"));
    (Serve::configured(dir.path(), &upstream, &text), upstream, dir)
}

fn write_key_set(dir: &Path, issuers: &[Issuer]) {
    fs::write(dir.join("jwks.json"), Issuer::key_set(issuers)).expect("the file is written");
}

/// A gateway with the key set behind a URL, and the issuer's server.
struct ByUrl {
    stage: Stage,
    issuer: Upstream,
    _dir: TempDir,
}

impl ByUrl {
    fn new(issuers: &[Issuer]) -> Self {
        Self::prepared(|issuer| publish(issuer, issuers))
    }

    fn prepared(prepare: impl FnOnce(&mut Upstream)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut issuer = Upstream::start(dir.path(), UpstreamKind::Plain);
        prepare(&mut issuer);
        let settings = format!("jwks_url = \"{}/jwks.json\", refresh = \"10s\"", issuer.url());
        let stage = Stage::configured(UpstreamKind::Plain, &configuration(&settings));
        Self { stage, issuer, _dir: dir }
    }
}

fn publish(issuer: &Upstream, issuers: &[Issuer]) {
    issuer.script("jwks.json", &format!("body text {}", Issuer::key_set(issuers)));
}

fn payment(token: &str) -> Request {
    Request::payment(&fresh_key()).header("authorization", &format!("Bearer {token}"))
}

fn with_token(request: &Request, token: &str) -> Request {
    request.clone().without("authorization").header("authorization", &format!("Bearer {token}"))
}

#[test]
fn a_caller_is_who_the_token_says_and_a_renewed_token_is_the_same_caller() {
    let (serve, upstream, _dir) = by_file(&[Issuer::First, Issuer::Second, Issuer::Third], "");
    let gateway = serve.start();
    let annas = Issuer::First.token("anna");
    let of_anna = payment(&annas);
    let first = gateway.send(&of_anna);
    first.assert_stored(201);
    // Another token, of another key and algorithm even: the same caller.
    for issuer in [Issuer::First, Issuer::Second, Issuer::Third] {
        gateway.send(&with_token(&of_anna, &issuer.token("anna"))).assert_replays(&first);
    }
    // The same key of somebody else is another operation.
    let of_bert = with_token(&of_anna, &Issuer::First.token("bert"));
    let berts = gateway.send(&of_bert);
    berts.assert_stored(201);
    assert_ne!(berts.body, first.body);
    // The service gets the token as it is.
    let arrivals = upstream.arrivals();
    assert_eq!(arrivals.len(), 2, "{arrivals:#?}");
    assert_eq!(arrivals[0].field("authorization"), format!("Bearer {annas}"));
}

#[test]
fn a_keyed_request_without_a_valid_token_is_refused_and_claims_nothing() {
    let (serve, upstream, _dir) = by_file(&[Issuer::First], ", audience = \"payments\"");
    let gateway = serve.start();
    let right = json!({ "sub": "anna", "exp": 4_102_444_800_u64, "aud": "payments" });
    let changed = |changes: &[(&str, serde_json::Value)]| {
        let mut claims = right.clone();
        changes.iter().for_each(|(name, value)| claims[*name] = value.clone());
        Issuer::First.token_of(&claims)
    };
    let right = Issuer::First.token_of(&right);
    let request = payment(&right);
    let invalid = [
        "x".to_owned(),
        "a.b.c".to_owned(),
        right.replace('.', "-"),
        format!("{}A", right.trim_end_matches(char::is_alphanumeric)),
        changed(&[("exp", json!(1))]),
        changed(&[("exp", json!(null))]),
        changed(&[("nbf", json!(4_102_444_799_u64))]),
        changed(&[("aud", json!("refunds"))]),
        changed(&[("aud", json!(null))]),
        changed(&[("sub", json!(""))]),
        Issuer::Second.token_of(&json!({ "sub": "anna", "exp": 4_102_444_800_u64 })),
    ];
    for token in &invalid {
        let answer = gateway.send(&with_token(&request, token));
        answer.assert_problem(401, "scope-missing");
        assert_eq!(answer.all("www-authenticate"), ["Bearer error=\"invalid_token\""]);
        assert!(!answer.text().contains("audience") && !answer.text().contains("expired"));
    }
    // RFC 6750, section 3.1: who sent none is told no error.
    for missing in [
        request.clone().without("authorization"),
        request.clone().without("authorization").header("authorization", "Basic YTpi"),
    ] {
        let answer = gateway.send(&missing);
        answer.assert_problem(401, "scope-missing");
        assert_eq!(answer.all("www-authenticate"), ["Bearer"]);
    }
    upstream.assert_arrivals(0);
    let refused = |reason: &str| {
        let reason = format!("reason=\"{reason}\"");
        gateway.metric("hapax_scope_refused_total", &["source=\"jwt\"", &reason])
    };
    assert_eq!((refused("expired"), refused("missing"), refused("unknown_key")), (1.0, 2.0, 1.0));
    // Nothing was claimed by any of them.
    gateway.send(&request).assert_stored(201);
    assert!(gateway.stderr().iter().all(|line| !line.contains(&right) && !line.contains("anna")));
}

#[test]
fn what_carries_no_key_passes_whatever_its_token() {
    let (serve, upstream, _dir) = by_file(&[Issuer::First], "");
    let gateway = serve.start();
    for token in ["x", &Issuer::Second.token("anna"), &Issuer::First.token("anna")] {
        let unkeyed = payment(token).without("idempotency-key");
        assert_eq!(gateway.send(&unkeyed).status, 201);
        let read = Request::get("/payments").header("authorization", &format!("Bearer {token}"));
        assert_eq!(gateway.send(&read).status, 200);
    }
    upstream.assert_arrivals(6);
}

#[test]
fn several_claims_are_one_scope_only_together() {
    let (serve, upstream, _dir) = by_file(&[Issuer::First], ", claim = [\"tenant\", \"/user/id\"]");
    let gateway = serve.start();
    let token = |tenant: &str, user: u64| {
        let exp = 4_102_444_800_u64;
        Issuer::First.token_of(&json!({ "tenant": tenant, "user": { "id": user }, "exp": exp }))
    };
    let request = payment(&token("acme", 12));
    let first = gateway.send(&request);
    first.assert_stored(201);
    gateway.send(&with_token(&request, &token("acme1", 2))).assert_stored(201);
    gateway.send(&with_token(&request, &token("acme", 13))).assert_stored(201);
    gateway.send(&with_token(&request, &token("acme", 12))).assert_replays(&first);
    upstream.assert_effects(3);
}

#[test]
fn a_key_set_in_a_file_is_read_again_when_it_changes_and_never_replaced_by_a_broken_one() {
    let (serve, _upstream, dir) = by_file(&[Issuer::First], "");
    let gateway = serve.start();
    gateway.send(&payment(&Issuer::First.token("anna"))).assert_stored(201);
    let second = || gateway.send(&payment(&Issuer::Second.token("anna"))).status;
    assert_eq!(second(), 401);
    write_key_set(dir.path(), &[Issuer::Second]);
    eventually("the new key is known", SOON, || second() == 201);
    let first = gateway.send(&payment(&Issuer::First.token("anna")));
    first.assert_problem(401, "scope-missing");
    fs::write(dir.path().join("jwks.json"), "{\"keys\": [").expect("the file is written");
    let failed = || gateway.metric("hapax_scope_keys_loaded_total", &["result=\"failed\""]);
    eventually("the broken file is reported", SOON, || failed() == 1.0);
    assert_eq!(second(), 201);
}

#[test]
fn a_token_of_a_new_key_is_verified_at_once_and_made_up_ones_do_not_hammer_the_issuer() {
    let by_url = ByUrl::new(&[Issuer::First]);
    let ByUrl { stage, issuer, .. } = &by_url;
    issuer.assert_arrivals(1);
    stage.gateway.send(&payment(&Issuer::First.token("anna"))).assert_stored(201);
    publish(issuer, &[Issuer::First, Issuer::Second]);
    // Nobody is refused who comes with the new key, once fetching is due again.
    until("the new key is fetched", SOON, || {
        let answer = stage.gateway.send(&payment(&Issuer::Second.token("anna")));
        (answer.status == 201).then_some(())
    });
    let before = issuer.arrivals().len();
    let unknown = Issuer::Third.token("anna");
    let sent: Vec<_> = (0..40).map(|_| stage.gateway.start(&payment(&unknown))).collect();
    for answer in sent {
        answer.answer().assert_problem(401, "scope-missing");
    }
    let asked = issuer.arrivals().len() - before;
    assert!(asked <= 2, "40 tokens of an unknown key had the keys fetched {asked} times");
}

#[test]
fn the_last_keys_stay_in_use_while_the_issuer_is_down() {
    let mut by_url = ByUrl::new(&[Issuer::First]);
    by_url.issuer.kill();
    let gateway = &by_url.stage.gateway;
    let failed = || gateway.metric("hapax_scope_keys_loaded_total", &["result=\"failed\""]);
    eventually("a fetch fails", SOON, || {
        // An unknown key is a reason to fetch.
        gateway.send(&payment(&Issuer::Second.token("anna"))).assert_problem(401, "scope-missing");
        failed() >= 1.0
    });
    gateway.send(&payment(&Issuer::First.token("anna"))).assert_stored(201);
    assert!(gateway.metric("hapax_scope_keys_age_seconds", &[]) > 0.0);
}

#[test]
fn without_any_keys_nobody_is_called_invalid_and_the_first_keys_end_it() {
    let mut by_url = ByUrl::prepared(Upstream::kill);
    let request = payment(&Issuer::First.token("anna"));
    let refused = by_url.stage.gateway.send(&request);
    refused.assert_problem(503, "scope-unavailable").assert_retry_after(1);
    assert_eq!(by_url.stage.gateway.operator("/readyz").status, 503);
    by_url.stage.upstream.assert_arrivals(0);
    // What needs no scope passes.
    let unkeyed = request.clone().without("idempotency-key");
    assert_eq!(by_url.stage.gateway.send(&unkeyed).status, 201);
    publish(&by_url.issuer, &[Issuer::First]);
    by_url.issuer.restart();
    let answer = until("the keys are there", SOON, || {
        let answer = by_url.stage.gateway.send(&request);
        (answer.status != 503).then_some(answer)
    });
    answer.assert_stored(201);
}

#[test]
fn a_configuration_that_is_read_again_keeps_the_keys_of_an_issuer_that_is_down() {
    let mut by_url = ByUrl::new(&[Issuer::First]);
    by_url.issuer.kill();
    let ByUrl { stage, .. } = &by_url;
    let reload = |change: &dyn Fn(String) -> String, result: &str| {
        let path = stage.dir().join("hapax.toml");
        let text = fs::read_to_string(&path).expect("the configuration");
        fs::write(&path, change(text)).expect("written");
        stage.gateway.hang_up();
        let reloads = || stage.gateway.metric("hapax_config_reloads_total", &[result]);
        eventually("the configuration is read", SOON, || reloads() == 1.0);
    };
    let refund = "[[operation]]\nname = \"refund\"\nroutes = [\"POST /refunds\"]\n";
    reload(&|text| format!("{text}{refund}"), "applied");
    let request = payment(&Issuer::First.token("anna")).to("/refunds");
    stage.gateway.send(&request).assert_stored(201);
    // A key set that is not there is no reason to give up the one that is.
    let broken = |text: String| {
        let scope = "scope = { jwt = { jwks_file = \"/nowhere/jwks.json\" } }";
        text.lines()
            .map(|line| if line.starts_with("scope") { scope } else { line })
            .fold(String::new(), |text, line| text + line + "\n")
    };
    reload(&broken, "refused");
    assert!(stage.gateway.send(&request).is_replay());
}

#[test]
fn observe_mode_reports_a_bad_token_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    write_key_set(dir.path(), &[Issuer::First]);
    let text = configuration("jwks_file = \"{dir}/jwks.json\"");
    let gateway = Serve::configured(dir.path(), &upstream, &text).args(["--observe"]).start();
    let bad = payment("x");
    for _ in 0..2 {
        assert_eq!(gateway.send(&bad).status, 201);
    }
    upstream.assert_effects(2);
    assert_eq!(upstream.arrivals()[0].field("authorization"), "Bearer x");
    let refused = || gateway.metric("hapax_observed_total", &["would=\"refuse_scope\""]);
    eventually("both are reported", SOON, || refused() == 2.0);
    let right = payment(&Issuer::First.token("anna"));
    assert_eq!([gateway.send(&right).status, gateway.send(&right).status], [201, 201]);
    // The second may be reported before the first has ended.
    let would =
        |word: &str| gateway.metric("hapax_observed_total", &[&format!("would=\"{word}\"")]);
    eventually("the right one is known", SOON, || would("replay") + would("wait") == 1.0);
    assert_eq!(would("execute"), 1.0);
}

#[test]
fn a_key_set_that_is_not_there_or_of_no_use_does_not_start() {
    let (serve, _upstream, dir) = by_file(&[Issuer::First], "");
    for (content, words) in [
        (Some("{"), "it is not JSON"),
        (Some("{\"keys\": []}"), "none of its 0 keys verifies a token"),
        (None, "cannot be read"),
    ] {
        let path = dir.path().join("jwks.json");
        match content {
            Some(content) => fs::write(&path, content).expect("the file is written"),
            None => fs::remove_file(&path).expect("the file is removed"),
        }
        let ran = serve.run();
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(ran.stderr.contains(words) && ran.stderr.contains("jwks.json"), "{ran:#?}");
        assert!(!ran.stdout.contains("listening on"), "{ran:#?}");
    }
}

#[test]
fn records_of_a_scope_of_several_claims_are_found_by_all_of_them() {
    let (serve, _upstream, dir) = by_file(&[Issuer::First], ", claim = [\"tenant\", \"sub\"]");
    let gateway = serve.start();
    let claims = json!({ "tenant": "acme", "sub": "anna", "exp": 4_102_444_800_u64 });
    let key = fresh_key();
    let request = with_token(&Request::payment(&key), &Issuer::First.token_of(&claims));
    gateway.send(&request).assert_stored(201);
    let config = dir.path().join("hapax.toml").display().to_string();
    let show = |scopes: &[&str]| {
        let mut args = vec!["records", "show", "--config", &config, "--key", &key];
        args.extend(scopes.iter().flat_map(|scope| ["--scope", scope]));
        hapax_testkit::hapax(args)
    };
    assert_eq!(show(&["acme", "anna"]).code, Some(0));
    for other in [&["anna", "acme"][..], &["acmeanna"], &["acme"]] {
        assert_ne!(show(other).code, Some(0), "{other:?}");
    }
    let hint = show(&[]).stderr;
    assert!(hint.contains("tenant and sub") && hint.contains("say --scope"), "{hint}");
}
