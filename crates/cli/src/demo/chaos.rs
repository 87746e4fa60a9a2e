//! What goes wrong besides impatience: the service crashes, the gateway is killed.

use std::time::Duration;

use tokio::time::sleep;

use super::{client::crash, counts::Counts, process::Handle, progress::View};

/// What goes wrong.
#[derive(Clone, Copy)]
enum Mishap {
    Crash,
    Kill,
}

/// How many intents one round of mishaps is for, at most.
const ROUND: u64 = 200;

/// When it does: at this many settled intents of a hundred in the round.
const MISHAPS: [(u64, Mishap); 4] =
    [(15, Mishap::Crash), (35, Mishap::Kill), (55, Mishap::Crash), (75, Mishap::Crash)];

/// Lets everything go wrong in its time.
pub(super) async fn chaos(
    intents: u64,
    counts: &Counts,
    service: &Handle,
    gateway: &Handle,
    view: &View,
) {
    let rounds = intents.div_ceil(ROUND);
    let mishaps = (0..rounds).flat_map(|round| MISHAPS.map(|(at, what)| (round * 100 + at, what)));
    for (share, mishap) in mishaps {
        while counts.settled.get() * 100 * rounds < intents * share {
            sleep(Duration::from_millis(20)).await;
        }
        match mishap {
            Mishap::Crash => {
                view.event("the payment service crashes, and is started again");
                while crash(service.address()).await.is_err() {
                    sleep(Duration::from_millis(50)).await;
                }
            }
            Mishap::Kill => {
                view.event("the gateway is killed (SIGKILL), and started again on its database");
                gateway.kill();
            }
        }
    }
}
