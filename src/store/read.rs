//! Reading the store: what lies there, checked.

use std::ops::Bound;

use redb::{ReadableDatabase, ReadableTable};
use serde::de::DeserializeOwned;

use super::schema::{
    AUDIT, BODIES, DEAD, EVENTS, META, PENDING, QUARANTINE, RECENT, Sealed, SealedBy, unseal,
};
use super::{Counters, Error, Store};
use crate::audit::Entry;
use crate::delivery::{DeadLetter, DeliveryId, Progress};
use crate::event::{DestinationNo, Event, Lane, Seq};

/// A pending delivery as it lies in the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pending {
    /// Which.
    pub id: DeliveryId,
    /// How far it has come.
    pub progress: Progress,
}

/// A dead letter as it lies in the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadRow {
    /// Where it was to go.
    pub destination: DestinationNo,
    /// Which event.
    pub seq: Seq,
    /// Why and when.
    pub letter: DeadLetter,
}

/// The raw bytes of a body.
pub type Body = Vec<u8>;

impl Store {
    /// How much one look at many events may read: what that takes in memory must not grow with
    /// what devices put into their headers.
    pub const PAGE_BYTES: usize = 512 * 1024;

    /// What the store counts.
    pub fn counters(&self) -> Result<Counters, Error> {
        Ok(self.meta("counters")?.unwrap_or_default())
    }

    /// The record of an event.
    pub fn event(&self, seq: Seq) -> Result<Option<Event>, Error> {
        let table = self.db.begin_read()?.open_table(EVENTS)?;
        let record = table.get(seq.0)?;
        record
            .map(|record| json("events", &seq.0, record.value()))
            .transpose()
    }

    /// The kept bytes of an event's body: whole, in order, each part checked. None if it had one
    /// that has expired.
    pub fn body(&self, seq: Seq, event: &Event) -> Result<Option<Body>, Error> {
        let table = self.db.begin_read()?.open_table(BODIES)?;
        let mut body = Vec::with_capacity(usize::try_from(event.kept).unwrap_or(0));
        for row in table.range((seq.0, 0)..=(seq.0, u32::MAX))? {
            let (key, record) = row?;
            body.extend_from_slice(unseal("bodies", &key.value(), record.value())?);
        }
        if body.is_empty() && 0 < event.kept {
            return Ok(None);
        }
        if body.len() as u64 != event.kept {
            let (has, kept) = (body.len(), event.kept);
            return Err(Error::Corrupt {
                table: "bodies",
                reason: format!("the body of seq {seq} has {has} of {kept} bytes"),
            });
        }
        Ok(Some(body))
    }

    /// Whether anything of an event's body is kept.
    pub fn has_body(&self, seq: Seq) -> Result<bool, Error> {
        let table = self.db.begin_read()?.open_table(BODIES)?;
        let mut rows = table.range((seq.0, 0)..=(seq.0, u32::MAX))?;
        Ok(rows.next().transpose()?.is_some())
    }

    /// Up to `limit` events from `first` on, in order, and no more once their records take
    /// [`Store::PAGE_BYTES`]. None for a record that is damaged.
    pub fn events_from(
        &self,
        first: Seq,
        limit: usize,
    ) -> Result<Vec<(Seq, Option<Event>)>, Error> {
        let table = self.db.begin_read()?.open_table(EVENTS)?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        for row in table.range(first.0..)?.take(limit) {
            let (key, record) = row?;
            bytes += record.value().len();
            let event = json("events", &key.value(), record.value()).ok();
            events.push((Seq(key.value()), event));
            if Self::PAGE_BYTES <= bytes {
                break;
            }
        }
        Ok(events)
    }

    /// Whether an event waits for one of `destinations`, pending in one of `lanes` or in a lane
    /// of its own or dead, or waits in quarantine.
    pub fn is_waiting(
        &self,
        seq: Seq,
        destinations: &[DestinationNo],
        lanes: &[Lane],
    ) -> Result<bool, Error> {
        let transaction = self.db.begin_read()?;
        let quarantine = transaction.open_table(QUARANTINE)?;
        let dead = transaction.open_table(DEAD)?;
        let pending = transaction.open_table(PENDING)?;
        let mut waiting = quarantine.get(seq.0)?.is_some();
        for destination in destinations {
            waiting |= dead.get((destination.0, seq.0))?.is_some();
            for lane in lanes.iter().copied().chain([Lane::alone(seq)]) {
                waiting |= pending.get((destination.0, lane.0, seq.0))?.is_some();
            }
        }
        Ok(waiting)
    }

    /// The deliveries of an event that are pending in one of `lanes` for one of `destinations`;
    /// none at all if it is a dead letter for one of them.
    pub fn pending_of(
        &self,
        seq: Seq,
        destinations: &[DestinationNo],
        lanes: &[Lane],
    ) -> Result<Option<Vec<DeliveryId>>, Error> {
        let transaction = self.db.begin_read()?;
        let dead = transaction.open_table(DEAD)?;
        let pending = transaction.open_table(PENDING)?;
        let mut found = Vec::new();
        for destination in destinations.iter().copied() {
            if dead.get((destination.0, seq.0))?.is_some() {
                return Ok(None);
            }
            for lane in lanes.iter().copied() {
                let id = DeliveryId {
                    destination,
                    lane,
                    seq,
                };
                if pending.get(pending_key(id))?.is_some() {
                    found.push(id);
                }
            }
        }
        Ok(Some(found))
    }

