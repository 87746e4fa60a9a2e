//! JSON against public vectors: JSONTestSuite for what is read, RFC 8785's own for what is written.
#![expect(clippy::expect_used, reason = "vectors that cannot be read fail the test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use hapax_core::{Json, JsonFault};

#[test]
fn what_is_not_json_is_refused() {
    let files = files("json/refuse");
    assert_eq!(files.len(), 188);
    for file in files {
        assert!(Json::parse(&read(&file)).is_err(), "{}", file.display());
    }
}

#[test]
fn what_is_json_is_read_unless_a_name_is_there_twice() {
    let files = files("json/accept");
    assert_eq!(files.len(), 95);
    let mut refused = Vec::new();
    for file in files {
        if let Err(error) = Json::parse(&read(&file)) {
            assert_eq!(error.why, JsonFault::DuplicateMember, "{}", file.display());
            refused.push(name(&file));
        }
    }
    assert_eq!(refused, ["y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"]);
}

/// The one text of RFC 8785's vectors that differs is a number with more digits than a double
/// holds: we keep them, because two such numbers are two intents.
#[test]
fn canonical_texts_are_those_of_rfc_8785_but_for_digits_a_double_drops() {
    let inputs = files("jcs/input");
    assert_eq!(inputs.len(), 6);
    for input in inputs {
        let expected = read(&folder("jcs/output").join(name(&input)));
        let expected = String::from_utf8(expected).expect("UTF-8");
        let expected = match name(&input).as_str() {
            "values.json" => expected.replace("333333333.3333333", "333333333.33333329"),
            _ => expected,
        };
        let mut canonical = Vec::new();
        Json::parse(&read(&input)).expect("JSON").canonical(&mut canonical);
        assert_eq!(String::from_utf8_lossy(&canonical), expected, "{}", input.display());
    }
}

#[test]
fn canonical_texts_are_their_own_canonical_text() {
    for file in files("json/accept") {
        let text = read(&file);
        let Ok(value) = Json::parse(&text) else { continue };
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        value.canonical(&mut once);
        Json::parse(&once).expect("JSON").canonical(&mut twice);
        assert_eq!(once, twice, "{}", file.display());
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).expect("the vectors");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name().expect("a file").to_string_lossy().into_owned()
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).expect("a readable vector")
}
