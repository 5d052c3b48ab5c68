//! `gatepost show`: everything about one event.

use std::io::Write;
use std::time::Duration;

use super::ask::Ask;
use super::dead::reason;
use super::text::{Table, age, as_text, bytes, count, hex, json, safe, short};
use super::{Error, Place};
use crate::admin::views::{DeliveryState, DeliveryView, EventHead, EventView};
use crate::audit::Pause;

/// How much of a body is shown if it is not text, in bytes.
const HEX_HEAD: usize = 256;

/// How much of a body is shown if it is text, in bytes.
const TEXT_HEAD: usize = 64 * 1024;

/// Show an event: its record, its deliveries, its audit trail and its raw body.
///
/// If several devices use the same id, all their events are listed. With --json: one object for
/// each event, without the body.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The event: its sender's id, or #SEQ.
    id: String,
    /// Write exactly the bytes of the body and nothing else.
    #[arg(long, conflicts_with = "json")]
    body: bool,
    #[command(flatten)]
    place: Place,
}

/// Prints the event.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let ask = Ask::at(&args.place)?;
    let body = |event: &EventHead| ask.bytes(&format!("/api/events/{}/body", event.seq));
    let view = |event: &EventHead| ask.get(&format!("/api/events/{}", event.seq));
    if args.body {
        let event = ask.find_one(&args.id, "show --body")?;
        return Ok(out.write_all(&body(&event)?)?);
    }
    let found = ask.find(&args.id)?;
    if args.place.json {
        for event in &found {
            let view: EventView = view(event)?;
            json(&view, out)?;
        }
        return Ok(());
    }
    let [event] = &found[..] else {
        return list(&found, out);
    };
    let view: EventView = view(event)?;
    print(&view, out)?;
    if view.expired {
        return Ok(writeln!(out, "\nthe body has expired")?);
    }
    // A damaged body must not keep the rest from being shown.
    print_body(&view, &body(event)?, out)
}

/// Prints which events an id means.
fn list(found: &[EventHead], out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(["SEQ", "EVENT", "DEVICE", "ROUTE", "AGE", "BYTES"], &[0, 5]);
    for event in found {
        table.add([
            format!("#{}", event.seq),
            event.name.clone(),
            short(event.device.as_deref()),
            short(event.route.as_deref()),
            age(event.received.as_ref()),
            event.bytes.to_string(),
        ]);
    }
    let last = found.last().map(|event| event.seq).unwrap_or_default();
    writeln!(out, "{} events are called so:\n", found.len())?;
    table.print(true, out)?;
    writeln!(
        out,
        "\nshow one of them, for example: gatepost show '#{last}'"
    )?;
    Ok(())
}

fn print(view: &EventView, out: &mut dyn Write) -> Result<(), Error> {
    let head = &view.head;
    writeln!(out, "event {}, seq {}", head.name, head.seq)?;
    let at = head.received.as_ref().map_or("", |time| time.at.as_str());
    let ago = age(head.received.as_ref());
    let doubt = if view.clock_certain {
        ""
    } else {
        ", by a clock that was not synchronised"
    };
    writeln!(out, "  received  {at}, {ago} ago{doubt}")?;
    if let Some(time) = &view.event_time {
        let off = view.event_time_off_ms.map(Duration::from_millis);
        let doubt = off.map_or_else(String::new, |off| {
            format!(", {} off: sent late, or its clock is wrong", Pause(off))
        });
        writeln!(out, "  happened  {}{doubt}", safe(time))?;
    }
    let (device, route) = (short(head.device.as_deref()), short(head.route.as_deref()));
    writeln!(out, "  device    {device}, at {}", view.peer)?;
    writeln!(out, "  route     {route}")?;
    writeln!(
        out,
        "  request   {} {}",
        safe(&view.method),
        safe(&view.target)
    )?;
    print_size(view, out)?;
    if let Some(first) = view.revision_of {
        writeln!(
            out,
            "  revision  of #{first}, which has the same ids and other bytes"
        )?;
    }
    writeln!(out, "  key       {}", view.idempotency_key)?;
    print_fate(view, out)?;
    writeln!(out, "\naudit trail")?;
    for line in &view.trail {
        writeln!(out, "  {}  {}", line.time.at, safe(&line.line))?;
    }
    writeln!(out, "\nheaders")?;
    for (name, value) in &view.headers {
        writeln!(out, "  {}: {}", safe(name), safe(value))?;
    }
    Ok(())
}

