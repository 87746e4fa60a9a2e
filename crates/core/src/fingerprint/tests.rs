#![expect(clippy::cast_possible_truncation, reason = "drawn below a bound that fits")]

use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::{Json, JsonError, JsonFault, Members, json::tests::json};

const PAYMENT: IntentParts<'_> = IntentParts {
    operation: "payments.create",
    method: "POST",
    path: "/v1/payments",
    query: None,
    content_encoding: None,
    media_type: Some(b"application/json"),
    headers: &[],
    body: br#"{"amount":1050,"currency":"EUR"}"#,
    decoded: None,
};

fn rules(text: &str) -> FingerprintRules {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn plain(intent: &IntentParts<'_>) -> Fingerprint {
    by(&FingerprintRules::default(), intent)
}

fn by(rules: &FingerprintRules, intent: &IntentParts<'_>) -> Fingerprint {
    rules.fingerprint(intent).expect("a valid body")
}

fn body<'a>(body: &'a str) -> IntentParts<'a> {
    IntentParts { body: body.as_bytes(), ..PAYMENT }
}

#[test]
fn every_part_of_the_intent_counts() {
    let variants = [
        PAYMENT,
        IntentParts { operation: "payments.refund", ..PAYMENT },
        IntentParts { method: "PUT", ..PAYMENT },
        IntentParts { method: "post", ..PAYMENT },
        IntentParts { path: "/v2/payments", ..PAYMENT },
        IntentParts { path: "/v1/payments/", ..PAYMENT },
        IntentParts { path: "/v1%2Fpayments", ..PAYMENT },
        IntentParts { query: Some(""), ..PAYMENT },
        IntentParts { query: Some("a=1"), ..PAYMENT },
        IntentParts { query: Some("a=1&b=2"), ..PAYMENT },
        IntentParts { query: Some("b=2&a=1"), ..PAYMENT },
        IntentParts { query: Some("a=x+y"), ..PAYMENT },
        IntentParts { query: Some("a=x%20y"), ..PAYMENT },
        IntentParts { query: Some("a=x%2By"), ..PAYMENT },
        IntentParts { media_type: None, ..PAYMENT },
        IntentParts { media_type: Some(b""), ..PAYMENT },
        IntentParts { media_type: Some(b"application/merge-patch+json"), ..PAYMENT },
        IntentParts { media_type: Some(b"application/json; v=1"), ..PAYMENT },
        IntentParts { media_type: Some(b"text/plain"), ..PAYMENT },
        IntentParts { headers: &[("if-match", b"\"1\"")], ..PAYMENT },
        IntentParts { headers: &[("if-match", b"\"2\"")], ..PAYMENT },
        IntentParts { headers: &[("if-match", b"\"1\""), ("if-match", b"\"2\"")], ..PAYMENT },
        IntentParts { headers: &[("if-none-match", b"\"1\"")], ..PAYMENT },
        body(""),
        body("null"),
        body("{}"),
        body(r#"{"amount":1051,"currency":"EUR"}"#),
        body(r#"{"amount":"1050","currency":"EUR"}"#),
        body(r#"{"amount":1050,"currency":"eur"}"#),
        body(r#"{"amount":1050,"currency":"EUR","note":null}"#),
        body(r#"[{"amount":1050,"currency":"EUR"}]"#),
    ];
    for (at, a) in variants.iter().enumerate() {
        for (other, b) in variants.iter().enumerate() {
            assert_eq!(plain(a) == plain(b), at == other, "variants {at} and {other}");
        }
    }
}

#[test]
fn neighbouring_parts_do_not_flow_into_each_other() {
    let moved = IntentParts { method: "POSTpayments", operation: ".create", ..PAYMENT };
    assert_ne!(plain(&PAYMENT), plain(&moved));
    let raw = IntentParts { media_type: Some(b"a/b"), ..PAYMENT };
    let shifted = IntentParts { path: "/v1/payment", query: Some("s"), ..raw };
    assert_ne!(plain(&raw), plain(&shifted));
}

#[test]
fn spellings_of_one_intent_are_one() {
    let expected = plain(&PAYMENT);
    for body in [
        r#"{"currency":"EUR","amount":1050}"#,
        "{ \"amount\" : 1050 ,\r\n\t\"currency\" : \"EUR\" }\n",
        r#"{"\u0061mount":1.050e3,"currency":"\u0045UR"}"#,
        r#"{"amount":1050.00,"currency":"EUR"}"#,
    ] {
        assert_eq!(plain(&IntentParts { body: body.as_bytes(), ..PAYMENT }), expected, "{body}");
    }
    let media_type = Some(b"Application/JSON;charset=\"UTF-8\"".as_slice());
    assert_eq!(plain(&IntentParts { media_type, ..PAYMENT }), expected);
    let headers: &[(&str, &[u8])] = &[
        ("Idempotency-Key", b"abc"),
        ("Date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    assert_eq!(plain(&IntentParts { headers, ..PAYMENT }), expected);

    let path = |path| plain(&IntentParts { path, ..PAYMENT });
    assert_eq!(path("/v1/caf%c3%a9"), path("/v1/caf%C3%A9"));
    let query = |query| plain(&IntentParts { query: Some(query), ..PAYMENT });
    assert_eq!(query("q=%7eme%c3%a9"), query("q=~me%C3%A9"));
    let header = |name| plain(&IntentParts { headers: &[(name, b"\"1\"")], ..PAYMENT });
    assert_eq!(header("If-Match"), header("if-match"));
}

#[test]
fn numbers_that_a_double_merges_stay_different() {
    assert_ne!(plain(&body("[9007199254740993]")), plain(&body("[9007199254740992]")));
    assert_ne!(plain(&body("[1.0000000000000000001]")), plain(&body("[1]")));
}

#[test]
fn the_media_type_decides_the_form_unless_it_is_named() {
    let form = |media_type: &'static str, body: &'static str| {
        let media_type = Some(media_type.as_bytes());
        plain(&IntentParts { media_type, body: body.as_bytes(), ..PAYMENT })
    };
    let (urlencoded, text) = ("application/x-www-form-urlencoded", "text/plain");
    assert_eq!(form(urlencoded, "a=1&b=x+y"), form(urlencoded, "b=x%20y&a=1"));
    assert_ne!(form(text, "a=1&b=x+y"), form(text, "b=x%20y&a=1"));
    assert_ne!(form(text, "{}"), form(text, "{ }"));
    let as_json = rules(r#"{"body":"json"}"#);
    let plain_text = |body: &'static str| {
        by(
            &as_json,
            &IntentParts { media_type: Some(b"text/plain"), body: body.as_bytes(), ..PAYMENT },
        )
    };
    assert_eq!(plain_text("{}"), plain_text("{ }"));
}

#[test]
fn an_event_id_is_compared_by_where_it_was_sent_alone() {
    let none = rules(r#"{"body":"none"}"#);
    let other = IntentParts {
        query: Some("delivery=2"),
        media_type: None,
        headers: &[("if-match", b"\"1\"")],
        body: b"anything",
        ..PAYMENT
    };
    assert_eq!(by(&none, &PAYMENT), by(&none, &other));
    assert_ne!(by(&none, &PAYMENT), by(&none, &IntentParts { path: "/other", ..PAYMENT }));
}

#[test]
fn a_declared_default_is_the_same_as_sending_it() {
    let rules = rules(r#"{"defaults":{"/currency":"EUR","/capture/auto":true,"/rate":0.5}}"#);
    let of = |text: &str| by(&rules, &body(text));
    assert_eq!(of(r#"{"amount":1}"#), of(r#"{"amount":1,"currency":"EUR","rate":5e-1}"#));
    assert_eq!(of(r#"{"capture":{}}"#), of(r#"{"capture":{"auto":true}}"#));
    for (a, b) in [
        (r#"{"amount":1}"#, r#"{"amount":1,"currency":"USD"}"#),
        (r#"{"amount":1}"#, r#"{"amount":1,"currency":null}"#),
        // There is no default for the object itself.
        (r#"{"amount":1}"#, r#"{"amount":1,"capture":{}}"#),
    ] {
        assert_ne!(of(a), of(b), "{a} and {b}");
    }
}

#[test]
fn an_excluded_part_does_not_count() {
    let rules = rules(r#"{"exclude":["/client_time","/items/0","/items/1","/meta/trace"]}"#);
    let of = |text: &str| by(&rules, &body(text));
    assert_eq!(of(r#"{"a":1,"client_time":1}"#), of(r#"{"a":1,"client_time":"2"}"#));
    assert_eq!(of(r#"{"a":1,"client_time":null}"#), of(r#"{"a":1}"#));
    assert_eq!(of(r#"{"meta":{"x":1,"trace":7}}"#), of(r#"{"meta":{"x":1}}"#));
    assert_eq!(of(r#"{"items":[1,2,3]}"#), of(r#"{"items":[8,9,3]}"#));
    assert_ne!(of(r#"{"items":[1,2,3]}"#), of(r#"{"items":[1,2,4]}"#));
    assert_ne!(of(r#"{"a":1,"client_time":1}"#), of(r#"{"a":2,"client_time":1}"#));
}

#[test]
fn only_included_parts_count_and_absent_is_not_null() {
    let rules = rules(r#"{"include":["/amount","/to/iban"],"exclude":["/amount/shown"]}"#);
    let of = |text: &str| by(&rules, &body(text));
    assert_eq!(
        of(r#"{"amount":1,"to":{"iban":"x","name":"a"},"note":1}"#),
        of(r#"{"amount":1,"to":{"iban":"x"}}"#)
    );
    assert_eq!(of(r#"{"amount":{"v":1,"shown":"1"}}"#), of(r#"{"amount":{"v":1}}"#));
    let bodies = [
        "",
        "{}",
        r#"{"amount":null}"#,
        r#"{"amount":1}"#,
        r#"{"to":{"iban":1}}"#,
        r#"{"amount":1,"to":{"iban":1}}"#,
        r#"{"amount":11,"to":{}}"#,
        r#"{"amount":"","to":{}}"#,
    ];
    for (at, a) in bodies.iter().enumerate() {
        for b in bodies.iter().skip(at + 1) {
            assert_ne!(of(a), of(b), "{a} and {b}");
        }
    }
}

#[test]
fn the_version_covers_the_rules_and_not_their_order() {
    let texts = [
        "{}",
        r#"{"body":"json"}"#,
        r#"{"body":"raw"}"#,
        r#"{"body":"none"}"#,
        r#"{"body":"jcs"}"#,
        r#"{"body":"multipart"}"#,
        r#"{"unordered":["/a"]}"#,
        r#"{"paths":["/a"]}"#,
        r#"{"include":["/a"]}"#,
        r#"{"exclude":["/a"]}"#,
        r#"{"exclude":["/a","/b"]}"#,
        r#"{"exclude":["/a/b"]}"#,
        r#"{"defaults":{"/a":1}}"#,
        r#"{"defaults":{"/a":"1"}}"#,
        r#"{"headers":[]}"#,
        r#"{"headers":["x-api-version"]}"#,
    ];
    for (at, a) in texts.iter().enumerate() {
        for (other, b) in texts.iter().enumerate() {
            let same = rules(a).version() == rules(b).version();
            assert_eq!(same, at == other, "{a} and {b}");
        }
    }
    for (a, b) in [
        (r#"{"exclude":["/b","/a"]}"#, r#"{"exclude":["/a","/b"]}"#),
        (r#"{"include":["/b","/a"]}"#, r#"{"include":["/a","/b","/a"]}"#),
        (r#"{"defaults":{"/b":1,"/a":2}}"#, r#"{"defaults":{"/a":2.0,"/b":1}}"#),
        (r#"{"headers":["If-Match","a"]}"#, r#"{"headers":["a","if-match"]}"#),
    ] {
        assert_eq!(rules(a).version(), rules(b).version(), "{a} and {b}");
        assert_eq!(by(&rules(a), &PAYMENT), by(&rules(b), &PAYMENT), "{a} and {b}");
    }
    assert_ne!(by(&rules(texts[0]), &PAYMENT), by(&rules(texts[1]), &PAYMENT));
}

#[test]
fn rules_survive_being_stored() {
    let rules = rules(
        r#"{"body":"json","include":["/a~1b"],"exclude":["/a~1b/c"],
            "defaults":{"/a~1b/d":{"$number":"0.1"},"/a~1b/e":{"$x":[null,{}]}},
            "headers":["X-Version"],"unordered":["/a~1b/f"]}"#,
    );
    let text = serde_json::to_string(&rules).expect("plain data");
    let back: FingerprintRules = serde_json::from_str(&text).expect("what was written");
    assert_eq!(back, rules);
    assert_eq!(back.version(), rules.version());
    assert!(serde_json::from_str::<FingerprintRules>(r#"{"excludes":["/a"]}"#).is_err());
    assert!(serde_json::from_str::<FingerprintRules>(r#"{"exclude":["a"]}"#).is_err());
}

#[test]
fn rules_that_make_no_sense_are_named() {
    use RulesError::*;
    let place = |text: &str| text.parse::<Pointer>().expect("a pointer");
    for (text, error) in [
        (r#"{"body":"raw","exclude":["/a"]}"#, NotJson),
        (r#"{"body":"form","include":["/a"]}"#, NotJson),
        (r#"{"body":"none","defaults":{"/a":1}}"#, NotJson),
        (r#"{"include":[""]}"#, WholeBody { list: "include" }),
        (r#"{"exclude":[""]}"#, WholeBody { list: "exclude" }),
        (r#"{"defaults":{"":1}}"#, WholeBody { list: "defaults" }),
        (
            r#"{"include":["/a/b","/a"]}"#,
            Covered { list: "include", outer: place("/a"), inner: place("/a/b") },
        ),
        (
            r#"{"exclude":["/a","/a"]}"#,
            Covered { list: "exclude", outer: place("/a"), inner: place("/a") },
        ),
        (r#"{"include":["/a/b"],"exclude":["/a"]}"#, IncludedAndExcluded { place: place("/a/b") }),
        (
            r#"{"include":["/a"],"exclude":["/b"]}"#,
            NotIncluded { list: "exclude", place: place("/b") },
        ),
        (
            r#"{"include":["/a"],"defaults":{"/b":1}}"#,
            NotIncluded { list: "defaults", place: place("/b") },
        ),
        (r#"{"exclude":["/a"],"defaults":{"/a/b":1}}"#, DefaultExcluded { place: place("/a/b") }),
        (r#"{"defaults":{"/a":1,"/a":2}}"#, DefaultTwice { place: place("/a") }),
        (
            r#"{"body":"jcs","defaults":{"/a":{"b":{"$number":"1e999"}}}}"#,
            DefaultRange { place: place("/a") },
        ),
        (r#"{"body":"multipart","unordered":["/a"]}"#, NotJson),
        (
            r#"{"unordered":["/a","/a"]}"#,
            Covered { list: "unordered", outer: place("/a"), inner: place("/a") },
        ),
        (r#"{"exclude":["/a"],"unordered":["/a/b"]}"#, UnorderedExcluded { place: place("/a/b") }),
        (
            r#"{"include":["/a"],"unordered":["/b"]}"#,
            NotIncluded { list: "unordered", place: place("/b") },
        ),
        (
            r#"{"exclude":["/a/0/b"],"unordered":["/a"]}"#,
            Unordered { list: "exclude", place: place("/a/0/b"), array: place("/a") },
        ),
        (
            r#"{"unordered":["/a","/a/3"]}"#,
            Unordered { list: "unordered", place: place("/a/3"), array: place("/a") },
        ),
        (r#"{"headers":["if match"]}"#, HeaderName),
        (r#"{"headers":[""]}"#, HeaderName),
        (r#"{"body":"none","headers":["x-version"]}"#, HeadersWithNone),
    ] {
        assert_eq!(rules(text).check(), Err(error), "{text}");
    }
    for text in [
        "{}",
        r#"{"body":"none"}"#,
        r#"{"body":"none","headers":[]}"#,
        r#"{"include":["/a"],"exclude":["/a/b"],"defaults":{"/a/c":1}}"#,
        r#"{"include":["/a/b"],"defaults":{"/a":{"b":1}}}"#,
        r#"{"body":"jcs","unordered":["","/a/b"],"exclude":["/c"]}"#,
        r#"{"include":["/a"],"unordered":["/a/b"]}"#,
    ] {
        assert_eq!(rules(text).check(), Ok(()), "{text}");
    }
}

#[test]
fn a_body_that_is_not_its_form_is_refused_without_showing_it() {
    let error = FingerprintRules::default().fingerprint(&body(r#"{"iban":"DE02","iban":1}"#));
    let error = error.expect_err("duplicate members");
    let why = JsonFault::DuplicateMember;
    assert_eq!(error, BodyInvalid::Json(JsonError { at: 0, why }));
    assert!(!format!("{error} {error:?}").contains("iban"));
}

#[test]
fn a_stored_fingerprint_comes_back() {
    let fingerprint = plain(&PAYMENT);
    assert_eq!(Fingerprint::from_bytes(&fingerprint.to_bytes()), Some(fingerprint));
    assert_eq!(Fingerprint::new(fingerprint.version(), *fingerprint.digest()), fingerprint);
    assert_eq!(Fingerprint::from_bytes(&fingerprint.to_bytes()[1..]), None);
    assert_eq!(fingerprint.version(), FingerprintRules::default().version());
    assert_eq!(fingerprint.version().algorithm(), 2);
    let shown = format!("{fingerprint:?}");
    assert!(shown.len() < 64, "{shown}");
}

proptest! {
    #[test]
    fn any_bytes_have_a_fingerprint_or_are_invalid(
        media_type in r#"(application/(json|x-www-form-urlencoded)|multipart/form-data)(; ([a-z]{0,3}|charset|boundary)=?"?[a-z]?"?)?|\PC*"#,
        path in "/[%a-f0-9]{0,9}",
        query in "[%a-f0-9+&=]{0,9}",
        body: Vec<u8>,
    ) {
        let media_type = Some(media_type.as_bytes());
        let intent =
            IntentParts { media_type, path: &path, query: Some(&query), body: &body, ..PAYMENT };
        let _ = FingerprintRules::default().fingerprint(&intent);
    }

    #[test]
    fn how_a_value_is_spelled_does_not_count(value in json(), seed: u64) {
        let mut canonical = Vec::new();
        value.canonical(&mut canonical);
        let mut respelled = String::new();
        Speller(seed).spell(&value, &mut respelled);
        let canonical = IntentParts { body: &canonical, ..PAYMENT };
        prop_assert_eq!(plain(&canonical), plain(&body(&respelled)));
    }

    #[test]
    fn different_values_have_different_fingerprints(a in json(), b in json()) {
        let text = |value: &Json| {
            let mut text = String::new();
            Speller(7).spell(value, &mut text);
            text
        };
        prop_assert_eq!(plain(&body(&text(&a))) == plain(&body(&text(&b))), a == b);
    }

    #[test]
    fn any_change_of_a_value_changes_it(value in json(), seed: u64) {
        let changed = Speller(seed).change(&value);
        let text = |value: &Json| {
            let mut text = Vec::new();
            value.canonical(&mut text);
            text
        };
        let (a, b) = (text(&value), text(&changed));
        let (a, b) =
            (IntentParts { body: &a, ..PAYMENT }, IntentParts { body: &b, ..PAYMENT });
        prop_assert_ne!(plain(&a), plain(&b));
    }

    #[test]
    fn different_queries_have_different_fingerprints(
        a in "[%0246F+a]{0,7}",
        b in "[%0246F+a]{0,7}",
    ) {
        // The oracle: what RFC 3986 (section 6.2.2) calls equivalent, character by character.
        fn units(text: &str) -> Option<Vec<(bool, u8)>> {
            let mut units = Vec::new();
            let mut bytes = text.bytes();
            while let Some(byte) = bytes.next() {
                if byte != b'%' {
                    units.push((false, byte));
                    continue;
                }
                let pair = [bytes.next()?, bytes.next()?];
                let pair = str::from_utf8(&pair).ok().filter(|pair| !pair.contains('+'))?;
                let decoded = u8::from_str_radix(pair, 16).ok()?;
                let unreserved = decoded.is_ascii_alphanumeric() || b"-._~".contains(&decoded);
                units.push((!unreserved, decoded));
            }
            Some(units)
        }
        let of = |query: &str| plain(&IntentParts { query: Some(query), ..PAYMENT });
        let same = match (units(&a), units(&b)) {
            (None, None) => a == b,
            (a, b) => a == b,
        };
        prop_assert_eq!(of(&a) == of(&b), same);
    }
}

/// Spells and changes values, by choices that follow from its seed.
struct Speller(u64);

impl Speller {
    fn choose(&mut self, choices: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % choices
    }

    fn space(&mut self, out: &mut String) {
        for _ in 0..self.choose(3) {
            out.push([' ', '\t', '\n', '\r'][self.choose(4) as usize]);
        }
    }

    fn spell(&mut self, value: &Json, out: &mut String) {
        self.space(out);
        match value {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(&value.to_string()),
            Json::Number(number) => self.spell_number(number.as_str(), out),
            Json::String(text) => self.spell_string(text, out),
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.spell(item, out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for at in (1..members.len()).rev() {
                    members.swap(at, self.choose(at as u64 + 1) as usize);
                }
                out.push('{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.space(out);
                    self.spell_string(name, out);
                    self.space(out);
                    out.push(':');
                    self.spell(value, out);
                }
                out.push('}');
            }
        }
        self.space(out);
    }

    fn spell_number(&mut self, number: &str, out: &mut String) {
        let (mantissa, exponent) = number.split_once('e').unwrap_or((number, "0"));
        let exponent: i128 = exponent.parse().expect("an exponent");
        let zeros = self.choose(4) as usize;
        match (mantissa.split_once('.'), self.choose(3)) {
            // The same digits without a point.
            (Some((whole, fraction)), 0) if whole.trim_start_matches('-') != "0" => {
                let exponent = exponent - fraction.len() as i128;
                out.push_str(&format!("{whole}{fraction}E{exponent:+}"));
            }
            // Zeros behind the fraction.
            (Some(_), _) => out.push_str(&format!("{mantissa}{}e{exponent}", "0".repeat(zeros))),
            // Zeros behind an integer, taken back by the exponent.
            (None, 0) if mantissa != "0" => {
                let exponent = exponent - zeros as i128;
                out.push_str(&format!("{mantissa}{}e{exponent:+}", "0".repeat(zeros)));
            }
            (None, 1) => out.push_str(&format!("{mantissa}.0e{exponent}")),
            (None, _) => out.push_str(number),
        }
    }

    fn spell_string(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            let must = character < ' ' || character == '"' || character == '\\';
            if must || self.choose(4) == 0 {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&match self.choose(2) {
                        0 => format!("\\u{unit:04x}"),
                        _ => format!("\\u{unit:04X}"),
                    });
                }
            } else {
                out.push(character);
            }
        }
        out.push('"');
    }

    /// Another value: a leaf changed, or a member or an element added.
    fn change(&mut self, value: &Json<'_>) -> Json<'static> {
        match value {
            Json::Null => Json::Bool(false),
            Json::Bool(value) => Json::Bool(!value),
            Json::Number(number) => {
                // One more digit in front of the others, or a sign.
                let text = match number.as_str().strip_prefix('-') {
                    Some(positive) => positive.to_owned(),
                    None if number.as_str() == "0" => "1".to_owned(),
                    None => format!("-{number}"),
                };
                Json::parse(text.as_bytes()).expect("a number").into_owned()
            }
            Json::String(text) => Json::String(format!("{text}\u{0}").into()),
            Json::Array(items) => {
                let mut items: Vec<_> =
                    items.iter().map(|item| item.clone().into_owned()).collect();
                match self.choose(items.len() as u64 + 1) as usize {
                    at if at < items.len() => items[at] = self.change(&items[at]),
                    _ => items.push(Json::Null),
                }
                Json::Array(items)
            }
            Json::Object(members) => {
                let own = |(name, value): (&str, &Json<'_>)| {
                    (Cow::from(name.to_owned()), value.clone().into_owned())
                };
                let mut members: Vec<_> = members.iter().map(own).collect();
                match self.choose(members.len() as u64 + 1) as usize {
                    at if at < members.len() => members[at].1 = self.change(&members[at].1),
                    _ => {
                        let longest = members.iter().map(|(name, _)| name.len()).max();
                        members.push(("x".repeat(longest.unwrap_or(0) + 1).into(), Json::Null));
                    }
                }
                Json::Object(Members::new(members).expect("unique names"))
            }
        }
    }
}

#[test]
fn only_the_headers_that_count_are_covered() {
    let fingerprinter = rules(r#"{"headers":["If-Match","x-region"]}"#).prepare();
    for (name, covered) in [("if-match", true), ("X-Region", true), ("x-other", false), ("", false)]
    {
        assert_eq!(fingerprinter.covers_header(name), covered, "{name}");
    }
}
