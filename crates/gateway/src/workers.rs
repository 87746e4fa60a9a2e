//! Threads that serve connections, each by itself.

use std::{
    cell::Cell,
    io,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use tokio::{
    net::TcpStream,
    runtime::{Builder, Handle, Runtime},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Threads that serve connections, each with a runtime of its own.
///
/// A connection, the executions that its requests begin and the connections to services that these
/// take stay on one thread: a task that wanders waits at each step for memory that another processor
/// has touched last (`docs/speed.md`). Clones are the same threads; they end when the last clone is
/// dropped, and what is under way there with them.
#[derive(Clone, Debug, Default)]
pub struct Workers(Arc<Threads>);

#[derive(Debug, Default)]
struct Threads {
    workers: Vec<Worker>,
    ended: CancellationToken,
}

#[derive(Debug)]
struct Worker {
    home: Home,
    runtime: Handle,
    /// Connections, and requests over HTTP/2.
    tasks: Arc<AtomicUsize>,
}

impl Workers {
    /// No threads: everything is served by the runtime that listens.
    pub fn here() -> Self {
        Self::default()
    }

    /// Starts so many threads.
    ///
    /// # Errors
    /// When the system gives no more threads or files.
    pub fn start(count: NonZeroUsize) -> io::Result<Self> {
        let ended = CancellationToken::new();
        let start = |nth| Worker::start(nth, ended.clone());
        let workers = (1..=count.get()).map(start).collect::<io::Result<_>>();
        // Those that were started end again.
        let guard = ended.clone().drop_guard();
        let workers = workers?;
        guard.disarm();
        Ok(Self(Arc::new(Threads { workers, ended })))
    }

    /// As many as there are processors for this process, less the one that is left to the store's
    /// writer; one at least.
    pub fn usual() -> NonZeroUsize {
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        NonZeroUsize::new(processors.saturating_sub(1)).unwrap_or(NonZeroUsize::MIN)
    }

    /// Has the least busy thread serve a connection.
    pub(crate) fn serve<S, F>(&self, stream: TcpStream, serving: S)
    where
        S: FnOnce(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        if self.0.workers.is_empty() {
            tokio::spawn(serving(stream));
            return;
        }
        // The runtime that accepted it lets go of it, and the thread's own takes it up.
        let lost = |error: io::Error| warn!(%error, "a connection could not be handed to a thread, and is closed");
        match stream.into_std() {
            Ok(stream) => self.spawn(async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => serving(stream).await,
                    Err(error) => lost(error),
                }
            }),
            Err(error) => lost(error),
        }
    }

    /// Runs a task on the least busy thread, on this one where others are as busy.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let here = Home::here();
        let business =
            |worker: &&Worker| (worker.tasks.load(Ordering::Relaxed), worker.home != here);
        match self.0.workers.iter().min_by_key(business) {
            Some(worker) => worker.spawn(task),
            None => drop(tokio::spawn(task)),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Worker {
    fn start(nth: usize, ended: CancellationToken) -> io::Result<Self> {
        let (home, (made, making)) = (Home::new(), mpsc::channel());
        let run = move |runtime: Runtime| {
            HOME.set(home);
            runtime.block_on(ended.cancelled());
            // A system call that does not return must not keep this thread.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name(format!("hapax-worker-{nth}"));
        // Made where it ends: to drop a runtime in a task, for want of a thread, would be a panic.
        thread.spawn(move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                // Whoever asked waits.
                let _ = made.send(Ok(runtime.handle().clone()));
                run(runtime);
            }
            Err(error) => drop(made.send(Err(error))),
        })?;
        let runtime = making.recv().map_err(io::Error::other)??;
        Ok(Self { home, runtime, tasks: Arc::default() })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(&self.tasks);
        self.runtime.spawn(async move {
            let _counted = counted;
            task.await;
        });
    }
}

/// A task, while it is there.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(tasks: &Arc<AtomicUsize>) -> Self {
        tasks.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(tasks))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where a task runs: a thread of [`Workers`], or any of the threads that share their tasks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Home(usize);

thread_local! {
    static HOME: Cell<Home> = const { Cell::new(Home::SHARED) };
}

impl Home {
    const SHARED: Self = Self(0);

