//! The configuration: one file, or a few flags, into what the gateway runs by.
//!
//! [`Config::load`] reads both, holds every part against every other, and gives either a
//! configuration that works or all that is wrong with it, each with its place and its remedy. A
//! file goes through four steps: its tables are read key by key (`file`, `operation`) into a
//! draft, the flags go before it (`flags`), the parts are held against each other (`build`,
//! `check`), and routes are sorted to services (`service`, `routes`).

use std::{collections::BTreeMap, fs, net::SocketAddr, num::NonZeroUsize, path::Path, sync::Arc};

use hapax_core::OperationPolicy;
use http::{HeaderName, Method};

pub(crate) mod address;
mod build;
mod check;
mod cors;
mod describe;
mod draft;
pub(crate) mod duration;
mod error;
mod fields;
mod file;
mod flags;
mod forwarding;
mod header;
pub(crate) mod host;
mod limits;
mod operation;
mod problems;
mod routes;
mod scope;
mod secret;
mod section;
mod service;
mod size;
mod store;
mod suggest;
mod tls;
mod words;

pub use address::Endpoint;
pub use cors::{Cors, Origins};
pub use error::{ConfigError, Fault, Mistake};
pub use flags::Flags;
pub use host::HostPattern;
pub use limits::Limits;
pub use operation::{Answers, Authorize, Closer, PathTemplate, Prefer, Probe};
pub use problems::{Problems, StatusCodes};
pub use routes::{RoutePattern, Routes};
pub use scope::{ApiKeySource, CertificateField, Claim, JwtKeySource, JwtSource, ScopeSource};
pub use secret::SecretSource;
pub use service::Service;
pub use store::{EffectSecretSource, StoreLocation};

use error::{At, Place, Report};

use crate::{forwarded::Forwarding, tls::ServerTlsConfig};

/// What the gateway runs by: complete and consistent.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where callers connect. Default: `0.0.0.0:8080`. Port 0 is any free one.
    pub listen: SocketAddr,
    /// Where health and metrics are. Default: `127.0.0.1:8081`. Port 0 is any free one.
    pub operator_listen: SocketAddr,
    /// The TLS of callers. Default: none, plain HTTP.
    pub tls: Option<ServerTlsConfig>,
    /// The TLS of operators. Default: none, plain HTTP.
    pub operator_tls: Option<ServerTlsConfig>,
    /// What is believed of proxies before us, and what services are told of callers.
    pub forwarding: Forwarding,
    /// Where records live. Default: `sqlite:hapax.db`.
    pub store: StoreLocation,
    /// Where the secret of effect ids comes from. Default: made beside the database.
    pub effect_secret: EffectSecretSource,
    /// Whose key a key is. No default: it has to be said.
    pub scope: ScopeSource,
    /// The services behind, the most special host first, then the longest prefix. At least one.
    pub services: Vec<Service>,
    /// The operations in the order of the file. One whose routes lead to several upstreams is here
    /// once for each, with that upstream as its policy's target; likewise where its services differ
    /// in who is asked before a replay.
    pub operations: Vec<Arc<Operation>>,
    /// What the gateway takes on at most.
    pub limits: Limits,
    /// How problems are presented.
    pub problems: Problems,
    /// Which pages of other origins may use keyed operations. Default: what the service says of it.
    pub cors: Option<Cors>,
    /// Whether `/.well-known/idempotency` is answered. Default: true.
    pub policy_document: bool,
    /// The field in which requests carry an id that is logged. Default: `x-request-id`.
    pub request_id: Option<HeaderName>,
    /// How many threads serve connections. By default as many as are
    /// [usual](crate::Workers::usual) where it starts.
    pub workers: Option<NonZeroUsize>,
    /// How many writes share a commit at most. Default: 128.
    pub group_commit: usize,
    /// How many rows one step of the sweeper takes on. Default: 500.
    pub sweep: usize,
    near_misses: routes::NearMisses,
}

