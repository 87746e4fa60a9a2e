//! What requests share, and what a keyed operation is to them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hapax::{
    Hapax, Operation, OperationStatus,
    http::{
        FieldNames, NotAHeader,
        body::{BufferBudget, ReadLimits},
        headers::{IDEMPOTENCY_KEY, strip_look_alikes},
    },
};
use hapax_core::{KeySource, Kind, Mode, OperationName, Problem, ProblemKind, RecordId, StoreDown};
use hapax_store::StoreError;
use http::{
    HeaderName,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};
use thiserror::Error;

use crate::{
    authorize::Authorizer,
    config::{self, Answers, Config, StoreLocation, host},
    cors::{Cors, Preflight},
    forgotten,
    forwarded::Caller,
    observe::Observer,
    outage::{Outage, OutageError},
    presenting::Presentation,
    probe::{AuthorizationError, HttpProber},
    replay_room::ReplayRoom,
    scope::{ScopeSourceError, Scopes},
    tls::UpstreamTls,
    tunnel::Tunnels,
    upstream::{BaseError, Upstream, UpstreamConfig},
    well_known::WellKnown,
};

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) hapax: Hapax,
    pub(crate) scopes: Arc<Scopes>,
    pub(crate) read_limits: ReadLimits,
    pub(crate) budget: BufferBudget,
    pub(crate) replay_room: ReplayRoom,
    pub(crate) observer: Observer,
    pub(crate) tunnels: Tunnels,
    /// Whether no operation enforces: then not even our own fields are touched anywhere.
    pub(crate) only_observes: bool,
    pub(crate) presentation: Presentation,
    pub(crate) cors: Cors,
    /// The policy document; none where it is switched off, or where nothing is to be changed.
    pub(crate) well_known: Option<WellKnown>,
    /// What ran without a record.
    outage: Arc<Outage>,
    pub(crate) config: Config,
    /// One for each service of the configuration, in its order.
    upstreams: Vec<Upstream>,
    /// The keyed operations, by the address of the one in the configuration, which stays there.
    routes: HashMap<usize, Route>,
}

/// What a request is.
pub(crate) enum Routed<'a> {
    /// An attempt at a keyed operation.
    Keyed(&'a Route),
    /// On no route, and easily taken for one.
    NearMiss(Problem),
    /// None of our business.
    Elsewhere,
}

/// A keyed operation, ready to be run.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) operation: Arc<Operation>,
    pub(crate) answers: Answers,
    pub(crate) fields: FieldNames,
    /// Who is asked before the outcome of an earlier attempt is shown.
    pub(crate) authorizer: Option<Arc<Authorizer>>,
    /// The fields that decide something: what a service may take for one of them is not passed on.
    pub(crate) look_alikes: Arc<[HeaderName]>,
}

