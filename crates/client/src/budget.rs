//! How many resends a destination is asked to bear, over all intents.
//!
//! Retries multiply an outage: with three attempts each, a service that fails everything gets three
//! times its load when it can bear it least. A budget lets resends through as long as they are the
//! exception.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::course::Cost;

/// A budget, to be shared by everything that sends to one destination. Clones are one.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Tokens(Mutex<Tokens>),
    Share(Mutex<Share>),
    Unlimited,
}

/// A bucket of tokens, as AWS's SDKs have it (their retry behaviour of 2026).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenBucket {
    /// How many tokens it holds, and begins with. Default: 500.
    pub tokens: u32,
    /// What a resend after a failure takes. Default: 14.
    pub transient: u32,
    /// What a resend after an answer of too much to do takes. Default: 5.
    pub throttled: u32,
    /// What an intent gives back that needed no resend. One that did gives back what its last resend
    /// took. Default: 1.
    pub success: u32,
}

impl Default for TokenBucket {
    fn default() -> Self {
        Self { tokens: 500, transient: 14, throttled: 5, success: 1 }
    }
}

/// A share of what was sent lately, as Finagle and tower have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareOfLoad {
    /// How long an intent counts. Default: 10 s.
    pub window: Duration,
    /// Resends for each hundred intents. Default: 20.
    pub percent: u32,
    /// Resends a second that there may be without any. Default: 10.
    pub least_per_second: u32,
}

impl Default for ShareOfLoad {
    fn default() -> Self {
        Self { window: Duration::from_secs(10), percent: 20, least_per_second: 10 }
    }
}

/// What a resend took, to be given back when it helped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Taken(u32);

#[derive(Debug)]
struct Tokens {
    rule: TokenBucket,
    left: u32,
}

#[derive(Debug)]
struct Share {
    rule: ShareOfLoad,
    began: Instant,
    /// What each part of the window brought, less what was taken in it; hundredths of a resend.
    slots: [i64; SLOTS],
    slot: u64,
}

const SLOTS: usize = 10;

/// A resend, in hundredths.
const RESEND: i64 = 100;

impl Budget {
    /// A bucket of tokens.
    pub fn tokens(rule: TokenBucket) -> Self {
        let left = rule.tokens;
        Self(Arc::new(Kind::Tokens(Mutex::new(Tokens { rule, left }))))
    }

    /// A share of the load.
    pub fn share(rule: ShareOfLoad) -> Self {
        let share = Share { rule, began: Instant::now(), slots: [0; SLOTS], slot: 0 };
        Self(Arc::new(Kind::Share(Mutex::new(share))))
    }

    /// Every resend is let through: for one intent at a time, and to show what a budget is for.
    pub fn unlimited() -> Self {
        Self(Arc::new(Kind::Unlimited))
    }

    /// An intent is sent for the first time.
    pub fn begin(&self) {
        if let Kind::Share(share) = &*self.0 {
            share.lock().deposit(Instant::now());
        }
    }

    /// Takes a resend out of the budget; `None` where there is none left.
    pub fn take(&self, cost: Cost) -> Option<Taken> {
        match &*self.0 {
            Kind::Unlimited => Some(Taken(0)),
            Kind::Tokens(tokens) => tokens.lock().take(cost),
            Kind::Share(share) => share.lock().take(Instant::now()).then_some(Taken(0)),
        }
    }

    /// The service answered an intent and works. `last` is what its last resend took.
    pub fn succeed(&self, last: Option<Taken>) {
        if let Kind::Tokens(tokens) = &*self.0 {
            let tokens = &mut *tokens.lock();
            let back = last.map_or(tokens.rule.success, |taken| taken.0);
            tokens.left = tokens.left.saturating_add(back).min(tokens.rule.tokens);
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::tokens(TokenBucket::default())
    }
}

impl Tokens {
    fn take(&mut self, cost: Cost) -> Option<Taken> {
        let cost = match cost {
            Cost::Transient => self.rule.transient,
            Cost::Throttled => self.rule.throttled,
        };
        self.left = self.left.checked_sub(cost)?;
        Some(Taken(cost))
    }
}

impl Share {
    fn deposit(&mut self, now: Instant) {
        let worth = i64::from(self.rule.percent);
        let slot = self.turn(now);
        *slot = slot.saturating_add(worth);
    }

    fn take(&mut self, now: Instant) -> bool {
        let reserve = self.rule.window.as_millis() * u128::from(self.rule.least_per_second) / 10;
        let reserve = i64::try_from(reserve).unwrap_or(i64::MAX);
        self.turn(now);
        let balance = self.slots.iter().fold(reserve, |sum, slot| sum.saturating_add(*slot));
        if balance < RESEND {
            return false;
        }
        let slot = self.turn(now);
        *slot = slot.saturating_sub(RESEND);
        true
    }

    /// The present part of the window; those that are over are emptied.
    fn turn(&mut self, now: Instant) -> &mut i64 {
        let part =
            (self.rule.window / u32::try_from(SLOTS).unwrap_or(1)).max(Duration::from_nanos(1));
        let parts = now.saturating_duration_since(self.began).as_nanos() / part.as_nanos();
        let slot = u64::try_from(parts).unwrap_or(u64::MAX);
        let over = slot.saturating_sub(self.slot).min(SLOTS as u64);
        for nth in 1..=over {
            self.slots[place(self.slot.wrapping_add(nth))] = 0;
        }
        self.slot = self.slot.max(slot);
        &mut self.slots[place(self.slot)]
    }
}

fn place(slot: u64) -> usize {
    usize::try_from(slot % SLOTS as u64).unwrap_or(0)
}

/// Budgets by destination: one for each, made when it is first asked for.
#[derive(Clone, Debug)]
pub struct Budgets {
    known: Arc<Mutex<HashMap<String, Budget>>>,
    new: fn() -> Budget,
}

impl Budgets {
    /// Budgets that are made by `new`.
    pub fn new(new: fn() -> Budget) -> Self {
        Self { known: Arc::default(), new }
    }

    /// The budget of a destination, such as `https://api.example`.
    pub fn of(&self, destination: &str) -> Budget {
        let mut known = self.known.lock();
        if let Some(budget) = known.get(destination) {
            return budget.clone();
        }
        let budget = (self.new)();
        known.insert(destination.to_owned(), budget.clone());
        budget
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(Budget::default)
    }
}
