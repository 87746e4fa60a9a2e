//! `hapax records`: looking at what the store knows, and settling what is unknown, also while a
//! gateway runs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use hapax_core::{EffectId, EffectSecret, OperationName, OwnState, PinnedPolicy, State, StoreTime};
use hapax_gateway::config::{Config, EffectSecretSource, Environment, Flags, StoreLocation};
use hapax_sql::SqliteStore;
use hapax_store::{Clock, Inspect, ListFilter, Listed, Lookup, Policies, Secrets, SystemClock};

use crate::{effect_secret, failure::Failure};

mod list;
mod resolve;
mod show;
mod text;
mod which;

/// Looks at records, and settles what is unknown.
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  hapax records list --config hapax.toml --state uncertain")]
pub(crate) enum Records {
    /// List records, newest first.
    #[command(after_help = list::HELP)]
    List(list::List),
    /// Show one record with its history.
    #[command(after_help = show::HELP)]
    Show(show::Show),
    /// Settle records whose outcome is unknown, by what you have found out.
    #[command(after_help = resolve::HELP)]
    Resolve(Box<resolve::Resolve>),
}

/// Where the records are and how they are printed.
#[derive(Args, Debug)]
struct Source {
    /// The gateway's configuration file, which names the store and the effect secret.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The store of the gateway; sqlite:hapax.db if neither this nor --config says another.
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    /// The file with the effect secret, if it is neither beside the database nor in --config.
    #[arg(long, value_name = "FILE")]
    effect_secret: Option<PathBuf>,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(command: Records) -> Result<ExitCode, Failure> {
    match command {
        Records::List(list) => list::run(list).await,
        Records::Show(show) => show::run(show).await,
        Records::Resolve(resolve) => resolve::run(*resolve).await,
    }
}

/// How many of the records are named that a text may mean.
const SOME: usize = 5;

/// A store opened for reading.
struct Reading {
    store: SqliteStore,
    path: PathBuf,
    /// What `--config` says.
    config: Option<Config>,
    secret: Result<EffectSecret, NoSecret>,
    now: StoreTime,
    json: bool,
}

/// Why no effect id can be told.
enum NoSecret {
    /// There is none, or it cannot be read.
    Absent { why: String },
    /// It would make effect ids that no upstream ever received.
    Foreign,
}

impl NoSecret {
    /// In the place of an effect id.
    const fn placeholder(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "? (its secret is not at hand)",
            Self::Foreign => "? (the secret at hand is not this store's)",
        }
    }

    /// What is wrong, and what to do about it.
    fn explain(&self, store: &Path) -> String {
        let why = match self {
            Self::Absent { why } => why.clone(),
            Self::Foreign => {
                let store = store.display();
                format!(
                    "the effect secret at hand is not the one that the store {store} is used with"
                )
            }
        };
        format!("{why}; name the gateway's by --effect-secret FILE or --config FILE")
    }
}

impl Reading {
    async fn open(source: &Source) -> Result<Self, Failure> {
        let config = source.config.as_deref().map(|file| configured(file, source));
        let config = config.transpose()?;
        let StoreLocation::Sqlite(path) = match (&config, &source.store) {
            (Some(config), _) => config.store.clone(),
            (None, store) => StoreLocation::parse(store.as_deref().unwrap_or("sqlite:hapax.db"))
                .map_err(|fault| Failure::start(format!("--store: {fault}")))?,
        };
        let secret_source = match (&source.effect_secret, &config) {
            (Some(file), _) => EffectSecretSource::File(file.clone()),
            (None, Some(config)) => config.effect_secret.clone(),
            (None, None) => EffectSecretSource::Generated,
        };
        let store = SqliteStore::open_read_only(&path).map_err(Failure::start)?;
        let secret = match effect_secret::peek(&path, &secret_source) {
            // A store without a fingerprint was never used, so it has no effect ids either.
            Ok(secret) => match store.pinned_secret(hapax::effect_secret::VERSION).await? {
                Some(pinned) if pinned != secret.fingerprint() => Err(NoSecret::Foreign),
                _ => Ok(secret),
            },
            Err(error) => Err(NoSecret::Absent { why: error.without_remedy() }),
        };
        if let (Err(no_secret @ NoSecret::Absent { .. }), Some(_)) =
            (&secret, &source.effect_secret)
        {
            return Err(Failure::start(no_secret.explain(&path)));
        }
        let now = SystemClock.now();
        Ok(Self { store, path, config, secret, now, json: source.json })
    }

    /// Whether there is a secret, and the store is used with another.
    const fn foreign_secret(&self) -> bool {
        matches!(self.secret, Err(NoSecret::Foreign))
    }

    /// Says on standard error if effect ids cannot be shown that might be expected.
    fn note_missing_effect_ids(&self) {
        let Err(no_secret) = &self.secret else { return };
        text::note(&format!("effect ids are not shown: {}", no_secret.explain(&self.path)));
    }

