//! Where an operation's key comes from and what it must look like.

use hapax_core::{KeyPolicy, KeySource, Pointer};

use crate::config::{
    At, Fault, MOST_KEY_BITS,
    draft::OperationDraft,
    header,
    section::{Section, Value},
    suggest::shown,
    words,
};

pub(super) fn read(value: Value<'_>, draft: &mut OperationDraft) {
    let Some(mut key) = value.section("{ required = true }") else { return };
    let mut policy = draft.policy.key.policy;
    if let Some(from) = key.take("from") {
        let from = from.parse("a source", "header:idempotency-key", source);
        policy = from.as_ref().map_or(KeyPolicy::NO_FLOOR, |from| from.value.default_policy());
        draft.set("key.from", from, |policy, value| policy.key.from = value);
    }
    draft.policy.key.policy = policy;
    if let Some(required) = key.take("required") {
        let required = required.boolean();
        draft.set("key.required", required, |policy, value| policy.key.required = value);
    }
    if let Some(syntax) = key.take("syntax") {
        let syntax = syntax.parse("a word", "lenient", words::key_syntax);
        let syntax = syntax.filter(|syntax| fits(syntax, &draft.policy.key.from, &key));
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

/// Where a key comes from, written `header:<name>` or `body:<pointer>`.
fn source(text: &str) -> Result<KeySource, Fault> {
    if let Some(name) = text.strip_prefix("header:") {
        return header::key(name).map(KeySource::Header);
    }
    let Some(place) = text.strip_prefix("body:") else {
        return Err(Fault::new(
            format!("{} is neither a header nor a place of the body", shown(text)),
            "write from = \"header:idempotency-key\" or from = \"body:/request_id\"",
        ));
    };
    let place = Pointer::parse(place).map_err(|error| {
        Fault::new(error.to_string(), "write it as in from = \"body:/request_id\"")
    })?;
    if place.is_root() {
        return Err(Fault::new(
            "the whole body is no key",
            "name the part of it that is, as in from = \"body:/request_id\"",
        ));
    }
    Ok(KeySource::Body(place))
}

/// Whether a syntax has a meaning where the key is; reported if not.
fn fits<T>(syntax: &At<T>, from: &KeySource, key: &Section<'_>) -> bool {
    let in_body = matches!(from, KeySource::Body(_));
    if in_body {
        let fault = Fault::new("a key in the body has no syntax of a header", "remove it");
        key.report().add(&syntax.place, fault);
    }
    !in_body
}
