use http::Request;

use super::*;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

fn page() -> HeaderValue {
    HeaderValue::from_static("https://shop.example")
}

fn preflight(origin: &'static str) -> Preflight {
    let request = Request::options("/pay")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type, Idempotency-Key");
    let (head, ()) = request.body(()).unwrap().into_parts();
    Preflight::of(&head).unwrap()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

#[test]
fn p55_a_configured_origin_may_send_a_key_and_another_may_not() {
    let configured = config::Cors {
        origins: Origins::Listed(vec![page()]),
        credentials: true,
        headers: vec![HeaderName::from_static("authorization")],
        ..config::Cors::default()
    };
    let cors = Cors::new(Some(configured), None, None);
    let response = cors.preflight(&preflight("https://shop.example"), Some(&KEY)).unwrap();
    let headers = response.headers();
    assert_eq!(response.status(), 204);
    assert_eq!(text(headers, "access-control-allow-origin"), ["https://shop.example"]);
    assert_eq!(text(headers, "access-control-allow-methods"), ["POST"]);
    assert_eq!(
        text(headers, "access-control-allow-headers"),
        ["idempotency-key, content-type, prefer, authorization"]
    );
    assert_eq!(text(headers, "access-control-max-age"), ["600"]);
    let refused = cors.preflight(&preflight("https://evil.example"), Some(&KEY)).unwrap();
    assert!(!refused.headers().contains_key("access-control-allow-origin"));
}

#[test]
fn p55_a_configured_origin_reads_every_answer_and_another_none() {
    let configured =
        config::Cors { origins: Origins::Listed(vec![page()]), ..config::Cors::default() };
    let cors = Cors::new(Some(configured), None, None);
    let answer = |origin: &HeaderValue| {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        cors.answer(Some(origin), "pay", AnswerOf::Service(None), &mut headers);
        headers
    };
    let headers = answer(&page());
    assert_eq!(text(&headers, "access-control-allow-origin"), ["https://shop.example"]);
    assert_eq!(text(&headers, "access-control-expose-headers"), ["idempotent-replayed"]);
    assert_eq!(text(&headers, "vary"), ["origin"]);
    let headers = answer(&HeaderValue::from_static("https://evil.example"));
    assert!(!headers.contains_key("access-control-allow-origin"));
}

#[test]
fn p55_what_the_service_grants_an_origin_our_own_answers_grant_it_too() {
    let cors = Cors::new(None, None, None);
    assert!(cors.preflight(&preflight("https://shop.example"), Some(&KEY)).is_none());
    let ours = |origin: &HeaderValue, operation: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        cors.answer(Some(origin), operation, AnswerOf::Ours(None), &mut headers);
        headers
    };
    assert!(!ours(&page(), "pay").contains_key("access-control-allow-origin"));

    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page());
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("content-type"));
    cors.complete_preflight(&preflight("https://shop.example"), "pay", Some(&KEY), &mut headers);
    assert_eq!(text(&headers, "access-control-allow-headers"), ["content-type", "idempotency-key"]);
    let headers = ours(&page(), "pay");
    assert_eq!(text(&headers, "access-control-allow-origin"), ["https://shop.example"]);
    assert_eq!(text(&headers, "access-control-expose-headers"), ["retry-after"]);
    assert!(!ours(&page(), "refund").contains_key("access-control-allow-origin"));
    let other = HeaderValue::from_static("https://evil.example");
    assert!(!ours(&other, "pay").contains_key("access-control-allow-origin"));
}

#[test]
fn a_service_that_refuses_a_preflight_is_not_overruled() {
    let cors = Cors::new(None, None, None);
    let mut headers = HeaderMap::new();
    cors.complete_preflight(&preflight("https://shop.example"), "pay", Some(&KEY), &mut headers);
    assert!(headers.is_empty());
}

fn granting(origin: &HeaderValue) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers
}

/// Whether an answer of ours may be read.
fn is_read(cors: &Cors, scope: Option<&Scope>) -> bool {
    let mut headers = HeaderMap::new();
    cors.answer(Some(&page()), "pay", AnswerOf::Ours(scope), &mut headers);
    headers.contains_key("access-control-allow-origin")
}

#[test]
fn p55_a_replay_is_read_only_by_those_who_could_read_the_answer() {
    let cors = Cors::new(None, None, None);
    let [anna, ben] = ["anna", "ben"].map(|name| Scope::principal(name.as_bytes()).unwrap());
    cors.complete_preflight(
        &preflight("https://shop.example"),
        "pay",
        None,
        &mut granting(&page()),
    );
    assert!(is_read(&cors, Some(&anna)) && is_read(&cors, Some(&ben)), "nothing else was said yet");

    let live = |scope, mut headers| {
        cors.answer(Some(&page()), "pay", AnswerOf::Service(Some(scope)), &mut headers);
    };
    live(&anna, granting(&page()));
    live(&ben, HeaderMap::new());
    assert!(is_read(&cors, Some(&anna)) && !is_read(&cors, Some(&ben)));
    live(&anna, HeaderMap::new());
    assert!(!is_read(&cors, Some(&anna)), "it was taken back");

    let refused = &mut HeaderMap::new();
    cors.complete_preflight(&preflight("https://shop.example"), "pay", None, refused);
    assert!(!is_read(&cors, None));
}

#[test]
fn strangers_that_ask_for_many_origins_do_not_keep_others_from_reading() {
    let cors = Cors::new(None, None, None);
    let anna = Scope::principal(b"anna").unwrap();
    cors.answer(Some(&page()), "pay", AnswerOf::Service(Some(&anna)), &mut granting(&page()));
    for number in 0..2_000 {
        let origin = HeaderValue::try_from(format!("https://{number}.example")).unwrap();
        let asks = Preflight { origin: origin.clone(), ..preflight("https://shop.example") };
        cors.complete_preflight(&asks, "pay", None, &mut granting(&origin));
    }
    assert!(is_read(&cors, Some(&anna)));
    cors.complete_preflight(
        &preflight("https://shop.example"),
        "pay",
        None,
        &mut granting(&page()),
    );
    assert!(is_read(&cors, None));
}

#[test]
fn a_page_may_read_the_requests_id() {
    let id = HeaderName::from_static("x-request-id");
    let configured = config::Cors { origins: Origins::Every, ..config::Cors::default() };
    let cors = Cors::new(Some(configured), Some(id), None);
    let mut headers = HeaderMap::new();
    cors.answer(Some(&page()), "pay", AnswerOf::Ours(None), &mut headers);
    assert_eq!(text(&headers, "access-control-expose-headers"), ["x-request-id"]);
    assert_eq!(text(&headers, "access-control-allow-origin"), ["*"]);
}
