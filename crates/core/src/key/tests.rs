#![expect(clippy::cast_possible_truncation, reason = "drawn below a bound that fits")]

use proptest::prelude::*;

use super::*;

const NO_FLOOR: KeyPolicy = KeyPolicy { syntax: KeySyntax::Lenient, min_length: 1, min_bits: 0 };
const STRICT: KeyPolicy = KeyPolicy { syntax: KeySyntax::Strict, ..NO_FLOOR };

fn read(value: &str, policy: &KeyPolicy) -> Result<Key, KeyError> {
    Key::from_field([value.as_bytes()], policy).map(|key| key.expect("a line is a key or an error"))
}

fn default(value: &str) -> Result<Key, KeyError> {
    read(value, &KeyPolicy::default())
}

fn key(characters: &str) -> Key {
    Key::from_bytes(characters.as_bytes()).expect("1 to 255 bytes")
}

#[test]
fn no_field_is_no_key() {
    assert_eq!(Key::from_field([], &KeyPolicy::default()), Ok(None));
}

#[test]
fn two_fields_are_refused_even_when_they_are_equal() {
    let lines = [br#""8e03978e-40d5-43e8-bc93-6894a57f9324""#.as_slice(); 2];
    assert_eq!(Key::from_field(lines, &KeyPolicy::default()), Err(KeyError::SeveralFields));
}

#[test]
fn a_bare_key_is_the_same_key_as_its_quoted_form() {
    for characters in ["abc", "8e03978e-40d5-43e8-bc93-6894a57f9324", "042", "-1.50", "a=b", "(a"] {
        let quoted = format!("\"{characters}\"");
        for value in [characters, &quoted, &format!("  {characters} "), &format!(" {quoted}  ")] {
            assert_eq!(read(value, &NO_FLOOR), Ok(key(characters)), "{value}");
        }
    }
}

#[test]
fn escapes_are_undone_and_parameters_ignored() {
    assert_eq!(read(r#""a\"b\\c""#, &NO_FLOOR), Ok(key(r#"a"b\c"#)));
    assert_eq!(read(r#""abc";v=1;w="x""#, &NO_FLOOR), Ok(key("abc")));
    assert_eq!(read(r#""a, b; c""#, &NO_FLOOR), Ok(key("a, b; c")));
}

#[test]
fn other_types_are_refused_as_such() {
    use FieldType::*;
    for (value, found) in [
        ("?1", Boolean),
        (":YWJj:", ByteSequence),
        ("@1659578233", Date),
        ("%\"caf%c3%a9\"", DisplayString),
        ("(a b)", InnerList),
        ("(abc)", InnerList),
    ] {
        for policy in [NO_FLOOR, STRICT] {
            assert_eq!(read(value, &policy), Err(KeyError::WrongType { found }), "{value}");
        }
    }
    for (value, found) in [("abc", Token), ("42", Integer), ("4.2", Decimal)] {
        assert_eq!(read(value, &STRICT), Err(KeyError::WrongType { found }), "{value}");
        assert_eq!(read(value, &NO_FLOOR), Ok(key(value)));
    }
}

#[test]
fn what_is_no_key_is_refused_with_its_place() {
    for (value, at) in [
        ("\tabc", 0),
        ("abc\t", 3),
        ("a b", 1),
        ("a,b", 1),
        ("a;b", 1),
        ("a\\b", 1),
        ("'abc'", 0),
        ("ab\"c", 2),
        ("  a b", 3),
        ("abc\u{fc}", 3),
        ("\"a\u{fc}\"", 2),
        ("\"abc", 4),
        ("\"abc\" x", 6),
        ("\"a\\b\"", 3),
        ("\"a\", \"b\"", 3),
    ] {
        assert_eq!(read(value, &NO_FLOOR), Err(KeyError::Malformed { at }), "{value}");
    }
}

#[test]
fn a_key_has_1_to_255_characters() {
    let (longest, longer) = ("a".repeat(255), "a".repeat(256));
    for value in ["", "   ", "\"\""] {
        assert_eq!(read(value, &NO_FLOOR), Err(KeyError::Empty), "{value}");
    }
    for characters in [&longest, &format!("\"{longest}\"")] {
        assert_eq!(read(characters, &NO_FLOOR), Ok(key(&longest)));
    }
    for characters in [&longer, &format!("\"{longer}\"")] {
        assert_eq!(read(characters, &NO_FLOOR), Err(KeyError::TooLong { length: 256 }));
    }
    assert_eq!(Key::from_bytes(b""), Err(KeyError::Empty));
    assert_eq!(Key::from_bytes(&[0; 256]), Err(KeyError::TooLong { length: 256 }));
    assert!(Key::from_bytes(&[0; 255]).is_ok());
}

#[test]
fn a_key_of_15_characters_is_too_short_by_default() {
    let refused = KeyError::TooShort { length: 15, min_length: 16 };
    assert_eq!(default("KG5LxwFBepaKHyU"), Err(refused));
    assert!(default("KG5LxwFBepaKHyUD").is_ok());
}

#[test]
fn predictable_keys_are_refused() {
    for value in [
        "0000000000000000",
        "aaaaaaaaaaaaaaaa",
        "1234567890123456",
        "abcdefghijklmnop",
        "abababababababab",
        "abcabcabcabcabcabcabc",
        "payment-00000001",
        "payment000000001",
        "Payment_00000001",
        "order-2024-000123",
        "order12345678901",
        "00000000-0000-0000-0000-000000000000",
        "00000000-0000-0000-0000-000000000001",
        "11111111-1111-4111-8111-111111111111",
        "0000000000000000000000000A",
        "----------------",
        "-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_",
    ] {
        let answer = default(value);
        assert!(matches!(answer, Err(KeyError::Predictable { .. })), "{value}: {answer:?}");
    }
    for filler in ["a", "ab", "key-", "0123456789"] {
        let answer = default(&filler.repeat(255 / filler.len()));
        assert!(matches!(answer, Err(KeyError::Predictable { .. })), "{filler}: {answer:?}");
    }
}

#[test]
fn a_date_or_a_time_does_not_make_a_key_hard_to_guess() {
    for value in [
        "order-2026-11-29-000001",
        "payment:4711:2026-11-29T10:00",
        "payment:4711:2026-11-29T10:00:00Z",
        "\"payment4711 2026-11-29 10:00:00\"",
        "invoice/2026/11/29/0815",
        "2026-11-29T19:53:00.123456Z",
        "Order_2026-11-29_19:53:00",
        "20261129195300000001",
        "20261129195300123",
        "2026112900000001",
        "order20261129195300",
        "order-20261129T195300Z-1",
        "order-20261129-195300-01",
        "refund-202611291953-17",
        "2026-11-29-2026-11-29-2026-11-29-2026-11-29",
    ] {
        let answer = default(value);
        assert!(matches!(answer, Err(KeyError::Predictable { .. })), "{value}: {answer:?}");
    }
    let answer = default(&"2026-11-29T10:00:00/".repeat(12));
    assert!(matches!(answer, Err(KeyError::Predictable { .. })), "{answer:?}");
}

#[test]
fn a_unix_time_does_not_make_a_key_hard_to_guess() {
    for value in
        ["order-1795982400", "order1795982400000", "4711-1795982400123", "1795982400-000017"]
    {
        let answer = default(value);
        assert!(matches!(answer, Err(KeyError::Predictable { .. })), "{value}: {answer:?}");
    }
}

#[test]
fn zeros_in_front_do_not_make_a_counter_hard_to_guess() {
    let counter = entropy::estimate(b"x-42", u32::MAX);
    for value in ["x-00042", "x-00000000000042"] {
        let bits = entropy::estimate(value.as_bytes(), u32::MAX);
        assert!((counter..counter + 8).contains(&bits), "{value}: {bits}, not {counter}");
    }
}

#[test]
fn what_is_random_beside_a_date_still_counts() {
    for value in [
        "2026-11-29-f81d4fae7dec11d0",
        "2026-11-29T10:00:00Z-KG5LxwFBepaKHyUD",
        "order-20261129-8e03978e-40d5-43e8-bc93-6894a57f9324",
        "20261129-qwkzjhxvpmrtnbqdlc",
        "1795982400-f81d4fae7dec11d0",
        "20261129638174629553", // a number that happens to begin with a date
    ] {
        assert_eq!(default(value), Ok(key(value)));
    }
}

#[test]
fn what_is_no_date_is_not_taken_for_one() {
    let bits = |value: &str| entropy::estimate(value.as_bytes(), u32::MAX);
    assert!(bits("2026-11-28") < 10 && bits("20261128") < 10);
    for value in
        ["2026-13-28", "2026-02-30", "2026-11-00", "1969-11-28", "2101-11-28", "2026-11.28"]
    {
        assert!(bits(value) > 20, "{value}: {}", bits(value));
    }
    for value in ["20261328", "20260230", "19691128", "a1b20261128c3"] {
        assert!(bits(value) > 20, "{value}: {}", bits(value));
    }
}

#[test]
fn the_floor_can_be_lowered() {
    assert!(read("1", &NO_FLOOR).is_ok());
    let policy = KeyPolicy { min_length: 1, min_bits: 16, ..KeyPolicy::default() };
    assert!(read("order-42", &policy).is_ok());
    assert!(read("1", &policy).is_err());
}

/// Every kind of key that clients really make, drawn 5,000 times. The draws are fixed, so that
/// the promise is the same on every run.
#[test]
fn random_keys_are_practically_never_refused() {
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..5_000 {
        let uuid_v4 = uuid::Builder::from_random_bytes(random.bytes()).into_uuid();
        let millis = 1_760_000_000_000 + random.below(1 << 36);
        let tail: [u8; 10] = std::array::from_fn(|_| random.below(256) as u8);
        let uuid_v7 = uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid();
        let ulid = format!("01K{}", random.text(23, CROCKFORD));
        for value in [
            random.text(16, b"0123456789abcdef"),
            random.text(32, b"0123456789ABCDEF"),
            random.text(20, b"0123456789"),
            random.text(22, BASE64),
            random.text(16, &BASE64[..62]),
            random.text(24, b"0123456789abcdefghijklmnopqrstuvwxyz"),
            uuid_v4.to_string(),
            uuid_v4.simple().to_string(),
            uuid_v7.to_string(),
            format!("order-{uuid_v4}"),
            ulid,
        ] {
            match default(&value) {
                Ok(_) => {}
                // Of the digits-only ones about 1 in 40 is a valid card number.
                Err(KeyError::CardNumber) if value.bytes().all(|c| c.is_ascii_digit()) => {}
                Err(error) => panic!("{value}: {error:?}"),
            }
        }
    }
}

#[test]
fn secrets_and_personal_data_are_refused() {
    use KeyError::*;
    for (value, error) in [
        ("joe@example.com", EmailAddress),
        ("order-1:joe.doe+x@mail.example.co.uk", EmailAddress),
        ("joe%40example.com", EmailAddress),
        ("4111111111111111", CardNumber),
        ("4111-1111-1111-1111", CardNumber),
        ("\"4111 1111 1111 1111\"", CardNumber),
        ("pay:5555555555554444:1", CardNumber),
        ("3782-822463-10005", CardNumber),
        ("378282246310005", CardNumber),
        ("6011111111111117-retry", CardNumber),
        ("3530111333300000", CardNumber),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", WebToken),
        ("jwt:eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", WebToken),
        ("sk_4eC39HqLyjWDarjtT1zdp7dc", Secret),
        ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", Secret),
        ("order-1-sk_live_4eC39HqLyjWDarjtT1zdp7dc", Secret),
        ("order:sk_test_4eC39HqLyjWDarjtT1zdp7dc", Secret),
        ("rk_live_4eC39HqLyjWDarjtT1zdp7dc", Secret),
        ("whsec_4eC39HqLyjWDarjtT1zdp7dc", Secret),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", Secret),
        ("github_pat_11AAAAAAA0aaaaaaaaaaaa", Secret),
        ("glpat-xxxxxxxxxxxxxxxxxxxx", Secret),
        ("xoxb-17653672481-19874698323", Secret),
        ("AKIAIOSFODNN7EXAMPLE", Secret),
        ("AIzaSyDdI0hCZtE6vySjMm-WEfRq3CPzqKqqsHI", Secret),
        ("\"-----BEGIN PRIVATE KEY-----\"", Secret),
        ("\"Bearer mF_9.B5f-4.1JqM\"", Secret),
    ] {
        assert_eq!(read(value, &NO_FLOOR), Err(error), "{value}");
    }
}

#[test]
fn what_only_resembles_secrets_and_personal_data_is_accepted() {
    for value in [
        "user@host",
        "a@b.c",
        "@example.com",
        "4111111111111112",                     // wrong check digit
        "41111111111111111111",                 // 20 digits
        "a4111111111111111",                    // part of a longer token
        "1234567812345670",                     // check digit right, nobody issues it
        "1541815603606036480",                  // a snowflake id
        "2024-4111-1111-1111-1111",             // one more group
        "41111111-1111-1111-8111-111111111111", // a UUID
        "eyJ.abc",
        "task_live_1",
        "AKIAIOSFODNN7EXAMPL",
        "AKIAIOSFODNN7EXAMPLEX",
        "sketch-1",
        "risk_1",
        "no-sk_1",
    ] {
        assert_eq!(read(value, &NO_FLOOR), Ok(key(value)), "{value}");
    }
}

#[test]
fn nothing_shows_the_key() {
    let secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
    assert_eq!(format!("{:?}", key(secret)), "Key(..)");
    for policy in [NO_FLOOR, STRICT, KeyPolicy::default()] {
        let error = read(secret, &policy).expect_err("a secret is refused");
        assert!(!format!("{error} {error:?}").contains("4eC39"));
    }
}

#[test]
fn a_key_goes_back_into_a_field_where_a_string_can_carry_it() {
    assert_eq!(key("abc").to_field().as_deref(), Some("\"abc\""));
    assert_eq!(key(r#"a"\ b"#).to_field().as_deref(), Some(r#""a\"\\ b""#));
    assert_eq!(key("caf\u{e9}").to_field(), None);
    assert_eq!(key("a\tb").to_field(), None);
}

proptest! {
    #[test]
    fn any_bytes_are_a_key_or_an_error(line: Vec<u8>, strict: bool) {
        let syntax = if strict { KeySyntax::Strict } else { KeySyntax::Lenient };
        for policy in [NO_FLOOR, KeyPolicy::default()] {
            let _ = Key::from_field([line.as_slice()], &KeyPolicy { syntax, ..policy });
        }
    }

    #[test]
    fn any_text_is_a_key_or_an_error(line in "[ -~]{0,300}") {
        let _ = default(&line);
        let _ = read(&line, &STRICT);
    }

    #[test]
    fn what_goes_into_a_field_comes_out_of_it(characters in "[ -~]{1,255}") {
        let key = key(&characters);
        let field = key.to_field().expect("printable ASCII");
        let read = field::characters(field.as_bytes(), KeySyntax::Strict);
        prop_assert_eq!(read.as_deref(), Ok(key.as_bytes()));
    }

    #[test]
    fn what_lenient_reads_bare_strict_reads_quoted(characters in "[!-~]{1,40}") {
        if let Ok(bare) = field::characters(characters.as_bytes(), KeySyntax::Lenient)
            && !characters.starts_with('"')
        {
            let quoted = format!("\"{characters}\"");
            let strict = field::characters(quoted.as_bytes(), KeySyntax::Strict);
            prop_assert_eq!(Ok(bare), strict);
        }
    }
}

/// A xorshift generator: reproducible, and random enough to draw keys from.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 8) % end
    }

    fn bytes(&mut self) -> [u8; 16] {
        std::array::from_fn(|_| self.below(256) as u8)
    }

    fn text(&mut self, length: usize, alphabet: &[u8]) -> String {
        (0..length)
            .map(|_| char::from(alphabet[self.below(alphabet.len() as u64) as usize]))
            .collect()
    }
}

#[test]
fn an_estimate_that_stops_early_judges_as_the_whole_one() {
    for value in [
        "018f3a5c-1b2d-7000-8000-000000000001",
        "8e03978e-40d5-43e8-bc93-6894a57f9324",
        "00000000-0000-0000-0000-000000000001",
        "order-2026-11-28-17",
        "aaaaaaaaaaaaaaaaaaaa",
    ] {
        let whole = entropy::estimate(value.as_bytes(), u32::MAX);
        for enough in 0..160 {
            let bits = entropy::estimate(value.as_bytes(), enough);
            assert_eq!(bits.min(enough), whole.min(enough), "{value} for {enough}");
        }
    }
}
