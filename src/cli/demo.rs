//! `gatepost demo`: the whole life of events, told as it happens.

use std::io::{self, Write};

use super::Error;
use super::text::json;
use crate::demo;

/// Show the life of some events: devices, an outage, a power cut, a dead letter, and a count.
///
/// Takes a quarter of a minute, in a temporary folder and on 127.0.0.1. Exits with 0 if nothing
/// was lost, otherwise with 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the count as one JSON object for programs, and no story.
    #[arg(long)]
    json: bool,
}

/// Tells the story.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    if args.json {
        let count = demo::run(&mut io::sink())?;
        return Ok(json(&count, out)?);
    }
    demo::run(out)?;
    Ok(())
}
