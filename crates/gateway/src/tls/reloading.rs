//! What is made from files, and made again when they change.

use std::{sync::Arc, time::SystemTime};

use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use super::{PemSource, TlsError};

/// What certificates and keys are made into.
pub(super) trait Recipe: Send + Sync + 'static {
    /// What connections use.
    type Made: Send + Sync + 'static;

    /// What is read, in the order in which [`make`](Self::make) gets it.
    fn sources(&self) -> Vec<&PemSource>;

    /// Makes it of what was read.
    fn make(&self, texts: &[Vec<u8>]) -> Result<Ready<Self::Made>, TlsError>;
}

/// Something made, and until when it is good.
pub(super) struct Ready<T> {
    pub(super) made: Arc<T>,
    /// When the first certificate that we show expires.
    pub(super) expires: Option<SystemTime>,
}

/// The newest that could be made. New connections use it, those that are there keep theirs.
pub(super) struct Reloading<R: Recipe> {
    recipe: R,
    current: RwLock<Ready<R::Made>>,
    /// Of what the newest was made.
    used: Mutex<[u8; 32]>,
}

impl<R: Recipe> Reloading<R> {
    pub(super) fn load(recipe: R) -> Result<Self, TlsError> {
        let texts = read(&recipe)?;
        let current = RwLock::new(recipe.make(&texts)?);
        Ok(Self { current, used: Mutex::new(digest(&texts)), recipe })
    }

    pub(super) const fn recipe(&self) -> &R {
        &self.recipe
    }

    pub(super) fn current(&self) -> Arc<R::Made> {
        Arc::clone(&self.current.read().made)
    }

    pub(super) fn expires(&self) -> Option<SystemTime> {
        self.current.read().expires
    }

    /// Makes it anew if what it is made of has changed; says whether. What is there stays where
    /// that fails.
    pub(super) fn reload(&self) -> Result<bool, TlsError> {
        let texts = read(&self.recipe)?;
        let digest = digest(&texts);
        let mut used = self.used.lock();
        if *used == digest {
            return Ok(false);
        }
        *self.current.write() = self.recipe.make(&texts)?;
        *used = digest;
        Ok(true)
    }
}

fn read(recipe: &impl Recipe) -> Result<Vec<Vec<u8>>, TlsError> {
    recipe.sources().into_iter().map(PemSource::read).collect()
}

fn digest(texts: &[Vec<u8>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
