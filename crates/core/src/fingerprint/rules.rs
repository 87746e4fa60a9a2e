//! The rules of a fingerprint: their normal form, their digest, and what makes no sense.

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{BodyForm, FingerprintRules, FingerprintVersion, form_code, media_type, push_sized};
use crate::{Json, PathPattern, Pointer};

/// What makes no sense in the rules of a fingerprint.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RulesError {
    /// Pointers for a body that is not compared as JSON.
    #[error(
        "include, exclude, defaults and unordered point into JSON; set body = \"json\" or leave \
         them out"
    )]
    NotJson,
    /// The whole document in a list of parts.
    #[error("\"\" in {list} is the whole body; name a part of it, as in \"/amount\"")]
    WholeBody {
        /// The name of the list.
        list: &'static str,
    },
    /// One place twice, or a place inside another of the same list.
    #[error("{inner} in {list} is already covered by {outer}; leave it out")]
    Covered {
        /// The name of the list.
        list: &'static str,
        /// The place that covers the other.
        outer: Pointer,
        /// The place that is covered.
        inner: Pointer,
    },
    /// A place that is included and excluded.
    #[error("{place} is included and excluded; leave it out of one of the lists")]
    IncludedAndExcluded {
        /// The included place.
        place: Pointer,
    },
    /// An exclude or a default that cannot have an effect, because it is outside of the include.
    #[error("{place} in {list} has no effect, because include does not name it; leave it out")]
    NotIncluded {
        /// The name of the list.
        list: &'static str,
        /// The place.
        place: Pointer,
    },
    /// A default that is excluded.
    #[error("the default for {place} has no effect, because exclude covers it; leave it out")]
    DefaultExcluded {
        /// The place.
        place: Pointer,
    },
    /// Two defaults for one place.
    #[error("{place} has two defaults; keep one")]
    DefaultTwice {
        /// The place.
        place: Pointer,
    },
    /// A default that RFC 8785 has no text for.
    #[error("the default for {place} is outside of the range of a double; compare as \"json\"")]
    DefaultRange {
        /// The place.
        place: Pointer,
    },
    /// A place that another array's order decides, where it does not count.
    #[error("{place} in {list} is an element of {array}, whose order does not count; leave it out")]
    Unordered {
        /// The name of the list.
        list: &'static str,
        /// The place.
        place: Pointer,
        /// The unordered array.
        array: Pointer,
    },
    /// An unordered array of which nothing is compared.
    #[error("{place} in unordered has no effect, because exclude covers it; leave it out")]
    UnorderedExcluded {
        /// The place.
        place: Pointer,
    },
    /// No name of a header.
    #[error("headers has an entry that is no header name; write it as in \"if-match\"")]
    HeaderName,
    /// Headers for requests that are not compared by them.
    #[error("body = \"none\" compares no headers; leave headers out")]
    HeadersWithNone,
}

pub(super) fn check(rules: &FingerprintRules) -> Result<(), RulesError> {
    let FingerprintRules { body, include, exclude, defaults, unordered, headers, paths: _ } = rules;
    let points =
        !(include.is_empty() && exclude.is_empty() && defaults.is_empty() && unordered.is_empty());
    if points && !matches!(body, None | Some(BodyForm::Json | BodyForm::Jcs)) {
        return Err(RulesError::NotJson);
    }
    check_places("include", include)?;
    check_places("exclude", exclude)?;
    for place in exclude {
        if let Some(included) = include.iter().find(|included| place.contains(included)) {
            return Err(RulesError::IncludedAndExcluded { place: included.clone() });
        }
        if !include.is_empty() && !include.iter().any(|included| included.contains(place)) {
            return Err(RulesError::NotIncluded { list: "exclude", place: place.clone() });
        }
    }
    check_defaults(rules)?;
    check_unordered(rules)?;
    let is_name = |name: &String| !name.is_empty() && name.bytes().all(media_type::is_token);
    if !headers.iter().all(is_name) {
        return Err(RulesError::HeaderName);
    }
    let own_headers = !headers.is_empty() && *headers != FingerprintRules::default().headers;
    if *body == Some(BodyForm::None) && own_headers {
        return Err(RulesError::HeadersWithNone);
    }
    Ok(())
}

fn check_places(list: &'static str, places: &[Pointer]) -> Result<(), RulesError> {
    for (at, inner) in places.iter().enumerate() {
        if inner.is_root() {
            return Err(RulesError::WholeBody { list });
        }
        let others = places.iter().enumerate().filter(|(other, _)| *other != at);
        if let Some((_, outer)) = others.into_iter().find(|(_, outer)| outer.contains(inner)) {
            let (outer, inner) = (outer.clone(), inner.clone());
            return Err(RulesError::Covered { list, outer, inner });
        }
    }
    Ok(())
}

