//! Connections that can take another request: idle ones, newest first, and shared ones.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hapax::http::headers::members;
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::Reuse;
use super::connection::Http1;
use super::http_2::{Http2, Slot};
use crate::workers::Home;

/// No idle connection is of use for longer.
const LONGEST_IDLE: Duration = Reuse::Unkeyed.max_idle();

/// How often connections that nobody took are closed.
const REAP_EVERY: Duration = Duration::from_secs(1);

/// How much earlier than the upstream announced we stop using a connection: its clock started
/// before ours, and a request takes its time to arrive.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// A connection for one request.
pub(super) enum Taken {
    Http1(Http1),
    Http2(Slot),
}

/// The idle connections to one upstream, and those that are shared.
pub(super) struct Pool {
    // Held for a push or a scan, never across an await.
    state: Mutex<State>,
    max: usize,
    /// How many more connections there may be.
    places: Arc<Semaphore>,
}

/// One of the connections that there may be.
#[derive(Debug)]
pub(super) struct Place(
    #[expect(dead_code, reason = "it is there to be dropped")] OwnedSemaphorePermit,
);

#[derive(Default)]
struct State {
    /// Oldest first.
    idle: Vec<Idle>,
    /// HTTP/2: in use by many, or idle.
    shared: Vec<Http2>,
    reaping: bool,
}

struct Idle {
    connection: Http1,
    since: Instant,
    /// How long it may be idle.
    limit: Duration,
}

impl Pool {
    pub(super) fn new(max: usize, connections: usize) -> Self {
        let places = Arc::new(Semaphore::new(connections.clamp(1, Semaphore::MAX_PERMITS)));
        Self { state: Mutex::default(), max, places }
    }

    /// A place for another connection; where there is none an idle one gives way, or one has to end
    /// until then.
    pub(super) async fn place(&self, deadline: Instant) -> Option<Place> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(Place(place));
        }
        let gives_way = self.state.lock().oldest();
        drop(gives_way);
        let place = timeout_at(deadline, Arc::clone(&self.places).acquire_owned()).await;
        place.ok()?.ok().map(Place)
    }

    /// Room on a connection that is shared, or the one that has been idle for the shortest time, if
    /// that is short enough; of those that this thread drives, where there is one.
    pub(super) fn take(&self, reuse: Reuse) -> Option<Taken> {
        self.take_at(reuse, Instant::now())
    }

    fn take_at(&self, reuse: Reuse, now: Instant) -> Option<Taken> {
        let mut state = self.state.lock();
        state.prune(now);
        let mut shared = state.shared.iter();
        if let Some(slot) = shared.find_map(|shared| shared.slot(reuse.max_idle(), now)) {
            return Some(Taken::Http2(slot));
        }
        // Not ready: still writing a request that was answered early, or not yet noticed by the task
        // that drives it.
        let is_fit = |idle: &Idle| idle.age(now) < reuse.max_idle() && idle.connection.is_ready();
        let here = Home::here();
        let is_ours = |idle: &Idle| idle.connection.home() == here && is_fit(idle);
        // One that another thread drives costs two changes of threads, and is still better than none.
        let ours = state.idle.iter().rposition(is_ours);
        let position = ours.or_else(|| state.idle.iter().rposition(is_fit))?;
        Some(Taken::Http1(state.idle.remove(position).connection))
    }

    /// Shares a new connection, and takes its first place; `None` where its peer takes no requests.
    pub(super) fn share(self: &Arc<Self>, connection: Http2) -> Option<Slot> {
        let slot = connection.first_slot()?;
        let mut state = self.state.lock();
        state.shared.push(connection);
        self.reap_soon(&mut state);
        Some(slot)
    }

    fn put_at(self: &Arc<Self>, connection: Http1, limit: Duration, now: Instant) {
        // Where all places are taken, somebody may wait for this one, perhaps to connect anew.
        let is_full = self.places.available_permits() == 0;
        if limit.is_zero() || is_full || connection.is_closed() {
            return;
        }
        let mut state = self.state.lock();
        state.idle.push(Idle { connection, since: now, limit });
        if state.idle.len() > self.max {
            state.idle.remove(0);
        }
        self.reap_soon(&mut state);
    }

    fn reap_soon(self: &Arc<Self>, state: &mut State) {
        if !state.reaping
            && let Ok(runtime) = Handle::try_current()
        {
            state.reaping = true;
            runtime.spawn(reap(Arc::downgrade(self)));
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state.lock().idle.len()
    }
}

