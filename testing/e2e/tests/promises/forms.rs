//! The forms in which bodies are compared.

use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

/// A gateway with this said of the fingerprints of payments.
fn stage(fingerprint: &str) -> Stage {
    Stage::operations(
        UpstreamKind::Plain,
        &format!(
            "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
             fingerprint = {{ {fingerprint} }}\n"
        ),
    )
}

/// Sends the first; then everything that is the same, and everything that is not.
#[track_caller]
fn assert_compares(stage: &Stage, first: Request, same: &[Request], different: &[Request]) {
    let key = fresh_key();
    let answer = stage.gateway.send(&first.key(&key));
    answer.assert_stored(201);
    for same in same {
        stage.gateway.send(&same.clone().key(&key)).assert_replays(&answer);
    }
    for different in different {
        stage.gateway.send(&different.clone().key(&key)).assert_problem(422, "key-reused");
    }
    stage.upstream.assert_arrivals(1);
}

/// An upload of a file and a field, with one thing as it is said.
fn upload(boundary: &str, change: impl Fn(String) -> String) -> Request {
    let body = "--B\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n1200\r\n\
                --B\r\nContent-Disposition: form-data; name=\"scan\"; filename=\"a.pdf\"\r\n\
                Content-Type: application/pdf\r\n\r\n%PDF-\r\n\r\n1\0\r\n--B--\r\n";
    let body = change(body.to_owned()).replace("--B", &format!("--{boundary}"));
    let media_type = format!("multipart/form-data; boundary=\"{boundary}\"");
    Request::new("POST", "/payments").body(&media_type, body)
}

#[test]
fn p15_an_upload_with_another_boundary_is_the_same_and_one_with_another_content_is_not() {
    let stage = Stage::new();
    let changed = |from: &'static str, to: &'static str| {
        upload("----WebKitFormBoundary7MA4", move |body| {
            assert!(body.contains(from), "{from}");
            body.replacen(from, to, 1)
        })
    };
    let parts_swapped = upload("x", |body| {
        let parts: Vec<&str> = body.split("--B\r\n").collect();
        format!("--B\r\n{}--B\r\n{}--B--\r\n", parts[2].trim_end_matches("--B--\r\n"), parts[1])
    });
    assert_compares(
        &stage,
        upload("first", |body| body),
        &[
            upload("second", |body| body),
            changed("Content-Type: application/pdf", "content-type:  application/pdf"),
        ],
        &[
            changed("1200", "1201"),
            changed("%PDF-\r\n", "%PDF-\n"),
            changed("name=\"amount\"", "name=\"amounts\""),
            changed("a.pdf", "b.pdf"),
            changed("application/pdf", "text/plain"),
            changed("application/pdf\r\n", "application/pdf\r\nX-Page: 2\r\n"),
            parts_swapped,
        ],
    );
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.field("content-type"), "multipart/form-data; boundary=\"first\"");
}

#[test]
fn an_upload_that_some_reader_would_divide_otherwise_is_refused_and_nothing_arrives() {
    let stage = Stage::new();
    let part = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";
    let send = |media_type: &str, body: String| {
        Request::new("POST", "/payments").body(media_type, body).key(&fresh_key())
    };
    let with = "multipart/form-data; boundary=b";
    let many = format!("--b\r\n{part}1\r\n").repeat(1025);
    for (what, request) in [
        ("no boundary", send("multipart/form-data", format!("--b\r\n{part}1\r\n--b--"))),
        ("two boundaries", send(&format!("{with}; boundary=c"), "--b--".to_owned())),
        ("no end", send(with, format!("--b\r\n{part}1\r\n"))),
        ("bare line breaks", send(with, format!("--b\n{part}1\n--b--"))),
        ("no header", send(with, "--b\r\n--b--".to_owned())),
        ("a folded line", send(with, "--b\r\na: 1\r\n 2\r\n\r\n1\r\n--b--".to_owned())),
        ("an end within", send(with, format!("--b\r\n{part}1\r\n--b--\r\n--b--"))),
        ("many parts", send(with, format!("{many}--b--"))),
        ("no multipart", send(with, "{}".to_owned())),
    ] {
        let answer = stage.gateway.send(&request);
        assert_eq!(answer.problem().as_deref(), Some("body-invalid"), "{what}: {answer:?}");
    }
    stage.upstream.assert_arrivals(0);
}

#[test]
fn multipart_can_be_compared_byte_by_byte_all_the_same() {
    let stage = stage("body = \"raw\"");
    let first = || upload("one", |body| body);
    assert_compares(&stage, first(), &[first()], &[upload("two", |body| body)]);
}

