//! `gatepost discard`: give up an event, or what waits for a destination.

use std::io::Write;

use super::ask::Ask;
use super::replay::refused;
use super::text::{count, json, safe};
use super::{Error, Place};
use crate::admin::views::Selection;

/// Give up what still waits: of an event, or for a destination.
///
/// Of an event these are its dead letters, pending deliveries and quarantine. Its record and its
/// audit trail stay as long as those of delivered events. With --json: one object, which says how
/// many.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(super) struct Args {
    /// An event: its sender's id, or #SEQ.
    #[arg(group = "which")]
    id: Option<String>,
    /// All that waits for this destination, dead letters too. It must be held, or no longer
    /// configured.
    #[arg(long, group = "which", value_name = "NAME")]
    destination: Option<String>,
    /// Have it delivered to this destination instead, in the same order and with the same keys.
    #[arg(long, requires = "destination", value_name = "NAME")]
    move_to: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Prints that it was given up.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let (changed, done) = match (&args.id, &args.destination) {
        (Some(id), _) => {
            let event = ask.find_one(id, "discard")?;
            let selection = Selection {
                seq: Some(event.seq),
                ..Selection::default()
            };
            let changed = ask.change("discard", &selection)?;
            (changed, format!("{} is discarded", event.name))
        }
        (None, destination) => {
            let selection = Selection {
                destination: destination.clone(),
                move_to: args.move_to.clone(),
                ..Selection::default()
            };
            let changed = ask.change_all("discard", selection)?;
            let deliveries = count(changed.done, "delivery is", "deliveries are");
            let done = match &args.move_to {
                Some(to) => format!("{deliveries} moved to {}", safe(to)),
                None => format!("{deliveries} discarded"),
            };
            (changed, done)
        }
    };
    if args.place.json {
        return Ok(json(&changed, out)?);
    }
    writeln!(out, "{done}")?;
    refused(&changed, out)
}
