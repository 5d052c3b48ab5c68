//! `gatepost replay`: send events again.

use std::io::Write;

use super::ask::Ask;
use super::text::{count, json, safe};
use super::{Error, Place};
use crate::admin::views::{Changed, Selection};

/// Send dead letters or delivered events again.
///
/// They keep their idempotency key and go back to their place in their lane. With --json: one
/// object, which says how many.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(super) struct Args {
    /// An event: its sender's id, or #SEQ. Its dead letters are sent again; if it has none, its
    /// delivered deliveries.
    #[arg(group = "which")]
    id: Option<String>,
    /// All dead letters, in order of arrival for each destination. Those that die again meanwhile
    /// are not sent a second time.
    #[arg(long, group = "which")]
    all: bool,
    /// All dead letters of one destination.
    #[arg(long, group = "which", value_name = "NAME")]
    destination: Option<String>,
    /// What was stored before this destination was there, of the routes that lead to it and as far
    /// as bodies are still kept.
    #[arg(long, group = "which", value_name = "NAME")]
    backfill: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Prints how many were sent again, and what could not be.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let seq = match &args.id {
        Some(id) => Some(ask.find_one(id, "replay")?.seq),
        None => None,
    };
    let selection = Selection {
        seq,
        all: args.all,
        destination: args.destination.clone().or(args.backfill.clone()),
        backfill: args.backfill.is_some(),
        ..Selection::default()
    };
    let changed = ask.change_all("replay", selection)?;
    if args.place.json {
        return Ok(json(&changed, out)?);
    }
    if changed.done == 0 && changed.refused_count == 0 {
        let none = match &args.backfill {
            Some(_) => "there is nothing that it has not had or that waits for it",
            None => "there are no dead letters to replay",
        };
        writeln!(out, "{none}")?;
    } else {
        let deliveries = count(changed.done, "delivery is", "deliveries are");
        let done = match &args.backfill {
            Some(_) => "to be made",
            None => "sent again",
        };
        writeln!(out, "{deliveries} {done}")?;
    }
    refused(&changed, out)
}

/// Prints what could not be done.
pub(super) fn refused(changed: &Changed, out: &mut dyn Write) -> Result<(), Error> {
    for refused in &changed.refused {
        writeln!(out, "not done: {}", safe(refused))?;
    }
    let more = changed.refused_count - changed.refused.len() as u64;
    if more != 0 {
        writeln!(out, "not done: {more} more")?;
    }
    Ok(())
}
