//! What a caller wants, as a door hands it over.

use std::pin::Pin;

use hapax_core::{BodyInvalid, Fingerprint, Fingerprinter};

/// An intent that can be fingerprinted, under whatever rules.
///
/// The engine keeps it while it decides, because a record is compared under the version it was
/// stored with, which need not be the present one. So it must know all of the request, not only
/// what the present rules look at.
pub trait Intent: Send + Sync {
    /// The fingerprint under the rules of `fingerprinter`.
    ///
    /// # Errors
    /// [`BodyInvalid`] when the body cannot be read as the form that the rules name.
    fn fingerprint(&self, fingerprinter: &Fingerprinter) -> Result<Fingerprint, BodyInvalid>;

    /// The same where it takes so long that it is made beside the async workers. `None`, as for most
    /// intents, where it does not.
    fn fingerprint_aside<'a>(
        &'a self,
        _fingerprinter: &'a Fingerprinter,
    ) -> Option<FingerprintAside<'a>> {
        None
    }
}

/// A fingerprint that is made beside the async workers; `None` where it cannot be made now.
pub type FingerprintAside<'a> =
    Pin<Box<dyn Future<Output = Option<Result<Fingerprint, BodyInvalid>>> + Send + 'a>>;

impl<F> Intent for F
where
    F: Fn(&Fingerprinter) -> Result<Fingerprint, BodyInvalid> + Send + Sync,
{
    fn fingerprint(&self, fingerprinter: &Fingerprinter) -> Result<Fingerprint, BodyInvalid> {
        self(fingerprinter)
    }
}

impl<I: Intent + ?Sized> Intent for std::sync::Arc<I> {
    fn fingerprint(&self, fingerprinter: &Fingerprinter) -> Result<Fingerprint, BodyInvalid> {
        (**self).fingerprint(fingerprinter)
    }

    fn fingerprint_aside<'a>(
        &'a self,
        fingerprinter: &'a Fingerprinter,
    ) -> Option<FingerprintAside<'a>> {
        (**self).fingerprint_aside(fingerprinter)
    }
}
