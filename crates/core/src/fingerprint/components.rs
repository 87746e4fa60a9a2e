//! The components of an intent on their way into the hash.

use sha2::{Digest, Sha256};

/// The components of an intent on their way into the hash, each behind its length.
pub(super) struct Components {
    hash: Sha256,
    /// What is not hashed yet: many small parts are hashed together.
    buffer: Vec<u8>,
}

impl Components {
    /// A part of this size is hashed from where it is.
    const LARGE: usize = 1024;

    pub(super) fn new() -> Self {
        let mut buffer = Vec::with_capacity(Self::LARGE / 2);
        buffer.extend_from_slice(b"hapax intent\0");
        Self { hash: Sha256::new(), buffer }
    }

    pub(super) fn tag(&mut self, tag: u8) {
        self.buffer.push(tag);
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        if part.len() < Self::LARGE {
            return push_sized(part, &mut self.buffer);
        }
        self.buffer.extend((part.len() as u64).to_be_bytes());
        self.hash.update(&self.buffer);
        self.buffer.clear();
        self.hash.update(part);
    }

    pub(super) fn build(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        push_built(&mut self.buffer, write);
    }

    pub(super) fn option<T>(&mut self, part: Option<T>, write: impl FnOnce(T, &mut Vec<u8>)) {
        self.tag(u8::from(part.is_some()));
        if let Some(part) = part {
            self.build(|out| write(part, out));
        }
    }

    pub(super) fn digest(mut self) -> [u8; 32] {
        self.hash.update(&self.buffer);
        self.hash.finalize().into()
    }
}

/// Appends a part behind its length, so that neighbours cannot flow into each other.
pub(crate) fn push_sized(part: &[u8], out: &mut Vec<u8>) {
    out.extend((part.len() as u64).to_be_bytes());
    out.extend_from_slice(part);
}

/// Appends a part that is written behind its length, which is known then.
pub(crate) fn push_built(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len() + size_of::<u64>();
    out.extend([0; size_of::<u64>()]);
    write(out);
    let length = (out.len() - start) as u64;
    if let Some((before, _)) = out.split_at_mut_checked(start)
        && let Some(place) = before.last_chunk_mut()
    {
        *place = length.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_parts_are_gathered_does_not_change_the_digest() {
        let mut parts = Components::new();
        let mut expected = b"hapax intent\0".to_vec();
        for size in [10, Components::LARGE - 1, Components::LARGE, 3, 2 * Components::LARGE, 0] {
            let part = vec![u8::try_from(size % 256).unwrap(); size];
            parts.tag(7);
            expected.push(7);
            parts.push(&part);
            push_sized(&part, &mut expected);
            parts.build(|out| out.extend_from_slice(&part));
            push_sized(&part, &mut expected);
        }
        assert_eq!(parts.digest(), <[u8; 32]>::from(Sha256::digest(&expected)));
    }
}
