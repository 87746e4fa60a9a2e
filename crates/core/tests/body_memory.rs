//! What a body may cost in memory while it is read: it comes from anybody.
#![expect(clippy::expect_used, reason = "what is written here is JSON")]

use hapax_core::{BodyForm, FingerprintRules, IntentParts, Json};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most bytes that are allocated for each byte of text: a value of two bytes takes 24 times
/// that, and is on the list of its array too until that has a list of its own.
const MOST: usize = 32;

/// The most that is said of any text.
const MOST_SAID: usize = 36;

/// What is short and takes much, as the element of an array.
const ITEMS: [&str; 16] = [
    "{}",
    "[]",
    "1",
    "\"\"",
    "{\"a\":{}}",
    "{\"\":0}",
    "[[]]",
    "[0]",
    "{\"a\":[{}]}",
    "{\"a\":[0]}",
    "1.0",
    "1e20",
    "0.1e7",
    "\"\\n\"",
    "true",
    "{\"\\n\":1e9}",
];

/// The most that is allocated at once beside what was there.
fn peak(act: impl FnOnce()) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    act();
    MEMORY.peak_usage() - before
}

fn array(item: &str, length: usize) -> String {
    format!("[{}]", vec![item; length / (item.len() + 1)].join(","))
}

/// Texts that are known to be hard, and prefixes of them that end in a fault.
fn texts(length: usize) -> Vec<String> {
    let mut texts: Vec<_> = ITEMS.iter().map(|item| array(item, length)).collect();
    texts.push(format!("{{\"a\":{},\"b\":{}}}", array("1", length / 2), array("1", length / 2)));
    let members: Vec<_> = (0..length / 10).map(|at| format!("\"{at:x}\":0")).collect();
    texts.push(format!("{{{}}}", members.join(",")));
    texts.push(format!("[{{{}}}]", members.join(",")));
    texts.push(format!("{{{}", "\"\":0,".repeat(length / 5)));
    texts.push(format!("\"{}\"", "\\n".repeat(length / 2)));
    texts.push(format!("[{}.5]", "1".repeat(length)));
    texts.push(format!("{}::::,,,,", array("{\"\":0}", length)));
    texts.push(format!("[\"{}", array("1", length)));
    texts
}

fn no_text_costs_many_times_its_length() {
    for item in ITEMS {
        let text = array(item, 1 << 20);
        let cost = peak(|| drop(Json::parse(text.as_bytes()).expect("JSON"))) / text.len();
        assert!(cost <= MOST, "{item}: {cost} times its length");
        let said = Json::parsing_cost(text.as_bytes()) / text.len();
        assert!((cost..=MOST_SAID).contains(&said), "{item}: said to be {said} times its length");
    }
}

fn no_reading_takes_more_than_it_was_said_to() {
    let rules = |text: &str| serde_json::from_str::<FingerprintRules>(text).expect("rules");
    let all = [
        rules("{\"body\":\"json\"}"),
        rules("{\"body\":\"jcs\"}"),
        rules("{\"body\":\"json\",\"unordered\":[\"\"]}"),
        rules("{\"body\":\"json\",\"defaults\":{\"/x\":1}}"),
    ];
    for length in [0, 40, 1000, 4000, 5000, 70_000] {
        for text in texts(length) {
            for rules in &all {
                holds(rules, "application/json", &text);
            }
        }
        for field in ["a", "a=", "%", "%%", "a=;", "ab=cd", "%3b%"] {
            let form = vec![field; length / (field.len() + 1)].join("&");
            holds(&rules("{\"body\":\"form\"}"), "application/x-www-form-urlencoded", &form);
        }
        for part in ["a:\r\n\r\n", "\r\n", "A:b\r\nC:d\r\nE:f\r\n\r\nx"] {
            let parts = (length / (part.len() + 7)).min(1024);
            let body = format!("--b\r\n{part}\r\n").repeat(parts) + "--b--";
            holds(&rules("{\"body\":\"multipart\"}"), "multipart/form-data; boundary=b", &body);
        }
    }
}

fn holds(rules: &FingerprintRules, media_type: &str, body: &str) {
    let intent = IntentParts {
        operation: "pay",
        method: "POST",
        path: "/pay",
        query: None,
        media_type: Some(media_type.as_bytes()),
        content_encoding: None,
        headers: &[],
        body: body.as_bytes(),
        decoded: None,
    };
    let fingerprinter = rules.prepare();
    let said = fingerprinter.cost(&intent);
    let taken = peak(|| {
        let _ = fingerprinter.fingerprint(&intent);
    });
    // What an intent without a body takes.
    let more = 2048;
    let begin: String = body.chars().take(20).collect();
    let (length, form) = (body.len(), rules.body);
    assert!(taken <= said + more, "{form:?} {begin} {length}: {taken}, said to be {said}");
}

#[test]
fn p42_no_text_costs_many_times_its_length() {
    // One after the other: the peak is that of the process.
    no_text_costs_many_times_its_length();
    no_reading_takes_more_than_it_was_said_to();
    assert_eq!(BodyForm::Raw.reading_cost(b"{\"a\":1}"), 0);
}
