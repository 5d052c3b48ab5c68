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
//!   old ones. But for the last [`MOST_TRAILS`] that were given up for others, fewer in a small
//!   store: it must be possible to see what was lost.
//! - [`Pruner::has_nothing`] is true only once everything that has ended is gone.
//!
//! It walks through all events, oldest first, a few at a time, then rests and begins again. While
//! somebody waits for room it does not rest, and looks first at what has just ended.

use std::collections::{BTreeSet, VecDeque};
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

/// How many events are looked at in one step while somebody waits for room.
const LOOK_IN_HASTE: usize = 1_024;

/// How many events that have just ended are kept in mind.
const MOST_ENDED: usize = 4_096;

/// How many events that were given up are kept while the store is nearly full.
const MOST_TRAILS: usize = 1_000;

/// A store of so many bytes keeps one of them: at most a thirtieth of it is taken by them.
const BYTES_FOR_A_TRAIL: u64 = 32 * 1024;

/// Where the walk is.
#[derive(Debug)]
pub(super) struct Pruner {
    retention: Retention,
    next: Seq,
    rest_until: Moment,
    nearly_full: bool,
    /// Given up, the last of them.
    given_up: BTreeSet<Seq>,
    /// How many those are at most.
    most_trails: usize,
    /// Those that must leave for them.
    displaced: Vec<Seq>,
    /// What may have ended since the walk was there.
    ended: VecDeque<Seq>,
    /// Whether somebody waits for room.
    is_wanted: bool,
    walk: Walk,
}

/// What is known from walking, while the store is nearly full.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Walk {
    /// Not all events have been looked at.
    Begun,
    /// This walk removed something.
    Fruitful,
    /// All events have been looked at, and nothing could be removed.
    Barren,
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
    /// Begins a walk at `now` through a store that may take `max_bytes`.
    pub(super) fn new(retention: Retention, max_bytes: u64, now: Moment) -> Self {
        let trails = usize::try_from(max_bytes / BYTES_FOR_A_TRAIL).unwrap_or(MOST_TRAILS);
        Self {
            retention,
            next: Seq(0),
            rest_until: now,
            nearly_full: false,
            given_up: BTreeSet::new(),
            most_trails: trails.min(MOST_TRAILS),
            displaced: Vec::new(),
            ended: VecDeque::new(),
            is_wanted: false,
            walk: Walk::Begun,
        }
    }

    /// An event was given up, and what is left of it is worth a look for some time.
    pub(super) fn spare(&mut self, seq: Seq) {
        self.given_up.insert(seq);
        if self.most_trails < self.given_up.len() {
            self.displaced.extend(self.given_up.pop_first());
        }
    }

    /// How many events can be spared before each further one displaces an older one.
    pub(super) fn trails_left(&self) -> usize {
        self.most_trails - self.given_up.len()
    }

    /// An event may have ended.
    pub(super) fn ended(&mut self, seq: Seq) {
        if self.given_up.contains(&seq) {
            return;
        }
        if self.ended.len() < MOST_ENDED {
            self.ended.push_back(seq);
        } else {
            self.walk = Walk::Begun;
        }
    }

    /// Somebody waits for room.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.is_wanted = true;
        if !self.has_nothing() {
            self.rest_until = now;
        }
    }

    /// Whether nothing is left that has ended, as far as it may go.
    pub(super) fn has_nothing(&self) -> bool {
        self.walk == Walk::Barren && self.ended.is_empty()
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
            self.walk = Walk::Begun;
        }
        if !nearly_full {
            self.is_wanted = false;
            self.ended.clear();
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
        expired.events.append(&mut self.displaced);
        if now < self.rest_until {
            return Ok(expired);
        }
        if !(reading.certain || self.nearly_full) {
            self.rest_until = now + SHORT_REST;
            return Ok(expired);
        }
        let before = expired.events.len();
        let in_haste = self.nearly_full && self.is_wanted;
        let mut events = self.just_ended(store)?;
        if events.is_empty() {
            let look = if in_haste { LOOK_IN_HASTE } else { LOOK };
            events = store.events_from(self.next, look + 2 * incoming)?;
            let Some((last, _)) = events.last() else {
                self.end_walk(now);
                return Ok(expired);
            };
            self.next = Seq(last.0 + 1);
        }
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
        let has_found = before < expired.events.len();
        if has_found {
            self.walk = Walk::Fruitful;
        }
        // In haste only while that makes room, or may make it for somebody.
        if !(self.nearly_full && (has_found || in_haste)) {
            self.rest_until = now + PACE;
        }
        Ok(expired)
    }

    /// Those of what may have ended since that are still there, while the store is nearly full.
    fn just_ended(&mut self, store: &Store) -> Result<Vec<(Seq, Option<Event>)>, Error> {
        let mut events = Vec::new();
        while self.nearly_full
            && events.len() < LOOK
            && let Some(seq) = self.ended.pop_front()
        {
            match store.event(seq) {
                Err(Error::Corrupt { .. }) => {}
                event => events.extend(event?.map(|event| (seq, Some(event)))),
            }
        }
        Ok(events)
    }

    /// All events have been looked at.
    fn end_walk(&mut self, now: Moment) {
        self.next = Seq(0);
        let was_fruitful = self.walk == Walk::Fruitful;
        let rest = match self.nearly_full {
            true if was_fruitful && self.is_wanted => Duration::ZERO,
            true => SHORT_REST,
            false => REST,
        };
        self.rest_until = now + rest;
        self.walk = if self.nearly_full && !was_fruitful {
            Walk::Barren
        } else {
            Walk::Begun
        };
        self.is_wanted = false;
    }

    /// Decides what of an event that has ended goes.
    fn expire(
        &mut self,
        store: &Store,
        seq: Seq,
        event: &Event,
        reading: Reading,
        expired: &mut Expired,
    ) -> Result<(), Error> {
        if self.nearly_full && !self.is_spared(store, seq)? {
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

impl Pruner {
    /// Whether it is one of the last that were given up. A restart forgets which these are, and
    /// their trails say so.
    fn is_spared(&mut self, store: &Store, seq: Seq) -> Result<bool, Error> {
        if self.given_up.contains(&seq) {
            return Ok(true);
        }
        let is_older = self.given_up.first().is_some_and(|first| seq < *first);
        if self.most_trails == 0 || (is_older && self.trails_left() == 0) {
            return Ok(false);
        }
        let trail = match store.trail(seq) {
            Err(Error::Corrupt { .. }) => return Ok(false),
            trail => trail?,
        };
        let is_given_up = trail
            .iter()
            .any(|entry| matches!(entry.action, Action::Shed { .. }));
        if is_given_up {
            self.spare(seq);
        }
        Ok(is_given_up)
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
