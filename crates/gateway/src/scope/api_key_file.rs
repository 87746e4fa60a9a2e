//! The file of API keys: a name and the digest of a key on each line.

use std::{collections::HashMap, fmt};

use hapax_core::{Key, KeyError, KeyPolicy, KeySyntax, Scope};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// One line of the file of API keys: whose a key is, and its digest.
///
/// The digest is a plain SHA-256. Slow digests with salt are for passwords, which can be guessed;
/// an API key is random, and nobody guesses 128 bits however fast each guess is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKeyEntry {
    name: String,
    digest: [u8; 32],
}

impl ApiKeyEntry {
    /// The entry of a key. The name is its scope: keys with the same name belong to one caller.
    ///
    /// # Errors
    /// [`ApiKeyError`] for a name that no line can hold, and for a key that is not random enough.
    pub fn new(name: &str, key: &str) -> Result<Self, ApiKeyError> {
        check_name(name)?;
        let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain {
            return Err(ApiKeyError::NotPlain);
        }
        if !is_random(key) {
            return Err(ApiKeyError::Guessable);
        }
        Ok(Self { name: name.to_owned(), digest: digest(key.as_bytes()) })
    }

    fn parse(line: &str) -> Result<Self, ApiKeyError> {
        let (name, digest) = line.split_once('=').ok_or(ApiKeyError::Shape)?;
        let (name, digest) = (name.trim(), digest.trim());
        check_name(name)?;
        let hex = digest.strip_prefix("sha256:").ok_or(ApiKeyError::Shape)?;
        let digest = from_hex(hex).ok_or(ApiKeyError::Digest)?;
        Ok(Self { name: name.to_owned(), digest })
    }
}

/// As it stands in the file.
impl fmt::Display for ApiKeyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = sha256:", self.name)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What is wrong with an entry. Neither key nor digest is repeated.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ApiKeyError {
    /// No entry.
    #[error("it is no entry; write NAME = sha256:DIGEST, as hapax keys hash prints it")]
    Shape,
    /// A name that is none.
    #[error("a name is 1 to 128 letters, digits and .-_@:/ and says whose the key is")]
    Name,
    /// No digest.
    #[error("the digest is not 64 hexadecimal characters; make one with hapax keys hash")]
    Digest,
    /// A key with spaces, or characters that no header carries.
    #[error("the key holds more than visible ASCII characters; no header could carry it")]
    NotPlain,
    /// A key that might be guessed.
    #[error(
        "the key is too short or too predictable; make one at random, as with openssl rand -hex 24"
    )]
    Guessable,
}

/// All entries of a file, by digest.
#[derive(Debug)]
pub(super) struct ApiKeyFile {
    by_digest: HashMap<[u8; 32], Scope>,
}

impl ApiKeyFile {
    /// Reads a file: empty lines and those that begin with `#` say nothing.
    pub(super) fn parse(content: &[u8]) -> Result<Self, ApiKeyFileError> {
        let text = std::str::from_utf8(content).map_err(|_| ApiKeyFileError::NotText)?;
        let mut names: HashMap<[u8; 32], (usize, String)> = HashMap::new();
        let mut by_digest = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let (number, line) = (at + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why| ApiKeyFileError::Line { number, why };
            let ApiKeyEntry { name, digest } = ApiKeyEntry::parse(line).map_err(wrong)?;
            let scope = Scope::principal(name.as_bytes()).map_err(|_| wrong(ApiKeyError::Name))?;
            let first = names.entry(digest).or_insert_with(|| (number, name.clone()));
            if first.1 != name {
                return Err(ApiKeyFileError::TwoNames { first: first.0, number });
            }
            by_digest.insert(digest, scope);
        }
        if by_digest.is_empty() {
            return Err(ApiKeyFileError::Empty);
        }
        Ok(Self { by_digest })
    }

    /// Whose a key is. Digests are looked up, so the time that takes says nothing of any key.
    pub(super) fn find(&self, key: &[u8]) -> Option<&Scope> {
        self.by_digest.get(&digest(key))
    }
}

/// What is wrong with a file of API keys.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ApiKeyFileError {
    /// A line that is no entry.
    #[error("line {number}: {why}")]
    Line {
        /// From 1.
        number: usize,
        /// What is wrong with it.
        why: ApiKeyError,
    },
    /// One key, two callers.
    #[error("line {number}: the same key as on line {first}, for another name; give each its own")]
    TwoNames {
        /// The line with the first of them.
        first: usize,
        /// From 1.
        number: usize,
    },
    /// No entry at all: every request would be refused.
    #[error("there is no key in it; add a line that hapax keys hash prints")]
    Empty,
    /// Not UTF-8.
    #[error("it is not UTF-8; save it as UTF-8")]
    NotText,
}

fn check_name(name: &str) -> Result<(), ApiKeyError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@:/".contains(&byte);
    let is_right = (1..=128).contains(&name.len()) && name.bytes().all(fits);
    if is_right { Ok(()) } else { Err(ApiKeyError::Name) }
}

