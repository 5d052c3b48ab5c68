//! `gatepost flush`: try now.

use std::io::Write;

use super::text::safe;
use super::{Error, Place, hold};

/// Try now what waits for its pause: a destination that is not up, and events that failed.
///
/// Nothing is forgotten: what fails again waits again. What an operator holds stays held, and a
/// destination's hours and rates still count. With --json: one object.
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
    let done = format!("{name} is tried now; gatepost status says what comes of it");
    hold::change("flush", &args.destination, &args.place, &done, out)
}
