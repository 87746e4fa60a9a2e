//! An operation as the engine runs it.

use std::sync::Arc;

use hapax_core::{
    BodyInvalid, Fingerprint, Fingerprinter, OperationName, OperationPolicy, PinnedPolicy,
    PolicyDigest,
};

use metrics::{Key, Label, Level, Metadata, SharedString, with_recorder};
use tracing::debug;

use crate::{Intent, metric_definitions::DECISIONS};

const METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// The series of a decision about an operation.
fn decided(operation: &SharedString, decision: &'static str) -> Key {
    let operation = Label::new("operation", operation.clone());
    Key::from_parts(DECISIONS, vec![operation, Label::from_static_parts("decision", decision)])
}

/// A registered operation: its policy, and what of it is pinned on every record.
///
/// Made by [`Hapax::register`](crate::Hapax::register), which stores the policy's text before
/// its digest is first used.
#[derive(Debug)]
pub struct Operation {
    policy: OperationPolicy,
    pinned: PinnedPolicy,
    digest: PolicyDigest,
    fingerprinter: Fingerprinter,
    label: SharedString,
    /// The series of what most attempts get, made once.
    usual: [(&'static str, Key); 2],
}

impl Operation {
    pub(crate) fn new(policy: OperationPolicy) -> Self {
        let pinned = policy.pinned();
        let label: SharedString = Arc::<str>::from(policy.name.as_str()).into();
        Self {
            usual: ["execute", "replay"].map(|decision| (decision, decided(&label, decision))),
            digest: pinned.digest(),
            fingerprinter: policy.fingerprint.prepare(),
            label,
            pinned,
            policy,
        }
    }

    /// Its name.
    pub const fn name(&self) -> &OperationName {
        &self.policy.name
    }

    /// Its policy.
    pub const fn policy(&self) -> &OperationPolicy {
        &self.policy
    }

    /// The part of the policy that records are judged by.
    pub const fn pinned(&self) -> &PinnedPolicy {
        &self.pinned
    }

    /// The digest of the part of its policy that records are judged by.
    pub const fn digest(&self) -> PolicyDigest {
        self.digest
    }

    /// The fingerprint of an intent under this operation's rules.
    ///
    /// # Errors
    /// [`BodyInvalid`] when the body cannot be read as the form that the rules name.
    pub fn fingerprint(&self, intent: &impl Intent) -> Result<Fingerprint, BodyInvalid> {
        intent.fingerprint(&self.fingerprinter)
    }

    /// Counts what an attempt got.
    pub(crate) fn count(&self, decision: &'static str) {
        debug!(decision, "decided");
        let usual = self.usual.iter().find(|(usual, _)| *usual == decision);
        let count = |series: &Key| {
            with_recorder(|recorder| recorder.register_counter(series, &METADATA)).increment(1);
        };
        match usual {
            Some((_, series)) => count(series),
            None => count(&decided(&self.label, decision)),
        }
    }

    /// Its name as metrics are labelled with it.
    pub(crate) fn label(&self) -> SharedString {
        self.label.clone()
    }

    #[cfg(feature = "http")]
    pub(crate) const fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }
}
