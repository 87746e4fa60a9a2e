//! A key set behind a URL: fetched at the start, again and again in the background, and at once when
//! a token names a key that is not known.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::uri::PathAndQuery;
use metrics::{counter, gauge};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{info, warn};

use super::{
    fetch::fetch,
    jwks::{JwksError, KeySet},
};
use crate::{
    config::Endpoint,
    metric_definitions::{SCOPE_KEYS_AGE, SCOPE_KEYS_LOADED},
    upstream::{BaseError, Upstream},
};

/// How long after one fetch the next may be asked for: made-up tokens cost the issuer this much.
const PAUSE: Duration = Duration::from_secs(5);

/// How long after a fetch that failed the next one comes.
const RETRY: Duration = Duration::from_secs(10);

/// How long a request waits for a fetch.
const PATIENCE: Duration = Duration::from_secs(6);

/// The keys behind a URL. One task fetches them, until this is dropped.
pub(super) struct Remote {
    state: Mutex<State>,
    keep_stale: Duration,
    upstream: Upstream,
    wanted: Arc<Notify>,
    /// How many fetches have ended.
    ended: watch::Sender<u64>,
    _fetching: DropGuard,
}

#[derive(Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    fetched: Option<Instant>,
    is_fetching: bool,
    /// When the last fetch ended, well or not.
    tried: Option<Instant>,
}

/// What the fetching task holds.
struct Fetcher<P> {
    remote: Weak<Remote>,
    upstream: Upstream,
    target: PathAndQuery,
    parse: P,
    shown: String,
}

impl Remote {
    /// Fetches the keys once, and goes on in the background whatever came of it.
    pub(super) async fn start<P>(
        url: &Endpoint,
        connect_timeout: Duration,
        refresh: Duration,
        keep_stale: Duration,
        parse: P,
    ) -> Result<Arc<Self>, BaseError>
    where
        P: Fn(&[u8]) -> Result<KeySet, JwksError> + Send + Sync + 'static,
    {
        let upstream = Upstream::asked_at(url, connect_timeout)?;
        let wanted = Arc::new(Notify::new());
        let stop = CancellationToken::new();
        let remote = Arc::new(Self {
            state: Mutex::default(),
            keep_stale,
            upstream: upstream.clone(),
            wanted: Arc::clone(&wanted),
            ended: watch::Sender::new(0),
            _fetching: stop.clone().drop_guard(),
        });
        let fetcher = Fetcher {
            remote: Arc::downgrade(&remote),
            upstream,
            target: url.target.clone(),
            parse,
            shown: url.to_string(),
        };
        fetcher.fetch().await;
        tokio::spawn(fetcher.run(refresh, wanted, stop));
        Ok(remote)
    }

    /// The connections to where they are.
    pub(super) const fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// The keys, unless the last ones are too old.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        let state = self.state.lock();
        let age = state.fetched.map(|fetched| fetched.elapsed());
        state.keys.clone().filter(|_| age.is_some_and(|age| age <= self.keep_stale))
    }

    /// Whether they were ever there.
    pub(super) fn was_fetched(&self) -> bool {
        self.state.lock().fetched.is_some()
    }

    /// Waits until they have been fetched, if they were not just now. Whether they were.
    pub(super) async fn refreshed(&self) -> bool {
        let mut ended = self.ended.subscribe();
        {
            let mut state = self.state.lock();
            if !state.is_fetching {
                if state.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
                    return false;
                }
                state.is_fetching = true;
                self.wanted.notify_one();
            }
        }
        matches!(timeout(PATIENCE, ended.changed()).await, Ok(Ok(())))
    }
}

