//! The picture of a run: rates at each number of connections, beside each other.

use std::{fmt::Write as _, fs};

use super::report::{Kind, Report};
use crate::run::{Context, Outcome, root};

pub(crate) const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
pub(crate) const LEFT: f64 = 70.0;
const TOP: f64 = 74.0;
pub(crate) const BOTTOM: f64 = 370.0;
pub(crate) const LINES: u32 = 5;

/// What is drawn, and in which colour.
const SHOWN: [(Kind, &str); 4] = [
    (Kind::Nginx, "#9aa5b1"),
    (Kind::PassThrough, "#1f6f8b"),
    (Kind::Replay, "#5fb49c"),
    (Kind::First, "#e07a3f"),
];

/// Draws it.
pub(super) fn write(path: &str, report: &Report) -> Outcome {
    let path = root().join(path);
    fs::write(&path, draw(report)).context(path.display())?;
    eprintln!("==> wrote {}", path.display());
    Ok(())
}

fn draw(report: &Report) -> String {
    let rates = SHOWN.iter().flat_map(|(kind, _)| {
        let of = |connections| report.series(*kind, connections).rate();
        report.connections().into_iter().map(of).collect::<Vec<_>>()
    });
    let step = step(rates.fold(0.0, f64::max));
    let mut svg = Svg::new();
    svg.title("Requests per second by number of connections");
    svg.legend(SHOWN.map(|(kind, colour)| (kind.name(), colour)));
    for line in 0..=LINES {
        svg.grid(f64::from(line) * step, step);
    }
    let groups = report.connections();
    let room = (WIDTH - LEFT - 20.0) / f64::from(u32::try_from(groups.len()).unwrap_or(1).max(1));
    let mut left = LEFT;
    for connections in groups {
        let bar = room / 5.0;
        let mut at = left + bar / 2.0;
        for (kind, colour) in SHOWN {
            let rate = report.series(kind, connections).rate();
            if rate.is_finite() {
                svg.bar(at, bar, rate, step, colour);
            }
            at += bar;
        }
        svg.text(left + room / 2.0, BOTTOM + 24.0, "middle", 14, &format!("{connections}"));
        left += room;
    }
    svg.text((LEFT + WIDTH) / 2.0, HEIGHT - 6.0, "middle", 12, "connections");
    svg.end()
}

/// The distance of the lines: a round number, so that the largest rate is below the last of them.
pub(crate) fn step(largest: f64) -> f64 {
    let least = (largest / f64::from(LINES)).max(1.0);
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|factor| factor * power);
    round.into_iter().find(|&step| step >= least).unwrap_or(least)
}

/// A picture in the making.
pub(crate) struct Svg(String);

impl Svg {
    pub(crate) fn new() -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" fill=\"#24292f\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\" fill=\"#ffffff\"/>\n"
        ))
    }

    pub(crate) fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: &str, size: u32, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" \
             font-size=\"{size}\">{text}</text>"
        ));
    }

    pub(crate) fn title(&mut self, text: &str) {
        self.text(20.0, 28.0, "start", 17, text);
    }

    pub(crate) fn legend<'a>(&mut self, shown: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut x = LEFT;
        for (name, colour) in shown {
            self.put(format_args!(
                "<rect x=\"{x:.1}\" y=\"42\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>"
            ));
            self.text(x + 18.0, 53.0, "start", 13, name);
            x += 196.0;
        }
    }

    pub(crate) fn grid(&mut self, value: f64, step: f64) {
        let y = height(value, step);
        self.put(format_args!(
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{}\" y2=\"{y:.1}\" stroke=\"#e1e4e8\"/>",
            WIDTH - 20.0
        ));
        self.text(LEFT - 8.0, y + 4.0, "end", 12, &thousands(value));
    }

    fn bar(&mut self, x: f64, width: f64, rate: f64, step: f64, colour: &str) {
        let y = height(rate, step);
        self.put(format_args!(
            "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" \
             fill=\"{colour}\"/>",
            x + 2.0,
            width - 4.0,
            BOTTOM - y
        ));
        self.text(x + width / 2.0, y - 5.0, "middle", 11, &thousands(rate));
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

pub(crate) fn height(value: f64, step: f64) -> f64 {
    BOTTOM - value / (step * f64::from(LINES)) * (BOTTOM - TOP)
}

/// Thousands with one decimal, where there are any.
fn thousands(rate: f64) -> String {
    if rate >= 1000.0 { format!("{:.1}k", rate / 1000.0) } else { format!("{rate:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_rate_is_below_the_last_line() {
        for (largest, expected) in
            [(0.0, 1.0), (4.0, 1.0), (48_000.0, 10_000.0), (50_001.0, 20_000.0)]
        {
            assert!((step(largest) - expected).abs() < 1e-6, "{largest}: {}", step(largest));
        }
    }
}