impl State {
    fn oldest(&mut self) -> Option<Idle> {
        if self.idle.is_empty() { None } else { Some(self.idle.remove(0)) }
    }

    fn prune(&mut self, now: Instant) {
        self.idle.retain(|idle| !idle.connection.is_closed() && idle.age(now) < idle.limit);
        self.shared.retain(|shared| !shared.is_over(LONGEST_IDLE, now));
    }
}

impl Idle {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

/// Closes connections that have been idle too long, until there are none.
async fn reap(pool: Weak<Pool>) {
    loop {
        sleep(REAP_EVERY).await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        let mut state = pool.state.lock();
        state.prune(Instant::now());
        if state.idle.is_empty() && state.shared.is_empty() {
            state.reaping = false;
            return;
        }
    }
}

/// A connection in use, and where it goes back to. Dropped, it closes.
pub(super) struct Lease {
    connection: Http1,
    pool: Arc<Pool>,
    limit: Duration,
}

impl Lease {
    pub(super) fn new(connection: Http1, pool: &Arc<Pool>, announced: Option<Duration>) -> Self {
        let limit = announced.map_or(LONGEST_IDLE, |announced| {
            announced.saturating_sub(KEEP_ALIVE_MARGIN).min(LONGEST_IDLE)
        });
        Self { connection, pool: Arc::clone(pool), limit }
    }

    /// The answer was read to its clean end.
    pub(super) fn give_back(self) {
        self.pool.put_at(self.connection, self.limit, Instant::now());
    }
}

/// `Keep-Alive: timeout=n`, how long the upstream will keep an idle connection (RFC 2068, section
/// 19.7.1).
pub(super) fn keep_alive_timeout(headers: &HeaderMap) -> Option<Duration> {
    let name = HeaderName::from_static("keep-alive");
    let seconds = members(headers, &name).find_map(|member| {
        let (parameter, value) = std::str::from_utf8(member).ok()?.split_once('=')?;
        parameter
            .trim_ascii()
            .eq_ignore_ascii_case("timeout")
            .then_some(value)?
            .trim_ascii()
            .parse()
            .ok()
    })?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use http::HeaderValue;
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::super::connection::http_1;
    use super::*;
    use crate::Workers;

    /// A connection that is ready for a request, and the upstream's end of it.
    async fn connection() -> (Http1, DuplexStream) {
        let (ours, theirs) = duplex(1024);
        let connection = http_1(ours).await.unwrap();
        assert!(becomes(&connection, Http1::is_ready).await);
        (connection, theirs)
    }

    async fn becomes(connection: &Http1, is: fn(&Http1) -> bool) -> bool {
        let waiting = async {
            while !is(connection) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(10), waiting).await.is_ok()
    }

    fn pool(max: usize) -> Arc<Pool> {
        Arc::new(Pool::new(max, 100))
    }

    #[tokio::test]
    async fn an_idle_connection_serves_keyed_requests_for_1_s_and_others_for_4_s() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        for (reuse, millis, taken) in [
            (Reuse::Keyed, 999, true),
            (Reuse::Keyed, 1_000, false),
            (Reuse::Unkeyed, 3_999, true),
            (Reuse::Unkeyed, 4_000, false),
        ] {
            let pool = pool(8);
            let (ours, _theirs) = connection().await;
            pool.put_at(ours, LONGEST_IDLE, start);
            assert_eq!(pool.take_at(reuse, after(millis)).is_some(), taken, "{reuse:?} {millis}");
        }
    }

    #[tokio::test]
    async fn a_connection_too_old_for_a_keyed_request_is_left_for_others() {
        let pool = pool(8);
        let (ours, _theirs) = connection().await;
        let start = Instant::now();
        pool.put_at(ours, LONGEST_IDLE, start);
        let later = start + Duration::from_secs(2);
        assert!(pool.take_at(Reuse::Keyed, later).is_none());
        assert!(pool.take_at(Reuse::Unkeyed, later).is_some());
    }