fn check_defaults(rules: &FingerprintRules) -> Result<(), RulesError> {
    let mut seen: Vec<&Pointer> = Vec::new();
    for (place, value) in &rules.defaults {
        if place.is_root() {
            return Err(RulesError::WholeBody { list: "defaults" });
        }
        if seen.contains(&place) {
            return Err(RulesError::DefaultTwice { place: place.clone() });
        }
        if rules.exclude.iter().any(|excluded| excluded.contains(place)) {
            return Err(RulesError::DefaultExcluded { place: place.clone() });
        }
        let touches = |included: &Pointer| included.contains(place) || place.contains(included);
        if !rules.include.is_empty() && !rules.include.iter().any(touches) {
            return Err(RulesError::NotIncluded { list: "defaults", place: place.clone() });
        }
        if rules.body == Some(BodyForm::Jcs) && !value.clone().round_numbers() {
            return Err(RulesError::DefaultRange { place: place.clone() });
        }
        seen.push(place);
    }
    Ok(())
}

fn check_unordered(rules: &FingerprintRules) -> Result<(), RulesError> {
    let FingerprintRules { include, exclude, defaults, unordered, .. } = rules;
    for (at, array) in unordered.iter().enumerate() {
        let twice = unordered.iter().take(at).any(|other| other == array);
        if twice {
            let (outer, inner) = (array.clone(), array.clone());
            return Err(RulesError::Covered { list: "unordered", outer, inner });
        }
        if exclude.iter().any(|excluded| excluded.contains(array)) {
            return Err(RulesError::UnorderedExcluded { place: array.clone() });
        }
        let touches = |included: &Pointer| included.contains(array) || array.contains(included);
        if !include.is_empty() && !include.iter().any(touches) {
            return Err(RulesError::NotIncluded { list: "unordered", place: array.clone() });
        }
        let defaults: Vec<_> = defaults.iter().map(|(place, _)| place.clone()).collect();
        let lists = [
            ("include", include),
            ("exclude", exclude),
            ("defaults", &defaults),
            ("unordered", unordered),
        ];
        for (list, places) in lists {
            if let Some(place) = places.iter().find(|place| array.has_element(place)) {
                let (place, array) = (place.clone(), array.clone());
                return Err(RulesError::Unordered { list, place, array });
            }
        }
    }
    Ok(())
}

/// The rules with every list in its one order: lists are sets, so that two nodes which read the
/// same rules in another order agree on the version.
pub(super) fn normal_form(rules: &FingerprintRules) -> FingerprintRules {
    let mut rules = rules.clone();
    for places in [&mut rules.include, &mut rules.exclude, &mut rules.unordered] {
        places.sort_unstable();
        places.dedup();
    }
    // Of two defaults for one place the first is the one that applies.
    rules.defaults.sort_by(|(a, _), (b, _)| a.cmp(b));
    rules.defaults.dedup_by(|(a, _), (b, _)| a == b);
    for name in &mut rules.headers {
        name.make_ascii_lowercase();
    }
    rules.headers.sort_unstable();
    rules.headers.dedup();
    rules.paths.sort_unstable();
    rules.paths.dedup();
    rules
}

/// The digest of rules in their normal form.
pub(super) fn digest(rules: &FingerprintRules) -> [u8; FingerprintVersion::LENGTH] {
    let FingerprintRules { body, include, exclude, defaults, unordered, headers, paths } = rules;
    let mut text = b"hapax fingerprint rules\0".to_vec();
    text.push(form_code(*body));
    for places in [include, exclude] {
        push_list(&mut text, places.iter().map(ToString::to_string));
    }
    push_list(&mut text, defaults.iter().map(|(place, _)| place.to_string()));
    push_list(&mut text, defaults.iter().map(|(_, value)| canonical(value)));
    push_list(&mut text, headers.iter());
    if !paths.is_empty() {
        push_list(&mut text, paths.iter().map(PathPattern::as_str));
    }
    if !unordered.is_empty() {
        // No length begins so: what follows cannot be taken for paths.
        text.push(u8::MAX);
        push_list(&mut text, unordered.iter().map(ToString::to_string));
    }
    let digest = Sha256::digest(&text);
    std::array::from_fn(|at| digest.get(at).copied().unwrap_or_default())
}

fn push_list(text: &mut Vec<u8>, items: impl ExactSizeIterator<Item = impl AsRef<[u8]>>) {
    text.extend((items.len() as u64).to_be_bytes());
    for item in items {
        push_sized(item.as_ref(), text);
    }
}

fn canonical(value: &Json<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    value.canonical(&mut out);
    out
}

/// Defaults as a map from pointer to value.
pub(super) mod defaults {
    use std::fmt;

    use serde::{
        Deserializer, Serializer,
        de::{MapAccess, Visitor},
    };

    use crate::{Json, Pointer};

    pub(in super::super) fn serialize<S: Serializer>(
        defaults: &[(Pointer, Json<'static>)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(defaults.iter().map(|(place, value)| (place, value)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(Pointer, Json<'static>)>, D::Error> {
        deserializer.deserialize_map(Defaults)
    }

    struct Defaults;

    impl<'de> Visitor<'de> for Defaults {
        type Value = Vec<(Pointer, Json<'static>)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from JSON Pointers to default values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut defaults = Vec::new();
            while let Some(default) = map.next_entry()? {
                defaults.push(default);
            }
            Ok(defaults)
        }
    }
}
