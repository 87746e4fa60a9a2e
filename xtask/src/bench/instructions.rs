//! Instructions of a call, counted by callgrind.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::run::{Context, Failure, Outcome, answers, line_of, release};

/// Two lengths of the counted loop: their difference is without start-up and end.
const FEW: u32 = 200;
const MANY: u32 = 1_200;

/// Counts what a program does that has `calls KIND COUNT`.
pub(super) struct Counter {
    program: &'static str,
    scratch: TempDir,
    pub(super) valgrind: String,
}

impl Counter {
    /// `None` where valgrind is not installed.
    pub(super) fn of(program: &'static str) -> Outcome<Option<Self>> {
        if !answers(Command::new("valgrind").arg("--version")) {
            eprintln!("==> valgrind is not installed: instructions are not counted");
            return Ok(None);
        }
        eprintln!("==> valgrind --tool=callgrind {program} calls …");
        let scratch = tempfile::tempdir().context("folder for callgrind")?;
        let valgrind = line_of(Command::new("valgrind").arg("--version")).unwrap_or_default();
        Ok(Some(Self { program, scratch, valgrind }))
    }

    /// The instructions of one call of a kind.
    pub(super) fn per_call(&self, kind: &str) -> Outcome<u64> {
        let (few, many) = (self.total(kind, FEW)?, self.total(kind, MANY)?);
        Ok(many.saturating_sub(few) / u64::from(MANY - FEW))
    }

    /// All instructions of the program when it makes so many calls.
    fn total(&self, kind: &str, calls: u32) -> Outcome<u64> {
        let out = self.scratch.path().join("callgrind.out");
        let counted = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(release(self.program)?)
            .args(["calls", kind, &calls.to_string()])
            .stdin(Stdio::null())
            .output()
            .context("valgrind")?;
        let said = String::from_utf8_lossy(&counted.stderr);
        let collected = said.lines().find_map(|line| line.split_once("Collected :"));
        let collected = collected.and_then(|(_, number)| number.trim().parse().ok());
        collected.filter(|_| counted.status.success()).ok_or_else(|| {
            let last = said.lines().last().unwrap_or_default();
            Failure::new(format!("valgrind counted nothing of {kind}: {last}"))
        })
    }
}
