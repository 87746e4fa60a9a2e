use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn fault(text: &[u8]) -> JsonError {
    Json::parse(text).expect_err("not acceptable")
}

fn canonical(text: &str) -> String {
    let mut out = Vec::new();
    parse(text).canonical(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn place(text: &str) -> Pointer {
    text.parse().expect("a pointer")
}

#[test]
fn equal_numbers_have_one_spelling() {
    for (spellings, spelling) in [
        (&["0", "-0", "0.0", "-0.00", "0e9", "0e-9", "0E+99999999999999999999999999"][..], "0"),
        (&["1", "1.0", "1.000", "10e-1", "0.1e1", "0.01E+2", "1e0", "1e-0", "1E00"], "1"),
        (&["-1.50", "-1.5", "-15e-1", "-0.015e2"], "-1.5"),
        (&["1000000", "1e6", "0.001e9"], "1000000"),
        (&["100000000000000000000", "1e20"], "100000000000000000000"),
        (&["1000000000000000000000", "1e21"], "1e+21"),
        (
            &["123456789012345678901234", "1.23456789012345678901234e23"],
            "1.23456789012345678901234e+23",
        ),
        (&["0.000001", "1e-6", "0.0000010"], "0.000001"),
        (&["0.0000001", "1e-7", "0.1e-6"], "1e-7"),
        (&["0.00000123"], "0.00000123"),
        (&["0.000000123"], "1.23e-7"),
        (&["1e1000", "10e999"], "1e+1000"),
        (&["1e999999999999999999999", "0.1e1000000000000000000000"], "1e+999999999999999999999"),
        (&["1e-999999999999999999999"], "1e-999999999999999999999"),
    ] {
        for text in spellings {
            assert_eq!(canonical(text), spelling, "{text}");
        }
    }
}

#[test]
fn numbers_that_a_double_merges_stay_different() {
    for (a, b) in [
        ("9007199254740993", "9007199254740992"),
        ("1.0000000000000000001", "1"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("1e400", "1e401"),
        ("1e-400", "0"),
        ("1e999999999999999999999", "1e999999999999999999998"),
        ("1e999999999999999999999", "1e-999999999999999999999"),
        ("123456789012345678901234567890", "123456789012345678901234567891"),
    ] {
        assert_ne!(canonical(a), canonical(b));
    }
}

#[test]
fn an_absurd_exponent_is_refused_unless_the_number_is_zero() {
    let huge = format!("1e{}", "9".repeat(38));
    assert_eq!(fault(huge.as_bytes()), JsonError { at: 0, why: JsonFault::ExponentTooLarge });
    assert_eq!(canonical(&format!("1e{}7", "0".repeat(99))), "10000000");
    assert_eq!(canonical(&format!("0e{}", "9".repeat(99))), "0");
    for (number, reads) in [("1e", true), ("1e-", true), ("10e", false), ("0.1e-", false)] {
        let text = format!("{number}{}", "9".repeat(37));
        assert_eq!(Json::parse(text.as_bytes()).is_ok(), reads, "{text}");
    }
}

#[test]
fn strings_are_escaped_as_rfc_8785_has_it() {
    for (text, expected) in [
        (r#""\u0000\u0007\b\t\n\u000b\f\r\u001f""#, r#""\u0000\u0007\b\t\n\u000b\f\r\u001f""#),
        (r#""\"\\\/\u007f\u20ac\uD83D\uDE02""#, "\"\\\"\\\\/\u{7f}€😂\""),
        (r#""A\u030a""#, "\"A\u{30a}\""),
        (r#""""#, r#""""#),
    ] {
        assert_eq!(canonical(text), expected);
    }
}

#[test]
fn members_are_ordered_by_utf_16() {
    let text = r#"{"\ufb33":1,"\ud83d\ude02":2,"\u20ac":3,"b":4,"a":5,"":6,"ab":7}"#;
    let expected = "{\"\":6,\"a\":5,\"ab\":7,\"b\":4,\"€\":3,\"😂\":2,\"\u{fb33}\":1}";
    assert_eq!(canonical(text), expected);
}

#[test]
fn what_readers_disagree_about_is_refused_with_its_place() {
    use JsonFault::*;
    for (text, at, why) in [
        (&b""[..], 0, EndOfText),
        (b"  ", 2, EndOfText),
        (b"\xef\xbb\xbf{}", 0, ByteOrderMark),
        (b"\"\xff\"", 1, NotUtf8),
        (b"\"\xed\xa0\x80\"", 1, NotUtf8),
        (b"{} {}", 3, Trailing),
        (b"[1,]", 3, Unexpected),
        (b"[1", 2, EndOfText),
        (b"{\"a\":1,}", 7, Unexpected),
        (b"{a:1}", 1, Unexpected),
        (b"nul", 3, EndOfText),
        (b"nulL", 3, Unexpected),
        (b"NaN", 0, Unexpected),
        (b"[01]", 1, BadNumber),
        (b"[-]", 1, BadNumber),
        (b"[1.]", 1, BadNumber),
        (b"[1e+]", 1, BadNumber),
        (b"[.5]", 1, Unexpected),
        (b"\"a\nb\"", 2, ControlCharacter),
        (b"\"abc", 4, EndOfText),
        (b"\"a\\x\"", 2, BadEscape),
        (b"\"a\\u12g4\"", 2, BadEscape),
        (b"\"\\", 2, EndOfText),
        (b"\"\\ud800\"", 1, LoneSurrogate),
        (b"\"\\udc00\"", 1, LoneSurrogate),
        (b"\"\\ud800\\n\"", 1, LoneSurrogate),
        (b"\"\\ud800\\ud800\"", 1, LoneSurrogate),
        (b"\"\\ud800\\u12\"", 7, BadEscape),
        (b"[{\"a\":1,\"b\":2,\"a\":1}]", 1, DuplicateMember),
        (b"{\"a\":1,\"\\u0061\":2}", 0, DuplicateMember),
    ] {
        assert_eq!(fault(text), JsonError { at, why }, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(Json::parse(nested(Json::MAX_DEPTH).as_bytes()).is_ok());
    let too_deep = JsonError { at: Json::MAX_DEPTH, why: JsonFault::TooDeep };
    assert_eq!(fault(nested(Json::MAX_DEPTH + 1).as_bytes()), too_deep);
    assert_eq!(fault("[".repeat(1_000_000).as_bytes()), too_deep);
    assert_eq!(fault(r#"{"":"#.repeat(1_000_000).as_bytes()).why, JsonFault::TooDeep);
}

#[test]
fn no_error_shows_the_text() {
    for text in [r#"{"secret":1,"secret":2}"#, r#"["secret"#, r#"{"secret"}"#, "secret"] {
        let error = fault(text.as_bytes());
        assert!(!format!("{error} {error:?}").contains("secret"));
    }
}

#[test]
fn places_are_found_as_rfc_6901_has_it() {
    let document = parse(
        r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,
            "m~n":8,"x":null}"#,
    );
    for (pointer, value) in [
        ("/foo", r#"["bar","baz"]"#),
        ("/foo/0", r#""bar""#),
        ("/", "0"),
        ("/a~1b", "1"),
        ("/c%d", "2"),
        ("/i\\j", "5"),
        ("/k\"l", "6"),
        ("/m~0n", "8"),
        ("/x", "null"),
    ] {
        assert_eq!(document.get(&place(pointer)), Some(&parse(value)), "{pointer}");
    }
    assert_eq!(document.get(&place("")), Some(&document));
    for pointer in ["/foo/2", "/foo/-", "/foo/00", "/foo/0/x", "/y", "/x/y", "//"] {
        assert_eq!(document.get(&place(pointer)), None, "{pointer}");
    }
}

#[test]
fn values_are_taken_out_and_put_in_only_where_they_belong() {
    let mut document = parse(r#"{"a":{"b":1,"n":null},"i":[1,2,3]}"#);
    assert_eq!(document.remove(&place("/a/b")), Some(parse("1")));
    assert_eq!(document.remove(&place("/a/b")), None);
    assert_eq!(document.remove(&place("/i/1")), Some(parse("2")));
    assert_eq!(document.remove(&place("/i/2")), None);
    assert_eq!(document.remove(&place("")), None);
    assert_eq!(document, parse(r#"{"a":{"n":null},"i":[1,3]}"#));

    let one = parse("1");
    assert!(document.insert_absent(&place("/a/b"), &one));
    for pointer in ["/a/b", "/a/n", "/i/2", "/i/-", "/x/y", "/i/0/z", ""] {
        assert!(!document.insert_absent(&place(pointer), &one), "{pointer}");
    }
    assert_eq!(document, parse(r#"{"a":{"b":1,"n":null},"i":[1,3]}"#));
}

#[test]
fn a_configuration_gives_values_as_they_are() {
    let value: Json = serde_json::from_str(
        r#"{"a":[null,true,-7,0.1,1e30,18446744073709551615],"$ref":"x","n":{"$number":"1.50"}}"#,
    )
    .expect("readable");
    let expected =
        parse(r#"{"a":[null,true,-7,0.1,1e30,18446744073709551615],"$ref":"x","n":1.5}"#);
    assert_eq!(value, expected);
    for text in [r#"{"a":1,"\u0061":2}"#, r#"{"$number":"x"}"#, r#"{"$number":"[1]"}"#] {
        assert!(serde_json::from_str::<Json>(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_parse_or_do_not(bytes: Vec<u8>) {
        let _ = Json::parse(&bytes);
    }

    #[test]
    fn any_near_json_parses_or_does_not(text in r#"[\[\]{},:"\\0-9eE+.a-u -]{0,40}"#) {
        let _ = Json::parse(text.as_bytes());
    }

    #[test]
    fn the_canonical_text_parses_to_the_same_value(value in json()) {
        let mut text = Vec::new();
        value.canonical(&mut text);
        prop_assert_eq!(Json::parse(&text), Ok(value));
    }

    #[test]
    fn a_serialized_value_comes_back(value in json()) {
        let text = serde_json::to_string(&value).expect("serializable");
        prop_assert_eq!(serde_json::from_str::<Json>(&text).ok(), Some(value));
    }

    #[test]
    fn what_serde_json_takes_as_a_value_is_one_here(value in json()) {
        let mut text = Vec::new();
        value.canonical(&mut text);
        prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok());
    }

    #[test]
    fn names_are_ordered_as_their_utf_16_is(a in names(), b in names()) {
        prop_assert_eq!(utf16_order(&a, &b), a.encode_utf16().cmp(b.encode_utf16()));
    }

    #[test]
    fn equal_decimals_and_only_those_have_one_spelling(
        a in (0..2000_i64, -30..3_i32),
        b in (0..2000_i64, -30..3_i32),
    ) {
        let spelled = |(digits, exponent)| canonical(&format!("{digits}e{exponent}"));
        // In units of 1e-30 the values are integers.
        let units = |(digits, exponent): (i64, i32)| {
            i128::from(digits) * 10_i128.pow((exponent + 30).unsigned_abs())
        };
        prop_assert_eq!(spelled(a) == spelled(b), units(a) == units(b));
    }

    #[test]
    fn a_double_is_spelled_as_ecmascript_spells_it(value in proptest::num::f64::NORMAL) {
        // Rust's shortest digits are ECMAScript's; what differs is where the exponent starts.
        let spelled = canonical(&format!("{value:e}"));
        prop_assert_eq!(spelled.parse::<f64>(), Ok(value));
        let magnitude = value.abs();
        prop_assert_eq!(spelled.contains('e'), !(1e-6..1e21).contains(&magnitude));
    }
}

fn names() -> impl Strategy<Value = String> {
    "[a\u{7ff}\u{d7ff}\u{e000}\u{fb33}\u{ffff}\u{10000}\u{10ffff}]{0,4}|\\PC{0,8}"
}

/// Any JSON value.
pub(crate) fn json() -> impl Strategy<Value = Json<'static>> {
    let number = r"-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,9})?([eE][+-]?[0-9]{1,25})?";
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number.prop_map(|text| parse(&text).into_owned()),
        any::<String>().prop_map(|text| Json::String(text.into())),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop_oneof![any::<String>(), "[$a-c]{0,2}", Just("$number".to_owned())];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            proptest::collection::btree_map(name, inner, 0..6).prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.into(), value));
                Json::Object(Members::new(members.collect()).expect("unique names"))
            }),
        ]
    })
}
