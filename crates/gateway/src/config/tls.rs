//! The `[tls]` tables, and `tls` of a service.

use std::path::PathBuf;

use super::{
    At, Endpoint, Fault, Report,
    section::{Section, Value},
    suggest::choice,
};
use crate::tls::{Clients, PemSource, ServerTlsConfig, UpstreamTlsConfig};

/// Reads what a listener shows and asks for; `None` where it is wrong, which is reported.
pub(super) fn read_server(mut section: Section<'_>) -> Option<ServerTlsConfig> {
    let certificate = section.take("certificate");
    let key = section.take("key");
    if certificate.is_none() {
        section.wrong("it has no certificate", "add certificate = \"/etc/hapax/tls.pem\"");
    }
    if key.is_none() {
        section.wrong("it has no key", "add key = \"/etc/hapax/tls.key\"");
    }
    let certificate = certificate.and_then(|value| file(value, "/etc/hapax/tls.pem"));
    let key = key.and_then(|value| read_key(value, "/etc/hapax/tls.key"));
    let clients = read_clients(&mut section);
    section.finish().then_some(())?;
    Some(ServerTlsConfig { certificate: certificate?, key: key?, clients })
}

fn read_clients(section: &mut Section<'_>) -> Option<Clients> {
    let ca = section.take("client_ca").map(|value| file(value, "/etc/hapax/clients.pem"));
    let demanded = section.take("client_certificates");
    match (ca, demanded) {
        (None, None) => None,
        (None, Some(demanded)) => {
            let what = "nothing says which authorities vouch for callers";
            let help = "add client_ca = \"/etc/hapax/clients.pem\", or remove it";
            demanded.wrong(Fault::new(what, help));
            None
        }
        (Some(ca), demanded) => {
            let words = [("required", true), ("optional", false)];
            let demanded = demanded.map(|value| {
                value.parse("a word", "required", |text| choice(text, &words)).map(|at| at.value)
            });
            // Whoever names authorities and says no more wants callers to be known.
            Some(Clients { ca: ca?, required: demanded.unwrap_or(Some(true))? })
        }
    }
}

/// Reads how a service is checked, and what we show it.
pub(super) fn read_upstream(value: Value<'_>) -> Option<At<UpstreamTlsConfig>> {
    let place = value.place().clone();
    let mut section = value.section("{ ca = \"/etc/hapax/services.pem\" }")?;
    let ca = section.take("ca").and_then(|value| file(value, "/etc/hapax/services.pem"));
    let certificate = section.take("client_certificate");
    let key = section.take("client_key");
    let missing = match (&certificate, &key) {
        (Some(_), None) => Some(("its certificate has no key", "add client_key = \"client.key\"")),
        (None, Some(_)) => {
            Some(("its key has no certificate", "add client_certificate = \"client.pem\""))
        }
        _ => None,
    };
    if let Some((what, help)) = missing {
        section.wrong(what, help);
    }
    let certificate = certificate.and_then(|value| file(value, "/etc/hapax/client.pem"));
    let key = key.and_then(|value| read_key(value, "/etc/hapax/client.key"));
    let name = section.take("server_name").and_then(|value| {
        value.parse("a host name", "payments.internal", |text| match text {
            "" => Err(Fault::new("the name is empty", "write a host, or remove it")),
            _ => Ok(text.to_owned()),
        })
    });
    section.finish().then_some(())?;
    let client = certificate.zip(key);
    let value = UpstreamTlsConfig { ca, client, server_name: name.map(|name| name.value) };
    Some(At { place, value })
}

/// A URL with what is said of its TLS, which only https:// has.
pub(super) fn with(
    report: &Report,
    url: At<Endpoint>,
    tls: Option<At<UpstreamTlsConfig>>,
) -> Option<Endpoint> {
    let mut endpoint = url.value;
    if let Some(At { place, value }) = tls {
        if endpoint.origin.scheme_str() != Some("https") {
            let what = "it says how TLS is checked, and the URL has none";
            report.add(&place, Fault::new(what, "write https://, or remove it"));
            return None;
        }
        endpoint.tls = value;
    }
    Some(endpoint)
}

/// A key: a path, or `{ file = … }` or `{ env = … }`.
fn read_key(value: Value<'_>, example: &str) -> Option<PemSource> {
    if !value.is_table() {
        return file(value, example);
    }
    let mut section = value.section("{ file = \"/etc/hapax/tls.key\" }")?;
    let (path, variable) = (section.take("file"), section.take("env"));
    let source = match (path, variable) {
        (Some(path), None) => file(path, example),
        (None, Some(variable)) => {
            let parse = |text: &str| match text {
                "" => Err(Fault::new("the name is empty", "write the name of the variable")),
                _ if text.contains(['=', '\0']) => Err(Fault::new(
                    "it is not the name of an environment variable",
                    "write its name alone, as in \"TLS_KEY\"",
                )),
                _ => Ok(PemSource::Env(text.to_owned())),
            };
            variable.parse("a variable's name", "TLS_KEY", parse).map(|at| at.value)
        }
        (both, _) => {
            let what = match both {
                Some(_) => "it names a file and a variable",
                None => "it names neither a file nor a variable",
            };
            section.wrong(what, format!("write {example:?}, or {{ env = \"TLS_KEY\" }}"));
            None
        }
    };
    section.finish();
    source
}

/// A path. PEM text itself is refused without repeating it: it may be a key.
fn file(value: Value<'_>, example: &str) -> Option<PemSource> {
    let parse = |text: &str| match text {
        "" => Err(Fault::new("the path is empty", format!("name a file, such as {example:?}"))),
        _ if text.contains("-----") => Err(Fault::new(
            "it is the text of a certificate or key, not a path",
            format!("put it into a file and name that, such as {example:?}"),
        )),
        _ => Ok(PemSource::File(PathBuf::from(text))),
    };
    value.parse("a path", example, parse).map(|at| at.value)
}