    /// The audit trail of an event, oldest first, without what its own record says.
    pub fn trail(&self, seq: Seq) -> Result<Vec<Entry>, Error> {
        trail(&self.db.begin_read()?.open_table(AUDIT)?, seq)
    }

    /// The first pending delivery of a lane, or the first after `after`. One range read.
    pub fn next_in_lane(
        &self,
        destination: DestinationNo,
        lane: Lane,
        after: Option<Seq>,
    ) -> Result<Option<Pending>, Error> {
        let first = after.map_or(Some(0), |Seq(seq)| seq.checked_add(1));
        let Some(first) = first else {
            return Ok(None);
        };
        let table = self.db.begin_read()?.open_table(PENDING)?;
        let key = (destination.0, lane.0);
        let mut rows = table.range((key.0, key.1, first)..=(key.0, key.1, u64::MAX))?;
        let row = rows.next().transpose()?;
        Ok(row.map(|(key, record)| pending(key.value(), record.value())))
    }

    /// The first pending delivery of each lane of a destination: one seek for each lane.
    pub fn lane_heads(&self, destination: DestinationNo) -> Result<Vec<Pending>, Error> {
        let table = self.db.begin_read()?.open_table(PENDING)?;
        let mut heads = Vec::new();
        let mut from = Some(0);
        while let Some(lane) = from {
            let last = (destination.0, u64::MAX, u64::MAX);
            let mut rows = table.range((destination.0, lane, 0)..=last)?;
            let Some((key, record)) = rows.next().transpose()? else {
                break;
            };
            let head = pending(key.value(), record.value());
            from = head.id.lane.0.checked_add(1);
            heads.push(head);
        }
        Ok(heads)
    }

