use std::io::Write;

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use http::HeaderValue;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

const PAYMENT: &[u8] = br#"{"amount":1200,"currency":"EUR"}"#;

/// The payment as another encoder has it.
const BROTLI: &str = "8b0f807b22616d6f756e74223a313230302c2263757272656e6379223a22455552227d03";

/// 4 MiB of one letter.
const BROTLI_BOMB: &str = "9bffff3ff825c2e2b14020f7fe07";

const LIMITS: ReadLimits =
    ReadLimits { max_bytes: 1 << 20, max_decoded: 1 << 20, within: Duration::from_secs(20) };

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    compress_to_vec(content, CompressionLevel::Fastest)
}

async fn decode(coding: &str, sent: &[u8]) -> Result<Content, DecodeError> {
    within(coding, sent, LIMITS, &BufferBudget::new(1 << 30)).await
}

async fn within(
    coding: &str,
    sent: &[u8],
    limits: ReadLimits,
    budget: &BufferBudget,
) -> Result<Content, DecodeError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_str(coding).unwrap());
    content(&headers, &Bytes::copy_from_slice(sent), limits, budget).await
}

async fn decoded(coding: &str, sent: &[u8]) -> Bytes {
    let content = decode(coding, sent).await.unwrap_or_else(|error| panic!("{coding}: {error}"));
    let sent = Bytes::copy_from_slice(sent);
    content.of(&sent).unwrap_or_else(|| panic!("{coding} is not known")).clone()
}

#[tokio::test]
async fn every_coding_gives_what_it_holds() {
    let empty_frame = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    for (coding, sent) in [
        ("gzip", gzip(PAYMENT)),
        ("X-Gzip", gzip(PAYMENT)),
        ("gzip", [gzip(&PAYMENT[..9]), gzip(&PAYMENT[9..])].concat()),
        ("deflate", zlib(PAYMENT)),
        ("deflate", raw_deflate(PAYMENT)),
        ("br", bytes(BROTLI)),
        ("zstd", zstd(PAYMENT)),
        ("zstd", [empty_frame, zstd(&PAYMENT[..9]), zstd(&PAYMENT[9..])].concat()),
        ("identity", PAYMENT.to_vec()),
        ("gzip, identity, zstd", zstd(&gzip(PAYMENT))),
        ("zstd,gzip", gzip(&zstd(PAYMENT))),
        ("deflate, gzip, zstd", zstd(&gzip(&zlib(PAYMENT)))),
    ] {
        assert_eq!(decoded(coding, &sent).await, PAYMENT, "{coding}");
    }
    for coding in ["gzip", "zstd", "own", ""] {
        assert_eq!(decoded(coding, b"").await, "", "an empty body is one: {coding}");
    }
}

#[tokio::test]
async fn of_a_coding_that_is_not_known_nothing_is_said() {
    for coding in ["own", "gzip, own", "compress", "gzip;q=1"] {
        assert!(
            decode(coding, PAYMENT).await.is_ok_and(|content| content.of(&Bytes::new()).is_none())
        );
    }
}

#[tokio::test]
async fn a_body_that_is_not_its_coding_to_its_last_byte_is_refused() {
    for (coding, sent) in [
        ("gzip", gzip(PAYMENT)),
        ("deflate", zlib(PAYMENT)),
        ("deflate", raw_deflate(PAYMENT)),
        ("br", bytes(BROTLI)),
        ("zstd", zstd(PAYMENT)),
    ] {
        let malformed = async |sent: &[u8]| {
            let decoded =
                decode(coding, sent).await.map(|content| content.of(&Bytes::new()).cloned());
            assert_eq!(decoded, Err(DecodeError::Malformed), "{coding} {sent:02x?}");
        };
        for length in 1..sent.len() {
            malformed(&sent[..length]).await;
        }
        malformed(&[&sent[..], b"x"].concat()).await;
        malformed(PAYMENT).await;
    }
    let many = decode("gzip, gzip, gzip, gzip", PAYMENT).await.map(|_| ());
    assert_eq!(many, Err(DecodeError::TooMany));
}

#[tokio::test]
async fn what_grows_past_the_limit_or_out_of_proportion_is_not_decoded() {
    let letters = vec![b'a'; 4 << 20];
    for (coding, bomb) in [
        ("gzip", gzip(&letters)),
        ("deflate", zlib(&letters)),
        ("br", bytes(BROTLI_BOMB)),
        ("zstd", zstd(&letters)),
    ] {
        let budget = BufferBudget::new(1 << 30);
        let error = within(coding, &bomb, LIMITS, &budget).await.map(|_| ()).unwrap_err();
        let expected = [DecodeError::TooLarge { limit: 1 << 20 }, DecodeError::TooDense];
        assert!(expected.contains(&error), "{coding}: {error:?}");
        assert_eq!(error.problem().kind, ProblemKind::BodyTooLarge);
        assert_eq!(budget.used(), 0, "{coding}");
    }
    let (sent, limits) = (bytes(BROTLI_BOMB), ReadLimits { max_decoded: 1 << 30, ..LIMITS });
    let dense = within("br", &sent, limits, &BufferBudget::new(1 << 30)).await.map(|_| ());
    assert_eq!(dense, Err(DecodeError::TooDense));
    // In between, where each coding alone would do.
    let within_proportion = [&zstd(&letters)[..], &incompressible(8 << 10)].concat();
    let twice = decode("zstd, gzip", &gzip(&within_proportion)).await.map(|_| ());
    assert_eq!(twice, Err(DecodeError::TooLarge { limit: 1 << 20 }));
}

