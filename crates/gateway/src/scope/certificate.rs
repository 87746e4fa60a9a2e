//! The scope by a client's certificate.

use hapax_core::Scope;
use http::request::Parts;

use super::refused::Refused;
use crate::{
    config::CertificateField,
    tls::{AlternativeName, ClientCertificate},
};

/// The field of the certificate that the connection came with.
pub(super) fn scope(head: &Parts, field: CertificateField) -> Result<Scope, Refused> {
    let certificate = head.extensions.get::<ClientCertificate>().ok_or(Refused::Missing)?;
    let name = match field {
        CertificateField::Subject => Some(certificate.subject().to_owned()),
        CertificateField::SanUri => only(certificate, |name| match name {
            AlternativeName::Uri(uri) => Some(uri),
            _ => None,
        }),
        CertificateField::SanDns => only(certificate, |name| match name {
            AlternativeName::Dns(name) => Some(name),
            _ => None,
        }),
        CertificateField::Fingerprint => {
            let bytes = certificate.sha256();
            Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
    };
    let name = name.ok_or(Refused::Claim)?;
    Scope::principal(name.as_bytes()).map_err(|_| Refused::Claim)
}

pub(super) fn wanted(field: CertificateField) -> String {
    match field {
        CertificateField::Fingerprint => "The request needs a client certificate.".to_owned(),
        _ => format!("The request needs a client certificate with exactly one {field}."),
    }
}

/// Of several names none is the caller's more than the others.
fn only(
    certificate: &ClientCertificate,
    of_kind: impl Fn(&AlternativeName) -> Option<&String>,
) -> Option<String> {
    let mut names = certificate.alternative_names().iter().filter_map(of_kind);
    let name = names.next()?;
    names.next().is_none().then(|| name.clone())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const CLIENT: &[u8] = include_bytes!("../../../../testing/keys/client.der");
    const TWO_NAMES: &[u8] = include_bytes!("../../../../testing/keys/client-two-names.der");

    fn certificate(der: &[u8]) -> ClientCertificate {
        ClientCertificate::from_der(der.to_vec().into()).unwrap()
    }

    fn scope_of(der: Option<&[u8]>, field: CertificateField) -> Result<Scope, Refused> {
        let (mut head, ()) = Request::new(()).into_parts();
        if let Some(der) = der {
            head.extensions.insert(certificate(der));
        }
        scope(&head, field)
    }

    #[test]
    fn the_scope_is_the_field_and_without_a_certificate_there_is_none() {
        let client = certificate(CLIENT);
        let digest: String = client.sha256().iter().map(|byte| format!("{byte:02x}")).collect();
        for (field, expected) in [
            (CertificateField::Subject, r"CN=\#bill\+ing\ ,O=Acme\, Inc.,C=DE"),
            (CertificateField::SanUri, "spiffe://acme/billing"),
            (CertificateField::SanDns, "billing.acme.example"),
            (CertificateField::Fingerprint, &*digest),
        ] {
            let expected = Scope::principal(expected.as_bytes()).unwrap();
            assert_eq!(scope_of(Some(CLIENT), field), Ok(expected), "{field}");
            assert_eq!(scope_of(None, field), Err(Refused::Missing), "{field}");
        }
    }

    #[test]
    fn a_certificate_with_two_names_of_a_kind_or_none_says_nothing() {
        for field in [CertificateField::SanUri, CertificateField::SanDns] {
            assert_eq!(scope_of(Some(TWO_NAMES), field), Err(Refused::Claim), "{field}");
        }
    }
}
