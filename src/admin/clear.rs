//! Everything that waits for one destination: given up, or moved to another.

use super::change::{CHUNK, just_before};
use super::names::Names;
use super::query::{cursor, read_cursor};
use super::views::{Changed, Selection};
use super::{Kind, Refusal, State};
use crate::commit::{DestinationRef, Operation, Target};
use crate::delivery::DeliveryId;
use crate::event::{DestinationNo, Lane, Seq};
use crate::store;

/// Which rows come first: the older ones, so that a lane begins with what came first.
const DEAD: u64 = 0;
const PENDING: u64 = 1;

/// Gives up what waits for a destination, dead letters too, or moves it: at most about `most`; the
/// answer says where to go on.
///
/// A destination that works is not cleared: what is given up cannot be had back.
pub(super) fn clear(
    state: &State,
    name: &str,
    selection: &Selection,
    most: usize,
) -> Result<Changed, Refusal> {
    let names = Names::read(state)?;
    let from = names.find(name)?;
    let to = selection.move_to.as_deref().map(|to| names.find(to));
    let to = to.transpose()?;
    refuse_if_at_work(state, &from)?;
    if let Some(to) = &to {
        refuse_if_not_configured(state, &from, to)?;
    }
    let after = selection
        .after
        .as_deref()
        .map(read_cursor::<3>)
        .transpose()?;
    let (mut kind, mut after) = match after {
        Some([kind, lane, seq]) => (kind, Some((Lane(lane), Seq(seq)))),
        None => (DEAD, None),
    };
    let mut changed = Changed::default();
    let mut visited = 0;
    while visited < most {
        let rows = rows(state, from.number, kind, after)?;
        if rows.is_empty() {
            if kind == PENDING {
                return Ok(changed);
            }
            (kind, after) = (PENDING, None);
            continue;
        }
        after = rows.last().copied();
        visited += rows.len();
        let target = |(_, seq): &(Lane, Seq)| Target {
            seq: *seq,
            destination: Some(from.clone()),
        };
        let targets = rows.iter().map(target).collect();
        let operation = match &to {
            Some(to) => Operation::Move(targets, to.clone()),
            None => Operation::Discard(targets),
        };
        changed.add(state.office.operate(operation)?);
    }
    changed.next = after.map(|(lane, seq)| cursor(&[kind, lane.0, seq.0]));
    Ok(changed)
}

/// The next rows of a destination, of one kind.
fn rows(
    state: &State,
    number: DestinationNo,
    kind: u64,
    after: Option<(Lane, Seq)>,
) -> Result<Vec<(Lane, Seq)>, store::Error> {
    if kind == DEAD {
        let after = after.map(|(_, seq)| (number, seq));
        let rows = state
            .store
            .dead_after(after.or(just_before(number)), CHUNK)?;
        let of_it = rows.iter().take_while(|row| row.destination == number);
        return Ok(of_it.map(|row| (Lane(0), row.seq)).collect());
    }
    let after = match after {
        Some((lane, seq)) => Some((number, lane, seq)),
        None => just_before(number).map(|(before, seq)| (before, Lane(u64::MAX), seq)),
    };
    let id = |(destination, lane, seq)| DeliveryId {
        destination,
        lane,
        seq,
    };
    let rows = state.store.pending_after(after.map(id), CHUNK)?;
    let of_it = rows.iter().map(|row| row.id);
    let of_it = of_it.take_while(|id| id.destination == number);
    Ok(of_it.map(|id| (id.lane, id.seq)).collect())
}

fn refuse_if_at_work(state: &State, from: &DestinationRef) -> Result<(), Refusal> {
    let is_configured = state
        .destinations
        .iter()
        .any(|(number, _)| *number == from.number);
    let is_held = || -> Result<bool, store::Error> {
        let held: Vec<(String, bool)> = state.store.metas("held/")?;
        Ok(held.iter().any(|(held, _)| *held == from.name))
    };
    if !is_configured || is_held()? {
        return Ok(());
    }
    let name = &from.name;
    let detail = format!("{name} is configured and at work; hold it first: gatepost hold {name}");
    Err(Refusal::new(Kind::Conflict, detail))
}

fn refuse_if_not_configured(
    state: &State,
    from: &DestinationRef,
    to: &DestinationRef,
) -> Result<(), Refusal> {
    if from.number == to.number {
        let detail = format!("{} is where they wait already", to.name);
        return Err(Refusal::new(Kind::Conflict, detail));
    }
    let is_configured = state
        .destinations
        .iter()
        .any(|(number, _)| *number == to.number);
    // Without a daemon there is no configuration to ask.
    if is_configured || state.office.destinations().is_none() {
        return Ok(());
    }
    let detail = format!("{} is not configured: nothing would be sent to it", to.name);
    Err(Refusal::new(Kind::Conflict, detail))
}
