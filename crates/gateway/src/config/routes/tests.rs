use proptest::prelude::*;

use super::*;

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec("a|b|", 1..4).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn patterns() -> impl Strategy<Value = RoutePattern> {
    let parts = prop::collection::vec("a|b||\\{[xyz]\\}", 1..4);
    (parts, any::<bool>()).prop_filter_map("names twice", |(mut parts, rest)| {
        if rest {
            parts.push("*".to_owned());
        }
        RoutePattern::parse(&format!("POST /{}", parts.join("/"))).ok()
    })
}

#[test]
fn one_path_has_one_spelling() {
    for (path, spelled) in [
        ("/a%2fb", "/a%2Fb"),
        ("/%61%2D%7E", "/a-~"),
        ("/%c3%a9", "/%C3%A9"),
        ("/%", "/%"),
        ("/%4", "/%4"),
        ("/%zz%41", "/%zzA"),
        ("/%é", "/%é"),
    ] {
        assert_eq!(normalised(path), spelled);
    }
}

proptest! {
    #[test]
    fn overlap_and_containment_are_what_matching_says(
        one in patterns(), other in patterns(), path in paths(),
    ) {
        let on = |pattern: &RoutePattern| pattern.pattern.matches(&path);
        if on(&one) && on(&other) {
            prop_assert!(overlap(one.segments(), other.segments()));
        }
        if contains(one.segments(), other.segments()) {
            prop_assert!(!on(&other) || on(&one));
            prop_assert!(one.is_same(&other) || other.pattern.by_specificity(&one.pattern).is_lt());
        }
    }

    #[test]
    fn what_overlaps_has_a_common_path(one in patterns(), other in patterns()) {
        // Each parameter or rest is filled with what the other pattern has there.
        let fill = |at: usize| match (one.segments().get(at), other.segments().get(at)) {
            (Some(Segment::Literal(text)), _) | (_, Some(Segment::Literal(text))) => text.to_string(),
            _ => "c".to_owned(),
        };
        let length = one.segments().len().max(other.segments().len());
        let path = format!("/{}", (0..length).map(fill).collect::<Vec<_>>().join("/"));
        let on = |pattern: &RoutePattern| pattern.pattern.matches(&path);
        prop_assert_eq!(overlap(one.segments(), other.segments()), on(&one) && on(&other));
    }
}
