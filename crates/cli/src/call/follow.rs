//! What happens on the way, on standard error: one line that changes on a terminal, else a line for
//! each event.

use std::{io::Write, time::Duration};

use console::Term;
use hapax_client::{Event, Intent, Watch};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// Follows an intent.
pub(super) struct Follow {
    silent: bool,
    line: Option<ProgressBar>,
    begun: Instant,
}

/// How often the line moves on a terminal.
const TICK: Duration = Duration::from_millis(120);

impl Follow {
    pub(super) fn new(silent: bool) -> Self {
        let shows = !silent && Term::stderr().features().is_attended();
        let line = shows.then(|| {
            let line = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}");
            line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            line
        });
        Self { silent, line, begun: Instant::now() }
    }

    /// The key first: whoever loses this terminal can go on with it.
    pub(super) fn begin(&self, intent: &Intent) {
        let key = intent.key().map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        let what = format!("{} {}", intent.method(), intent.destination());
        self.say(&match key {
            Some(key) => format!("{what} with the key {key}"),
            None => format!("{what} without a key"),
        });
        if let Some(line) = &self.line {
            line.enable_steady_tick(TICK);
        }
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        if self.silent {
            return;
        }
        match &self.line {
            Some(line) => line.println(text),
            // Whoever closed standard error does not want to know.
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }
}

impl Watch for Follow {
    fn event(&self, event: &Event<'_>) {
        let now = match event {
            Event::Sending { nth } => format!("attempt {nth}"),
            Event::Asking => "asking for its status".to_owned(),
            Event::Pausing { pause, why, asks } => {
                let then = if *asks { "its status" } else { "again" };
                let text = format!("{then} in {}: {why}", seconds(*pause));
                self.say(&format!("{:>6.1} s  {text}", self.begun.elapsed().as_secs_f64()));
                text
            }
            _ => return,
        };
        if let Some(line) = &self.line {
            line.set_message(now);
        }
    }
}

fn seconds(pause: Duration) -> String {
    if pause < Duration::from_secs(1) {
        format!("{} ms", pause.as_millis())
    } else {
        format!("{:.1} s", pause.as_secs_f64())
    }
}
