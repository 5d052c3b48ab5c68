//! What an event and a settlement are in the tables.

use super::{Admission, Change, Recent, Settlement, WINDOW};
use crate::audit::Entry;
use crate::delivery::{DeadReason, DeliveryId, Progress};
use crate::event::Seq;
use crate::store::{Error, Pending, Tables};

/// Stores an event with its deliveries. Returns those.
pub(super) fn admit(
    tables: &mut Tables<'_>,
    seq: Seq,
    admission: &Admission,
) -> Result<Vec<Pending>, Error> {
    let Admission {
        event, body, key, ..
    } = admission;
    let given = tables.put_event(event, body)?;
    assert_eq!(
        given, seq,
        "the committer is the only writer, so it knows the next number"
    );
    for entry in Entry::of_arrival(event) {
        tables.counters.totals.count(&entry.action);
    }
    if let Some(key) = key
        && event.quarantine.is_none()
    {
        tables.put_recent(seq, &Recent::encode(*key, &event.digest), WINDOW as u64)?;
    }
    let mut pending = Vec::with_capacity(event.to.len());
    for address in &event.to {
        let id = DeliveryId {
            destination: address.destination,
            lane: address.lane,
            seq,
        };
        let progress = Progress::default();
        tables.put_pending(id, progress)?;
        pending.push(Pending { id, progress });
    }
    Ok(pending)
}

/// Notes what became of a delivery. One that was discarded meanwhile stays so; the audit trail
/// still says what was done.
///
/// Whether it happened: an event of which nothing is left is not damaged, whatever a worker found
/// that read it just then.
pub(super) fn settle(tables: &mut Tables<'_>, settlement: &Settlement) -> Result<bool, Error> {
    let Settlement {
        id, change, entry, ..
    } = settlement;
    let is_damage = matches!(change, Change::Dead(letter) if letter.reason == DeadReason::Damaged);
    if is_damage && !tables.has_event(id.seq)? {
        return Ok(false);
    }
    tables.put_entry(id.seq, entry)?;
    if !tables.remove_pending(*id)? {
        return Ok(true);
    }
    match change {
        Change::Delivered => {}
        Change::Retry { progress, lane } => {
            let id = DeliveryId { lane: *lane, ..*id };
            tables.put_pending(id, *progress)?;
        }
        Change::Dead(letter) => tables.put_dead(id.destination, id.seq, letter)?,
    }
    Ok(true)
}
