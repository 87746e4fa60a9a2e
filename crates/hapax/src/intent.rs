//! What a caller wants, as a door hands it over.

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
}

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
}