impl Shared {
    /// What the requests of a configuration share; its operations are registered with the engine.
    /// What the one before it had, and is still of use, is taken over.
    pub(crate) async fn new(
        config: Config,
        hapax: Hapax,
        before: Option<&Self>,
    ) -> Result<Self, GatewayError> {
        let upstream = |service: &config::Service| {
            if let Some(kept) = before.and_then(|before| before.upstream_of(service, &config)) {
                return Ok(kept.clone());
            }
            let how = UpstreamConfig {
                connect_timeout: config.limits.connect,
                protocol: service.protocol,
                tls: service.tls.clone(),
                max_connections: config.limits.max_connections,
                ..UpstreamConfig::default()
            };
            Upstream::new(&service.upstream, how)
                .map_err(|error| GatewayError::Upstream { upstream: service.origin(), error })
        };
        let upstreams = config.services.iter().map(upstream).collect::<Result<Vec<_>, _>>()?;
        let scopes = match before.filter(|before| before.scopes_serve(&config)) {
            Some(before) => Arc::clone(&before.scopes),
            None => Arc::new(Scopes::new(&config.scope, config.limits.connect).await?),
        };
        let mut authorizers =
            Authorizers { connect_timeout: config.limits.connect, all: Vec::new() };
        let (mut routes, mut probers) = (HashMap::new(), Vec::new());
        for configured in &config.operations {
            if configured.policy.kind == Kind::Keyed {
                let operation = hapax.register(configured.policy.clone()).await?;
                let authorizer = authorizers.of(configured)?;
                let answers = configured.answers.clone();
                let route = Route::new(operation, answers, scopes.header(), authorizer)?;
                if let Some(probe) = &configured.probe
                    && let Some(upstream) = target_of(&config, &upstreams, configured)
                {
                    let (fields, cap) = (&route.fields.replayed, configured.policy.response_cap);
                    let prober =
                        HttpProber::new(upstream.clone(), probe.clone(), fields.clone(), cap)?;
                    probers.push((Arc::clone(&route.operation), Arc::new(prober) as _));
                }
                routes.insert(address(configured), route);
            }
        }
        let StoreLocation::Sqlite(database) = config.store.clone();
        let operations = routes.values().map(|route| Arc::clone(&route.operation));
        let operations = operations.collect::<Vec<_>>();
        let passes = routes.values().any(Route::passes);
        // What ran without a record is known to this process alone, until it has one.
        let outage = match before {
            Some(before) => Arc::clone(&before.outage),
            None => Outage::begin(hapax.clone(), database, operations.clone()).await?,
        };
        outage.is_for(operations, passes)?;
        // Nothing fails any more.
        hapax.probe_by(probers);
        let named = config.operations.iter().map(|operation| operation.policy.name.clone());
        tokio::spawn(forgotten::warn_of(hapax.clone(), named.collect()));
        let only_observes = !routes.is_empty() && !routes.values().any(Route::enforces);
        let has_document = config.policy_document && !only_observes;
        let presentation = Presentation::new(config.problems.clone(), has_document);
        Ok(Self {
            well_known: has_document.then(|| WellKnown::new(&config, &presentation)),
            cors: Cors::new(
                config.cors.clone(),
                config.request_id.clone(),
                before.map(|before| &before.cors),
            ),
            presentation,
            outage,
            hapax,
            scopes,
            read_limits: ReadLimits {
                max_bytes: config.limits.request_body,
                max_decoded: config.limits.decoded_body,
                within: config.limits.body_within,
            },
            budget: before
                .filter(|before| {
                    before.config.limits.buffered_total == config.limits.buffered_total
                })
                .map_or_else(
                    || BufferBudget::new(config.limits.buffered_total),
                    |before| before.budget.clone(),
                ),
            replay_room: before
                .map(|before| &before.replay_room)
                .filter(|room| room.limit() == config.limits.buffered_total)
                .map_or_else(|| ReplayRoom::new(config.limits.buffered_total), Clone::clone),
            observer: before.map(|before| before.observer.clone()).unwrap_or_default(),
            tunnels: before.map(|before| before.tunnels.clone()).unwrap_or_default(),
            only_observes,
            config,
            upstreams,
            routes,
        })
    }

    /// Finds out where a request comes from, and takes from its head what a stranger says of that
    /// and of whose it is.
    pub(crate) fn receive(&self, head: &mut Parts) {
        self.config.forwarding.receive(head, self.only_observes);
        if let Some(scope) = self.scopes.trusted_header()
            && !self.only_observes
            && !Caller::scope_is_believed(head)
        {
            head.headers.remove(scope);
            strip_look_alikes(&mut head.headers, scope);
        }
    }

    /// What is shown to services, and renewed when its files change.
    pub(crate) fn upstream_tls(&self) -> impl Iterator<Item = &UpstreamTls> {
        let authorizers = self.routes.values().filter_map(|route| route.authorizer.as_deref());
        let asked = authorizers.map(Authorizer::upstream).chain(self.scopes.upstream());
        self.upstreams.iter().chain(asked).filter_map(Upstream::tls)
    }

