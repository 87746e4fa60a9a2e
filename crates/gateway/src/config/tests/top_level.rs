//! Mistakes outside of operations.

use std::num::NonZeroUsize;

use super::*;

#[test]
fn each_mistake_at_the_top_names_line_and_remedy() {
    for (line, expected) in [
        (
            r#"lisen = "0.0.0.0:1""#,
            "f.toml:1: lisen: there is no such key in the file\n  help: did you mean \"listen\"?",
        ),
        (
            r#"lease = "30s""#,
            "f.toml:1: lease: there is no such key in the file\n  help: remove it; the file takes \
             listen, tls, trusted_proxies, forwarded, store, effect_secret, scope, operator, \
             service, operation, limits, problems, cors, policy_document, request_id, \
             single_instance, workers, group_commit, sweep",
        ),
        (
            r#""two words" = 1"#,
            "f.toml:1: \"two words\": there is no such key in the file\n  help: remove it; the \
             file takes listen, tls, trusted_proxies, forwarded, store, effect_secret, scope, \
             operator, service, operation, limits, problems, cors, policy_document, request_id, \
             single_instance, workers, group_commit, sweep",
        ),
        (
            "listen = 8080",
            "f.toml:1: listen: a whole number stands where an address belongs\n  help: write it \
             as in listen = \"0.0.0.0:8080\"",
        ),
        (
            r#"listen = "localhost:80""#,
            "f.toml:1: listen: \"localhost:80\" is not an IP address with a port\n  help: write \
             an address and a port, such as \"127.0.0.1:80\"",
        ),
        (
            r#"listen = "127.0.0.1:8081""#,
            "f.toml:1: listen: callers (127.0.0.1:8081) and operators (127.0.0.1:8081) need a \
             port each\n  help: give one of the two another port",
        ),
        (
            r#"store = "postgres://app:hunter2@db/hapax""#,
            "f.toml:1: store: this version of hapax keeps its records in SQLite; PostgreSQL and \
             MySQL come with a later one\n  help: name a file, such as \"sqlite:hapax.db\"",
        ),
        (
            r#"store = { env = "STORE" }"#,
            "f.toml:1: store: a table stands where a store belongs\n  help: write it as in store \
             = \"sqlite:hapax.db\"",
        ),
        (
            r#"effect_secret = "hunter2""#,
            "f.toml:1: effect_secret: a secret does not stand in the configuration itself\n  \
             help: write { file = \"/etc/hapax/effect.key\" } or { env = \"EFFECT_SECRET\" }",
        ),
        (
            "effect_secret = {}",
            "f.toml:1: effect_secret: it names neither a file nor a variable\n  help: write \
             { file = \"/etc/hapax/effect.key\" } or { env = \"EFFECT_SECRET\" }",
        ),
        (
            r#"effect_secret = { file = "a", env = "B" }"#,
            "f.toml:1: effect_secret: it names a file and a variable\n  help: write { file = \
             \"/etc/hapax/effect.key\" } or { env = \"EFFECT_SECRET\" }",
        ),
        (
            r#"effect_secret = { file = "" }"#,
            "f.toml:1: effect_secret.file: the path is empty\n  help: write { file = \
             \"/etc/hapax/effect.key\" } or { env = \"EFFECT_SECRET\" }",
        ),
        (
            r#"effect_secret = { env = "A=B" }"#,
            "f.toml:1: effect_secret.env: it is not the name of an environment variable\n  help: \
             write { file = \"/etc/hapax/effect.key\" } or { env = \"EFFECT_SECRET\" }",
        ),
        (
            "cors = {}",
            "f.toml:1: cors: it names no origins\n  help: add origins = \
             [\"https://shop.example\"], or origins = [\"*\"] for every page there is",
        ),
        (
            r#"cors = { origins = ["https://shop.example/"] }"#,
            "f.toml:1: cors.origins: \"https://shop.example/\" is not an origin\n  help: write \
             scheme and host, and the port if it is not the usual one, as in \
             \"https://shop.example\"",
        ),
        (
            "problems = { status_codes = { in-flight = 401 } }",
            "f.toml:1: problems.status_codes.in-flight: a problem's status is one of a failure\n  \
             help: write a number from 400 to 599, such as 409",
        ),
        (
            "problems = { status_codes = { outcome-unknown = 400 } }",
            "f.toml:1: problems.status_codes.outcome-unknown: 400 tells callers that nothing \
             happened, and that is not known\n  help: write one that does not, such as 409",
        ),
        (
            r#"cors = { origins = [] }"#,
            "f.toml:1: cors.origins: the list is empty\n  help: write one, as in origins = \
             \"https://shop.example\"",
        ),
        (
            r#"cors = { origins = ["null"], credentials = true }"#,
            "f.toml:1: cors.credentials: any page can be of origin null, and could act for whoever \
             looks at it\n  help: name the origins one by one",
        ),
        (
            r#"cors = { origins = ["*"], credentials = true }"#,
            "f.toml:1: cors.credentials: with credentials, every page there is could act for \
             whoever looks at it\n  help: name the origins one by one",
        ),
        (
            r#"problems = { base = "/problems" }"#,
            "f.toml:1: problems.base: a problem's name is put behind it, so it is an absolute URI \
             that ends with a slash\n  help: write it as in base = \
             \"https://api.example/problems/\"",
        ),
        (
            "console = {}",
            "f.toml:1: console: belongs to a later version of hapax\n  help: remove it",
        ),
        (
            "operator = 3",
            "f.toml:1: operator: a whole number stands where a table belongs\n  help: write its \
             keys below a line [operator]",
        ),
        (
            "operation = {}",
            "f.toml:1: operation: a table stands where a list of tables belongs\n  help: write \
             each below a line [[operation]]",
        ),
        (
            "operation = [3]",
            "f.toml:1: [[operation]]: a whole number stands where a table belongs\n  help: write \
             it as in {}",
        ),
        (
            "single_instance = 1",
            "f.toml:1: single_instance: a whole number stands where true or false belongs\n  \
             help: write it as in single_instance = true",
        ),
        (
            "workers = 0",
            "f.toml:1: workers: 0 is not between 1 and 1024\n  help: write a number in that range, \
             such as 2",
        ),
        (
            "group_commit = 0",
            "f.toml:1: group_commit: 0 is not between 1 and 4096\n  help: write a number in that \
             range, such as 128",
        ),
        (
            "sweep = 123456789012345678901234567890",
            "f.toml:1: sweep: 123456789012345678901234567890 is not between 1 and 100000\n  \
             help: write a number in that range, such as 500",
        ),
    ] {
        assert_eq!(errors(&file(&format!("{line}\n"), "")), expected, "{line}");
    }
}

