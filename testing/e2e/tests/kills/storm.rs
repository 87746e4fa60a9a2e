//! Clients that retry, and somebody who kills what they talk to.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use hapax_testkit::{
    Answer, Clock, Downstream, Gateway, Scene,
    history::{Calling, Finding, Payment, Recorder},
    pause,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::SOON;

const CLIENTS: u64 = 6;

/// How often a client sends one payment before it leaves it to the end.
const TRIES: usize = 5;

/// What the service does with a request. None of them lies.
const ACTS: [&str; 10] = [
    "sleep 0",
    "sleep 0",
    "sleep 20",
    "effect; sleep 20; status 201",
    "effect; cut",
    "effect; status 500",
    "sleep 10; cut",
    "status 500",
    "status 401",
    "status 429",
];

/// Who is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Victim {
    /// One of the two gateways.
    Gateway,
    /// The service.
    Service,
    /// A gateway and the service at once.
    GatewayAndService,
    /// Both gateways.
    Gateways,
}

impl Victim {
    const ALL: [Self; 4] = [Self::Gateway, Self::Service, Self::GatewayAndService, Self::Gateways];
}

/// How the clock of the first gateway is wrong, one after the other. An outcome is kept for a day.
const SHIFTS: [&str; 4] = ["+3h", "-3h", "+2d", "+0"];

/// What is done to the two gateways and the service while clients pay.
#[derive(Clone, Copy)]
pub(crate) enum Disturbance<'a> {
    /// They are killed.
    Kills,
    /// The clock of the first gateway jumps.
    Shifts(&'a Clock),
}

/// What a storm came to.
pub(crate) struct Storm {
    pub(crate) findings: Vec<Finding>,
    /// Payments whose outcome nobody knows at the end.
    pub(crate) uncertain: usize,
    pub(crate) report: Value,
}

/// Two gateways on one store, disturbed so many times while clients pay.
pub(crate) fn storm(
    mut scene: Scene,
    seed: u64,
    disturbance: Disturbance<'_>,
    times: usize,
) -> Storm {
    let first = match disturbance {
        Disturbance::Kills => scene.serve.start(),
        Disturbance::Shifts(clock) => scene.serve.clone().clock(clock).start(),
    };
    let mut gateways = [first, scene.serve.start()];
    let addresses = Mutex::new(gateways.each_ref().map(Gateway::address));
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(1));
    let recorder = scene.recorder.clone();
    let mut rng = Rng::with_seed(seed);
    let mut killed = [0; 2];
    let payments: Vec<Payment> = thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| {
                let rng = Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(client));
                let client =
                    Client { recorder: &recorder, addresses: &addresses, next: &next, rng };
                scope.spawn(|| client.pay_until(&stop))
            })
            .collect();
        for nth in 0..times {
            pause(Duration::from_millis(rng.u64(10..150)));
            if let Disturbance::Shifts(clock) = disturbance {
                clock.shift(SHIFTS[nth % SHIFTS.len()]);
                continue;
            }
            let victim = Victim::ALL[nth % Victim::ALL.len()];
            let one = rng.usize(0..2);
            killed[0] += kill(victim, one, &mut scene, &mut gateways, &addresses);
            killed[1] += usize::from(matches!(victim, Victim::Service | Victim::GatewayAndService));
        }
        stop.store(true, Ordering::SeqCst);
        clients.into_iter().flat_map(|client| client.join().expect("it goes on")).collect()
    });
    scene.healed();
    // What may be found out is, except by a clock that was wrong when it began.
    let Downstream { finds, goes_on, .. } = scene.downstream;
    let patience = if finds && goes_on && matches!(disturbance, Disturbance::Kills) {
        SOON
    } else {
        Duration::ZERO
    };
    let uncertain = settle(&scene, &gateways[0], &payments, patience);
    drop(gateways);
    judged(&scene, seed, killed, payments.len(), uncertain)
}

