//! The tokens of ownerships.

use std::time::{SystemTime, UNIX_EPOCH};

use hapax_core::Owner;
use parking_lot::Mutex;

/// How many are drawn at a time.
const DRAWN: usize = 32;

/// Owner tokens, each given once.
///
/// They are drawn from the operating system some at a time: a system call for each would be a
/// sixth of a replay. A copy of this process, of a machine whose snapshot was started twice, has
/// the same ones drawn. Such copies are told apart by their mark (`protocol.md` 17), and by the
/// moment of giving, which changes each token.
pub(crate) struct Owners(Mutex<Drawn>);

struct Drawn {
    random: [[u8; 16]; DRAWN],
    left: usize,
}

impl Owners {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Drawn { random: [[0; 16]; DRAWN], left: 0 }))
    }

    /// One that nobody has.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub(crate) fn give(&self) -> Result<Owner, getrandom::Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut drawn = self.0.lock();
        if drawn.left == 0 {
            getrandom::fill(drawn.random.as_flattened_mut())?;
            drawn.left = DRAWN;
        }
        drawn.left -= 1;
        let left = drawn.left;
        let mut token = std::mem::take(&mut drawn.random[left]);
        drop(drawn);
        for (byte, time) in token.iter_mut().zip(now.as_nanos().to_ne_bytes()) {
            *byte ^= time;
        }
        Ok(Owner::from_bytes(token))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn none_is_given_twice() {
        let owners = Owners::new();
        let given: HashSet<_> = (0..10 * DRAWN).map(|_| owners.give().unwrap()).collect();
        assert_eq!(given.len(), 10 * DRAWN);
    }

    #[test]
    fn a_copy_of_the_process_gives_others() {
        let owners = Owners::new();
        let _ = owners.give().unwrap();
        let left = owners.0.lock().left;
        let copy = Owners(Mutex::new(Drawn { random: owners.0.lock().random, left }));
        for _ in 0..left {
            assert_ne!(owners.give().unwrap(), copy.give().unwrap());
        }
    }
}