#[test]
fn each_mistake_in_a_table_names_line_and_remedy() {
    for (lines, expected) in [
        (
            "[operator]\nlistn = \"0.0.0.0:1\"",
            "f.toml:5: operator.listn: there is no such key in [operator]\n  help: did you mean \
             \"listen\"?",
        ),
        (
            "[operator]\nlisten = \"127.0.0.1:8080\"",
            "f.toml:5: operator.listen: callers (0.0.0.0:8080) and operators (127.0.0.1:8080) \
             need a port each\n  help: give one of the two another port",
        ),
        (
            "[limits]\nrequest_body = \"2MB\"\nbuffered_total = -1",
            "f.toml:5: limits.request_body: \"2MB\" is not a number of bytes\n  help: write a \
             whole number and a unit (B, KiB, MiB, GiB), such as \"1MiB\"\n\
             f.toml:6: limits.buffered_total: -1 is not a number of bytes\n  help: write a whole \
             number and a unit (B, KiB, MiB, GiB), such as \"256MiB\"",
        ),
        (
            "[limits]\nbuffered_total = \"1KiB\"",
            "f.toml:5: limits.buffered_total: one request body (request_body) may be larger than \
             all together (buffered_total)\n  help: raise buffered_total or lower request_body",
        ),
        (
            "[limits]\ndecoded_body = \"1GiB\"",
            "f.toml:5: limits.decoded_body: one decoded body (decoded_body) may be larger than all \
             together (buffered_total)\n  help: raise buffered_total or lower decoded_body",
        ),
        (
            "[limits]\nconnect = \"0s\"\nbody_within = 10\nmax_connections = 0",
            "f.toml:5: limits.connect: it cannot be zero\n  help: write a longer one, such as \
             \"2s\"\n\
             f.toml:6: limits.body_within: a whole number stands where a duration belongs\n  \
             help: write it as in body_within = \"10s\"\n\
             f.toml:7: limits.max_connections: 0 is not between 1 and 1000000\n  help: write a \
             number in that range, such as 10000",
        ),
        (
            "[[service]]\nupstream = \"http://b\"",
            "f.toml:4: [[service]]: \"/\" is the prefix of two services (the other on line 2)\n  \
             help: give each service its own prefix, such as prefix = \"/v1\", or its own host, \
             such as host = \"api.example.com\"",
        ),
        (
            "[[service]]\nprefix = \"/a\"",
            "f.toml:4: [[service]]: it has no upstream\n  help: add upstream = \
             \"http://127.0.0.1:3000\"",
        ),
        (
            "[[service]]\nprefix = \"v1\"\nupstream = \"https://u:hunter2@b\"\nhost = \"a/b\"",
            "f.toml:5: prefix: \"v1\" does not start with a slash\n  help: write a path that \
             starts with a slash, such as \"/v1\"\n\
             f.toml:6: upstream: it holds credentials, which hapax does not send\n  help: remove \
             what is before the @; the caller's Authorization goes through untouched\n\
             f.toml:7: host: \"a/b\" is more than a host\n  help: write a host such as \
             \"api.example.com\", or \"*.example.com\" for all below one",
        ),
        (
            "[[service]]\nprefix = \"/a?b\"\nupstream = \"http://u:hunter2@b\"",
            "f.toml:5: prefix: \"/a?b\" is not a plain path\n  help: write a path that starts with \
             a slash, such as \"/v1\"\n\
             f.toml:6: upstream: it holds credentials, which hapax does not send\n  help: remove \
             what is before the @; the caller's Authorization goes through untouched",
        ),
        (
            "[[service]]\nprefix = \"/a\"\nupstream = \"http://b/path\"",
            "f.toml:6: upstream: it has a path, and requests go through with their own\n  help: \
             end it after the port; prefix = \"/…\" of a [[service]] chooses by path",
        ),
    ] {
        assert_eq!(errors(&file("", lines)), expected, "{lines}");
    }
}

