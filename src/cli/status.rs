//! `gatepost status`: how the gateway is.

use std::io::Write;

use super::ask::Ask;
use super::text::{Table, age, bytes, count, json, safe};
use super::{Error, Place};
use crate::admin::NO_DESTINATION;
use crate::admin::views::{DestinationStatus, Status};
use crate::audit::Totals;

/// Show how the gateway and its destinations are, and what waits.
///
/// With --json: one object.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// Prints a few lines and a table of the destinations.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let status: Status = Ask::at(&args.place)?.get("/api/status")?;
    if args.place.json {
        return Ok(json(&status, out)?);
    }
    let running = if status.running {
        format!("running for {}", age(Some(&status.started)))
    } else {
        "the daemon does not run".to_owned()
    };
    writeln!(
        out,
        "gatepost {}, gateway {}: {running}",
        status.version, status.gateway
    )?;
    if !status.clock_certain {
        writeln!(
            out,
            "the clock is not synchronised: times and ages may be wrong"
        )?;
    }
    let events = count(status.events, "event", "events");
    writeln!(
        out,
        "the store holds {events}, {}",
        bytes(status.stored_bytes)
    )?;
    writeln!(out, "since it was created: {}", totals(&status.totals))?;
    if let Some(devices) = status.devices {
        let devices = count(devices, "device was", "devices were");
        writeln!(
            out,
            "{devices} heard of since the start; see gatepost devices"
        )?;
    }
    if let Some(silent) = status.silent.filter(|silent| *silent != 0) {
        let devices = count(silent, "device is", "devices are");
        writeln!(
            out,
            "{devices} silent that should not be; see gatepost devices"
        )?;
    }
    if status.quarantined != 0 {
        let events = count(status.quarantined, "event waits", "events wait");
        writeln!(out, "{events} in quarantine; see gatepost quarantine")?;
    }
    writeln!(out)?;
    print_destinations(&status, out)
}

fn print_destinations(status: &Status, out: &mut dyn Write) -> Result<(), Error> {
    let (homeless, real): (Vec<_>, Vec<_>) = status
        .destinations
        .iter()
        .partition(|one| one.name == NO_DESTINATION);
    for held in homeless {
        let events = count(held.pending, "event waits", "events wait");
        writeln!(out, "{events} until their route has a destination")?;
    }
    if real.is_empty() {
        writeln!(out, "there are no destinations: events are stored and held")?;
        return Ok(());
    }
    let head = [
        "DESTINATION",
        "STATE",
        "PENDING",
        "DEAD",
        "IN FLIGHT",
        "OLDEST",
        "WHY",
    ];
    let mut table = Table::new(head, &[2, 3, 4]);
    for one in real {
        let oldest = one
            .oldest
            .as_ref()
            .and_then(|oldest| oldest.received.as_ref());
        table.add([
            one.name.clone(),
            state(status, one),
            one.pending.to_string(),
            one.dead.to_string(),
            one.in_flight.to_string(),
            age(oldest),
            safe(&one.why),
        ]);
    }
    Ok(table.print(true, out)?)
}

/// The state in one word. What the operator holds is held, and what its hours close is closed,
/// whatever else it is.
fn state(status: &Status, one: &DestinationStatus) -> String {
    match &one.state {
        _ if one.held => "held".to_owned(),
        _ if one.closed => "closed".to_owned(),
        Some(state) => state.clone(),
        None if status.running && !one.configured => "removed".to_owned(),
        None => "-".to_owned(),
    }
}

fn totals(totals: &Totals) -> String {
    let all = [
        (totals.received, "received"),
        (totals.duplicates, "duplicates"),
        (totals.quarantined, "quarantined"),
        (totals.delivered, "delivered"),
        (totals.dead, "dead"),
        (totals.replayed, "replayed"),
        (totals.discarded, "discarded"),
    ];
    let shed = Some((totals.shed, "given up")).filter(|(number, _)| 0 < *number);
    let all = all.into_iter().chain(shed);
    let all = all.map(|(number, word)| format!("{number} {word}"));
    all.collect::<Vec<_>>().join(", ")
}
