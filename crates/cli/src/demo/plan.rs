//! What the clients intend, and how impatient they are: all of it decided by the seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use uuid::Builder;

use super::{client::Manner, order::Order};

/// How the payees of a storm begin; others are of people who try it by hand.
pub(super) const PAYEES: &str = "payee-";

/// One thing that a client wants to happen once.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    /// Its key, made before the first attempt and kept until the end.
    pub(super) key: String,
    /// What is ordered. The payee is nobody else's, so that the ledger tells the intents apart.
    pub(super) order: Order,
    /// The clients that send it, each by itself.
    pub(super) copies: Vec<Copy>,
    /// Whether somebody tries the key for another amount in the end.
    pub(super) changed: bool,
}

/// One sender of an intent.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    /// How long after the first it starts.
    pub(super) after: Duration,
    /// How it behaves at its first attempts; after them it is patient.
    pub(super) manners: Vec<Manner>,
    /// Whether it sends once more after it was told the outcome.
    pub(super) again: bool,
}

/// The intents of a storm.
pub(super) fn plan(seed: u64, intents: u32) -> Vec<Intent> {
    let mut random = Rng::with_seed(seed);
    (1..=intents).map(|number| intent(&mut random, number)).collect()
}

impl Intent {
    /// The same key for another amount.
    pub(super) fn changed_order(&self) -> Order {
        Order { amount: self.order.amount + 1, ..self.order.clone() }
    }
}

fn intent(random: &mut Rng, number: u32) -> Intent {
    let order = Order {
        amount: random.u32(100..100_000),
        currency: random.choice(["EUR", "USD", "CHF"]).unwrap_or("EUR").to_owned(),
        to: format!("{PAYEES}{number:05}"),
    };
    let copies = match random.u8(0..100) {
        0..25 => 1,
        25..65 => 2,
        65..90 => 3,
        _ => 4,
    };
    Intent {
        key: key(random),
        order,
        copies: (0..copies).map(|nth| copy(random, nth)).collect(),
        changed: random.u8(0..100) < 15,
    }
}

/// A UUIDv7, as our own clients make it: real time, seeded randomness.
fn key(random: &mut Rng) -> String {
    let mut bytes = [0; 10];
    random.fill(&mut bytes);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(now.as_millis()).unwrap_or_default();
    Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid().to_string()
}

fn copy(random: &mut Rng, nth: u8) -> Copy {
    let after = match (nth, random.bool()) {
        (0, _) => 0,
        (_, true) => random.u64(0..10),
        (_, false) => random.u64(50..900),
    };
    let first = match random.u8(0..100) {
        0..18 => Manner::GivesUpAfter(millis(random.u64(10..120))),
        18..34 => Manner::GivesUpAfter(millis(random.u64(120..500))),
        34..42 => Manner::SendsHalf,
        _ => Manner::Patient,
    };
    let second = match random.u8(0..100) {
        0..15 => Manner::GivesUpAfter(millis(random.u64(50..400))),
        _ => Manner::Patient,
    };
    Copy { after: millis(after), manners: vec![first, second], again: random.u8(0..100) < 40 }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
