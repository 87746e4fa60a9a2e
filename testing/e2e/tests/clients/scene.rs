//! A service, a gateway in front of it, and a fault proxy on either side of the gateway.

use std::path::Path;

use hapax_testkit::{FaultProxy, Gateway, Serve, Upstream, UpstreamKind};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::SOON;

/// Fields are dropped in order: the gateway first.
pub(crate) struct Scene {
    /// Between the client and the gateway.
    pub(crate) front: FaultProxy,
    pub(crate) gateway: Gateway,
    /// Between the gateway and the service.
    pub(crate) back: FaultProxy,
    pub(crate) upstream: Upstream,
    dir: TempDir,
}

impl Scene {
    /// A service that knows nothing of keys, so that outcomes which are not known are held.
    pub(crate) fn holding() -> Self {
        Self::with(UpstreamKind::Plain, "")
    }

    /// A service that collapses on the effect id, and a gateway that may send again.
    pub(crate) fn resending() -> Self {
        Self::with(UpstreamKind::Collapsing, RESEND)
    }

    /// With more said about the operation.
    pub(crate) fn with(kind: UpstreamKind, operation: &str) -> Self {
        let routes = "routes = [\"POST /payments\", \"POST /v1/charges\"]";
        let text = format!("[[operation]]\nname = \"pay\"\n{routes}\n{operation}\n");
        Self::of(kind, "", &text)
    }

    /// With more limits, and these operations.
    pub(crate) fn of(kind: UpstreamKind, limits: &str, operations: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let upstream = Upstream::start(dir.path(), kind);
        let back = FaultProxy::before(upstream.address());
        let text = format!(
            "store = \"sqlite:{{dir}}/hapax.db\"\nscope = {{ single_tenant = true }}\n\
             [limits]\n{limits}\n\
             [[service]]\nupstream = \"http://{}\"\n{operations}",
            back.address()
        );
        let gateway = Serve::configured(dir.path(), &upstream, &text).start();
        let front = FaultProxy::before(gateway.address());
        Self { front, gateway, back, upstream, dir }
    }

    /// Where clients connect.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.front.address())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps the gateway from writing, until it is dropped.
    pub(crate) fn lock_store(&self) -> Connection {
        let connection = Connection::open(self.dir().join("hapax.db")).expect("the database");
        connection.busy_timeout(SOON).expect("a timeout");
        connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is taken");
        connection
    }

    /// How often the gateway has decided so.
    pub(crate) fn decided(&self, decision: &str) -> usize {
        let label = format!("decision=\"{decision}\"");
        let metrics = self.gateway.operator("/metrics").text();
        let of_name = metrics
            .lines()
            .filter(|line| line.starts_with("hapax_decisions_total{") && line.contains(&label));
        let counts = of_name.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok());
        counts.sum()
    }
}

/// What `docs/unknown-outcomes.md` says of services that collapse.
pub(crate) const RESEND: &str = "on_unknown = \"resend\"\ncollapse_for = \"1h\"\n";

/// As the recipes have it: a retry waits for the first request.
pub(crate) const WAITING: &str = include_str!("../../clients/operation.toml");
