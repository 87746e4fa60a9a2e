//! Where a request comes from, and what services are told of it: `Forwarded` (RFC 7239) and the
//! older `X-Forwarded-For`, `-Proto` and `-Host`.
//!
//! What a proxy before us says is believed if it is trusted. What anybody else writes into these
//! fields is replaced: services take it for the truth.

mod chain;
mod trusted;

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{FORWARDED, HOST},
    request::Parts,
};

pub use self::trusted::TrustedProxies;
use crate::server::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// How all fields of the older kind begin.
const X_FORWARDED: &str = "x-forwarded-";

/// What is believed of others, and what services are told.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Forwarding {
    /// The proxies that are believed. Default: none was named. Then nobody is believed to say where
    /// a request comes from, and everybody to say whose it is in the scope's header.
    pub trusted: Option<TrustedProxies>,
    /// In which fields services are told.
    pub fields: Fields,
}

/// In which fields services are told where a request comes from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Fields {
    /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`: the default.
    #[default]
    XForwarded,
    /// `Forwarded`.
    Forwarded,
    /// Both kinds.
    Both,
    /// None; what comes passes as it is.
    Off,
}

/// Where a request comes from; in its extensions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Caller {
    /// The client's address, as far back as trusted proxies know it.
    pub address: IpAddr,
    /// Whether the client used `https`.
    pub over_tls: bool,
    /// Whether the peer of the connection is a trusted proxy.
    pub by_trusted_proxy: bool,
    /// Whether the peer may say in the scope's header whose a request is.
    pub may_say_scope: bool,
}

/// The fields that services are told in, added when a request goes out: what the client's
/// `Connection` names has been removed by then, and these cannot be.
#[derive(Clone, Debug)]
struct Told(Vec<(HeaderName, HeaderValue)>);

impl Forwarding {
    /// Finds out where a request comes from, for its extensions, and takes what others say of it
    /// from its head. With `changes_nothing` the head stays as it is.
    pub(crate) fn receive(&self, head: &mut Parts, changes_nothing: bool) {
        let Some(peer) = head.extensions.get::<Peer>().copied() else {
            return;
        };
        let address = peer.address.ip().to_canonical();
        let is_trusted = self.trusts(address);
        let by_field = self.prefers_forwarded(&head.headers);
        let client = chain::client(address, &head.headers, by_field, |hop| self.trusts(hop));
        let said_proto = is_trusted.then(|| chain::proto(&head.headers, by_field)).flatten();
        let over_tls = said_proto.unwrap_or(peer.over_tls);
        head.extensions.insert(Caller {
            address: client,
            over_tls,
            by_trusted_proxy: is_trusted,
            may_say_scope: self.trusted.is_none() || is_trusted,
        });
        if changes_nothing || self.fields == Fields::Off {
            return;
        }
        if !is_trusted {
            remove_where(&mut head.headers, |name| speaks_of_it(name.as_str()));
        }
        // Many servers read both spellings as one, and proxies pass on what they do not know.
        remove_where(&mut head.headers, |name| {
            name.as_str().contains('_') && speaks_of_it(name.as_str())
        });
        if !chain::is_whole(&head.headers) {
            head.headers.remove(FORWARDED);
        }
        let told = self.told(address, over_tls, &mut head.headers, &head.uri);
        head.extensions.insert(Told(told));
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.as_ref().is_some_and(|trusted| trusted.contains(address))
    }

    /// Which kind of field a trusted proxy's chain is read from.
    fn prefers_forwarded(&self, headers: &HeaderMap) -> bool {
        match self.fields {
            Fields::Forwarded => true,
            Fields::XForwarded => false,
            Fields::Both | Fields::Off => headers.contains_key(FORWARDED),
        }
    }

    /// The fields for the service: what a trusted proxy wrote is still in the head, and goes first.
    fn told(
        &self,
        peer: IpAddr,
        over_tls: bool,
        headers: &mut HeaderMap,
        uri: &Uri,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let proto = if over_tls { "https" } else { "http" };
        let host = host(headers, uri);
        let mut told = Vec::with_capacity(4);
        if matches!(self.fields, Fields::XForwarded | Fields::Both) {
            told.push((X_FORWARDED_FOR, appended(headers, &X_FORWARDED_FOR, &peer.to_string())));
            headers.remove(X_FORWARDED_PROTO);
            told.push((X_FORWARDED_PROTO, Some(HeaderValue::from_static(proto))));
            let said = headers.remove(X_FORWARDED_HOST);
            told.push((X_FORWARDED_HOST, said.or_else(|| host.clone())));
        }
        if matches!(self.fields, Fields::Forwarded | Fields::Both) {
            let element = chain::element(peer, host.as_ref(), proto);
            told.push((FORWARDED, appended(headers, &FORWARDED, &element)));
        }
        told.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl Caller {
    /// Whether a request's scope header is believed. One that came in no connection of ours is.
    pub(crate) fn scope_is_believed(head: &Parts) -> bool {
        head.extensions.get::<Self>().is_none_or(|caller| caller.may_say_scope)
    }
}

/// Adds to a request that goes out what its service is told, after
/// [`headers::to_upstream`](crate::headers::to_upstream).
pub(crate) fn tell(head: &mut Parts) {
    if let Some(Told(fields)) = head.extensions.remove() {
        for (name, value) in fields {
            head.headers.insert(name, value);
        }
    }
}

/// The field's value so far, in one line, and one member more.
fn appended(headers: &mut HeaderMap, name: &HeaderName, member: &str) -> Option<HeaderValue> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    let lines = lines.into_iter().filter(|line| !line.trim_ascii().is_empty());
    let value = lines.chain([member.as_bytes()]).collect::<Vec<_>>().join(&b", "[..]);
    headers.remove(name);
    // Valid values joined by ", " are a valid value.
    HeaderValue::from_bytes(&value).ok()
}

/// The host that the client asked for, with its port.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<HeaderValue> {
    match uri.authority() {
        Some(authority) => {
            let whole = authority.as_str();
            let host = whole.rsplit_once('@').map_or(whole, |(_, host)| host);
            HeaderValue::from_str(host).ok()
        }
        None => headers.get(HOST).cloned(),
    }
}

/// Whether a field says where a request comes from, also where a `_` stands for a `-`.
fn speaks_of_it(name: &str) -> bool {
    name == FORWARDED.as_str()
        || name.get(..X_FORWARDED.len()).is_some_and(|start| {
            let dashed = start.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
            dashed.eq(X_FORWARDED.bytes())
        })
}

fn remove_where(headers: &mut HeaderMap, is_one: impl Fn(&HeaderName) -> bool) {
    let found: Vec<_> = headers.keys().filter(|name| is_one(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
