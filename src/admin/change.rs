//! The changes: replay, discard, hold, release, forget.

use serde::de::DeserializeOwned;

use super::backfill::backfill;
use super::clear::clear;
use super::event::{self, Delivery};
use super::lists::heard_of;
use super::names::Names;
use super::query::{cursor, destination, read_cursor};
use super::views::{Changed, DeliveryState, Forgotten, Held, Selection};
use super::{Kind, Refusal, Request, Response, State};
use crate::commit::{DestinationRef, Operation, Report, Target};
use crate::event::{DestinationNo, Seq, printable};

/// How many deliveries one operation changes at most: devices do not wait behind a huge
/// transaction.
pub(super) const CHUNK: usize = 500;

/// How many deliveries one request changes at most, so that it is answered while the one who
/// asked still waits: 20 chunks take 20 syncs, a few seconds on the slowest card.
const MOST: usize = 20 * CHUNK;

/// Answers `POST /api/{what}`.
pub(super) fn answer(what: &str, request: &Request, state: &State) -> Result<Response, Refusal> {
    if !request.query.is_empty() {
        return Err(Refusal::bad(
            "say what in the body, as JSON, and not in the query",
        ));
    }
    let changed = match what {
        "replay" => replay(state, &read(&request.body)?)?,
        "discard" => discard(state, &read(&request.body)?)?,
        "forget" => forget(state, &read(&request.body)?)?,
        hold => held(state, &read(&request.body)?, hold == "hold")?,
    };
    Ok(Response::json(200, &changed))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("the body: {error}")))
}

fn replay(state: &State, selection: &Selection) -> Result<Changed, Refusal> {
    if selection.backfill {
        return match (&selection.destination, selection.seq, selection.all) {
            (Some(name), None, false) => backfill(state, name, selection.after.as_deref(), MOST),
            _ => Err(Refusal::bad(
                "say which: {\"backfill\": true, \"destination\": NAME}",
            )),
        };
    }
    let to = selection
        .destination
        .as_deref()
        .map(|name| Names::read(state)?.find(name))
        .transpose()?;
    match (selection.seq, selection.all, to) {
        _ if selection.move_to.is_some() => {
            Err(Refusal::bad("move_to is for a discard, not for a replay"))
        }
        (Some(seq), false, to) if selection.after.is_none() => replay_one(state, seq, to),
        (None, true, None) => replay_dead(state, None, selection.after.as_deref(), MOST),
        (None, false, Some(to)) => replay_dead(state, Some(&to), selection.after.as_deref(), MOST),
        _ => Err(Refusal::bad(
            "say which: {\"seq\": N}, {\"seq\": N, \"destination\": NAME}, {\"all\": true} or \
             {\"destination\": NAME}",
        )),
    }
}

/// Sends an event again: its dead letters; if it has none, its delivered deliveries.
fn replay_one(state: &State, seq: Seq, to: Option<DestinationRef>) -> Result<Changed, Refusal> {
    let destinations = if let Some(to) = to {
        vec![to]
    } else {
        let deliveries = deliveries(state, seq)?;
        let dead = those(&deliveries, &[DeliveryState::Dead]);
        if dead.is_empty() {
            those(
                &deliveries,
                &[DeliveryState::Delivered, DeliveryState::Ended],
            )
        } else {
            dead
        }
    };
    let mut targets = targets(seq, destinations);
    if targets.is_empty() {
        // The committer says why nothing of this can be sent again.
        let deliveries = deliveries(state, seq)?;
        targets = self::targets(seq, those(&deliveries, &[DeliveryState::Pending]));
    }
    if targets.is_empty() {
        let event = event::record(state, seq)?;
        let name = event.name(seq);
        let why = match event.quarantine {
            Some(_) => "it is in quarantine and has no delivery",
            None => "it has no dead letter and nothing was delivered",
        };
        return Err(Refusal::new(
            Kind::Conflict,
            format!("{name} cannot be replayed: {why}"),
        ));
    }
    one(state, Operation::Replay(targets))
}

/// Gives an event up: what waits of it, whatever it waits for.
fn discard(state: &State, selection: &Selection) -> Result<Changed, Refusal> {
    if selection.backfill {
        return Err(Refusal::bad("backfill is for a replay, not for a discard"));
    }
    if let (None, false, Some(name)) = (selection.seq, selection.all, &selection.destination) {
        return clear(state, name, selection, MOST);
    }
    let (Some(seq), false, None, None) = (
        selection.seq,
        selection.all,
        &selection.after,
        &selection.move_to,
    ) else {
        return Err(Refusal::bad(
            "say which: {\"seq\": N}, {\"seq\": N, \"destination\": NAME}, \
             {\"destination\": NAME} or {\"destination\": NAME, \"move_to\": NAME}",
        ));
    };
    let event = event::record(state, seq)?;
    let targets = if let Some(name) = &selection.destination {
        targets(seq, vec![Names::read(state)?.find(name)?])
    } else {
        let waiting = [DeliveryState::Dead, DeliveryState::Pending];
        let mut targets = targets(seq, those(&deliveries(state, seq)?, &waiting));
        if state.store.is_quarantined(seq)? {
            let destination = None;
            targets.push(Target { seq, destination });
        }
        targets
    };
    if targets.is_empty() {
        let name = event.name(seq);
        let detail =
            format!("{name} waits for nothing: it has ended, and there is nothing to give up");
        return Err(Refusal::new(Kind::Conflict, detail));
    }
    one(state, Operation::Discard(targets))
}

