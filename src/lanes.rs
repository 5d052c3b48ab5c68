//! The lanes of one destination: which delivery is next.
//!
//! # Guarantees
//!
//! - In an ordered lane one delivery is in flight at a time, and each is the lowest that is
//!   pending: a replay that comes back goes before those after it.
//! - No delivery is taken again before what it was taken for has ended, and none is forgotten: it
//!   is a head, or behind one, or a [`Next`] that the caller has yet to read.
//! - Lanes take turns: between two turns of a lane, every other that had joined by the first has
//!   one. A lane that is new, was settled or spared, or whose pause has ended joins at the back;
//!   only [`Lanes::hurry`] puts one in front.
//! - Memory holds the heads only, however many are behind them. A lane with a delivery pending
//!   takes 100 bytes, 120 while its head backs off (measured with a million lanes on 64 bits).
//! - Each operation takes time logarithmic in the number of lanes.
//!
//! # What the caller owes
//!
//! - A lane in these calls is always the one of the delivery's row in the store.
//! - Each [`Next`] is read and handed to [`Lanes::refill`], until that gives none.
//! - What it reads already shows everything it has told these lanes: settled deliveries gone, moved
//!   ones moved, attempts counted, even while that waits for a commit to share.
//! - New deliveries are announced by [`Lanes::arrived`] after their commit, in order of seq. Before
//!   a replay is announced, the caller looks whether it is still pending: a [`Next`] may have found
//!   it earlier. Nor does it announce what was discarded meanwhile.
//!
//! ```text
//! while let Some(next) = wanted {
//!     let found = the first pending delivery of next.lane from next.from to next.to;
//!     wanted = lanes.refill(next.lane, found);
//! }
//! ```
//!
//! # Lanes without order
//!
//! Several of their deliveries are in flight at once. One that fails there must not stop the rest:
//!
//! - After a counted failure it moves to a lane of its own ([`Lane::alone`]), here and, as
//!   [`Row::MovesTo`] tells the caller, in the store.
//! - A spared one waits for its turn by itself in memory, but its row stays where it is. After a
//!   restart it is found in its old lane again.
//!
//! This knows nothing of the destination's health; see `health` for how many may be taken.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Moment;
use crate::delivery::Progress;
use crate::event::{Lane, Seq};

/// A delivery that was taken: the caller makes one attempt, then tells its end by exactly one of
/// [`Lanes::settled`], [`Lanes::back_off`] and [`Lanes::spare`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// The lane of its row in the store.
    pub lane: Lane,
    /// Which event.
    pub seq: Seq,
    /// How far it had come.
    pub progress: Progress,
}

/// A part of a lane that the caller must look for the lane's next head: the lowest pending
/// delivery of `lane` from `from` to `to`, both included, goes to [`Lanes::refill`], or that there
/// is none.
///
/// What lies after `to` has not been announced yet. It is left for its announcement, which would
/// otherwise pass for a replay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a lane whose next head is not read stands still for ever"]
pub struct Next {
    /// Which lane.
    pub lane: Lane,
    /// The first seq to look at.
    pub from: Seq,
    /// The last seq to look at; may be before `from`, then there is none.
    pub to: Seq,
}

/// What becomes of the row of a delivery that backs off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Row {
    /// It stays in its lane; only its attempts change.
    Stays,
    /// It moves to this lane: what it does from now on it does there.
    MovesTo(Lane),
    /// It was discarded meanwhile: there is nothing to write.
    Gone,
}

/// The lanes of one destination.
#[derive(Clone, Debug)]
pub struct Lanes {
    slots: BTreeMap<Lane, Slot>,
    /// Lanes whose head is due, by turn.
    ready: BTreeMap<u64, Lane>,
    /// Lanes whose head backs off, by when it is due.
    waiting: BTreeSet<(Moment, Lane)>,
    /// Lanes that backed off when somebody said that they shall not: due now, whatever they say.
    hurried: BTreeSet<(Moment, Lane)>,
    /// What was taken and has not ended, by the lane of its row; whether it was discarded since.
    in_flight: BTreeMap<(Lane, Seq), bool>,
    /// Slots of spared deliveries of lanes without order: the lane of their row.
    homes: BTreeMap<Lane, Lane>,
    /// The last turn that was given.
    turn: u64,
    /// The highest seq that was announced.
    announced: Seq,
}

