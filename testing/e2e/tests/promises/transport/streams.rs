//! What streams: large uploads, events, bodies that are asked for, interim answers.

use std::thread;

use hapax_testkit::{Request, Stage, UpstreamKind, eventually, fresh_key};

use crate::SOON;

const MIB: usize = 1 << 20;

#[test]
fn a_gibibyte_goes_through_in_bounded_memory_while_others_are_served() {
    for protocol in ["auto", "h2c"] {
        let text = format!(
            "scope = {{ single_tenant = true }}\nstore = \"sqlite:{{dir}}/hapax.db\"\n\
             [[service]]\nupstream = \"{{upstream}}\"\nprotocol = \"{protocol}\"\n"
        );
        let stage = Stage::configured(UpstreamKind::Plain, &text);
        let before = stage.gateway.peak_memory();
        let mut client = stage.gateway.connect();
        let length = 1024 * MIB;
        client.write(format!(
            "PUT /files/1 HTTP/1.1\r\nHost: gateway\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        ));
        let upload = thread::spawn(move || {
            let part = vec![7; MIB];
            (0..1024).for_each(|_| client.write(&part));
            client.answer()
        });
        let payment = Request::payment(&fresh_key());
        stage.gateway.send(&payment).assert_stored(201);
        let answer = upload.join().expect("the upload");
        assert_eq!(answer.status, 201, "{answer:?}");
        let arrivals = stage.upstream.arrivals();
        let arrival = arrivals.iter().find(|arrival| arrival.method == "PUT").expect("it");
        assert_eq!((arrival.length, arrival.complete), (length as u64, true));
        let grown = stage.gateway.peak_memory() - before;
        assert!(grown < 64 * MIB, "{protocol}: it took {} MiB", grown / MIB);
    }
}

#[test]
fn events_arrive_one_by_one() {
    for protocol in ["auto", "h2c"] {
        let text = format!(
            "scope = {{ single_tenant = true }}\nstore = \"sqlite:{{dir}}/hapax.db\"\n\
             [[service]]\nupstream = \"{{upstream}}\"\nprotocol = \"{protocol}\"\n"
        );
        let stage = Stage::configured(UpstreamKind::Plain, &text);
        let mut client = stage.gateway.connect();
        client.write(Request::get("/events").act("status 200; body events").to_bytes());
        for number in 1..=3 {
            let so_far = client.read_until(&format!("data: event {number}\n"));
            // Held back, many would come together.
            let newest = format!("data: event {}\n", number + 40);
            assert!(!so_far.contains(&newest), "{so_far}");
        }
        client.hang_up();
        eventually("the service is let go", SOON, || stage.upstream.given_up() == 1);
    }
}

#[test]
fn the_body_is_asked_for_when_it_is_wanted() {
    let stage = Stage::new();
    let head = |key: &str, act: &str| {
        format!(
            "POST /payments HTTP/1.1\r\nHost: gateway\r\nExpect: 100-continue\r\n{key}\
             Content-Type: application/json\r\nContent-Length: 2\r\nX-Do: {act}\r\n\
             Connection: close\r\n\r\n"
        )
    };
    // Unkeyed: the service decides, and sees that it was asked.
    let mut client = stage.gateway.connect();
    client.write(head("", "effect"));
    client.read_until("100 Continue");
    client.write("{}");
    assert_eq!(client.answer().status, 201);
    assert_eq!(stage.upstream.only_arrival().field("expect"), "100-continue");

    // It answers without the body, and the client is never asked for it.
    let mut client = stage.gateway.connect();
    client.write(head("", "early; status 401; body text no"));
    let answered = client.read_to_end();
    assert!(answered.starts_with("HTTP/1.1 401 "), "{answered}");

    // Keyed: the gateway reads it whole before anything is claimed.
    let key = |key: &str| format!("Idempotency-Key: \"{key}\"\r\n");
    let mut client = stage.gateway.connect();
    client.write(head(&key(&fresh_key()), "effect"));
    client.read_until("100 Continue");
    client.write("{}");
    client.answer().assert_stored(201);
    assert_eq!(stage.upstream.arrivals().pop().expect("one").all("expect"), [""; 0]);

    // Refused by its head: not asked for.
    let mut client = stage.gateway.connect();
    client.write(head(&key("short"), "effect"));
    let refused = client.read_to_end();
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
}

#[test]
fn a_body_that_was_read_for_its_key_and_has_none_is_not_asked_for_again() {
    let text = "[[operation]]\nname = \"pay\"\nroutes = [\"POST /payments\"]\n\
                key = { from = \"body:/request_id\" }\n";
    let stage = Stage::operations(UpstreamKind::Plain, text);
    let mut client = stage.gateway.connect();
    client.write(
        "POST /payments HTTP/1.1\r\nHost: gateway\r\nExpect: 100-continue\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n",
    );
    client.read_until("100 Continue");
    client.write("{}");
    assert_eq!(client.answer().status, 201);
    let arrival = stage.upstream.only_arrival();
    assert_eq!((arrival.all("expect"), arrival.text.as_deref()), (vec![], Some("{}")));
}

#[test]
fn interim_answers_end_at_the_gateway_and_the_final_one_passes() {
    let stage = Stage::new();
    // The service closes behind it, and says so: a connection that looks as if it could be used again
    // may be taken for the next request before its end is noticed, which is then lost.
    let hints =
        b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
                  HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 4\r\n\r\nmade";
    let mut client = stage.gateway.connect();
    client.write(Request::get("/x").answered_raw("", hints).to_bytes());
    let answered = client.read_to_end();
    assert!(answered.starts_with("HTTP/1.1 201 "), "{answered}");
    let key = fresh_key();
    let keyed = Request::payment(&key).answered_raw("effect; ", hints);
    let first = stage.gateway.send(&keyed);
    first.assert_stored(201);
    stage.gateway.send(&keyed).assert_replays(&first);
}

#[test]
fn our_fields_end_at_the_door_in_trailers_too() {
    let stage = Stage::new();
    let mut client = stage.gateway.connect();
    client.write(
        "POST /x HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\
         Trailer: hapax-attempt, x-sum\r\nConnection: close\r\n\r\n\
         2\r\n{}\r\n0\r\nhapax-attempt: 7\r\nx-sum: 1\r\n\r\n",
    );
    assert_eq!(client.answer().status, 201);
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.trailers, [("x-sum".to_owned(), "1".to_owned())], "{arrival:?}");
}