fn deliveries(state: &State, seq: Seq) -> Result<Vec<Delivery>, Refusal> {
    let event = event::record(state, seq)?;
    let trail = state.store.trail(seq)?;
    Ok(event::deliveries(state, seq, &event, &trail)?)
}

/// Where the deliveries go that are in one of `states`.
fn those(deliveries: &[Delivery], states: &[DeliveryState]) -> Vec<DestinationRef> {
    let those = deliveries.iter().filter(|one| states.contains(&one.state));
    those.map(|one| one.to.clone()).collect()
}

fn targets(seq: Seq, destinations: Vec<DestinationRef>) -> Vec<Target> {
    let destinations = destinations.into_iter().map(Some);
    destinations
        .map(|destination| Target { seq, destination })
        .collect()
}

/// An operation on one event. That nothing of it could be done is a conflict.
fn one(state: &State, operation: Operation) -> Result<Changed, Refusal> {
    let report = state.office.operate(operation)?;
    if report.done == 0 {
        return Err(Refusal::new(Kind::Conflict, report.refused.join("; ")));
    }
    let mut changed = Changed::default();
    changed.add(report);
    Ok(changed)
}

/// Sends dead letters again, in the order of destination and seq: all, or those of one
/// destination. At most about `most`; the answer says where to go on.
///
/// What is sent again is fixed when it starts: events that are in the store by then. The cursor
/// only goes forward, so a letter that comes back meanwhile is not sent a second time.
pub(super) fn replay_dead(
    state: &State,
    only: Option<&DestinationRef>,
    after: Option<&str>,
    most: usize,
) -> Result<Changed, Refusal> {
    let (mut after, before) = match after.map(read_cursor::<3>).transpose()? {
        Some([before, number, seq]) => (Some((destination(number)?, Seq(seq))), Seq(before)),
        None => (
            only.and_then(|only| just_before(only.number)),
            Seq(state.store.counters()?.next_seq),
        ),
    };
    let names = Names::read(state)?;
    let mut changed = Changed::default();
    let mut visited = 0;
    while visited < most {
        let rows = state.store.dead_after(after, CHUNK)?;
        let in_range = |number| only.is_none_or(|only| only.number == number);
        let rows: Vec<_> = rows
            .into_iter()
            .take_while(|row| in_range(row.destination))
            .map(|row| (row.destination, row.seq))
            .collect();
        let Some(last) = rows.last().copied() else {
            return Ok(changed);
        };
        after = Some(last);
        visited += rows.len();
        let rows = rows.into_iter().filter(|(_, seq)| *seq < before);
        let targets: Vec<Target> = rows
            .map(|(number, seq)| {
                let name = names.of(number);
                let destination = Some(DestinationRef { number, name });
                Target { seq, destination }
            })
            .collect();
        if !targets.is_empty() {
            changed.add(state.office.operate(Operation::Replay(targets))?);
        }
    }
    changed.next = after.map(|(number, seq)| cursor(&[before.0, u64::from(number.0), seq.0]));
    Ok(changed)
}

/// A key that lies before all dead letters of a destination and after those of the one before
/// it; none before the first. No event ever has that seq.
pub(super) fn just_before(number: DestinationNo) -> Option<(DestinationNo, Seq)> {
    let previous = number.0.checked_sub(1)?;
    Some((DestinationNo(previous), Seq(u64::MAX - 1)))
}

fn held(state: &State, body: &Held, held: bool) -> Result<Changed, Refusal> {
    let name = Names::read(state)?.find(&body.destination)?.name;
    let operation = if held {
        Operation::Hold(name.clone())
    } else {
        Operation::Release(name.clone())
    };
    let mut changed = Changed::default();
    changed.add(state.office.operate(operation)?);
    state.office.hold(&name, held)?;
    Ok(changed)
}

/// Forgets a device, so that nobody expects it any more.
fn forget(state: &State, body: &Forgotten) -> Result<Changed, Refusal> {
    let route = body.route.as_deref();
    let done = heard_of(state)?.forget(route, &body.device);
    if done == 0 {
        let detail = format!("no device {} is known", printable(&body.device));
        return Err(Refusal::new(Kind::NoDevice, detail));
    }
    Ok(Changed {
        done,
        ..Changed::default()
    })
}

impl Changed {
    /// Counts what one operation did.
    pub(super) fn add(&mut self, report: Report) {
        self.done += report.done;
        self.refused_count += report.refused.len() as u64;
        let room = Self::MOST_REFUSED - self.refused.len();
        self.refused.extend(report.refused.into_iter().take(room));
    }
}
