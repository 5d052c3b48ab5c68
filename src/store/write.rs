//! Changing the store: what one transaction may do.

use redb::{ReadableTable, Table, WriteTransaction};
use serde::Serialize;

use super::rescue::Kept;
use super::schema::{
    AUDIT, BODIES, DEAD, EVENTS, META, PENDING, QUARANTINE, RECENT, SEAL_BYTES, Sealed, seal,
};
use super::{Counters, Error, parts, read};
use crate::audit::Entry;
use crate::delivery::{DeadLetter, DeliveryId, Progress};
use crate::event::{DestinationNo, Event, Seq};

/// What an event costs besides its ids, headers, body, audit trail and dead letters, in bytes: the
/// rest of its record, its rows in the other tables, and their share of redb's pages.
const BESIDE_BYTES: u64 = 1024;

/// The tables, open for one transaction. Each method keeps the counters right.
pub struct Tables<'t> {
    events: Table<'t, u64, Sealed>,
    bodies: Table<'t, (u64, u32), Sealed>,
    pending: Table<'t, (u16, u64, u64), Sealed>,
    dead: Table<'t, (u16, u64), Sealed>,
    quarantine: Table<'t, u64, Sealed>,
    recent: Table<'t, u64, Sealed>,
    audit: Table<'t, (u64, u64), Sealed>,
    meta: Table<'t, &'static str, Sealed>,
    /// Counted along with every change, written at its end.
    pub counters: Counters,
    counters_before: Counters,
}

impl<'t> Tables<'t> {
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, Error> {
        let meta = transaction.open_table(META)?;
        let counters: Counters = match meta.get("counters")? {
            Some(record) => read::json("meta", &"counters", record.value())?,
            None => Counters::default(),
        };
        Ok(Self {
            events: transaction.open_table(EVENTS)?,
            bodies: transaction.open_table(BODIES)?,
            pending: transaction.open_table(PENDING)?,
            dead: transaction.open_table(DEAD)?,
            quarantine: transaction.open_table(QUARANTINE)?,
            recent: transaction.open_table(RECENT)?,
            audit: transaction.open_table(AUDIT)?,
            meta,
            counters_before: counters.clone(),
            counters,
        })
    }

    /// Adds an event with its body and gives it its number.
    pub fn put_event(&mut self, event: &Event, body: &[u8]) -> Result<Seq, Error> {
        let seq = self.counters.next_seq;
        self.counters.next_seq += 1;
        self.events
            .insert(seq, seal(&seq, &json(event)).as_slice())?;
        for (number, part) in (0_u32..).zip(parts::cut(body)) {
            let key = (seq, number);
            self.bodies.insert(key, seal(&key, part).as_slice())?;
        }
        let bytes = footprint(event, body);
        if event.quarantine.is_some() {
            self.quarantine.insert(seq, seal(&seq, &[]).as_slice())?;
            self.counters.quarantined_bytes += bytes;
        }
        self.counters.events += 1;
        self.counters.stored_bytes += bytes;
        Ok(Seq(seq))
    }

    /// Adds or replaces a pending delivery.
    pub fn put_pending(&mut self, id: DeliveryId, progress: Progress) -> Result<(), Error> {
        let key = read::pending_key(id);
        let record = seal(&key, &read::encode_progress(progress));
        if self.pending.insert(key, record.as_slice())?.is_none() {
            self.counters.backlog_of(key.0).pending += 1;
        }
        Ok(())
    }

    /// Removes a pending delivery; whether there was one.
    pub fn remove_pending(&mut self, id: DeliveryId) -> Result<bool, Error> {
        let key = read::pending_key(id);
        let was_there = self.pending.remove(key)?.is_some();
        if was_there {
            self.counters.backlog_of(key.0).pending -= 1;
        }
        Ok(was_there)
    }

    /// How far a pending delivery has come, if it is one.
    pub fn pending(&self, id: DeliveryId) -> Result<Option<Progress>, Error> {
        let key = read::pending_key(id);
        let record = self.pending.get(key)?;
        Ok(record.map(|record| read::progress(&key, record.value()).unwrap_or_default()))
    }