#[test]
fn a_request_needs_an_owner() {
    const REMEDY: &str = "\n  help: write { header = \"X-Account\" }, set by your authenticating \
                          proxy, or { single_tenant = true } if all callers are one tenant";
    for (scope, expected) in [
        (
            "",
            "f.toml: there is no scope, and every request needs an owner\n  help: add scope = \
             { header = \"X-Account\" }, the header in which your authenticating proxy puts the \
             caller's identity, or scope = { single_tenant = true } if all callers are one tenant"
                .to_owned(),
        ),
        ("scope = {}", format!("f.toml:1: scope: it is empty{REMEDY}")),
        (
            "scope = { header = \"A\", single_tenant = true }",
            format!("f.toml:1: scope: it names a header and a single tenant{REMEDY}"),
        ),
        (
            "scope = { single_tenant = false }",
            format!(
                "f.toml:1: scope.single_tenant: without a scope every request would be \
                 refused{REMEDY}"
            ),
        ),
        (
            "scope = \"X-Account\"",
            "f.toml:1: scope: a text stands where a table belongs\n  help: write it as in scope = \
             { header = \"X-Account\" }"
                .to_owned(),
        ),
        (
            "scope = { header = \"X Account\" }",
            "f.toml:1: scope.header: \"X Account\" is not the name of a header\n  help: write the \
             name alone, such as X-Account"
                .to_owned(),
        ),
        (
            "scope = { header = \"Authorization\" }",
            "f.toml:1: scope.header: authorization changes when a credential is renewed, and the \
             retry would be new\n  help: name a header in which your authenticating proxy puts a \
             stable identity, such as X-Account"
                .to_owned(),
        ),
        (
            "scope = { header = \"Hapax-Attempt\" }",
            "f.toml:1: scope.header: hapax-attempt does not say who the caller is\n  help: name \
             the header in which your authenticating proxy puts the caller's identity, such as \
             X-Account"
                .to_owned(),
        ),
    ] {
        let text = format!("{scope}\n[[service]]\nupstream = \"http://a\"");
        assert_eq!(errors(&text), expected, "{scope}");
    }
}

