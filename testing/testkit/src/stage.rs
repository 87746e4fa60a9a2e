//! What most tests need: a service, a gateway in front of it, a directory for both.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Gateway, Ran, Serve, Upstream, UpstreamKind, hapax};

/// A gateway in front of a service. Fields are dropped in order: the gateway first.
pub struct Stage {
    /// The gateway.
    pub gateway: Gateway,
    /// The service.
    pub upstream: Upstream,
    dir: TempDir,
}

impl Stage {
    /// A gateway with its defaults, for a single tenant.
    #[track_caller]
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// A gateway for a single tenant, with these flags.
    #[track_caller]
    pub fn with(flags: &[&str]) -> Self {
        Self::of(UpstreamKind::Plain, |serve| serve.args(flags))
    }

    /// A gateway that may resend, in front of a service that collapses on the effect id.
    #[track_caller]
    pub fn resending(flags: &[&str]) -> Self {
        Self::of(UpstreamKind::Collapsing, |serve| {
            serve.args(["--on-unknown", "resend", "--collapse-for", "1h"]).args(flags)
        })
    }

    /// A gateway with this configuration file.
    #[track_caller]
    pub fn configured(kind: UpstreamKind, text: &str) -> Self {
        Self::start(kind, |dir, upstream| Serve::configured(dir, upstream, text))
    }

    /// A gateway whose configuration file is [`ONE_SERVICE`](crate::ONE_SERVICE) and then the text.
    #[track_caller]
    pub fn operations(kind: UpstreamKind, text: &str) -> Self {
        Self::start(kind, |dir, upstream| Serve::operations(dir, upstream, text))
    }

    /// A gateway started as the function says.
    #[track_caller]
    pub fn of(kind: UpstreamKind, serve: impl FnOnce(Serve) -> Serve) -> Self {
        Self::start(kind, |dir, upstream| serve(Serve::new(dir, upstream)))
    }

    #[track_caller]
    fn start(kind: UpstreamKind, serve: impl FnOnce(&Path, &Upstream) -> Serve) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let upstream = Upstream::start(dir.path(), kind);
        let gateway = serve(dir.path(), &upstream).start();
        Self { gateway, upstream, dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.dir().join("hapax.db")
    }

    /// `hapax records …` on the database.
    pub fn records(&self, args: &[&str]) -> Ran {
        let store = format!("sqlite:{}", self.database().display());
        let (verb, rest) = args.split_first().expect("a verb");
        hapax(["records", verb, "--store", &store].iter().chain(rest))
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}
