use proptest::prelude::*;

use super::*;

fn form(boundary: &str, body: &str) -> Result<Vec<u8>, MultipartFault> {
    let mut out = Vec::new();
    canonical(body.as_bytes(), Some(boundary.as_bytes()), &mut out).map(|()| out)
}

fn fine(boundary: &str, body: &str) -> Vec<u8> {
    form(boundary, body).unwrap_or_else(|error| panic!("{body:?}: {error}"))
}

/// A form of fields, each with its content.
fn fields(boundary: &str, fields: &[(&str, &str)]) -> String {
    let part = |(name, content): &(&str, &str)| {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n"
        )
    };
    fields.iter().map(part).collect::<String>() + &format!("--{boundary}--\r\n")
}

#[test]
fn another_boundary_is_the_same_form() {
    let amount = [("amount", "12"), ("note", "a\r\nb\r\n\r\nc--x")];
    let expected = fine("----WebKit7f", &fields("----WebKit7f", &amount));
    for boundary in ["x", "b", "'()+_,-./:=?", "a b", &"y".repeat(70)] {
        assert_eq!(fine(boundary, &fields(boundary, &amount)), expected, "{boundary}");
    }
    let padded = fields("q", &amount).replace("--q\r\n", "--q \t\r\n");
    assert_eq!(fine("q", &padded), expected);
    let unended = fields("x", &amount);
    assert_eq!(fine("x", unended.trim_end()), expected);
    let first = format!("\r\n{}", fields("x", &amount));
    assert_eq!(fine("x", &first), expected);
}

#[test]
fn the_fields_of_a_part_have_no_order_and_their_names_no_case() {
    let part = |head: &str| format!("--b\r\n{head}\r\n\r\nx\r\n--b--");
    let one = "Content-Disposition: form-data; name=\"f\"\r\nContent-Type: text/plain";
    let expected = fine("b", &part(one));
    for same in [
        "Content-Type: text/plain\r\nContent-Disposition: form-data; name=\"f\"",
        "content-disposition:form-data; name=\"f\" \r\nCONTENT-TYPE:  text/plain",
    ] {
        assert_eq!(fine("b", &part(same)), expected, "{same}");
    }
    assert_ne!(fine("b", &part("a: 1\r\na: 2")), fine("b", &part("a: 2\r\na: 1")));
}

