//! `hapax call`: one intent, until its outcome is known.

mod follow;
mod input;
mod report;

use std::{num::NonZeroU32, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::Args;
use hapax_client::{
    AttemptTimeout, Client, HyperService, Intent, Operation, Policy, Settings, SqliteJournal,
};
use http::{HeaderMap, Uri};
use tokio::signal;

use self::{
    follow::Follow,
    report::{Report, Verdict},
};
use crate::failure::Failure;

/// Send one request until its outcome is known: one key, one effect, however often it is sent.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Call {
    /// Where to, with http:// or https://. None is needed with --resume.
    #[arg(required_unless_present = "resume")]
    url: Option<Uri>,
    /// The method. Default: GET, and POST with content.
    #[arg(short = 'X', long = "request", value_name = "METHOD", value_parser = input::method)]
    method: Option<http::Method>,
    /// A field of the request, such as 'Authorization: Bearer …'. With --resume those that are not kept.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = input::header)]
    headers: Vec<input::Header>,
    /// The content: text, @FILE, or @- for standard input.
    #[arg(short, long, value_name = "DATA")]
    data: Option<String>,
    /// As --data, and the content is JSON: sets Content-Type.
    #[arg(long, value_name = "DATA", conflicts_with = "data")]
    json: Option<String>,
    /// The key of the intent. Default for POST and PATCH: a new UUID.
    #[arg(long)]
    key: Option<String>,
    /// The request may have been sent with this key before: a refusal says nothing of that one then.
    #[arg(long, requires = "key", conflicts_with = "resume")]
    again: bool,
    /// How long the service remembers a key, from when the intent was made: an older one is not sent.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = humantime::parse_duration)]
    key_lifetime: Duration,
    /// Send the key without quotes, for services that do not read them.
    #[arg(long)]
    bare_key: bool,
    /// How long to go on, from the first attempt.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    retry_for: Duration,
    /// How often the service may be asked to work. Connecting and waiting do not count.
    #[arg(long, value_name = "N", default_value = "3")]
    attempts: NonZeroU32,
    /// How long one attempt may take to its complete answer.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    attempt_timeout: Duration,
    /// Keep the intent in this file until its outcome is known: it is written before the first byte is
    /// sent. Credentials are not kept.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Go on with what is in the journal: with --key that intent, else every one.
    #[arg(long, requires = "journal", conflicts_with_all = ["url", "method", "data", "json", "bare_key"])]
    resume: bool,
    /// Print the status and the fields of the answer, too.
    #[arg(short, long)]
    include: bool,
    /// Write the answer's content to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Say nothing on the way; only how it ended, if it did not end well.
    #[arg(short, long)]
    silent: bool,
    /// Trust the authorities in this file (PEM) instead of the system's.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
}

const HELP: &str = "\
Exit codes:
  0  the service answered with a status below 400
  3  refused, or never sent: nothing of it happened here
  4  the service answered with a status of 400 or more
  5  unknown: it may have taken effect, now or before. Call again with its --key and --again
  1  something else failed, such as a disk
  2  the command is not understood

Examples:
  hapax call --json '{\"amount\":1200}' https://api.example/payments
  hapax call --journal intents.db --json @payment.json https://api.example/payments
  hapax call --journal intents.db --resume";

/// Answers are kept up to 256 MiB.
const LONGEST_CONTENT: usize = 256 << 20;

/// Runs the command.
pub(crate) async fn run(mut call: Call) -> Result<ExitCode, Failure> {
    let journal = call.journal.as_deref().map(SqliteJournal::open).transpose();
    let journal = journal.map_err(|error| Failure::because(1, &error))?.map(Arc::new);
    let report = Report::new(&mut call);
    let operations = match &journal {
        Some(journal) if call.resume => call.resumed(journal)?,
        _ => vec![call.first()?],
    };
    report.check(operations.len())?;
    let follow = Arc::new(Follow::new(call.silent));
    let client = call.client(&follow, journal)?;
    let mut worst = Verdict::Answered;
    for sending in operations {
        let sent = send(&client, sending, &report, &follow).await?;
        worst = worst.max(sent.verdict);
        // What is left is in the journal.
        if sent.interrupted {
            break;
        }
    }
    Ok(worst.into())
}

/// What is sent.
enum Sending {
    First(Intent),
    Again(Box<Operation>),
}

impl Sending {
    const fn intent(&self) -> &Intent {
        match self {
            Self::First(intent) => intent,
            Self::Again(operation) => &operation.intent,
        }
    }
}

/// How sending ended.
struct Sent {
    verdict: Verdict,
    interrupted: bool,
}

