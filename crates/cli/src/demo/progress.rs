//! The storm as it goes: bars on a terminal, a line now and then elsewhere.

use std::{convert::Infallible, time::Duration};

use console::{Term, style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, interval};

use super::{
    counts::Counts,
    output::say,
    plan::PAYEES,
    process::Handle,
    service::{Ledger, Rows},
};

const REDRAW_EVERY: Duration = Duration::from_millis(150);
const LINE_EVERY: Duration = Duration::from_secs(2);

/// Where the progress is shown.
pub(super) struct View {
    begun: Instant,
    bars: Option<Bars>,
}

struct Bars {
    all: MultiProgress,
    effects: ProgressBar,
    told: ProgressBar,
    requests: ProgressBar,
    answers: ProgressBar,
}

impl View {
    /// Bars when the standard output is a terminal that can move its cursor.
    pub(super) fn new(intents: u64) -> Self {
        let terminal = Term::stdout();
        let bars = terminal.features().is_attended().then(|| Bars::new(intents));
        Self { begun: Instant::now(), bars }
    }

    /// Says that something happened.
    pub(super) fn event(&self, what: &str) {
        let line = format!("{:>6.1} s  {what}", self.begun.elapsed().as_secs_f64());
        match &self.bars {
            // A terminal that is gone is noticed elsewhere.
            Some(bars) => bars.all.println(style(line).yellow().to_string()).unwrap_or_default(),
            None => say(line),
        }
    }

    /// Takes the bars away. Without this they stay as they are.
    pub(super) fn clear(&self) {
        if let Some(bars) = &self.bars {
            bars.all.clear().unwrap_or_default();
        }
    }

    /// Shows how it goes, until this future is dropped.
    pub(super) async fn follow(
        &self,
        counts: &Counts,
        ledger: &Ledger,
        service: &Handle,
        gateway: &Handle,
    ) -> Infallible {
        let every = if self.bars.is_some() { REDRAW_EVERY } else { LINE_EVERY };
        let mut ticks = interval(every);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let rows = ledger.rows(PAYEES).await.unwrap_or_default();
            self.show(counts, rows, (service.exits(), gateway.exits()));
        }
    }

    fn show(&self, counts: &Counts, rows: Rows, (crashes, kills): (u64, u64)) {
        let Rows { arrivals, payments: effects } = rows;
        let (told, sent) = (counts.settled.get(), counts.sent.get());
        let (replays, refused) = (counts.replays.get(), counts.conflicts.get());
        let (in_flight, unknown) = (counts.in_flight.get(), counts.unknown.get());
        let Some(bars) = &self.bars else {
            let seconds = self.begun.elapsed().as_secs_f64();
            return say(format_args!(
                "{seconds:>6.1} s  effects {effects}  told {told}  sent {sent}  \
                 replays {replays}  refused {refused}  unknown {unknown}"
            ));
        };
        bars.effects.set_position(effects);
        bars.told.set_position(told);
        bars.requests.set_message(format!(
            "sent {sent}  arrivals {arrivals}  service crashes {crashes}  gateway kills {kills}"
        ));
        bars.answers.set_message(format!(
            "replays {replays}  refused {refused}  in flight {in_flight}  unknown {unknown}"
        ));
    }
}

/// Bars that were not taken away stay as they are: a bar that ends would be drawn once more, over
/// what a terminal may have written in between (`^C`).
impl Drop for Bars {
    fn drop(&mut self) {
        self.all.set_draw_target(ProgressDrawTarget::hidden());
    }
}

impl Bars {
    fn new(intents: u64) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let bar = |name, template: &str| {
            let bar = all.add(ProgressBar::new(intents));
            // A template that does not parse would show the default bar.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("━╸─"));
            }
            bar.with_prefix(name)
        };
        Self {
            effects: bar(
                "effects in ledger",
                "  {prefix:18} {wide_bar:.green/dim} {pos:>6}    {elapsed:>6}",
            ),
            told: bar("all clients told", "  {prefix:18} {wide_bar:.cyan/dim} {pos:>6} of {len:6}"),
            requests: bar("requests", "  {prefix:18} {msg}"),
            answers: bar("answers", "  {prefix:18} {msg}"),
            all,
        }
    }
}
