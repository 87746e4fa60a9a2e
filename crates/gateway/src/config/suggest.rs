//! "Did you mean …?"

use super::Fault;

/// The candidate that the text is most likely a slip of.
pub(super) fn nearest<'a>(
    text: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let allowed = (text.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (distance(text, candidate), candidate))
        .filter(|&(distance, _)| distance <= allowed)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// One of a closed set of words.
pub(super) fn choice<T: Copy>(text: &str, choices: &[(&'static str, T)]) -> Result<T, Fault> {
    if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let words = || choices.iter().map(|(word, _)| *word);
    let known = words().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or ");
    let help = match nearest(&text.to_lowercase(), words()) {
        Some(word) => format!("did you mean {word:?}?"),
        None => format!("write {known}"),
    };
    Err(Fault::new(format!("{} is not {known}", shown(text)), help))
}

/// A text of the user's in quotes, escaped, and cut when it is long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?} …", text.get(..end).unwrap_or_default()),
    }
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    /// Beyond this nothing is a slip of anything, and the work stays bounded.
    const LONGEST: usize = 64;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().max(b.len()) > LONGEST {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(from != to);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            let swapped = i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to;
            if swapped {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["lease", "listen", "retention"];
        for (text, expected) in [
            ("laese", Some("lease")),
            ("leas", Some("lease")),
            ("listne", Some("listen")),
            ("retntion", Some("retention")),
            ("timeout", None),
            ("", None),
            (&"x".repeat(10_000), None),
        ] {
            assert_eq!(nearest(text, known), expected, "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert_eq!(shown(&"é".repeat(81)), format!("\"{}\" …", "é".repeat(80)));
    }
}