impl Config {
    /// What the flags say, and the file that they name.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn load(flags: &Flags, env: Environment) -> Result<Self, ConfigError> {
        match &flags.config {
            Some(file) => Self::from_file(file, flags, env),
            None => Self::from_flags(flags, env),
        }
    }

    /// A file, and the flags before it.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn from_file(file: &Path, flags: &Flags, env: Environment) -> Result<Self, ConfigError> {
        let unreadable = |what: String, help: &str| {
            let report = Report::default();
            report.add(&Place::File, Fault::new(what, help));
            Err(report.into_error(Some(file)))
        };
        match fs::read(file).map(String::from_utf8) {
            Ok(Ok(text)) => Self::from_text(file, &text, flags, env),
            Ok(Err(_)) => unreadable("it is not UTF-8".to_owned(), "save it as UTF-8"),
            Err(error) => unreadable(
                format!("it cannot be read: {error}"),
                "check the path after --config, and that this user may read the file",
            ),
        }
    }

    /// The flags alone: POST and PATCH with a key are one operation, `default`, and everything
    /// else passes.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn from_flags(flags: &Flags, env: Environment) -> Result<Self, ConfigError> {
        Self::from_draft(draft::Draft::default(), None, flags, env, Report::default())
    }

    /// Where a request goes, by its method, its host in lower case without a port, and the path of
    /// its target as it came; `None` where no service has its host and prefix.
    pub fn route(&self, method: &Method, host: &str, path: &str) -> Option<Route<'_>> {
        let spelled = routes::normalised(path);
        let service = self.services.iter().find(|service| service.takes(host, &spelled))?;
        let found = service.routes.find_spelled(method, host, &spelled);
        let (operation, pattern) = found.unzip();
        Some(Route { service, operation, pattern: pattern.flatten() })
    }

    /// The protected route that a forgiving service may take a request for which is not on it: with
    /// another slash, case or encoding, or with another host where the route's own upstream gets
    /// it. The request is on no route, or on a pattern of which this route is a special case. Only
    /// operations that the request `concerns` are looked at.
    pub fn near_miss(
        &self,
        method: &Method,
        host: &str,
        path: &str,
        route: &Route<'_>,
        concerns: impl Fn(&Operation) -> bool,
    ) -> Option<&RoutePattern> {
        if route.operation.is_some() && route.pattern.is_none() {
            return None;
        }
        self.near_misses.find(method, path, |near, operation| {
            // A service that does not look at the host takes every host's requests for its own.
            let may_be_taken =
                near.is_of(host) || operation.policy.target == route.service.identity();
            let is_special = route.pattern.is_none_or(|pattern| {
                let own =
                    route.operation.is_some_and(|own| own.policy.name == operation.policy.name);
                !own && pattern.contains_paths_of(near)
            });
            may_be_taken && is_special && concerns(operation)
        })
    }

    /// The settings of a process that another configuration has otherwise: they are fixed from its
    /// start on.
    pub(crate) fn fixed_that_differ(&self, other: &Self) -> Vec<&'static str> {
        let (own, others) = (&self.limits, &other.limits);
        let settings = [
            ("listen", self.listen != other.listen),
            ("operator.listen", self.operator_listen != other.operator_listen),
            ("tls", self.tls != other.tls),
            ("operator.tls", self.operator_tls != other.operator_tls),
            ("store", self.store != other.store),
            ("effect_secret", self.effect_secret != other.effect_secret),
            ("workers", self.workers != other.workers),
            ("group_commit", self.group_commit != other.group_commit),
            ("sweep", self.sweep != other.sweep),
            ("limits.store", own.store != others.store),
            ("limits.announce", own.announce != others.announce),
            ("limits.drain", own.drain != others.drain),
            ("limits.stalled", own.stalled != others.stalled),
            ("limits.max_connections", own.max_connections != others.max_connections),
        ];
        settings.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }

    fn from_text(
        file: &Path,
        text: &str,
        flags: &Flags,
        env: Environment,
    ) -> Result<Self, ConfigError> {
        let report = Report::default();
        match file::read(text, &report) {
            Some(draft) => Self::from_draft(draft, Some(file), flags, env, report),
            None => Err(report.into_error(Some(file))),
        }
    }

    fn from_draft(
        mut draft: draft::Draft,
        file: Option<&Path>,
        flags: &Flags,
        env: Environment,
        report: Report,
    ) -> Result<Self, ConfigError> {
        flags.apply(&mut draft, file.is_some(), &report);
        let config = build::build(draft, file.is_some(), env, &report);
        report.finish(file, config)
    }
}

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// The service that answers it.
    pub service: &'a Service,
    /// The operation it is an attempt at; `None` passes through unprotected.
    pub operation: Option<&'a Arc<Operation>>,
    /// The route that it is on where that is a pattern of many paths.
    pub pattern: Option<&'a RoutePattern>,
}

/// An operation at one upstream, under one authority over its replays.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// All that is decided for it.
    pub policy: OperationPolicy,
    /// The requests that are attempts at it.
    pub routes: Vec<RoutePattern>,
    /// Who is asked before the outcome of an earlier attempt is shown. Default: nobody.
    pub authorize: Option<Authorize>,
    /// What it does, in its owner's words: kept to be shown. Default: empty.
    pub contract: BTreeMap<String, String>,
    /// What its callers get beside the service's own answers.
    pub answers: Answers,
    /// How its service is asked what became of an effect. Default: it is not.
    pub probe: Option<Probe>,
}

/// What the process was started in, as far as it decides anything.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Environment {
    /// Whether an orchestrator runs it, which may run several.
    pub kubernetes: bool,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self { kubernetes: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() }
    }
}

/// The most bits a key may be asked for: beyond, no key that anybody sends would do.
const MOST_KEY_BITS: u16 = 512;

/// More threads than any machine has processors for.
const MOST_WORKERS: usize = 1024;

/// A number that is neither too small nor too large.
fn in_range<T: PartialOrd + std::fmt::Display>(
    number: T,
    least: T,
    most: T,
    example: &str,
) -> Result<T, Fault> {
    if (&least..=&most).contains(&&number) {
        return Ok(number);
    }
    Err(out_of_range(number, least, most, example))
}

fn out_of_range<T: std::fmt::Display>(
    number: impl std::fmt::Display,
    least: T,
    most: T,
    example: &str,
) -> Fault {
    let what = format!("{number} is not between {least} and {most}");
    Fault::new(what, format!("write a number in that range, such as {example}"))
}

#[cfg(test)]
mod tests;
