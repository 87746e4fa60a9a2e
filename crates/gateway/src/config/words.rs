//! The words that settings choose from.

use hapax_core::{BodyForm, KeySyntax, Mode, OnUnknown};

use super::{Fault, suggest::choice};

pub(super) fn on_unknown(text: &str) -> Result<OnUnknown, Fault> {
    let words =
        [("hold", OnUnknown::Hold), ("probe", OnUnknown::Probe), ("resend", OnUnknown::Resend)];
    choice(text, &words)
}

/// The same by a flag, which cannot say how a service is asked.
pub(super) fn on_unknown_by_flag(text: &str) -> Result<OnUnknown, Fault> {
    match on_unknown(text) {
        Ok(OnUnknown::Probe) => Err(Fault::new(
            "a flag does not say how the service is asked what became of an effect",
            "write a file with on_unknown = \"probe\" and probe = { get = … }, and name it with \
             --config",
        )),
        other => other,
    }
}

pub(super) fn mode(text: &str) -> Result<Mode, Fault> {
    choice(text, &[("enforce", Mode::Enforce), ("observe", Mode::Observe)])
}

pub(super) fn key_syntax(text: &str) -> Result<KeySyntax, Fault> {
    choice(text, &[("lenient", KeySyntax::Lenient), ("strict", KeySyntax::Strict)])
}

pub(super) fn body_form(text: &str) -> Result<BodyForm, Fault> {
    let forms = [
        ("json", BodyForm::Json),
        ("jcs", BodyForm::Jcs),
        ("form", BodyForm::Form),
        ("multipart", BodyForm::Multipart),
        ("raw", BodyForm::Raw),
        ("none", BodyForm::None),
    ];
    choice(text, &forms)
}
