//! Which header fields mean what, whichever door a request comes to.
//!
//! Fields of our own end at the door: what a client or a service writes into them must never be
//! taken for what we wrote.

mod replay;

use http::header::{self, CONNECTION, CONTENT_TYPE, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};

pub use self::replay::never_replayed;
pub(super) use self::replay::storable;

/// The key of a client, and the effect id that the service gets in its place.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks a replayed answer: `Idempotent-Replayed: true`.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Until when a retry with this key is answered from the record.
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// What we say, and the service may say, of an effect: `applied`, `not-applied` or `unknown`.
pub const HAPAX_OUTCOME: HeaderName = HeaderName::from_static("hapax-outcome");

/// The attempt's fencing number, for the service.
pub const HAPAX_ATTEMPT: HeaderName = HeaderName::from_static("hapax-attempt");

/// After which moment (RFC 3339) the service is to refuse the attempt, where it does so.
pub const HAPAX_DEADLINE: HeaderName = HeaderName::from_static("hapax-deadline");

/// That whoever sent a request sends it again when it fails: `above`.
pub const HAPAX_RETRIES: HeaderName = HeaderName::from_static(hapax_above::FIELD);

/// Every field that starts like this is ours.
const OURS: &str = "hapax-";

/// Fields of a connection, whether `Connection` names them or not (RFC 9110, section 7.6.1).
pub const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Whether the sender of a request says that it sends it again when it fails, so that nobody below
/// has to ([`hapax_above`]).
pub fn is_retried(headers: &HeaderMap) -> bool {
    hapax_above::says(headers.get_all(HAPAX_RETRIES).iter().map(HeaderValue::as_bytes))
}

/// Removes every field that only we may set from a client's request, also where a `_` stands for a
/// `-`: many servers (CGI, WSGI, Rack, PHP) read both as one. What clients may say of their own
/// retries stays.
pub fn strip_ours_from_request(headers: &mut HeaderMap) {
    let retried = is_retried(headers);
    remove_ours(headers);
    if retried {
        headers.insert(HAPAX_RETRIES, HeaderValue::from_static(hapax_above::ABOVE));
    }
}

/// Removes every other field that a service which takes `_` for `-` may read as this one.
pub fn strip_look_alikes(headers: &mut HeaderMap, field: &HeaderName) {
    remove_where(headers, |name| name != field && is_read_as(name.as_str(), field.as_str()));
}

/// Whether `Connection` names this field: it then ends at this hop, and what was decided by it is
/// not what the service sees.
pub fn ends_here(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.contains_key(CONNECTION) && lists(headers, &CONNECTION, name.as_str())
}

/// The one value of a field: `None` where there is no line or more than one.
pub fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).into_iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Removes every field that only we may set from a service's answer: `Hapax-*`,
/// `Idempotent-Replayed`, `Idempotency-Expires`. Read `Hapax-Outcome` before.
pub(super) fn strip_ours_from_response(headers: &mut HeaderMap) {
    remove_ours(headers);
    headers.remove(IDEMPOTENT_REPLAYED);
    headers.remove(IDEMPOTENCY_EXPIRES);
}

/// Whether the content is a stream of server-sent events, which has no end to wait for.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return false;
    };
    let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Whether a list field has this member, in any case.
pub fn lists(headers: &HeaderMap, name: &HeaderName, member: &str) -> bool {
    members(headers, name).any(|found| found.eq_ignore_ascii_case(member.as_bytes()))
}

/// The members of a list field over all its lines, trimmed; empty ones are skipped (RFC 9110,
/// section 5.6.1).
pub fn members<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let lines = headers.get_all(name).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

fn remove_ours(headers: &mut HeaderMap) {
    remove_where(headers, is_ours);
}

fn remove_where(headers: &mut HeaderMap, which: impl Fn(&HeaderName) -> bool) {
    let found: Vec<_> = headers.keys().filter(|name| which(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn is_ours(name: &HeaderName) -> bool {
    name.as_str().get(..OURS.len()).is_some_and(|start| is_read_as(start, OURS))
}

/// Whether a name is this one to a server that takes `_` for `-`.
fn is_read_as(name: &str, field: &str) -> bool {
    let dashed = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    dashed.eq(field.bytes())
}

#[cfg(test)]
mod tests;
