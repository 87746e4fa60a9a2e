//! TLS on both sides: certificates from files, and their replacement while the process runs.
//!
//! Cryptography is *ring*'s, protocol versions are 1.2 and 1.3, and early data (0-RTT) is off on
//! both sides: what is sent in it can be replayed by anybody who recorded it (RFC 8446, section 8).

mod certificates;
mod client_certificate;
mod error;
mod pem;
mod reloading;
mod server;
mod upstream;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

pub use self::{
    certificates::Certificates,
    client_certificate::{AlternativeName, ClientCertificate},
    error::TlsError,
    pem::PemSource,
    server::{Clients, ServerTls, ServerTlsConfig},
    upstream::{UpstreamTls, UpstreamTlsConfig},
};

/// The protocols that are offered and taken, the better first (RFC 7301).
const ALPN: [&[u8]; 2] = [ALPN_HTTP_2, b"http/1.1"];

/// HTTP/2 over TLS (RFC 9113, section 3.2).
pub(crate) const ALPN_HTTP_2: &[u8] = b"h2";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests;