#[test]
fn under_jcs_numbers_are_doubles_and_those_that_are_none_are_refused() {
    let json = |body: &str| Request::post("/payments", body);
    let jcs = stage("body = \"jcs\"");
    assert_compares(
        &jcs,
        json(r#"{"amount":9007199254740993,"rate":0.1}"#),
        &[
            json(r#"{"rate":1e-1,"amount":9007199254740992}"#),
            json(r#"{"amount":9007199254740992.0,"rate":0.10000000000000000001}"#),
        ],
        &[json(r#"{"amount":9007199254740994,"rate":0.1}"#)],
    );
    for refused in [r#"{"a":1e309}"#, r#"{"a":1e-400}"#, r#"{"a":1,"a":1}"#, r#"["\ud800"]"#] {
        let answer = jcs.gateway.send(&json(refused).key(&fresh_key()));
        answer.assert_problem(400, "body-invalid");
    }
    jcs.upstream.assert_arrivals(1);
    assert_compares(
        &Stage::new(),
        json("[9007199254740993,1e309]"),
        &[json("[9007199254740993.0,10E308]")],
        &[json("[9007199254740992,1e309]")],
    );
}

#[test]
fn f03_a_declared_array_has_no_order_and_its_repetitions_count() {
    let json = |body: &str| Request::post("/payments", body);
    assert_compares(
        &stage("unordered = [\"/items\", \"/to/tags\"]"),
        json(r#"{"items":[{"sku":"a","n":1},{"sku":"b"},{"sku":"b"}],"to":{"tags":[1,"1"]}}"#),
        &[json(r#"{"items":[{"sku":"b"},{"n":1.0,"sku":"a"},{"sku":"b"}],"to":{"tags":["1",1]}}"#)],
        &[
            json(r#"{"items":[{"sku":"a","n":1},{"sku":"b"}],"to":{"tags":[1,"1"]}}"#),
            json(
                r#"{"items":[{"sku":"a","n":1},{"sku":"a","n":1},{"sku":"b"}],"to":{"tags":[1,"1"]}}"#,
            ),
            json(r#"{"items":[{"sku":"a","n":1},{"sku":"b"},{"sku":"b"}],"to":{"tags":[1,1]}}"#),
            json(
                r#"{"items":[{"sku":"a","n":[2,1]},{"sku":"b"},{"sku":"b"}],"to":{"tags":[1,"1"]}}"#,
            ),
        ],
    );
    // What is not declared is ordered.
    assert_compares(
        &Stage::new(),
        json(r#"{"items":[1,2]}"#),
        &[json(r#"{"items":[1.0,2]}"#)],
        &[json(r#"{"items":[2,1]}"#)],
    );
}

#[test]
fn the_charset_utf_8_says_nothing_and_another_one_is_refused_for_json() {
    let typed = |media_type: &str, body: &[u8]| {
        Request::new("POST", "/payments").body(media_type, body.to_vec())
    };
    let stage = Stage::new();
    assert_compares(
        &stage,
        typed("application/json", b"{\"a\":1}"),
        &[
            typed("application/json; charset=utf-8", b"{\"a\":1}"),
            typed("application/json;charset=\"UTF-8\"", b"{\"a\":1}"),
            typed("application/json; charset=utf8", b"{ \"a\": 1 }"),
        ],
        &[typed("application/json; v=2", b"{\"a\":1}")],
    );
    for (media_type, body) in [
        ("application/json; charset=iso-8859-1", &b"{}"[..]),
        ("application/json; charset=utf-16", b"\xff\xfe{\0}\0"),
        ("application/problem+json; charset=us-ascii", b"{}"),
        ("application/json; charset", b"{}"),
        ("application/json", b"\xef\xbb\xbf{}"),
    ] {
        let answer = stage.gateway.send(&typed(media_type, body).key(&fresh_key()));
        answer.assert_problem(400, "body-invalid");
    }
    stage.upstream.assert_arrivals(1);
    // For forms and text another charset is another intent.
    let form = "application/x-www-form-urlencoded";
    assert_compares(
        &Stage::new(),
        typed(form, b"a=1&b=2"),
        &[typed(&format!("{form}; charset=utf-8"), b"b=2&a=1")],
        &[typed(&format!("{form}; charset=iso-8859-1"), b"a=1&b=2")],
    );
    assert_compares(
        &Stage::new(),
        typed("text/plain; charset=iso-8859-1", b"\xe9"),
        &[typed("Text/Plain;charset=\"iso-8859-1\"", b"\xe9")],
        &[typed("text/plain; charset=utf-8", b"\xe9"), typed("text/plain", b"\xe9")],
    );
}

#[test]
fn every_precondition_is_part_of_the_intent_unless_others_are_named() {
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    let payment = || Request::post("/payments", "{}");
    for (name, value, other) in [
        ("if-match", "\"7\"", "\"8\""),
        ("if-none-match", "*", "\"7\""),
        ("if-modified-since", DATE, "Sun, 06 Nov 1994 08:49:38 GMT"),
        ("if-unmodified-since", DATE, "Sun, 06 Nov 1994 08:49:38 GMT"),
    ] {
        let stage = Stage::new();
        let with = |value: &str| payment().header(name, value);
        assert_compares(
            &stage,
            with(value),
            &[with(value).header("x-trace", "1")],
            &[payment(), with(other), with(value).header(name, other)],
        );
        assert_eq!(stage.upstream.only_arrival().field(name), value);
    }
    assert_compares(
        &stage("headers = [\"x-api-version\"]"),
        payment().header("x-api-version", "1").header("if-match", "\"7\""),
        &[payment().header("x-api-version", "1")],
        &[payment().header("x-api-version", "2"), payment()],
    );
}
