//! A claim is settled once.

use hapax::{Execution, Held, Interrupted};

async fn ship(x: Execution<Held>) -> Result<(), Interrupted> {
    x.succeed(&"shipped").await?;
    x.fail(&"or not").await
}

fn main() {}
