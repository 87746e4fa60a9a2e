//! Results kept in the repository, with what is needed to judge them.

use std::{
    fs,
    process::Command,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::run::{Context, Outcome, line_of, root};

/// Writes a result below the root of the repository, and with it when, on what and of which
/// commit it is.
pub(crate) fn write(path: &str, mut result: Value) -> Outcome {
    let git = |arguments: &[&str]| line_of(Command::new("git").current_dir(root()).args(arguments));
    // Results themselves are no change to what was measured.
    let changes = git(&[
        "status",
        "--porcelain",
        "--",
        ".",
        ":!docs/proof",
        ":!bench/*.json",
        ":!bench/*.svg",
        ":!docs/pictures/retry-storm.svg",
    ]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    result["unix_time"] = now.into();
    result["commit"] = git(&["rev-parse", "HEAD"]).into();
    result["uncommitted_changes"] = changes.is_none_or(|changes| !changes.is_empty()).into();
    result["rustc"] = line_of(Command::new("rustc").arg("--version")).into();
    result["cores"] = thread::available_parallelism().map_or(0, usize::from).into();
    let path = root().join(path);
    fs::create_dir_all(path.parent().unwrap_or(root())).context(path.display())?;
    fs::write(&path, format!("{result:#}\n")).context(path.display())?;
    eprintln!("==> wrote {}", path.display());
    Ok(())
}
