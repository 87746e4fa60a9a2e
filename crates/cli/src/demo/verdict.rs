//! The verdict: what the clients were told, held against the service's own books.
//!
//! The ledger is the truth. It knows payees, not keys, so nothing that hapax says counts here.

use std::{collections::HashMap, fmt};

use super::{
    order::Payment,
    storm::{History, Told},
};

/// One thing that must not be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Finding {
    /// The payee, which stands for the intent.
    pub(super) payee: String,
    pub(super) wrong: Wrong,
}

/// What must not be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Wrong {
    /// It took effect so many times.
    TookEffect(usize),
    /// What took effect is not what was ordered first.
    OtherEffect,
    /// A client was told a success, and the ledger does not have it.
    SuccessWithoutEffect,
    /// Two clients were told different successes.
    DifferentSuccesses,
    /// A client was told a failure, and the ledger has the effect.
    FailureInSpiteOfEffect,
    /// A client that changed nothing was told a failure.
    Refused,
    /// A changed order under a known key was not refused with 422.
    ChangeNotRefused,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.payee)?;
        match self.wrong {
            Wrong::TookEffect(times) => write!(f, "took effect {times} times"),
            Wrong::OtherEffect => f.write_str("another order than the first took effect"),
            Wrong::SuccessWithoutEffect => f.write_str("a client was told a success that is not"),
            Wrong::DifferentSuccesses => f.write_str("clients were told different successes"),
            Wrong::FailureInSpiteOfEffect => {
                f.write_str("a client was told a failure, and it took effect")
            }
            Wrong::Refused => f.write_str("an unchanged request was refused"),
            Wrong::ChangeNotRefused => f.write_str("a changed request was not refused with 422"),
        }
    }
}

/// Everything that must not be.
pub(super) fn judge(histories: &[History], ledger: &[Payment]) -> Vec<Finding> {
    let mut by_payee: HashMap<&str, Vec<&Payment>> = HashMap::new();
    for payment in ledger {
        by_payee.entry(&payment.order.to).or_default().push(payment);
    }
    let findings = histories.iter().flat_map(|history| {
        let payee = &history.intent.order.to;
        let effects = by_payee.get(payee.as_str()).map_or(&[][..], Vec::as_slice);
        wrongs(history, effects).into_iter().map(|wrong| Finding { payee: payee.clone(), wrong })
    });
    let mut findings: Vec<_> = findings.collect();
    findings.sort_by(|one, other| one.payee.cmp(&other.payee));
    findings
}

fn wrongs(history: &History, effects: &[&Payment]) -> Vec<Wrong> {
    let mut wrongs = Vec::new();
    if effects.len() > 1 {
        wrongs.push(Wrong::TookEffect(effects.len()));
    }
    if effects.iter().any(|effect| effect.order != history.intent.order) {
        wrongs.push(Wrong::OtherEffect);
    }
    let mut successes = history.told.iter().filter(|told| matches!(told, Told::Success { .. }));
    if let Some(first) = successes.next() {
        if !is_of(first, effects) {
            wrongs.push(Wrong::SuccessWithoutEffect);
        }
        if successes.any(|other| other != first) {
            wrongs.push(Wrong::DifferentSuccesses);
        }
    }
    if history.told.iter().any(|told| matches!(told, Told::Refused { .. })) {
        let taken = !effects.is_empty();
        wrongs.push(if taken { Wrong::FailureInSpiteOfEffect } else { Wrong::Refused });
    }
    match &history.changed {
        None | Some(Told::Open | Told::Refused { status: 422, .. }) => {}
        Some(_) => wrongs.push(Wrong::ChangeNotRefused),
    }
    wrongs
}

/// Whether a success tells of one of these effects, and of it alone.
fn is_of(told: &Told, effects: &[&Payment]) -> bool {
    let Told::Success { location, body, .. } = told else { return false };
    serde_json::from_slice::<Payment>(body).is_ok_and(|claimed| {
        let found = effects.iter().any(|effect| **effect == claimed);
        found && location.as_deref() == Some(&format!("/payments/{}", claimed.id))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::demo::{order::Order, plan::Intent};

    fn order(amount: u32) -> Order {
        Order { amount, currency: "EUR".to_owned(), to: "alice".to_owned() }
    }

    fn payment(id: &str) -> Payment {
        Payment { id: id.to_owned(), order: order(100) }
    }

    fn success(id: &str) -> Told {
        let body = serde_json::to_vec(&payment(id)).unwrap();
        Told::Success { status: 201, location: Some(format!("/payments/{id}")), body }
    }

    fn refused(status: u16) -> Told {
        Told::Refused { status, problem: None }
    }

    fn history(told: Vec<Told>, changed: Option<Told>) -> History {
        let intent =
            Intent { key: String::new(), order: order(100), copies: Vec::new(), changed: true };
        History { intent: Arc::new(intent), started: true, told, changed }
    }

    fn found(history: History, ledger: &[Payment]) -> Vec<Wrong> {
        judge(&[history], ledger).into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn one_effect_and_the_same_answer_for_all_is_right() {
        let all_is_well = history(vec![success("1"), success("1")], Some(refused(422)));
        assert_eq!(found(all_is_well, &[payment("1")]), []);
    }

    #[test]
    fn nobody_has_to_know_when_the_time_is_up() {
        assert_eq!(found(history(vec![Told::Open], None), &[]), []);
        assert_eq!(found(history(vec![Told::Open], Some(Told::Open)), &[payment("1")]), []);
    }

    #[test]
    fn every_wrong_is_seen() {
        let twice = [payment("1"), payment("2")];
        let other = [Payment { order: order(101), ..payment("1") }];
        let cases = [
            (history(vec![success("1")], None), &twice[..], Wrong::TookEffect(2)),
            (history(vec![Told::Open], None), &other[..], Wrong::OtherEffect),
            (history(vec![success("1")], None), &[], Wrong::SuccessWithoutEffect),
            (history(vec![success("3")], None), &twice[..1], Wrong::SuccessWithoutEffect),
            (history(vec![refused(409)], None), &twice[..1], Wrong::FailureInSpiteOfEffect),
            (history(vec![refused(422)], None), &[], Wrong::Refused),
        ];
        for (history, ledger, wrong) in cases {
            assert_eq!(found(history, ledger), [wrong]);
        }
        let different = history(vec![success("1"), success("2")], None);
        assert_eq!(found(different, &twice), [Wrong::TookEffect(2), Wrong::DifferentSuccesses]);
        for accepted in [success("1"), refused(409)] {
            let changed = history(vec![success("1")], Some(accepted));
            assert_eq!(found(changed, &twice[..1]), [Wrong::ChangeNotRefused]);
        }
    }
}
