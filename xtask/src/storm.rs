//! The client's budget in an outage: what a service gets that is down, with and without.

use std::{fmt::Write as _, fs, process::Command};

use serde_json::{Value, json};

use crate::{
    bench::plot::{BOTTOM, LEFT, LINES, Svg, WIDTH, height, step},
    run::{Context, Failure, Outcome, cargo, line_of, release, root, run},
};

/// What is drawn, and in which colour.
const BOUNDS: [(&str, &str, &str); 3] = [
    ("none", "three attempts, no budget", "#e07a3f"),
    ("share", "a share of the load", "#5fb49c"),
    ("tokens", "a bucket of tokens", "#1f6f8b"),
];

const PICTURE: &str = "docs/pictures/retry-storm.svg";

/// With the default budget a service that is down gets no more than this of what is offered, and
/// without one at least that.
const MOST: f64 = 1.2;
const LEAST_WITHOUT: f64 = 2.0;

/// Runs the storms, all of them simulated and on connections, and draws the latter.
pub(crate) fn prove() -> Outcome<Value> {
    run(cargo().args(["build", "--release", "--locked", "-p", "hapax-bench-client"]))?;
    let mut runs = Vec::new();
    for simulated in [true, false] {
        for (bound, ..) in BOUNDS {
            runs.push(storm(bound, simulated)?);
        }
    }
    let real =
        |bound: &str| runs.iter().find(|it| it["bound"] == bound && it["simulated"] == false);
    let path = root().join(PICTURE);
    fs::write(&path, draw(real)).context(path.display())?;
    eprintln!("==> wrote {}", path.display());
    let holds = runs.iter().all(|run| {
        let amplification = run["amplification"].as_f64().unwrap_or(f64::NAN);
        match run["bound"].as_str() {
            Some("tokens") => amplification <= MOST,
            Some("none") => amplification >= LEAST_WITHOUT,
            _ => amplification.is_finite(),
        }
    });
    Ok(json!({
        "what": "bench-client storm: 200 callers with an intent a second each, 60 s in which the service \
                 answers 503",
        "outcome": if holds { "ok" } else { "failed" },
        "runs": runs,
    }))
}

fn storm(bound: &str, simulated: bool) -> Outcome<Value> {
    let mut program = Command::new(release("bench-client")?);
    program.args(["storm", bound]).args(simulated.then_some("--simulated"));
    eprintln!("==> {program:?}");
    let printed = line_of(&mut program).ok_or_else(|| Failure::new("bench-client failed"))?;
    let mut load: Value = serde_json::from_str(&printed).context("what bench-client printed")?;
    load["bound"] = bound.into();
    load["simulated"] = simulated.into();
    Ok(load)
}

fn draw<'a>(real: impl Fn(&str) -> Option<&'a Value>) -> String {
    let rates = |bound: &str, what: &str| {
        let series = real(bound).and_then(|run| run[what].as_array());
        series.into_iter().flatten().filter_map(Value::as_f64).collect::<Vec<_>>()
    };
    let offered = ("offered", "intents", "#9aa5b1");
    let series = BOUNDS.map(|(bound, _, colour)| (rates(bound, "requests_per_second"), colour));
    let mut all = vec![(rates("none", "intents_per_second"), offered.2)];
    all.extend(series);
    let step = step(all.iter().flat_map(|(rates, _)| rates).copied().fold(0.0, f64::max));
    let mut svg = Svg::new();
    svg.title("Requests per second at a service that is down for a minute");
    svg.legend(
        std::iter::once((offered.1, offered.2))
            .chain(BOUNDS.map(|(_, name, colour)| (name, colour))),
    );
    for line in 0..=LINES {
        svg.grid(f64::from(line) * step, step);
    }
    let seconds = all.iter().map(|(rates, _)| rates.len()).max().unwrap_or_default().max(2);
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let at = |second: usize| LEFT + (WIDTH - LEFT - 20.0) * count(second) / count(seconds - 1);
    for (rates, colour) in all {
        let mut points = String::new();
        for (second, rate) in rates.iter().enumerate() {
            // Writing to a text does not fail.
            let _ = write!(points, "{:.1},{:.1} ", at(second), height(*rate, step));
        }
        svg.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.trim_end()
        ));
    }
    for second in (0..seconds).step_by(10) {
        svg.text(at(second), BOTTOM + 20.0, "middle", 12, &format!("{second} s"));
    }
    svg.end()
}
