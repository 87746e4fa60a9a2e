//! Two tenants never share a key: whose claim it is has to be said.

async fn consume(h: &hapax::Hapax) {
    let _ = h.claim("orders.ship", "order-1", &"what is asked for").await;
}

fn main() {}
