//! One event: its record, its deliveries, its audit trail, its body.

use std::collections::BTreeSet;

use super::names::Names;
use super::views::{DeliveryState, DeliveryView, EventView, QuarantineView, Time, TrailLine};
use super::{Kind, Refusal, State, lists};
use crate::audit::{Ending, Entry, Line};
use crate::clock::Told;
use crate::commit::DestinationRef;
use crate::delivery::{DeadLetter, Progress, idempotency_key};
use crate::event::{DestinationNo, Event, Lane, Seq};
use crate::store;

/// `GET /api/events/{seq}`.
pub(super) fn view(state: &State, seq: Seq) -> Result<EventView, Refusal> {
    let event = record(state, seq)?;
    let (head, _) = lists::head(state, seq)?;
    let trail = state.store.trail(seq)?;
    let deliveries = deliveries(state, seq, &event, &trail)?;
    let quarantine = match &event.quarantine {
        Some(reason) => Some(QuarantineView {
            why: reason.to_string(),
            waiting: state.store.is_quarantined(seq)?,
            reason: reason.clone(),
        }),
        None => None,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = event.headers.iter();
    Ok(EventView {
        clock_certain: event.received.certain,
        event_time_off_ms: off_ms(&event),
        event_time: event.event_time.clone(),
        items: event.items,
        peer: event.peer.to_string(),
        method: event.method.clone(),
        target: text(&event.target),
        headers: headers
            .map(|header| (header.name.clone(), text(&header.value)))
            .collect(),
        kept: event.kept,
        expired: 0 < event.kept && !state.store.has_body(seq)?,
        digest: event.digest.to_string(),
        revision_of: event.revision_of,
        idempotency_key: idempotency_key(state.store.gateway(), seq),
        quarantine,
        deliveries: deliveries
            .into_iter()
            .map(|delivery| delivery.view(state))
            .collect(),
        trail: lines(state, seq, &event, trail),
        head,
    })
}

/// See [`EventView::event_time_off_ms`].
fn off_ms(event: &Event) -> Option<u64> {
    let told = Told::read(event.event_time.as_deref()?)?;
    let received = event.received.certain.then_some(event.received.wall)?;
    let off = told.is_far_from(received)?;
    u64::try_from(off.as_millis()).ok()
}

/// `GET /api/events/{seq}/body`: the kept bytes, as they were sent.
pub(super) fn body(state: &State, seq: Seq) -> Result<Vec<u8>, Refusal> {
    let event = record(state, seq)?;
    let body = state.store.body(seq, &event)?;
    let expired = format!("the body of {} has expired", event.name(seq));
    body.ok_or_else(|| Refusal::new(Kind::Expired, expired))
}

/// The record of an event that must be there.
pub(super) fn record(state: &State, seq: Seq) -> Result<Event, Refusal> {
    let event = state.store.event(seq)?;
    event.ok_or_else(|| Refusal::new(Kind::NoEvent, format!("there is no event with seq {seq}")))
}

/// A delivery of an event and what became of it.
pub(super) struct Delivery {
    /// Where to.
    pub(super) to: DestinationRef,
    /// What became of it.
    pub(super) state: DeliveryState,
    progress: Progress,
    letter: Option<DeadLetter>,
}

impl Delivery {
    fn view(self, state: &State) -> DeliveryView {
        let letter = self.letter;
        DeliveryView {
            destination: self.to.name,
            state: self.state,
            attempts: letter
                .as_ref()
                .map_or(self.progress.attempts, |letter| letter.attempts),
            replayed: self.progress.replayed,
            letter: letter.map(|letter| lists::letter(state, letter)),
        }
    }
}

/// All deliveries of an event, in the order of the destinations' numbers. Looks at every known
/// destination, because an event that had nowhere to go when it came may have got one since.
pub(super) fn deliveries(
    state: &State,
    seq: Seq,
    event: &Event,
    trail: &[Entry],
) -> Result<Vec<Delivery>, store::Error> {
    let names = Names::read(state)?;
    let meant: BTreeSet<DestinationNo> = event.to.iter().map(|to| to.destination).collect();
    let numbers: BTreeSet<DestinationNo> = names
        .all()
        .map(|to| to.number)
        .chain(meant.clone())
        .collect();
    let mut deliveries = Vec::new();
    for number in numbers {
        let to = DestinationRef {
            number,
            name: names.of(number),
        };
        let letter = state.store.dead_letter(number, seq)?;
        let pending = pending(state, seq, event, number)?;
        let ending = Ending::of(&to.name, trail);
        let found = match (pending, &letter, ending) {
            (Some(_), _, _) => DeliveryState::Pending,
            (None, Some(_), _) => DeliveryState::Dead,
            (None, None, Some(Ending::Delivered)) => DeliveryState::Delivered,
            (None, None, Some(Ending::Discarded)) => DeliveryState::Discarded,
            (None, None, Some(Ending::Shed)) => DeliveryState::Shed,
            (None, None, None) if meant.contains(&number) && names.has(number) => {
                DeliveryState::Ended
            }
            (None, None, None) => continue,
        };
        deliveries.push(Delivery {
            to,
            state: found,
            progress: pending.unwrap_or_default(),
            letter,
        });
    }
    Ok(deliveries)
}

/// How far a delivery has come that is still to be made, in whichever lane it waits.
fn pending(
    state: &State,
    seq: Seq,
    event: &Event,
    destination: DestinationNo,
) -> Result<Option<Progress>, store::Error> {
    let lanes = event.to.iter().map(|to| to.lane);
    let lanes: BTreeSet<Lane> = lanes.chain([Lane::alone(seq)]).collect();
    for lane in lanes {
        let before = seq.0.checked_sub(1).map(Seq);
        let next = state.store.next_in_lane(destination, lane, before)?;
        if let Some(pending) = next.filter(|next| next.id.seq == seq) {
            return Ok(Some(pending.progress));
        }
    }
    Ok(None)
}

/// The audit trail in the words of the log. What the record stands for comes first.
fn lines(state: &State, seq: Seq, event: &Event, trail: Vec<Entry>) -> Vec<TrailLine> {
    let now = state.clock.reading();
    let name = event.name(seq);
    let entries = Entry::of_arrival(event).into_iter().chain(trail);
    let lines = entries.map(|Entry { at, action, .. }| {
        let line = Line {
            name: &name,
            seq,
            action: &action,
        };
        TrailLine {
            time: Time::of(at, now),
            line: line.to_string(),
            entry: action,
        }
    });
    lines.collect()
}
