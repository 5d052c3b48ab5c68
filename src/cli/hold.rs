//! `gatepost hold` and `gatepost release`: stop and resume deliveries to a destination.

use std::io::Write;

use super::ask::Ask;
use super::text::{json, safe};
use super::{Error, Place};
use crate::admin::views::Held;

/// Send nothing to a destination until it is released.
///
/// Events for it are still taken and stored. It stays held over restarts. With --json: one object.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of the destination.
    destination: String,
    #[command(flatten)]
    place: Place,
}

/// Prints what holds now.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let name = safe(&args.destination);
    let done = format!("{name} is held: nothing is sent to it until gatepost release {name}");
    change("hold", &args.destination, &args.place, &done, out)
}

/// Holds or releases, and prints what holds then.
pub(super) fn change(
    what: &str,
    destination: &str,
    place: &Place,
    done: &str,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let destination = destination.to_owned();
    let changed = Ask::at(place)?.change(what, &Held { destination })?;
    if place.json {
        return Ok(json(&changed, out)?);
    }
    writeln!(out, "{done}")?;
    Ok(())
}
