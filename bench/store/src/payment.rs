//! A claim and its settlement, as the gateway makes them of a small payment.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    Admission, Fingerprint, FingerprintVersion, Key, KeyError, NewClaim, OperationName,
    OutcomeClass, Owner, PolicyDigest, RecordId, Retention, Scope, Settlement, StoredResponse,
};
use uuid::Uuid;

/// How keys are ordered.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Order {
    /// By their time, as UUIDv7 keys are.
    Time,
    /// In no order, as UUIDv4 keys are.
    Random,
}

impl Order {
    fn key(self) -> Uuid {
        match self {
            Self::Time => Uuid::now_v7(),
            Self::Random => Uuid::new_v4(),
        }
    }
}

/// A claim of a key that was never used.
pub(crate) fn claim(order: Order, operation: &OperationName) -> Result<NewClaim, KeyError> {
    let key = Key::from_bytes(order.key().to_string().as_bytes())?;
    Ok(NewClaim {
        id: RecordId::new(&Scope::single_tenant(), operation, &key),
        owner: Owner::from_bytes(Uuid::new_v4().into_bytes()),
        fingerprint: Fingerprint::new(FingerprintVersion::from_bytes([1; 16]), [2; 32]),
        policy: PolicyDigest([3; 32]),
        lease: Duration::from_secs(30),
        admission: Admission::WithClaim,
        secret_version: 1,
    })
}

/// What came of it.
pub(crate) fn settlement() -> Settlement {
    let field = |name: &'static str, value: &'static str| {
        (Bytes::from_static(name.as_bytes()), Bytes::from_static(value.as_bytes()))
    };
    let response = StoredResponse {
        status: 201,
        headers: vec![field("content-type", "application/json"), field("location", "/payments/1")],
        body: Bytes::from_static(br#"{"id":"1","status":"accepted"}"#),
    };
    Settlement::Outcome {
        class: OutcomeClass::Succeeded,
        status: 201,
        response: Some(response),
        retention: Retention::default(),
    }
}
