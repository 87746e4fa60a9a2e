//! How it ended: the answer on standard output, a word on standard error, an exit code.

use std::{
    fs::OpenOptions,
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use hapax_client::{Done, Intent, Operation, Outcome};
use http::Response;

use super::Call;
use crate::failure::Failure;

/// How an intent ended. Of several the worst is told.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Verdict {
    Answered,
    AnsweredWithAnError,
    Refused,
    Unknown,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        Self::from(match verdict {
            Verdict::Answered => 0,
            Verdict::Refused => 3,
            Verdict::AnsweredWithAnError => 4,
            Verdict::Unknown => 5,
        })
    }
}

/// Where it is told.
pub(super) struct Report {
    include: bool,
    output: Option<PathBuf>,
    journal: Option<PathBuf>,
    bare_key: bool,
}

impl Report {
    pub(super) fn new(call: &mut Call) -> Self {
        let (output, journal) = (call.output.take(), call.journal.clone());
        Self { include: call.include, output, journal, bare_key: call.bare_key }
    }

    /// Whether so many answers can be written, before anything is sent.
    pub(super) fn check(&self, answers: usize) -> Result<(), Failure> {
        let Some(path) = &self.output else { return Ok(()) };
        if answers > 1 {
            let many = "--output takes one answer, and several intents are open; choose with --key";
            return Err(Failure::start(many));
        }
        // Whoever reads from a pipe would take this for all of it.
        if path.metadata().is_ok_and(|is| !is.is_file() && !is.is_dir()) {
            return Ok(());
        }
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map(drop).map_err(|error| {
            Failure::start(format!("{} cannot be written: {error}", path.display()))
        })
    }

    pub(super) fn tell(&self, outcome: Outcome) -> Result<Verdict, Failure> {
        match outcome {
            Outcome::Done(done) => self.done(&done),
            Outcome::Refused(refused) => {
                say(&format!("refused: {}", refused.why));
                if let Some(response) = &refused.response {
                    self.write(response).unwrap_or_else(|failure| say(&failure.message));
                }
                if refused.why.ended_before() {
                    say(
                        "something was done with this key before: look for it, and do not call anew",
                    );
                    return Ok(Verdict::Unknown);
                }
                Ok(Verdict::Refused)
            }
            Outcome::Unknown(operation) => {
                // That it is unknown is told, whatever can be written.
                if let Some(evidence) = &operation.evidence {
                    self.write(evidence).unwrap_or_else(|failure| say(&failure.message));
                }
                Ok(self.unknown(&operation))
            }
        }
    }

    /// Somebody wants it to end now.
    pub(super) fn interrupted(&self, intent: &Intent) -> Verdict {
        let mut operation = Operation::of(intent.clone());
        operation.why = "interrupted".to_owned();
        self.unknown(&operation)
    }

    fn done(&self, done: &Done) -> Result<Verdict, Failure> {
        let status = done.response.status();
        let written = self.write(&done.response);
        written.map_err(|failure| {
            let answered = format!("the service answered {status}, but {}", failure.message);
            Failure::new(failure.code, answered)
        })?;
        if done.cut {
            let cut = format!("the service answered {status}; its answer is too long and was cut");
            return Err(Failure::new(1, cut));
        }
        if status.as_u16() < 400 {
            return Ok(Verdict::Answered);
        }
        say(&format!("the service answered {status}"));
        Ok(Verdict::AnsweredWithAnError)
    }

    fn unknown(&self, operation: &Operation) -> Verdict {
        say(&format!("unknown: it may have taken effect ({})", operation.why));
        let key =
            operation.intent.key().map(|key| quoted(&String::from_utf8_lossy(key.as_bytes())));
        match (key, &self.journal) {
            (Some(key), Some(journal)) => say(&format!(
                "to find out: hapax call --resume --journal {} --key {key}",
                quoted(&journal.to_string_lossy())
            )),
            (Some(key), None) => {
                let bare = if self.bare_key { " --bare-key" } else { "" };
                say(&format!(
                    "to find out, call again with the same content and --again{bare} --key {key}"
                ));
            }
            (None, _) if operation.intent.method().is_idempotent() => {
                say("to find out, call again: it may be sent more than once");
            }
            (None, _) => say("it has no key, so sending it again may have it take effect twice"),
        }
        Verdict::Unknown
    }

    fn write(&self, response: &Response<bytes::Bytes>) -> Result<(), Failure> {
        let mut head = Vec::new();
        if self.include {
            head.extend_from_slice(
                format!("{:?} {}\r\n", response.version(), response.status()).as_bytes(),
            );
            for (name, value) in response.headers() {
                head.extend_from_slice(name.as_str().as_bytes());
                head.extend_from_slice(b": ");
                head.extend_from_slice(value.as_bytes());
                head.extend_from_slice(b"\r\n");
            }
            head.extend_from_slice(b"\r\n");
        }
        let mut stdout = std::io::stdout().lock();
        let written = match &self.output {
            Some(path) => std::fs::write(path, response.body())
                .map_err(|error| {
                    Failure::new(1, format!("{} cannot be written: {error}", path.display()))
                })
                .map(|()| stdout.write_all(&head)),
            None => {
                // A prompt begins on a line of its own.
                let ends_open = stdout.is_terminal()
                    && !response.body().is_empty()
                    && !response.body().ends_with(b"\n");
                head.extend_from_slice(response.body());
                head.extend_from_slice(if ends_open { b"\n" } else { b"" });
                Ok(stdout.write_all(&head))
            }
        };
        written?
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::new(1, format!("standard output cannot be written: {error}")))
    }
}

/// As a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+,=".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn say(text: &str) {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(std::io::stderr(), "hapax: {text}");
}
