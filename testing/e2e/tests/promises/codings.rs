//! Content codings: how a request is packed is no part of what it asks for.

use std::io::Write;

use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sha2::{Digest, Sha256};

const PAYMENT: &str = r#"{"amount":1200,"currency":"EUR"}"#;

/// The payment in Brotli.
const BROTLI: &[u8] = &[
    0x8b, 0x0f, 0x80, 0x7b, 0x22, 0x61, 0x6d, 0x6f, 0x75, 0x6e, 0x74, 0x22, 0x3a, 0x31, 0x32, 0x30,
    0x30, 0x2c, 0x22, 0x63, 0x75, 0x72, 0x72, 0x65, 0x6e, 0x63, 0x79, 0x22, 0x3a, 0x22, 0x45, 0x55,
    0x52, 0x22, 0x7d, 0x03,
];

/// 4 MiB of one letter, in 14 bytes of Brotli.
const BOMB: &[u8] =
    &[0x9b, 0xff, 0xff, 0x3f, 0xf8, 0x25, 0xc2, 0xe2, 0xb1, 0x40, 0x20, 0xf7, 0xfe, 0x07];

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    compress_to_vec(content, CompressionLevel::Fastest)
}

fn coded(key: &str, coding: &str, body: Vec<u8>) -> Request {
    let request = Request::new("POST", "/payments").body("application/json", body);
    request.header("content-encoding", coding).key(key)
}

#[test]
fn p15_a_compressed_and_an_uncompressed_send_are_one_intent() {
    let stage = Stage::new();
    let key = fresh_key();
    let respelled = br#"{ "currency": "EUR", "amount": 1.2e3 }"#;
    let first = stage.gateway.send(&coded(&key, "gzip", gzip(PAYMENT.as_bytes())));
    first.assert_stored(201);
    let arrival = stage.upstream.only_arrival();
    let sent = gzip(PAYMENT.as_bytes());
    let digest: String = Sha256::digest(&sent).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(arrival.sha256, digest, "the service gets what was sent");
    assert_eq!(arrival.field("content-encoding"), "gzip");
    assert_eq!(arrival.field("content-length"), sent.len().to_string());

    stage.gateway.send(&Request::payment(&key)).assert_replays(&first);
    for (coding, body) in [
        ("GZip", gzip(respelled)),
        ("x-gzip", gzip(PAYMENT.as_bytes())),
        ("deflate", zlib(PAYMENT.as_bytes())),
        ("br", BROTLI.to_vec()),
        ("zstd", zstd(PAYMENT.as_bytes())),
        ("gzip, zstd", zstd(&gzip(PAYMENT.as_bytes()))),
        ("identity", PAYMENT.as_bytes().to_vec()),
    ] {
        let answer = stage.gateway.send(&coded(&key, coding, body));
        assert!(answer.is_replay(), "{coding}: {answer:?}");
        answer.assert_replays(&first);
    }
    let changed = br#"{"amount":1201,"currency":"EUR"}"#;
    for (coding, body) in [("gzip", gzip(changed)), ("zstd", zstd(changed))] {
        stage.gateway.send(&coded(&key, coding, body)).assert_problem(422, "key-reused");
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_body_that_decodes_to_more_than_the_limit_is_refused_and_nothing_arrives() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
         [limits]\nrequest_body = \"64KiB\"\ndecoded_body = \"128KiB\"\n",
    );
    let key = fresh_key();
    let letters = vec![b'a'; 128 << 10];
    let text = |length: usize| format!("\"{}\"", "x y".repeat(length / 3)).into_bytes();
    for (coding, bomb) in [
        ("gzip", gzip(&[&letters[..], b"a"].concat())),
        ("gzip", gzip(&vec![0; 64 << 20])),
        ("gzip, gzip", gzip(&gzip(&vec![0; 64 << 20]))),
        ("deflate", zlib(&vec![b'a'; 4 << 20])),
        ("br", BOMB.to_vec()),
        ("zstd", zstd(&vec![b'a'; 4 << 20])),
        ("gzip", gzip(&text(140_000))),
    ] {
        let answer = stage.gateway.send(&coded(&key, coding, bomb));
        assert_eq!(answer.problem().as_deref(), Some("body-too-large"), "{coding}: {answer:?}");
        answer.assert_problem(413, "body-too-large");
    }
    stage.upstream.assert_arrivals(0);
    assert_eq!(stage.gateway.metric("hapax_buffered_bytes", &[]), 0.0);
    // The key is still free, and as much as the limit passes.
    let fits = coded(&key, "gzip", gzip(&text(130_000)));
    let first = stage.gateway.send(&fits);
    first.assert_stored(201);
    stage.gateway.send(&fits).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_body_that_is_not_what_its_coding_says_is_refused_and_nothing_arrives() {
    let stage = Stage::new();
    let key = fresh_key();
    let whole = gzip(PAYMENT.as_bytes());
    for (what, coding, body) in [
        ("plain", "gzip", PAYMENT.as_bytes().to_vec()),
        ("cut", "gzip", whole[..whole.len() - 1].to_vec()),
        ("more behind it", "gzip", [&whole[..], b"more"].concat()),
        ("the wrong coding", "zstd", whole.clone()),
        ("the wrong order", "zstd, gzip", zstd(&whole)),
        ("too many", "gzip, gzip, gzip, gzip", gzip(&gzip(&gzip(&whole)))),
        ("no JSON in it", "gzip", gzip(b"{")),
    ] {
        let answer = stage.gateway.send(&coded(&key, coding, body));
        assert_eq!(answer.problem().as_deref(), Some("body-invalid"), "{what}: {answer:?}");
    }
    stage.upstream.assert_arrivals(0);
    stage.gateway.send(&coded(&key, "gzip", whole)).assert_stored(201);
}

#[test]
fn a_body_of_an_unknown_coding_is_compared_byte_by_byte() {
    let stage = Stage::new();
    let key = fresh_key();
    let sent = coded(&key, "own", PAYMENT.as_bytes().to_vec());
    let first = stage.gateway.send(&sent);
    first.assert_stored(201);
    stage.gateway.send(&sent).assert_replays(&first);
    let respelled = br#"{ "amount":1200,"currency":"EUR"}"#.to_vec();
    for other in [
        coded(&key, "own", respelled),
        coded(&key, "other", PAYMENT.as_bytes().to_vec()),
        coded(&key, "own, gzip", gzip(PAYMENT.as_bytes())),
        Request::payment(&key),
    ] {
        stage.gateway.send(&other).assert_problem(422, "key-reused");
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_key_is_found_in_a_compressed_body() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
         key = { from = \"body:/request_id\", required = true }\n",
    );
    let body = r#"{"request_id":"r-1","amount":1}"#;
    let request = |coding, body| {
        let request = Request::new("POST", "/payments").body("application/json", body);
        request.header("content-encoding", coding)
    };
    let first = stage.gateway.send(&request("zstd", zstd(body.as_bytes())));
    first.assert_stored(201);
    stage.gateway.send(&request("gzip", gzip(body.as_bytes()))).assert_replays(&first);
    stage.gateway.send(&Request::post("/payments", body)).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn what_is_compared_by_its_id_alone_is_not_decoded() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        "[[operation]]\nname = \"events\"\nroutes = [\"POST /payments\"]\n\
         fingerprint = { body = \"none\" }\n",
    );
    let key = fresh_key();
    let first = stage.gateway.send(&coded(&key, "br", BOMB.to_vec()));
    first.assert_stored(201);
    stage.gateway.send(&Request::payment(&key)).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}
