//! `gatepost check-store`: is the store whole?

use std::io::Write;

use super::text::{count, json, safe};
use super::{Error, Place};
use crate::store::{Checked, Flaw, MOST_FLAWS, check};

/// Read everything in a store, compare all checksums, and see whether the tables agree.
///
/// Changes nothing. Only while no daemon runs. --data may also name a store's file, for example
/// one that was put aside. Exits with 1 if something is not right. With --json: one object.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// Prints what is not right, or that all is.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let path = args.place.store_file()?;
    let checked = check(&path)?;
    if args.place.json {
        json(&checked, out)?;
    } else {
        let Checked { rows, flaws } = &checked;
        for (table, rows) in rows {
            writeln!(out, "{table}: {}", count(*rows, "row", "rows"))?;
        }
        print(flaws, out)?;
    }
    if checked.flaws.is_empty() {
        if !args.place.json {
            writeln!(out, "{} is whole", path.display())?;
        }
        return Ok(());
    }
    let path = path.display();
    Err(Error::NotDone(format!(
        "{path} is damaged; gatepost salvage {path} --into DIR recovers what is whole"
    )))
}

/// Prints one line for each flaw.
pub(super) fn print(flaws: &[Flaw], out: &mut dyn Write) -> Result<(), Error> {
    for Flaw { table, seq, why } in flaws {
        let seq = seq.map(|seq| format!(" #{seq}")).unwrap_or_default();
        writeln!(out, "damaged: {table}{seq}: {}", safe(why))?;
    }
    if flaws.len() == MOST_FLAWS {
        writeln!(out, "damaged: more than the {MOST_FLAWS} listed")?;
    }
    Ok(())
}