    /// The service of a request, and what it is there; `None` where no service takes its host and
    /// path.
    pub(crate) fn route(&self, head: &Parts) -> Option<(&Upstream, Routed<'_>)> {
        let host = host::of_request(head)?;
        let found = self.config.route(&head.method, &host, head.uri.path())?;
        let mut services = self.config.services.iter().zip(&self.upstreams);
        let (_, upstream) = services.find(|(service, _)| std::ptr::eq(*service, found.service))?;
        let operation = found.operation.and_then(|found| self.routes.get(&address(found)));
        let routed = match (self.near_miss(head, &host, &found), operation) {
            (Some(problem), _) => Routed::NearMiss(problem),
            (None, Some(route)) => Routed::Keyed(route),
            (None, None) => Routed::Elsewhere,
        };
        Some((upstream, routed))
    }

    /// The connections to a service, if it is reached in the same way under another configuration.
    fn upstream_of(&self, service: &config::Service, config: &Config) -> Option<&Upstream> {
        let same_way = self.config.limits.connect == config.limits.connect;
        let mut services = self.config.services.iter().zip(&self.upstreams);
        let found = services.find(|(own, _)| {
            let same_service = own.upstream == service.upstream;
            same_way && same_service && own.protocol == service.protocol && own.tls == service.tls
        })?;
        Some(found.1)
    }

    /// Whether callers are found out in the same way under another configuration, by what is kept
    /// up to date anyway.
    fn scopes_serve(&self, config: &Config) -> bool {
        self.config.scope == config.scope && self.scopes.is_kept_up_to_date()
    }

    /// The field in which requests carry their id; none where nothing is changed.
    pub(crate) fn request_id(&self) -> Option<&HeaderName> {
        self.config.request_id.as_ref().filter(|_| !self.only_observes)
    }

    /// What is known of requests without a record, where those of an operation pass while the store
    /// is down, or where any did that may have no record yet.
    pub(crate) async fn outage_of(&self, route: &Route) -> Option<&Arc<Outage>> {
        let is_concerned = self.outage.knows_something().await || route.passes();
        is_concerned.then_some(&self.outage)
    }

    /// What became of a record that ran without one, and was not brought in yet.
    pub(crate) fn status_of_run(&self, id: &RecordId) -> Option<OperationStatus> {
        self.outage.status(id)
    }

    /// The keyed operations that are enforced.
    pub(crate) fn keyed(&self) -> impl Iterator<Item = &Route> {
        self.routes.values().filter(|route| route.enforces())
    }

    /// Whether requests of some operation pass while the store is down.
    pub(crate) fn any_passes(&self) -> bool {
        self.routes.values().any(Route::passes)
    }

    /// Those who are asked before an outcome of this operation is shown; `None` where that is not
    /// known, because it is in this configuration no more and others are asked about.
    pub(crate) fn authorizers_of(
        &self,
        operation: Option<&OperationName>,
    ) -> Option<Vec<&Arc<Authorizer>>> {
        let mut known = self
            .routes
            .values()
            .filter(|route| Some(route.operation.name()) == operation)
            .peekable();
        let asks_nobody = || self.routes.values().all(|route| route.authorizer.is_none());
        let is_known = known.peek().is_some() || asks_nobody();
        is_known.then(|| known.filter_map(|route| route.authorizer.as_ref()).collect())
    }

    /// The enforced operation that a preflight asks for, if it is for one.
    pub(crate) fn preflighted(&self, preflight: &Preflight, head: &Parts) -> Option<&Route> {
        let (host, path) = (host::of_request(head)?, head.uri.path());
        let operation = self.config.route(&preflight.method, &host, path)?.operation?;
        self.routes.get(&address(operation)).filter(|route| route.enforces())
    }

