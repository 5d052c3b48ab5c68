//! `gatepost devices`: who was heard of, and when.

use std::io::Write;

use super::ask::Ask;
use super::text::{Table, age, json, short};
use super::{Error, Place};
use crate::admin::views::DeviceRow;

/// List the devices that were heard of since the daemon started, and when.
///
/// Heartbeats, polls and handshakes count as signs of life; they are not stored. LOST are events
/// that were refused though their sender never sends them again. With --json: one object a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// Prints a line for each.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    Ask::at(&args.place)?.pages("devices", |rows: &[DeviceRow]| {
        if args.place.json {
            return Ok(rows.iter().try_for_each(|row| json(row, out))?);
        }
        if rows.is_empty() {
            writeln!(out, "no device was heard of since the daemon started")?;
            return Ok(());
        }
        let head = [
            "ROUTE",
            "DEVICE",
            "LAST SEEN",
            "EVENTS",
            "HEARTBEATS",
            "LOST",
        ];
        let mut table = Table::new(head, &[3, 4, 5]);
        for row in rows {
            table.add([
                row.route.clone(),
                short(Some(&row.device)),
                age(Some(&row.last_seen)),
                row.events.to_string(),
                row.heartbeats.to_string(),
                row.lost.to_string(),
            ]);
        }
        Ok(table.print(true, out)?)
    })
}