    #[tokio::test]
    async fn the_upstreams_own_limit_is_kept_with_a_second_to_spare() {
        for (announced, limit) in
            [(None, 4), (Some(60), 4), (Some(3), 2), (Some(1), 0), (Some(0), 0)]
        {
            let (ours, _theirs) = connection().await;
            let lease = Lease::new(ours, &pool(1), announced.map(Duration::from_secs));
            assert_eq!(lease.limit, Duration::from_secs(limit), "{announced:?}");
        }
        let pool = pool(8);
        let (ours, _theirs) = connection().await;
        pool.put_at(ours, Duration::ZERO, Instant::now());
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn the_newest_is_taken_first_and_the_oldest_gives_way() {
        let pool = pool(2);
        let start = Instant::now();
        let mut ends = Vec::new();
        for millis in [0, 10, 20] {
            let (ours, theirs) = connection().await;
            ends.push(theirs);
            pool.put_at(ours, LONGEST_IDLE, start + Duration::from_millis(millis));
        }
        assert_eq!(pool.len(), 2);
        let now = start + Duration::from_millis(1_015);
        assert!(pool.take_at(Reuse::Keyed, now).is_some(), "the newest is young enough");
        assert!(pool.take_at(Reuse::Keyed, now).is_none(), "the other is not");
        assert_eq!(pool.len(), 1);
    }

    #[tokio::test]
    async fn one_that_this_thread_drives_is_taken_before_a_newer_one_that_another_drives() {
        let pool = pool(8);
        let now = Instant::now();
        let (ours, _theirs) = connection().await;
        pool.put_at(ours, LONGEST_IDLE, now);
        let workers = Workers::start(NonZeroUsize::MIN).unwrap();
        let (sender, made) = oneshot::channel();
        workers.spawn(async move { drop(sender.send(connection().await)) });
        let (elsewhere, _its_end) = made.await.unwrap();
        assert_ne!(elsewhere.home(), Home::here());
        pool.put_at(elsewhere, LONGEST_IDLE, now);
        let homes = [(); 2].map(|()| match pool.take_at(Reuse::Unkeyed, now) {
            Some(Taken::Http1(connection)) => Some(connection.home() == Home::here()),
            _ => None,
        });
        assert_eq!(homes, [Some(true), Some(false)], "its own, then what there is");
    }

    #[tokio::test]
    async fn a_connection_the_upstream_closed_is_dropped() {
        let pool = pool(8);
        let (ours, theirs) = connection().await;
        drop(theirs);
        assert!(becomes(&ours, Http1::is_closed).await, "the driver notices");
        pool.put_at(ours, LONGEST_IDLE, Instant::now());
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn idle_connections_are_closed_without_anybody_asking() {
        use tokio::io::AsyncReadExt;

        let pool = pool(8);
        let (ours, mut theirs) = connection().await;
        let long_ago = Instant::now().checked_sub(LONGEST_IDLE).unwrap_or_else(Instant::now);
        pool.put_at(ours, LONGEST_IDLE, long_ago);
        let mut byte = [0];
        let closed = timeout(Duration::from_secs(10), theirs.read(&mut byte)).await;
        assert!(matches!(closed, Ok(Ok(0))), "{closed:?}");
        assert!(!pool.state.lock().reaping);
    }

    #[tokio::test]
    async fn where_all_places_are_taken_an_idle_connection_gives_way_or_the_time_is_over() {
        let pool = Arc::new(Pool::new(8, 2));
        let soon = || Instant::now() + Duration::from_millis(50);
        let first = pool.place(soon()).await.unwrap();
        let (ours, mut theirs) = connection().await;
        pool.put_at(ours, LONGEST_IDLE, Instant::now());
        let _second = pool.place(soon()).await.unwrap();
        assert_eq!(pool.len(), 1, "there was room");
        assert!(pool.place(soon()).await.is_none());
        assert_eq!(pool.len(), 0, "it gave way");
        let mut byte = [0];
        let closed = tokio::io::AsyncReadExt::read(&mut theirs, &mut byte);
        assert!(matches!(timeout(Duration::from_secs(10), closed).await, Ok(Ok(0))));
        // What comes back while somebody may wait is closed, so that its place is free.
        let (ours, _theirs) = connection().await;
        pool.put_at(ours, LONGEST_IDLE, Instant::now());
        assert_eq!(pool.len(), 0);
        drop(first);
        assert!(pool.place(soon()).await.is_some());
    }

    #[test]
    fn the_keep_alive_hint_is_read() {
        for (value, seconds) in [
            ("timeout=5, max=100", Some(5)),
            ("max=100,Timeout = 7", Some(7)),
            ("max=100", None),
            ("timeout=soon", None),
            ("timeout=-1", None),
        ] {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static("keep-alive"),
                HeaderValue::from_static(value),
            )]);
            let read = keep_alive_timeout(&headers);
            assert_eq!(read, seconds.map(Duration::from_secs), "{value}");
        }
    }
}
