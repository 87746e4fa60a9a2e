//! How many resends a destination is asked to bear, over all intents.
//!
//! Retries multiply an outage: with three attempts each, a service that fails everything gets three
//! times its load when it can bear it least. A budget lets resends through as long as they are the
//! exception.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

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
#[derive(Clone)]
pub struct Budgets {
    known: Arc<Mutex<HashMap<String, Budget>>>,
    new: Arc<dyn Fn() -> Budget + Send + Sync>,
}

impl Budgets {
    /// Budgets that are made by `new`.
    pub fn new(new: impl Fn() -> Budget + Send + Sync + 'static) -> Self {
        Self { known: Arc::default(), new: Arc::new(new) }
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

impl fmt::Debug for Budgets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budgets").field("known", &self.known).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn resends(budget: &Budget, cost: Cost) -> usize {
        std::iter::from_fn(|| budget.take(cost)).count()
    }

    /// As many threads as there may be take and give back: no token is lost, and none is made.
    #[test]
    fn p48_a_bucket_is_exact_whoever_takes_from_it_at_once() {
        for (cost, expected) in [(Cost::Transient, 500 / 14), (Cost::Throttled, 500 / 5)] {
            let budget = Budget::default();
            let taken: usize = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| resends(&budget, cost))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            assert_eq!(taken, expected, "{cost:?}");
        }
        let budget = Budget::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        if let Some(taken) = budget.take(Cost::Transient) {
                            budget.succeed(Some(taken));
                        }
                    }
                });
            }
        });
        assert_eq!(resends(&budget, Cost::Transient), 500 / 14, "as full as it was");
    }

    #[test]
    fn an_empty_bucket_is_filled_by_what_succeeds_and_never_over() {
        let budget = Budget::default();
        resends(&budget, Cost::Transient);
        assert!(budget.take(Cost::Transient).is_none());
        // 500 less 35 times 14 leave 10; four more are a resend.
        (0..3).for_each(|_| budget.succeed(None));
        assert!(budget.take(Cost::Transient).is_none());
        budget.succeed(None);
        assert_eq!(budget.take(Cost::Transient), Some(Taken(14)));
        (0..10_000).for_each(|_| budget.succeed(None));
        assert_eq!(resends(&budget, Cost::Transient), 35);
    }

    #[tokio::test(start_paused = true)]
    async fn p48_a_share_is_not_rounded_away() {
        let none = ShareOfLoad { least_per_second: 0, ..ShareOfLoad::default() };
        for (percent, intents, expected) in [
            (20, 4, 0),
            (20, 5, 1),
            (20, 100, 20),
            (1, 99, 0),
            (1, 100, 1),
            (33, 10, 3),
            (0, 1_000, 0),
        ] {
            let budget = Budget::share(ShareOfLoad { percent, ..none });
            (0..intents).for_each(|_| budget.begin());
            assert_eq!(resends(&budget, Cost::Transient), expected, "{percent} % of {intents}");
        }
        assert_eq!(resends(&Budget::share(ShareOfLoad::default()), Cost::Transient), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_of_the_window_alone() {
        let rule = ShareOfLoad { least_per_second: 0, ..ShareOfLoad::default() };
        let budget = Budget::share(rule);
        (0..50).for_each(|_| budget.begin());
        tokio::time::advance(5 * SECOND).await;
        (0..50).for_each(|_| budget.begin());
        tokio::time::advance(SECOND * 11 / 2).await;
        assert_eq!(resends(&budget, Cost::Transient), 10, "the first ones are over");
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(resends(&budget, Cost::Transient), 0);
        (0..5).for_each(|_| budget.begin());
        assert_eq!(resends(&budget, Cost::Transient), 1);
    }

    #[test]
    fn a_destination_has_one_budget() {
        let budgets =
            Budgets::new(|| Budget::tokens(TokenBucket { tokens: 14, ..TokenBucket::default() }));
        assert!(budgets.of("https://a.example").take(Cost::Transient).is_some());
        assert!(budgets.of("https://a.example").take(Cost::Transient).is_none());
        assert!(budgets.clone().of("https://b.example").take(Cost::Transient).is_some());
    }
}
