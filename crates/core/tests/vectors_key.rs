//! Keys against the public vectors of RFC 9651: Strings are keys, every other type is refused or,
//! where clients send it as a bare key, is one as it stands.
#![expect(clippy::expect_used, reason = "vectors that cannot be read fail the test")]

use std::{fs, path::Path};

use hapax_core::{FieldType, Key, KeyError, KeyPolicy, KeySyntax};
use serde::Deserialize;
use serde_json::Value;

const STRICT: KeyPolicy = KeyPolicy { syntax: KeySyntax::Strict, min_length: 1, min_bits: 0 };
const LENIENT: KeyPolicy = KeyPolicy { syntax: KeySyntax::Lenient, ..STRICT };

#[derive(Deserialize)]
struct Vector {
    name: String,
    raw: Vec<String>,
    header_type: String,
    #[serde(default)]
    expected: Value,
    #[serde(default)]
    must_fail: bool,
}

impl Vector {
    /// The bare item it stands for, if it stands for one.
    fn item(&self) -> Option<&Value> {
        if self.must_fail { None } else { self.expected.get(0) }
    }

    fn read(&self, policy: &KeyPolicy) -> Result<Key, KeyError> {
        let lines = self.raw.iter().map(String::as_bytes);
        Key::from_field(lines, policy).map(|key| key.expect("a line is a key or an error"))
    }
}

#[test]
fn strings_are_keys_under_either_syntax() {
    let mut keys = 0;
    for vector in vectors("string") {
        for policy in [STRICT, LENIENT] {
            let key = vector.read(&policy);
            let expected = match vector.item().and_then(Value::as_str) {
                // A String over two lines may be combined or refused; we refuse.
                _ if vector.raw.len() > 1 => Err(KeyError::SeveralFields),
                None => {
                    assert!(matches!(key, Err(KeyError::Malformed { .. })), "{}", vector.name);
                    continue;
                }
                Some("") => Err(KeyError::Empty),
                Some(text) if text.len() > 255 => Err(KeyError::TooLong { length: text.len() }),
                Some(text) => Key::from_bytes(text.as_bytes()),
            };
            assert_eq!(key, expected, "{}", vector.name);
            keys += usize::from(key.is_ok());
        }
    }
    assert_eq!(keys, 6);
}

#[test]
fn other_types_are_no_strings() {
    for (file, found) in [
        ("token", &[FieldType::Token][..]),
        ("number", &[FieldType::Integer, FieldType::Decimal]),
        ("boolean", &[FieldType::Boolean]),
        ("item", &[FieldType::Integer]),
    ] {
        for vector in vectors(file) {
            let refused = match vector.read(&STRICT) {
                Err(KeyError::WrongType { found: one }) => {
                    found.contains(&one) && vector.item().is_some()
                }
                Err(KeyError::Malformed { .. } | KeyError::Empty) => vector.item().is_none(),
                _ => false,
            };
            assert!(refused, "{}: {:?}", vector.name, vector.read(&STRICT));
        }
    }
}

#[test]
fn bare_tokens_and_numbers_are_keys_as_they_stand_when_lenient() {
    for vector in ["token", "number", "item"].into_iter().flat_map(vectors) {
        if vector.item().is_some() {
            let text = vector.raw.concat();
            let bare = text.trim_matches(' ').as_bytes();
            assert_eq!(vector.read(&LENIENT), Key::from_bytes(bare), "{}", vector.name);
        }
    }
    for vector in vectors("boolean") {
        if vector.item().is_some() {
            let found = FieldType::Boolean;
            assert_eq!(vector.read(&LENIENT), Err(KeyError::WrongType { found }));
        }
    }
}

fn vectors(file: &str) -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/structured-fields");
    let text = fs::read(folder.join(file).with_extension("json")).expect("the vectors");
    let vectors: Vec<Vector> = serde_json::from_slice(&text).expect("vectors");
    vectors.into_iter().filter(|vector| vector.header_type == "item").collect()
}
