//! A kind of service, gateways in front of it, and all that their clients see.

use std::{net::SocketAddr, path::Path, time::Duration};

use tempfile::TempDir;

use crate::{
    Answer, Downstream, Serve, Upstream,
    history::{History, Payment, Recorder, records},
    wait::{eventually, until},
};

/// What cannot take longer, on a machine that also compiles.
const SOON: Duration = Duration::from_secs(20);

/// A service, how a gateway is started in front of it, and what its clients do.
pub struct Scene {
    /// What the service does with an identity, and the policy of its operation.
    pub downstream: Downstream,
    /// The service.
    pub upstream: Upstream,
    /// How a gateway is started; all of them share a store.
    pub serve: Serve,
    /// What clients do and are told.
    pub recorder: Recorder,
    dir: TempDir,
}

impl Scene {
    /// A service, and no gateway yet.
    pub fn new(downstream: Downstream) -> Self {
        Self::with(downstream, "")
    }

    /// As [`new`](Self::new), with more settings of the operation.
    pub fn with(downstream: Downstream, settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let upstream = Upstream::start(dir.path(), downstream.kind);
        let operation = format!("{}{settings}", downstream.operation());
        let serve = Serve::operations(dir.path(), &upstream, &operation);
        Self { downstream, upstream, serve, recorder: Recorder::default(), dir }
    }

    /// The directory of everything.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Sends a payment and waits for the answer.
    #[track_caller]
    pub fn send(&self, to: SocketAddr, payment: &Payment) -> Answer {
        self.recorder.start(to, payment).answer()
    }

    /// Sends a payment until it is known to be made.
    #[track_caller]
    pub fn paid(&self, to: SocketAddr, payment: &Payment) -> Answer {
        until(&format!("{}: it is paid", self.downstream.name), SOON, || {
            let answer = self.send(to, payment);
            let is_unknown = answer.field("hapax-outcome").as_deref() == Some("unknown");
            (answer.status == 201 && !is_unknown).then_some(answer)
        })
    }

    /// Sends a payment until nobody is at it.
    #[track_caller]
    pub fn not_in_flight(&self, to: SocketAddr, payment: &Payment) -> Answer {
        until(&format!("{}: it is no longer in flight", self.downstream.name), SOON, || {
            let answer = self.send(to, payment);
            (answer.problem().as_deref() != Some("in-flight")).then_some(answer)
        })
    }

    /// Sends a payment until nobody is at it, and then some times more: nobody knows what came of it.
    #[track_caller]
    pub fn stays_unknown(&self, to: SocketAddr, payment: &Payment) {
        self.not_in_flight(to, payment);
        for _ in 0..3 {
            self.send(to, payment).assert_outcome("unknown");
        }
    }

    /// Sends a payment until it is decided, and asserts whether it was made.
    #[track_caller]
    pub fn decided(&self, to: SocketAddr, payment: &Payment, is_paid: bool) {
        if !is_paid {
            return self.stays_unknown(to, payment);
        }
        let first = self.paid(to, payment);
        let again = self.send(to, payment);
        assert_eq!((again.status, again.body), (201, first.body), "{}", self.downstream.name);
    }

    /// All that happened; nothing may be under way any more.
    #[track_caller]
    pub fn history(&self) -> History {
        History::of(self, records(&self.dir().join("hapax.db")))
    }

    /// Waits until no record counts as executing.
    #[track_caller]
    pub fn healed(&self) {
        let is_executing = || {
            let records = records(&self.dir().join("hapax.db"));
            records.iter().any(|record| record.state == "executing")
        };
        eventually("nothing counts as executing", SOON, || !is_executing());
    }

    /// Asserts that all was as promised, and that there are so many effects.
    #[track_caller]
    pub fn assert_as_promised(&self, effects: usize) {
        self.history().assert_as_promised();
        assert_eq!(self.upstream.effects().len(), effects, "{}", self.downstream.name);
    }
}
