//! A job goes on when its caller is dropped, so it owns what it uses.

use hapax::{Hapax, NotDone, Scope};

async fn ship(h: &Hapax, scope: &Scope, address: &str) -> Result<(), NotDone<String>> {
    h.once("orders.ship", scope, "order-1", address, |_| async {
        Ok::<_, String>(address.to_owned())
    })
    .await?;
    Ok(())
}

fn main() {}
