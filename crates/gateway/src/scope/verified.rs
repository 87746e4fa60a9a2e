//! Tokens that were verified: the next request with the same one costs a digest, not a signature.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use hapax_core::Scope;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::jwks::KeySet;

/// How many are known at most; then all are forgotten, which costs each caller one verification.
const MOST: usize = 10_000;

/// Tokens that were verified, by their digest, each for as long as it is right.
#[derive(Default)]
pub(super) struct Verified {
    known: Mutex<HashMap<[u8; 32], Known>>,
}

struct Known {
    scope: Scope,
    /// The keys that it was verified by: with others it is verified anew.
    keys: Weak<KeySet>,
    /// The last second in which it is right.
    until: u64,
}

impl Verified {
    /// Whose a token is, if it was verified by these keys and is right in this second.
    pub(super) fn find(&self, token: &[u8], keys: &Arc<KeySet>, now: u64) -> Option<Scope> {
        let known = self.known.lock();
        let found = known.get(&digest(token))?;
        let is_right = now <= found.until && Weak::ptr_eq(&found.keys, &Arc::downgrade(keys));
        is_right.then(|| found.scope.clone())
    }

    pub(super) fn remember(&self, token: &[u8], keys: &Arc<KeySet>, until: u64, scope: Scope) {
        let mut known = self.known.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(digest(token), Known { scope, keys: Arc::downgrade(keys), until });
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::DecodingKey;

    use super::*;

    fn keys() -> Arc<KeySet> {
        let key = DecodingKey::from_secret(b"secret").unwrap();
        Arc::new(KeySet::shared(key, Vec::new()))
    }

    #[test]
    fn a_token_is_known_until_its_end_and_for_the_keys_that_verified_it() {
        let (verified, ours, others) = (Verified::default(), keys(), keys());
        let anna = Scope::principal(b"anna").unwrap();
        assert_eq!(verified.find(b"token", &ours, 7), None);
        verified.remember(b"token", &ours, 8, anna.clone());
        assert_eq!(verified.find(b"token", &ours, 8), Some(anna));
        assert_eq!(verified.find(b"token", &ours, 9), None, "it is over");
        assert_eq!(verified.find(b"token", &others, 8), None, "the keys are others now");
        assert_eq!(verified.find(b"tokem", &ours, 8), None);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let (verified, keys) = (Verified::default(), keys());
        let anna = Scope::principal(b"anna").unwrap();
        for number in 0..=MOST {
            verified.remember(&number.to_be_bytes(), &keys, 8, anna.clone());
        }
        assert!(verified.known.lock().len() <= MOST);
        assert!(verified.find(&MOST.to_be_bytes(), &keys, 8).is_some(), "the last one is known");
    }
}
