//! The background work on uncertain records: it notices abandoned executions, asks for what is
//! due, and measures what is unknown.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use hapax_core::{Evidence, OperationName, Owner, Statement, next_probe};
use hapax_store::{Doubts, Due, PutOff, StoreError, TakeDue};
use metrics::gauge;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use crate::{
    BackgroundOptions, Hapax,
    metric_definitions::{UNCERTAIN, UNCERTAIN_OLDEST_SECONDS},
    reconcile::{Asked, Looked, Looker},
};

/// How many rows a look for abandoned executions comes by at a time.
const LOOK_ROWS: usize = 1000;

/// How often what is unknown is measured.
const MEASURE: Duration = Duration::from_secs(5);

/// After so many looks without a result it is said aloud.
const LOUD: u32 = 10;

/// How old what is unknown is: the values of the label `age`, each with where it ends.
const AGES: [(&str, Duration); 4] = [
    ("under_1m", Duration::from_secs(60)),
    ("under_1h", Duration::from_secs(3600)),
    ("under_1d", Duration::from_secs(86_400)),
    ("older", Duration::MAX),
];

/// Runs until it is dropped. What it has begun by then is tracked, and ends in its own time.
pub(crate) async fn reconcile(engine: Hapax, options: BackgroundOptions) {
    let mut permits = Permits { each: options.probes_at_once.max(1), of: HashMap::new() };
    let mut measures = Measures::default();
    loop {
        let more = match round(&engine, &options, &mut permits).await {
            Ok(more) => more,
            Err(error) => {
                debug!(%error, "nothing is reconciled while the store fails");
                false
            }
        };
        if measures.are_due()
            && let Ok(doubts) = engine.inner.store.doubts().await
        {
            measures.tell(&doubts);
        }
        sleep(if more { options.reconcile / 10 } else { options.reconcile }).await;
    }
}

/// How many questions may be asked at the same time. Each operation has its own: where one service
/// answers nothing, the others are asked all the same.
struct Permits {
    each: usize,
    of: HashMap<OperationName, Arc<Semaphore>>,
}

impl Permits {
    fn of(&mut self, operation: &OperationName) -> Arc<Semaphore> {
        let each = self.each;
        let permits = self.of.entry(operation.clone());
        Arc::clone(permits.or_insert_with(|| Arc::new(Semaphore::new(each))))
    }
}

/// One round; tells whether there is more to do at once.
async fn round(
    engine: &Hapax,
    options: &BackgroundOptions,
    permits: &mut Permits,
) -> Result<bool, StoreError> {
    let doubted = engine.inner.store.doubt_abandoned(LOOK_ROWS).await?;
    if doubted.records > 0 {
        warn!(records = doubted.records, "executions were abandoned; their outcome is unknown");
    }
    let asked = engine.inner.asked.read().clone();
    let lease = hold(engine, &asked);
    // An operation that has several services is there once for each.
    let operations = asked.iter().map(|asked| asked.operation.name()).collect::<HashSet<_>>();
    let mut more = doubted.more;
    for operation in operations {
        more |= look_for(engine, options, operation, lease, permits.of(operation)).await?;
    }
    Ok(more)
}

/// Begins to look into what is due of an operation; tells whether there is more of it.
async fn look_for(
    engine: &Hapax,
    options: &BackgroundOptions,
    operation: &OperationName,
    lease: Duration,
    free: Arc<Semaphore>,
) -> Result<bool, StoreError> {
    let limit = free.available_permits();
    if limit == 0 {
        return Ok(false);
    }
    let holder = token(engine)?;
    let take = TakeDue { holder, lease, operations: vec![operation.clone()], limit };
    let due = engine.inner.store.take_due(take).await?;
    let more = due.len() == limit;
    for due in due {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else { continue };
        let (engine, options) = (engine.clone(), *options);
        let abandon = engine.inner.abandon.clone();
        engine.inner.tracker.clone().spawn(async move {
            abandon.run_until_cancelled(settle(&engine, &options, due, holder)).await;
            drop(permit);
        });
    }
    Ok(more)
}

