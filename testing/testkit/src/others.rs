//! Programs of other makers, as `cargo xtask setup` installs them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::command::binary;

/// A client, which a script tells what to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Client {
    /// A shell with `hapax call`, as `$HAPAX`.
    Hapax,
    /// A shell with curl.
    Curl,
    /// Python with requests, httpx and Stripe's SDK.
    Python,
    /// Node with what it brings itself.
    Node,
    /// Node with Stripe's SDK, which a module finds in [`node_modules`].
    NodeStripe,
    /// Node with our own client, which a module finds in [`hapax_typescript`].
    NodeHapax,
}

impl Client {
    /// Whether it is to be left out, because `cargo xtask test` could not install it and was told to
    /// go on.
    pub fn is_left_out(self) -> bool {
        is_left_out(self.parts())
    }

    /// What it needs, as `HAPAX_MISSING` calls it.
    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Hapax => &[],
            Self::Curl => &["curl"],
            Self::Python => &["python3", "python-clients"],
            Self::Node => &["node"],
            Self::NodeStripe | Self::NodeHapax => &["node", "npm", "node-clients"],
        }
    }

    /// What runs its scripts.
    ///
    /// # Panics
    /// When it is not installed: `cargo xtask setup` does that.
    #[track_caller]
    pub fn interpreter(self) -> Command {
        match self {
            Self::Hapax => {
                let mut shell = Command::new("sh");
                shell.env("HAPAX", binary());
                shell
            }
            Self::Curl => Command::new("sh"),
            Self::Python => Command::new(installed("python-clients/venv/bin/python")),
            Self::Node | Self::NodeStripe | Self::NodeHapax => Command::new("node"),
        }
    }
}

/// Where the packages for Node are.
///
/// # Panics
/// When they are not installed: `cargo xtask setup` does that.
#[track_caller]
pub fn node_modules() -> PathBuf {
    installed("node-clients/node_modules")
}

/// Where our own client in TypeScript is, built.
///
/// # Panics
/// When it is not: `cargo xtask setup` does that.
#[track_caller]
pub fn hapax_typescript() -> PathBuf {
    installed("hapax-typescript")
}

/// Whether `HAPAX_MISSING` names one of these.
pub(crate) fn is_left_out(parts: &[&str]) -> bool {
    parts.iter().any(|part| is_missing(part))
}

/// Whether tests with a program are left out, because `cargo xtask test` could not install it and
/// was told to go on: `HAPAX_MISSING` names it. Says so.
pub fn is_missing(program: &str) -> bool {
    let missing = env::var("HAPAX_MISSING").unwrap_or_default();
    let is_missing = missing.split(',').any(|missing| missing == program);
    if is_missing {
        eprintln!("LEFT OUT: {program} is not installed");
    }
    is_missing
}

/// In `target/clients`.
#[track_caller]
fn installed(path: &str) -> PathBuf {
    let this = env::current_exe().expect("the test executable has a path");
    // target/<profile>/deps/<this>
    let target = this.ancestors().nth(3).map_or_else(PathBuf::new, Path::to_owned);
    let path = target.join("clients").join(path);
    assert!(path.exists(), "{} is missing: run cargo xtask setup", path.display());
    path
}
