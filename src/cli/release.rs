//! `gatepost release`: undo `gatepost hold`.

use std::io::Write;

use super::text::safe;
use super::{Error, Place, hold};

/// Send to a destination again that was held.
///
/// Also tries a destination at once that the gateway itself holds because of its answers. With
/// --json: one object.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of the destination.
    destination: String,
    #[command(flatten)]
    place: Place,
}

/// Prints what holds now.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let done = format!("{} is released", safe(&args.destination));
    hold::change("release", &args.destination, &args.place, &done, out)
}
