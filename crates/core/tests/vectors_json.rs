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
fn with_numbers_as_doubles_canonical_texts_are_those_of_rfc_8785() {
    for input in files("jcs/input") {
        let expected = read(&folder("jcs/output").join(name(&input)));
        let text = read(&input);
        let mut value = Json::parse(&text).expect("JSON");
        assert!(value.round_numbers(), "{}", input.display());
        let mut canonical = Vec::new();
        value.canonical(&mut canonical);
        assert_eq!(
            String::from_utf8_lossy(&canonical),
            String::from_utf8_lossy(&expected),
            "{}",
            input.display()
        );
    }
}

/// Appendix B of RFC 8785: doubles by their bits, and their texts.
#[test]
fn doubles_have_the_texts_of_rfc_8785() {
    for (bits, text) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        // All the digits that the double has: the exact value.
        let exact = format!("{:.1100}", f64::from_bits(bits));
        let mut value = Json::parse(exact.as_bytes()).expect("a number");
        assert!(value.round_numbers(), "{text}");
        let mut canonical = Vec::new();
        value.canonical(&mut canonical);
        assert_eq!(String::from_utf8_lossy(&canonical), text, "{bits:x}");
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
