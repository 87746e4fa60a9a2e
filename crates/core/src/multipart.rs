//! `multipart` bodies (RFC 2046, section 5.1; RFC 7578), on bytes.
//!
//! The canonical form leaves out the boundary, which clients draw anew for each attempt, and the
//! order of a part's header fields. It keeps all else, because a false difference is the safe side:
//! the order of the parts, every header field of theirs as it was sent, and the bytes around them.
//! What some reader would divide into other parts is refused.

use std::borrow::Cow;

use memchr::memmem;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::fingerprint::{MediaType, push_sized};

/// The most parts that are read.
const MAX_PARTS: usize = 1024;

/// The most header fields of one part.
const MAX_FIELDS: usize = 32;

/// The longest boundary (RFC 2046, section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// What makes a body not acceptable as multipart.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum MultipartFault {
    /// `Content-Type` names no boundary, or several.
    #[error("its Content-Type names no boundary, or more than one; name one")]
    NoBoundary,
    /// No boundary by the grammar (RFC 2046, section 5.1.1).
    #[error(
        "its boundary is none; use 1 to 70 of the characters a-z A-Z 0-9 ' ( ) + _ , - . / : = ?"
    )]
    BadBoundary,
    /// The last boundary is missing.
    #[error("it ends before its last boundary; send it whole")]
    NotClosed,
    /// A line begins with the boundary and is no boundary, or ends without CRLF.
    #[error("a line begins with its boundary and goes on; choose a boundary that no content has")]
    Unclear,
    /// A part's header fields are malformed (RFC 2046, section 5.1).
    #[error("the header of a part is malformed; end each of its lines, and itself, with CRLF")]
    BadHeader,
    /// While a part is looked for by its name: one of which not everybody reads the same name, or
    /// whether it has one.
    #[error(
        "the name of a part is unclear; give each one Content-Disposition, as in form-data; \
         name=\"id\", with one name and nothing that needs quotes without them"
    )]
    UnclearName,
    /// More than 1024 parts.
    #[error("it has more than 1024 parts; send fewer")]
    TooManyParts,
    /// More than 32 header fields in one part.
    #[error("a part has more than 32 header fields; send fewer")]
    TooManyFields,
}

/// Appends the canonical form of a body. Bodies of different meaning have different ones.
pub(crate) fn canonical(
    body: &[u8],
    boundary: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), MultipartFault> {
    let Multipart { before, mut parts, behind } = Multipart::read(body, boundary)?;
    push_sized(before, out);
    push_sized(behind, out);
    for Part { fields, content } in &mut parts {
        // Stable: two fields of one name keep their order.
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, value) in fields {
            out.push(1);
            push_sized(name, out);
            push_sized(value, out);
        }
        out.push(0);
        out.extend_from_slice(&Sha256::digest(content));
    }
    Ok(())
}

/// How much memory [`canonical`] takes at the most, in bytes.
pub(crate) fn cost(body: &[u8]) -> usize {
    // Lists double as they grow. Each field has a name of its own, and is written; so is the digest
    // of each part.
    const PART: usize = 3 * (size_of::<Part<'_>>() + size_of::<[u8; 32]>());
    const FIELD: usize = 3 * size_of::<(Vec<u8>, &[u8])>() + 3 * 24 + 32;
    let fields = memchr::memchr_iter(b':', body).count().min(MAX_PARTS * MAX_FIELDS);
    MAX_PARTS * PART + fields * FIELD + body.len().saturating_mul(4)
}

/// The contents of the parts of this name, in order. A part whose name is unclear may be one.
pub(crate) fn values<'b>(
    body: &'b [u8],
    boundary: Option<&[u8]>,
    name: &str,
) -> Result<Vec<&'b [u8]>, MultipartFault> {
    let mut values = Vec::new();
    for part in Multipart::read(body, boundary)?.parts {
        if part.name()?.is_some_and(|found| *found == *name.as_bytes()) {
            values.push(part.content);
        }
    }
    Ok(values)
}

struct Multipart<'b> {
    /// What stands before the first boundary.
    before: &'b [u8],
    parts: Vec<Part<'b>>,
    /// What stands behind the last boundary.
    behind: &'b [u8],
}

struct Part<'b> {
    /// Names in lower case, values without the space around them.
    fields: Vec<(Vec<u8>, &'b [u8])>,
    content: &'b [u8],
}

