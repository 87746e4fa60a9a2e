//! An operation as the engine runs it.

use hapax_core::{
    BodyInvalid, Fingerprint, Fingerprinter, OperationName, OperationPolicy, PinnedPolicy,
    PolicyDigest,
};

use metrics::counter;
use tracing::debug;

use crate::{Intent, metric_definitions::DECISIONS};

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
}

impl Operation {
    pub(crate) fn new(policy: OperationPolicy) -> Self {
        let pinned = policy.pinned();
        Self {
            digest: pinned.digest(),
            fingerprinter: policy.fingerprint.prepare(),
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

    pub(crate) const fn digest(&self) -> PolicyDigest {
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
        let operation = self.name().as_str().to_owned();
        counter!(DECISIONS, "operation" => operation, "decision" => decision).increment(1);
    }

    pub(crate) const fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }
}
