//! Where certificates and keys are read from.

use std::{env, fmt, fs, path::PathBuf, time::SystemTime};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use x509_parser::parse_x509_certificate;

use super::TlsError;

/// A file or an environment variable with PEM text (RFC 7468).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PemSource {
    /// This file; relative to the working directory.
    File(PathBuf),
    /// The value of this environment variable.
    Env(String),
}

impl PemSource {
    pub(super) fn read(&self) -> Result<Vec<u8>, TlsError> {
        match self {
            Self::File(path) => fs::read(path)
                .map_err(|source| TlsError::Unreadable { place: self.to_string(), source }),
            Self::Env(name) => env::var_os(name)
                .map(std::os::unix::ffi::OsStringExt::into_vec)
                .ok_or_else(|| TlsError::NoVariable { name: name.clone() }),
        }
    }

    /// The certificates of a text that was read here; at least one.
    pub(super) fn certificates(
        &self,
        text: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        match certificates {
            Ok(certificates) if !certificates.is_empty() => Ok(certificates),
            Ok(_) => Err(TlsError::NoCertificate { place: self.to_string() }),
            Err(error) => {
                Err(TlsError::Malformed { place: self.to_string(), reason: error.to_string() })
            }
        }
    }

    /// The first private key of a text that was read here.
    pub(super) fn private_key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
        // What is wrong with a key is not repeated: the text may hold parts of it.
        PrivateKeyDer::from_pem_slice(text)
            .map_err(|_| TlsError::NoPrivateKey { place: self.to_string() })
    }

    /// The authorities of a text that was read here.
    pub(super) fn roots(&self, text: &[u8]) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(text)? {
            roots.add(certificate).map_err(|error| TlsError::Malformed {
                place: self.to_string(),
                reason: error.to_string(),
            })?;
        }
        Ok(roots)
    }
}

impl fmt::Display for PemSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Env(name) => write!(f, "${name}"),
        }
    }
}

/// When the first of these certificates expires; `None` where none can be read.
pub(super) fn expiry(certificates: &[CertificateDer<'_>]) -> Option<SystemTime> {
    let of_one = |certificate: &CertificateDer<'_>| {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        let seconds = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds))
    };
    certificates.iter().filter_map(of_one).min()
}
