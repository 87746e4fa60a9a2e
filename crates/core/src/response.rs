//! A stored answer: status, headers, body, as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// What a retry is answered with: the status, the headers that may be replayed, the body's bytes.
///
/// Headers are a raw multimap: repeats, order and bytes are kept, nothing is folded or parsed.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct StoredResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Field name (lower case) and value, in order.
    pub headers: Vec<(Bytes, Bytes)>,
    /// The body, exactly; empty is a body too.
    pub body: Bytes,
}

/// The encoding's version, its first byte.
const HEAD_V1: u8 = 1;

impl StoredResponse {
    /// Status and headers as the bytes a store keeps beside the body.
    pub fn encode_head(&self) -> Bytes {
        let size = self.headers.iter().map(|(n, v)| 8 + n.len() + v.len()).sum::<usize>();
        let mut out = BytesMut::with_capacity(3 + size);
        out.put_u8(HEAD_V1);
        out.put_u16(self.status);
        for part in self.headers.iter().flat_map(|(name, value)| [name, value]) {
            // A header part is bounded by the HTTP parser, far below 4 GiB.
            out.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
            out.put_slice(part);
        }
        out.freeze()
    }

    /// The answer from a stored head and body.
    ///
    /// # Errors
    /// [`HeadError`] when the head is of an unknown version or cut short.
    pub fn decode(mut head: Bytes, body: Bytes) -> Result<Self, HeadError> {
        let fixed = take(&mut head, 3)?;
        let [HEAD_V1, high, low] = fixed[..] else {
            return Err(HeadError);
        };
        let mut headers = Vec::new();
        while !head.is_empty() {
            let name = take_part(&mut head)?;
            headers.push((name, take_part(&mut head)?));
        }
        Ok(Self { status: u16::from_be_bytes([high, low]), headers, body })
    }
}

fn take_part(head: &mut Bytes) -> Result<Bytes, HeadError> {
    let length = take(head, 4)?;
    let length: [u8; 4] = length[..].try_into().map_err(|_| HeadError)?;
    take(head, u32::from_be_bytes(length) as usize)
}

fn take(from: &mut Bytes, length: usize) -> Result<Bytes, HeadError> {
    if from.len() < length {
        return Err(HeadError);
    }
    Ok(from.split_to(length))
}

/// A stored head that this version cannot read.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("the stored response head is damaged or was written by a newer version")]
pub struct HeadError;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_head_reads_back_exactly(
            status in 100..600_u16,
            headers in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..20), proptest::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let headers = headers.into_iter().map(|(n, v)| (Bytes::from(n), Bytes::from(v))).collect();
            let answer = StoredResponse { status, headers, body: Bytes::from_static(b"\0\xff") };
            let back = StoredResponse::decode(answer.encode_head(), answer.body.clone());
            prop_assert_eq!(back, Ok(answer));
        }

        #[test]
        fn no_bytes_make_decoding_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = StoredResponse::decode(Bytes::from(bytes), Bytes::new());
        }
    }

    #[test]
    fn a_newer_head_is_refused() {
        let head = Bytes::from_static(&[2, 0, 200]);
        assert_eq!(StoredResponse::decode(head, Bytes::new()), Err(HeadError));
    }
}