    /// The problem of a request that is not on a route and would pass without the protection that
    /// its caller, or the operation, asks for.
    fn near_miss(&self, head: &Parts, host: &str, found: &config::Route<'_>) -> Option<Problem> {
        let asks_for_protection = |operation: &config::Operation| {
            let key = &operation.policy.key;
            key.required
                || match &key.from {
                    KeySource::Header(name) => head.headers.contains_key(name.as_str()),
                    // Whether there is one is known only where its body is read.
                    KeySource::Body(_) => true,
                }
        };
        let path = head.uri.path();
        let near = self.config.near_miss(&head.method, host, path, found, asks_for_protection);
        let route = near?;
        let exactly =
            if route.host().is_some() { "method, host and path" } else { "method and path" };
        let detail = format!(
            "This request would not be protected as one of {route}, and the service may take it \
             for one. Send it with that {exactly} exactly."
        );
        Some(Problem::new(ProblemKind::PathUnclear, detail))
    }
}

impl Route {
    pub(crate) fn enforces(&self) -> bool {
        self.operation.policy().mode == Mode::Enforce
    }

    /// Whether its requests pass while the store is down.
    pub(crate) fn passes(&self) -> bool {
        self.enforces() && self.operation.policy().store_down == StoreDown::Pass
    }

    fn new(
        operation: Arc<Operation>,
        answers: Answers,
        scope: Option<&HeaderName>,
        authorizer: Option<Arc<Authorizer>>,
    ) -> Result<Self, NotAHeader> {
        let fields = FieldNames::of(operation.policy())?;
        let look_alikes = [IDEMPOTENCY_KEY, CONTENT_TYPE, CONTENT_ENCODING]
            .into_iter()
            .chain(fields.key.header().cloned())
            .chain(scope.cloned())
            .chain(fields.compared.iter().cloned());
        Ok(Self { look_alikes: look_alikes.collect(), fields, operation, answers, authorizer })
    }
}

/// Those who are asked before a replay: one for all operations that ask in the same way.
struct Authorizers {
    connect_timeout: Duration,
    all: Vec<Arc<Authorizer>>,
}

impl Authorizers {
    fn of(
        &mut self,
        operation: &config::Operation,
    ) -> Result<Option<Arc<Authorizer>>, GatewayError> {
        let Some(rules) = &operation.authorize else { return Ok(None) };
        if let Some(known) = self.all.iter().find(|known| known.follows(rules)) {
            return Ok(Some(Arc::clone(known)));
        }
        let authorizer = Authorizer::new(rules, self.connect_timeout)
            .map_err(|error| GatewayError::Authorizer { url: rules.url.to_string(), error })?;
        self.all.push(Arc::clone(&authorizer));
        Ok(Some(authorizer))
    }
}

/// Why a gateway cannot be made of a configuration.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The store could not take the operations' policies.
    #[error("the operations' policies could not be stored")]
    Store(#[from] StoreError),
    /// A service cannot be spoken to as it is configured.
    #[error("the service at {upstream} cannot be used")]
    Upstream {
        /// Its address.
        upstream: String,
        /// What is wrong.
        #[source]
        error: BaseError,
    },
    /// Whose a request is cannot be found out as the configuration says.
    #[error("whose a request is: {0}")]
    Scope(#[from] ScopeSourceError),
    /// Who is asked before a replay cannot be asked.
    #[error("who is asked before a replay, at {url}, cannot be asked")]
    Authorizer {
        /// Where it is.
        url: String,
        /// What is wrong.
        #[source]
        error: BaseError,
    },
    /// A policy names what cannot be a header.
    #[error(transparent)]
    Header(#[from] NotAHeader),
    /// What runs without a record cannot be noted or brought in.
    #[error(transparent)]
    Outage(#[from] OutageError),
    /// There is nothing to send as `Authorization` where a service is asked.
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
}

/// The service that is an operation's target.
fn target_of<'a>(
    config: &Config,
    upstreams: &'a [Upstream],
    operation: &config::Operation,
) -> Option<&'a Upstream> {
    let mut services = config.services.iter().zip(upstreams);
    let (_, upstream) =
        services.find(|(service, _)| service.identity() == operation.policy.target)?;
    Some(upstream)
}

fn address(operation: &Arc<config::Operation>) -> usize {
    Arc::as_ptr(operation).addr()
}