async fn send(
    client: &Client<HyperService>,
    sending: Sending,
    report: &Report,
    follow: &Follow,
) -> Result<Sent, Failure> {
    let intent = sending.intent().clone();
    follow.begin(&intent);
    let outcome = async {
        match sending {
            Sending::First(intent) => client.send(intent).await,
            Sending::Again(operation) => client.find_out(*operation).await,
        }
    };
    let outcome = tokio::select! {
        outcome = outcome => outcome.map_err(|error| Failure::because(1, &error)),
        _ = signal::ctrl_c() => {
            follow.end();
            return Ok(Sent { verdict: report.interrupted(&intent), interrupted: true });
        }
    };
    follow.end();
    Ok(Sent { verdict: report.tell(outcome?)?, interrupted: false })
}

impl Call {
    fn first(&mut self) -> Result<Sending, Failure> {
        let intent = self.intent()?;
        if !matches!(intent.uri().scheme_str(), Some("http" | "https")) {
            return Err(Failure::start("the address has to begin with http:// or https://"));
        }
        if self.journal.is_some() && intent.key().is_none() && !intent.method().is_safe() {
            return Err(Failure::start(
                "what has no key is not kept in a journal; give it a --key",
            ));
        }
        Ok(match self.again {
            true => Sending::Again(Box::new(Operation::of(intent))),
            false => Sending::First(intent),
        })
    }

    fn intent(&mut self) -> Result<Intent, Failure> {
        let (content, is_json) = match (self.data.take(), self.json.take()) {
            (Some(data), _) => (Some(input::content(data)?), false),
            (None, Some(json)) => (Some(input::content(json)?), true),
            (None, None) => (None, false),
        };
        let method = self.method.take().unwrap_or_else(|| input::usual_method(content.is_some()));
        let url = self.url.take().unwrap_or_default();
        let mut intent = Intent::of(method, url);
        if let Some(content) = content {
            intent = intent.body(content);
            if let Some((name, value)) = input::content_type(&self.headers, is_json) {
                intent = intent.header(name, value);
            }
        }
        for input::Header(name, value) in self.fields()? {
            intent = intent.header(name, value);
        }
        if let Some(key) = &self.key {
            intent = intent.key(key).map_err(|error| Failure::start_because(&error))?;
        }
        if self.bare_key {
            intent = intent.key_style(hapax_client::KeyStyle::Bare);
        }
        intent.build().map_err(|error| Failure::start_because(&error))
    }

    /// The fields of the request.
    fn fields(&mut self) -> Result<Vec<input::Header>, Failure> {
        let fields = std::mem::take(&mut self.headers);
        // As a key that was written down is found in scripts for curl.
        if fields.iter().any(|input::Header(name, _)| name == "idempotency-key") {
            return Err(Failure::start("the key goes into --key, without quotes"));
        }
        Ok(fields)
    }

    fn resumed(&mut self, journal: &SqliteJournal) -> Result<Vec<Sending>, Failure> {
        let unreadable = |error| Failure::because(1, &error);
        let intents = match &self.key {
            Some(key) => {
                let found = input::key(key).map(|key| journal.open_intent(&key))?;
                let found = found.map_err(unreadable)?;
                vec![found.ok_or_else(|| {
                    Failure::start("no intent of this key is open in the journal")
                })?]
            }
            None => journal.open_intents().map_err(unreadable)?,
        };
        let mut credentials = HeaderMap::new();
        for input::Header(name, value) in self.fields()? {
            credentials.append(name, value);
        }
        let again = |intent: Intent| {
            let operation = Operation::of(intent.with_credentials(&credentials));
            Sending::Again(Box::new(operation))
        };
        Ok(intents.into_iter().map(again).collect())
    }

    fn client(
        &self,
        follow: &Arc<Follow>,
        journal: Option<Arc<SqliteJournal>>,
    ) -> Result<Client<HyperService>, Failure> {
        let usual = AttemptTimeout::default();
        let policy = Policy {
            attempts: self.attempts,
            deadline: self.retry_for,
            key_lifetime: Some(self.key_lifetime),
            attempt_timeout: AttemptTimeout {
                floor: usual.floor.min(self.attempt_timeout),
                ceiling: self.attempt_timeout,
            },
            ..Policy::default()
        };
        let mut settings = Settings::new(policy).longest_content(LONGEST_CONTENT);
        if let Some(journal) = journal {
            settings = settings.journal(journal);
        }
        let settings = settings.watch(Arc::clone(follow) as _);
        let client = Client::with(settings, self.cacert.as_deref());
        client.map_err(|error| Failure::start_because(&error))
    }
}
