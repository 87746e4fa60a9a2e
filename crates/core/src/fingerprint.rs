//! The fingerprint of an intent: whether two requests under one key ask for the same.
//!
//! Two different intents must never share a digest; two spellings of one intent may have two,
//! which refuses a retry that changed its spelling but executes nothing wrongly. Everything here
//! leans to that side.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{Json, JsonError, PathPattern, Pointer, form, path_pattern::open_part, percent};

mod media_type;
mod rules;

pub use rules::RulesError;

use media_type::MediaType;

/// How a body is compared.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BodyForm {
    /// As a JSON value: member order, whitespace, escapes and the spelling of numbers do not
    /// count, the exact value of numbers, `null` and the order of arrays do.
    Json,
    /// As `application/x-www-form-urlencoded` fields: the order between fields of different names
    /// and the spelling of characters do not count.
    Form,
    /// Byte by byte.
    Raw,
    /// Not at all, and neither are media type, query and headers: for event ids, because providers
    /// change fields between deliveries of one event.
    None,
}

/// What makes two requests of an operation the same intent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FingerprintRules {
    /// How the body is compared. Without it the media type decides: `json` and `+json` are JSON,
    /// `x-www-form-urlencoded` is a form, everything else is compared byte by byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyForm>,
    /// The only parts of a JSON body that are compared; empty for all of it. A part that is absent
    /// is not the same as one that is `null`.
    pub include: Vec<Pointer>,
    /// Parts of a JSON body that are not compared, such as the client's clock.
    pub exclude: Vec<Pointer>,
    /// Members of a JSON body and the value that leaving them out stands for. A default applies
    /// where the object that would hold the member is there. As a map from pointer to value when
    /// serialized.
    #[serde(with = "rules::defaults")]
    pub defaults: Vec<(Pointer, Json<'static>)>,
    /// The names of request headers that are part of the intent, with all their values in order.
    pub headers: Vec<String>,
    /// The patterns of the operation's paths: of a path on one of them, what it leaves open is
    /// part of the intent. Without them the whole path is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathPattern>,
}

impl FingerprintRules {
    /// Whether the rules make sense together.
    ///
    /// Rules that do not are still safe to use: what cannot be applied is not applied, which
    /// compares more than was asked for.
    ///
    /// # Errors
    /// The first [`RulesError`] that is found.
    pub fn check(&self) -> Result<(), RulesError> {
        rules::check(self)
    }

    /// The rules in the form that fingerprints are made with; keep it where speed matters.
    pub fn prepare(&self) -> Fingerprinter {
        Fingerprinter::new(self)
    }

    /// The version of the fingerprints made by these rules.
    pub fn version(&self) -> FingerprintVersion {
        self.prepare().version()
    }

    /// The fingerprint of an intent. Prepares the rules each time: see [`Self::prepare`].
    ///
    /// # Errors
    /// [`BodyInvalid`]: see [`Fingerprinter::fingerprint`].
    pub fn fingerprint(&self, intent: &IntentParts<'_>) -> Result<Fingerprint, BodyInvalid> {
        self.prepare().fingerprint(intent)
    }
}

impl Default for FingerprintRules {
    /// The whole body by its media type, and the headers that make a request conditional
    /// (RFC 9110, section 13.1).
    fn default() -> Self {
        let conditional = ["if-match", "if-modified-since", "if-none-match", "if-unmodified-since"];
        Self {
            body: None,
            include: Vec::new(),
            exclude: Vec::new(),
            defaults: Vec::new(),
            headers: conditional.map(str::to_owned).into(),
            paths: Vec::new(),
        }
    }
}

/// The parts of a request that make its intent, as received.
#[derive(Clone, Copy)]
pub struct IntentParts<'a> {
    /// The stable name of the operation.
    pub operation: &'a str,
    /// The method; case counts.
    pub method: &'a str,
    /// The path as sent. The case of its encodings does not count (RFC 3986, section 6.2.2.1); on
    /// one of the rules' patterns neither does whether letters, digits and `-._~` are encoded.
    pub path: &'a str,
    /// The query as sent, without its `?`; `None` when there is none. Neither the case of
    /// encodings counts nor whether letters, digits and `-._~` are encoded (RFC 3986, section
    /// 6.2.2); `+`, `%20` and `%2B` stay different, because servers disagree about them.
    pub query: Option<&'a str>,
    /// The value of `Content-Type`; `None` when there is none. Its case and spacing do not count,
    /// and neither does `charset=utf-8` for JSON and forms; any other parameter does.
    pub media_type: Option<&'a [u8]>,
    /// The value of `Content-Encoding`; `None` when there is none. A coded body is compared byte by
    /// byte, and its coding is part of the intent.
    pub content_encoding: Option<&'a [u8]>,
    /// All headers of the request, in order.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body as sent.
    pub body: &'a [u8],
}

