//! The chain of hops that proxies write down.

use std::net::{IpAddr, SocketAddr};

use hapax::http::headers::members;
use http::{HeaderMap, HeaderValue, header::FORWARDED};

use super::{X_FORWARDED_FOR, X_FORWARDED_PROTO};

/// The most hops that are looked at.
const MOST_HOPS: usize = 64;

/// The first address from the right that is not trusted: who connected to the outermost proxy that
/// is believed. Where the chain ends or cannot be read, the last address that is known.
pub(super) fn client(
    peer: IpAddr,
    headers: &HeaderMap,
    by_forwarded: bool,
    trusts: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer;
    if !trusts(peer) {
        return client;
    }
    let hops = if by_forwarded { forwarded_for(headers) } else { x_forwarded_for(headers) };
    for hop in hops.into_iter().rev().take(MOST_HOPS) {
        let Some(hop) = hop else { break };
        client = hop;
        if !trusts(hop) {
            break;
        }
    }
    client
}

/// Whether the client used `https`, as the first that says so does; `None` where nobody does.
pub(super) fn proto(headers: &HeaderMap, by_forwarded: bool) -> Option<bool> {
    let said = if by_forwarded {
        elements(headers).iter().find_map(|element| parameter(element, "proto"))
    } else {
        let first = members(headers, &X_FORWARDED_PROTO).next();
        first.map(|proto| String::from_utf8_lossy(proto).into_owned())
    }?;
    match said.to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(true),
        "http" | "ws" => Some(false),
        _ => None,
    }
}

/// One element of `Forwarded` (RFC 7239, section 4).
pub(super) fn element(peer: IpAddr, host: Option<&HeaderValue>, proto: &str) -> String {
    let node = match peer {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    };
    let host = host.and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
    match host {
        Some(host) if host.bytes().all(is_token) => format!("for={node};host={host};proto={proto}"),
        Some(host) => {
            let escaped = host.replace('\\', "\\\\").replace('"', "\\\"");
            format!("for={node};host=\"{escaped}\";proto={proto}")
        }
        None => format!("for={node};proto={proto}"),
    }
}

fn x_forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let hops = members(headers, &X_FORWARDED_FOR);
    hops.map(|hop| node(std::str::from_utf8(hop).ok()?)).collect()
}

fn forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let elements = elements(headers);
    elements.iter().map(|element| node(&parameter(element, "for")?)).collect()
}

/// An address, with its port or without.
fn node(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|node| node.ip()));
    address.map(|address| address.to_canonical())
}

/// Whether each line ends outside quotes: what is appended to another would be swallowed.
pub(super) fn is_whole(headers: &HeaderMap) -> bool {
    headers.get_all(FORWARDED).iter().all(|line| {
        let (mut quoted, mut escaped) = (false, false);
        for byte in line.as_bytes() {
            quoted ^= *byte == b'"' && !escaped;
            escaped = quoted && *byte == b'\\' && !escaped;
        }
        !quoted
    })
}

/// The elements over all lines.
fn elements(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(FORWARDED).into_iter();
    let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned());
    lines.flat_map(|line| split(&line, ',')).filter(|element| !element.is_empty()).collect()
}

/// The value of an element's parameter, out of its quotes.
fn parameter(element: &str, name: &str) -> Option<String> {
    split(element, ';').into_iter().find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        key.trim().eq_ignore_ascii_case(name).then(|| match quoted {
            None => value.to_owned(),
            Some(quoted) => {
                let mut escaped = false;
                let is_content = |c: &char| {
                    escaped = *c == '\\' && !escaped;
                    !escaped
                };
                quoted.chars().filter(is_content).collect()
            }
        })
    })
}

/// The parts between separators that stand outside quotes, trimmed.
fn split(text: &str, separator: char) -> Vec<String> {
    let (mut parts, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for c in text.chars() {
        if c == separator && !quoted {
            parts.push(String::new());
            continue;
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
