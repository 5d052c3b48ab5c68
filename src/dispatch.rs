//! The dispatcher: which delivery is tried next, and what follows from an attempt.
//!
//! # Guarantees
//!
//! - A delivery is tried by one worker at a time, and never again once it was settled, also while
//!   its settlement waits for a commit to share.
//! - In an ordered lane the next delivery is tried after the one before was settled.
//! - What is pending in the store is tried in the end: memory holds the heads of lanes only, and
//!   finds the rest in the store.
//! - Only an attempt that [`Health`] charges counts against an event.
//!
//! The thread of the real process and a simulation call the same steps: [`Dispatcher::claim`],
//! [`Dispatcher::conclude`] and [`Dispatcher::heed`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use log::{info, warn};

mod overlay;

use overlay::Overlay;

use crate::audit::{Action, Entry, Then};
use crate::clock::{Clock, Moment, Timestamp};
use crate::commit::{Change, Notice, Settlement};
use crate::config;
use crate::delivery::{Attempt, DeadLetter, DeadReason, DeliveryId, Outcome, Progress};
use crate::event::{DestinationNo, Lane, Seq};
use crate::health::{self, Ended, Health, Ruling, State};
use crate::lanes::{Head, Lanes, Next, Row};
use crate::retry::{self, RetryPolicy};
use crate::rng::Rng;
use crate::store::{self, Pending, Store};

/// A delivery that is to be tried now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Job {
    /// Which.
    pub delivery: DeliveryId,
    /// How far it has come.
    pub progress: Progress,
}

/// An attempt that ended, and what its event is called.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Concluded {
    /// The attempt.
    pub attempt: Attempt,
    /// The event's name.
    pub name: String,
}

/// What the dispatcher knows of a destination.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DestinationState {
    /// Its number.
    pub number: DestinationNo,
    /// Its name.
    pub name: String,
    /// `up`, `down`, `held` or `paused`.
    pub state: State,
    /// Whether an operator holds it.
    pub held_by_operator: bool,
    /// A sentence: how it is, and if it is not up, why and when it is tried next.
    pub why: String,
    /// Attempts that have not ended.
    pub in_flight: usize,
    /// Lanes with something pending.
    pub lanes: usize,
}

/// Decides for all destinations.
pub struct Dispatcher {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    rng: Rng,
    lines: Vec<Line>,
    /// The destination that is asked first for the next claim, so that they take turns.
    turn: usize,
}

/// One destination.
struct Line {
    number: DestinationNo,
    name: String,
    policy: RetryPolicy,
    health: Health,
    lanes: Lanes,
    /// What was settled and is not on disk yet.
    overlay: Overlay,
    /// When the attempts in flight began.
    began: HashMap<(Lane, Seq), Moment>,
}

impl Dispatcher {
    /// Takes over what is pending in `store` for these destinations.
    pub fn new(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        rng: Rng,
        destinations: &[(DestinationNo, &config::Destination)],
    ) -> Result<Self, store::Error> {
        let announced = Seq(store.counters()?.next_seq.saturating_sub(1));
        let held: BTreeMap<String, bool> = store.metas("held/")?.into_iter().collect();
        let now = clock.moment();
        let mut lines = Vec::with_capacity(destinations.len());
        for (number, destination) in destinations {
            let mut line = Line {
                number: *number,
                name: destination.name.clone(),
                policy: destination.retry,
                health: Health::new(destination.workers, destination.retry),
                lanes: Lanes::new(announced),
                overlay: Overlay::default(),
                began: HashMap::new(),
            };
            for head in store.lane_heads(*number)? {
                line.lanes.arrived(head.id.lane, head.id.seq, head.progress);
            }
            if held.contains_key(&destination.name) {
                let change = line.health.hold(now);
                line.say(change);
            }
            lines.push(line);
        }
        Ok(Self {
            store,
            clock,
            rng,
            lines,
            turn: 0,
        })
    }

