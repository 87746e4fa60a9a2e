//! The fingerprint of an intent: whether two requests under one key ask for the same.
//!
//! Two different intents must never share a digest; two spellings of one intent may have two,
//! which refuses a retry that changed its spelling but executes nothing wrongly. Everything here
//! leans to that side.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Json, PathPattern, Pointer, form, multipart, path_pattern::open_part, percent};

mod algorithm;
mod body;
mod components;
mod media_type;
mod rules;

pub use body::BodyInvalid;
pub use rules::RulesError;

use algorithm::Algorithm;
pub(crate) use body::check_charset;
use components::Components;
pub(crate) use components::{push_built, push_sized};
pub(crate) use media_type::{Charset, MediaType};

/// How a body is compared.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BodyForm {
    /// As a JSON value: member order, whitespace, escapes and the spelling of numbers do not
    /// count, the exact value of numbers, `null` and the order of arrays do.
    Json,
    /// As a JSON value in the strict sense of RFC 8785: a number is the IEEE 754 double next to it,
    /// so 9007199254740993 and 9007199254740992 are one number, and one outside of their range is
    /// refused. For digests that others compute too; [`BodyForm::Json`] merges nothing.
    Jcs,
    /// As `application/x-www-form-urlencoded` fields: the order between fields of different names
    /// and the spelling of characters do not count. With a charset other than UTF-8 it is compared
    /// byte by byte.
    Form,
    /// As the parts of a `multipart` body (RFC 7578), in their order: the header fields of each, and
    /// its content byte by byte. The boundary does not count.
    Multipart,
    /// Byte by byte.
    Raw,
    /// Not at all, and neither are media type, query and headers: for event ids, because providers
    /// change fields between deliveries of one event.
    None,
}

impl BodyForm {
    /// How much memory reading a body as this takes at the most, in bytes: many times its length, if
    /// it is made for that. Finding out costs a small part of the reading.
    pub fn reading_cost(self, content: &[u8]) -> usize {
        match self {
            Self::Json | Self::Jcs => Json::parsing_cost(content),
            Self::Form => form::cost(content),
            Self::Multipart => multipart::cost(content),
            Self::Raw | Self::None => 0,
        }
    }
}

/// What makes two requests of an operation the same intent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FingerprintRules {
    /// How the body is compared. Without it the media type decides: `json` and `+json` are JSON,
    /// `x-www-form-urlencoded` is a form, `multipart/form-data` is multipart, everything else is
    /// compared byte by byte.
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
    /// Arrays of a JSON body whose order does not count; how often an element is there does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unordered: Vec<Pointer>,
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
        Fingerprinter::new(self, Algorithm::LATEST)
    }

    /// As [`Self::prepare`], for fingerprints of a version that is stored. `None` where these rules
    /// did not make it, by any algorithm that is known here: then nothing can be said about it.
    pub fn prepare_for(&self, version: FingerprintVersion) -> Option<Fingerprinter> {
        let algorithm = Algorithm::of_number(version.algorithm())?;
        Some(Fingerprinter::new(self, algorithm)).filter(|made| made.version() == version)
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
            unordered: Vec::new(),
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
    /// and neither do `charset=utf-8` for JSON and forms and the boundary of multipart; any other
    /// parameter does.
    pub media_type: Option<&'a [u8]>,
    /// The value of `Content-Encoding`; `None` when there is none.
    pub content_encoding: Option<&'a [u8]>,
    /// All headers of the request, in order.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body as sent.
    pub body: &'a [u8],
    /// The body without its content codings. `None` where they were not removed: then it is
    /// compared byte by byte, and its coding is part of the intent.
    pub decoded: Option<&'a [u8]>,
}

/// Makes fingerprints by one set of rules.
#[derive(Clone, Debug)]
pub struct Fingerprinter {
    version: FingerprintVersion,
    algorithm: Algorithm,
    rules: FingerprintRules,
    /// The lengths of the headers that are covered, a bit for each.
    header_lengths: u64,
}

impl Fingerprinter {
    fn new(rules: &FingerprintRules, algorithm: Algorithm) -> Self {
        let rules = rules::normal_form(rules);
        let header_lengths = rules.headers.iter().fold(0, |bits, name| bits | length_bit(name));
        Self {
            version: FingerprintVersion::of(&rules, algorithm),
            algorithm,
            rules,
            header_lengths,
        }
    }

    /// The version of the fingerprints that this makes.
    pub const fn version(&self) -> FingerprintVersion {
        self.version
    }

    /// Whether the values of a request header are part of the intent. Others need not be given.
    pub fn covers_header(&self, name: &str) -> bool {
        // Most headers of a request are as long as none of them.
        self.header_lengths & length_bit(name) != 0
            && self.rules.headers.iter().any(|covered| covered.eq_ignore_ascii_case(name))
    }

    /// How much memory the fingerprint of an intent takes at the most while it is made, beside the
    /// intent: see [`BodyForm::reading_cost`].
    pub fn cost(&self, intent: &IntentParts<'_>) -> usize {
        let form =
            self.algorithm.form(self.rules.body, intent.media_type.map(MediaType::read).as_ref());
        match self.algorithm.coding(intent) {
            Some(_) => 0,
            None => body::cost(&self.rules, form, self.algorithm.content(intent)),
        }
    }

    /// The fingerprint of an intent.
    ///
    /// # Errors
    /// [`BodyInvalid`] for a body that cannot be read as what it has to be compared as. An empty
    /// body is none of these: it is an intent of its own.
    pub fn fingerprint(&self, intent: &IntentParts<'_>) -> Result<Fingerprint, BodyInvalid> {
        let media_type = intent.media_type.map(MediaType::read);
        let form = self.algorithm.form(self.rules.body, media_type.as_ref());
        let coding = self.algorithm.coding(intent).filter(|_| form != BodyForm::None);

        let mut parts = Components::new();
        parts.push(&self.version.to_bytes());
        parts.push(intent.method.as_bytes());
        parts.push(intent.operation.as_bytes());
        parts.build(|out| self.canonical_path(intent.path, out));
        // A number of its own, so that coded and plain bodies never meet.
        parts.tag(if coding.is_some() { CODED } else { form_code(Some(form)) });
        if form != BodyForm::None {
            parts.option(intent.query, |query, out| percent::unreserved(query.as_bytes(), out));
            parts.option(media_type.as_ref(), |media_type, out| {
                self.algorithm.canonical_media_type(media_type, form, out);
            });
            self.push_headers(intent.headers, &mut parts);
        }
        match coding {
            Some(coding) => {
                parts.push(&coding);
                parts.push(intent.body);
            }
            None => {
                self.algorithm.check(form, media_type.as_ref())?;
                let content = self.algorithm.content(intent);
                let media_type = media_type.as_ref();
                body::push(self.algorithm, &self.rules, form, media_type, content, &mut parts)?;
            }
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

/// One bit for each length; the longest share one.
const fn length_bit(name: &str) -> u64 {
    let length = if name.len() < 63 { name.len() } else { 63 };
    1 << length
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
    pub const ALGORITHM: u8 = Algorithm::LATEST as u8;

    fn of(rules: &FingerprintRules, algorithm: Algorithm) -> Self {
        let mut bytes = rules::digest(rules);
        bytes[0] = algorithm as u8;
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
        // 5 is CODED.
        Some(BodyForm::Jcs) => 6,
        Some(BodyForm::Multipart) => 7,
    }
}

#[cfg(test)]
mod tests;
