//! Where an operation's key comes from and what it must look like.

use crate::config::{MOST_KEY_BITS, draft::OperationDraft, header, section::Value, words};

pub(super) fn read(value: Value<'_>, draft: &mut OperationDraft) {
    let Some(mut key) = value.section("{ required = true }") else { return };
    if let Some(from) = key.take("from") {
        let from = from.parse("a source", "header:idempotency-key", header::key_source);
        draft.set("key.from", from, |policy, value| policy.key.header = value);
    }
    if let Some(required) = key.take("required") {
        let required = required.boolean();
        draft.set("key.required", required, |policy, value| policy.key.required = value);
    }
    if let Some(syntax) = key.take("syntax") {
        let syntax = syntax.parse("a word", "lenient", words::key_syntax);
        draft.set("key.syntax", syntax, |policy, value| policy.key.policy.syntax = value);
    }
    if let Some(min_length) = key.take("min_length") {
        let min_length = min_length.whole_number(1, hapax_core::Key::MAX_LENGTH, "16");
        draft.set("key.min_length", min_length, |policy, value| {
            policy.key.policy.min_length = value;
        });
    }
    if let Some(min_bits) = key.take("min_bits") {
        let min_bits = min_bits.whole_number(0, MOST_KEY_BITS.into(), "64");
        draft.set("key.min_bits", min_bits, |policy, value| {
            policy.key.policy.min_bits = u32::try_from(value).unwrap_or(u32::MAX);
        });
    }
    key.finish();
}
