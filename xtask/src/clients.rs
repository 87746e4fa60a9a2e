//! Clients of other makers, in `target/clients`: exactly what the lock files in
//! `testing/e2e/clients` say.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Context, Outcome, root, run, target};

/// The file that says, by their content, from which lock files a folder was filled.
const STAMP: &str = "installed-from";

/// Clients that are installed together.
struct Set {
    /// What `HAPAX_MISSING` calls it, and its folder.
    name: &'static str,
    needed_for: &'static str,
    files: &'static [&'static str],
    install: fn(&Path) -> Outcome,
}

const SETS: &[Set] = &[
    Set {
        name: "python-clients",
        needed_for: "tests with requests, httpx and Stripe's SDK for Python",
        files: &["requirements.txt"],
        install: python,
    },
    Set {
        name: "node-clients",
        needed_for: "tests with Stripe's SDK for Node, and what builds our client in TypeScript",
        files: &["package.json", "package-lock.json", ".npmrc"],
        install: node,
    },
];

/// Where the clients are.
pub(crate) fn folder() -> Outcome<PathBuf> {
    Ok(target().context("target folder")?.join("clients"))
}

/// Installs what the lock files say and is not there yet; returns what could not be.
pub(crate) fn install_missing() -> Outcome<Vec<&'static str>> {
    let all = folder()?;
    let mut missing = Vec::new();
    for set in SETS {
        if let Err(failure) = set.install_in(&all) {
            eprintln!("setup: {} cannot be installed: {failure}", set.name);
            eprintln!("setup: needed for {}", set.needed_for);
            missing.push(set.name);
        }
    }
    Ok(missing)
}

impl Set {
    fn install_in(&self, all: &Path) -> Outcome {
        let (dir, sources) = (all.join(self.name), root().join("testing/e2e/clients"));
        let wanted = self.locked(&sources).context(sources.display())?;
        let stamp = dir.join(STAMP);
        if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        self.begin(&dir, &sources).context(dir.display())?;
        (self.install)(&dir)?;
        // Last, so that half an installation is begun again.
        fs::write(&stamp, wanted).context(stamp.display())
    }

    fn locked(&self, sources: &Path) -> io::Result<Vec<u8>> {
        let files = self.files.iter().map(|file| fs::read(sources.join(file)));
        Ok(files.collect::<io::Result<Vec<_>>>()?.concat())
    }

    /// An empty folder with copies of the lock files.
    fn begin(&self, dir: &Path, sources: &Path) -> io::Result<()> {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(dir)?,
        }
        self.files
            .iter()
            .try_for_each(|file| fs::copy(sources.join(file), dir.join(file)).map(|_| ()))
    }
}

fn python(dir: &Path) -> Outcome {
    let venv = dir.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    run(Command::new(in_venv(&venv, "pip"))
        .args(["install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"])
        .args(["--require-hashes", "--no-deps", "--requirement"])
        .arg(dir.join("requirements.txt")))
}

fn in_venv(venv: &Path, program: &str) -> PathBuf {
    venv.join("bin").join(program)
}

fn node(dir: &Path) -> Outcome {
    // Nothing of theirs runs when it is installed.
    let quiet = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    run(Command::new("npm").args(quiet).current_dir(dir))
}
