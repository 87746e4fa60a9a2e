//! A reference to an operation's record that is of use to its own scope alone.

use std::fmt;

use crate::{EffectSecret, RecordId, Scope};

/// Names a record in an address, such as that of its status.
///
/// The store does not know whose a record is, and a record id is no secret. So the reference
/// carries a tag over (record, scope) under the effect secret: whoever reads the address needs the
/// scope as well. It stays valid for as long as the secret does, on every node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Handle {
    id: RecordId,
    tag: [u8; TAG],
}

/// 128 bits: nobody guesses one.
const TAG: usize = 16;

impl Handle {
    /// The reference of a record for its scope.
    pub fn new(secret: &EffectSecret, id: RecordId, scope: &Scope) -> Self {
        let mut tag = [0; TAG];
        tag.copy_from_slice(&secret.mac(&Self::parts(&id, scope))[..TAG]);
        Self { id, tag }
    }

    /// Reads the textual form; nothing is proven yet.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * (32 + TAG) {
            return None;
        }
        let mut bytes = [0; 32 + TAG];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for digit in pair {
                let digit = char::from(*digit).to_digit(16)?;
                *byte = (*byte << 4) | u8::try_from(digit).ok()?;
            }
        }
        let (id, tag) = bytes.split_at(32);
        Some(Self { id: RecordId::from_bytes(id.try_into().ok()?), tag: tag.try_into().ok()? })
    }

    /// The record, if the reference was made for this scope under this secret.
    pub fn open(&self, secret: &EffectSecret, scope: &Scope) -> Option<RecordId> {
        secret.verifies(&Self::parts(&self.id, scope), &self.tag).then_some(self.id)
    }

    fn parts<'a>(id: &'a RecordId, scope: &'a Scope) -> [&'a [u8]; 4] {
        const KINDS: [&[u8]; 2] = [&[0], &[1]];
        let (kind, principal) = scope.parts();
        [b"hapax handle\0", id.as_bytes(), KINDS[usize::from(kind.min(1))], principal]
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        self.tag.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: RecordId = RecordId::from_bytes([0xa7; 32]);

    #[test]
    fn a_handle_opens_for_its_own_scope_and_secret_alone() {
        let secret = EffectSecret::from_bytes([7; 32]);
        let acme = Scope::principal(b"acme").expect("valid");
        let text = Handle::new(&secret, ID, &acme).to_string();
        let handle = Handle::parse(&text).expect("it was written");
        assert_eq!(handle.open(&secret, &acme), Some(ID));
        let other = Scope::principal(b"acm").expect("valid");
        for scope in [&other, &Scope::single_tenant()] {
            assert_eq!(handle.open(&secret, scope), None);
        }
        assert_eq!(handle.open(&EffectSecret::from_bytes([8; 32]), &acme), None);
        let another = text.replacen("a7", "a8", 1);
        assert_eq!(Handle::parse(&another).and_then(|handle| handle.open(&secret, &acme)), None);
    }

    proptest! {
        #[test]
        fn no_text_is_read_as_another(text in "[0-9a-fA-Fg+ ]{90,98}") {
            if let Some(handle) = Handle::parse(&text) {
                prop_assert_eq!(handle.to_string(), text.to_ascii_lowercase());
            }
        }
    }
}