impl<'b> Multipart<'b> {
    fn read(body: &'b [u8], boundary: Option<&[u8]>) -> Result<Self, MultipartFault> {
        let boundary = boundary.ok_or(MultipartFault::NoBoundary)?;
        if !is_boundary(boundary) {
            return Err(MultipartFault::BadBoundary);
        }
        let dashed = [b"--", boundary].concat();
        let mut before = None;
        let mut parts = Vec::new();
        let mut behind = None;
        // Where the part begins that is under way.
        let mut begin = 0;
        for at in memmem::find_iter(body, &dashed) {
            let Some(line) = Line::at(body, at, dashed.len())? else { continue };
            let content = body.get(begin..line.begin);
            match before {
                None => before = Some(content.unwrap_or_default()),
                Some(_) if behind.is_some() => return Err(MultipartFault::Unclear),
                Some(_) if parts.len() == MAX_PARTS => return Err(MultipartFault::TooManyParts),
                // Two boundaries share their line break: there is not even an empty part.
                Some(_) => parts.push(Part::read(content.ok_or(MultipartFault::BadHeader)?)?),
            }
            begin = line.end;
            if line.is_last {
                behind = Some(body.get(line.end..).unwrap_or_default());
            }
        }
        match (before, behind) {
            (Some(before), Some(behind)) => Ok(Self { before, parts, behind }),
            _ => Err(MultipartFault::NotClosed),
        }
    }
}

/// A line that is a boundary.
struct Line {
    /// Where it begins, its line break before it included.
    begin: usize,
    /// Where what follows it begins.
    end: usize,
    is_last: bool,
}

impl Line {
    /// The line of a boundary that was found at `at`; `None` in the middle of a line.
    fn at(body: &[u8], at: usize, length: usize) -> Result<Option<Self>, MultipartFault> {
        let (before, from) = body.split_at_checked(at).unwrap_or_default();
        let begin = match before {
            [] => 0,
            [.., b'\r', b'\n'] => at - 2,
            // Some readers take these for line breaks too.
            [.., b'\r' | b'\n'] => return Err(MultipartFault::Unclear),
            _ => return Ok(None),
        };
        let mut rest = from.get(length..).unwrap_or_default();
        let is_last = rest.starts_with(b"--");
        if is_last {
            rest = rest.get(2..).unwrap_or_default();
        }
        while let [b' ' | b'\t', behind @ ..] = rest {
            rest = behind;
        }
        let end = match rest {
            [b'\r', b'\n', behind @ ..] => body.len() - behind.len(),
            [] if is_last => body.len(),
            _ => return Err(MultipartFault::Unclear),
        };
        Ok(Some(Self { begin, end, is_last }))
    }
}

impl<'b> Part<'b> {
    fn read(part: &'b [u8]) -> Result<Self, MultipartFault> {
        if let Some(content) = part.strip_prefix(b"\r\n") {
            return Ok(Self { fields: Vec::new(), content });
        }
        let end = memmem::find(part, b"\r\n\r\n").ok_or(MultipartFault::BadHeader)?;
        let (mut header, content) = part.split_at_checked(end).unwrap_or_default();
        let content = content.get(4..).unwrap_or_default();
        let mut fields = Vec::new();
        while !header.is_empty() {
            let end = memmem::find(header, b"\r\n").unwrap_or(header.len());
            let (line, rest) = header.split_at_checked(end).unwrap_or_default();
            if fields.len() == MAX_FIELDS {
                return Err(MultipartFault::TooManyFields);
            }
            fields.push(field(line).ok_or(MultipartFault::BadHeader)?);
            header = rest.get(2..).unwrap_or_default();
        }
        Ok(Self { fields, content })
    }

    /// Its name; `None` where nobody finds one.
    fn name(&self) -> Result<Option<Cow<'b, [u8]>>, MultipartFault> {
        let mut of_name = self.fields.iter().filter(|(field, _)| field == b"content-disposition");
        let Some((_, disposition)) = of_name.next() else { return Ok(None) };
        let name = MediaType::read(disposition).only_plain(b"name");
        name.filter(|_| of_name.next().is_none()).ok_or(MultipartFault::UnclearName)
    }
}

/// A header field. Neither folded lines nor control characters are any.
fn field(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = line.split_at_checked(colon)?;
    let value = value.get(1..)?;
    let is_name = !name.is_empty() && name.iter().all(|&byte| MediaType::is_token(byte));
    let is_value = value.iter().all(|&byte| byte == b'\t' || !byte.is_ascii_control());
    (is_name && is_value).then(|| (name.to_ascii_lowercase(), value.trim_ascii()))
}

fn is_boundary(boundary: &[u8]) -> bool {
    let fits = |&byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    (1..=MAX_BOUNDARY).contains(&boundary.len())
        && boundary.iter().all(fits)
        && !boundary.ends_with(b" ")
}

#[cfg(test)]
mod tests;
