//! `gatepost queue`: what is still to be delivered.

use std::io::Write;

use super::ask::Ask;
use super::text::{Table, age, json, safe, short};
use super::{Error, Place};
use crate::admin::views::QueueRow;

/// List the deliveries that are still to be made.
///
/// In the order of destination, lane and arrival. With --json: one object a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// Prints a line for each.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let mut is_first = true;
    ask.pages("queue", |rows: &[QueueRow]| {
        if args.place.json {
            return Ok(rows.iter().try_for_each(|row| json(row, out))?);
        }
        if rows.is_empty() {
            writeln!(out, "nothing waits to be delivered")?;
            return Ok(());
        }
        let head = [
            "SEQ",
            "EVENT",
            "DEVICE",
            "DESTINATION",
            "AGE",
            "TRIES",
            "BYTES",
            "NOTE",
        ];
        let mut table = Table::new(head, &[0, 5, 6]);
        for row in rows {
            table.add([
                format!("#{}", row.event.seq),
                row.event.name.clone(),
                short(row.event.device.as_deref()),
                row.destination.clone(),
                age(row.event.received.as_ref()),
                row.attempts.to_string(),
                row.event.bytes.to_string(),
                note(row),
            ]);
        }
        table.print(is_first, out)?;
        is_first = false;
        Ok(())
    })
}

fn note(row: &QueueRow) -> String {
    match &row.event.damaged {
        Some(damaged) => safe(damaged),
        None if row.replayed => "replayed".to_owned(),
        None => String::new(),
    }
}
