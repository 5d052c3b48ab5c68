//! Deliveries to a destination of what was stored before it was there.

use std::collections::BTreeSet;

use super::change::CHUNK;
use super::names::Names;
use super::query::{cursor, read_cursor};
use super::views::Changed;
use super::{Kind, Refusal, State};
use crate::commit::Operation;
use crate::event::{Event, Seq};

/// Makes deliveries to `name` of the events of its routes that it has not had, oldest first, as far
/// as their bodies are still kept: at most about `most` are looked at; the answer says where to go
/// on. Only what is in the store when it starts, since what comes later goes there anyway.
pub(super) fn backfill(
    state: &State,
    name: &str,
    after: Option<&str>,
    most: usize,
) -> Result<Changed, Refusal> {
    let to = Names::read(state)?.find(name)?;
    let leads_there = |(_, destinations): &&(String, Vec<String>)| destinations.contains(&to.name);
    let routes = state.routes.iter().filter(leads_there);
    let routes: BTreeSet<&str> = routes.map(|(route, _)| route.as_str()).collect();
    if routes.is_empty() {
        let detail = match state.office.destinations() {
            Some(_) => format!("no route leads to {}", to.name),
            None => "only the running daemon knows its routes".to_owned(),
        };
        return Err(Refusal::new(Kind::Conflict, detail));
    }
    let [mut next, before] = match after.map(read_cursor::<2>).transpose()? {
        Some(range) => range.map(Seq),
        None => [Seq(0), Seq(state.store.counters()?.next_seq)],
    };
    let is_meant = |(seq, event): &(Seq, Option<Event>)| {
        let route = event.as_ref().and_then(|event| event.route.as_deref());
        *seq < before && route.is_some_and(|route| routes.contains(route))
    };
    let mut changed = Changed::default();
    let mut visited = 0;
    while visited < most {
        let events = state.store.events_from(next, CHUNK)?;
        let Some((last, _)) = events.last().filter(|_| next < before) else {
            return Ok(changed);
        };
        next = Seq(last.0 + 1);
        visited += events.len();
        let meant = events.iter().filter(|event| is_meant(event));
        let seqs: Vec<Seq> = meant.map(|(seq, _)| *seq).collect();
        if !seqs.is_empty() {
            changed.add(
                state
                    .office
                    .operate(Operation::Backfill(seqs, to.clone()))?,
            );
        }
    }
    changed.next = Some(cursor(&[next.0, before.0]));
    Ok(changed)
}
