//! `gatepost discard`: give an event up.

use std::io::Write;

use super::ask::Ask;
use super::replay::refused;
use super::text::json;
use super::{Error, Place};
use crate::admin::views::Selection;

/// Give up whatever of an event still waits: dead letters, pending deliveries, quarantine.
///
/// Its record and its audit trail stay as long as those of delivered events. With --json: one
/// object, which says how many.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The event: its sender's id, or #SEQ.
    id: String,
    #[command(flatten)]
    place: Place,
}

/// Prints that it was given up.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let event = ask.find_one(&args.id, "discard")?;
    let selection = Selection {
        seq: Some(event.seq),
        ..Selection::default()
    };
    let changed = ask.change("discard", &selection)?;
    if args.place.json {
        return Ok(json(&changed, out)?);
    }
    writeln!(out, "{} is discarded", event.name)?;
    refused(&changed, out)
}
