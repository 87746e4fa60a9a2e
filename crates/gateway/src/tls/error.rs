//! Why certificates cannot be used.

use std::io;

use thiserror::Error;

/// Why certificates and keys cannot be used. No part of a key is ever in the text.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file is not there, or may not be read.
    #[error("{place} cannot be read; check the path, and that this user may read the file")]
    Unreadable {
        /// The file.
        place: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// An environment variable is not set.
    #[error("the environment variable {name} is not set; put the PEM text into it, or name a file")]
    NoVariable {
        /// The variable.
        name: String,
    },
    /// There is no certificate in the text.
    #[error(
        "{place} holds no certificate; it takes PEM text with -----BEGIN CERTIFICATE-----, the \
         server's own first"
    )]
    NoCertificate {
        /// The file or variable.
        place: String,
    },
    /// The text, or a certificate in it, cannot be read.
    #[error("{place} is damaged ({reason}); write it again as PEM text")]
    Malformed {
        /// The file or variable.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// There is no private key in the text.
    #[error(
        "{place} holds no private key; it takes PEM text with -----BEGIN PRIVATE KEY-----, without \
         a passphrase"
    )]
    NoPrivateKey {
        /// The file or variable.
        place: String,
    },
    /// Certificate and key do not go together, or are of a kind that is not supported.
    #[error(
        "the certificate in {certificate} and the key in {key} cannot be used together ({reason}); \
         name the key that the certificate was made for"
    )]
    Pair {
        /// Where the certificate is.
        certificate: String,
        /// Where the key is.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The authorities for certificates of callers or services cannot be used.
    #[error(
        "the authorities in {place} cannot be used ({reason}); name a file with their \
             certificates"
    )]
    Authorities {
        /// The file or variable.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The system has no certificates of authorities.
    #[error(
        "the system has no certificates of authorities to check the service by; install them (often \
         the package ca-certificates), set SSL_CERT_FILE, or name them: tls = {{ ca = \"ca.pem\" }}"
    )]
    NoSystemRoots,
    /// The name that a service's certificate is checked for is not one.
    #[error("{name:?} is not a name that a certificate could be for; write a host name")]
    ServerName {
        /// The name.
        name: String,
    },
}
