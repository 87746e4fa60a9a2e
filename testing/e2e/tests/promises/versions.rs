//! T12: canonicalization changes across a deployment.

use hapax_testkit::{Request, Serve, Stage, UpstreamKind, fresh_key};

const OPERATION: &str =
    "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n";

/// The same operation, compared by other rules.
const RULES: [&str; 3] = [
    "",
    "fingerprint = { exclude = [\"/client_time\"], unordered = [\"/items\"] }\n",
    "fingerprint = { body = \"jcs\", defaults = { \"/currency\" = \"EUR\" } }\n",
];

fn operation(rules: &str) -> String {
    format!("{OPERATION}{rules}")
}

/// What a release that had one algorithm stored for these requests.
const STORED_BY_ALGORITHM_1: [(&str, &str); 3] = [
    (
        "plain",
        "0168A5BB846F906811BD391CB69B5501195DA1A21C5BA98A86F709FD977BCCE84E9BEB5E88AC8EBB8CE35D20C003296D",
    ),
    (
        "coded",
        "0168A5BB846F906811BD391CB69B5501A77CB2BACBDE9078CA42FD66006F85977B2964A9C0073914DEB07983EB1D71FB",
    ),
    (
        "multipart",
        "0168A5BB846F906811BD391CB69B55017BFD7256ABF7CC31CE69D078200E2865969C3998542CCAFF386826F40EA248A4",
    ),
];

/// The payment in gzip.
const GZIP: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xab, 0x56, 0x4a, 0xcc, 0xcd, 0x2f,
    0xcd, 0x2b, 0x51, 0xb2, 0x32, 0x34, 0x32, 0x30, 0xd0, 0x51, 0x4a, 0x2e, 0x2d, 0x2a, 0x4a, 0xcd,
    0x4b, 0xae, 0x54, 0xb2, 0x52, 0x72, 0x0d, 0x0d, 0x52, 0xaa, 0x05, 0x00, 0x2e, 0x81, 0x16, 0xf4,
    0x20, 0x00, 0x00, 0x00,
];

fn request(what: &str, key: &str) -> Request {
    match what {
        "coded" => Request::new("POST", "/payments")
            .body("application/json", GZIP)
            .header("content-encoding", "gzip")
            .key(key),
        "multipart" => upload("b").key(key),
        _ => Request::payment(key),
    }
}

fn upload(boundary: &str) -> Request {
    let part = "Content-Disposition: form-data; name=\"amount\"\r\n\r\n1200";
    let media_type = format!("multipart/form-data; boundary={boundary}");
    let body = format!("--{boundary}\r\n{part}\r\n--{boundary}--\r\n");
    Request::new("POST", "/payments").body(&media_type, body)
}

/// Changes what is stored, as another release would have written it.
fn change(stage: &Stage, set: &str) {
    let database = rusqlite::Connection::open(stage.database()).expect("the database opens");
    let changed = database.execute(&format!("UPDATE hapax_record SET {set}"), ()).expect(set);
    assert_ne!(changed, 0, "{set}");
}

#[test]
fn t12_gateways_with_other_rules_on_one_store_compare_each_record_by_its_own() {
    let stage = Stage::operations(UpstreamKind::Plain, &operation(RULES[0]));
    let others = [1, 2]
        .map(|at| Serve::operations(stage.dir(), &stage.upstream, &operation(RULES[at])).start());
    let gateways = [&stage.gateway, &others[0], &others[1]];
    // Of each pair the second is the same by some of the rules only.
    let first = r#"{"client_time":1,"items":[1,2],"n":9007199254740993}"#;
    let other_time = r#"{"client_time":2,"items":[2,1],"n":9007199254740993}"#;
    let other_spelling = r#"{"client_time":1,"items":[1,2],"n":9007199254740992,"currency":"EUR"}"#;
    let changed = r#"{"client_time":1,"items":[1,3],"n":9007199254740993}"#;
    for (made_by, gateway) in gateways.iter().enumerate() {
        let at = |body: &str, key: &str| Request::post("/payments", body).key(key);
        let key = fresh_key();
        let made = gateway.send(&at(first, &key));
        made.assert_stored(201);
        for gateway in gateways {
            gateway.send(&at(first, &key)).assert_replays(&made);
            gateway.send(&at(changed, &key)).assert_problem(422, "key-reused");
            for (body, same_by) in [(other_time, 1), (other_spelling, 2)] {
                let answer = gateway.send(&at(body, &key));
                match made_by == same_by {
                    true => answer.assert_replays(&made),
                    false => answer.assert_problem(422, "key-reused"),
                };
            }
        }
    }
    stage.upstream.assert_arrivals(3);
}

