//! Room for what matters more: `when_full = "shed-lowest-priority"`.
//!
//! # Guarantees
//!
//! - Only for a new event that the quota has no room for, and only events of a lower priority than
//!   its own are given up: the lowest that is there first, and of those the oldest.
//! - Only what is pending is given up. A dead letter, an event in quarantine and what has ended
//!   stay. If what may be given up does not make enough room, nothing is, and the new event is
//!   refused.
//! - Each delivery that is given up is an entry of the audit trail, a line of the log and counted.
//!   The body goes; record and trail of the last that were given up stay, see [`super::prune`].
//! - A step looks at [`LOOK`] events at most, so devices don't wait. A new event that comes before
//!   the lowest are known is refused, and its sender comes again. Memory does not grow with the
//!   backlog.
//!
//! # Limits
//!
//! - At most [`MOST_FOR_ONE`] events are given up for one. A picture of some megabytes is refused
//!   while only small events could make room for it.
//!
//! It walks through the events, oldest first, and remembers for each priority how far. What waits
//! again behind that, after a replay, is found by another walk.

use std::collections::VecDeque;
use std::time::Duration;

use log::{info, warn};

use super::Notice;
use super::operate::Said;
use crate::audit::{Action, Entry};
use crate::clock::{Moment, Reading};
use crate::delivery::DeliveryId;
use crate::event::{DestinationNo, Event, Lane, Seq};
use crate::store::{Error, Store, Tables, footprint};

/// How many events are looked at in one step.
const LOOK: usize = 2_048;

/// How many of them are read at once.
const AT_ONCE: usize = 256;

/// The most events that are given up for one: whoever needs more is refused. Each is looked at
/// when it is found and once more when it is given up.
const MOST_FOR_ONE: usize = LOOK / 2;

/// How soon it looks again from the start when it found nothing.
const AGAIN: Duration = Duration::from_secs(60);

/// How long nothing must have been given up for the alert to be over.
const OVER_AFTER: Duration = Duration::from_secs(60);

/// Priorities are 0 to 9.
const PRIORITIES: usize = 10;

/// Finds what can be given up.
#[derive(Debug, Default)]
pub(super) struct Shedder {
    /// What was found and is still there, as far as anybody knows, by priority.
    found: [VecDeque<Victim>; PRIORITIES],
    /// From where on events of that priority have not been looked at.
    next: [Seq; PRIORITIES],
    /// The first event of that priority among those before `seen`.
    first: [Option<Seq>; PRIORITIES],
    /// Every event before it has been seen.
    seen: Seq,
    /// How many more events may be looked at in this step.
    left: usize,
    /// How many records of what is given up stay before each takes the place of an older one.
    trails_left: usize,
    /// Every destination that something ever waited for, and the names of those that have one.
    destinations: Vec<DestinationNo>,
    names: Vec<(String, DestinationNo)>,
    /// When it began to look from the start.
    looked: Option<Moment>,
    now: Moment,
    /// How many were given up since it began, and when last.
    alert: Option<(u64, Moment)>,
}

/// An event that is to be given up.
#[derive(Clone, Debug)]
pub(super) struct Victim {
    /// Its number.
    pub(super) seq: Seq,
    name: String,
    priority: u8,
    /// What waits, and where it would have gone.
    deliveries: Vec<(DeliveryId, Option<String>)>,
    /// What it makes room for, in bytes.
    pub(super) frees: u64,
    /// How much of that is its record.
    record: u64,
}

impl Shedder {
    /// A new step begins at `now`. Ends the alert when it is over. The records of
    /// `trails_left` events that are given up stay; each further one displaces an older one, so
    /// that all of it makes room.
    pub(super) fn begin(&mut self, now: Moment, trails_left: usize) {
        self.left = LOOK;
        self.now = now;
        self.trails_left = trails_left;
        if let Some((count, last)) = self.alert
            && last + OVER_AFTER <= now
        {
            info!("[alert shedding] over: {count} events were given up for others");
            self.alert = None;
        }
    }