    /// Up to `limit` pending deliveries after `after`, in the order of their keys.
    pub fn pending_after(
        &self,
        after: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Vec<Pending>, Error> {
        let table = self.db.begin_read()?.open_table(PENDING)?;
        let first = after.map_or(Bound::Unbounded, |after| {
            Bound::Excluded(pending_key(after))
        });
        let rows = table.range((first, Bound::Unbounded))?.take(limit);
        rows.map(|row| {
            let (key, record) = row?;
            Ok(pending(key.value(), record.value()))
        })
        .collect()
    }

    /// A dead letter.
    pub fn dead_letter(
        &self,
        destination: DestinationNo,
        seq: Seq,
    ) -> Result<Option<DeadLetter>, Error> {
        let table = self.db.begin_read()?.open_table(DEAD)?;
        let key = (destination.0, seq.0);
        let record = table.get(key)?;
        record
            .map(|record| json("dead", &key, record.value()))
            .transpose()
    }

    /// Up to `limit` dead letters after `after`, in the order of destination and seq.
    pub fn dead_after(
        &self,
        after: Option<(DestinationNo, Seq)>,
        limit: usize,
    ) -> Result<Vec<DeadRow>, Error> {
        let table = self.db.begin_read()?.open_table(DEAD)?;
        let first = after.map_or((0, 0), |(destination, seq)| (destination.0, seq.0 + 1));
        let rows = table.range(first..)?.take(limit);
        rows.map(|row| {
            let (key, record) = row?;
            let key = key.value();
            Ok(DeadRow {
                destination: DestinationNo(key.0),
                seq: Seq(key.1),
                letter: json("dead", &key, record.value())?,
            })
        })
        .collect()
    }

    /// Up to `limit` events in quarantine after `after`, oldest first.
    pub fn quarantined_after(&self, after: Option<Seq>, limit: usize) -> Result<Vec<Seq>, Error> {
        let table = self.db.begin_read()?.open_table(QUARANTINE)?;
        let first = after.map_or(0, |Seq(seq)| seq + 1);
        let rows = table.range(first..)?.take(limit);
        rows.map(|row| Ok(Seq(row?.0.value()))).collect()
    }

    /// Whether an event is in quarantine.
    pub fn is_quarantined(&self, seq: Seq) -> Result<bool, Error> {
        let table = self.db.begin_read()?.open_table(QUARANTINE)?;
        Ok(table.get(seq.0)?.is_some())
    }

    /// How many events are in quarantine.
    pub fn quarantined(&self) -> Result<u64, Error> {
        let table = self.db.begin_read()?.open_table(QUARANTINE)?;
        Ok(redb::ReadableTableMetadata::len(&table)?)
    }

    /// Shows `each` the keys under which recent events can be recognised again, oldest first, until
    /// it has seen enough (false). One by one, because there are many. Damaged ones are left out:
    /// an event that comes again is then stored again, which loses nothing.
    pub fn each_recent(&self, mut each: impl FnMut(Seq, &[u8]) -> bool) -> Result<(), Error> {
        let table = self.db.begin_read()?.open_table(RECENT)?;
        for row in table.iter()? {
            let (key, record) = row?;
            if let Ok(content) = unseal("recent", &key.value(), record.value())
                && !each(Seq(key.value()), content)
            {
                break;
            }
        }
        Ok(())
    }

    /// The first that [`Self::each_recent`] shows.
    pub fn oldest_recent(&self) -> Result<Option<Seq>, Error> {
        let mut oldest = None;
        self.each_recent(|seq, _| {
            oldest = Some(seq);
            false
        })?;
        Ok(oldest)
    }

    /// All that it shows, at once: 64 bytes of memory for each.
    pub fn recent(&self) -> Result<Vec<(Seq, Vec<u8>)>, Error> {
        let mut recent = Vec::new();
        self.each_recent(|seq, key| {
            recent.push((seq, key.to_vec()));
            true
        })?;
        Ok(recent)
    }

    /// Opens every table, so that a file in which one is missing or of another kind is noticed.
    pub(super) fn open_all(&self) -> Result<(), Error> {
        let transaction = self.db.begin_read()?;
        transaction.open_table(EVENTS)?;
        transaction.open_table(BODIES)?;
        transaction.open_table(PENDING)?;
        transaction.open_table(DEAD)?;
        transaction.open_table(QUARANTINE)?;
        transaction.open_table(RECENT)?;
        transaction.open_table(AUDIT)?;
        transaction.open_table(META)?;
        Ok(())
    }

    /// The newest event before `before` that `wanted` is true of. Reads backwards through all
    /// events if need be.
    pub fn find_event(
        &self,
        before: Seq,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Seq>, Error> {
        let table = self.db.begin_read()?.open_table(EVENTS)?;
        for row in table.range(..before.0)?.rev() {
            let (key, record) = row?;
            let event: Result<Event, Error> = json("events", &key.value(), record.value());
            if event.is_ok_and(|event| wanted(&event)) {
                return Ok(Some(Seq(key.value())));
            }
        }
        Ok(None)
    }

    /// All single values whose name begins with `prefix`: the rest of the name, and the value.
    pub fn metas<T: DeserializeOwned>(&self, prefix: &str) -> Result<Vec<(String, T)>, Error> {
        let table = self.db.begin_read()?.open_table(META)?;
        let mut found = Vec::new();
        for row in table.range(prefix..)? {
            let (name, record) = row?;
            let Some(rest) = name.value().strip_prefix(prefix) else {
                break;
            };
            found.push((
                rest.to_owned(),
                json("meta", &name.value(), record.value())?,
            ));
        }
        Ok(found)
    }
}

/// The entries of one event in the audit table.
pub(super) fn trail(
    table: &impl ReadableTable<(u64, u64), Sealed>,
    seq: Seq,
) -> Result<Vec<Entry>, Error> {
    let mut trail = Vec::new();
    for row in table.range((seq.0, 0)..=(seq.0, u64::MAX))? {
        let (key, record) = row?;
        trail.push(json("audit", &key.value(), record.value())?);
    }
    Ok(trail)
}

/// The value that the JSON record under `key` stands for.
pub(super) fn json<T: DeserializeOwned>(
    table: &'static str,
    key: &impl SealedBy,
    record: &[u8],
) -> Result<T, Error> {
    serde_json::from_slice(unseal(table, key, record)?).map_err(|error| Error::Corrupt {
        table,
        reason: error.to_string(),
    })
}

pub(super) fn pending_key(id: DeliveryId) -> (u16, u64, u64) {
    (id.destination.0, id.lane.0, id.seq.0)
}

/// A pending delivery. Its key says which; if the record is damaged, only the count of its attempts
/// is lost, and one damaged row must not stand in the way of all others.
fn pending(key: (u16, u64, u64), record: &[u8]) -> Pending {
    let id = DeliveryId {
        destination: DestinationNo(key.0),
        lane: Lane(key.1),
        seq: Seq(key.2),
    };
    let progress = progress(&key, record).unwrap_or_default();
    Pending { id, progress }
}

/// The length of a [`Progress`] on disk.
pub(super) const PROGRESS_BYTES: usize = 5;

pub(super) fn encode_progress(progress: Progress) -> [u8; PROGRESS_BYTES] {
    let [a, b, c, d] = progress.attempts.to_le_bytes();
    [a, b, c, d, u8::from(progress.replayed)]
}

pub(super) fn progress(key: &(u16, u64, u64), record: &[u8]) -> Result<Progress, Error> {
    match *unseal(PENDING_NAME, key, record)? {
        [a, b, c, d, replayed @ (0 | 1)] => Ok(Progress {
            attempts: u32::from_le_bytes([a, b, c, d]),
            replayed: replayed == 1,
        }),
        _ => Err(Error::Corrupt {
            table: PENDING_NAME,
            reason: "it is not a count of attempts".to_owned(),
        }),
    }
}

const PENDING_NAME: &str = "pending";
