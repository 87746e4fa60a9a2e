//! What is paid: the words that clients, service and judge share.

use serde::{Deserialize, Serialize};

/// What a client asks for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Order {
    /// In the currency's smallest unit.
    pub(super) amount: u32,
    pub(super) currency: String,
    pub(super) to: String,
}

/// The effect: a row in the ledger.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Payment {
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) order: Order,
}
