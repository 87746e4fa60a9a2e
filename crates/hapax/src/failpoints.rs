//! Points at which a test ends the process, or holds it.
//!
//! They are there with the feature `failpoints` and debug assertions: never in an optimized binary,
//! whichever features a build has. Elsewhere passing one is no code.
//!
//! The environment variable `HAPAX_FAILPOINTS` arms them, as in
//! `claimed=abort, probed=abort@2, answered=pause:/tmp/gate`. `abort` ends the process as a crash
//! does, `abort@N` at the Nth passing. `pause:FILE` makes `FILE.reached` and goes on when `FILE` is
//! there.

/// A point in the way of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failpoint {
    /// The claim is durable, and not a byte was sent.
    Claimed,
    /// The head of the service's answer is there.
    Head,
    /// The whole answer is there, and nothing of it is stored.
    Answered,
    /// What the attempt came to is durable, and nobody was told.
    Settled,
    /// The service was asked what became of it, and the verdict is not stored.
    Probed,
    /// The attempt that closes the earlier ones is durable, and the service does not know of it.
    Closing,
}

impl Failpoint {
    #[cfg(all(feature = "failpoints", debug_assertions))]
    const ALL: [Self; 6] =
        [Self::Claimed, Self::Head, Self::Answered, Self::Settled, Self::Probed, Self::Closing];

    /// Its word in `HAPAX_FAILPOINTS`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Head => "head",
            Self::Answered => "answered",
            Self::Settled => "settled",
            Self::Probed => "probed",
            Self::Closing => "closing",
        }
    }
}

/// Whether the points are there.
pub const COMPILED: bool = cfg!(all(feature = "failpoints", debug_assertions));

/// Passes a point.
#[cfg(not(all(feature = "failpoints", debug_assertions)))]
pub fn pass(_: Failpoint) -> std::future::Ready<()> {
    std::future::ready(())
}

#[cfg(all(feature = "failpoints", debug_assertions))]
pub use armed::pass;

/// By hand: the crate for this, `fail`, has no way to end the process, and none to let it go on from
/// outside.
#[cfg(all(feature = "failpoints", debug_assertions))]
mod armed {
    use std::{
        env,
        fs::File,
        path::PathBuf,
        pin::Pin,
        process::abort,
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use tokio::time::sleep;

    use super::Failpoint;

    static ARMED: LazyLock<Vec<Armed>> = LazyLock::new(|| {
        let text = env::var("HAPAX_FAILPOINTS").unwrap_or_default();
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(Armed::parse).collect()
    });

    struct Armed {
        point: Failpoint,
        act: Act,
        /// Passings before it acts.
        left: AtomicU64,
    }

    enum Act {
        Abort,
        Pause(PathBuf),
    }

    impl Armed {
        fn parse(word: &str) -> Self {
            let parsed = word.split_once('=').and_then(|(point, act)| {
                let point = Failpoint::ALL.into_iter().find(|known| known.word() == point)?;
                let (act, nth) = match act.split_once('@') {
                    Some((act, nth)) => (act, nth.parse().ok()?),
                    None => (act, 1),
                };
                let act = match act.strip_prefix("pause:") {
                    Some(file) => Act::Pause(file.into()),
                    None if act == "abort" => Act::Abort,
                    None => return None,
                };
                Some(Self { point, act, left: AtomicU64::new(nth) })
            });
            parsed.unwrap_or_else(|| {
                // A test that arms nothing would prove nothing.
                eprintln!("HAPAX_FAILPOINTS is not understood: {word}");
                abort()
            })
        }

        fn is_due(&self, point: Failpoint) -> bool {
            self.point == point && self.left.fetch_sub(1, Ordering::SeqCst) == 1
        }
    }

    /// Passes a point. Boxed, so that the future of an attempt is about as large as without.
    pub fn pass(point: Failpoint) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Some(due) = ARMED.iter().find(|armed| armed.is_due(point)) else { return };
            match &due.act {
                Act::Abort => abort(),
                Act::Pause(file) => {
                    let mut reached = file.clone().into_os_string();
                    reached.push(".reached");
                    if File::create(reached).is_err() {
                        abort();
                    }
                    while !file.exists() {
                        sleep(Duration::from_millis(5)).await;
                    }
                }
            }
        })
    }
}
