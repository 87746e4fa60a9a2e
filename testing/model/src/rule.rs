//! The starred rules of the protocol: those that it does not hold without.

/// A starred rule of `protocol.md`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Where it is: its section or number, with a letter where a number holds several.
    pub number: &'static str,
    /// What it says, in short.
    pub says: &'static str,
    /// Whether the product has it by now. One that is not built is not modelled.
    pub built: bool,
}

const fn built(number: &'static str, says: &'static str) -> Rule {
    Rule { number, says, built: true }
}

const fn open(number: &'static str, says: &'static str) -> Rule {
    Rule { number, says, built: false }
}

/// Every starred rule.
pub const RULES: [Rule; 26] = [
    built("rows a", "an attempt ends by exactly one row in its slot"),
    built("rows b", "an ending is purged with its record, never before it"),
    built("1", "every write matches the owner's token, not the attempt alone"),
    built("2a", "attempts never go back: a release leaves a stub"),
    built("2b", "attempts compare as (epoch, number); a regression raises the epoch"),
    built("3", "a takeover's condition repeats everything that was read"),
    open("6", "a settle that finds no record re-inserts record and outcome"),
    built("7", "a write is issued again on the same incarnation of the store only"),
    built("8a", "a refusal releases only a clean record"),
    built("8b", "402, 403, 404, 409, 410, 412, 451 are terminal only of a clean record"),
    built("12a", "a probe's 404 is not seen yet, and final only by a closer"),
    built("12b", "a closing attempt is committed before the service is told"),
    built("13a", "a resend ends with what the service declares to remember"),
    built("13b", "the permission to resend is checked when the record is claimed"),
    built("13c", "the permission to resend is checked when the attempt is admitted"),
    built("15", "a process with another effect secret does not start"),
    built("17a", "a claim is guarded by the mark"),
    built("17b", "a takeover is guarded by the mark"),
    built("17c", "an admission is guarded by the mark"),
    built("18a", "a write is guarded by the incarnation"),
    open("18b", "after a change of incarnation nobody admits before the roll call of all nodes"),
    open("19a", "in a regression every record from before it is executing with its lease over"),
    open("19b", "in a regression a probe binds only with the intent's digest"),
    open("19c", "issued keys are provably new by epochs, not by clocks"),
    built("21a", "key-reused and key-expired come from the authoritative store only"),
    built("21b", "nothing there comes from the authoritative store only"),
];
