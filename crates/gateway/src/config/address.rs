//! Addresses: where we listen, and what is behind us.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use http::{
    Uri,
    uri::{PathAndQuery, Scheme},
};

use super::{Fault, suggest::shown};
use crate::tls::UpstreamTlsConfig;

/// Reads an IP address and a port.
pub(super) fn listen(text: &str) -> Result<SocketAddr, Fault> {
    SocketAddr::from_str(text).map_err(|_| {
        let right = match text.rsplit_once(':') {
            Some(("", port)) if port.parse::<u16>().is_ok() => format!("0.0.0.0:{port}"),
            Some(("localhost", port)) if port.parse::<u16>().is_ok() => format!("127.0.0.1:{port}"),
            _ => "0.0.0.0:8080".to_owned(),
        };
        let what = format!("{} is not an IP address with a port", shown(text));
        Fault::new(what, format!("write an address and a port, such as {right:?}"))
    })
}

/// Whether two listeners cannot both have their address.
pub(super) fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_host =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    // Port 0 is another free one each time.
    one.port() != 0 && one.port() == other.port() && same_host
}

/// Reads `http://host:port` or `https://host:port`. It is never repeated: somebody may have put a password into it.
///
/// What comes back has one spelling for one service, since records remember where their effect
/// happened: a host in lower case, no port where it is its scheme's own.
pub(super) fn upstream(text: &str) -> Result<Uri, Fault> {
    const EXAMPLE: &str = "write a scheme, a host and a port, such as \"http://127.0.0.1:3000\"";
    let wrong = |what: &str| Err(Fault::new(what, EXAMPLE));
    let Ok(uri) = Uri::from_str(text) else { return wrong("it is not a URL") };
    let (scheme, own_port) = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => ("http", 80),
        Some(scheme) if *scheme == Scheme::HTTPS => ("https", 443),
        _ => return wrong("it is not an http:// or https:// URL"),
    };
    let Some(authority) = uri.authority() else { return wrong("it has no host") };
    if authority.as_str().contains('@') {
        return Err(Fault::new(
            "it holds credentials, which hapax does not send",
            "remove what is before the @; the caller's Authorization goes through untouched",
        ));
    }
    if authority.host().is_empty() {
        return wrong("it has no host");
    }
    let bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    if !bare || text.contains('#') {
        return Err(Fault::new(
            "it has a path, and requests go through with their own",
            "end it after the port; prefix = \"/…\" of a [[service]] chooses by path",
        ));
    }
    // A port that is no number between 1 and 65,535 would silently be taken for the scheme's own.
    let after_host = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    let port = match after_host.strip_prefix(':').map(str::parse::<u16>) {
        None => None,
        Some(Ok(port)) if port != 0 => Some(port),
        Some(_) => return wrong("its port is not a number from 1 to 65535"),
    };
    let host = authority.host().to_ascii_lowercase();
    let origin = match port {
        Some(port) if port != own_port => format!("{scheme}://{host}:{port}"),
        _ => format!("{scheme}://{host}"),
    };
    Uri::from_str(&origin).or_else(|_| wrong("it is not a URL"))
}

/// A URL that hapax itself asks: a service, and the target there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// `http://host:port` or `https://host:port`, and nothing more.
    pub origin: Uri,
    /// Path and query.
    pub target: PathAndQuery,
    /// How it is checked over TLS.
    pub tls: UpstreamTlsConfig,
}

impl fmt::Display for Endpoint {
    // A query may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", origin(&self.origin), self.target.path())
    }
}

/// Reads the URL of a key set. Who can change what comes back can make any token right, so plain
/// HTTP has to be said, but on this machine.
pub(super) fn key_set(text: &str, allow_http: bool) -> Result<Endpoint, Fault> {
    let endpoint = endpoint(text, "https://issuer.example/jwks.json")?;
    let host = endpoint.origin.host().unwrap_or_default().trim_matches(['[', ']']);
    let has_tls = endpoint.origin.scheme() == Some(&Scheme::HTTPS);
    let is_local = has_tls
        || host == "localhost"
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    if !is_local && !allow_http {
        return Err(Fault::new(
            "whoever is on the way could put keys of its own into a key set that comes without TLS",
            "write https://; on a network you trust, add allow_http = true",
        ));
    }
    Ok(endpoint)
}

/// Reads a URL that hapax asks. It is never repeated: somebody may have put a password into it.
pub(super) fn endpoint(text: &str, example: &str) -> Result<Endpoint, Fault> {
    let wrong = |what: &str| Err(Fault::new(what, format!("write a URL, such as {example:?}")));
    let Ok(uri) = Uri::from_str(text) else { return wrong("it is not a URL") };
    let Some(authority) = uri.authority() else { return wrong("it has no host") };
    if authority.as_str().contains('@') {
        return Err(Fault::new(
            "it holds credentials, which hapax does not send",
            "remove what is before the @",
        ));
    }
    if text.contains('#') {
        return Err(Fault::new("it has a fragment, which is never sent", "end it before the #"));
    }
    let bare = format!("{}://{authority}", uri.scheme_str().unwrap_or_default());
    let origin = upstream(&bare).map_err(|Fault { what, .. }| {
        Fault::new(what, format!("write a URL, such as {example:?}"))
    })?;
    let target = uri.path_and_query().cloned();
    let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
    Ok(Endpoint { origin, target, tls: UpstreamTlsConfig::default() })
}

