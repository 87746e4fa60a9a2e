//! Contenders that start together.

use std::sync::Arc;

use tokio::{sync::Barrier, task::JoinHandle};

/// Runs all contenders at once, each a task of its own behind one barrier, and answers with what
/// each came to, in their order.
pub(super) async fn race<T, F>(contenders: impl IntoIterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let contenders = contenders.into_iter().collect::<Vec<_>>();
    let barrier = Arc::new(Barrier::new(contenders.len()));
    let start = |contender: F| -> JoinHandle<T> {
        let barrier = Arc::clone(&barrier);
        tokio::spawn(async move {
            barrier.wait().await;
            contender.await
        })
    };
    let tasks = contenders.into_iter().map(start).collect::<Vec<_>>();
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await.expect("no contender panics"));
    }
    answers
}
