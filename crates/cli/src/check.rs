//! `hapax check`: a configuration, read and held against itself.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use hapax_gateway::config::{Config, Environment, Flags, StoreLocation};

use crate::{
    failure::Failure,
    serve::{banner, say},
};

/// Read a configuration and say what is wrong with it, or what it comes to.
///
/// Neither the store nor a port is opened, and no file that the configuration names is read. The exit
/// code is 0 where `hapax serve` would take it, and 2 where it would not.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(crate) fn run(args: Check) -> Result<ExitCode, Failure> {
    let flags = Flags { config: Some(args.config), ..Flags::default() };
    let config = Config::load(&flags, Environment::of_process()).map_err(Failure::start)?;
    let StoreLocation::Sqlite(database) = &config.store;
    banner(&config, database).iter().for_each(|line| say(line));
    Ok(ExitCode::SUCCESS)
}
