//! An operation as the engine runs it.

use hapax_core::{FingerprintVersion, OperationName, OperationPolicy, PinnedPolicy, PolicyDigest};

/// A registered operation: its policy, and what of it is pinned on every record.
///
/// Made by [`Hapax::operation`](crate::Hapax::operation), which stores the policy's text before
/// its digest is first used.
#[derive(Debug)]
pub struct Operation {
    policy: OperationPolicy,
    pinned: PinnedPolicy,
    digest: PolicyDigest,
    fingerprint_version: FingerprintVersion,
}

impl Operation {
    pub(crate) fn new(policy: OperationPolicy) -> Self {
        let pinned = policy.pinned();
        Self {
            digest: pinned.digest(),
            fingerprint_version: policy.fingerprint.version(),
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

    pub(crate) const fn fingerprint_version(&self) -> &FingerprintVersion {
        &self.fingerprint_version
    }
}
