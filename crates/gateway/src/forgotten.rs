//! Operations that the database has records of and the configuration does not name.

use std::collections::BTreeSet;

use hapax::Hapax;
use hapax_core::OperationName;
use hapax_store::{ListFilter, StoreError};
use tracing::{debug, warn};

/// Says of which operations there are records that nobody looks at any more: a name is where keys
/// live, so a retry of such a key executes again.
pub(crate) async fn warn_of(hapax: Hapax, named: BTreeSet<OperationName>) {
    match find(&hapax, &named).await {
        Ok(forgotten) => {
            for operation in forgotten {
                warn!(
                    %operation,
                    "the database has records of an operation that is not configured: a retry of \
                     one of its keys executes again; if it was renamed, give it its name back"
                );
            }
        }
        // It is looked at again when the configuration is.
        Err(error) => debug!(%error, "which operations have records is not known"),
    }
}

async fn find(
    hapax: &Hapax,
    named: &BTreeSet<OperationName>,
) -> Result<Vec<OperationName>, StoreError> {
    let store = hapax.store();
    let mut forgotten = Vec::new();
    for operation in store.operations().await? {
        if named.contains(&operation) {
            continue;
        }
        let operation = Some(operation);
        let filter = ListFilter { operation: operation.clone(), limit: 1, ..ListFilter::default() };
        if !store.list(filter).await?.is_empty() {
            forgotten.extend(operation);
        }
    }
    Ok(forgotten)
}