/// Makes fingerprints by one set of rules.
#[derive(Clone, Debug)]
pub struct Fingerprinter {
    version: FingerprintVersion,
    rules: FingerprintRules,
}

impl Fingerprinter {
    fn new(rules: &FingerprintRules) -> Self {
        let rules = rules::normal_form(rules);
        Self { version: FingerprintVersion::of(&rules), rules }
    }

    /// The version of the fingerprints that this makes.
    pub const fn version(&self) -> FingerprintVersion {
        self.version
    }

    /// Whether the values of a request header are part of the intent. Others need not be given.
    pub fn covers_header(&self, name: &str) -> bool {
        self.rules.headers.iter().any(|covered| covered.eq_ignore_ascii_case(name))
    }

    /// The fingerprint of an intent.
    ///
    /// # Errors
    /// [`BodyInvalid`] for a body that cannot be read as what it has to be compared as. An empty
    /// body is none of these: it is an intent of its own.
    pub fn fingerprint(&self, intent: &IntentParts<'_>) -> Result<Fingerprint, BodyInvalid> {
        let media_type = intent.media_type.map(MediaType::read);
        let form = self
            .rules
            .body
            .unwrap_or_else(|| media_type.as_ref().map_or(BodyForm::Raw, MediaType::natural_form));
        let coding = intent.content_encoding.map(|coding| coding.trim_ascii().to_ascii_lowercase());
        let coding = coding.filter(|coding| form != BodyForm::None && coding != b"identity");

        let mut parts = Components::new();
        parts.push(&self.version.to_bytes());
        parts.push(intent.method.as_bytes());
        parts.push(intent.operation.as_bytes());
        parts.build(|out| self.canonical_path(intent.path, out));
        // A number of its own, so that coded and plain bodies never meet.
        parts.tag(if coding.is_some() { CODED } else { form_code(Some(form)) });
        if form != BodyForm::None {
            parts.option(intent.query, |query, out| percent::unreserved(query.as_bytes(), out));
            parts.option(media_type, |media_type, out| media_type.canonical(out));
            self.push_headers(intent.headers, &mut parts);
        }
        if let Some(coding) = coding {
            parts.push(&coding);
            parts.push(intent.body);
            return Ok(Fingerprint { version: self.version, digest: parts.digest() });
        }
        match form {
            BodyForm::Json if !intent.body.is_empty() => {
                let body = Json::parse(intent.body).map_err(BodyInvalid::Json)?;
                parts.build(|out| {
                    out.reserve(intent.body.len());
                    self.canonical_json(body, out);
                });
            }
            BodyForm::Form => parts.build(|out| form::canonical(intent.body, out)),
            BodyForm::Raw | BodyForm::Json => parts.push(intent.body),
            BodyForm::None => {}
        }
        Ok(Fingerprint { version: self.version, digest: parts.digest() })
    }

    fn canonical_path(&self, path: &str, out: &mut Vec<u8>) {
        if self.rules.paths.is_empty() {
            return percent::upper_case(path.as_bytes(), out);
        }
        let mut spelled = Vec::with_capacity(path.len());
        percent::unreserved(path.as_bytes(), &mut spelled);
        // Decoding unreserved characters keeps it ASCII where it was.
        match std::str::from_utf8(&spelled) {
            Ok(path) => open_part(&self.rules.paths, path, out),
            Err(_) => out.extend_from_slice(&spelled),
        }
    }

    /// Never empty, so that an empty body has a canonical form of its own.
    fn canonical_json(&self, mut body: Json<'_>, out: &mut Vec<u8>) {
        for (place, value) in &self.rules.defaults {
            body.insert_absent(place, value);
        }
        // From the last to the first, so that no removal moves an element that is still named.
        for place in self.rules.exclude.iter().rev() {
            body.remove(place);
        }
        if self.rules.include.is_empty() {
            return body.canonical(out);
        }
        // The places are in the version; only what is there needs telling. A separator that JSON
        // does not have unescaped tells an absent part from any value.
        for place in &self.rules.include {
            if let Some(part) = body.get(place) {
                part.canonical(out);
            }
            out.push(0);
        }
    }

    fn push_headers(&self, headers: &[(&str, &[u8])], parts: &mut Components) {
        for name in &self.rules.headers {
            for (_, value) in headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)) {
                parts.tag(1);
                parts.push(value);
            }
            parts.tag(0);
        }
    }
}

/// Which rules a fingerprint was made by: the algorithm, and a digest of what was configured.
///
/// Fingerprints of different versions say nothing about each other: a record is compared under
/// the version it was stored with, and one that this node does not know is never guessed at.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FingerprintVersion([u8; Self::LENGTH]);

