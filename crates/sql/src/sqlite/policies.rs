//! The texts of policies, and the fingerprints of effect secrets.

use hapax_core::{OperationName, PolicyDigest};
use hapax_store::SecretPin;
use rusqlite::params;

use super::{
    error::Failure,
    sql,
    view::{Tx, View},
};

pub(super) fn remember(
    tx: &Tx<'_>,
    digest: &PolicyDigest,
    operation: &OperationName,
    text: &str,
) -> Result<(), Failure> {
    tx.execute(sql::ADD_POLICY, params![digest.0, operation.as_str(), text])?;
    Ok(())
}

pub(super) fn text(view: &View<'_>, digest: &PolicyDigest) -> Result<Option<String>, Failure> {
    view.first(sql::POLICY_TEXT, [digest.0], |row| row.get(0))
}

pub(super) fn operations(view: &View<'_>) -> Result<Vec<OperationName>, Failure> {
    let names = view.all(sql::OPERATIONS, [], |row| row.get::<_, String>(0))?;
    Ok(names.iter().filter_map(|name| OperationName::new(name).ok()).collect())
}

pub(super) fn secret(view: &View<'_>, version: u32) -> Result<Option<[u8; 16]>, Failure> {
    view.first(sql::SECRET, [version], |row| row.get(0))
}

pub(super) fn pin_secret(
    tx: &Tx<'_>,
    version: u32,
    fingerprint: &[u8; 16],
) -> Result<SecretPin, Failure> {
    tx.execute(sql::ADD_SECRET, params![version, fingerprint])?;
    match secret(tx, version)? {
        Some(pinned) if pinned == *fingerprint => Ok(SecretPin::Same),
        _ => Ok(SecretPin::Different),
    }
}
