//! Pairs of a claim and its settlement, by how many writes share a commit.

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use hapax_core::OperationName;
use hapax_sql::{SqliteConfig, SqliteStore};
use hapax_store::{Claimed, Claims, Owned, Written};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use crate::payment::{self, Order};

type Failure = Box<dyn Error + Send + Sync>;

pub(crate) async fn measure(
    database: &Path,
    batches: &[usize],
    order: Order,
    lasting: Duration,
) -> Result<Value, Failure> {
    let mut series = Vec::new();
    for &batch in batches {
        let store = SqliteStore::open(SqliteConfig { batch, ..SqliteConfig::new(database) })?;
        let store = Arc::new(store);
        // What the first transactions do once is no part of it.
        pairs(&store, batch, order, lasting / 10).await?;
        let begun = Instant::now();
        let pairs = pairs(&store, batch, order, lasting).await?;
        let rate = f64::from(pairs) / begun.elapsed().as_secs_f64();
        store.close().await;
        series.push(json!({"batch": batch, "pairs_per_second": rate.round()}));
    }
    Ok(series.into())
}

/// How many pairs were done. So many ask at the same time that the next commit is full whenever one
/// ends.
async fn pairs(
    store: &Arc<SqliteStore>,
    batch: usize,
    order: Order,
    lasting: Duration,
) -> Result<u32, Failure> {
    let ends = Instant::now() + lasting;
    let mut workers = JoinSet::new();
    for _ in 0..2 * batch {
        workers.spawn(work(Arc::clone(store), order, ends));
    }
    let mut pairs = 0;
    while let Some(done) = workers.join_next().await {
        pairs += done??;
    }
    Ok(pairs)
}

async fn work(store: Arc<SqliteStore>, order: Order, ends: Instant) -> Result<u32, Failure> {
    let operation = OperationName::new("payments.create")?;
    let mut pairs = 0;
    while Instant::now() < ends {
        let Claimed::Ours(record) = store.claim(payment::claim(order, &operation)?).await? else {
            return Err("a key that was never used is known".into());
        };
        let settled = store.settle(record.ownership(), payment::settlement()).await?;
        if !matches!(settled, Written::Done(_)) {
            return Err(format!("a settlement came to {settled:?}").into());
        }
        pairs += 1;
    }
    Ok(pairs)
}
