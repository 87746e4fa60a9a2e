//! A clock of its own for a process, which jumps while it runs.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::Serve;

/// Where Debian's package `faketime` has its library, and where others have it.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The time of day of a process. Clocks that cannot be set go on as they are.
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that is right, whose file is in this directory; `None` where tests with clocks are to
    /// be left out, because `cargo xtask test` could not install what they need and was told to go
    /// on (`HAPAX_MISSING` names it).
    pub fn new(dir: &Path) -> Option<Self> {
        let missing = env::var("HAPAX_MISSING").unwrap_or_default();
        if missing.split(',').any(|missing| missing == "faketime") {
            eprintln!("LEFT OUT: faketime is not installed");
            return None;
        }
        let clock = Self { file: dir.join("clock") };
        clock.shift("+0");
        Some(clock)
    }

    /// It is wrong by this from now on, such as `+3h` or `-40d`.
    pub fn shift(&self, by: &str) {
        let unfinished = self.file.with_extension("new");
        fs::write(&unfinished, by).expect("the clock is written");
        fs::rename(&unfinished, &self.file).expect("the clock is set");
    }
}

impl Serve {
    /// With a clock of its own.
    ///
    /// # Panics
    /// When the library for it is not installed: `cargo xtask setup` does that.
    #[must_use]
    #[track_caller]
    pub fn clock(self, clock: &Clock) -> Self {
        let library = LIBRARIES.into_iter().find(|library| Path::new(library).is_file());
        let library = library.expect("faketime is missing: run cargo xtask setup");
        self.env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &clock.file.display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("NO_FAKE_STAT", "1")
    }
}
