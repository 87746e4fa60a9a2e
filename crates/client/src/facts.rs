//! Reading an answer's facts from its fields and content.

use std::time::{Duration, SystemTime};

use hapax_core::{ProblemKind, Said};
use http::{
    HeaderMap,
    header::{CONTENT_TYPE, LINK, RETRY_AFTER},
};
use serde::Deserialize;

use crate::{observation::Answer, policy::Policy, retry_after::retry_after};

/// No problem of hapax is longer.
pub(crate) const LONGEST_PROBLEM: usize = 64 * 1024;

/// The facts of an answer at `now`, on the clock of the wall.
pub fn facts(
    policy: &Policy,
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: SystemTime,
) -> Answer {
    let expires_in = field(headers, "idempotency-expires").and_then(|text| until(text, now));
    let replayed = is_replayed(headers);
    Answer {
        status,
        problem: problem(policy, headers, body),
        kept: replayed || expires_in.is_some(),
        said: headers.get("hapax-outcome").and_then(|word| Said::parse(word.as_bytes())),
        retry_after: headers.get(RETRY_AFTER).and_then(|at| retry_after(at.as_bytes(), now)),
        expires_in,
        names_status: status_link(headers).is_some(),
    }
}

/// Whether an answer is the first one, replayed.
pub(crate) fn is_replayed(headers: &HeaderMap) -> bool {
    field(headers, "idempotent-replayed").is_some_and(|word| word.eq_ignore_ascii_case("true"))
}

/// The address of an operation's status: the first `Link` with `rel="status"`, as it stands there
/// (RFC 8288, section 3; RFC 8631, section 4.4).
pub(crate) fn status_link(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(LINK).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(links).find_map(|(target, parameters)| is_status(parameters).then_some(target))
}

/// The links of a line: what is between `<` and `>`, and the parameters up to the next one.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('<').skip(1).filter_map(|link| link.split_once('>'))
}

fn is_status(parameters: &str) -> bool {
    parameters.split(';').filter_map(|parameter| parameter.split_once('=')).any(|(name, value)| {
        let value = value.trim().trim_end_matches(',').trim_end().trim_matches('"');
        name.trim().eq_ignore_ascii_case("rel")
            && value.split_ascii_whitespace().any(|rel| rel.eq_ignore_ascii_case("status"))
    })
}

fn problem(policy: &Policy, headers: &HeaderMap, body: &[u8]) -> Option<ProblemKind> {
    #[derive(Deserialize)]
    struct Type {
        r#type: String,
    }
    let media_type = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    if !media_type.eq_ignore_ascii_case("application/problem+json") || body.len() > LONGEST_PROBLEM
    {
        return None;
    }
    let Type { r#type } = serde_json::from_slice(body).ok()?;
    let name = r#type.strip_prefix(&policy.problem_base)?;
    ProblemKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// How long until a moment of RFC 3339; zero where it is over.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let end = humantime::parse_rfc3339(text.trim()).ok()?;
    Some(end.duration_since(now).unwrap_or_default())
}

fn field<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_status_is_found_among_other_links() {
        for (lines, found) in [
            (&["</s>; rel=\"status\""][..], Some("/s")),
            (&["</s>; rel=status"], Some("/s")),
            (&["</s>;REL=\"Status\""], Some("/s")),
            (&["</d>; rel=\"describedby\", </s>; rel=\"status\""], Some("/s")),
            (&["</s>; rel=\"status\", </d>; rel=\"describedby\""], Some("/s")),
            (&["</s>; rel=status, </d>; rel=describedby"], Some("/s")),
            (&["</d>; rel=\"describedby\"", "</s>; rel=\"status\""], Some("/s")),
            (&["</s>; title=\"x\"; rel=\"other status\""], Some("/s")),
            (&["</s>; rel=\"statusx\""], None),
            (&["</status>; rel=\"next\""], None),
            (&["status"], None),
            (&["<>;;=,<"], None),
            (&[""], None),
        ] {
            let headers: HeaderMap =
                lines.iter().map(|line| (LINK, HeaderValue::from_static(line))).collect();
            assert_eq!(status_link(&headers), found, "{lines:?}");
        }
    }
}