/// A skippable frame of `zstd` that no coding makes smaller.
fn incompressible(length: u32) -> Vec<u8> {
    let mut state = 1_u32;
    let content = (0..length).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    [0x50, 0x2a, 0x4d, 0x18].into_iter().chain(length.to_le_bytes()).chain(content).collect()
}

#[tokio::test]
async fn p42_the_proportion_is_to_what_was_sent_over_all_codings() {
    let content = b"{\"\":0},".repeat(1 << 17);
    let once = gzip(&content);
    assert_eq!(decoded("gzip", &once).await, content, "one coding alone is in proportion");
    let twice = gzip(&once);
    assert!(once.len() < 1000 * twice.len() && content.len() > 1000 * twice.len());
    for (coding, sent) in [("gzip, gzip", twice.clone()), ("gzip, gzip, zstd", zstd(&twice))] {
        let dense = decode(coding, &sent).await.map(|_| ());
        assert_eq!(dense, Err(DecodeError::TooDense), "{coding}");
    }
}

#[tokio::test]
async fn exactly_the_limit_is_decoded_and_counts_while_it_is_kept() {
    let sent = gzip(PAYMENT);
    let limits = |max_decoded| ReadLimits { max_decoded, ..LIMITS };
    let budget = BufferBudget::new(PAYMENT.len());
    let content = within("gzip", &sent, limits(PAYMENT.len()), &budget).await.unwrap();
    assert_eq!(budget.used(), PAYMENT.len());
    let second = within("gzip", &sent, limits(PAYMENT.len()), &budget).await.map(|_| ());
    assert_eq!(second, Err(DecodeError::NoRoom { budget: PAYMENT.len() }));
    drop(content);
    assert_eq!(budget.used(), 0);
    let less = within("gzip", &sent, limits(PAYMENT.len() - 1), &budget).await.map(|_| ());
    assert_eq!(less, Err(DecodeError::TooLarge { limit: PAYMENT.len() - 1 }));
}

#[tokio::test]
async fn decoding_gives_way_to_others_and_ends_in_time() {
    let limits = ReadLimits { within: Duration::ZERO, max_decoded: 8 << 20, ..LIMITS };
    let content: Vec<u8> = (0..1 << 20).map(|at: u32| (at ^ (at >> 7)).to_le_bytes()[0]).collect();
    let budget = BufferBudget::new(1 << 30);
    let slow = within("gzip", &gzip(&content), limits, &budget).await.map(|_| ());
    assert_eq!(slow, Err(DecodeError::TooSlow { within: Duration::ZERO }));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_frame_that_asks_for_too_much_memory_is_refused() {
    // A zstd frame with a window of 2^27 bytes and one empty last block.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x01, 0x00, 0x00];
    let mut decoder = Decoder::new(Coding::Zstd, &frame);
    assert_eq!(decoder.read(&mut [0; 64]), None);
    // The same with one of 2^20.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50, 0x01, 0x00, 0x00];
    let mut decoder = Decoder::new(Coding::Zstd, &frame);
    assert_eq!(decoder.read(&mut [0; 64]), Some(0));
}

proptest! {
    /// Whatever is sent, decoding ends, within its bounds.
    #[test]
    fn any_bytes_decode_or_are_refused(
        coding in 0_usize..4,
        sent: Vec<u8>,
        content in proptest::collection::vec(any::<u8>(), 0..200),
        at: usize,
        flip: u8,
    ) {
        const CODINGS: [Coding; 4] =
            [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];
        let mut damaged = match CODINGS[coding] {
            Coding::Gzip => gzip(&content),
            Coding::Deflate => zlib(&content),
            Coding::Brotli => bytes(BROTLI),
            Coding::Zstd => zstd(&content),
        };
        let place = at % damaged.len();
        damaged[place] ^= flip;
        for sent in [&sent, &damaged] {
            let mut decoder = Decoder::new(CODINGS[coding], sent);
            let mut piece = [0; 512];
            let mut total = 0;
            while let Some(read) = decoder.read(&mut piece)
                && read > 0
                && total < 1 << 20
            {
                prop_assert!(read <= piece.len());
                total += read;
            }
        }
    }

    #[test]
    fn what_is_coded_comes_back(content in proptest::collection::vec(any::<u8>(), 0..5000)) {
        for (coding, sent) in [
            (Coding::Gzip, gzip(&content)),
            (Coding::Deflate, zlib(&content)),
            (Coding::Zstd, zstd(&content)),
        ] {
            let mut decoder = Decoder::new(coding, &sent);
            let (mut piece, mut out) = ([0; 100], Vec::new());
            loop {
                match decoder.read(&mut piece) {
                    Some(0) => break,
                    Some(read) => out.extend_from_slice(&piece[..read]),
                    None => prop_assert!(false, "{coding:?} is refused"),
                }
            }
            prop_assert_eq!(&out, &content, "{:?}", coding);
        }
    }
}
