//! What an operation promises and permits, and whether that is consistent.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    BodyForm, FingerprintRules, KeyPolicy, OutcomeRules, Pointer, PolicyDigest, StoreTime,
};

/// The stable name of a kind of effect, such as `payments.create`: part of the identity of every
/// record, so renaming an operation makes its keys new. Cheap to clone.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationName(Arc<str>);

impl OperationName {
    /// 1 to 128 characters of `a-z A-Z 0-9 . _ -`.
    ///
    /// # Errors
    /// [`PolicyError::Name`] for anything else.
    pub fn new(name: &str) -> Result<Self, PolicyError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 128 || !name.chars().all(fits) {
            return Err(PolicyError::Name);
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OperationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How an operation relates to repetition (requirement K1).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It takes effect once under a key.
    Keyed,
    /// Repeating it changes nothing by its nature (PUT that sets, DELETE): no key needed.
    Natural,
    /// It is deliberately not protected.
    Unprotected {
        /// Why, in the operator's words.
        reason: String,
    },
}

/// Where a key comes from and what it must look like.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeyRules {
    /// Whether an attempt without a key is refused with `key-missing`; otherwise it passes
    /// through unprotected.
    pub required: bool,
    /// Where it is.
    pub from: KeySource,
    /// What a key must look like.
    pub policy: KeyPolicy,
}

/// Where a request carries its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeySource {
    /// In the header field of this name, in lower case.
    Header(String),
    /// At this place of a JSON body; in the field or part that it names of a form or a multipart
    /// body. The body is read before it is known whether there is a key.
    Body(Pointer),
}

impl KeySource {
    /// The field that clients put keys into which they made for it.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

    /// The floors of keys from here, where none are named: only of a key that was made to be one
    /// anything can be asked.
    pub fn default_policy(&self) -> KeyPolicy {
        match self {
            Self::Header(name) if name == Self::IDEMPOTENCY_KEY => KeyPolicy::default(),
            Self::Header(_) | Self::Body(_) => KeyPolicy::NO_FLOOR,
        }
    }
}

impl Default for KeySource {
    /// `Idempotency-Key`.
    fn default() -> Self {
        Self::Header(Self::IDEMPOTENCY_KEY.to_owned())
    }
}

/// What a duplicate gets while the first attempt is under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InFlight {
    /// `in-flight` at once.
    Conflict,
    /// It waits this long for the answer, then `in-flight`.
    Wait(Duration),
}

/// What may be done about an outcome that is unknown after a crash, a timeout, a lost answer or a
/// 5xx. Ordered from the stricter to the more permissive.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnknown {
    /// Nothing is executed again until the outcome is known.
    Hold,
    /// The service is asked what became of the effect id. What it knows is the outcome; where it
    /// knows nothing, the next retry executes only as [`Resend`](Self::Resend) permits, or once a
    /// closer has made "not there" final.
    Probe,
    /// The next retry executes again under the same effect id: for downstreams that collapse on
    /// it, within [`OperationPolicy::collapse_for`].
    Resend,
}

impl fmt::Display for OnUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hold => "hold",
            Self::Probe => "probe",
            Self::Resend => "resend",
        })
    }
}

/// What happens to a request while the store is not available.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum StoreDown {
    /// It is refused: nothing is claimed, nothing executed.
    #[default]
    Refuse,
    /// It passes unprotected by a record, under the effect id that it would have had; what ran is
    /// noted on disk beside the store and reconciled when the store is back.
    Pass,
}

/// How long an ending is remembered, both from the settle.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Retention {
    /// How long the outcome is replayed.
    pub outcome: Duration,
    /// How long the key is refused with `key-expired` instead of executing, outcome included.
    pub tombstone: Duration,
}

impl Retention {
    /// The moments at which what is settled `now` ends.
    pub fn until(&self, now: StoreTime) -> crate::Until {
        crate::Until { outcome: now.after(self.outcome), tombstone: now.after(self.tombstone) }
    }
}

impl Default for Retention {
    /// 24 hours and 30 days.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self { outcome: DAY, tombstone: DAY.saturating_mul(30) }
    }
}

/// Whether the gateway acts or only reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Duplicates are answered, changed intents refused.
    Enforce,
    /// Everything is forwarded; what would have been done is reported.
    Observe,
}