impl FingerprintVersion {
    /// Its length when stored, in bytes.
    pub const LENGTH: usize = 16;

    /// The algorithm of this release. Any change of what the same rules and the same request come
    /// to is a new one.
    pub const ALGORITHM: u8 = 1;

    fn of(rules: &FingerprintRules) -> Self {
        let mut bytes = rules::digest(rules);
        bytes[0] = Self::ALGORITHM;
        Self(bytes)
    }

    /// The algorithm's number.
    pub const fn algorithm(self) -> u8 {
        self.0[0]
    }

    /// The stored bytes.
    pub const fn to_bytes(self) -> [u8; Self::LENGTH] {
        self.0
    }

    /// From stored bytes, of whatever algorithm.
    pub const fn from_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for FingerprintVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [algorithm, a, b, c, ..] = self.0;
        write!(f, "FingerprintVersion({algorithm}/{a:02x}{b:02x}{c:02x}…)")
    }
}

/// The versioned digest of an intent: equal exactly when version and intent are.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Fingerprint {
    version: FingerprintVersion,
    digest: [u8; 32],
}

impl Fingerprint {
    /// Its length when stored, in bytes.
    pub const LENGTH: usize = FingerprintVersion::LENGTH + 32;

    /// From its stored parts.
    pub const fn new(version: FingerprintVersion, digest: [u8; 32]) -> Self {
        Self { version, digest }
    }

    /// The version it was made under.
    pub const fn version(&self) -> FingerprintVersion {
        self.version
    }

    /// The digest of the intent (SHA-256).
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// The stored bytes: version, then digest.
    pub fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let parts = self.version.0.iter().chain(&self.digest);
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// From stored bytes; `None` when there are not [`Self::LENGTH`] of them.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (version, digest) = bytes.split_first_chunk()?;
        Some(Self { version: FingerprintVersion(*version), digest: digest.try_into().ok()? })
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A digest of a small intent can be searched for, so it is not shown in full.
        let [a, b, c, d, ..] = self.digest;
        write!(f, "Fingerprint({:?}, {a:02x}{b:02x}{c:02x}{d:02x}…)", self.version)
    }
}

/// Why a body cannot be compared. Never shows any of it.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum BodyInvalid {
    /// Not acceptable as JSON.
    #[error("the body cannot be read as JSON: {0}")]
    Json(JsonError),
}

/// The components of an intent on their way into the hash, each behind its length.
struct Components {
    hash: Sha256,
    /// What is not hashed yet: many small parts are hashed together.
    buffer: Vec<u8>,
}

impl Components {
    /// A part of this size is hashed from where it is.
    const LARGE: usize = 1024;

    fn new() -> Self {
        let mut buffer = Vec::with_capacity(Self::LARGE / 2);
        buffer.extend_from_slice(b"hapax intent\0");
        Self { hash: Sha256::new(), buffer }
    }

    fn tag(&mut self, tag: u8) {
        self.buffer.push(tag);
    }

    fn push(&mut self, part: &[u8]) {
        if part.len() < Self::LARGE {
            return push_sized(part, &mut self.buffer);
        }
        self.buffer.extend((part.len() as u64).to_be_bytes());
        self.hash.update(&self.buffer);
        self.buffer.clear();
        self.hash.update(part);
    }

    fn build(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // The length is written when it is known.
        let start = self.buffer.len() + size_of::<u64>();
        self.buffer.extend([0; size_of::<u64>()]);
        write(&mut self.buffer);
        let length = (self.buffer.len() - start) as u64;
        if let Some((before, _)) = self.buffer.split_at_mut_checked(start)
            && let Some(place) = before.last_chunk_mut()
        {
            *place = length.to_be_bytes();
        }
    }

    fn option<T>(&mut self, part: Option<T>, write: impl FnOnce(T, &mut Vec<u8>)) {
        self.tag(u8::from(part.is_some()));
        if let Some(part) = part {
            self.build(|out| write(part, out));
        }
    }

    fn digest(mut self) -> [u8; 32] {
        self.hash.update(&self.buffer);
        self.hash.finalize().into()
    }
}

/// Appends a part behind its length, so that neighbours cannot flow into each other.
pub(crate) fn push_sized(part: &[u8], out: &mut Vec<u8>) {
    out.extend((part.len() as u64).to_be_bytes());
    out.extend_from_slice(part);
}

/// The frozen number of a body whose content coding was not removed.
const CODED: u8 = 5;

/// The frozen number of a body form.
const fn form_code(form: Option<BodyForm>) -> u8 {
    match form {
        None => 0,
        Some(BodyForm::Json) => 1,
        Some(BodyForm::Form) => 2,
        Some(BodyForm::Raw) => 3,
        Some(BodyForm::None) => 4,
    }
}

#[cfg(test)]
mod tests;
