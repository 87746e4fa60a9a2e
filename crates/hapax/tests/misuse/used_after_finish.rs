//! Nothing follows the last transaction.

use hapax::{Execution, StepError};

async fn pay(mut x: Execution) -> Result<String, StepError> {
    let paid = x.finish(async |_| Ok::<_, StepError>("paid".to_owned())).await?;
    let _: u64 = x.call("charge", async |_| Ok(1)).await?;
    Ok(paid)
}

fn main() {}