#[test]
fn an_empty_file_lacks_a_scope_and_a_service() {
    assert_eq!(
        errors(""),
        "f.toml: there is no scope, and every request needs an owner\n  help: add scope = \
         { header = \"X-Account\" }, the header in which your authenticating proxy puts the \
         caller's identity, or scope = { single_tenant = true } if all callers are one tenant\n\
         f.toml: there is no service to pass requests to\n  help: add a [[service]] with \
         upstream = \"http://127.0.0.1:3000\""
    );
}

#[test]
fn what_is_no_toml_says_so_without_repeating_the_line() {
    for (text, expected) in [
        (
            "listen = \"0.0.0.0:1\"\nlisten = \"0.0.0.0:2\"",
            "f.toml:2: this is not TOML: duplicate key\n  help: write key = value; texts stand in \
             double quotes, such as \"30s\"",
        ),
        (
            "a = \"hunter2\nb = 1\nc = 2 3",
            "f.toml:1: this is not TOML: invalid basic string, expected `\"`\n  help: write key = \
             value; texts stand in double quotes, such as \"30s\"\n\
             f.toml:3: this is not TOML: string values must be quoted, expected literal string\n  \
             help: write key = value; texts stand in double quotes, such as \"30s\"",
        ),
    ] {
        assert_eq!(errors(text), expected);
    }
}

#[test]
fn a_file_that_cannot_be_read_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("latin1.toml");
    fs::write(&file, b"listen = \"\xe9\"").expect("written");
    let load = |path: &Path| {
        Config::from_file(path, &Flags::default(), Environment::default()).unwrap_err().to_string()
    };
    assert_eq!(
        load(&file),
        format!("{}: it is not UTF-8\n  help: save it as UTF-8", file.display())
    );
    let missing = directory.path().join("missing.toml");
    assert_eq!(
        load(&missing),
        format!(
            "{}: it cannot be read: No such file or directory (os error 2)\n  help: check the \
             path after --config, and that this user may read the file",
            missing.display()
        )
    );
}

#[test]
fn every_setting_at_the_top_arrives() {
    let text = r#"
        listen = "127.0.0.1:1"
        store = "sqlite:/var/lib/hapax.db"
        effect_secret = { env = "SECRET" }
        scope = { header = "X-Account" }
        single_instance = true
        workers = 3
        group_commit = 64
        sweep = 50
        policy_document = false
        request_id = "X-Correlation-Id"
        operator = { listen = "127.0.0.1:2" }
        service = [{ upstream = "http://A:80/", prefix = "/v1/" }]
        [limits]
        request_body = "2MiB"
        decoded_body = "3MiB"
        body_within = "1s"
        buffered_total = 4194304
        connect = "3s"
        store = "4s"
        announce = "5s"
        drain = "0s"
        stalled = "9s"
        max_connections = 7
    "#;
    let config = load(text, &Flags::default()).expect("right");
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.operator_listen.port(), 2);
    assert_eq!(config.store, StoreLocation::Sqlite("/var/lib/hapax.db".into()));
    assert_eq!(config.effect_secret, EffectSecretSource::Env("SECRET".to_owned()));
    assert_eq!(config.scope, ScopeSource::Header(HeaderName::from_static("x-account")));
    assert_eq!(
        (config.workers.map(NonZeroUsize::get), config.group_commit, config.sweep),
        (Some(3), 64, 50)
    );
    assert!(!config.policy_document);
    assert_eq!(config.request_id, Some(HeaderName::from_static("x-correlation-id")));
    let service = config.services.first().expect("a service");
    assert_eq!((service.origin().as_str(), service.prefix.as_str()), ("http://a", "/v1"));
    let limits = Limits {
        announce: Duration::from_secs(5),
        request_body: 2 << 20,
        decoded_body: 3 << 20,
        body_within: Duration::from_secs(1),
        buffered_total: 4 << 20,
        connect: Duration::from_secs(3),
        store: Duration::from_secs(4),
        drain: Duration::ZERO,
        stalled: Duration::from_secs(9),
        max_connections: 7,
    };
    assert_eq!(config.limits, limits);
}

#[test]
fn a_decoded_body_takes_no_more_than_all_may_take_together() {
    let limits = |lines: &str| {
        let text = file("", &format!("[limits]\n{lines}"));
        load(&text, &Flags::default()).expect(lines).limits
    };
    assert_eq!(limits("").decoded_body, 8 << 20);
    assert_eq!(limits("buffered_total = \"2MiB\"").decoded_body, 2 << 20);
}