    /// That of a further thread.
    fn new() -> Self {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// Where this runs.
    pub(crate) fn here() -> Self {
        HOME.get()
    }
}

#[cfg(test)]
mod tests {
    use std::{env, process::Command, time::Duration};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::{mpsc, oneshot},
        time::timeout,
    };

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn two() -> Workers {
        Workers::start(NonZeroUsize::new(2).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn connections_are_spread_and_stay_where_they_are() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (workers, (sender, mut homes)) = (two(), mpsc::unbounded_channel());
        let mut callers = Vec::new();
        for _ in 0..4 {
            callers.push(TcpStream::connect(address).await.unwrap());
            let sender = sender.clone();
            let (stream, _) = listener.accept().await.unwrap();
            workers.serve(stream, move |mut stream| async move {
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    // Whatever a task begins is where it is.
                    let begun = tokio::spawn(async { Home::here() }).await.unwrap();
                    assert_eq!(begun, Home::here());
                    sender.send(begun).unwrap();
                    stream.write_all(&byte).await.unwrap();
                }
            });
        }
        let mut seen = Vec::new();
        for caller in &mut callers {
            for _ in 0..3 {
                caller.write_all(b"?").await.unwrap();
                let mut byte = [0];
                timeout(SOON, caller.read_exact(&mut byte)).await.unwrap().unwrap();
                seen.push(homes.recv().await.unwrap());
            }
        }
        assert!(!seen.contains(&Home::SHARED), "{seen:?}");
        for one in seen.chunks(3) {
            assert!(one.iter().all(|home| home == &one[0]), "{seen:?}");
        }
        let of_first = seen.iter().filter(|home| *home == &seen[0]).count();
        assert_eq!(of_first, 6, "two of four: {seen:?}");
    }

    #[tokio::test]
    async fn a_task_that_ended_counts_no_more_and_one_that_panicked_neither() {
        let workers = two();
        let busy = || -> Vec<_> {
            workers.0.workers.iter().map(|it| it.tasks.load(Ordering::Relaxed)).collect()
        };
        let (held, holds) = oneshot::channel::<()>();
        workers.spawn(async {
            let _ = holds.await;
        });
        assert_eq!(busy(), [1, 0]);
        let (sender, mut panicking) = mpsc::channel::<()>(1);
        for _ in 0..3 {
            let sender = sender.clone();
            workers.spawn(async move {
                let _sender = sender;
                panic!("on purpose");
            });
        }
        drop(sender);
        assert_eq!(timeout(SOON, panicking.recv()).await, Ok(None), "all of them ended");
        drop(held);
        let none = async {
            while busy() != [0, 0] {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, none).await.unwrap();
    }

    #[tokio::test]
    async fn threads_end_with_the_last_of_their_users_and_what_they_ran_with_them() {
        let workers = two();
        let (sender, mut receiver) = mpsc::channel::<()>(1);
        workers.spawn(async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        let clone = workers.clone();
        drop(workers);
        assert!(timeout(Duration::from_millis(20), receiver.recv()).await.is_err(), "one is left");
        drop(clone);
        assert_eq!(timeout(SOON, receiver.recv()).await, Ok(None));
    }

    #[tokio::test]
    async fn without_threads_the_runtime_that_asks_does_it() {
        let (sender, done) = oneshot::channel();
        Workers::here().spawn(async { sender.send(Home::here()).unwrap() });
        assert_eq!(done.await, Ok(Home::SHARED));
    }

    #[test]
    fn where_the_system_gives_no_threads_that_is_an_error_also_to_a_task() {
        const CHILD: &str = "HAPAX_TEST_WITHOUT_THREADS";
        if env::var_os(CHILD).is_some() {
            let here = Builder::new_current_thread().build().unwrap();
            let started = here.block_on(async { Workers::start(NonZeroUsize::MIN) });
            assert!(started.is_err());
            return;
        }
        // No thread has room for such a stack; the test itself then runs where it is asked for.
        let name = "workers::tests::\
                    where_the_system_gives_no_threads_that_is_an_error_also_to_a_task";
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", name])
            .envs([("RUST_MIN_STACK", "1152921504606846976"), (CHILD, "")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn there_is_always_one() {
        assert!(Workers::usual().get() >= 1);
    }
}
