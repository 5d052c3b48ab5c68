//! The lists: destinations, queue, dead letters, quarantine.

use std::collections::BTreeSet;

use super::names::Names;
use super::query::{Query, cursor, delivery, destination};
use super::views::{
    DeadRow, DestinationStatus, DeviceRow, EventHead, Letter, Oldest, Page, QuarantineRow,
    QueueRow, Status, Time,
};
use super::{Kind, Refusal, State};
use crate::delivery::DeadLetter;
use crate::devices::{Devices, Seen};
use crate::event::{DestinationNo, Event, Seq, name};
use crate::health;
use crate::store;

/// `GET /api/status`.
pub(super) fn status(state: &State) -> Result<Status, store::Error> {
    let now = state.clock.reading();
    let counters = state.store.counters()?;
    let names = Names::read(state)?;
    let running = state.office.destinations();
    let held: Vec<(String, bool)> = state.store.metas("held/")?;
    let waiting = counters.backlog.iter();
    let waiting = waiting.filter(|(_, backlog)| backlog.pending + backlog.dead != 0);
    let configured: BTreeSet<DestinationNo> = state
        .destinations
        .iter()
        .map(|(number, _)| *number)
        .collect();
    let mut numbers: BTreeSet<DestinationNo> = waiting.map(|(number, _)| *number).collect();
    numbers.extend(&configured);
    if running.is_none() {
        numbers.extend(names.all().map(|to| to.number));
    }
    let mut destinations = Vec::new();
    for number in numbers {
        let name = names.of(number);
        let live = running.iter().flatten().find(|live| live.number == number);
        let backlog = counters.backlog.get(&number).copied().unwrap_or_default();
        destinations.push(DestinationStatus {
            configured: configured.contains(&number),
            held: held.iter().any(|(held, _)| *held == name),
            closed: live.is_some_and(|live| live.is_closed),
            state: live.map(|live| word(live.state).to_owned()),
            why: live.map(|live| live.why.clone()).unwrap_or_default(),
            pending: backlog.pending,
            dead: backlog.dead,
            in_flight: live.map_or(0, |live| live.in_flight),
            lanes: live.map_or(0, |live| live.lanes),
            oldest: oldest(state, number)?,
            name,
        });
    }
    let counts = state.office.devices().map(Devices::counts);
    Ok(Status {
        version: state.version.to_owned(),
        gateway: state.store.gateway().to_string(),
        running: running.is_some(),
        started: Time::of(state.started.wall, now),
        clock_certain: now.certain,
        events: counters.events,
        stored_bytes: counters.stored_bytes,
        quarantined: state.store.quarantined()?,
        totals: counters.totals,
        devices: counts.map(|(heard, _)| heard as u64),
        silent: counts.map(|(_, silent)| silent as u64),
        destinations,
    })
}

/// Who was heard of.
pub(super) fn heard_of(state: &State) -> Result<&Devices, Refusal> {
    let detail = "only the running daemon knows who was heard of";
    let devices = state.office.devices();
    devices.ok_or_else(|| Refusal::new(Kind::Unavailable, detail))
}

/// `GET /api/devices`: all of them at once, since their number is bounded.
pub(super) fn devices(state: &State) -> Result<Page<DeviceRow>, Refusal> {
    let devices = heard_of(state)?;
    let (now, moment) = (state.clock.reading(), state.clock.moment());
    let row = |(route, device, seen): (String, String, Seen)| DeviceRow {
        route,
        device,
        last_seen: seen.at.map(|at| Time {
            // Right even if the wall clock was set since.
            age_ms: u64::try_from(moment.since(seen.last).as_millis()).unwrap_or(u64::MAX),
            ..Time::of(at.wall, now)
        }),
        silent: seen.silent_since.is_some(),
        events: seen.events,
        heartbeats: seen.signals,
        lost: seen.lost,
    };
    Ok(Page {
        items: devices.list().into_iter().map(row).collect(),
        next: None,
    })
}

/// The oldest event that waits for a destination: one seek for each lane.
fn oldest(state: &State, number: DestinationNo) -> Result<Option<Oldest>, store::Error> {
    let heads = state.store.lane_heads(number)?;
    let seq = heads.iter().map(|head| head.id.seq).min();
    let Some(seq) = seq else {
        return Ok(None);
    };
    let (head, _) = head(state, seq)?;
    Ok(Some(Oldest {
        seq,
        received: head.received,
    }))
}