    /// The next delivery that may be tried now, if there is one. Its end must be told by
    /// [`Self::conclude`].
    pub fn claim(&mut self) -> Result<Option<Job>, store::Error> {
        let now = self.clock.moment();
        for _ in 0..self.lines.len() {
            let turn = self.turn;
            self.turn = (turn + 1) % self.lines.len();
            let line = &mut self.lines[turn];
            if let Some(job) = line.claim(&self.store, now)? {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// Decides what follows from an attempt: a settlement for the committer, if anything of the
    /// event changed.
    pub fn conclude(&mut self, concluded: Concluded) -> Result<Option<Settlement>, store::Error> {
        let now = self.clock.moment();
        let reading = self.clock.reading();
        let Concluded { attempt, name } = concluded;
        let destination = attempt.delivery.destination;
        let Some(line) = self
            .lines
            .iter_mut()
            .find(|line| line.number == destination)
        else {
            return Ok(None);
        };
        let id = attempt.delivery;
        let ended = Ended {
            seq: id.seq,
            began: line.began.remove(&(id.lane, id.seq)).unwrap_or(now),
            outcome: &attempt.outcome,
            verdict: retry::classify(&attempt.outcome),
            is_last: line.policy.is_exhausted(attempt.progress.attempts + 1),
        };
        let (ruling, change) = line.health.observe(&ended, now, reading, &mut self.rng);
        line.say(change);
        let decided = line.decide(&attempt, ruling, now, &mut self.rng);
        line.read(&self.store, decided.next)?;
        let Some((change, then)) = decided.change else {
            return Ok(None);
        };
        let change = match change {
            Settled::Delivered => Change::Delivered,
            Settled::Retry(progress, to) => Change::Retry { progress, lane: to },
            Settled::Dead(reason) => {
                let at = reading.wall;
                Change::Dead(dead_letter(&attempt, reason, at))
            }
        };
        let action = Action::Attempted {
            destination: line.name.clone(),
            number: attempt.progress.attempts + 1,
            outcome: attempt.outcome.to_string(),
            took_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
            then,
        };
        Ok(Some(Settlement {
            id,
            name,
            change,
            entry: Entry::new(reading, action),
        }))
    }

    /// Takes note of what was committed.
    pub fn heed(&mut self, notice: Notice) -> Result<(), store::Error> {
        let (Notice::Arrived(Pending { id, .. }) | Notice::Settled(id) | Notice::Discarded(id)) =
            notice;
        let Some(line) = self
            .lines
            .iter_mut()
            .find(|line| line.number == id.destination)
        else {
            return Ok(());
        };
        match notice {
            Notice::Settled(id) => line.overlay.flushed(id.lane, id.seq),
            Notice::Discarded(id) => {
                let next = line.lanes.discarded(id.lane, id.seq);
                line.read(&self.store, next)?;
            }
            Notice::Arrived(Pending { id, progress }) => {
                // A replay may have been found by a read before, and even have ended since.
                let is_there = !progress.replayed || line.still_pending(&self.store, id)?;
                if is_there {
                    line.lanes.arrived(id.lane, id.seq, progress);
                }
            }
        }
        Ok(())
    }

    /// An operator holds or releases a destination. Whether there is one of that name.
    pub fn hold(&mut self, name: &str, held: bool) -> bool {
        let now = self.clock.moment();
        let Some(line) = self.lines.iter_mut().find(|line| line.name == name) else {
            return false;
        };
        let change = if held {
            line.health.hold(now)
        } else {
            line.health.release(now)
        };
        line.say(change);
        true
    }

    /// When [`Self::claim`] may find something by time alone.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        let now = self.clock.moment();
        self.lines.iter().filter_map(|line| line.wake_at(now)).min()
    }

    /// How many attempts have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.lines.iter().map(|line| line.lanes.in_flight()).sum()
    }

    /// How each destination is.
    #[must_use]
    pub fn destinations(&self) -> Vec<DestinationState> {
        let now = self.clock.moment();
        let states = self.lines.iter().map(|line| DestinationState {
            number: line.number,
            name: line.name.clone(),
            state: line.health.state(),
            held_by_operator: line.health.held_by_operator().is_some(),
            why: line.health.why(now),
            in_flight: line.lanes.in_flight(),
            lanes: line.lanes.len(),
        });
        states.collect()
    }
}

/// What an attempt means for its delivery.
struct Decided {
    change: Option<(Settled, Then)>,
    next: Option<Next>,
}

enum Settled {
    Delivered,
    Retry(Progress, Lane),
    Dead(DeadReason),
}

impl Line {
    fn claim(&mut self, store: &Store, now: Moment) -> Result<Option<Job>, store::Error> {
        if self.health.allowance(now, self.lanes.in_flight()) == 0 {
            return Ok(None);
        }
        let Some((head, next)) = self.lanes.take(now) else {
            return Ok(None);
        };
        self.read(store, next)?;
        self.began.insert((head.lane, head.seq), now);
        let delivery = DeliveryId {
            destination: self.number,
            lane: head.lane,
            seq: head.seq,
        };
        Ok(Some(Job {
            delivery,
            progress: head.progress,
        }))
    }

