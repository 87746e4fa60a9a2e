//! Many operations at once, each with its own key and outcome.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use hapax_core::{Admission, Problem, Scope};
use serde::{Serialize, de::DeserializeOwned};
use tracing::Instrument;

use super::{Asked, Done, NotDone, done, driven, executed, refused};
use crate::{
    Answer, Execution, Hapax,
    claim::Attempting,
    reply_slot::{Early, ReplySlot},
};

/// An item of a batch on its way.
type Item<I, T, E> = (Attempting, Asked, I, ReplySlot<Result<T, E>>);

/// How many are claimed and executed together.
const TOGETHER: usize = 64;

impl Hapax {
    /// Does each item of a batch once, each under its own key: what [`once`](Self::once) is for
    /// one. The keys are claimed together, in one write of the store; the outcomes come in the
    /// order of the items. One that is refused or fails keeps none of the others from being done.
    ///
    /// `key` says which key an item has; the item as JSON is what is asked for.
    ///
    /// ```
    /// use hapax::{Execution, Hapax, Scope};
    ///
    /// #[derive(serde::Serialize)]
    /// struct Item {
    ///     id: String,
    ///     amount: u64,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let h = Hapax::in_memory();
    /// let pay_one = |_: Execution, item: Item| async move { Ok::<u64, String>(item.amount) };
    /// let batch = [("a", 1), ("b", 2), ("a", 1)].map(|(id, amount)| Item { id: id.into(), amount });
    /// let results = h
    ///     .each("payments.create", &Scope::single_tenant(), batch, |item| &item.id, pay_one)
    ///     .await;
    /// let paid: Vec<u64> = results.into_iter().map(|result| result.unwrap().value).collect();
    /// assert_eq!(paid, [1, 2, 1]);
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the operation's name is none.
    pub async fn each<I, K, T, E, F, Fut>(
        &self,
        operation: &str,
        scope: &Scope,
        items: impl IntoIterator<Item = I>,
        key: impl Fn(&I) -> &K,
        act: F,
    ) -> Vec<Result<Done<T>, NotDone<E>>>
    where
        I: Serialize + Send + 'static,
        K: AsRef<[u8]> + ?Sized,
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Send + 'static,
        F: Fn(Execution, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let act = Arc::new(act);
        let mut items = items.into_iter();
        let mut results = Vec::new();
        loop {
            let together: Vec<I> = items.by_ref().take(TOGETHER).collect();
            if together.is_empty() {
                return results;
            }
            let mut answers = Vec::with_capacity(together.len());
            let mut batch = Vec::with_capacity(together.len());
            for item in together {
                let asked = Asked::new(operation, scope, key(&item).as_ref(), &item);
                let attempting = match &asked {
                    Ok(asked) => self.attempting(asked).await,
                    Err(problem) => Err(problem.clone()),
                };
                match (asked, attempting) {
                    (Ok(asked), Ok(attempting)) => {
                        let (slot, arriving) = ReplySlot::new();
                        batch.push((attempting, asked, item, slot));
                        answers.push(Ok(arriving));
                    }
                    (_, Err(problem)) | (Err(problem), _) => answers.push(Err(problem)),
                }
            }
            self.run_together(batch, Arc::clone(&act)).await;
            for answer in answers {
                results.push(match answer {
                    Ok(arriving) => done(*arriving.answer().await),
                    Err(problem) => Err(refused(problem)),
                });
            }
        }
    }

    /// Claims a batch in one write, then runs each on its own.
    async fn run_together<I, T, E, F, Fut>(&self, batch: Vec<Item<I, T, E>>, act: Arc<F>)
    where
        I: Send + 'static,
        T: Serialize + Send + 'static,
        E: Send + 'static,
        F: Fn(Execution, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let engine = self.clone();
        let slots: Vec<_> = batch.iter().map(|(.., slot)| slot.clone()).collect();
        let all = self.track(|slot: ReplySlot<()>| async move {
            let each = batch.iter().map(|(.., slot)| slot.clone()).collect();
            let every = Every { each, all: slot.clone() };
            let claims = batch.iter().map(|(one, ..)| one.new_claim(Admission::BySteps));
            let claims: Vec<_> = match claims.collect() {
                Ok(claims) => claims,
                Err(error) => return every.refuse(engine.store_problem(&error)),
            };
            let Some((first, ..)) = batch.first() else { return };
            let claimed =
                first.insist(&every, || engine.inner.store.claim_all(claims.clone())).await;
            let claimed = match claimed {
                Ok(claimed) => claimed,
                Err(error) => return every.refuse(engine.store_problem(&error)),
            };
            for (((attempting, asked, item, slot), claim), claimed) in
                batch.into_iter().zip(claims).zip(claimed)
            {
                let (token, act) = (engine.inner.tracker.token(), Arc::clone(&act));
                let task = async move {
                    let execute = async move |running| executed(act(driven(running), item).await);
                    let taken = attempting.take_by(&claim, Some(claimed), &asked, &slot).await;
                    let taken = attempting.with_steps(taken).await;
                    attempting.run_taken_steps(taken, execute, slot).await;
                    drop(token);
                };
                tokio::spawn(task.in_current_span());
            }
            let outcome = crate::FirstOutcome::Freed;
            slot.send(Answer::First { live: (), outcome });
        });
        // Not even begun, where the engine is shutting down.
        if let Answer::Problem(problem) = *all.await {
            slots.iter().for_each(|slot| slot.refuse(problem.clone()));
        }
    }
}

/// The callers of a batch, which hear early answers together.
struct Every<T> {
    each: Vec<ReplySlot<T>>,
    all: ReplySlot<()>,
}

impl<T: Send> Early for Every<T> {
    fn refuse(&self, problem: Problem) {
        self.each.iter().for_each(|slot| slot.refuse(problem.clone()));
        self.all.refuse(problem);
    }

    fn is_open(&self) -> bool {
        self.all.is_open()
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.all.poll_closed(cx)
    }
}