    /// Adds a dead letter.
    pub fn put_dead(
        &mut self,
        destination: DestinationNo,
        seq: Seq,
        letter: &DeadLetter,
    ) -> Result<(), Error> {
        let key = (destination.0, seq.0);
        let record = seal(&key, &json(letter));
        if self.dead.insert(key, record.as_slice())?.is_none() {
            self.counters.backlog_of(key.0).dead += 1;
            self.counters.stored_bytes += record.len() as u64;
        }
        Ok(())
    }

    /// A dead letter.
    pub fn dead_letter(
        &self,
        destination: DestinationNo,
        seq: Seq,
    ) -> Result<Option<DeadLetter>, Error> {
        let key = (destination.0, seq.0);
        let record = self.dead.get(key)?;
        record
            .map(|record| read::json("dead", &key, record.value()))
            .transpose()
    }

    /// Removes a dead letter, whether or not its record is whole; whether there was one.
    pub fn remove_dead(&mut self, destination: DestinationNo, seq: Seq) -> Result<bool, Error> {
        let Some(record) = self.dead.remove((destination.0, seq.0))? else {
            return Ok(false);
        };
        let bytes = record.value().len() as u64;
        drop(record);
        self.counters.backlog_of(destination.0).dead -= 1;
        self.counters.stored_bytes = self.counters.stored_bytes.saturating_sub(bytes);
        Ok(true)
    }

    /// Takes an event out of quarantine; whether it was there.
    pub fn remove_quarantined(&mut self, seq: Seq, event: &Event) -> Result<bool, Error> {
        let was_there = self.quarantine.remove(seq.0)?.is_some();
        if was_there {
            // Nothing of it has expired while it was there.
            let bytes = footprint(event, &[]).saturating_add(event.kept);
            let held = &mut self.counters.quarantined_bytes;
            *held = held.saturating_sub(bytes);
        }
        Ok(was_there)
    }

    /// Counts `entry` and adds it to the audit trail of an event, if the event is still there.
    pub fn put_entry(&mut self, seq: Seq, entry: &Entry) -> Result<(), Error> {
        self.counters.totals.count(&entry.action);
        if self.events.get(seq.0)?.is_none() {
            return Ok(());
        }
        let key = (seq.0, self.counters.next_entry);
        self.counters.next_entry += 1;
        let record = seal(&key, &json(entry));
        self.audit.insert(key, record.as_slice())?;
        self.counters.stored_bytes += record.len() as u64;
        Ok(())
    }

    /// Whether anything is stored of an event.
    pub fn has_event(&self, seq: Seq) -> Result<bool, Error> {
        Ok(self.events.get(seq.0)?.is_some())
    }

    /// The audit trail of an event, oldest first, without what its own record says.
    pub fn trail(&self, seq: Seq) -> Result<Vec<Entry>, Error> {
        read::trail(&self.audit, seq)
    }

    /// Remembers under which key an event can be recognised again, and forgets the oldest keys
    /// in small steps, so that at most about `window` are kept.
    pub fn put_recent(&mut self, seq: Seq, key: &[u8], window: u64) -> Result<(), Error> {
        self.recent.insert(seq.0, seal(&seq.0, key).as_slice())?;
        let slack = window / 64 + 1;
        if window + slack < redb::ReadableTableMetadata::len(&self.recent)? {
            for _ in 0..slack {
                self.recent.pop_first()?;
            }
        }
        Ok(())
    }

    /// The record of an event.
    pub fn event(&self, seq: Seq) -> Result<Option<Event>, Error> {
        let record = self.events.get(seq.0)?;
        record
            .map(|record| read::json("events", &seq.0, record.value()))
            .transpose()
    }

    /// Removes the kept bytes of an event's body; its record stays and says that there was one.
    pub fn remove_body(&mut self, seq: Seq) -> Result<(), Error> {
        let mut bytes = 0;
        let range = (seq.0, 0)..=(seq.0, u32::MAX);
        for row in self.bodies.extract_from_if(range, |_, _| true)? {
            bytes += row?.1.value().len().saturating_sub(SEAL_BYTES) as u64;
        }
        let stored = &mut self.counters.stored_bytes;
        *stored = stored.saturating_sub(bytes);
        Ok(())
    }

