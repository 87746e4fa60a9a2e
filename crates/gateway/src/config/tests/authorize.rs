//! `authorize = { … }`, of operations and of services.

use std::time::Duration;

use super::*;

/// Who is asked about each operation of a file, by its name and upstream.
fn asked(text: &str) -> Vec<(String, String, Option<String>)> {
    let config = load(text, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
    let operations = config.operations.iter().map(|operation| {
        let asked = operation.authorize.as_ref().map(|authorize| authorize.url.to_string());
        (operation.policy.name.to_string(), operation.policy.target.clone(), asked)
    });
    operations.collect()
}

fn asks(name: &str, target: &str, url: Option<&str>) -> (String, String, Option<String>) {
    (name.to_owned(), target.to_owned(), url.map(str::to_owned))
}

#[test]
fn nobody_is_asked_unless_it_is_said() {
    let config = load(&operation(""), &Flags::default()).expect("right");
    assert_eq!(config.operations.first().expect("an operation").authorize, None);
}

#[test]
fn an_operation_says_who_is_asked_and_how() {
    let of = |settings: &str| {
        let config = load(&operation(settings), &Flags::default());
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        config.operations.first().expect("an operation").authorize.clone().expect("somebody")
    };
    let plain = of("authorize = { url = \"http://127.0.0.1:3000/authorize\" }");
    assert_eq!((plain.method.as_str(), plain.timeout), ("GET", Duration::from_secs(2)));
    assert_eq!(plain.headers, ["authorization", "cookie"]);
    let full = of(
        "authorize = { url = \"http://auth/may?see=it\", method = \"POST\", timeout = \"500ms\", \
         headers = [\"X-User\"] }",
    );
    assert_eq!(full.url.target, "/may?see=it");
    assert_eq!((full.method.as_str(), full.timeout), ("POST", Duration::from_millis(500)));
    assert_eq!(full.headers, ["x-user"]);
    let described = load(
        &operation("authorize = { url = \"http://auth/may?token=hunter2\" }"),
        &Flags::default(),
    );
    let described = described.expect("right").describe().join("");
    assert!(described.contains(" · replays authorized by http://auth/may · "), "{described}");
}

#[test]
fn a_service_says_it_for_its_operations_and_each_may_say_something_else() {
    let text = "scope = { single_tenant = true }\n\
         [[service]]\nupstream = \"http://a\"\nauthorize = { url = \"http://a/may\" }\n\
         [[service]]\nupstream = \"http://b\"\nprefix = \"/b\"\n\
         [[operation]]\nname = \"one\"\nroutes = [\"POST /one\"]\n\
         [[operation]]\nname = \"two\"\nroutes = [\"POST /b/one\"]\n\
         [[operation]]\nname = \"own\"\nroutes = [\"POST /own\"]\n\
         authorize = { url = \"http://c/may\" }\n\
         [[operation]]\nname = \"none\"\nroutes = [\"POST /none\"]\nauthorize = false\n";
    assert_eq!(
        asked(text),
        [
            asks("one", "http://a", Some("http://a/may")),
            asks("two", "http://b", None),
            asks("own", "http://a", Some("http://c/may")),
            asks("none", "http://a", None),
        ]
    );
}

#[test]
fn t11_no_way_in_shows_what_another_asks_about() {
    let text = |authorize: &str| {
        format!(
            "scope = {{ single_tenant = true }}\n\
             [[service]]\nupstream = \"http://a\"\nprefix = \"/x\"\n\
             authorize = {{ url = \"http://x/may\" }}\n\
             [[service]]\nupstream = \"http://a\"\nprefix = \"/y\"\n\
             [[operation]]\nname = \"one\"\nroutes = [\"POST /x/one\", \"POST /y/one\"]\n{authorize}"
        )
    };
    assert_eq!(
        errors(&text("")),
        "f.toml:9: [[operation]]: the services that its routes lead to differ in authorize, and one \
         would show what another keeps to itself\n  help: say authorize in the operation itself"
    );
    let said = text("authorize = { url = \"http://z/may\" }");
    assert_eq!(asked(&said), [asks("one", "http://a", Some("http://z/may"))]);
    let nobody = text("authorize = false");
    assert_eq!(asked(&nobody), [asks("one", "http://a", None)]);
}

#[test]
fn whatever_is_wrong_with_it_is_said_with_its_remedy() {
    for (settings, expected) in [
        (
            "authorize = {}",
            "authorize: it does not say who is asked\n  help: write it as in { url = \
             \"http://127.0.0.1:3000/authorize\" }",
        ),
        (
            "authorize = true",
            "authorize: true or false stands where a table belongs\n  help: write it as in \
             authorize = { url = \"http://127.0.0.1:3000/authorize\" }",
        ),
        (
            "authorize = { url = \"http://a\", tls = { ca = \"ca.pem\" } }",
            "authorize.tls: it says how TLS is checked, and the URL has none\n  help: write \
             https://, or remove it",
        ),
        (
            "authorize = { url = \"/may\" }",
            "authorize.url: it has no host\n  help: write a URL, such as \
             \"http://127.0.0.1:3000/authorize\"",
        ),
        (
            "authorize = { url = \"http://a\", method = \"DELETE\" }",
            "authorize.method: \"DELETE\" is no method for a question without a body\n  help: \
             write \"GET\", \"HEAD\" or \"POST\"",
        ),
        (
            "authorize = { url = \"http://a\", timeout = \"2m\" }",
            "authorize.timeout: callers would wait for so long to get an outcome that is there\n  \
             help: write at most \"60s\"; \"2s\" suits most",
        ),
        (
            "authorize = { url = \"http://a\", timeout = \"0s\" }",
            "authorize.timeout: it cannot be zero\n  help: write a longer one, such as \"2s\"",
        ),
        (
            "authorize = { url = \"http://a\", headers = [\"Host\"] }",
            "authorize.headers: host is set by hapax where it asks\n  help: remove it",
        ),
        (
            "authorize = { url = \"http://a\", header = [] }",
            "authorize.header: there is no such key in authorize\n  help: did you mean \
             \"headers\"?",
        ),
        (
            "kind = \"natural\"\nauthorize = { url = \"http://a\" }",
            "authorize: it has a meaning for keyed operations only\n  help: remove it, or write \
             kind = \"keyed\"",
        ),
    ] {
        let line = if settings.starts_with("kind") { 8 } else { 7 };
        assert_eq!(
            errors(&operation(settings)),
            format!("f.toml:{line}: {expected}"),
            "{settings}"
        );
    }
}
