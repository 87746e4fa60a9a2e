//! What is done about unknown outcomes, and while the store is down.

use hapax_core::{OnUnknown, StoreDown};

use super::*;

const GET: &str = "get = \"/v1/payments/by-operation/{effect_id}\"";

/// The only operation of a file with this probe.
fn probed(probe: &str) -> Arc<Operation> {
    let settings = format!("on_unknown = \"probe\"\nprobe = {{ {GET}{probe} }}");
    let config = load(&operation(&settings), &Flags::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    config.operations.first().expect("an operation").clone()
}

#[test]
fn a_probe_needs_no_more_than_its_place() {
    let operation = probed("");
    let probe = operation.probe.as_ref().expect("a probe");
    assert_eq!(probe.get.fill("4f1c", 2), "/v1/payments/by-operation/4f1c");
    assert_eq!((&probe.applied[..], &probe.not_seen[..]), (&[200][..], &[404][..]));
    assert_eq!((probe.status, &probe.body), (None, &None), "all of the answer, as it comes");
    assert_eq!(probe.timeout, Duration::from_secs(5));
    assert_eq!((&probe.authorization, &probe.closer), (&None, &None));
    assert_eq!(operation.policy.on_unknown, OnUnknown::Probe);
    assert_eq!(operation.policy.deadline, None);
}

#[test]
fn every_setting_of_a_probe_arrives() {
    let operation = probed(
        ", applied = [200, 202], not_seen = [404, 410], timeout = \"2s\", \
         outcome = { status = 201, body = \"/payment\" }, authorization = { env = \"TOKEN\" }, \
         closer = { post = \"/close/{effect_id}?attempt={attempt}\", closed = [409] }",
    );
    let probe = operation.probe.as_ref().expect("a probe");
    assert_eq!((&probe.applied[..], &probe.not_seen[..]), (&[200, 202][..], &[404, 410][..]));
    assert_eq!((probe.status, probe.timeout), (Some(201), Duration::from_secs(2)));
    assert_eq!(probe.body, Some(hapax_core::Pointer::parse("/payment").expect("a pointer")));
    assert_eq!(probe.authorization, Some(SecretSource::Env("TOKEN".to_owned())));
    let closer = probe.closer.as_ref().expect("a closer");
    assert_eq!(closer.post.fill("4f1c", 7), "/close/4f1c?attempt=7");
    assert_eq!(closer.closed, [409]);
    let unnamed = probed(", closer = { post = \"/close/{effect_id}?attempt={attempt}\" }");
    let closer = unnamed.probe.as_ref().and_then(|probe| probe.closer.as_ref());
    let closed = closer.map(|closer| &closer.closed[..]);
    assert_eq!(closed, Some(&[][..]), "a place that does not exist answers 404 too");
    let by_deadline = probed(", closer = { deadline = \"60s\" }");
    assert_eq!(by_deadline.policy.deadline, Some(Duration::from_secs(60)));
    assert_eq!(by_deadline.probe.as_ref().and_then(|probe| probe.closer.as_ref()), None);
}

#[test]
fn each_mistake_in_a_probe_names_its_place_and_remedy() {
    const CLOSERS: &str = "write { deadline = \"60s\" } if the service refuses requests after \
                           their Hapax-Deadline, or { post = \"/v1/payments/close/{effect_id}\
                           ?attempt={attempt}\" } if it can refuse all attempts up to one";
    const PATH: &str = "write it as in \"/v1/payments/by-operation/{effect_id}\"";
    let with = |more: &str| format!("{GET}, {more}");
    for (probe, expected) in [
        (
            String::new(),
            "probe: it does not say where the service is asked\n  help: write { get = \
             \"/v1/payments/by-operation/{effect_id}\" }"
                .to_owned(),
        ),
        (
            "get = \"v1/{effect_id}\"".to_owned(),
            format!("probe.get: a path begins with a slash: it is on the same service\n  help: {PATH}"),
        ),
        (
            "get = \"/v1/payments\"".to_owned(),
            format!("probe.get: it does not say which effect it asks about\n  help: {PATH}"),
        ),
        (
            "get = \"/v1/{effect_id}/{key}\"".to_owned(),
            format!(
                "probe.get: there are two places to fill in: {{effect_id}} and {{attempt}}\n  \
                 help: {PATH}"
            ),
        ),
        (
            "get = \"/a b/{effect_id}\"".to_owned(),
            format!("probe.get: it is not a path and query\n  help: {PATH}"),
        ),
        (
            with("applied = [500]"),
            "probe.applied: 500 is not between 200 and 499\n  help: write a number in that range, such as 200".to_owned(),
        ),
        (
            with("applied = []"),
            "probe.applied: it names no status\n  help: write applied = [200], or remove it"
                .to_owned(),
        ),
        (
            with("not_seen = [200]"),
            "probe: 200 cannot say both that the effect exists and that it does not\n  help: leave \
             it out of applied or of not_seen"
                .to_owned(),
        ),
        (
            with("outcome = { status = 204 }"),
            "probe.outcome.status: an answer with 204 does not hold what is there\n  help: write \
             200, 201 or 202"
                .to_owned(),
        ),
        (
            with("authorization = \"Bearer hunter2\""),
            "probe.authorization: a secret does not stand in the configuration itself\n  help: \
             write { file = \"/etc/hapax/probe-authorization\" } or { env = \
             \"PROBE_AUTHORIZATION\" }"
                .to_owned(),
        ),
        (
            with("closer = {}"),
            format!("probe.closer: it names neither a deadline nor a post\n  help: {CLOSERS}"),
        ),
        (
            with("closer = { deadline = \"1s\", post = \"/c/{effect_id}?a={attempt}\" }"),
            format!("probe.closer: it names a deadline and a post\n  help: {CLOSERS}"),
        ),
        (
            with("closer = { post = \"/close/{effect_id}\" }"),
            format!(
                "probe.closer.post: it does not say up to which attempt the service is to \
                 refuse\n  help: {CLOSERS}"
            ),
        ),
        (
            with("applied = [204], outcome = { status = 201, body = \"/payment\" }"),
            "probe: an answer with 204 has no body, so the outcome is not in it\n  help: leave it \
             out of applied, or remove outcome.body"
                .to_owned(),
        ),
        (
            with("applied = [200, 409]"),
            "probe: 409 says that the effect exists, and retries would be told 409\n  help: say \
             what they are told: outcome = { status = 201 }"
                .to_owned(),
        ),
        (
            with("timeout = \"1h\""),
            "probe.timeout: a question that takes longer than a minute keeps others of the \
             operation waiting\n  help: write a shorter one, such as 5s"
                .to_owned(),
        ),
        (
            with("closer = { deadline = \"1ms\" }"),
            "probe.closer.deadline: no request gets there in less than a second\n  help: write a \
             longer one, such as 60s"
                .to_owned(),
        ),
        (
            with("closer = { deadline = \"1s\", closed = [404] }"),
            format!("probe.closer: closed is what the answer to a post says\n  help: {CLOSERS}"),
        ),
    ] {
        let settings = format!("probe = {{ {probe} }}\non_unknown = \"probe\"");
        assert_eq!(errors(&operation(&settings)), format!("f.toml:7: {expected}"), "{probe}");
    }
}

#[test]
fn a_probe_and_what_is_done_about_unknown_outcomes_belong_together() {
    assert_eq!(
        errors(&operation(&format!("probe = {{ {GET} }}"))),
        "f.toml:7: probe: the service is asked only where unknown outcomes are probed\n  help: \
         write on_unknown = \"probe\", or remove it"
    );
    let short = format!("on_unknown = \"probe\"\ncollapse_for = \"1m\"\nprobe = {{ {GET} }}");
    assert!(errors(&operation(&short)).contains("f.toml:8: collapse_for: a resend needs more"));
}

#[test]
fn what_happens_while_the_store_is_down_is_said_for_keyed_operations_that_are_enforced() {
    assert_eq!(only_operation("").store_down, StoreDown::Refuse);
    assert_eq!(only_operation("store_down = \"pass\"").store_down, StoreDown::Pass);
    assert_eq!(
        errors(&operation("store_down = \"pas\"")),
        "f.toml:7: store_down: \"pas\" is not \"refuse\" or \"pass\"\n  help: did you mean \"pass\"?"
    );
    assert_eq!(
        errors(&operation("store_down = \"pass\"\nmode = \"observe\"")),
        "f.toml:7: store_down: an operation that is only observed passes whatever the store does\n  \
         help: remove it, or write mode = \"enforce\""
    );
    for kind in ["natural", "unprotected\"\nreason = \"reads"] {
        let settings = format!("store_down = \"pass\"\nkind = \"{kind}\"");
        assert!(errors(&operation(&settings)).contains("for keyed operations only"), "{kind}");
    }
}