/// All that is decided for one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationPolicy {
    /// Its stable name.
    pub name: OperationName,
    /// How it relates to repetition.
    pub kind: Kind,
    /// Where its key comes from.
    pub key: KeyRules,
    /// What makes two requests the same intent.
    pub fingerprint: FingerprintRules,
    /// What a duplicate gets while the first attempt is under way.
    pub in_flight: InFlight,
    /// What may be done about an unknown outcome.
    pub on_unknown: OnUnknown,
    /// How long the downstream collapses on the effect id.
    pub collapse_for: Option<Duration>,
    /// The longest time a sent request can still be under way.
    pub late_arrival: Duration,
    /// How long after its admission the downstream still takes an attempt, where it enforces that:
    /// what is not there afterwards never will be.
    pub deadline: Option<Duration>,
    /// How long a holder is presumed alive without a renewal; renewed at a third of it.
    pub lease: Duration,
    /// The time to the complete answer of one execution.
    pub timeout: Duration,
    /// How long outcomes and tombstones are remembered.
    pub retention: Retention,
    /// The retry horizon of each source that feeds the operation; must fit the tombstone.
    pub retried_by: Vec<(String, Duration)>,
    /// The largest response body that is kept, in bytes.
    pub response_cap: usize,
    /// Response headers replayed beside the standard ones, in lower case.
    pub replay_headers: Vec<String>,
    /// Whether refusals (400, 401, 422, 429) are kept instead of freeing the key.
    pub store_refusals: bool,
    /// What the body of a 2xx answer says of the effect, where the status does not.
    pub outcome: Option<OutcomeRules>,
    /// Whether the gateway acts or only reports.
    pub mode: Mode,
    /// What happens while the store is not available.
    pub store_down: StoreDown,
    /// Where the effect happens: the upstream's origin.
    pub target: String,
}

impl OperationPolicy {
    /// A keyed operation with the defaults of the product.
    pub fn new(name: OperationName, target: impl Into<String>) -> Self {
        Self {
            name,
            kind: Kind::Keyed,
            key: KeyRules::default(),
            fingerprint: FingerprintRules::default(),
            in_flight: InFlight::Wait(Duration::from_secs(2)),
            on_unknown: OnUnknown::Hold,
            collapse_for: None,
            late_arrival: Duration::from_secs(60),
            deadline: None,
            lease: Duration::from_secs(30),
            timeout: Duration::from_secs(20),
            retention: Retention::default(),
            retried_by: Vec::new(),
            response_cap: 1 << 20,
            replay_headers: Vec::new(),
            store_refusals: false,
            outcome: None,
            mode: Mode::Enforce,
            store_down: StoreDown::Refuse,
            target: target.into(),
        }
    }

    /// What is wrong with it, each with its remedy; empty when it is consistent.
    pub fn check(&self) -> Vec<PolicyError> {
        let mut wrong = Vec::new();
        let mut require = |fits: bool, error: PolicyError| {
            if !fits {
                wrong.push(error);
            }
        };
        if let Kind::Unprotected { reason } = &self.kind {
            require(!reason.trim().is_empty(), PolicyError::NoReason);
        }
        require(self.key.policy.min_length <= 255, PolicyError::MinLength);
        require(!self.lease.is_zero(), PolicyError::Zero("lease"));
        require(!self.timeout.is_zero(), PolicyError::Zero("timeout"));
        require(self.deadline.is_none_or(|it| !it.is_zero()), PolicyError::Zero("deadline"));
        require(!self.retention.outcome.is_zero(), PolicyError::Zero("retention.outcome"));
        require(
            self.retention.outcome <= self.retention.tombstone,
            PolicyError::TombstoneBeforeOutcome,
        );
        match (self.on_unknown, self.collapse_for) {
            (OnUnknown::Resend, None) => require(false, PolicyError::ResendWithoutCollapse),
            (OnUnknown::Resend | OnUnknown::Probe, Some(memory)) => {
                let needed = self.late_arrival.saturating_add(self.timeout);
                require(needed < memory, PolicyError::CollapseTooShort { needed });
            }
            (OnUnknown::Hold, _) | (OnUnknown::Probe, None) => {}
        }
        if let Some(memory) = self.collapse_for {
            require(memory <= self.retention.tombstone, PolicyError::TombstoneBeforeDownstream);
        }
        for (source, horizon) in &self.retried_by {
            require(
                *horizon <= self.retention.tombstone,
                PolicyError::RetriedLonger { source_name: source.clone() },
            );
        }
        if let Some(outcome) = &self.outcome {
            require(outcome.says_anything(), PolicyError::OutcomeSaysNothing);
        }
        if let (KeySource::Body(place), Some(form @ (BodyForm::Form | BodyForm::Multipart))) =
            (&self.key.from, self.fingerprint.body)
        {
            let error = || PolicyError::BodyKeyPlace { place: place.clone(), form };
            require(place.only_token().is_some(), error());
        }
        if let Err(error) = self.fingerprint.check() {
            require(false, PolicyError::Fingerprint(error.to_string()));
        }
        wrong
    }

