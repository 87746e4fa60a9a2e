//! Where the effect secret of this process comes from.

use std::path::Path;

use hapax::{
    Secrets,
    effect_secret::{self, EffectSecretError},
};
use hapax_core::EffectSecret;
use hapax_gateway::config::EffectSecretSource;
use hapax_store::Store;

/// Loads the secret, making one beside an embedded database that was never used with any.
pub(crate) async fn load(
    source: &EffectSecretSource,
    database: &Path,
    store: &dyn Store,
) -> Result<Secrets, EffectSecretError> {
    let secret = match source {
        EffectSecretSource::File(path) => effect_secret::read(path)?,
        EffectSecretSource::Env(name) => effect_secret::from_env(name)?,
        EffectSecretSource::Generated => {
            return effect_secret::beside_database(database, store).await;
        }
    };
    effect_secret::pinned(secret, store).await
}

/// The secret of a database, if it can be read, for showing effect ids. Makes none, and does not
/// compare it with the store's fingerprint.
pub(crate) fn peek(
    database: &Path,
    source: &EffectSecretSource,
) -> Result<EffectSecret, EffectSecretError> {
    match source {
        EffectSecretSource::File(path) => effect_secret::read(path),
        EffectSecretSource::Env(name) => effect_secret::from_env(name),
        EffectSecretSource::Generated => effect_secret::read(&effect_secret::beside(database)),
    }
}
