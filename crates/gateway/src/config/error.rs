//! What is wrong with a configuration, where, and what to do about it.

use std::{cell::RefCell, error::Error, fmt, path::Path};

/// Everything that is wrong with a configuration, not only the first of it.
///
/// Displayed, each mistake takes two lines: `place: what is wrong` and `  help: remedy`. No value
/// that may be a secret is repeated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    mistakes: Vec<Mistake>,
}

impl ConfigError {
    /// The mistakes in the order of the file's lines, those of flags behind them. Never empty.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, mistake) in self.mistakes.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}{mistake}")?;
        }
        Ok(())
    }
}

impl Error for ConfigError {}

/// One thing that is wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mistake {
    /// Where: `file:line: key`, or the flag.
    pub place: String,
    /// What and how to cure it.
    pub fault: Fault,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

/// What is wrong with a value, wherever it stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// What is wrong, in one sentence without its full stop.
    pub what: String,
    /// What to do about it.
    pub help: String,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }

    /// A setting that the design has and this version has not.
    pub(super) fn later() -> Self {
        Self::new("belongs to a later version of hapax", "remove it")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  help: {}", self.what, self.help)
    }
}

impl Error for Fault {}

/// Where a value was given.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// The file as a whole: where something is missing.
    File,
    /// A line of the file, from 1, and the key or section on it.
    Line(usize, String),
    /// The flag with its dashes.
    Flag(&'static str),
}

impl Place {
    /// Whether remedies speak of flags here.
    pub(super) const fn is_flag(&self) -> bool {
        matches!(self, Self::Flag(_))
    }

    /// The file as a whole, its lines, then flags.
    const fn order(&self) -> (u8, usize) {
        match self {
            Self::File => (0, 0),
            Self::Line(line, _) => (1, *line),
            Self::Flag(_) => (2, 0),
        }
    }

    fn show(&self, file: Option<&Path>) -> String {
        let file = || file.map(|file| file.display().to_string()).unwrap_or_default();
        match self {
            Self::File => file(),
            Self::Line(line, key) if key.is_empty() => format!("{}:{line}", file()),
            Self::Line(line, key) => format!("{}:{line}: {key}", file()),
            Self::Flag(name) => (*name).to_owned(),
        }
    }
}

/// A value and where it was given.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) place: Place,
    pub(super) value: T,
}

/// Collects mistakes.
#[derive(Debug, Default)]
pub(super) struct Report {
    mistakes: RefCell<Vec<(Place, Fault)>>,
}

impl Report {
    pub(super) fn add(&self, place: &Place, fault: Fault) {
        self.mistakes.borrow_mut().push((place.clone(), fault));
    }

    /// The value, if it is one; what is wrong with it is reported.
    pub(super) fn keep<T>(&self, place: Place, value: Result<T, Fault>) -> Option<At<T>> {
        match value {
            Ok(value) => Some(At { place, value }),
            Err(fault) => {
                self.add(&place, fault);
                None
            }
        }
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }

    /// The value, if there are none.
    pub(super) fn finish<T>(self, file: Option<&Path>, value: T) -> Result<T, ConfigError> {
        if self.count() == 0 { Ok(value) } else { Err(self.into_error(file)) }
    }

    pub(super) fn into_error(self, file: Option<&Path>) -> ConfigError {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|(place, _)| place.order());
        let placed = |(place, fault): (Place, Fault)| Mistake { place: place.show(file), fault };
        ConfigError { mistakes: mistakes.into_iter().map(placed).collect() }
    }
}