/// A lane's head.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Which event; while the head is being read, where from.
    seq: Seq,
    progress: Progress,
    stage: Stage,
}

/// What a lane's head does.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It is due, and this is its turn.
    Ready(u64),
    /// It backs off until then.
    Waiting(Moment),
    /// It was taken. The next head is to be read from there: before it, if a replay came back.
    InFlight(Seq),
    /// The caller reads it. Meanwhile this one came or went; [`NOTHING`] if none, the lowest if
    /// several did.
    Reading(Seq),
}

/// After every seq.
const NOTHING: Seq = Seq(u64::MAX);

/// Turns before it are for lanes in a hurry.
const FIRST_TURN: u64 = 1 << 32;

/// How many lanes whose pause has ended join the turns when one is taken: more than one, so that
/// they all do, and few, so that a take is never long when a million have become due.
const PROMOTED: usize = 2;

impl Lanes {
    /// Lanes without deliveries. `announced` is the last seq of the store when the caller reads
    /// the first pending delivery of each lane, to pass it to [`Lanes::arrived`].
    #[must_use]
    pub fn new(announced: Seq) -> Self {
        Self {
            slots: BTreeMap::new(),
            ready: BTreeMap::new(),
            waiting: BTreeSet::new(),
            hurried: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            homes: BTreeMap::new(),
            turn: FIRST_TURN,
            announced,
        }
    }

    /// A delivery is pending: a new one, a replay, or at the start the first one of its lane.
    ///
    /// A lane without one starts with it. Elsewhere it is the head if it comes before the head, and
    /// otherwise is found in the store later. It is due at once, even if the head was backing off.
    pub fn arrived(&mut self, lane: Lane, seq: Seq, progress: Progress) {
        self.announced = self.announced.max(seq);
        if let Some(discarded) = self.in_flight.get_mut(&(lane, seq)) {
            *discarded = false;
            return;
        }
        if self.stands_alone(lane, seq) {
            return;
        }
        match self.slots.get_mut(&lane) {
            None => self.line_up(lane, seq, progress),
            Some(slot) => match &mut slot.stage {
                Stage::InFlight(from) | Stage::Reading(from) => *from = seq.min(*from),
                Stage::Ready(_) if seq < slot.seq => {
                    slot.seq = seq;
                    slot.progress = progress;
                }
                Stage::Waiting(due) if seq < slot.seq => {
                    let due = *due;
                    self.wait_no_more(due, lane);
                    self.line_up(lane, seq, progress);
                }
                Stage::Ready(_) | Stage::Waiting(_) => {}
            },
        }
    }

    /// Takes the next delivery that is due. Of a lane without order the next head is to be read at
    /// once.
    #[must_use = "what was taken must be tried, and its end told"]
    pub fn take(&mut self, now: Moment) -> Option<(Head, Option<Next>)> {
        for _ in 0..PROMOTED {
            let is_due = |waiting: &BTreeSet<(Moment, Lane)>| {
                waiting.first().is_some_and(|(due, _)| *due <= now)
            };
            let next = match self.hurried.pop_first() {
                None if is_due(&self.waiting) => self.waiting.pop_first(),
                next => next,
            };
            let Some((_, lane)) = next else { break };
            self.give_turn(lane);
        }
        let (_, key) = self.ready.pop_first()?;
        let slot = self.slots.get_mut(&key)?;
        let head = Head {
            lane: self.homes.get(&key).copied().unwrap_or(key),
            seq: slot.seq,
            progress: slot.progress,
        };
        self.in_flight.insert((head.lane, head.seq), false);
        if key.is_ordered() {
            slot.stage = Stage::InFlight(after(head.seq));
            return Some((head, None));
        }
        Some((head, Some(self.read_from(key, after(head.seq)))))
    }

    /// What was read for a [`Next`]: the lane's new head, at the back of the turns, or that the
    /// lane has none, which ends it. Gives what must be read instead if this is no longer right.
    pub fn refill(&mut self, lane: Lane, found: Option<(Seq, Progress)>) -> Option<Next> {
        let Some(Stage::Reading(changed)) = self.slots.get(&lane).map(|slot| slot.stage) else {
            return None;
        };
        let seq = found.map_or(NOTHING, |(seq, _)| seq);
        if changed != NOTHING && changed <= seq {
            return Some(self.read_from(lane, changed));
        }
        match found {
            None => {
                self.slots.remove(&lane);
                None
            }
            // A replay went back in a lane without order, so reading meets those on their way.
            Some(_) if self.is_out(lane, seq) => Some(self.read_from(lane, after(seq))),
            Some((_, progress)) => {
                self.line_up(lane, seq, progress);
                None
            }
        }
    }

