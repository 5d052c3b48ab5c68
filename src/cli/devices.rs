//! `gatepost devices`: who was heard of, and when, and who is silent.

use std::io::Write;

use super::ask::Ask;
use super::text::{Table, age, json, safe, short};
use super::{Error, Place};
use crate::admin::views::{DeviceRow, Forgotten};

/// List the devices that were heard of since the daemon started, and when.
///
/// On a route that expects its devices to be heard of every so often, those are silent of which
/// nothing was heard for longer. Heartbeats, polls and handshakes count as signs of life; they are
/// not stored. LOST are events that were refused though their sender never sends them again. With
/// --json: one object a line.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Forget this device, so that nobody expects it any more
    #[arg(long, value_name = "DEVICE")]
    forget: Option<String>,
    /// Only on this route
    #[arg(long, value_name = "ROUTE", requires = "forget")]
    route: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Prints a line for each.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    if let Some(device) = &args.forget {
        return forget(args, device, out);
    }
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
            "STATE",
            "EVENTS",
            "HEARTBEATS",
            "LOST",
        ];
        let mut table = Table::new(head, &[4, 5, 6]);
        for row in rows {
            table.add([
                row.route.clone(),
                short(Some(&row.device)),
                age(row.last_seen.as_ref()),
                if row.silent { "silent" } else { "heard" }.to_owned(),
                row.events.to_string(),
                row.heartbeats.to_string(),
                row.lost.to_string(),
            ]);
        }
        Ok(table.print(true, out)?)
    })
}

fn forget(args: &Args, device: &str, out: &mut dyn Write) -> Result<(), Error> {
    let forgotten = Forgotten {
        device: device.to_owned(),
        route: args.route.clone(),
    };
    let changed = Ask::at(&args.place)?.change("forget", &forgotten)?;
    if args.place.json {
        return Ok(json(&changed, out)?);
    }
    let device = safe(device);
    writeln!(
        out,
        "{device} is forgotten until it is heard of again; nobody expects it"
    )?;
    Ok(())
}