fn word(state: health::State) -> &'static str {
    match state {
        health::State::Up => "up",
        health::State::Down => "down",
        health::State::Held => "held",
        health::State::Paused => "paused",
    }
}

/// `GET /api/queue`.
pub(super) fn queue(state: &State, query: &Query) -> Result<Page<QueueRow>, Refusal> {
    let after = query.after::<3>()?.map(delivery).transpose()?;
    let limit = query.limit()?;
    let names = Names::read(state)?;
    let rows = state.store.pending_after(after, limit)?;
    let last = rows.last().map(|row| row.id);
    let last = last.map(|id| [u64::from(id.destination.0), id.lane.0, id.seq.0]);
    let items = rows.iter().map(|row| {
        Ok(QueueRow {
            destination: names.of(row.id.destination),
            attempts: row.progress.attempts,
            replayed: row.progress.replayed,
            event: head(state, row.id.seq)?.0,
        })
    });
    page(items, limit, last.as_ref().map(|key| &key[..]))
}

/// `GET /api/dead`.
pub(super) fn dead(state: &State, query: &Query) -> Result<Page<DeadRow>, Refusal> {
    let after = query.after::<2>()?;
    let after = after
        .map(|[number, seq]| destination(number).map(|number| (number, Seq(seq))))
        .transpose()?;
    let limit = query.limit()?;
    let names = Names::read(state)?;
    let rows = state.store.dead_after(after, limit)?;
    let last = rows
        .last()
        .map(|row| [u64::from(row.destination.0), row.seq.0]);
    let items = rows.into_iter().map(|row| {
        Ok(DeadRow {
            destination: names.of(row.destination),
            letter: letter(state, row.letter),
            event: head(state, row.seq)?.0,
        })
    });
    page(items, limit, last.as_ref().map(|key| &key[..]))
}

/// `GET /api/quarantine`.
pub(super) fn quarantine(state: &State, query: &Query) -> Result<Page<QuarantineRow>, Refusal> {
    let after = query.after::<1>()?.map(|[seq]| Seq(seq));
    let limit = query.limit()?;
    let rows = state.store.quarantined_after(after, limit)?;
    let last = rows.last().map(|seq| [seq.0]);
    let items = rows.into_iter().map(|seq| {
        let (head, event) = head(state, seq)?;
        let reason = event.and_then(|event| event.quarantine);
        Ok(QuarantineRow {
            why: reason.map(|reason| reason.to_string()).unwrap_or_default(),
            event: head,
        })
    });
    page(items, limit, last.as_ref().map(|key| &key[..]))
}

fn page<T>(
    items: impl Iterator<Item = Result<T, store::Error>>,
    limit: usize,
    last: Option<&[u64]>,
) -> Result<Page<T>, Refusal> {
    let items: Vec<T> = items.collect::<Result<_, _>>()?;
    let next = last.filter(|_| items.len() == limit).map(cursor);
    Ok(Page { items, next })
}

/// What the lists say of an event, and its record if that is whole. A damaged or missing record
/// is said and is not an error: one of them must not hide a whole list.
pub(super) fn head(state: &State, seq: Seq) -> Result<(EventHead, Option<Event>), store::Error> {
    let event = match state.store.event(seq) {
        Ok(Some(event)) => event,
        Ok(None) => return Ok((damaged_head(seq, "its record is missing".to_owned()), None)),
        Err(error @ store::Error::Corrupt { .. }) => {
            return Ok((damaged_head(seq, error.to_string()), None));
        }
        Err(error) => return Err(error),
    };
    let head = EventHead {
        seq,
        name: event.name(seq),
        event_id: event.event_id.clone(),
        device: event.device.clone(),
        route: event.route.clone(),
        received: Some(Time::of(event.received.wall, state.clock.reading())),
        bytes: event.length,
        damaged: None,
    };
    Ok((head, Some(event)))
}

fn damaged_head(seq: Seq, why: String) -> EventHead {
    EventHead {
        seq,
        name: name(None, seq),
        damaged: Some(why),
        ..EventHead::default()
    }
}

/// A dead letter as it is shown.
pub(super) fn letter(state: &State, letter: DeadLetter) -> Letter {
    Letter {
        reason: letter.reason,
        since: Time::of(letter.at, state.clock.reading()),
        attempts: letter.attempts,
        outcome: letter.outcome,
        answer: letter.answer,
    }
}