/// Whether a key looks drawn at random, and long enough that nobody guesses it.
fn is_random(key: &str) -> bool {
    const POLICY: KeyPolicy =
        KeyPolicy { syntax: KeySyntax::Lenient, min_length: 20, min_bits: 100 };
    // What is judged is a string without characters that would have to be escaped in one.
    let judged = |text: &str| {
        let plain = text.bytes().filter(|byte| !matches!(byte, b'"' | b'\\'));
        let field: Vec<u8> = [b'"'].into_iter().chain(plain.take(200)).chain([b'"']).collect();
        Key::from_field([&*field], &POLICY)
    };
    match judged(key) {
        // It is one: what its service puts before it, as in sk_live_…, is not drawn.
        Err(KeyError::Secret) => {
            key.rsplit('_').next().is_some_and(|drawn| matches!(judged(drawn), Ok(Some(_))))
        }
        judged => matches!(judged, Ok(Some(_))),
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let nibble =
        |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut digest = [0; 32];
    let bytes = text.as_bytes();
    if bytes.len() != 2 * digest.len() {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(bytes.chunks_exact(2)) {
        let (high, low) = pair.first().copied().zip(pair.get(1).copied())?;
        *byte = nibble(high)? << 4 | nibble(low)?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk_9f2c71e05ab84d36bb1c40e7d5a8f6032e71";

    #[test]
    fn an_entry_is_read_as_it_is_printed_and_names_the_keys_scope() {
        let entry = ApiKeyEntry::new("acme", KEY).unwrap();
        let printed = entry.to_string();
        assert_eq!(ApiKeyEntry::parse(&printed), Ok(entry));
        let expected = "acme = sha256:";
        assert!(printed.starts_with(expected) && !printed.contains(KEY), "{printed}");
        let file = ApiKeyFile::parse(format!("# callers\n\n{printed}\n").as_bytes()).unwrap();
        assert_eq!(file.find(KEY.as_bytes()), Scope::principal(b"acme").ok().as_ref());
        assert_eq!(file.find(b"another"), None);
        assert_eq!(file.find(b""), None);
    }

    #[test]
    fn the_digest_is_plain_sha_256_so_that_other_tools_make_entries_too() {
        // printf abc | sha256sum
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let line = |hex: &str| format!("acme=sha256:{hex}");
        let file = ApiKeyFile::parse(line(known).as_bytes()).unwrap();
        assert!(file.find(b"abc").is_some());
        let file = ApiKeyFile::parse(line(&known.to_uppercase()).as_bytes()).unwrap();
        assert!(file.find(b"abc").is_some());
    }

    #[test]
    fn keys_as_services_make_them_get_an_entry() {
        for key in [
            "sk_live_51NqT8gK2eZvKYlo2CkR7wXu",
            "8e03978e-40d5-43e8-bc93-6894a57f9324",
            "4f7c2a9be01d86f35c7790ab12ce84d6f0a35b19c8e27d44",
            "T2sh/8+Qm\\w\"0pX4v=Zr7Kd9Lc3",
            &"9f2c71e05ab84d36bb1c40e7d5a8f603".repeat(20),
        ] {
            assert!(ApiKeyEntry::new("acme", key).is_ok(), "{key}");
        }
    }

    #[test]
    fn a_rotated_key_keeps_its_scope() {
        let other = "sk_0b7d2ae4c95f4718a6e23d90f81b5c6477aa";
        let entries = [KEY, other].map(|key| ApiKeyEntry::new("acme", key).unwrap().to_string());
        let file = ApiKeyFile::parse(entries.join("\n").as_bytes()).unwrap();
        assert_eq!(file.find(KEY.as_bytes()), file.find(other.as_bytes()));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line_and_without_its_secrets() {
        let digest = "0".repeat(64);
        for (text, expected) in [
            ("", "there is no key in it; add a line that hapax keys hash prints".to_owned()),
            (
                "# nobody\n",
                "there is no key in it; add a line that hapax keys hash prints".to_owned(),
            ),
            ("\nhunter2", format!("line 2: {}", ApiKeyError::Shape)),
            ("acme = hunter2", format!("line 1: {}", ApiKeyError::Shape)),
            ("acme = sha256:hunter2", format!("line 1: {}", ApiKeyError::Digest)),
            (&format!("a b = sha256:{digest}"), format!("line 1: {}", ApiKeyError::Name)),
            (&format!("= sha256:{digest}"), format!("line 1: {}", ApiKeyError::Name)),
            (
                &format!("a = sha256:{digest}\n\nb = sha256:{digest}"),
                "line 3: the same key as on line 1, for another name; give each its own".to_owned(),
            ),
        ] {
            let error = ApiKeyFile::parse(text.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, expected, "{text}");
            assert!(!error.contains("hunter2"));
        }
        assert_eq!(ApiKeyFile::parse(b"\xff").unwrap_err(), ApiKeyFileError::NotText);
    }

    #[test]
    fn a_key_that_could_be_guessed_gets_no_entry() {
        for (key, expected) in [
            ("hunter2", ApiKeyError::Guessable),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ApiKeyError::Guessable),
            ("", ApiKeyError::Guessable),
            ("sk_live_aaaaaaaaaaaaaaaaaaaaaaaa", ApiKeyError::Guessable),
            ("two words 9f2c71e05ab84d36bb1c40e7", ApiKeyError::NotPlain),
        ] {
            assert_eq!(ApiKeyEntry::new("acme", key), Err(expected), "{key}");
        }
        assert_eq!(ApiKeyEntry::new("a=b", KEY), Err(ApiKeyError::Name));
    }
}