/// Looks into one record that is held, and lets go of it where it stays uncertain. A failing store
/// leaves it held; the hold ends by itself.
async fn settle(engine: &Hapax, options: &BackgroundOptions, due: Due, holder: Owner) {
    let looker = Looker { actor: "hapax", holder: Some(holder) };
    let record = due.found.record.id;
    let looked = match engine.asked_about(&due.operation, &due.found.record).await {
        Ok(Some(asked)) => engine.look_into(&asked, &due.found, looker).await,
        Ok(None) => Ok(Looked::Still {
            evidence: Evidence::Unknown,
            of: due.found.record.ownership(),
            seen: "where its effect happened nobody is asked any more".to_owned(),
        }),
        Err(error) => Err(error),
    };
    let (evidence, of, seen) = match looked {
        Ok(Looked::Moved(_) | Looked::Gone) => return,
        Ok(Looked::Still { evidence, of, seen }) => (evidence, of, seen),
        Err(error) => {
            debug!(%error, %record, "what became of it could not be stored");
            return;
        }
    };
    let (first, longest) = options.probe_pause;
    let after = next_probe(first, longest, due.probes, random());
    if due.probes.saturating_add(1) == LOUD {
        let operation = &due.operation;
        warn!(
            %record, %operation, %seen,
            "looked {LOUD} times for what became of it, in vain; `hapax records resolve` settles it"
        );
    }
    let statement = Statement { actor: looker.actor.to_owned(), reason: seen };
    let put_off = PutOff { of, holder, after, evidence, statement };
    if let Err(error) = engine.inner.store.put_off(put_off).await {
        debug!(%error, %record, "it could not be put off");
    }
}

fn token(engine: &Hapax) -> Result<Owner, StoreError> {
    engine.inner.owners.give().map_err(|error| StoreError::Unavailable {
        reason: format!("no randomness for a holder's token: {error}"),
    })
}

/// How long a record is held: longer than a look and the writes around it can take.
fn hold(engine: &Hapax, asked: &[Asked]) -> Duration {
    let longest = asked.iter().map(|asked| asked.prober.timeout()).max().unwrap_or_default();
    // A probe and a closer, and the store's answers before, between and after them.
    let store = engine.inner.options.store_timeout.saturating_mul(8);
    longest.saturating_mul(3).saturating_add(store)
}

/// Without randomness many come together, and that is all.
fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

/// What was measured last: an operation that has nothing unknown any more is told so.
#[derive(Default)]
struct Measures {
    last: Option<Instant>,
    told: HashSet<Option<OperationName>>,
}

impl Measures {
    fn are_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.last.is_none_or(|last| now.duration_since(last) >= MEASURE);
        if due {
            self.last = Some(now);
        }
        due
    }

    fn tell(&mut self, doubts: &[Doubts]) {
        for doubts in doubts {
            self.told.insert(doubts.operation.clone());
        }
        for operation in &self.told {
            let of = doubts.iter().find(|doubts| doubts.operation == *operation);
            let ages = of
                .into_iter()
                .flat_map(|doubts| doubts.since.iter().map(|since| doubts.now.since(*since)));
            let ages = ages.collect::<Vec<_>>();
            let name = operation.as_ref().map_or("", OperationName::as_str).to_owned();
            let mut from = Duration::ZERO;
            for (age, to) in AGES {
                let within = ages.iter().filter(|age| (from..to).contains(age)).count();
                gauge!(UNCERTAIN, "operation" => name.clone(), "age" => age).set(within as f64);
                from = to;
            }
            let oldest = ages.iter().max().copied().unwrap_or_default();
            gauge!(UNCERTAIN_OLDEST_SECONDS, "operation" => name).set(oldest.as_secs_f64());
        }
    }
}
