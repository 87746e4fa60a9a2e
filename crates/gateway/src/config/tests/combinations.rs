//! Settings that are right by themselves and cannot hold together.

use super::*;

#[test]
fn each_combination_that_cannot_hold_names_line_and_remedy() {
    for (settings, expected) in [
        (
            "on_unknown = \"resend\"",
            "f.toml:7: on_unknown: a resend is safe only while the service collapses requests \
             with the same Idempotency-Key into one effect, and nothing says for how long it \
             does\n  help: add collapse_for = \"24h\" if it does so for a day; write \"hold\" if \
             it does not",
        ),
        (
            "on_unknown = \"resend\"\ncollapse_for = \"80s\"",
            "f.toml:8: collapse_for: a resend needs more than late_arrival (60s) and timeout \
             (20s) together, but the service's memory ends after 80s\n  help: make it longer than \
             80s, if the service's memory is, or write on_unknown = \"hold\"",
        ),
        (
            "collapse_for = \"40d\"",
            "f.toml:7: collapse_for: the service would remember the effect for 40d, and this side \
             for 30d only\n  help: make retention.tombstone at least as long as collapse_for",
        ),
        (
            "retention = { outcome = \"40d\" }",
            "f.toml:7: retention.outcome: outcomes would be kept for 40d, and the key itself for \
             30d only\n  help: make retention.tombstone at least as long as retention.outcome",
        ),
        (
            "retention = { tombstone = \"1h\" }",
            "f.toml:7: retention.tombstone: outcomes would be kept for 24h, and the key itself for \
             1h only\n  help: make retention.tombstone at least as long as retention.outcome",
        ),
        (
            "retried_by = { client = \"1d\", relay = \"31d\" }",
            "f.toml:7: retried_by: relay retries for longer than keys are remembered (30d), and a \
             retry after that would execute again\n  help: make retention.tombstone at least as \
             long",
        ),
    ] {
        assert_eq!(errors(&operation(settings)), expected, "{settings}");
    }
}

#[test]
fn what_follows_from_a_mistake_is_not_reported_beside_it() {
    assert_eq!(
        errors(&operation("on_unknown = \"resend\"\ncollapse_for = \"1\"")),
        "f.toml:8: collapse_for: \"1\" has no unit of time\n  help: write a number and a unit (ms, \
         s, m, h, d), such as \"24h\""
    );
    assert_eq!(
        errors("scope = 1\n[[service]]\nupstream = \"\""),
        "f.toml:1: scope: a whole number stands where a table belongs\n  help: write it as in \
         scope = { header = \"X-Account\" }\n\
         f.toml:3: upstream: it is not a URL\n  help: write a scheme, a host and a port, such as \
         \"http://127.0.0.1:3000\""
    );
}

