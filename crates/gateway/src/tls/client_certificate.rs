//! Who a caller is, by the certificate it showed.

use std::{net::IpAddr, sync::Arc};

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::{
    extensions::GeneralName,
    objects::{oid_registry, oid2abbrev},
    parse_x509_certificate,
    x509::X509Name,
};

/// The certificate that a caller showed, verified by the listener's `client_ca`; in the extensions
/// of every request on its connection. Cheap to clone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientCertificate(Arc<Content>);

#[derive(Debug, Eq, PartialEq)]
struct Content {
    der: CertificateDer<'static>,
    subject: String,
    names: Vec<AlternativeName>,
    sha256: [u8; 32],
}

/// A name in a certificate's subjectAltName (RFC 5280, section 4.2.1.6).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AlternativeName {
    /// A host name.
    Dns(String),
    /// A URI, such as a SPIFFE ID.
    Uri(String),
    /// A mail address.
    Email(String),
    /// An IP address.
    Ip(IpAddr),
}

impl ClientCertificate {
    /// Reads a certificate; `None` where it is none.
    pub fn from_der(der: CertificateDer<'static>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(&der).ok()?;
        let subject = distinguished_name(parsed.subject());
        let extension = parsed.subject_alternative_name().ok()?;
        let names = extension.map_or(Vec::new(), |names| {
            names.value.general_names.iter().filter_map(AlternativeName::read).collect()
        });
        let sha256 = Sha256::digest(&der).into();
        Some(Self(Arc::new(Content { subject, names, sha256, der })))
    }

    /// The whole certificate.
    pub fn der(&self) -> &[u8] {
        &self.0.der
    }

    /// The subject's distinguished name as RFC 4514 writes it, such as `CN=billing,O=Acme`: what
    /// would separate is escaped in values, so that two names are never written alike.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Its other names, in their order.
    pub fn alternative_names(&self) -> &[AlternativeName] {
        &self.0.names
    }

    /// The SHA-256 of [`der`](Self::der).
    pub fn sha256(&self) -> [u8; 32] {
        self.0.sha256
    }
}

/// RFC 4514, section 2: the last part first.
fn distinguished_name(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().map(|part| {
        let attributes = part.iter().map(|attribute| {
            let oid = attribute.attr_type();
            let short = oid2abbrev(oid, oid_registry()).map(str::to_owned);
            let kind = short.unwrap_or_else(|_| oid.to_id_string());
            let value = match attribute.as_str() {
                Ok(text) => escaped(text),
                Err(_) => hex(attribute.as_slice()),
            };
            format!("{kind}={value}")
        });
        attributes.collect::<Vec<_>>().join("+")
    });
    let mut parts: Vec<_> = parts.collect();
    parts.reverse();
    parts.join(",")
}

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut out = String::new();
    for (at, c) in value.chars().enumerate() {
        let at_edge = (at == 0 && matches!(c, ' ' | '#')) || (at == last && c == ' ');
        if at_edge || matches!(c, '"' | '+' | ',' | ';' | '<' | '>' | '=' | '\\') {
            out.push('\\');
        }
        if c == '\0' { out.push_str("\\00") } else { out.push(c) }
    }
    out
}

/// A value that is no text (RFC 4514, section 2.4).
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("#".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

impl AlternativeName {
    fn read(name: &GeneralName<'_>) -> Option<Self> {
        match name {
            GeneralName::DNSName(name) => Some(Self::Dns((*name).to_owned())),
            GeneralName::URI(uri) => Some(Self::Uri((*uri).to_owned())),
            GeneralName::RFC822Name(address) => Some(Self::Email((*address).to_owned())),
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
                v4.or(v6).ok().map(Self::Ip)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_never_written_alike() {
        for (value, expected) in [
            ("billing", "billing"),
            ("billing,O=Acme", "billing\\,O\\=Acme"),
            (" a ", "\\ a\\ "),
            ("#1", "\\#1"),
            ("a\\b\"c+d", "a\\\\b\\\"c\\+d"),
            ("a\0", "a\\00"),
        ] {
            assert_eq!(escaped(value), expected);
        }
    }
}