    /// A delivery that was taken is no longer pending: delivered, dead or discarded.
    pub fn settled(&mut self, lane: Lane, seq: Seq) -> Option<Next> {
        self.in_flight.remove(&(lane, seq))?;
        self.leave(lane, seq)
    }

    /// A delivery that was taken has failed and waits until `due` with its new `progress`.
    ///
    /// If one that comes before it has come back meanwhile, that one is next and this one is due as
    /// soon as it is the head again.
    #[must_use = "the row must follow"]
    pub fn back_off(
        &mut self,
        lane: Lane,
        seq: Seq,
        progress: Progress,
        due: Moment,
    ) -> (Row, Option<Next>) {
        match self.in_flight.remove(&(lane, seq)) {
            None => return (Row::Gone, None),
            Some(true) => return (Row::Gone, self.leave(lane, seq)),
            Some(false) => {}
        }
        let (key, row) = if lane.is_ordered() {
            if let Some(next) = self.overtaken(lane, seq) {
                return (Row::Stays, Some(next));
            }
            (lane, Row::Stays)
        } else {
            let alone = Lane::alone(seq);
            self.homes.remove(&alone);
            self.went(lane, seq);
            (alone, Row::MovesTo(alone))
        };
        let slot = Slot {
            seq,
            progress,
            stage: Stage::Waiting(due),
        };
        self.slots.insert(key, slot);
        self.waiting.insert((due, key));
        (row, None)
    }

    /// A delivery that was taken is to be tried again as it was, when it is its turn.
    pub fn spare(&mut self, head: Head) -> Option<Next> {
        let Head {
            lane,
            seq,
            progress,
        } = head;
        if self.in_flight.remove(&(lane, seq))? {
            return self.leave(lane, seq);
        }
        if lane.is_ordered() {
            let overtaken = self.overtaken(lane, seq);
            if overtaken.is_none() {
                self.line_up(lane, seq, progress);
            }
            return overtaken;
        }
        let alone = Lane::alone(seq);
        self.homes.insert(alone, lane);
        self.line_up(alone, seq, progress);
        None
    }

    /// A delivery that was pending is gone: discarded by an operator, or given up for another.
    ///
    /// If it is in flight it ends as always, but there will be nothing to write
    /// ([`Row::Gone`]). If it is behind its lane's head there is nothing to do.
    pub fn discarded(&mut self, lane: Lane, seq: Seq) -> Option<Next> {
        if let Some(discarded) = self.in_flight.get_mut(&(lane, seq)) {
            *discarded = true;
            return None;
        }
        // One that failed or was spared waits alone, also while the move of its row is on its way.
        let alone = Some(Lane::alone(seq))
            .filter(|alone| !lane.is_ordered() && self.slots.contains_key(alone));
        let key = alone.unwrap_or(lane);
        let slot = self.slots.get(&key)?;
        match slot.stage {
            Stage::Reading(_) => {
                self.went(key, seq);
                return None;
            }
            _ if slot.seq != seq => return None,
            Stage::Ready(turn) => _ = self.ready.remove(&turn),
            Stage::Waiting(due) => self.wait_no_more(due, key),
            Stage::InFlight(_) => return None,
        }
        if alone.is_some() {
            self.slots.remove(&key);
            self.homes.remove(&key);
            self.went(lane, seq);
            return None;
        }
        Some(self.read_from(key, after(seq)))
    }

    /// The first moment after `now` at which a delivery becomes due that is not due yet. Those that
    /// are due already wait for a [`Lanes::take`], not for time.
    #[must_use]
    pub fn next_due(&self, now: Moment) -> Option<Moment> {
        let last = (now, Lane(u64::MAX));
        let later = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
        self.waiting.range(later).next().map(|(due, _)| *due)
    }

    /// Whether a delivery that was taken is [gone](Self::discarded) since.
    #[must_use]
    pub fn is_discarded(&self, lane: Lane, seq: Seq) -> bool {
        self.in_flight.get(&(lane, seq)) == Some(&true)
    }

