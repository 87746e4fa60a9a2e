//! The canonical text (RFC 8785, with exact numbers).

use super::{Json, PLAIN};

pub(super) fn write(value: &Json<'_>, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Bool(true) => out.extend_from_slice(b"true"),
        Json::Bool(false) => out.extend_from_slice(b"false"),
        Json::Number(number) => out.extend_from_slice(number.as_str().as_bytes()),
        Json::String(text) => write_string(text, out),
        Json::Array(items) => {
            let mut separator = b'[';
            for item in items {
                out.push(separator);
                separator = b',';
                write(item, out);
            }
            close(items.is_empty(), b"[]", out);
        }
        Json::Object(members) => {
            let mut separator = b'{';
            for (name, value) in members.iter() {
                out.push(separator);
                separator = b',';
                write_string(name, out);
                out.push(b':');
                write(value, out);
            }
            close(members.iter().len() == 0, b"{}", out);
        }
    }
}

fn close(empty: bool, [open, close]: &[u8; 2], out: &mut Vec<u8>) {
    if empty {
        out.push(*open);
    }
    out.push(*close);
}

/// Escapes what RFC 8785 (section 3.2.2.2) has escaped, and nothing else.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(plain) = rest.iter().position(|&byte| !PLAIN[usize::from(byte)]) {
        let (before, from) = rest.split_at_checked(plain).unwrap_or_default();
        out.extend_from_slice(before);
        let [byte, behind @ ..] = from else { break };
        write_escape(*byte, out);
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        b'"' | b'\\' => byte,
        _ => {
            let digit = match byte & 0xf {
                low @ 0..=9 => b'0' + low,
                low => b'a' + low - 10,
            };
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
