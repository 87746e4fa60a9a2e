//! Documents that people copy from load.

use std::num::NonZeroUsize;

use super::*;

fn repository(file: &str) -> String {
    format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_example_file_loads() {
    let file = repository("hapax.example.toml");
    let config = Config::from_file(Path::new(&file), &Flags::default(), Environment::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        config.describe(),
        [
            "operation payments.create: POST /v1/payments, POST /v2/payments with a key, required \
             · on_unknown resend, the service collapses for 24h · lease 30s · timeout 20s · \
             outcome kept 24h, key refused for 30d · replays authorized by \
             http://127.0.0.1:3000/authorize · mode enforce",
            "operation shipments.create: POST /v1/shipments with a key · on_unknown probe, what is \
             not there after 80s is final · lease 30s · timeout 20s · outcome kept 24h, key \
             refused for 30d · mode enforce",
            "operation payments.put: PUT /v1/payments/{id}, DELETE /v1/payments/{id} · natural, \
             no key needed · mode enforce",
            "operation payments.search: POST /v1/payments/search · unprotected: a search in the \
             form of a POST: it changes nothing",
            "operation checkout.pay: POST /graphql/pay with a key from the body at \
             /variables/input/requestId · on_unknown hold · outcome read from the answer · lease 30s \
             · timeout 20s · outcome kept 24h, key refused for 30d · mode enforce",
        ]
    );
}

#[test]
fn the_commented_lines_of_the_example_are_right_too() {
    let text = fs::read_to_string(repository("hapax.example.toml")).expect("readable");
    let settings = [
        "workers",
        "group_commit",
        "sweep ",
        "single_instance",
        "effect_secret = { file",
        "trusted_proxies",
        "forwarded = ",
        "[tls]\n",
        "certificate",
        "key = \"/etc/hapax/tls.key",
        "client_ca",
        "client_certificates",
        "tls = {",
    ];
    let mut uncommented = text.clone();
    for setting in settings {
        let commented = format!("# {setting}");
        assert!(uncommented.contains(&commented), "{setting}");
        uncommented = uncommented.replacen(&commented, setting, 1);
    }
    // What is said of TLS goes with an address that has it.
    let uncommented = uncommented.replace("http://127.0.0.1:3002", "https://127.0.0.1:3002");
    let config = load(&uncommented, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.effect_secret, EffectSecretSource::File("/etc/hapax/effect.key".into()));
    assert_eq!(
        (config.workers.map(NonZeroUsize::get), config.group_commit, config.sweep),
        (Some(3), 128, 500)
    );
    assert!(config.tls.is_some_and(|tls| tls.clients.is_some_and(|clients| clients.required)));
    assert!(config.services.iter().any(|service| service.tls.client.is_some()));
}

#[test]
fn each_other_scope_of_the_example_is_right_too() {
    let text = fs::read_to_string(repository("hapax.example.toml")).expect("readable");
    let scope = "\nscope = { header = \"X-Account\" }\n";
    let others: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# scope = ")).collect();
    assert_eq!(others.len(), 6, "{others:#?}");
    let mut text = text.clone();
    for line in ["[tls]", "certificate = ", "key = \"/etc/hapax/tls.key", "client_ca = "] {
        text = text.replacen(&format!("# {line}"), line, 1);
    }
    for other in others {
        let text = text.replace(scope, &format!("\nscope = {other}\n"));
        let config = load(&text, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(config.scope, ScopeSource::Header(HeaderName::from_static("x-account")));
    }
    let authorize = "# authorize = { url";
    let text = text.replace(authorize, "authorize = { url");
    let config = load(&text, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
    let asking = config.operations.iter().filter(|operation| operation.authorize.is_some());
    assert!(asking.count() >= 2);
}

#[test]
fn what_the_example_calls_defaults_are_the_defaults() {
    let text = fs::read_to_string(repository("hapax.example.toml")).expect("readable");
    let shown = load(&text, &Flags::default()).expect("right");
    let plain = load(&file("", ""), &Flags::default()).expect("right");
    assert_eq!(shown.limits, plain.limits);
    assert_eq!((shown.listen, shown.operator_listen), (plain.listen, plain.operator_listen));
    assert_eq!(shown.store, plain.store);
}

#[test]
fn the_readmes_configuration_loads() {
    let readme = fs::read_to_string(repository("README.md")).expect("readable");
    let block = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let block = block.expect("a TOML block");
    load(block, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
}