/// Prints how much it holds.
fn print_size(view: &EventView, out: &mut dyn Write) -> Result<(), Error> {
    let head = &view.head;
    writeln!(
        out,
        "  body      {}, sha256 {}",
        bytes(head.bytes),
        view.digest
    )?;
    if let Some(items) = view.items {
        writeln!(out, "  items     {items}")?;
    }
    if view.kept != head.bytes {
        writeln!(
            out,
            "            only the first {} are kept",
            bytes(view.kept)
        )?;
    }
    Ok(())
}

/// Prints what became of the event: its quarantine, its deliveries.
fn print_fate(view: &EventView, out: &mut dyn Write) -> Result<(), Error> {
    if let Some(quarantine) = &view.quarantine {
        let now = if quarantine.waiting {
            format!("; it waits until gatepost discard '#{}'", view.head.seq)
        } else {
            "; discarded since".to_owned()
        };
        writeln!(out, "  quarantine: {}{now}", safe(&quarantine.why))?;
    }
    if !view.deliveries.is_empty() {
        writeln!(out, "\ndeliveries")?;
        for delivery in &view.deliveries {
            print_delivery(delivery, out)?;
        }
    }
    Ok(())
}

fn print_delivery(delivery: &DeliveryView, out: &mut dyn Write) -> Result<(), Error> {
    let state = match delivery.state {
        DeliveryState::Pending if delivery.replayed => "pending, replayed",
        DeliveryState::Pending => "pending",
        DeliveryState::Dead => "dead letter",
        DeliveryState::Delivered => "delivered",
        DeliveryState::Discarded => "discarded",
        DeliveryState::Shed => "given up, the store was full",
        DeliveryState::Ended => "ended",
    };
    write!(out, "  {}: {state}", delivery.destination)?;
    if matches!(delivery.state, DeliveryState::Pending) && delivery.attempts != 0 {
        write!(
            out,
            ", {} counted",
            count(u64::from(delivery.attempts), "attempt", "attempts")
        )?;
    }
    let Some(letter) = &delivery.letter else {
        writeln!(out)?;
        return Ok(());
    };
    let (why, outcome) = (reason(letter.reason), safe(&letter.outcome));
    let since = age(Some(&letter.since));
    writeln!(
        out,
        " for {since}, {why}: {outcome}, attempt {}",
        letter.attempts
    )?;
    if !letter.answer.is_empty() {
        writeln!(out, "    its last answer began:")?;
        for line in letter.answer.lines() {
            writeln!(out, "    | {}", safe(line))?;
        }
    }
    Ok(())
}

fn print_body(view: &EventView, body: &[u8], out: &mut dyn Write) -> Result<(), Error> {
    if body.is_empty() {
        writeln!(out, "\nthe body is empty")?;
        return Ok(());
    }
    let seq = view.head.seq;
    let more = |shown: usize| {
        let rest = body.len().saturating_sub(shown);
        let rest = (rest != 0).then(|| bytes(rest as u64));
        rest.map(|rest| format!("... {rest} more; all of it: gatepost show --body '#{seq}'"))
    };
    writeln!(out, "\nbody")?;
    let rest = if let Some(text) = as_text(body) {
        let mut end = text.len().min(TEXT_HEAD);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let shown = &text[..end];
        out.write_all(shown.as_bytes())?;
        if !shown.ends_with('\n') {
            writeln!(out)?;
        }
        more(end)
    } else {
        out.write_all(hex(&body[..body.len().min(HEX_HEAD)]).as_bytes())?;
        more(HEX_HEAD)
    };
    if let Some(rest) = rest {
        writeln!(out, "{rest}")?;
    }
    Ok(())
}
