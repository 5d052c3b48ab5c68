//! `gatepost run`: the daemon.

use std::path::PathBuf;

use super::Error;
use super::place::config_file;
use crate::config::Config;
use crate::daemon;

/// Take events, store them and deliver them, until a signal says to stop.
///
/// Without a configuration file events on any path under /ingest are taken; without a
/// destination they are stored and held. SIGTERM and SIGINT stop it in an orderly way.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file. Default: /etc/gatepost/gatepost.toml if there is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where devices connect, in place of what the file says. Default: 127.0.0.1:8080.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The data directory, in place of what the file says. Without a file: ./gatepost-data.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The URL that events are sent to, in place of what the file says.
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
}

/// Runs the daemon.
pub(super) fn run(args: &Args) -> Result<(), Error> {
    daemon::run(&config(args)?)?;
    Ok(())
}

fn config(args: &Args) -> Result<Config, Error> {
    let (listen, data) = (args.listen.as_deref(), args.data.as_deref());
    let forward_to = args.forward_to.as_deref();
    Ok(match config_file(args.config.as_deref()) {
        Some(file) => Config::load(&file)?.with_overrides(listen, data, forward_to)?,
        None => Config::from_flags(listen, data, forward_to)?,
    })
}
