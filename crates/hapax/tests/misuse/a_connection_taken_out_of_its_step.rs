//! The connection of a step ends with it.

use hapax::{Execution, StepError, sqlx::SqliteConnection};

async fn pay(mut x: Execution) -> Result<(), StepError> {
    let mut kept: Option<&mut SqliteConnection> = None;
    x.step("ordered", async |tx| {
        kept = Some(tx);
        Ok(())
    })
    .await?;
    drop(kept);
    Ok(())
}

fn main() {}