#[test]
fn t12_copies_at_once_through_gateways_with_other_rules_make_one_effect() {
    let stage = Stage::operations(UpstreamKind::Plain, &operation(RULES[0]));
    let other = Serve::operations(stage.dir(), &stage.upstream, &operation(RULES[1])).start();
    let request = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&request);
    stage.upstream.arrived(1);
    let second = other.start(&request);
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    second.answer().assert_replays(&first);
    stage.upstream.assert_effects(1);
}

#[test]
fn t12_a_record_of_the_first_algorithm_is_compared_as_it_was_made() {
    for (what, fingerprint) in STORED_BY_ALGORITHM_1 {
        let mut stage = Stage::operations(UpstreamKind::Plain, OPERATION);
        let key = fresh_key();
        let sent = request(what, &key);
        let first = stage.gateway.send(&sent);
        first.assert_stored(201);
        stage.gateway.kill();
        change(&stage, &format!("fingerprint = X'{fingerprint}'"));
        stage.gateway.restart();
        stage.gateway.send(&sent).assert_replays(&first);
        let changed = Request::post("/payments", "{}").key(&key);
        stage.gateway.send(&changed).assert_problem(422, "key-reused");
        stage.upstream.assert_arrivals(1);
    }
}

#[test]
fn t12_a_record_of_the_first_algorithm_keeps_its_meaning() {
    // What is one intent by now was two: the boundary counted, and so did the coding.
    for (what, fingerprint, now_the_same) in [
        ("multipart", STORED_BY_ALGORITHM_1[2].1, upload("c")),
        ("coded", STORED_BY_ALGORITHM_1[1].1, request("plain", "")),
    ] {
        let mut stage = Stage::operations(UpstreamKind::Plain, OPERATION);
        let key = fresh_key();
        let first = stage.gateway.send(&request(what, &key));
        first.assert_stored(201);
        let other = now_the_same.key(&key);
        stage.gateway.send(&other).assert_replays(&first);
        stage.gateway.kill();
        change(&stage, &format!("fingerprint = X'{fingerprint}'"));
        stage.gateway.restart();
        stage.gateway.send(&other).assert_problem(422, "key-reused");
        stage.gateway.send(&request(what, &key)).assert_replays(&first);
        stage.upstream.assert_arrivals(1);
    }
}

#[test]
fn t12_a_version_that_is_not_known_is_503_everywhere_and_never_executed() {
    let mut stage = Stage::operations(UpstreamKind::Plain, OPERATION);
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.kill();
    // As a newer release would have written it: another algorithm, and other rules of ours.
    for unknown in ["X'03' || substr(fingerprint, 2)", "X'02FF' || substr(fingerprint, 3)"] {
        let database = rusqlite::Connection::open(stage.database()).expect("the database opens");
        let kept: Vec<u8> = database
            .query_row("SELECT fingerprint FROM hapax_record", (), |row| row.get(0))
            .expect("a record");
        assert_eq!(kept.first(), Some(&2), "the present algorithm");
        drop(database);
        change(&stage, &format!("fingerprint = CAST({unknown} AS BLOB)"));
        stage.gateway.restart();
        let twin = stage.gateway.twin();
        for gateway in [&stage.gateway, &twin] {
            for request in [payment.clone(), payment.clone().json("{}")] {
                let answer = gateway.send(&request);
                answer.assert_problem(503, "policy-unknown");
                assert!(answer.field("retry-after").is_some(), "{answer:?}");
            }
        }
        drop(twin);
        stage.gateway.kill();
        let hex: String = kept.iter().map(|byte| format!("{byte:02X}")).collect();
        change(&stage, &format!("fingerprint = X'{hex}'"));
    }
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}
