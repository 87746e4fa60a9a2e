use proptest::prelude::*;

use super::*;

fn pattern(path: &str) -> RoutePattern {
    RoutePattern::parse(&format!("POST {path}")).expect(path)
}

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
        let on = |pattern: &RoutePattern| matches(&pattern.segments, &path);
        if on(&one) && on(&other) {
            prop_assert!(overlap(&one.segments, &other.segments));
        }
        if contains(&one.segments, &other.segments) {
            prop_assert!(!on(&other) || on(&one));
            prop_assert!(one.is_same(&other) || other.by_specificity(&one).is_lt());
        }
    }

    #[test]
    fn what_overlaps_has_a_common_path(one in patterns(), other in patterns()) {
        // Each parameter or rest is filled with what the other pattern has there.
        let fill = |at: usize| match (one.segments.get(at), other.segments.get(at)) {
            (Some(Segment::Literal(text)), _) | (_, Some(Segment::Literal(text))) => text.to_string(),
            _ => "c".to_owned(),
        };
        let length = one.segments.len().max(other.segments.len());
        let path = format!("/{}", (0..length).map(fill).collect::<Vec<_>>().join("/"));
        let on = |pattern: &RoutePattern| matches(&pattern.segments, &path);
        prop_assert_eq!(overlap(&one.segments, &other.segments), on(&one) && on(&other));
    }
}

#[test]
fn a_pattern_matches_whole_segments() {
    for (route, path, expected) in [
        ("/a/{x}", "/a/b", true),
        ("/a/{x}", "/a/", false),
        ("/a/{x}", "/a/b/", false),
        ("/a/*", "/a/", true),
        ("/a/*", "/a/b/c", true),
        ("/a/*", "/a", false),
        ("/*", "/", true),
        ("/*", "*", false),
    ] {
        assert_eq!(matches(&pattern(route).segments, path), expected, "{route} {path}");
    }
}

#[test]
fn f02_routes_of_one_operation_share_what_they_leave_open() {
    let routes = |texts: &[&str]| -> Vec<RoutePattern> {
        texts.iter().map(|text| RoutePattern::parse(text).expect("a route")).collect()
    };
    let open = |texts: &[&str], path: &str| open_part(&routes(texts), &Method::POST, path);
    let versions = ["POST /v1/payments", "POST /v2/payments"];
    assert_eq!(open(&versions, "/v1/payments"), open(&versions, "/v2/payments"));
    let accounts = ["POST /v1/a/{account}/p/{id}", "POST /v2/{id}/of/{account}"];
    assert_eq!(open(&accounts, "/v1/a/7/p/9"), open(&accounts, "/v2/9/of/7"));
    assert_ne!(open(&accounts, "/v1/a/7/p/9"), open(&accounts, "/v2/7/of/9"));
    // Everything under one operation, as without a file: the path tells intents apart.
    let all = ["POST /*"];
    assert_ne!(open(&all, "/a/b"), open(&all, "/a%2Fb"));
    assert_eq!(open(&all, "/%61"), open(&all, "/a"));
    assert_ne!(open(&all, "/a"), open(&all, "/a/"));
    // The most special route is the one that was taken.
    let mixed = ["POST /p/*", "POST /p/{id}"];
    assert_eq!(open(&mixed, "/p/7"), "id\07\0");
    assert_eq!(open(&mixed, "/p/7/x"), "*\07/x\0");
}