    fn decide(&mut self, attempt: &Attempt, ruling: Ruling, now: Moment, rng: &mut Rng) -> Decided {
        let DeliveryId { lane, seq, .. } = attempt.delivery;
        let progress = attempt.progress;
        let charged = Progress {
            attempts: progress.attempts + 1,
            ..progress
        };
        let damaged = matches!(attempt.outcome, Outcome::Damaged(_));
        match ruling {
            Ruling::Spare => {
                let head = Head {
                    lane,
                    seq,
                    progress,
                };
                let next = self.lanes.spare(head);
                Decided { change: None, next }
            }
            Ruling::Delivered => self.leave(lane, seq, Settled::Delivered, Then::Delivered),
            Ruling::Dead if damaged => self.die(lane, seq, DeadReason::Damaged),
            Ruling::Dead => self.die(lane, seq, DeadReason::Rejected),
            Ruling::Charge if self.policy.is_exhausted(charged.attempts) => {
                self.die(lane, seq, DeadReason::Exhausted)
            }
            Ruling::Charge => {
                let pause = self.policy.pause(charged.attempts, rng);
                let (row, next) = self.lanes.back_off(lane, seq, charged, now + pause);
                let to = match row {
                    Row::Stays => lane,
                    Row::MovesTo(alone) => alone,
                    Row::Gone => return Decided { change: None, next },
                };
                self.overlay.retry(lane, seq, to, charged);
                let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                let then = Then::RetryIn { pause_ms };
                let change = Some((Settled::Retry(charged, to), then));
                Decided { change, next }
            }
        }
    }

    fn die(&mut self, lane: Lane, seq: Seq, reason: DeadReason) -> Decided {
        self.leave(lane, seq, Settled::Dead(reason), Then::Dead)
    }

    fn leave(&mut self, lane: Lane, seq: Seq, settled: Settled, then: Then) -> Decided {
        self.overlay.gone(lane, seq);
        Decided {
            next: self.lanes.settled(lane, seq),
            change: Some((settled, then)),
        }
    }

    /// Reads a lane's next head until the lanes have what they need.
    fn read(&mut self, store: &Store, mut next: Option<Next>) -> Result<(), store::Error> {
        while let Some(Next { lane, from, to }) = next {
            let found = self.find(store, lane, from, to)?;
            next = self.lanes.refill(lane, found);
        }
        Ok(())
    }

    /// The first delivery of a lane from `from` to `to` that is pending, settlements that are not
    /// on disk yet included.
    fn find(
        &self,
        store: &Store,
        lane: Lane,
        from: Seq,
        to: Seq,
    ) -> Result<Option<(Seq, Progress)>, store::Error> {
        let mut after = from.0.checked_sub(1).map(Seq);
        while let Some(pending) = store.next_in_lane(self.number, lane, after)? {
            let seq = pending.id.seq;
            if to < seq {
                break;
            }
            if let Some(progress) = self.overlay.look(lane, seq, pending.progress) {
                return Ok(Some((seq, progress)));
            }
            after = Some(seq);
        }
        Ok(None)
    }

    fn still_pending(&self, store: &Store, id: DeliveryId) -> Result<bool, store::Error> {
        if self.began.contains_key(&(id.lane, id.seq)) {
            return Ok(false);
        }
        Ok(self.find(store, id.lane, id.seq, id.seq)?.is_some())
    }

    fn wake_at(&self, now: Moment) -> Option<Moment> {
        let lanes = self.lanes.next_due(now);
        let health = self.health.next_at(now);
        lanes.into_iter().chain(health).min()
    }

    fn say(&self, change: Option<health::Change>) {
        let Some(change) = change else {
            return;
        };
        match change {
            health::Change::Not {
                state: State::Held, ..
            } => warn!("[alert destination-held] {}: {change}", self.name),
            health::Change::Not { .. } => warn!("[destination {}] {change}", self.name),
            _ => info!("[destination {}] {change}", self.name),
        }
    }
}

fn dead_letter(attempt: &Attempt, reason: DeadReason, at: Timestamp) -> DeadLetter {
    let answer = match &attempt.outcome {
        Outcome::Answered(answer) => String::from_utf8_lossy(&answer.head).into_owned(),
        _ => String::new(),
    };
    DeadLetter {
        reason,
        at,
        lane: attempt.delivery.lane,
        attempts: attempt.progress.attempts + 1,
        outcome: attempt.outcome.to_string(),
        answer,
    }
}

#[cfg(test)]
mod tests;