    /// What a record is judged by later: pinned at admission.
    pub fn pinned(&self) -> PinnedPolicy {
        PinnedPolicy {
            version: PinnedPolicy::VERSION,
            operation: self.name.clone(),
            target: self.target.clone(),
            fingerprint: self.fingerprint.clone(),
            on_unknown: self.on_unknown,
            collapse_for: self.collapse_for,
            late_arrival: self.late_arrival,
            deadline: self.deadline,
        }
    }
}

/// The part of a policy that a record is judged by: stored in the store under its digest before
/// it is first used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedPolicy {
    version: u32,
    /// The operation.
    pub operation: OperationName,
    /// Where the effect happens.
    pub target: String,
    /// What makes two requests the same intent.
    pub fingerprint: FingerprintRules,
    /// What may be done about an unknown outcome.
    pub on_unknown: OnUnknown,
    /// How long the downstream collapses on the effect id.
    pub collapse_for: Option<Duration>,
    /// The longest time a sent request can still be under way.
    pub late_arrival: Duration,
    /// How long after its admission the downstream still takes an attempt. Absent from the text of
    /// a policy that has none, so that the digests of earlier versions stay what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl PinnedPolicy {
    const VERSION: u32 = 1;

    /// The canonical text that is stored.
    pub fn text(&self) -> String {
        // Serializing plain data to a string has no failure; an empty text would be refused by
        // `parse` on every node, which is the safe side.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The digest of the canonical text.
    pub fn digest(&self) -> PolicyDigest {
        PolicyDigest::of(&self.text())
    }

    /// Reads a stored text; `None` for one of a version that this node does not know.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().filter(|policy| policy.version == Self::VERSION)
    }
}

