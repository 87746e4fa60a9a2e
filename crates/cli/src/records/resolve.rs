//! `hapax records resolve`: an operator's verdict on records whose outcome is unknown.

use std::{fmt::Write as _, num::NonZeroUsize, process::ExitCode, time::Duration};

use clap::{ArgGroup, Args};
use hapax_core::{
    Judgement, OperationName, Owner, Retention, Ruling, State, Statement, StoreTime, WriteRefused,
};
use hapax_sql::{SqliteConfig, SqliteStore};
use hapax_store::{Certainty, Inspect, ListFilter, Listed, Store, StoreError, Written};
use serde_json::json;

use super::{
    Reading, Source,
    text::{age, print, state_text, state_word},
    which::Which,
};
use crate::failure::Failure;

mod finding;

use finding::Finding;

pub(super) const HELP: &str = "\
Examples:
  hapax records resolve --effect-id 4f1c… --applied --status 201 --body @payment.json \\
      --header 'Content-Type: application/json' --reason 'in the provider''s list as no. 7'
  hapax records resolve --key 0198c2f4-… --operation payments.create --not-applied \\
      --closed 'the provider closed the batch at noon' --reason 'not in the provider''s list'
  hapax records resolve --state uncertain --operation payments.create --older-than 1h \\
      --not-applied --risk 'a late request would pay twice' --reason INC-42 --max 20 --dry-run

--applied: retries get this answer from now on. --not-applied: the key is free, and the next request
with it executes; if one of the requests that were sent still comes through, the effect exists twice.
What a running gateway settles meanwhile stands: a verdict is about the attempt that was looked at.

Exit code: 0 all are resolved (or would be), 1 some are not, 2 nothing was tried.";