/// Kills, starts again, and returns how many gateways were killed.
fn kill(
    victim: Victim,
    one: usize,
    scene: &mut Scene,
    gateways: &mut [Gateway; 2],
    addresses: &Mutex<[SocketAddr; 2]>,
) -> usize {
    let dying: &[usize] = match victim {
        Victim::Service => &[],
        Victim::Gateway | Victim::GatewayAndService => &[one],
        Victim::Gateways => &[0, 1],
    };
    dying.iter().for_each(|nth| gateways[*nth].kill());
    if matches!(victim, Victim::Service | Victim::GatewayAndService) {
        scene.upstream.restart();
    }
    for nth in dying {
        gateways[*nth].restart();
        addresses.lock()[*nth] = gateways[*nth].address();
    }
    dying.len()
}

/// A client that makes one payment after the other.
struct Client<'a> {
    recorder: &'a Recorder,
    addresses: &'a Mutex<[SocketAddr; 2]>,
    next: &'a AtomicUsize,
    rng: Rng,
}

impl Client<'_> {
    fn pay_until(mut self, stop: &AtomicBool) -> Vec<Payment> {
        let mut payments = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let intent = format!("i{}", self.next.fetch_add(1, Ordering::SeqCst));
            let key = format!("{:032x}", self.rng.u128(..));
            let payment = Payment::under(&key, &intent);
            let is_settled = (0..TRIES).any(|_| self.try_once(&payment));
            if is_settled && self.rng.u8(..) < 64 {
                let changed = Payment::under(&key, &format!("{intent}-changed"));
                let _ = self.recorder.send(self.anywhere(), &changed);
            }
            payments.push(payment);
        }
        payments
    }

    /// Sends it, sometimes to both gateways at once; whether it is settled.
    fn try_once(&mut self, payment: &Payment) -> bool {
        let act = ACTS[self.rng.usize(..ACTS.len())];
        let payment = payment.clone().act(act);
        let copies = if self.rng.u8(..) < 32 { 2 } else { 1 };
        let calls: Vec<_> =
            (0..copies).map(|_| self.recorder.start(self.anywhere(), &payment)).collect();
        let results: Vec<_> = calls.into_iter().map(Calling::result).collect();
        if results.iter().any(Result::is_err) {
            // What it talked to is gone: as a client should, it backs off.
            pause(Duration::from_millis(self.rng.u64(10..60)));
        }
        results.into_iter().flatten().any(|answer| is_settled(&answer))
    }

    fn anywhere(&mut self) -> SocketAddr {
        let nth = self.rng.usize(0..2);
        self.addresses.lock()[nth]
    }
}

fn is_settled(answer: &Answer) -> bool {
    answer.field("idempotency-expires").is_some()
}

/// Asks for each payment, again as long as there is patience; returns how many stay unknown.
fn settle(scene: &Scene, gateway: &Gateway, payments: &[Payment], patience: Duration) -> usize {
    let until = Instant::now() + patience;
    let mut open: Vec<_> = payments.iter().collect();
    loop {
        open.retain(|payment| !is_settled(&scene.send(gateway.address(), payment)));
        if open.is_empty() || Instant::now() > until {
            return open.len();
        }
    }
}

fn judged(
    scene: &Scene,
    seed: u64,
    [gateways, services]: [usize; 2],
    intents: usize,
    uncertain: usize,
) -> Storm {
    let history = scene.history();
    let findings = history.findings();
    let effects = history.effects.len();
    let with_effect: std::collections::BTreeSet<_> = history
        .effects
        .iter()
        .filter_map(|made| history.arrivals.iter().find(|arrival| arrival.n == made.arrival))
        .map(|arrival| &arrival.intent)
        .collect();
    let report = json!({
        "downstream": scene.downstream.name,
        "seed": seed,
        "gateway_kills": gateways,
        "service_kills": services,
        "intents": intents,
        "calls": history.calls.len(),
        "without_an_answer": history.calls.iter().filter(|call| call.told.is_none()).count(),
        "attempts": history.arrivals.len(),
        "effects": effects,
        "doubles": effects - with_effect.len(),
        "uncertain": uncertain,
        "findings": findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    Storm { findings, uncertain, report }
}
