//! The `[problems]` table: how problems are presented.

use std::collections::BTreeMap;

use hapax_core::{ProblemKind, says_not_applied};
use toml::de::DeValue;

use super::{
    Fault,
    section::{Section, Value},
    suggest::{nearest, shown},
};

/// How problems are presented. Their types are the contract; the rest is taste.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Problems {
    /// What stands before a problem's name in its type. Default: `urn:hapax:problem:`.
    pub base: Option<String>,
    /// The status of kinds that do not have their usual one.
    pub status_codes: StatusCodes,
}

/// The statuses of kinds of problem that do not have their usual one.
pub type StatusCodes = BTreeMap<ProblemKind, u16>;

pub(super) fn read(mut section: Section<'_>) -> Problems {
    const BASE: &str = "https://api.example/problems/";
    let mut problems = Problems::default();
    if let Some(base) = section.take("base") {
        let base = base.parse("a URI", BASE, |text| match text.parse::<http::Uri>() {
            Ok(uri) if uri.scheme().is_some() && text.ends_with(['/', '#', '=', ':']) => {
                Ok(text.to_owned())
            }
            _ => Err(Fault::new(
                "a problem's name is put behind it, so it is an absolute URI that ends with a slash",
                format!("write it as in base = \"{BASE}\""),
            )),
        });
        problems.base = base.map(|base| base.value);
    }
    if let Some(codes) = section.take("status_codes") {
        problems.status_codes = status_codes(codes);
    }
    section.finish();
    problems
}

/// Reads `{ in-flight = 423 }`.
pub(super) fn status_codes(value: Value<'_>) -> StatusCodes {
    let Some(mut section) = value.section("{ in-flight = 423 }") else {
        return StatusCodes::new();
    };
    let mut codes = StatusCodes::new();
    for (name, value) in section.take_all() {
        let Some(kind) = ProblemKind::ALL.into_iter().find(|kind| kind.name() == name) else {
            value.wrong(unknown(&name));
            continue;
        };
        let DeValue::Integer(number) = value.toml() else {
            value.mismatch::<()>("a status", "423");
            continue;
        };
        match u16::from_str_radix(number.as_str(), number.radix()) {
            Ok(code) if is_failure(code) && !(leaves_open(kind) && says_not_applied(code)) => {
                codes.insert(kind, code);
            }
            Ok(code) if is_failure(code) => value.wrong(Fault::new(
                format!("{code} tells callers that nothing happened, and that is not known"),
                format!("write one that does not, such as {}", kind.status()),
            )),
            _ => value.wrong(Fault::new(
                "a problem's status is one of a failure",
                format!("write a number from 400 to 599, such as {}", kind.status()),
            )),
        }
    }
    codes
}

/// Whether a caller that knows nothing of problem types takes it for a failure. 401 asks for
/// credentials, and 407 speaks of a proxy's.
const fn is_failure(code: u16) -> bool {
    matches!(code, 400..=599) && code != 401 && code != 407
}

/// Whether the effect may have happened, or may be happening, where a problem is of this kind.
const fn leaves_open(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::OutcomeUnknown | ProblemKind::InFlight)
}

fn unknown(name: &str) -> Fault {
    let names = ProblemKind::ALL.iter().map(|kind| kind.name());
    let help = match nearest(name, names) {
        Some(known) => format!("did you mean {known:?}?"),
        None => "the kinds of problem are listed in docs/problems".to_owned(),
    };
    Fault::new(format!("{} is no kind of problem", shown(name)), help)
}
