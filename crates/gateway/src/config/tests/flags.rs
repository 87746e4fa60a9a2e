//! The command line, alone and before a file.

use hapax_core::{Mode, OnUnknown};

use super::*;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn flags() -> Flags {
    Flags { upstream: text("http://127.0.0.1:3000"), single_tenant: true, ..Flags::default() }
}

fn from_flags(flags: &Flags) -> Result<Config, String> {
    Config::load(flags, Environment::default()).map_err(|error| error.to_string())
}

#[test]
fn flags_alone_protect_post_and_patch() {
    let config = from_flags(&flags()).expect("right");
    assert_eq!(
        config.describe(),
        ["operation default: POST,PATCH with a key · on_unknown hold · lease 30s · timeout 20s · \
          outcome kept 24h, key refused for 30d · mode enforce"]
    );
    assert_eq!(config.listen.to_string(), "0.0.0.0:8080");
    assert_eq!(config.operator_listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.store, StoreLocation::Sqlite("hapax.db".into()));
    assert_eq!(config.effect_secret, EffectSecretSource::Generated);
    assert_eq!(config.scope, ScopeSource::SingleTenant);
    // Read again where there are more processors by now, it is still the same.
    assert_eq!(config.workers, None);
    let operation = config.operations.first().expect("the operation default");
    assert!(!operation.policy.key.required);
    assert_eq!(operation.policy.target, "http://127.0.0.1:3000");
}

#[test]
fn nothing_at_all_says_what_is_needed() {
    assert_eq!(
        from_flags(&Flags::default()).unwrap_err(),
        "--single-tenant, --scope-header: there is no scope, and every request needs an owner\n  \
         help: say --single-tenant if all callers are one tenant, or name the header in which your \
         authenticating proxy puts the caller's identity: --scope-header X-Account\n\
         --upstream: there is no service to pass requests to\n  help: say --upstream \
         http://127.0.0.1:3000, or name a file with --config"
    );
}

#[test]
fn each_wrong_flag_is_named() {
    let cases: [(Flags, &str); 18] = [
        (
            Flags { listen: text("8080"), ..flags() },
            "--listen: \"8080\" is not an IP address with a port\n  help: write an address and a \
             port, such as \"0.0.0.0:8080\"",
        ),
        (
            Flags { operator_listen: text("x"), ..flags() },
            "--operator-listen: \"x\" is not an IP address with a port\n  help: write an address \
             and a port, such as \"0.0.0.0:8080\"",
        ),
        (
            Flags { operator_listen: text("127.0.0.1:8080"), ..flags() },
            "--operator-listen: callers (0.0.0.0:8080) and operators (127.0.0.1:8080) need a port \
             each\n  help: give one of the two another port",
        ),
        (
            Flags { upstream: text("ftp://a"), ..flags() },
            "--upstream: it is not an http:// or https:// URL\n  help: write a scheme, a host and \
             a port, such as \"http://127.0.0.1:3000\"",
        ),
        (
            Flags { store: text("mysql://u:hunter2@h/d"), ..flags() },
            "--store: this version of hapax keeps its records in SQLite; PostgreSQL and MySQL come \
             with a later one\n  help: name a file, such as \"sqlite:hapax.db\"",
        ),
        (
            Flags { scope_header: text("X-Account"), ..flags() },
            "--scope-header: --single-tenant says that there is one scope only\n  help: leave one \
             of the two out",
        ),
        (
            Flags { scope_header: text("X Account"), single_tenant: false, ..flags() },
            "--scope-header: \"X Account\" is not the name of a header\n  help: write the name \
             alone, such as X-Account",
        ),
        (
            Flags { lease: text("30"), ..flags() },
            "--lease: \"30\" has no unit of time\n  help: write a number and a unit (ms, s, m, h, \
             d), such as \"30s\"",
        ),
        (
            Flags { lease: text("10ms"), ..flags() },
            "--lease: a lease of 10ms is renewed too often to be kept\n  help: write at least \
             \"1s\"; \"30s\" suits most",
        ),
        (
            Flags { retain: text("0s"), ..flags() },
            "--retain: it cannot be zero\n  help: write a longer one, such as \"24h\"",
        ),
        (
            Flags { retain: text("40d"), ..flags() },
            "--retain: outcomes would be kept for 40d, and the key itself for 30d only\n  help: \
             say at most 30d; a file can keep keys longer: retention = { outcome = …, tombstone = \
             … }",
        ),
        (
            Flags { on_unknown: text("probe"), ..flags() },
            "--on-unknown: a flag does not say how the service is asked what became of an \
             effect\n  help: write a file with on_unknown = \"probe\" and probe = { get = … }, and \
             name it with --config",
        ),
        (
            Flags { on_unknown: text("resend"), ..flags() },
            "--on-unknown: a resend is safe only while the service collapses requests with the \
             same Idempotency-Key into one effect, and nothing says for how long it does\n  help: \
             say --collapse-for 24h if it does so for a day; say hold if it does not",
        ),
        (
            Flags { on_unknown: text("resend"), collapse_for: text("1m"), ..flags() },
            "--collapse-for: a resend needs more than late_arrival (60s) and timeout (20s) \
             together, but the service's memory ends after 60s\n  help: make it longer than 80s, \
             if the service's memory is, or say --on-unknown hold",
        ),
        (
            Flags { collapse_for: text("40d"), ..flags() },
            "--collapse-for: the service would remember the effect for 40d, and this side for 30d \
             only\n  help: say at most 30d; a file can keep keys longer: retention = { tombstone = \
             … }",
        ),
        (
            Flags { workers: Some(0), ..flags() },
            "--workers: 0 is not between 1 and 1024\n  help: write a number in that range, such as 2",
        ),
        (
            Flags { key_min_length: Some(0), ..flags() },
            "--key-min-length: 0 is not between 1 and 255\n  help: write a number in that range, \
             such as 16",
        ),
        (
            Flags { key_min_bits: Some(1000), ..flags() },
            "--key-min-bits: 1000 is not between 0 and 512\n  help: write a number in that range, \
             such as 64",
        ),
    ];
    for (flags, expected) in cases {
        assert_eq!(from_flags(&flags).unwrap_err(), expected);
    }
}

