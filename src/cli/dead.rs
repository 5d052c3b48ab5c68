//! `gatepost dead`: what will not be tried again by itself.

use std::io::Write;

use super::ask::Ask;
use super::text::{Table, age, json, safe, short};
use super::{Error, Place};
use crate::admin::views::DeadRow;
use crate::delivery::DeadReason;

/// List the dead letters.
///
/// In the order of destination and arrival. See gatepost show for one of them, and gatepost
/// replay and discard to decide about them. With --json: one object a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// Prints a line for each.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let mut is_first = true;
    ask.pages("dead", |rows: &[DeadRow]| {
        if args.place.json {
            return Ok(rows.iter().try_for_each(|row| json(row, out))?);
        }
        if rows.is_empty() {
            writeln!(out, "there are no dead letters")?;
            return Ok(());
        }
        let head = [
            "SEQ",
            "EVENT",
            "DEVICE",
            "DESTINATION",
            "DEAD FOR",
            "TRIES",
            "WHY",
        ];
        let mut table = Table::new(head, &[0, 5]);
        for row in rows {
            let why = format!(
                "{}: {}",
                reason(row.letter.reason),
                safe(&row.letter.outcome)
            );
            table.add([
                format!("#{}", row.event.seq),
                row.event.name.clone(),
                short(row.event.device.as_deref()),
                row.destination.clone(),
                age(Some(&row.letter.since)),
                row.letter.attempts.to_string(),
                row.event.damaged.as_deref().map_or(why, safe),
            ]);
        }
        table.print(is_first, out)?;
        is_first = false;
        Ok(())
    })
}

/// Why a delivery is a dead letter, in a word.
pub(super) fn reason(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Rejected => "rejected",
        DeadReason::Exhausted => "failed too often",
        DeadReason::Damaged => "damaged",
        DeadReason::Invalid => "invalid",
    }
}
