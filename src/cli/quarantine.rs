//! `gatepost quarantine`: events that no delivery was made for.

use std::io::Write;

use super::ask::Ask;
use super::text::{Table, age, json, safe, short};
use super::{Error, Place};
use crate::admin::views::QuarantineRow;

/// List the events in quarantine: malformed, without a required id, too long, or without a route.
///
/// They were acknowledged and are kept whole until they are discarded. With --json: one object a
/// line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// Prints a line for each.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let mut is_first = true;
    ask.pages("quarantine", |rows: &[QuarantineRow]| {
        if args.place.json {
            return Ok(rows.iter().try_for_each(|row| json(row, out))?);
        }
        if rows.is_empty() {
            writeln!(out, "nothing is in quarantine")?;
            return Ok(());
        }
        let mut table = Table::new(["SEQ", "EVENT", "DEVICE", "AGE", "BYTES", "WHY"], &[0, 4]);
        for row in rows {
            table.add([
                format!("#{}", row.event.seq),
                row.event.name.clone(),
                short(row.event.device.as_deref()),
                age(row.event.received.as_ref()),
                row.event.bytes.to_string(),
                safe(row.event.damaged.as_deref().unwrap_or(&row.why)),
            ]);
        }
        table.print(is_first, out)?;
        is_first = false;
        Ok(())
    })
}
