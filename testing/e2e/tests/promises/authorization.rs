//! Authorization before replay: an outcome is shown to those who may still see it.

use hapax_testkit::{Answer, Request, Stage, Upstream, UpstreamKind, eventually, fresh_key, until};
use tempfile::TempDir;

use crate::SOON;

const ALLOW: &str = "status 204; body empty";
const FORBID: &str = "status 403; body text you may not";

/// A gateway in front of a service, and somebody else who knows who may see what.
struct Scene {
    stage: Stage,
    authority: Upstream,
    _dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self::with("")
    }

    /// With more settings of the operation.
    fn with(settings: &str) -> Self {
        Self::of(&format!(
            "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
             authorize = {{ url = \"{{authority}}/may?kind=replay\", timeout = \"1s\" }}\n{settings}"
        ))
    }

    /// With these operations, in which `{authority}` is replaced.
    fn of(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Upstream::start(dir.path(), UpstreamKind::Plain);
        authority.script("may", ALLOW);
        let text = text.replace("{authority}", &authority.url());
        Self { stage: Stage::operations(UpstreamKind::Plain, &text), authority, _dir: dir }
    }

    fn send(&self, request: &Request) -> Answer {
        self.stage.gateway.send(request)
    }

    /// Asserts that the outcome is withheld: a problem, nothing of the outcome, no execution.
    #[track_caller]
    fn assert_withheld(&self, request: &Request, status: u16, problem: &str) -> Answer {
        let arrivals = self.stage.upstream.arrivals().len();
        let answer = self.send(request);
        answer.assert_problem(status, problem);
        assert_nothing_of_it(&answer);
        self.stage.upstream.assert_arrivals(arrivals);
        answer
    }
}

#[track_caller]
fn assert_nothing_of_it(answer: &Answer) {
    assert!(!answer.text().contains("pay_"), "{answer:?}");
    for field in ["location", "etag", "idempotency-expires", "idempotent-replayed"] {
        assert_eq!(answer.all(field), [""; 0], "{answer:?}");
    }
}

#[test]
fn t11_permission_revoked_after_success_withholds_the_outcome_and_given_back_it_is_replayed() {
    let scene = Scene::new();
    let payment = Request::payment(&fresh_key()).header("authorization", "Bearer anna");
    let first = scene.send(&payment);
    first.assert_stored(201);
    scene.send(&payment).assert_replays(&first);
    scene.authority.script("may", FORBID);
    for _ in 0..3 {
        let refused = scene.assert_withheld(&payment, 403, "replay-forbidden");
        assert!(!refused.text().contains("you may not"), "{refused:?}");
    }
    scene.authority.script("may", ALLOW);
    scene.send(&payment).assert_replays(&first);
    scene.stage.upstream.assert_arrivals(1);
    let result = |result: &str| {
        let labels = ["operation=\"payments.create\"", &format!("result=\"{result}\"")];
        scene.stage.gateway.metric("hapax_authorizations_total", &labels)
    };
    assert_eq!((result("allowed"), result("forbidden"), result("unavailable")), (2.0, 3.0, 0.0));
}

#[test]
fn t11_a_401_of_the_authority_is_passed_on_with_its_challenge_and_not_its_body() {
    let scene = Scene::new();
    let payment = Request::payment(&fresh_key());
    scene.send(&payment).assert_stored(201);
    let challenge = "Bearer realm=\"payments\", error=\"invalid_token\"";
    let script = format!("status 401; header www-authenticate: {challenge}; body text secret");
    scene.authority.script("may", &script);
    let refused = scene.assert_withheld(&payment, 401, "replay-forbidden");
    assert_eq!(refused.all("www-authenticate"), [challenge]);
    assert!(!refused.text().contains("secret"), "{refused:?}");
}

#[test]
fn t11_a_duplicate_that_waited_is_asked_about_after_the_wait() {
    let scene = Scene::with("in_flight = { wait = \"20s\" }\n");
    let payment = Request::payment(&fresh_key());
    let leader = scene.stage.gateway.start(&payment.clone().act("gate answer"));
    scene.stage.upstream.arrived(1);
    let waiting: Vec<_> = (0..3).map(|_| scene.stage.gateway.start(&payment)).collect();
    let waits = || scene.stage.gateway.metric("hapax_waiting", &[]);
    eventually("three wait", SOON, || waits() == 3.0);
    // Nobody was asked before: what was allowed then may not be now.
    scene.authority.assert_arrivals(0);
    scene.authority.script("may", FORBID);
    scene.stage.upstream.open("answer");
    leader.answer().assert_stored(201);
    for copy in waiting {
        let answer = copy.answer();
        answer.assert_problem(403, "replay-forbidden");
        assert_nothing_of_it(&answer);
    }
    scene.stage.upstream.assert_effects(1);
    scene.authority.script("may", ALLOW);
    assert!(scene.send(&payment).is_replay());
}

#[test]
fn t11_a_copy_that_waited_for_an_answer_that_freed_the_key_is_asked_about_too() {
    let scene = Scene::with("in_flight = { wait = \"20s\" }\n");
    let payment = Request::payment(&fresh_key());
    let refused = "gate answer; status 422; body text pay_ of anna is not possible";
    let leader = scene.stage.gateway.start(&payment.clone().act(refused));
    scene.stage.upstream.arrived(1);
    let copy = scene.stage.gateway.start(&payment);
    eventually("it waits", SOON, || scene.stage.gateway.metric("hapax_waiting", &[]) == 1.0);
    scene.authority.script("may", FORBID);
    scene.stage.upstream.open("answer");
    assert_eq!(leader.answer().status, 422);
    let answer = copy.answer();
    // Nothing was done under the key, and that is not said either.
    answer.assert_problem(409, "in-flight");
    assert_nothing_of_it(&answer);
    scene.stage.upstream.assert_arrivals(1);
}

#[test]
fn t11_what_was_only_observed_is_withheld_too() {
    let scene = Scene::new();
    let observed = Request::payment(&fresh_key()).act("status 500; body text pay_ of anna broke");
    scene.send(&observed).assert_unresolved(500);
    scene.authority.script("may", FORBID);
    scene.assert_withheld(&observed, 403, "replay-forbidden");
    scene.authority.script("may", ALLOW);
    scene.send(&observed).assert_unresolved(500);
    scene.stage.upstream.assert_arrivals(1);
}

#[test]
fn t11_that_an_operation_succeeded_before_its_key_expired_is_withheld_too() {
    let scene = Scene::with("retention = { outcome = \"1s\", tombstone = \"1h\" }\n");
    let payment = Request::payment(&fresh_key());
    scene.send(&payment).assert_stored(201);
    let expired = until("the outcome expires", SOON, || {
        let answer = scene.send(&payment);
        (answer.status == 410).then_some(answer)
    });
    assert!(expired.text().contains("succeeded"), "{expired:?}");
    scene.authority.script("may", FORBID);
    let refused = scene.assert_withheld(&payment, 403, "replay-forbidden");
    assert!(!refused.text().contains("succeeded"), "{refused:?}");
}

#[test]
fn t11_how_an_operation_ended_is_withheld_from_its_status_too() {
    let scene = Scene::with("in_flight = \"accept\"\n");
    let key = fresh_key();
    let payment = Request::payment(&key).header("authorization", "Bearer anna");
    let first = scene.stage.gateway.start(&payment.clone().act("gate answer"));
    let effect_id = scene.stage.upstream.arrived(1).remove(0).effect_id();
    scene.authority.script("may", FORBID);
    let address = format!("/.well-known/idempotency/operations/{effect_id}");
    let status = Request::get(&address).key(&key).header("authorization", "Bearer anna");
    // That it goes on reveals nothing of how it ends: nobody is asked.
    assert!(scene.send(&status).text().contains("executing"));
    assert_eq!(scene.send(&payment).status, 202);
    scene.authority.assert_arrivals(0);
    scene.stage.upstream.open("answer");
    first.answer().assert_stored(201);
    let refused = scene.assert_withheld(&status, 403, "replay-forbidden");
    assert!(!refused.text().contains("succeeded"), "{refused:?}");
    let question = scene.authority.only_arrival();
    assert_eq!(question.field("hapax-operation"), "payments.create");
    assert_eq!(question.field("x-original-uri"), address);
    assert_eq!(question.field("authorization"), "Bearer anna");
    scene.authority.script("may", ALLOW);
    assert!(scene.send(&status).text().contains("succeeded"));
    scene.stage.upstream.assert_arrivals(1);
}

#[test]
fn where_the_authority_does_not_say_yes_or_no_the_outcome_is_withheld_for_now() {
    let mut scene = Scene::new();
    let payment = Request::payment(&fresh_key());
    let first = scene.send(&payment);
    first.assert_stored(201);
    for script in [
        "status 500",
        "status 404",
        "status 429",
        "status 302; header location: http://127.0.0.1:1/elsewhere",
        "cut",
        "gate never",
        "status 200; raw %58%58%58",
    ] {
        scene.authority.script("may", script);
        let answer = scene.assert_withheld(&payment, 503, "authorization-unavailable");
        answer.assert_retry_after(1);
    }
    scene.authority.kill();
    scene.assert_withheld(&payment, 503, "authorization-unavailable").assert_retry_after(1);
    scene.authority.restart();
    scene.authority.script("may", ALLOW);
    scene.send(&payment).assert_replays(&first);
    scene.stage.upstream.assert_arrivals(1);
    let labels = ["result=\"unavailable\""];
    assert_eq!(scene.stage.gateway.metric("hapax_authorizations_total", &labels), 8.0);
}

#[test]
fn the_question_says_whose_request_it_is_and_carries_nothing_else_of_it() {
    let scene = Scene::of(
        "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
         authorize = { url = \"{authority}/may?kind=replay\", headers = [\"Authorization\", \
         \"X-Team\", \"X-Gone\"] }\n",
    );
    let payment = Request::payment(&fresh_key())
        .to("/payments?dry=no&to=%C3%A9")
        .header("authorization", "Bearer anna")
        .header("x-team", "red")
        .header("x-team", "blue")
        .header("x-gone", "here")
        .header("connection", "x-gone")
        .header("cookie", "session=1")
        .header("hapax-scope", "forged")
        .header("x-original-uri", "/forged");
    scene.send(&payment).assert_stored(201);
    // The first execution is the service's own to allow.
    scene.authority.assert_arrivals(0);
    assert!(scene.send(&payment).is_replay());
    let question = scene.authority.only_arrival();
    assert_eq!((&*question.method, &*question.target), ("GET", "/may?kind=replay"));
    assert_eq!(question.length, 0);
    assert_eq!(question.field("x-original-method"), "POST");
    assert_eq!(question.field("x-original-uri"), "/payments?dry=no&to=%C3%A9");
    assert_eq!(question.field("authorization"), "Bearer anna");
    assert_eq!(question.all("x-team"), ["red", "blue"]);
    assert_eq!(question.field("hapax-operation"), "payments.create");
    let names: Vec<_> = question.headers.iter().map(|(name, _)| name.as_str()).collect();
    for absent in ["idempotency-key", "cookie", "content-type", "hapax-scope", "x-gone", "x-do"] {
        assert!(!names.contains(&absent), "{absent}: {names:?}");
    }
}

#[test]
fn cookies_that_http_2_splits_are_one_field_of_the_question() {
    let scene = Scene::new();
    let payment =
        Request::payment(&fresh_key()).header("cookie", "session=1").header("cookie", "team=red");
    scene.send(&payment.clone().without("cookie")).assert_stored(201);
    assert!(scene.stage.gateway.send_http_2(&payment).is_replay());
    assert_eq!(scene.authority.only_arrival().field("cookie"), "session=1; team=red");
}

#[test]
fn the_question_names_the_scope_where_there_is_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Upstream::start(dir.path(), UpstreamKind::Plain);
    authority.script("may", ALLOW);
    let text = format!(
        "store = \"sqlite:{{dir}}/hapax.db\"\nscope = {{ header = \"X-Account\" }}\n\
         [[service]]\nupstream = \"{{upstream}}\"\nauthorize = {{ url = \"{}/may\" }}\n",
        authority.url()
    );
    let stage = Stage::configured(UpstreamKind::Plain, &text);
    let payment = Request::payment(&fresh_key()).header("x-account", "acme, inc/7");
    stage.gateway.send(&payment).assert_stored(201);
    assert!(stage.gateway.send(&payment).is_replay());
    let question = authority.only_arrival();
    assert_eq!(question.field("hapax-scope"), "acme%2C%20inc%2F7");
    // Its own field is repeated as it is, whatever `headers` says.
    assert_eq!(question.field("x-account"), "acme, inc/7");
}

#[test]
fn an_operation_may_ask_nobody_where_its_service_asks() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Upstream::start(dir.path(), UpstreamKind::Plain);
    authority.script("may", FORBID);
    let text = format!(
        "store = \"sqlite:{{dir}}/hapax.db\"\nscope = {{ single_tenant = true }}\n\
         [[service]]\nupstream = \"{{upstream}}\"\nauthorize = {{ url = \"{}/may\" }}\n\
         [[operation]]\nname = \"asks\"\nroutes = [\"POST /payments\"]\n\
         [[operation]]\nname = \"asks.nobody\"\nroutes = [\"POST /refunds\"]\nauthorize = false\n",
        authority.url()
    );
    let stage = Stage::configured(UpstreamKind::Plain, &text);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment).assert_stored(201);
    stage.gateway.send(&payment).assert_problem(403, "replay-forbidden");
    let refund = Request::payment(&fresh_key()).to("/refunds");
    let first = stage.gateway.send(&refund);
    first.assert_stored(201);
    stage.gateway.send(&refund).assert_replays(&first);
    authority.assert_arrivals(1);
}

#[test]
fn other_requests_are_told_apart_before_anybody_is_asked() {
    let scene = Scene::new();
    let payment = Request::payment(&fresh_key());
    scene.send(&payment).assert_stored(201);
    scene.authority.script("may", FORBID);
    let changed = payment.clone().json(r#"{"amount":1}"#);
    scene.send(&changed).assert_problem(422, "key-reused");
    scene.send(&Request::payment(&fresh_key())).assert_stored(201);
    scene.authority.assert_arrivals(0);
}
