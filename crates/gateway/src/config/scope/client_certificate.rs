//! `scope = { client_certificate = … }`: part of the certificate that the caller has proved to hold
//! the key of.

use std::fmt;

use crate::config::{section::Value, suggest::choice};

/// Which part of a client's certificate is the scope.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CertificateField {
    /// Its subject, in the form of RFC 4514: it stays when the certificate is renewed.
    Subject,
    /// Its one URI among the subject's alternative names, as SPIFFE has it.
    SanUri,
    /// Its one DNS name among the subject's alternative names.
    SanDns,
    /// The SHA-256 of the whole certificate: another one when it is renewed.
    Fingerprint,
}

impl fmt::Display for CertificateField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subject => "subject",
            Self::SanUri => "URI",
            Self::SanDns => "DNS name",
            Self::Fingerprint => "fingerprint",
        })
    }
}

pub(super) fn read(value: Value<'_>) -> Option<CertificateField> {
    let mut section = value.section("{ field = \"subject\" }")?;
    let fields = [
        ("subject", CertificateField::Subject),
        ("san_uri", CertificateField::SanUri),
        ("san_dns", CertificateField::SanDns),
        ("fingerprint", CertificateField::Fingerprint),
    ];
    let field = match section.take("field") {
        Some(field) => field.parse("a word", "subject", |text| choice(text, &fields)),
        None => {
            section.wrong("it has no field", "write { field = \"subject\" }");
            None
        }
    };
    section.finish();
    field.map(|field| field.value)
}