impl<P> Fetcher<P>
where
    P: Fn(&[u8]) -> Result<KeySet, JwksError>,
{
    async fn run(self, refresh: Duration, wanted: Arc<Notify>, stop: CancellationToken) {
        let mut is_right = self.remote.upgrade().is_some_and(|remote| remote.current().is_some());
        loop {
            let pause = if is_right { refresh } else { RETRY.min(refresh) };
            tokio::select! {
                () = sleep(pause) => {}
                () = wanted.notified() => {}
                () = stop.cancelled() => return,
            }
            is_right = self.fetch().await;
        }
    }

    /// Fetches once; whether the keys are those that are there now.
    async fn fetch(&self) -> bool {
        if let Some(remote) = self.remote.upgrade() {
            remote.state.lock().is_fetching = true;
        }
        let keys = match fetch(&self.upstream, &self.target).await {
            Ok(content) => (self.parse)(&content).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let Some(remote) = self.remote.upgrade() else { return false };
        let result = if keys.is_ok() { "ok" } else { "failed" };
        counter!(SCOPE_KEYS_LOADED, "source" => "jwks_url", "result" => result).increment(1);
        let (is_right, age) = remote.take(keys, &self.shown);
        if let Some(age) = age {
            gauge!(SCOPE_KEYS_AGE).set(age.as_secs_f64());
        }
        remote.ended.send_modify(|ended| *ended += 1);
        is_right
    }
}

impl Remote {
    /// Takes what a fetch came to; whether it was right, and how old the keys are now.
    fn take(&self, keys: Result<KeySet, String>, url: &str) -> (bool, Option<Duration>) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let was_right = state.fetched.is_some() && state.fetched == state.tried;
        state.is_fetching = false;
        state.tried = Some(now);
        let is_right = keys.is_ok();
        match keys {
            Ok(keys) => {
                state.keys = Some(Arc::new(keys));
                state.fetched = Some(now);
                if !was_right {
                    info!(url, "the keys that tokens are verified by were fetched");
                }
            }
            Err(error) if state.keys.is_some() => {
                warn!(url, error, "the keys were not fetched; the last ones stay in use");
            }
            Err(error) => {
                warn!(url, error, "there are no keys yet; requests that need one get 503");
            }
        }
        (is_right, state.fetched.map(|fetched| now.saturating_duration_since(fetched)))
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::DecodingKey;
    use tokio::time::advance;

    use super::*;
    use crate::upstream::UpstreamConfig;

    fn remote(keep_stale: Duration) -> Remote {
        Remote {
            state: Mutex::default(),
            keep_stale,
            upstream: Upstream::new(&"http://a".parse().unwrap(), UpstreamConfig::default())
                .unwrap(),
            wanted: Arc::default(),
            ended: watch::Sender::new(0),
            _fetching: CancellationToken::new().drop_guard(),
        }
    }

    fn keys() -> Result<KeySet, String> {
        Ok(KeySet::shared(DecodingKey::from_secret(b"secret").unwrap(), Vec::new()))
    }

    fn failed() -> Result<KeySet, String> {
        Err("no connection".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_keys_are_used_while_fetching_fails_and_not_for_ever() {
        let remote = remote(Duration::from_secs(60));
        assert!(remote.current().is_none());
        assert_eq!(remote.take(failed(), "url"), (false, None));
        assert!(remote.current().is_none());
        assert_eq!(remote.take(keys(), "url"), (true, Some(Duration::ZERO)));
        advance(Duration::from_secs(60)).await;
        let (is_right, age) = remote.take(failed(), "url");
        assert_eq!((is_right, age), (false, Some(Duration::from_secs(60))));
        assert!(remote.current().is_some());
        advance(Duration::from_millis(1)).await;
        assert!(remote.current().is_none(), "they are too old");
        assert!(remote.take(keys(), "url").0);
        assert!(remote.current().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_ask_at_once_get_one_fetch_and_the_next_is_a_pause_away() {
        let remote = Arc::new(remote(Duration::from_secs(60)));
        let asking: Vec<_> = (0..8)
            .map(|_| {
                let remote = Arc::clone(&remote);
                tokio::spawn(async move { remote.refreshed().await })
            })
            .collect();
        remote.wanted.notified().await;
        assert!(remote.take(keys(), "url").0);
        remote.ended.send_modify(|ended| *ended += 1);
        for asked in asking {
            assert!(asked.await.unwrap());
        }
        let wanted = timeout(Duration::from_millis(1), remote.wanted.notified()).await;
        assert!(wanted.is_err(), "nobody asked for another");
        assert!(!remote.refreshed().await, "it was fetched just now");
        advance(PAUSE).await;
        // Nobody fetches here: who asks waits for a bound.
        assert!(!remote.refreshed().await);
        assert!(
            timeout(Duration::ZERO, remote.wanted.notified()).await.is_ok(),
            "it was asked for"
        );
    }
}
