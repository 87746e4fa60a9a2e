//! What a budget spares a service that is down.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use hapax_bench_client::storm::{Bound, Storm, real, simulated};

const MINUTE: Storm =
    Storm { callers: 200, around: Duration::from_secs(10), outage: Duration::from_secs(60) };

/// Without a budget each intent is sent as often as its attempts go.
#[tokio::test(start_paused = true)]
async fn k7_in_an_outage_of_a_minute_200_callers_send_little_more_than_their_intents() {
    for (bound, least, most) in
        [(Bound::Tokens, 1.0, 1.02), (Bound::Share, 1.0, 1.3), (Bound::None, 2.9, 3.1)]
    {
        let load = simulated(MINUTE, bound).await;
        let amplification = load.amplification();
        assert!((least..=most).contains(&amplification), "{bound:?}: {amplification}");
        assert!((11_800..=12_200).contains(&load.in_outage.0), "{bound:?}: {:?}", load.in_outage);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_so_they_do_on_real_connections() {
    let storm = Storm { around: Duration::from_secs(1), outage: Duration::from_secs(3), ..MINUTE };
    let (with, without) = tokio::join!(real(storm, Bound::Tokens), real(storm, Bound::None));
    let (with, without) = (with.unwrap(), without.unwrap());
    assert!(with.amplification() <= 1.2, "{:?}", with.in_outage);
    assert!(without.amplification() >= 2.0, "{:?}", without.in_outage);
}
