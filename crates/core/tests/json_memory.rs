//! What a JSON text may cost in memory while it is read: it comes from anybody.

use hapax_core::Json;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The most bytes that are allocated for each byte of text: a value of two bytes takes 24 times
/// that, and its list is copied while it grows.
const MOST: usize = 80;

#[test]
fn p42_no_text_costs_many_times_its_length() {
    for item in ["{}", "[]", "1", "\"\"", "{\"a\":{}}", "{\"\":0}", "[[]]", "{\"a\":[{}]}"] {
        let text = format!("[{}]", vec![item; (1 << 20) / (item.len() + 1)].join(","));
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let value = Json::parse(text.as_bytes()).expect("JSON");
        let cost = (MEMORY.peak_usage() - before) / text.len();
        drop(value);
        assert!(cost <= MOST, "{item}: {cost} times its length");
    }
}