#[test]
fn different_forms_stay_different() {
    let part = |head: &str, content: &str| format!("--b\r\n{head}\r\n\r\n{content}\r\n--b--");
    const DISPOSITION: &str = "Content-Disposition: form-data; name=\"f\"";
    let head = |more: &str| format!("{DISPOSITION}{more}");
    let forms = [
        "--b--".to_owned(),
        "--b\r\n\r\n\r\n--b--".to_owned(),
        "--b\r\n\r\nx\r\n--b--".to_owned(),
        fields("b", &[("a", "1")]),
        fields("b", &[("a", "2")]),
        fields("b", &[("b", "1")]),
        fields("b", &[("A", "1")]),
        fields("b", &[("a", "")]),
        fields("b", &[("a", "1"), ("a", "1")]),
        fields("b", &[("a", "1"), ("b", "2")]),
        fields("b", &[("b", "2"), ("a", "1")]),
        fields("b", &[("a", "1\r\n")]),
        fields("b", &[("a", "1\n")]),
        part(DISPOSITION, "x"),
        part(&head("; filename=\"x\""), "x"),
        part(&head("; filename=\"y\""), "x"),
        part(&head("\r\nContent-Type: text/plain"), "x"),
        part(&head("\r\nContent-Type: text/html"), "x"),
        part(&head("\r\nContent-Transfer-Encoding: base64"), "x"),
        part(&head("\r\nX-Other: 1"), "x"),
        format!("before\r\n{}", part(DISPOSITION, "x")),
        format!("{}\r\nbehind", part(DISPOSITION, "x")),
    ];
    for (at, a) in forms.iter().enumerate() {
        for b in forms.iter().skip(at + 1) {
            assert_ne!(fine("b", a), fine("b", b), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn what_a_reader_may_divide_in_another_way_is_refused() {
    use MultipartFault::*;
    let many = fields("b", &vec![("a", "1"); 1025]);
    let field_lines = "a: 1\r\n".repeat(33);
    for (body, fault) in [
        ("", NotClosed),
        ("no boundary", NotClosed),
        ("--b\r\n\r\nx", NotClosed),
        ("--b\r\n\r\nx\r\n--b\r\n", NotClosed),
        ("--b--x", Unclear),
        ("--bc\r\n\r\nx\r\n--b--", Unclear),
        ("--b\r\n\r\nx\n--b--", Unclear),
        ("--b\r\n\r\nx\r--b--", Unclear),
        ("--b\n\nx\r\n--b--", Unclear),
        ("--b\r\n\r\n--bx\r\n--b--", Unclear),
        ("--b--\r\n--b--", Unclear),
        ("--b--\r\nbehind\r\n--b\r\n\r\nx\r\n--b--", Unclear),
        ("--b\r\n--b--", BadHeader),
        ("--b\r\na: 1\r\n--b--", BadHeader),
        ("--b\r\na: 1\r\n\r\n--b--", BadHeader),
        ("--b\r\nno colon\r\n\r\nx\r\n--b--", BadHeader),
        ("--b\r\n: 1\r\n\r\nx\r\n--b--", BadHeader),
        ("--b\r\na : 1\r\n\r\nx\r\n--b--", BadHeader),
        ("--b\r\na: 1\r\n folded\r\n\r\nx\r\n--b--", BadHeader),
        ("--b\r\na: 1\nb: 2\r\n\r\nx\r\n--b--", BadHeader),
        ("--b\r\na: \0\r\n\r\nx\r\n--b--", BadHeader),
        (&many, TooManyParts),
        (&format!("--b\r\n{field_lines}\r\nx\r\n--b--"), TooManyFields),
    ] {
        assert_eq!(form("b", body), Err(fault), "{body:?}");
    }
    for bad in ["", " ", "a ", "a\"", "a\r", &"y".repeat(71)] {
        assert_eq!(form(bad, &fields(bad, &[])), Err(BadBoundary), "{bad:?}");
    }
    assert_eq!(canonical(b"--b--", None, &mut Vec::new()), Err(NoBoundary));
}

#[test]
fn the_boundary_within_a_line_is_content() {
    let content = "a--b--b\r\n-b --b";
    let expected = fine("other", &fields("other", &[("a", content)]));
    assert_eq!(fine("b", &fields("b", &[("a", content)])), expected);
}

#[test]
fn a_part_is_found_by_its_name() {
    let body = fields("b", &[("a", "1"), ("c", "3"), ("a", "2")]);
    let found = |name| values(body.as_bytes(), Some(b"b"), name);
    assert_eq!(found("a"), Ok(vec![&b"1"[..], b"2"]));
    assert_eq!(found("c"), Ok(vec![&b"3"[..]]));
    assert_eq!(found("A"), Ok(vec![]));
}

#[test]
fn a_part_whose_name_not_everybody_reads_the_same_is_never_another_part() {
    let found = |disposition: &str| {
        let body = format!("--b\r\n{disposition}\r\n\r\nx\r\n--b--");
        values(body.as_bytes(), Some(b"b"), "id").map(|values| values.len())
    };
    for (one, count) in [
        ("Content-Disposition: form-data; name=\"id\"", 1),
        ("Content-Disposition: form-data; NAME=id; filename=\"a b.txt\"", 1),
        ("Content-Disposition: form-data; name=\"id\"; filename*=utf-8''a.txt", 1),
        ("Content-Disposition: form-data; name=\"other\"", 0),
        ("Content-Disposition: form-data", 0),
        ("Content-Disposition: form-data; nam=id; names=id", 0),
        ("Content-Type: text/plain; name=\"id\"", 0),
    ] {
        assert_eq!(found(one), Ok(count), "{one}");
    }
    for unclear in [
        "form-data; name*=utf-8''id",
        "form-data; name*0=i; name*1=d",
        "form-data; name=\"other\"; name*=utf-8''id",
        "form-data; name=\"id\"; filename=a b.txt",
        "form-data; name=id; name=id",
        "form-data; name=other; name=id",
        "form-data; name = \"id\"",
        "form-data; name=\"id",
        "form-data; name=\"=?utf-8?q?id?=\"",
        "form-data name=\"id\"",
        "; name=\"id\"",
        "form-data; name=\"id\"\r\nContent-Disposition: form-data; name=\"a\"",
    ] {
        let field = format!("Content-Disposition: {unclear}");
        assert_eq!(found(&field), Err(MultipartFault::UnclearName), "{unclear}");
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_form_or_are_refused(body: Vec<u8>, text in "(--b|\r\n|--|\n|a: |x){0,12}") {
        let _ = canonical(&body, Some(b"b"), &mut Vec::new());
        let _ = canonical(text.as_bytes(), Some(b"b"), &mut Vec::new());
    }

    /// Forms are the same exactly if their parts are.
    #[test]
    fn forms_differ_exactly_as_their_parts_do(
        a in proptest::collection::vec(("[a-c]{1,2}", "[x\r\n-]{0,3}"), 0..3),
        b in proptest::collection::vec(("[a-c]{1,2}", "[x\r\n-]{0,3}"), 0..3),
    ) {
        let of = |parts: &[(String, String)], boundary: &str| {
            let parts: Vec<_> = parts.iter().map(|(n, c)| (n.as_str(), c.as_str())).collect();
            fine(boundary, &fields(boundary, &parts))
        };
        prop_assert_eq!(of(&a, "boundary1") == of(&b, "boundary2"), a == b);
    }

    /// What is accepted divides into the parts that it was made of, whatever they hold.
    #[test]
    fn an_accepted_body_has_the_parts_it_was_made_of(
        contents in proptest::collection::vec("(--b|b|\r\n|--|-|x){0,6}", 0..3),
    ) {
        // A part that holds the boundary is two, to every reader.
        prop_assume!(!contents.iter().any(|part| format!("\r\n{part}").contains("\r\n--b")));
        let parts: Vec<_> = contents.iter().map(|content| ("a", content.as_str())).collect();
        let body = fields("b", &parts);
        if let Ok(read) = values(body.as_bytes(), Some(b"b"), "a") {
            let expected: Vec<_> = contents.iter().map(String::as_bytes).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
