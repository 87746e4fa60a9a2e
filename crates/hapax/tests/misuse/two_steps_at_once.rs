//! Steps follow each other: what was in doubt would not be known otherwise.

use hapax::Execution;

async fn pay(mut x: Execution) {
    let first = x.call("reserve", async |_| Ok::<u64, String>(1));
    let second = x.call("charge", async |_| Ok::<u64, String>(2));
    let _ = tokio::join!(first, second);
}

fn main() {}
