//! No input makes the configuration panic, and none is repeated that may be a secret.

use proptest::prelude::*;

use super::*;

const EXAMPLE: &str = include_str!("../../../../../hapax.example.toml");

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = load(&String::from_utf8_lossy(&bytes), &Flags::default());
    }

    #[test]
    fn no_text_of_the_files_alphabet_panics(text in "[a-z_=\\[\\]{}\", 0-9.\n/*:#-]{0,300}") {
        let _ = load(&text, &Flags::default());
    }

    #[test]
    fn no_value_panics(
        key in "listen|store|effect_secret|scope|operator|service|operation|limits|sweep",
        value in "(\"[^\"\\\\\n]{0,30}\"|-?[0-9]{1,40}|true|\\[\\]|\\{\\}|\\[\\{\\}\\]|1979-05-27)",
    ) {
        let _ = load(&format!("{key} = {value}"), &Flags::default());
    }

    #[test]
    fn no_change_of_the_example_panics(
        from in 0..EXAMPLE.len(),
        length in 0..40_usize,
        inserted in "[ -~\n]{0,8}",
    ) {
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let to = bytes.len().min(from + length);
        bytes.splice(from..to, inserted.bytes());
        if let Err(error) = load(&String::from_utf8_lossy(&bytes), &Flags::default()) {
            prop_assert!(!error.mistakes().is_empty());
            for line in error.to_string().lines() {
                prop_assert!(line.starts_with("f.toml:") || line.starts_with("  help: "), "{line}");
            }
        }
    }

    #[test]
    fn no_flag_panics(text in ".{0,40}") {
        let text = Some(text);
        let flags = Flags {
            listen: text.clone(),
            operator_listen: text.clone(),
            upstream: text.clone(),
            store: text.clone(),
            scope_header: text.clone(),
            lease: text.clone(),
            retain: text.clone(),
            on_unknown: text.clone(),
            collapse_for: text,
            ..Flags::default()
        };
        let _ = Config::from_flags(&flags, Environment::default());
    }

    /// The request's side of routing: any path, any prefix.
    #[test]
    fn a_route_that_reads_finds_its_own_literal_path(path in "(/[a-zA-Z0-9._~%-]{0,5}){1,4}") {
        if let Ok(route) = RoutePattern::parse(&format!("POST {path}")) {
            let text = operation("").replace("POST /pay", &route.to_string());
            let config = load(&text, &Flags::default()).expect("right");
            let found = config.route(&Method::POST, "a.b", &path).and_then(|route| route.operation);
            prop_assert!(found.is_some());
        }
    }
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let dots = format!("{}a = 1", "a.".repeat(50_000));
    let arrays = format!("a = {}", "[".repeat(50_000));
    let tables = format!("a = {}", "{a=".repeat(50_000));
    let headers = format!("[{}a]", "a.".repeat(50_000));
    for text in [dots, arrays, tables, headers] {
        assert!(load(&text, &Flags::default()).is_err());
    }
}

#[test]
fn no_error_repeats_a_secret() {
    for text in [
        file("effect_secret = \"hunter2\"\n", ""),
        file("effect_secret = hunter2\n", ""),
        file("effect_secret = { file = \"/k\", env = \"hunter2\" }\n", ""),
        file("effect_secret = [\"hunter2\"]\n", ""),
        file("store = \"postgres://u:hunter2@h\"\n", ""),
        file("store = \"mongodb://u:hunter2@h\"\n", ""),
        file("", "[[service]]\nupstream = \"http://u:hunter2@h\""),
        file("", "[[service]]\nupstream = \"https://u:hunter2@h\""),
        file("", "[[service]]\nupstream = \"u:hunter2@h\""),
        file("scope = { jwt = \"hunter2\" }\n", "").replace("scope = { single", "# "),
        "store = \"sqlite:hunter2".to_owned(),
    ] {
        let error = errors(&text);
        assert_ne!(error, "nothing", "{text}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}