#[test]
fn flags_and_the_file_that_says_the_same_are_equal() {
    let flags = Flags {
        listen: text("127.0.0.1:1"),
        operator_listen: text("127.0.0.1:2"),
        store: text("sqlite:a.db"),
        upstream: text("http://127.0.0.1:3000"),
        scope_header: text("X-Account"),
        workers: Some(5),
        lease: text("10s"),
        retain: text("48h"),
        on_unknown: text("resend"),
        collapse_for: text("24h"),
        key_min_length: Some(8),
        key_min_bits: Some(32),
        observe: true,
        ..Flags::default()
    };
    let file = r#"
        listen = "127.0.0.1:1"
        store = "sqlite:a.db"
        scope = { header = "X-Account" }
        workers = 5
        operator = { listen = "127.0.0.1:2" }
        [[service]]
        upstream = "http://127.0.0.1:3000"
        [[operation]]
        name = "default"
        routes = ["POST /*", "PATCH /*"]
        lease = "10s"
        retention = { outcome = "48h" }
        on_unknown = "resend"
        collapse_for = "24h"
        key = { min_length = 8, min_bits = 32 }
        mode = "observe"
    "#;
    let by_file = load(file, &Flags::default()).map_err(|error| error.to_string());
    assert_eq!(from_flags(&flags), by_file);
}

#[test]
fn flags_go_before_the_file() {
    let above = "listen = \"127.0.0.1:1\"\nstore = \"sqlite:a.db\"\n";
    let flags = Flags {
        listen: text("127.0.0.1:3"),
        operator_listen: text("127.0.0.1:4"),
        store: text("sqlite:b.db"),
        upstream: text("http://b"),
        scope_header: text("X-Account"),
        on_unknown: text("hold"),
        observe: true,
        ..Flags::default()
    };
    let config = load(&file(above, "[operator]\nlisten = \"127.0.0.1:2\""), &flags).expect("right");
    assert_eq!((config.listen.port(), config.operator_listen.port()), (3, 4));
    assert_eq!(config.store, StoreLocation::Sqlite("b.db".into()));
    assert_eq!(config.scope, ScopeSource::Header(HeaderName::from_static("x-account")));
    assert_eq!(config.services.first().map(Service::origin).as_deref(), Some("http://b"));
    let policy = &config.operations.first().expect("the operation default").policy;
    assert_eq!((policy.mode, policy.on_unknown), (Mode::Observe, OnUnknown::Hold));
}

#[test]
fn flags_can_complete_a_file() {
    let config = load("listen = \"127.0.0.1:1\"", &flags()).expect("right");
    assert_eq!(config.services.len(), 1);
    assert_eq!(config.scope, ScopeSource::SingleTenant);
}

#[test]
fn flags_about_the_default_operation_do_not_fit_a_file_with_operations() {
    let flags = Flags {
        lease: text("10s"),
        retain: text("1h"),
        on_unknown: text("hold"),
        collapse_for: text("1h"),
        key_min_length: Some(1),
        key_min_bits: Some(0),
        observe: true,
        ..Flags::default()
    };
    let expected: Vec<String> = [
        ("--lease", "lease = \"30s\""),
        ("--retain", "retention = { outcome = \"24h\" }"),
        ("--on-unknown", "on_unknown = \"hold\""),
        ("--collapse-for", "collapse_for = \"24h\""),
        ("--key-min-length", "key = { min_length = 16 }"),
        ("--key-min-bits", "key = { min_bits = 64 }"),
        ("--observe", "mode = \"observe\""),
    ]
    .map(|(flag, setting)| {
        format!(
            "{flag}: it is about the operation `default`, and the file defines operations\n  help: \
             write it into the [[operation]] that is meant, as in {setting}"
        )
    })
    .into();
    let error = load(&operation(""), &flags).unwrap_err();
    assert_eq!(error.to_string(), expected.join("\n"));
    assert_eq!(error.mistakes().len(), expected.len());
}

#[test]
fn an_upstream_does_not_say_which_of_two_services_it_is() {
    let two = file("", "[[service]]\nupstream = \"http://b\"\nprefix = \"/b\"");
    let flags = Flags { upstream: text("http://c"), ..Flags::default() };
    assert_eq!(
        load(&two, &flags).unwrap_err().to_string(),
        "--upstream: the file names 2 services, and this is one\n  help: leave it out, or change \
         the upstream in its [[service]]"
    );
}
