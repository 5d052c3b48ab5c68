//! Retention: what has ended makes room, a little with each commit.
//!
//! # Guarantees
//!
//! - Only events that have ended go: delivered or discarded everywhere. What is pending, a dead
//!   letter or in quarantine stays for ever.
//! - By age, nothing goes unless both its end and the present are known from a synchronised
//!   clock. The body goes first; record and audit trail follow later.
//! - When the store or its disk is nearly full, the oldest that have ended go whatever their age,
//!   and whatever the clock says: room for new events comes before the convenience of looking at
//!   old ones. But for the last [`MOST_TRAILS`] that were given up for others: it must be possible
//!   to see what was lost.
//!
//! It walks through all events, oldest first, a few at a time, then rests and begins again.

use std::collections::VecDeque;
use std::time::Duration;

use super::Retention;
use crate::audit::{Action, Entry};
use crate::clock::{Moment, Reading, Timestamp};
use crate::event::{DestinationNo, Event, Lane, Seq};
use crate::fault;
use crate::store::{Error, Store, Tables};

/// How many events are looked at in one step, besides two for each event that comes in.
const LOOK: usize = 64;

/// How long to rest between two steps, so that a walk costs an idle box next to nothing.
const PACE: Duration = Duration::from_millis(100);

/// How long to rest after a walk through all events. Ages are in hours, so minutes are fine.
const REST: Duration = Duration::from_secs(600);

/// How long to rest while the store is nearly full and there was nothing to remove, or while
/// the clock is not known to be right.
const SHORT_REST: Duration = Duration::from_secs(5);

/// The share of the quota from which ended events go whatever their age.
const NEARLY_FULL_PERCENT: u64 = 80;

/// How many events that were given up are kept while the store is nearly full.
const MOST_TRAILS: usize = 1_000;

/// Where the walk is.
#[derive(Debug)]
pub(super) struct Pruner {
    retention: Retention,
    next: Seq,
    rest_until: Moment,
    nearly_full: bool,
    /// Given up last, oldest first.
    given_up: VecDeque<Seq>,
}

/// What one step removes.
#[derive(Debug, Default)]
pub(super) struct Expired {
    /// Events whose body goes.
    bodies: Vec<Seq>,
    /// Events of which everything goes.
    events: Vec<Seq>,
}

impl Expired {
    /// Whether there is nothing to remove.
    pub(super) fn is_empty(&self) -> bool {
        self.bodies.is_empty() && self.events.is_empty()
    }

    /// Removes it.
    pub(super) fn remove_from(&self, tables: &mut Tables<'_>) -> Result<(), Error> {
        if !self.is_empty() {
            fault::point("prune");
        }
        for seq in &self.bodies {
            tables.remove_body(*seq)?;
        }
        for seq in &self.events {
            tables.remove_event(*seq)?;
        }
        Ok(())
    }
}

impl Pruner {
    /// Begins a walk at `now`.
    pub(super) fn new(retention: Retention, now: Moment) -> Self {
        Self {
            retention,
            next: Seq(0),
            rest_until: now,
            nearly_full: false,
            given_up: VecDeque::new(),
        }
    }

    /// An event was given up, and what is left of it is worth a look for some time.
    pub(super) fn spare(&mut self, seq: Seq) {
        self.given_up.push_back(seq);
        if MOST_TRAILS < self.given_up.len() {
            self.given_up.pop_front();
        }
    }

    /// Notes how full the store is, and whether its disk is.
    pub(super) fn note_fill(
        &mut self,
        disk_is_full: bool,
        stored_bytes: u64,
        max_bytes: u64,
        now: Moment,
    ) {
        let nearly_full = disk_is_full || max_bytes / 100 * NEARLY_FULL_PERCENT < stored_bytes;
        if nearly_full && !self.nearly_full {
            self.next = Seq(0);
            self.rest_until = now;
        }
        self.nearly_full = nearly_full;
    }

    /// When the next step is due.
    pub(super) fn due(&self) -> Moment {
        self.rest_until
    }

    /// Takes some steps of the walk. Changes nothing on disk.
    pub(super) fn walk(
        &mut self,
        store: &Store,
        incoming: usize,
        now: Moment,
        reading: Reading,
    ) -> Result<Expired, Error> {
        let mut expired = Expired::default();
        if now < self.rest_until {
            return Ok(expired);
        }
        if !(reading.certain || self.nearly_full) {
            self.rest_until = now + SHORT_REST;
            return Ok(expired);
        }
        let events = store.events_from(self.next, LOOK + 2 * incoming)?;
        let Some((last, _)) = events.last() else {
            self.next = Seq(0);
            self.rest_until = now + if self.nearly_full { SHORT_REST } else { REST };
            return Ok(expired);
        };
        self.next = Seq(last.0 + 1);
        // Every destination that something ever waited for is counted there.
        let backlog = store.counters()?.backlog;
        let destinations: Vec<DestinationNo> = backlog.into_keys().collect();
        for (seq, event) in &events {
            // A damaged record can't say where it goes, so it stays for whoever mends the store.
            let Some(event) = event else {
                continue;
            };
            let lanes: Vec<Lane> = event.to.iter().map(|address| address.lane).collect();
            if !store.is_waiting(*seq, &destinations, &lanes)? {
                self.expire(store, *seq, event, reading, &mut expired)?;
            }
        }
        // In haste only while that makes room.
        if expired.is_empty() || !self.nearly_full {
            self.rest_until = now + PACE;
        }
        Ok(expired)
    }

    /// Decides what of an event that has ended goes.
    fn expire(
        &self,
        store: &Store,
        seq: Seq,
        event: &Event,
        reading: Reading,
        expired: &mut Expired,
    ) -> Result<(), Error> {
        if self.nearly_full && !self.given_up.contains(&seq) {
            expired.events.push(seq);
            return Ok(());
        }
        if !reading.certain {
            return Ok(());
        }
        let Some(age) = age(store, seq, event, reading)? else {
            return Ok(());
        };
        if self.retention.keep_audit.max(self.retention.keep_delivered) <= age {
            expired.events.push(seq);
        } else if self.retention.keep_delivered <= age && store.has_body(seq)? {
            expired.bodies.push(seq);
        }
        Ok(())
    }
}

/// How long ago an event ended, if that is known.
fn age(store: &Store, seq: Seq, event: &Event, now: Reading) -> Result<Option<Duration>, Error> {
    let trail = match store.trail(seq) {
        // A damaged trail can't say when, so the event stays.
        Err(Error::Corrupt { .. }) => return Ok(None),
        trail => trail?,
    };
    let ends = |entry: &&Entry| {
        matches!(
            entry.action,
            Action::Attempted { .. } | Action::Discarded { .. } | Action::Shed { .. }
        )
    };
    let ended: Option<Timestamp> = match trail.iter().rev().find(ends) {
        Some(entry) => (!entry.uncertain).then_some(entry.at),
        None => event.received.certain.then_some(event.received.wall),
    };
    Ok(ended.map(|ended| now.wall.since(ended)))
}
