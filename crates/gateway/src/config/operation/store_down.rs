//! What happens to a request while the store is not available.

use hapax_core::{Mode, StoreDown};

use crate::config::{
    Fault,
    draft::OperationDraft,
    section::{Section, Value},
    suggest::choice,
};

pub(super) fn read(value: Value<'_>, draft: &mut OperationDraft) {
    let words = [("refuse", StoreDown::Refuse), ("pass", StoreDown::Pass)];
    let store_down = value.parse("a word", "refuse", |text| choice(text, &words));
    draft.set("store_down", store_down, |policy, value| policy.store_down = value);
}

/// Whether what passes without a record is of any use to the operation.
pub(super) fn check(section: &Section<'_>, draft: &OperationDraft) {
    let policy = &draft.policy;
    if policy.store_down == StoreDown::Pass && policy.mode == Mode::Observe {
        let what = "an operation that is only observed passes whatever the store does";
        let help = "remove it, or write mode = \"enforce\"";
        section.report().add(draft.place_of(&["store_down"]), Fault::new(what, help));
    }
}