#[test]
fn sqlite_and_replicas_exclude_each_other() {
    const WHY: &str = "SQLite under an orchestrator (KUBERNETES_SERVICE_HOST is set): each replica \
                       would have a file of its own and protect nothing\n  help: run exactly one \
                       replica and say so: --single-instance, or single_instance = true in the file";
    let load = |text: &str, flags: &Flags| {
        Config::from_text(Path::new("f.toml"), text, flags, Environment { kubernetes: true })
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    let flags = Flags::default();
    assert_eq!(load(&file("", ""), &flags), Err(format!("f.toml: {WHY}")));
    let stored = file("store = \"sqlite:a.db\"\n", "");
    assert_eq!(load(&stored, &flags), Err(format!("f.toml:1: store: {WHY}")));
    assert_eq!(load(&file("single_instance = true\n", ""), &flags), Ok(()));
    let flags = Flags { single_instance: true, ..flags };
    assert_eq!(load(&stored, &flags), Ok(()));
    let flags =
        Flags { single_tenant: true, upstream: Some("http://a".to_owned()), ..Flags::default() };
    let error = Config::from_flags(&flags, Environment { kubernetes: true }).unwrap_err();
    assert_eq!(error.to_string(), format!("--store: {WHY}"));
}

#[test]
fn names_and_routes_are_given_once() {
    let two = |one: &str, other: &str| {
        errors(&file("", &format!("[[operation]]\n{one}\n[[operation]]\n{other}")))
    };
    assert_eq!(
        two("name = \"a\"\nroutes = [\"POST /a\"]", "name = \"a\"\nroutes = [\"POST /b\"]"),
        "f.toml:7: [[operation]]: two operations are named a (the other on line 4)\n  help: name \
         each once; routes that produce one effect share an operation"
    );
    for (one, other) in [
        ("POST /a", "POST /a"),
        ("POST /a", "POST /%61"),
        ("POST /{x}", "POST /{y}"),
        ("POST /a/{x}", "POST /{y}/b"),
        ("POST /a/*", "POST /{x}/b"),
    ] {
        assert_eq!(
            two(
                &format!("name = \"a\"\nroutes = [\"{one}\"]"),
                &format!("name = \"b\"\nroutes = [\"{other}\"]")
            ),
            format!(
                "f.toml:9: routes: a request can be on \"{}\" of b and on \"{one}\" of a (the \
                 other on line 6), and neither is the more special route\n  help: give the route \
                 to one operation, or make one of the two literal where they meet",
                other.replace("%61", "a"),
            )
        );
    }
    for (one, other) in [
        ("POST /a", "PATCH /a"),
        ("POST /a", "POST /a/"),
        ("POST /a/{x}", "POST /a/b"),
        ("POST /*", "POST /{x}"),
        ("POST /a/*", "POST /a"),
        ("POST /a/{x}", "POST /b/{x}"),
    ] {
        let routes = (
            format!("name = \"a\"\nroutes = [\"{one}\"]"),
            format!("name = \"b\"\nroutes = [\"{other}\"]"),
        );
        assert_eq!(two(&routes.0, &routes.1), "nothing", "{one} {other}");
    }
    assert_eq!(
        errors(&operation("").replace("\"POST /pay\"", "\"POST /{a}\", \"POST /{b}\"")),
        "f.toml:6: routes: \"POST /{b}\" is there twice\n  help: leave one of them out"
    );
}

#[test]
fn a_route_leads_to_a_service() {
    let text = operation("").replace("upstream =", "prefix = \"/v1/\"\nupstream =");
    assert_eq!(
        errors(&text),
        "f.toml:7: routes: \"POST /pay\" is under the prefix of no service\n  help: correct the \
         path, or add a [[service]] with its prefix"
    );
}

#[test]
fn a_field_of_a_request_has_one_meaning() {
    let key = |name: &str| format!("key = {{ from = \"header:{name}\" }}\n");
    let id = |place: &str, field: &str| {
        format!(
            "{place}: {field} is the field of the request's id, which is made where there is none\n  \
             help: write request_id = \"off\" at the top of the file, or another field there"
        )
    };
    assert_eq!(errors(&operation(&key("X-Request-Id"))), id("f.toml:7: key.from", "x-request-id"));
    let own = "request_id = \"x-corr\"\n".to_owned() + &operation(&key("x-corr"));
    assert_eq!(errors(&own), id("f.toml:8: key.from", "x-corr"));
    let compared = "fingerprint = { headers = [\"x-request-id\"] }";
    assert_eq!(errors(&operation(compared)), id("f.toml:7: fingerprint", "x-request-id"));
    let scoped = |header: &str, settings: &str| {
        let scope = format!("{{ header = \"{header}\" }}");
        operation(settings).replace("{ single_tenant = true }", &scope)
    };
    assert_eq!(errors(&scoped("x-request-id", "")), id("f.toml:1: scope.header", "x-request-id"));
    assert_eq!(
        errors(&scoped("x-account", &key("x-account"))),
        "f.toml:7: key.from: x-account says whose a request is, and cannot be its key as well\n  \
         help: name the field in which callers send a value for each intent"
    );
    for right in [
        "request_id = \"off\"\n".to_owned() + &operation(&key("x-request-id")),
        "request_id = \"x-corr\"\n".to_owned() + &operation(&key("x-request-id")),
        operation(&(key("x-request-id") + "mode = \"observe\"")),
    ] {
        assert_eq!(errors(&right), "nothing", "{right}");
    }
    for taken in ["content-type", "prefer", "early-data", "traceparent"] {
        assert_ne!(errors(&operation(&key(taken))), "nothing", "{taken}");
        let text = format!("request_id = \"{taken}\"\n") + &operation("");
        assert_ne!(errors(&text), "nothing", "{taken}");
    }
}