    /// How many deliveries were taken and have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether this lane has a head in memory or one that is being read or tried.
    #[must_use]
    pub fn has(&self, lane: Lane) -> bool {
        self.slots.contains_key(&lane)
    }

    /// If this lane's head is due, it is the next to be taken.
    pub fn hurry(&mut self, lane: Lane) {
        let Some(slot) = self.slots.get_mut(&lane) else {
            return;
        };
        if let Stage::Ready(turn) = slot.stage
            && let Some((first, _)) = self.ready.first_key_value()
            && *first < turn
        {
            let before = first.saturating_sub(1);
            self.ready.remove(&turn);
            self.ready.insert(before, lane);
            slot.stage = Stage::Ready(before);
        }
    }

    /// Every head that backs off is due now. They join the turns as those do whose pause has ended.
    pub fn hurry_all(&mut self) {
        if self.hurried.is_empty() {
            self.hurried = std::mem::take(&mut self.waiting);
        } else {
            self.hurried.append(&mut self.waiting);
        }
    }

    /// How many lanes have a head in memory or one that is being read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing is pending and nothing in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.in_flight.is_empty()
    }

    /// Makes a delivery its lane's head, due now, at the back of the turns.
    fn line_up(&mut self, key: Lane, seq: Seq, progress: Progress) {
        let stage = Stage::Reading(NOTHING);
        let slot = Slot {
            seq,
            progress,
            stage,
        };
        self.slots.insert(key, slot);
        self.give_turn(key);
    }

    fn wait_no_more(&mut self, due: Moment, key: Lane) {
        let _ = self.waiting.remove(&(due, key)) || self.hurried.remove(&(due, key));
    }

    fn give_turn(&mut self, key: Lane) {
        if let Some(slot) = self.slots.get_mut(&key) {
            self.turn += 1;
            slot.stage = Stage::Ready(self.turn);
            self.ready.insert(self.turn, key);
        }
    }

    /// A delivery that is in no set any more leaves its slot.
    fn leave(&mut self, lane: Lane, seq: Seq) -> Option<Next> {
        if lane.is_ordered() {
            let slot = self.slots.get(&lane)?;
            let Stage::InFlight(from) = slot.stage else {
                return None;
            };
            return Some(self.read_from(lane, from));
        }
        let alone = Lane::alone(seq);
        if self.homes.remove(&alone).is_some() {
            self.slots.remove(&alone);
        }
        self.went(lane, seq);
        None
    }

    /// A row of the lane is gone: if the lane is being read, that may be what was found.
    fn went(&mut self, lane: Lane, seq: Seq) {
        if let Some(slot) = self.slots.get_mut(&lane)
            && let Stage::Reading(changed) = &mut slot.stage
            && slot.seq <= seq
        {
            *changed = seq.min(*changed);
        }
    }

    /// If one that comes before `seq` has come back while `seq` was in flight, that one is next.
    fn overtaken(&mut self, lane: Lane, seq: Seq) -> Option<Next> {
        match self.slots.get(&lane)?.stage {
            Stage::InFlight(from) if from <= seq => Some(self.read_from(lane, from)),
            _ => None,
        }
    }

    fn read_from(&mut self, lane: Lane, from: Seq) -> Next {
        if let Some(slot) = self.slots.get_mut(&lane) {
            slot.seq = from;
            slot.stage = Stage::Reading(NOTHING);
        }
        Next {
            lane,
            from,
            to: self.announced,
        }
    }

    /// Whether a delivery of this lane is on its way or waits by itself.
    fn is_out(&self, lane: Lane, seq: Seq) -> bool {
        self.in_flight.contains_key(&(lane, seq)) || self.stands_alone(lane, seq)
    }

    /// Whether a delivery of a lane without order has a slot of its own.
    fn stands_alone(&self, lane: Lane, seq: Seq) -> bool {
        let slot = |alone| self.slots.get(&alone);
        // While that is being read its delivery is gone, and may have come back to its old lane.
        let is_there = |slot: &Slot| !matches!(slot.stage, Stage::Reading(_));
        !lane.is_ordered() && slot(Lane::alone(seq)).is_some_and(is_there)
    }
}

fn after(seq: Seq) -> Seq {
    Seq(seq.0.saturating_add(1))
}

#[cfg(test)]
mod tests;
