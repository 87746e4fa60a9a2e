//! Our own clients in other languages (`clients`): their types are checked, and what has to be built
//! is built into `target/clients`.

use std::{fs, path::Path, process::Command};

use crate::{
    clients::folder,
    run::{Context, Outcome, root, run},
};

/// Checks and builds those whose tools are there.
pub(crate) fn build(missing: &[&str]) -> Outcome {
    let (all, sources) = (folder()?, root().join("clients"));
    if !["python3", "python-clients"].iter().any(|tool| missing.contains(tool)) {
        python(&all, &sources.join("python"))?;
    }
    if !["node", "node-clients"].iter().any(|tool| missing.contains(tool)) {
        typescript(&all, &sources.join("typescript"))?;
    }
    Ok(())
}

fn python(all: &Path, source: &Path) -> Outcome {
    run(Command::new(all.join("python-clients/venv/bin/python"))
        .args(["-m", "mypy", "--cache-dir"])
        .arg(all.join("mypy-cache"))
        .current_dir(source))
}

/// A package as npm would install it.
fn typescript(all: &Path, source: &Path) -> Outcome {
    let package = all.join("hapax-typescript");
    // What a file that is no longer there was built into goes with it.
    if package.exists() {
        fs::remove_dir_all(&package).context(package.display())?;
    }
    fs::create_dir_all(&package).context(package.display())?;
    let about = package.join("package.json");
    fs::copy(source.join("package.json"), &about).context(about.display())?;
    run(Command::new("node")
        .arg(all.join("node-clients/node_modules/typescript/bin/tsc"))
        .arg("--project")
        .arg(source)
        .arg("--outDir")
        .arg(package.join("dist")))
}
