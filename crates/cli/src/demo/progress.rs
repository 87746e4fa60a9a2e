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
    settled: ProgressBar,
    effects: ProgressBar,
    answers: ProgressBar,
    mishaps: ProgressBar,
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

    /// Takes the bars away.
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
        let answers = format!(
            "sent {}  replays {}  refused {}  in flight {}  unknown {}",
            counts.sent.get(),
            counts.replays.get(),
            counts.conflicts.get(),
            counts.in_flight.get(),
            counts.unknown.get(),
        );
        let Some(bars) = &self.bars else {
            let seconds = self.begun.elapsed().as_secs_f64();
            let (settled, payments) = (counts.settled.get(), rows.payments);
            return say(format_args!(
                "{seconds:>6.1} s  settled {settled}  effects {payments}  {answers}"
            ));
        };
        bars.settled.set_position(counts.settled.get());
        bars.effects.set_position(rows.payments);
        bars.answers.set_message(answers);
        bars.mishaps.set_message(format!(
            "arrivals {}  service crashes {crashes}  gateway kills {kills}",
            rows.arrivals
        ));
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
            settled: bar(
                "intents settled",
                "  {prefix:18} {wide_bar:.cyan/dim} {pos:>6} of {len:6}",
            ),
            effects: bar(
                "effects in ledger",
                "  {prefix:18} {wide_bar:.green/dim} {pos:>6}    {elapsed:>6}",
            ),
            answers: bar("answers", "  {prefix:18} {msg}"),
            mishaps: bar("service", "  {prefix:18} {msg}"),
            all,
        }
    }
}
