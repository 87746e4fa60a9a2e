//! A credential in a header.

use hapax::http::headers::{ends_here, only};
use http::{HeaderMap, HeaderName, header::AUTHORIZATION};

use super::refused::Refused;

/// The longest that is looked at.
const MOST: usize = 16 * 1024;

/// The one credential in a field. In `Authorization` it stands behind `Bearer` (RFC 6750, section
/// 2.1); elsewhere it may.
///
/// A field that ends at this hop is none: the service would not see it.
pub(super) fn credential<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<&'a [u8], Refused> {
    if !headers.contains_key(name) {
        return Err(Refused::Missing);
    }
    let line = only(headers, name).filter(|_| !ends_here(headers, name));
    let line = line.ok_or(Refused::Malformed)?.as_bytes().trim_ascii();
    let scheme_and_rest = line.split_at_checked(BEARER.len());
    let behind = scheme_and_rest
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(BEARER))
        .map(|(_, rest)| rest.trim_ascii());
    let credential = match behind {
        Some(credential) => credential,
        // Another scheme says who somebody is to somebody else.
        None if *name == AUTHORIZATION => return Err(Refused::Missing),
        None => line,
    };
    let is_one = !credential.is_empty() && !credential.contains(&b' ');
    if is_one && credential.len() <= MOST { Ok(credential) } else { Err(Refused::Malformed) }
}

const BEARER: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_credential_is_read_and_nothing_that_is_less_clear() {
        let long = format!("Bearer {}", "x".repeat(MOST + 1));
        for (name, lines, expected) in [
            ("authorization", &["Bearer abc"][..], Ok("abc")),
            ("authorization", &["bEARER   abc "], Ok("abc")),
            ("authorization", &[], Err(Refused::Missing)),
            ("authorization", &["Basic abc"], Err(Refused::Missing)),
            ("authorization", &["abc"], Err(Refused::Missing)),
            ("authorization", &["Bearer"], Err(Refused::Missing)),
            ("authorization", &["Bearer a b"], Err(Refused::Malformed)),
            ("authorization", &["Bearer abc", "Bearer abc"], Err(Refused::Malformed)),
            ("authorization", &["Basic abc", "Bearer abc"], Err(Refused::Malformed)),
            ("authorization", &[&long], Err(Refused::Malformed)),
            ("x-api-key", &["abc"], Ok("abc")),
            ("x-api-key", &["Bearer abc"], Ok("abc")),
            ("x-api-key", &[""], Err(Refused::Malformed)),
            ("x-api-key", &["a", "b"], Err(Refused::Malformed)),
        ] {
            let name = HeaderName::from_static(name);
            let line = |line: &&str| (name.clone(), HeaderValue::from_str(line).expect("a value"));
            let mut headers: HeaderMap = lines.iter().map(line).collect();
            let expected = expected.map(str::as_bytes);
            assert_eq!(credential(&headers, &name), expected, "{name} {}", lines.len());
            headers.insert("connection", HeaderValue::from_str(name.as_str()).expect("a value"));
            assert!(credential(&headers, &name).is_err(), "it ends here: {name}");
        }
    }
}
