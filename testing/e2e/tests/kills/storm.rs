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

/// Who is struck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Strike {
    /// One of the two gateways is killed.
    Gateway,
    /// The service is killed.
    Service,
    /// A gateway and the service are killed at once.
    GatewayAndService,
    /// Both gateways are killed.
    Gateways,
    /// One of the gateways stands still for longer than its leases, and goes on.
    Pause,
}

impl Strike {
    const ALL: [Self; 5] =
        [Self::Gateway, Self::Service, Self::GatewayAndService, Self::Pause, Self::Gateways];

    /// The gateways that are killed, if `one` is whom it hits.
    fn kills(self, one: usize) -> Vec<usize> {
        match self {
            Self::Service | Self::Pause => Vec::new(),
            Self::Gateway | Self::GatewayAndService => vec![one],
            Self::Gateways => vec![0, 1],
        }
    }

    const fn kills_the_service(self) -> bool {
        matches!(self, Self::Service | Self::GatewayAndService)
    }
}

/// A lease is a second.
const LONGER_THAN_A_LEASE: Duration = Duration::from_millis(1300);

/// How the clock of the first gateway is wrong, one after the other. An outcome is kept for a day.
const SHIFTS: [&str; 4] = ["+3h", "-3h", "+2d", "+0"];

/// What is done to the two gateways and the service while clients pay.
#[derive(Clone, Copy)]
pub(crate) enum Disturbance<'a> {
    /// They are killed, or stand still.
    Strikes,
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
        Disturbance::Strikes => scene.serve.start(),
        Disturbance::Shifts(clock) => scene.serve.clone().clock(clock).start(),
    };
    let mut gateways = [first, scene.serve.start()];
    let addresses = Mutex::new(gateways.each_ref().map(Gateway::address));
    let (stop, next) = (AtomicBool::new(false), AtomicUsize::new(1));
    let recorder = scene.recorder.clone();
    let mut rng = Rng::with_seed(seed);
    let mut struck = Struck::default();
    let payments: Vec<Payment> = thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| {
                let rng = Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(client));
                let client =
                    Client { recorder: &recorder, addresses: &addresses, next: &next, rng };
                scope.spawn(|| client.pay_until(&stop))
            })
            .collect();
        // Also where something fails here: the clients would be waited for.
        let stops = Stops(&stop);
        let mut stage = Stage { scene: &mut scene, gateways: &mut gateways, addresses: &addresses };
        for nth in 0..times {
            pause(Duration::from_millis(rng.u64(10..150)));
            match disturbance {
                Disturbance::Shifts(clock) => clock.shift(SHIFTS[nth % SHIFTS.len()]),
                Disturbance::Strikes => {
                    let strike = Strike::ALL[nth % Strike::ALL.len()];
                    stage.strike(strike, rng.usize(0..2), &mut struck);
                }
            }
        }
        drop(stops);
        clients.into_iter().flat_map(|client| client.join().expect("it goes on")).collect()
    });
    scene.healed();
    // What may be found out is, except by a clock that was wrong when it began.
    let Downstream { finds, goes_on, .. } = scene.downstream;
    let patience = if finds && goes_on && matches!(disturbance, Disturbance::Strikes) {
        SOON
    } else {
        Duration::ZERO
    };
    let uncertain = settle(&scene, &gateways[0], &payments, patience);
    drop(gateways);
    judged(&scene, seed, &struck, payments.len(), uncertain)
}

/// Has the clients stop when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What a storm has done.
#[derive(Default)]
struct Struck {
    gateways: usize,
    services: usize,
    pauses: usize,
}

/// The service and the gateways, while clients use them.
struct Stage<'a> {
    scene: &'a mut Scene,
    gateways: &'a mut [Gateway; 2],
    addresses: &'a Mutex<[SocketAddr; 2]>,
}

impl Stage<'_> {
    /// Kills, and starts again.
    fn strike(&mut self, strike: Strike, one: usize, struck: &mut Struck) {
        let dying = strike.kills(one);
        dying.iter().for_each(|nth| self.gateways[*nth].kill());
        if strike.kills_the_service() {
            self.scene.upstream.restart();
            struck.services += 1;
        }
        for nth in &dying {
            self.gateways[*nth].restart();
            self.addresses.lock()[*nth] = self.gateways[*nth].address();
        }
        struck.gateways += dying.len();
        if strike == Strike::Pause {
            self.gateways[one].pause();
            pause(LONGER_THAN_A_LEASE);
            self.gateways[one].resume();
            struck.pauses += 1;
        }
    }
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
            let changed = Payment::under(&key, &format!("{intent}-changed"));
            let is_decided = (0..TRIES).any(|_| {
                // Refused, unless nothing has come of the first.
                if self.rng.u8(..) < 32 {
                    let _ = self.recorder.send(self.anywhere(), &changed);
                }
                self.try_once(&payment)
            });
            if is_decided && self.rng.bool() {
                let _ = self.recorder.send(self.anywhere(), &changed);
            }
            payments.push(payment);
        }
        payments
    }

    /// Sends it, sometimes to both gateways at once; whether it is decided.
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
        results.into_iter().flatten().any(|answer| is_decided(&answer))
    }

    fn anywhere(&mut self) -> SocketAddr {
        let nth = self.rng.usize(0..2);
        self.addresses.lock()[nth]
    }
}

/// Whether it is known what became of it, or of the intent that its key stands for.
fn is_decided(answer: &Answer) -> bool {
    answer.field("idempotency-expires").is_some()
        || answer.problem().as_deref() == Some("key-reused")
}

/// Asks for each payment, again as long as there is patience; returns how many stay unknown.
fn settle(scene: &Scene, gateway: &Gateway, payments: &[Payment], patience: Duration) -> usize {
    let until = Instant::now() + patience;
    let mut open: Vec<_> = payments.iter().collect();
    loop {
        open.retain(|payment| !is_decided(&scene.send(gateway.address(), payment)));
        if open.is_empty() || Instant::now() > until {
            return open.len();
        }
    }
}

fn judged(scene: &Scene, seed: u64, struck: &Struck, intents: usize, uncertain: usize) -> Storm {
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
        "gateway_kills": struck.gateways,
        "service_kills": struck.services,
        "gateway_pauses": struck.pauses,
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
