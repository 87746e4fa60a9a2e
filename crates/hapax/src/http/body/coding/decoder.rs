//! One content coding, decoded piece by piece. The end of what was sent has to be the end of what
//! it holds: bytes behind it would be part of the request and of no fingerprint.

use std::io::Read;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status, read::MultiGzDecoder};
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use super::Coding;

/// The largest window of `zstd` in HTTP (RFC 9659): memory that a frame of a few bytes asks for.
const ZSTD_WINDOW: u64 = 8 << 20;

/// Decodes a body that is in memory.
pub(super) enum Decoder<'a> {
    Gzip(MultiGzDecoder<&'a [u8]>),
    Deflate { coded: &'a [u8], state: Box<Decompress> },
    Brotli { coded: &'a [u8], state: Box<Brotli>, ended: bool },
    Zstd { coded: &'a [u8], state: Box<FrameDecoder>, begun: bool },
}

type Brotli = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

impl<'a> Decoder<'a> {
    pub(super) fn new(coding: Coding, coded: &'a [u8]) -> Self {
        match coding {
            Coding::Gzip => Self::Gzip(MultiGzDecoder::new(coded)),
            Coding::Deflate => {
                let state = Box::new(Decompress::new(is_zlib(coded)));
                Self::Deflate { coded, state }
            }
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                let state = Box::new(BrotliState::new(alloc(), alloc(), alloc()));
                Self::Brotli { coded, state, ended: false }
            }
            Coding::Zstd => {
                let mut state = Box::new(FrameDecoder::new());
                state.set_max_window_size(ZSTD_WINDOW);
                Self::Zstd { coded, state, begun: false }
            }
        }
    }

    /// Decodes into `out`; 0 bytes are the end, `None` is a fault.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Option<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(out).ok(),
            Self::Deflate { coded, state } => deflate(coded, state, out),
            Self::Brotli { coded, state, ended } => brotli(coded, state, ended, out),
            Self::Zstd { coded, state, begun } => zstd(coded, state, begun, out),
        }
    }
}

/// Whether it begins as zlib data do (RFC 1950, section 2.2), as `deflate` has to. Many senders
/// leave that out, and what is no zlib header is read without by most receivers.
fn is_zlib(coded: &[u8]) -> bool {
    let [method, flags, ..] = coded else { return true };
    method & 0xf == 8 && (u16::from(*method) << 8 | u16::from(*flags)) % 31 == 0
}

fn deflate(coded: &mut &[u8], state: &mut Decompress, out: &mut [u8]) -> Option<usize> {
    loop {
        let (taken, given) = (state.total_in(), state.total_out());
        let status = state.decompress(coded, out, FlushDecompress::None).ok()?;
        let taken = usize::try_from(state.total_in() - taken).ok()?;
        let given = usize::try_from(state.total_out() - given).ok()?;
        *coded = coded.get(taken..)?;
        match status {
            _ if given > 0 => return Some(given),
            Status::StreamEnd => return coded.is_empty().then_some(0),
            // Neither end nor progress: there is no more, and there should be.
            _ if taken == 0 => return None,
            _ => {}
        }
    }
}

fn brotli(
    coded: &mut &[u8],
    state: &mut Brotli,
    ended: &mut bool,
    out: &mut [u8],
) -> Option<usize> {
    if *ended {
        return coded.is_empty().then_some(0);
    }
    let (mut left, mut taken) = (coded.len(), 0);
    let (mut room, mut given, mut total) = (out.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut left, &mut taken, coded, &mut room, &mut given, out, &mut total, state,
    );
    *coded = coded.get(taken..)?;
    match result {
        BrotliResult::ResultSuccess => {
            *ended = true;
            (given > 0 || coded.is_empty()).then_some(given)
        }
        BrotliResult::NeedsMoreOutput if given > 0 => Some(given),
        _ => None,
    }
}

fn zstd(
    coded: &mut &[u8],
    state: &mut FrameDecoder,
    begun: &mut bool,
    out: &mut [u8],
) -> Option<usize> {
    loop {
        if *begun && state.can_collect() > 0 {
            return state.read(out).ok();
        }
        if *begun && !state.is_finished() {
            state.decode_blocks(&mut *coded, BlockDecodingStrategy::UptoBlocks(1)).ok()?;
            continue;
        }
        if *begun && coded.is_empty() {
            return Some(0);
        }
        // Frames follow each other, and some of them hold nothing (RFC 8878, section 3.1).
        match state.reset(&mut *coded) {
            Ok(()) => *begun = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => *coded = coded.get(usize::try_from(length).ok()?..)?,
            Err(_) => return None,
        }
    }
}