    /// Removes an event that has ended, with its body and its audit trail.
    pub fn remove_event(&mut self, seq: Seq) -> Result<(), Error> {
        self.remove_body(seq)?;
        let Some(record) = self.events.remove(seq.0)? else {
            return Ok(());
        };
        let event: Result<Event, Error> = read::json("events", &seq.0, record.value());
        drop(record);
        let mut bytes = event.map_or(BESIDE_BYTES, |event| footprint(&event, &[]));
        let range = (seq.0, 0)..=(seq.0, u64::MAX);
        for row in self.audit.extract_from_if(range, |_, _| true)? {
            bytes += row?.1.value().len() as u64;
        }
        self.counters.stored_bytes = self.counters.stored_bytes.saturating_sub(bytes);
        self.counters.events = self.counters.events.saturating_sub(1);
        Ok(())
    }

    /// Whether anything of an event's body is kept.
    pub fn has_body(&self, seq: Seq) -> Result<bool, Error> {
        let mut rows = self.bodies.range((seq.0, 0)..=(seq.0, u32::MAX))?;
        Ok(rows.next().transpose()?.is_some())
    }

    /// Puts an event of another store where it was there.
    pub(super) fn restore(&mut self, kept: &Kept) -> Result<(), Error> {
        let seq = kept.seq;
        self.events
            .insert(seq, seal(&seq, &kept.record).as_slice())?;
        let mut bytes = footprint(&kept.event, &[]);
        for (number, part) in (0_u32..).zip(&kept.parts) {
            let key = (seq, number);
            self.bodies.insert(key, seal(&key, part).as_slice())?;
            bytes += part.len() as u64;
        }
        if kept.quarantined {
            let held = footprint(&kept.event, &[]).saturating_add(kept.event.kept);
            self.counters.quarantined_bytes += held;
            self.quarantine.insert(seq, seal(&seq, &[]).as_slice())?;
        }
        for (key, progress) in &kept.pending {
            self.pending.insert(*key, seal(key, progress).as_slice())?;
            self.counters.backlog_of(key.0).pending += 1;
        }
        for (key, letter) in &kept.dead {
            let record = seal(key, letter);
            self.dead.insert(*key, record.as_slice())?;
            self.counters.backlog_of(key.0).dead += 1;
            bytes += record.len() as u64;
        }
        for (key, entry) in &kept.trail {
            let record = seal(key, entry);
            self.audit.insert(*key, record.as_slice())?;
            bytes += record.len() as u64;
            self.counters.next_entry = self.counters.next_entry.max(key.1.saturating_add(1));
        }
        self.counters.events += 1;
        self.counters.stored_bytes += bytes;
        self.counters.next_seq = self.counters.next_seq.max(seq.saturating_add(1));
        Ok(())
    }

    /// Puts what an event is recognised by where it was in another store.
    pub(super) fn restore_recent(&mut self, seq: u64, key: &[u8]) -> Result<(), Error> {
        self.recent.insert(seq, seal(&seq, key).as_slice())?;
        Ok(())
    }

    /// Sets a single value to what it was in another store.
    pub(super) fn restore_meta(&mut self, name: &str, content: &[u8]) -> Result<(), Error> {
        self.meta.insert(name, seal(&name, content).as_slice())?;
        Ok(())
    }

    /// Sets a single value.
    pub fn put_meta(&mut self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        self.meta
            .insert(name, seal(&name, &json(value)).as_slice())?;
        Ok(())
    }

    /// Removes a single value.
    pub fn remove_meta(&mut self, name: &str) -> Result<(), Error> {
        self.meta.remove(name)?;
        Ok(())
    }

    pub(super) fn put_counters(&mut self) -> Result<(), Error> {
        if self.counters == self.counters_before {
            return Ok(());
        }
        let counters = self.counters.clone();
        self.put_meta("counters", &counters)
    }
}

/// What an event counts towards the quota: its record, its body and what lies beside them.
#[must_use]
pub fn footprint(event: &Event, body: &[u8]) -> u64 {
    let headers = event
        .headers
        .iter()
        .map(|header| header.name.len() + header.value.len() + 8);
    let ids = [&event.event_id, &event.device].into_iter().flatten();
    let texts = ids.map(String::len).sum::<usize>() + headers.sum::<usize>();
    (event.target.len() + texts + body.len()) as u64 + BESIDE_BYTES
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("our records have string keys and no failing serializer")
}