/// What is inconsistent in an operation's policy.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PolicyError {
    /// Not a name.
    #[error("an operation's name is 1 to 128 characters of a-z A-Z 0-9 . _ -")]
    Name,
    /// An unprotected operation without a reason.
    #[error("an unprotected operation says why: add reason = \"…\"")]
    NoReason,
    /// A floor that no key can meet.
    #[error("key.min_length is at most 255, the longest key there is")]
    MinLength,
    /// A duration that has to be there.
    #[error("{0} cannot be zero")]
    Zero(&'static str),
    /// The tombstone ends before the outcome does.
    #[error("retention.tombstone is shorter than retention.outcome; make it at least as long")]
    TombstoneBeforeOutcome,
    /// A resend without a declared memory of the downstream.
    #[error(
        "on_unknown = \"resend\" needs collapse_for: how long the upstream collapses requests with \
         the same Idempotency-Key into one effect; if it does not, use \"hold\""
    )]
    ResendWithoutCollapse,
    /// The downstream forgets before a resend can be safe.
    #[error("collapse_for must be longer than late_arrival + timeout, together {needed:?}")]
    CollapseTooShort {
        /// What it has to exceed.
        needed: Duration,
    },
    /// Our memory ends before the downstream's.
    #[error(
        "retention.tombstone is shorter than collapse_for; make it at least as long, so that our \
         memory outlives the upstream's"
    )]
    TombstoneBeforeDownstream,
    /// A source retries for longer than the key is remembered.
    #[error(
        "retried_by.{source_name} is longer than retention.tombstone; a retry after it would \
         execute again"
    )]
    RetriedLonger {
        /// The source.
        source_name: String,
    },
    /// Every answer would be unknown.
    #[error("outcome reads no answer as applied; name the values, or the absence, that say so")]
    OutcomeSaysNothing,
    /// A place that no form has: no request would have a key.
    #[error(
        "key.from = \"body:{place}\" is a place in JSON, and fingerprint.body = \"{}\" has fields by \
         their names alone; name one, as in \"body:/id\", or compare as \"json\"",
        if *form == BodyForm::Multipart { "multipart" } else { "form" }
    )]
    BodyKeyPlace {
        /// The place.
        place: Pointer,
        /// How bodies are compared.
        form: BodyForm,
    },
    /// The fingerprint's rules contradict each other.
    #[error("fingerprint: {0}")]
    Fingerprint(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> OperationPolicy {
        OperationPolicy::new(OperationName::new("pay").expect("valid"), "http://127.0.0.1:1")
    }

    #[test]
    fn the_defaults_are_consistent() {
        assert_eq!(policy().check(), []);
    }

    #[test]
    fn each_inconsistency_is_named() {
        const HOUR: Duration = Duration::from_secs(3600);
        type Change = fn(&mut OperationPolicy);
        let cases: [(Change, PolicyError); 7] = [
            (|p| p.on_unknown = OnUnknown::Resend, PolicyError::ResendWithoutCollapse),
            (
                |p| {
                    p.on_unknown = OnUnknown::Resend;
                    p.collapse_for = Some(Duration::from_secs(80));
                },
                PolicyError::CollapseTooShort { needed: Duration::from_secs(80) },
            ),
            (|p| p.retention.tombstone = HOUR, PolicyError::TombstoneBeforeOutcome),
            (
                |p| p.collapse_for = Some(p.retention.tombstone + HOUR),
                PolicyError::TombstoneBeforeDownstream,
            ),
            (
                |p| p.retried_by.push(("relay".to_owned(), HOUR * 24 * 31)),
                PolicyError::RetriedLonger { source_name: "relay".to_owned() },
            ),
            (|p| p.lease = Duration::ZERO, PolicyError::Zero("lease")),
            (|p| p.kind = Kind::Unprotected { reason: " ".to_owned() }, PolicyError::NoReason),
        ];
        for (change, expected) in cases {
            let mut changed = policy();
            change(&mut changed);
            assert_eq!(changed.check(), [expected]);
        }
    }

    #[test]
    fn a_key_is_looked_for_only_where_bodies_can_have_one() {
        let check = |place: &str, body| {
            let mut policy = policy();
            policy.key.from = KeySource::Body(Pointer::parse(place).expect("a place"));
            policy.fingerprint.body = body;
            policy.check()
        };
        for form in [BodyForm::Form, BodyForm::Multipart] {
            assert_eq!(check("/id", Some(form)), []);
            for place in ["/a/b", ""] {
                let wrong = check(place, Some(form));
                let [error @ PolicyError::BodyKeyPlace { .. }] = wrong.as_slice() else {
                    panic!("{place}: {wrong:?}");
                };
                assert!(error.to_string().contains(&format!("\"body:{place}\"")), "{error}");
            }
        }
        for open in [None, Some(BodyForm::Json), Some(BodyForm::Raw)] {
            assert_eq!(check("/a/b", open), []);
        }
    }

    #[test]
    fn a_pinned_policy_reads_back_and_a_newer_one_is_not_guessed() {
        let pinned = policy().pinned();
        assert_eq!(PinnedPolicy::parse(&pinned.text()), Some(pinned.clone()));
        let newer = pinned.text().replacen("\"version\":1", "\"version\":2", 1);
        assert_eq!(PinnedPolicy::parse(&newer), None);
        let extended = pinned.text().replacen('{', "{\"more\":1,", 1);
        assert_eq!(PinnedPolicy::parse(&extended), None);
    }

    #[test]
    fn the_stricter_comes_first_and_a_text_of_before_reads_on() {
        assert!(OnUnknown::Hold < OnUnknown::Probe && OnUnknown::Probe < OnUnknown::Resend);
        let text = policy().pinned().text();
        assert!(!text.contains("deadline"), "its digest is the one that it had: {text}");
        let mut closed = policy();
        closed.deadline = Some(Duration::from_secs(60));
        let pinned = closed.pinned();
        assert_eq!(PinnedPolicy::parse(&pinned.text()), Some(pinned));
    }

    #[test]
    fn names_stay_within_their_alphabet() {
        for bad in ["", "a b", "a/b", "é", &"x".repeat(129)] {
            assert_eq!(OperationName::new(bad), Err(PolicyError::Name), "{bad}");
        }
    }
}
