//! Which events an operator means.

use std::collections::BTreeSet;

use super::views::Found;
use super::{Kind, Refusal, State, lists};
use crate::commit::recent_with_id;
use crate::event::{Event, Seq, printable};
use crate::store;

/// How many events one id can mean at most; the newest are taken.
pub const MOST_FOUND: usize = 100;

/// The events that an operator may mean by `id`.
///
/// - `#12` is the event with seq 12.
/// - Otherwise all events that their sender calls so, of any device, or that the log calls so.
/// - A bare number is never a seq: it is what many senders call their events, and acting on
///   another event than the one that was meant is worse than finding none.
///
/// Recent events are found by their hash; for older ones all records are read, which takes
/// seconds when there are millions.
pub(super) fn by_id(state: &State, id: &str) -> Result<Found, Refusal> {
    let found = match id.strip_prefix('#') {
        Some(number) => {
            let seq = number.parse().ok().map(Seq);
            let there = seq.map(|seq| exists(state, seq)).transpose()?;
            seq.filter(|_| there == Some(true)).into_iter().collect()
        }
        None => with_id(state, id)?,
    };
    if found.is_empty() {
        let detail = format!("there is no event {}", shown(id));
        return Err(Refusal::new(Kind::NoEvent, detail));
    }
    let events = found
        .into_iter()
        .map(|seq| lists::head(state, seq).map(|(head, _)| head));
    Ok(Found {
        events: events.collect::<Result<_, _>>()?,
    })
}

/// An id as an operator typed it, safe for a terminal.
fn shown(id: &str) -> String {
    match id.strip_prefix('#') {
        Some(seq) => format!("#{}", printable(seq)),
        None => printable(id),
    }
}

fn exists(state: &State, seq: Seq) -> Result<bool, store::Error> {
    match state.store.event(seq) {
        Ok(event) => Ok(event.is_some()),
        Err(store::Error::Corrupt { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// All events that are called `id`, the newest [`MOST_FOUND`] of them.
///
/// The window of recent keys knows every event in its range that was admitted with an id, but
/// not those in quarantine, and it knows ids only as they were sent, not as the log prints them.
/// If it knows nothing, every record is read.
fn with_id(state: &State, id: &str) -> Result<BTreeSet<Seq>, store::Error> {
    let store = &state.store;
    let is_it = |event: &Event| {
        let own = event.event_id.as_deref();
        own.is_some_and(|own| own == id || printable(own) == id)
    };
    let mut found = BTreeSet::new();
    let mut before = Seq(u64::MAX);
    let as_sent = printable(id) == id && !id.ends_with("...");
    if let (true, Some(first)) = (as_sent, store.oldest_recent()?) {
        let mut candidates = recent_with_id(store, id)?;
        let earlier = first.0.checked_sub(1).map(Seq);
        candidates.extend(store.quarantined_after(earlier, usize::MAX)?);
        for seq in candidates {
            if readable(store.event(seq))?.is_some_and(|event| is_it(&event)) {
                found.insert(seq);
            }
        }
        if !found.is_empty() {
            before = first;
        }
    }
    while found.len() < MOST_FOUND
        && let Some(seq) = store.find_event(before, is_it)?
    {
        found.insert(seq);
        before = seq;
    }
    while MOST_FOUND < found.len() {
        found.pop_first();
    }
    Ok(found)
}

/// The event, if its record is whole.
fn readable(event: Result<Option<Event>, store::Error>) -> Result<Option<Event>, store::Error> {
    match event {
        Err(store::Error::Corrupt { .. }) => Ok(None),
        other => other,
    }
}