/// The origin of an upstream as records remember it: `http://host:port` or `https://host:port`.
pub(crate) fn origin(upstream: &Uri) -> String {
    let scheme = upstream.scheme_str().unwrap_or("http");
    format!("{scheme}://{}", upstream.authority().map_or("", |authority| authority.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_has_one_spelling() {
        for (text, expected) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
            ("http://Payments.Internal:80/", "http://payments.internal"),
            ("HTTP://a", "http://a"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("https://A:443", "https://a"),
            ("https://a:80", "https://a:80"),
            ("http://a:443", "http://a:443"),
        ] {
            assert_eq!(upstream(text).map(|uri| origin(&uri)).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_upstream_is_refused_without_repeating_it() {
        for (text, what) in [
            ("", "it is not a URL"),
            ("http://", "it is not a URL"),
            ("http://a b", "it is not a URL"),
            ("127.0.0.1:3000", "it is not an http:// or https:// URL"),
            ("/v1", "it is not an http:// or https:// URL"),
            ("ftp://a", "it is not an http:// or https:// URL"),
            ("http://u:hunter2@a", "it holds credentials, which hapax does not send"),
            ("http://a/hunter2", "it has a path, and requests go through with their own"),
            ("http://a?hunter2", "it has a path, and requests go through with their own"),
            ("http://a#hunter2", "it has a path, and requests go through with their own"),
            ("http://a:", "its port is not a number from 1 to 65535"),
            ("http://a:0", "its port is not a number from 1 to 65535"),
            ("http://a:99999", "its port is not a number from 1 to 65535"),
        ] {
            let fault = upstream(text).unwrap_err();
            assert_eq!(fault.what, what, "{text}");
            assert!(!fault.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn what_is_asked_is_a_service_and_a_target() {
        let read = |text: &str| endpoint(text, "http://a/b");
        let asked = read("http://Auth.Internal:80/allow?kind=replay").expect("a URL");
        assert_eq!(origin(&asked.origin), "http://auth.internal");
        assert_eq!(asked.target, "/allow?kind=replay");
        assert_eq!(asked.to_string(), "http://auth.internal/allow", "without the query");
        assert_eq!(read("http://a:1").expect("a URL").target, "/");
        let over_tls = read("https://auth.internal:443/allow").expect("a URL");
        assert_eq!(over_tls.to_string(), "https://auth.internal/allow");
        for (text, what) in [
            ("", "it is not a URL"),
            ("/allow", "it has no host"),
            ("ftp://a/b", "it is not an http:// or https:// URL"),
            ("http://u:hunter2@a/b", "it holds credentials, which hapax does not send"),
            ("http://a/b#hunter2", "it has a fragment, which is never sent"),
            ("http://a:0/b", "its port is not a number from 1 to 65535"),
        ] {
            let fault = read(text).unwrap_err();
            assert_eq!(fault.what, what, "{text}");
            assert!(!fault.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn a_key_set_comes_without_tls_from_this_machine_only_unless_that_is_said() {
        for (text, allow_http, taken) in [
            ("http://127.0.0.1:3000/jwks.json", false, true),
            ("http://localhost/jwks.json", false, true),
            ("http://[::1]/jwks.json", false, true),
            ("http://issuer.internal/jwks.json", false, false),
            ("http://127.0.0.1.example/jwks.json", false, false),
            ("http://issuer.internal/jwks.json", true, true),
            ("https://issuer.internal/jwks.json", false, true),
        ] {
            assert_eq!(key_set(text, allow_http).is_ok(), taken, "{text}");
        }
    }

    #[test]
    fn a_listener_is_an_address_and_the_remedy_fits_the_slip() {
        assert_eq!(listen("0.0.0.0:8080"), Ok(SocketAddr::from(([0, 0, 0, 0], 8080))));
        assert_eq!(listen("[::]:0").map(|address| address.port()), Ok(0));
        for (text, help) in [
            (":9000", "write an address and a port, such as \"0.0.0.0:9000\""),
            ("localhost:9000", "write an address and a port, such as \"127.0.0.1:9000\""),
            ("8080", "write an address and a port, such as \"0.0.0.0:8080\""),
            ("127.0.0.1", "write an address and a port, such as \"0.0.0.0:8080\""),
        ] {
            let fault = listen(text).unwrap_err();
            assert_eq!(fault.help, help);
            assert_eq!(fault.what, format!("{text:?} is not an IP address with a port"));
        }
    }

    #[test]
    fn listeners_collide_on_a_port_unless_their_hosts_differ() {
        let at = |text: &str| listen(text).expect("an address");
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "[::]:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            assert_eq!(collide(at(one), at(other)), expected, "{one} {other}");
        }
    }
}
