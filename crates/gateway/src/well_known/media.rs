//! Which of two representations a client would rather have (RFC 9110, section 12.5.1).

use hapax::http::headers::members;
use http::{HeaderMap, header::ACCEPT};

/// Whether it would rather have HTML than JSON, as browsers do. Without a preference it is a
/// program.
pub(super) fn prefers_html(headers: &HeaderMap) -> bool {
    quality(headers, "text", "html") > quality(headers, "application", "json")
}

/// The weight of a media type in thousandths, by the most specific range that has it.
fn quality(headers: &HeaderMap, kind: &str, subtype: &str) -> u16 {
    let ranges = members(headers, &ACCEPT).filter_map(|range| std::str::from_utf8(range).ok());
    let weights = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = parts.next()?.split_once('/')?;
        let kind_fits = range_kind.eq_ignore_ascii_case(kind);
        let precedence = match (kind_fits, range_kind, range_subtype) {
            (true, _, fits) if fits.eq_ignore_ascii_case(subtype) => 2,
            (true, _, "*") => 1,
            (_, "*", "*") => 0,
            _ => return None,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let weight = weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0));
        Some((precedence, weight))
    });
    let best = weights.max_by_key(|(precedence, _)| *precedence);
    best.map_or(0, |(_, weight)| thousandths(weight))
}

fn thousandths(weight: f32) -> u16 {
    (0..=1000).rev().find(|n| f32::from(*n) <= weight * 1000.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn browsers_get_html_and_programs_json() {
        for (accept, html) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json", false),
            ("*/*", false),
            ("text/html;q=0.5, application/json;q=0.9", false),
            ("text/*, application/json;q=0.9", true),
            ("TEXT/HTML", true),
            ("text/html;q=0, */*", false),
            ("text/html;q=nonsense", false),
            ("", false),
            (";;,/", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_html(&headers), html, "{accept}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
