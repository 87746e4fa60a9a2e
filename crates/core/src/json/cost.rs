//! What a text takes in memory while it is read, before it is.

use std::borrow::Cow;

use super::Json;

/// How many values of which kind a text has at the most. Up to the first fault, where reading ends,
/// it is divided into strings just as the reader does.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// Elements of arrays. Members may be counted too.
    pub(super) items: usize,
    /// Members of objects.
    pub(super) members: usize,
    /// Strings with escapes and numbers that may be spelled in another way: they are copied.
    copied: usize,
}

impl Shape {
    /// Texts from this length on are counted before they are read.
    pub(super) const LARGE: usize = 4096;

    /// What a copied string or number takes beside its length: its allocation, and the text of
    /// `1e20` as it is written.
    const COPIED: usize = 64;

    pub(super) fn of(text: &[u8]) -> Self {
        let mut shape = Self::default();
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            match byte {
                b'[' if bytes.as_slice().starts_with(b"]") => {}
                b',' | b'[' => shape.items += 1,
                b':' => shape.members += 1,
                b'.' | b'e' | b'E' => shape.copied += 1,
                b'"' => shape.copied += usize::from(is_copied(&mut bytes)),
                _ => {}
            }
        }
        shape
    }

    pub(super) const fn cost(&self, length: usize) -> usize {
        // A value is on the reader's list until its own is made; short lists are copied as they grow.
        let lists = if length < Self::LARGE { 3 } else { 2 };
        let items = self.items.saturating_mul(lists * size_of::<Json<'_>>());
        let members = self.members.saturating_mul(lists * size_of::<(Cow<'_, str>, Json<'_>)>());
        let copied = self.copied.saturating_mul(Self::COPIED);
        // Texts that are copied, the canonical one among them, which doubles as it grows.
        let texts = length.saturating_mul(4);
        items.saturating_add(members).saturating_add(copied).saturating_add(texts) + 1024
    }
}

/// Reads a string to its end, and says whether it has an escape.
fn is_copied(bytes: &mut std::slice::Iter<'_, u8>) -> bool {
    let mut escapes = false;
    loop {
        let rest = bytes.as_slice();
        let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
            *bytes = [].iter();
            return escapes;
        };
        let behind = |count| rest.get(at + count..).unwrap_or_default().iter();
        if rest.get(at) == Some(&b'"') {
            *bytes = behind(1);
            return escapes;
        }
        escapes = true;
        *bytes = behind(2);
    }
}