    /// The identity that upstreams received, if the secret that made it is at hand.
    fn effect_id(&self, listed: &Listed) -> Option<EffectId> {
        self.effect_id_of(listed, "")
    }

    /// The effect id of a step of a record.
    fn effect_id_of(&self, listed: &Listed, step: &str) -> Option<EffectId> {
        let record = &listed.record;
        let secret = self.secret.as_ref().ok()?;
        let made_with_it = record.secret_version == hapax::effect_secret::VERSION;
        made_with_it.then(|| EffectId::new(secret, &record.id, step))
    }

    /// What a record was admitted under, as far as it is known.
    async fn pinned_policy(&self, listed: &Listed) -> Result<Option<PinnedPolicy>, Failure> {
        let text = self.store.policy(listed.record.policy).await?;
        Ok(text.as_deref().and_then(PinnedPolicy::parse))
    }

    /// The status that an attempt of an uncertain record was answered with.
    async fn observed_status(&self, listed: &Listed) -> Result<Option<u16>, Failure> {
        if listed.state != State::Uncertain {
            return Ok(None);
        }
        let found = self.store.find(listed.record.id).await?;
        // It may have come to an outcome since it was listed.
        Ok(found
            .filter(|found| {
                found.record.own_state == OwnState::Uncertain && found.record.ending.is_none()
            })
            .and_then(|found| found.response)
            .map(|response| response.status))
    }

    /// Hands over all records, page by page.
    async fn each(&self, mut visit: impl FnMut(Listed)) -> Result<(), Failure> {
        let mut filter = ListFilter { limit: 1000, ..ListFilter::default() };
        loop {
            let page = self.store.list(filter.clone()).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            filter.before = Some(last.record.claim);
            page.into_iter().for_each(&mut visit);
        }
    }

    /// The one record that `wanted` is true of, if there is one; what it `has` names it.
    async fn one(
        &self,
        [has, have]: [&str; 2],
        what: &str,
        wanted: impl Fn(&Listed) -> bool,
    ) -> Result<Listed, Failure> {
        let mut found = Vec::new();
        self.each(|listed| {
            if wanted(&listed) {
                found.push(listed);
            }
        })
        .await?;
        match (found.pop(), found.len()) {
            (Some(record), 0) => Ok(record),
            (None, _) => Err(self.nothing(&format!("no record {has} {what}"))),
            (Some(last), others) => {
                let many = others + 1;
                let some = found.iter().rev().take(SOME - 1);
                let named = [&last].into_iter().chain(some).map(|listed| listed.record.id);
                let named = named.map(|id| id.to_string()).collect::<Vec<_>>().join("\n  ");
                let more = if many > SOME { "\n  …" } else { "" };
                let message =
                    format!("{many} records {have} {what}; write more of it\n  {named}{more}");
                Err(Failure::new(1, message))
            }
        }
    }

    /// The record whose id begins like this.
    async fn beginning(&self, text: &str) -> Result<Listed, Failure> {
        let beginning = text.to_ascii_lowercase();
        let begins = |listed: &Listed| listed.record.id.to_string().starts_with(&beginning);
        self.one(["has", "have"], &format!("an id that begins with {text:?}"), begins).await
    }

    /// That something is not in this store.
    fn nothing(&self, what: &str) -> Failure {
        Failure::new(1, format!("{what} in the store {}", self.path.display()))
    }

    /// The operations that the store has records of.
    async fn operations(&self) -> Result<BTreeSet<OperationName>, Failure> {
        let mut operations = BTreeSet::new();
        self.each(|listed| operations.extend(listed.operation)).await?;
        Ok(operations)
    }
}

/// What the gateway runs by, as far as records are concerned.
fn configured(file: &Path, source: &Source) -> Result<Config, Failure> {
    let load = |single_tenant, upstream: Option<&str>| {
        let flags = Flags {
            config: Some(file.to_owned()),
            store: source.store.clone(),
            single_tenant,
            upstream: upstream.map(str::to_owned),
            ..Flags::default()
        };
        // Whether several gateways may run is no matter of one who only reads.
        Config::load(&flags, Environment::default())
    };
    // What a file may leave to the command line of `serve` is no matter either.
    const SOME: Option<&str> = Some("http://127.0.0.1:1");
    load(false, None)
        .or_else(|error| {
            let loaded = load(true, None).or_else(|_| load(false, SOME));
            loaded.or_else(|_| load(true, SOME)).map_err(|_| error)
        })
        .map_err(Failure::start)
}

/// Names operations in a message.
fn operations_text(operations: &BTreeSet<OperationName>) -> String {
    if operations.is_empty() {
        return "the store has no records".to_owned();
    }
    let names: Vec<_> = operations.iter().map(OperationName::as_str).collect();
    format!("operations with records: {}", names.join(", "))
}