/// The largest answer that is kept where no configuration says otherwise.
const DEFAULT_CAP: usize = 1 << 20;

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("verdict").required(true).args(["applied", "not_applied"]))]
#[command(group = ArgGroup::new("final").args(["risk", "closed"]))]
pub(crate) struct Resolve {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    which: Which,
    /// All records in this state, instead of one; also say --max.
    #[arg(
        long, value_parser = ["uncertain"], requires = "max",
        conflicts_with_all = ["record", "key", "effect_id", "scope", "single_tenant"]
    )]
    state: Option<String>,
    /// Of all, only those whose effect may exist for longer than this, such as 1h.
    #[arg(long, value_name = "DURATION", requires = "state", value_parser = duration)]
    older_than: Option<Duration>,
    /// Of all, if more than this many match, none is resolved.
    #[arg(long, value_name = "N", requires = "state")]
    max: Option<NonZeroUsize>,
    #[command(flatten)]
    finding: Finding,
    /// With --not-applied: why you accept that a request which is still under way may take effect
    /// beside the next one.
    #[arg(long, value_name = "TEXT", conflicts_with = "applied")]
    risk: Option<String>,
    /// With --not-applied: what makes sure that none of the requests that were sent takes effect
    /// any more.
    #[arg(long, value_name = "TEXT", conflicts_with = "applied")]
    closed: Option<String>,
    /// Why, for the record's history.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who, for the record's history [default: the user of the system, by name or number].
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Print what would be done, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(super) async fn run(resolve: Resolve) -> Result<ExitCode, Failure> {
    let statement = resolve.statement()?;
    let reading = Reading::open(&resolve.source).await?;
    let ruling = resolve.ruling(&reading)?;
    let records = resolve.records(&reading).await?;
    if records.len() > 1 && resolve.finding.has_an_answer() {
        return Err(Failure::start(format!(
            "{} records match, and an answer belongs to one: --body and --header would show it to \
             the callers of all of them; resolve each by itself, or leave them out",
            records.len()
        )));
    }
    let rows = if resolve.dry_run {
        let would = |listed: Listed| {
            let end = match obstacle(&listed, reading.now) {
                None => End::Would(finding::word(&ruling)),
                Some(obstacle) => End::Not(obstacle),
            };
            (listed, end)
        };
        records.into_iter().map(would).collect()
    } else {
        let store = SqliteStore::open(SqliteConfig::new(&reading.path)).map_err(Failure::start)?;
        let mut judgements = Vec::with_capacity(records.len());
        for listed in records {
            let judgement = Judgement {
                token: token()?,
                of: listed.record.ownership(),
                ruling: ruling.clone(),
                retention: resolve.retention(&reading, &listed),
                statement: statement.clone(),
            };
            judgements.push((listed, judgement));
        }
        let rows = judge_all(&store, reading.now, judgements).await;
        store.close().await;
        rows
    };
    print(&table(&reading, &rows))?;
    let all = rows.iter().all(|(_, end)| !matches!(end, End::Not(_)));
    Ok(if all && !rows.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What became of one record.
enum End {
    /// It is resolved, as this.
    Resolved(&'static str),
    /// It would be.
    Would(&'static str),
    /// It is not, for this reason.
    Not(String),
}

impl Resolve {
    fn ruling(&self, reading: &Reading) -> Result<Ruling, Failure> {
        let configured = reading.config.iter().flat_map(|config| &config.operations);
        let caps = configured.map(|operation| operation.policy.response_cap);
        let cap = caps.max().unwrap_or(DEFAULT_CAP);
        if let Some(applied) = self.finding.applied(cap)? {
            return Ok(Ruling::Applied(applied));
        }
        if self.risk.is_none() && self.closed.is_none() {
            return Err(Failure::start(
                "that nothing was applied is final only if nothing that was sent can still come \
                 through: say what makes sure of it with --closed, or why you accept that it may \
                 happen twice with --risk",
            ));
        }
        Ok(Ruling::NotApplied)
    }

    fn statement(&self) -> Result<Statement, Failure> {
        let said = |flag: &str, text: &str| {
            let empty = text.trim().is_empty();
            if empty { Err(Failure::start(format!("{flag} says nothing"))) } else { Ok(()) }
        };
        said("--reason", &self.reason)?;
        let mut reason = self.reason.trim().to_owned();
        for (flag, word, text) in
            [("--closed", "closed", &self.closed), ("--risk", "risk accepted", &self.risk)]
        {
            if let Some(text) = text {
                said(flag, text)?;
                let _ = write!(reason, " ({word}: {})", text.trim());
            }
        }
        if let Some(actor) = &self.actor {
            said("--actor", actor)?;
        }
        let named = self.actor.as_deref().map(|actor| actor.trim().to_owned());
        let actor = named.unwrap_or_else(|| user(|name| std::env::var(name).ok()));
        Ok(Statement { actor, reason })
    }

    /// The records that are meant, oldest last.
    async fn records(&self, reading: &Reading) -> Result<Vec<Listed>, Failure> {
        let Some(max) = self.max else {
            let one = self.which.find(reading).await?;
            return one.map(|one| vec![one]).ok_or_else(|| {
                Failure::start("say which: a record, --key, --effect-id, or all: --state uncertain")
            });
        };
        let operation = self.which.operation.as_deref().map(OperationName::new).transpose();
        let mut filter = ListFilter {
            operation: operation.map_err(Failure::start)?,
            state: Some(State::Uncertain),
            limit: 1000,
            ..ListFilter::default()
        };
        let mut records = Vec::new();
        loop {
            let page = reading.store.list(filter.clone()).await?;
            let Some(last) = page.last() else { break };
            filter.before = Some(last.record.claim);
            records.extend(page.into_iter().filter(|listed| self.is_old(listed, reading.now)));
        }
        if records.len() > max.get() {
            let found = records.len();
            return Err(Failure::start(format!(
                "{found} records match, and --max is {max}: none is resolved; narrow it by \
                 --operation or --older-than, or allow more"
            )));
        }
        if records.is_empty() {
            return Err(reading.nothing("no uncertain record matches"));
        }
        Ok(records)
    }

    fn is_old(&self, listed: &Listed, now: StoreTime) -> bool {
        let since = listed.record.first_admitted.unwrap_or(listed.record.created);
        self.older_than.is_none_or(|older| now.since(since) > older)
    }

    /// How long the outcome is remembered: as the configuration says, where it is at hand.
    fn retention(&self, reading: &Reading, listed: &Listed) -> Retention {
        let configured = reading.config.iter().flat_map(|config| &config.operations);
        let mut of_it = configured.map(|operation| &operation.policy);
        let policy = of_it.find(|policy| Some(&policy.name) == listed.operation.as_ref());
        policy.map(|policy| policy.retention).unwrap_or_default()
    }
}

/// Why a record as it was read cannot be resolved.
fn obstacle(listed: &Listed, now: StoreTime) -> Option<String> {
    let word = match listed.state {
        State::Uncertain => return None,
        State::Executing if listed.record.lease_over(now) => return None,
        State::Executing | State::Claimed => "an attempt is under way; ask again when it is over",
        State::Released => "nothing happened, the key is free",
        State::Succeeded | State::FailedTerminal => "it has an outcome",
        State::Tombstone => "it had an outcome",
    };
    Some(format!("{}: {word}", state_word(listed.state)))
}

/// Who runs this, as the system tells; a user without a name by the number.
fn user(variable: impl Fn(&str) -> Option<String>) -> String {
    let name = |of: &str| variable(of).map(|name| name.trim().to_owned());
    let named = ["USER", "LOGNAME"].into_iter().filter_map(name).find(|name| !name.is_empty());
    named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

fn token() -> Result<Owner, Failure> {
    let mut token = [0; 16];
    getrandom::fill(&mut token)
        .map_err(|error| Failure::new(1, format!("the system gives no randomness: {error}")))?;
    Ok(Owner::from_bytes(token))
}

/// Why nothing more is tried.
fn stopped(error: &StoreError) -> String {
    match error.certainty() {
        Certainty::NotWritten => error.to_string(),
        Certainty::MayBeWritten => format!("as far as is known: {error}"),
    }
}

/// Resolves one after the other until the store fails. What was done until then is told too.
async fn judge_all(
    store: &dyn Store,
    now: StoreTime,
    judgements: Vec<(Listed, Judgement)>,
) -> Vec<(Listed, End)> {
    let mut rows = Vec::with_capacity(judgements.len());
    let mut left = judgements.into_iter();
    for (listed, judgement) in left.by_ref() {
        let judged = judge(store, now, &listed, judgement).await;
        let has_failed = judged.is_err();
        rows.push((listed, judged.unwrap_or_else(|error| End::Not(stopped(&error)))));
        if has_failed {
            break;
        }
    }
    rows.extend(left.map(|(listed, _)| (listed, End::Not("it was not tried".to_owned()))));
    rows
}

async fn judge(
    store: &dyn Store,
    now: StoreTime,
    listed: &Listed,
    judgement: Judgement,
) -> Result<End, StoreError> {
    if let Some(obstacle) = obstacle(listed, now) {
        return Ok(End::Not(obstacle));
    }
    let record = &listed.record;
    if listed.state == State::Executing {
        store.doubt(record.id, record.seen()).await?;
    }
    let word = finding::word(&judgement.ruling);
    Ok(match store.judge(judgement, None).await? {
        Written::Done(_) => End::Resolved(word),
        Written::Refused { why: WriteRefused::Fenced, found } => {
            let state = state_word(found.record.state(found.now));
            End::Not(format!("it has moved on meanwhile: {state}"))
        }
        Written::Refused { why, .. } => End::Not(why.to_string()),
        Written::Missing => End::Not("it is gone".to_owned()),
    })
}

fn table(reading: &Reading, rows: &[(Listed, End)]) -> String {
    let mut text = String::new();
    if !reading.json {
        let _ = writeln!(
            text,
            "{:<16}  {:<24}  {:<16}  {:>7}  {:>9}  RESULT",
            "RECORD", "OPERATION", "STATE", "ATTEMPT", "AGE"
        );
    }
    for (listed, end) in rows {
        let record = &listed.record;
        let since = record.first_admitted.unwrap_or(record.created);
        let (resolved, result) = match end {
            End::Resolved(word) => (true, (*word).to_owned()),
            End::Would(word) => (false, format!("would be {word}")),
            End::Not(why) => (false, format!("not resolved, {why}")),
        };
        if reading.json {
            let line = json!({
                "record": record.id.to_string(),
                "effect_id": reading.effect_id(listed).map(|id| id.to_string()),
                "operation": listed.operation.as_ref().map(|name| name.as_str()),
                "attempt": record.attempt.to_wire(),
                "state": state_word(listed.state),
                "resolved": resolved,
                "result": result,
            });
            let _ = writeln!(text, "{line}");
            continue;
        }
        let _ = writeln!(
            text,
            "{:<16}  {:<24}  {:<16}  {:>7}  {:>9}  {result}",
            &record.id.to_string()[..16],
            listed.operation.as_ref().map_or("?", |name| name.as_str()),
            state_text(reading, listed),
            record.attempt.to_string(),
            age(reading.now.since(since)),
        );
    }
    text
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it as in 90m or 1h"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hapax_core::{
        Admission, Fingerprint, FingerprintRules, NewClaim, PolicyDigest, RecordId, Settlement,
    };
    use hapax_store::{Claimed, Claims, ManualClock, MemoryStore, Owned};

    use super::*;

    #[tokio::test]
    async fn what_was_resolved_before_the_store_failed_is_told() {
        let store = MemoryStore::new(Arc::new(ManualClock::new()));
        for number in 0..3 {
            let claim = NewClaim {
                id: RecordId::from_bytes([number; 32]),
                owner: Owner::from_bytes([number; 16]),
                fingerprint: Fingerprint::new(FingerprintRules::default().version(), [1; 32]),
                policy: PolicyDigest([0; 32]),
                lease: Duration::from_secs(30),
                admission: Admission::WithClaim,
                secret_version: 1,
            };
            let Ok(Claimed::Ours(record)) = store.claim(claim).await else { panic!("not ours") };
            let unknown = Settlement::Unknown { observed: None };
            store.settle(record.ownership(), unknown).await.expect("settled");
        }
        let filter = ListFilter { limit: 10, ..ListFilter::default() };
        let judgement = |listed: Listed| {
            let judgement = Judgement {
                token: token().expect("randomness"),
                of: listed.record.ownership(),
                ruling: Ruling::NotApplied,
                retention: Retention::default(),
                statement: Statement { actor: "ada".to_owned(), reason: "INC-42".to_owned() },
            };
            (listed, judgement)
        };
        let mut judgements = store.list(filter).await.expect("listed").into_iter().map(judgement);
        let now = StoreTime::from_micros(0);
        let first = judge_all(&store, now, judgements.by_ref().take(1).collect()).await;
        assert!(matches!(&first[..], [(_, End::Resolved(_))]));
        store.fail_next(StoreError::Full);
        let rows = judge_all(&store, now, judgements.collect()).await;
        let [(_, End::Not(failed)), (_, End::Not(rest))] = &rows[..] else { panic!("resolved") };
        assert_eq!((failed, &**rest), (&StoreError::Full.to_string(), "it was not tried"));
    }

    #[test]
    fn a_user_without_a_name_has_a_number() {
        let only = |known: &'static str, name: &'static str| {
            user(move |asked| (asked == known).then(|| name.to_owned()))
        };
        assert_eq!(only("USER", "ada"), "ada");
        assert_eq!(only("LOGNAME", " ada "), "ada");
        let number = only("USER", " ");
        assert!(number.starts_with("uid ") && number[4..].parse::<u32>().is_ok(), "{number}");
        let empty = |name: &str| Some(if name == "USER" { "" } else { "eve" }.to_owned());
        assert_eq!(user(empty), "eve");
    }
}
