//! The words that settings choose from.

use hapax_core::{BodyForm, KeySyntax, Mode, OnUnknown};

use super::{Fault, suggest::choice};

pub(super) fn on_unknown(text: &str) -> Result<OnUnknown, Fault> {
    if text == "probe" {
        return Err(Fault::new(
            "probing the service comes with a later version of hapax",
            "write \"hold\", or \"resend\" if the service collapses requests with the same \
             Idempotency-Key into one effect",
        ));
    }
    choice(text, &[("hold", OnUnknown::Hold), ("resend", OnUnknown::Resend)])
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