    /// Events that make room for `wanted` bytes for an event of `priority`; none if there are not
    /// enough, or not found yet. What `is_settling` says is as good as ended.
    pub(super) fn choose(
        &mut self,
        store: &Store,
        priority: u8,
        wanted: u64,
        is_settling: impl Fn(Seq) -> bool,
    ) -> Result<Vec<Victim>, Error> {
        self.destinations = store.counters()?.backlog.into_keys().collect();
        self.names = store.metas("destination/")?;
        let (mut chosen, mut settling) = (Vec::new(), Vec::new());
        let mut frees = 0;
        for lower in 0..priority {
            while frees < wanted && chosen.len() < MOST_FOR_ONE {
                let Some(mut victim) = self.next_of(store, lower)? else {
                    break;
                };
                if is_settling(victim.seq) {
                    settling.push(victim);
                } else {
                    if chosen.len() < self.trails_left {
                        victim.frees -= victim.record;
                    }
                    frees += victim.frees;
                    chosen.push(victim);
                }
            }
            // There may be more of this priority, so none of a higher one is given up yet.
            if self.left == 0 {
                break;
            }
        }
        if frees < wanted {
            settling.append(&mut chosen);
            settling.sort_by_key(|victim: &Victim| victim.seq);
            if 0 < self.left && self.looked.is_none_or(|looked| looked + AGAIN <= self.now) {
                self.looked = Some(self.now);
                self.next = [Seq(0); PRIORITIES];
                self.found = Default::default();
                return Ok(Vec::new());
            }
        }
        for victim in settling.into_iter().rev() {
            self.found[usize::from(victim.priority)].push_front(victim);
        }
        Ok(chosen)
    }

    /// The oldest event of that priority that still waits.
    fn next_of(&mut self, store: &Store, priority: u8) -> Result<Option<Victim>, Error> {
        let index = usize::from(priority);
        loop {
            while 0 < self.left
                && let Some(found) = self.found[index].pop_front()
            {
                self.left -= 1;
                // It may have been delivered since, or be damaged.
                let event = match store.event(found.seq) {
                    Err(Error::Corrupt { .. }) => None,
                    event => event?,
                };
                if let Some(event) = event
                    && let Some(victim) = self.victim(store, found.seq, &event)?
                {
                    return Ok(Some(victim));
                }
            }
            if !self.look(store, index)? {
                return Ok(None);
            }
        }
    }

    /// Looks at some more events for those of one priority; whether there were any to look at.
    fn look(&mut self, store: &Store, index: usize) -> Result<bool, Error> {
        let from = self.next[index].max(self.first[index].unwrap_or(self.seen));
        let events = store.events_from(from, self.left.min(AT_ONCE))?;
        let Some((last, _)) = events.last() else {
            return Ok(false);
        };
        let after = Seq(last.0 + 1);
        self.left -= events.len();
        for (seq, event) in &events {
            let Some(event) = event else {
                continue;
            };
            let of = usize::from(event.priority).min(PRIORITIES - 1);
            if self.seen <= *seq {
                self.first[of].get_or_insert(*seq);
            }
            if of == index
                && let Some(victim) = self.victim(store, *seq, event)?
            {
                self.found[index].push_back(victim);
            }
        }
        self.seen = self.seen.max(after);
        self.next[index] = after;
        Ok(true)
    }

    /// What can be given up of an event, if it waits and nothing of it must stay.
    fn victim(&self, store: &Store, seq: Seq, event: &Event) -> Result<Option<Victim>, Error> {
        let lanes = event.to.iter().map(|address| address.lane);
        let lanes: Vec<Lane> = lanes.chain([Lane::alone(seq)]).collect();
        let Some(deliveries) = store.pending_of(seq, &self.destinations, &lanes)? else {
            return Ok(None);
        };
        let name = |id: DeliveryId| {
            let mut names = self.names.iter();
            let (name, _) = names.find(|(_, number)| *number == id.destination)?;
            Some(name.clone())
        };
        let record = footprint(event, &[]);
        Ok((!deliveries.is_empty()).then(|| Victim {
            seq,
            name: event.name(seq),
            priority: event.priority,
            deliveries: deliveries.into_iter().map(|id| (id, name(id))).collect(),
            frees: event.kept + record,
            record,
        }))
    }

    /// Notes that these are given up.
    pub(super) fn note(&mut self, victims: &[Victim], now: Moment) {
        let count = victims.len() as u64;
        self.trails_left = self.trails_left.saturating_sub(victims.len());
        match &mut self.alert {
            _ if count == 0 => {}
            Some((so_far, last)) => (*so_far, *last) = (*so_far + count, now),
            None => {
                warn!(
                    "[alert shedding] the store is full: the oldest events of the lowest priority \
                     are given up for those of a higher one; give [store] max_size more room, or \
                     see why the upstream takes nothing"
                );
                self.alert = Some((count, now));
            }
        }
    }
}

impl Victim {
    /// Gives it up for good.
    pub(super) fn remove_from(
        &self,
        tables: &mut Tables<'_>,
        now: Reading,
        notices: &mut Vec<Notice>,
        said: &mut Vec<Said>,
    ) -> Result<(), Error> {
        for (id, destination) in &self.deliveries {
            tables.remove_pending(*id)?;
            let action = Action::Shed {
                destination: destination.clone(),
                priority: self.priority,
            };
            let entry = Entry::new(now, action);
            tables.put_entry(self.seq, &entry)?;
            notices.push(Notice::Discarded(*id));
            said.push(Said {
                name: self.name.clone(),
                seq: self.seq,
                action: entry.action,
            });
        }
        tables.remove_body(self.seq)
    }
}
