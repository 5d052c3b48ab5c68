//! The dispatcher: which delivery is tried next, and what follows from an attempt.
//!
//! # Guarantees
//!
//! - A delivery is tried by one worker at a time, and never again once it was settled, also while
//!   its settlement waits for a commit to share.
//! - In an ordered lane the next delivery is tried after the one before was settled, but for the
//!   one that shows whose fault it is when that one failed too often: see [`suspects`].
//! - What is pending in the store is tried in the end: memory holds the heads of lanes only, and
//!   finds the rest in the store.
//! - Nothing is tried faster or at another hour than the destination's [`Pace`] allows, probes
//!   neither.
//! - Only an attempt that [`Health`] charges counts against an event, and one that failed too often
//!   becomes a dead letter only once the destination has taken another event since: see
//!   [`suspects`].
//!
//! The thread of the real process and a simulation call the same steps: [`Dispatcher::claim`],
//! [`Dispatcher::conclude`] and [`Dispatcher::heed`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use log::{info, warn};

mod by_hand;
mod overlay;
mod pacing;
mod suspects;

use overlay::Overlay;
use suspects::Suspects;

use crate::audit::{Action, Entry, Then};
use crate::clock::{Clock, Moment, Reading, Timestamp};
use crate::commit::{Change, Notice, Settlement};
use crate::config;
use crate::delivery::{Attempt, DeadLetter, DeadReason, DeliveryId, Outcome, Progress, Verdict};
use crate::event::{DestinationNo, Lane, Seq};
use crate::health::{self, Ended, Health, Ruling, State};
use crate::lanes::{Head, Lanes, Next, Row};
use crate::pace::Pace;
use crate::retry::{Overrides, RetryPolicy};
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
    /// Whether it is outside the hours in which it is sent to.
    pub is_closed: bool,
    /// A sentence: how it is, and if it is not up or not sent to now, why and when it is tried
    /// next.
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
    overrides: Overrides,
    pace: Pace,
    health: Health,
    lanes: Lanes,
    /// What was settled and is not on disk yet.
    overlay: Overlay,
    /// When the attempts in flight began.
    began: HashMap<(Lane, Seq), Moment>,
    suspects: Suspects,
}

impl Dispatcher {
    /// Takes over what is pending in `store` for these destinations.
    pub fn new(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        mut rng: Rng,
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
                overrides: destination.classify.clone(),
                pace: Pace::new(&destination.pace),
                health: Health::new(destination.workers, destination.retry),
                lanes: Lanes::new(announced),
                overlay: Overlay::default(),
                began: HashMap::new(),
                suspects: Suspects::default(),
            };
            let heads = store.lane_heads(*number)?;
            if !heads.is_empty() {
                line.health = line.health.with_backlog(now, &mut rng);
            }
            for head in heads {
                line.lanes.arrived(head.id.lane, head.id.seq, head.progress);
            }
            if held.contains_key(&destination.name) {
                let change = line.health.hold(now);
                line.say(change, None);
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
            if let Some(job) = line.claim(&self.store, self.clock.as_ref(), now)? {
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
            verdict: line.overrides.classify(&attempt.outcome),
            is_last: line.is_last(&attempt) && line.suspects.is_proven(id.seq),
        };
        let is_late = ended.began < line.health.since();
        let can_be_followed = line.can_be_followed();
        let (ruling, change) = line.health.observe(&ended, now, reading, &mut self.rng);
        line.say(change, Some(&name));
        // A witness that fails too is no more to blame than the suspect.
        let is_witness = line.suspects.is_aside(id.lane);
        let is_doubtful = line.is_last(&attempt) && !line.suspects.is_proven(id.seq);
        let ruling = match ruling {
            Ruling::Charge if is_witness || (is_doubtful && !can_be_followed) => Ruling::Spare,
            ruling => ruling,
        };
        // A probe that nobody answered may have arrived, so nothing may overtake it.
        let is_answered_probe = ruling == Ruling::Spare
            && ended.verdict == Verdict::Retry
            && matches!(attempt.outcome, Outcome::Answered(_))
            && !is_witness
            && !is_late
            && can_be_followed;
        let decided = if is_answered_probe && line.note_probe(&attempt) {
            line.suspect(id.lane, id.seq)
        } else {
            line.decide(&attempt, ruling, now, &mut self.rng)
        };
        line.read(&self.store, decided.next)?;
        if ruling == Ruling::Delivered {
            line.suspects.delivered();
        }
        if line.clear_up(&attempt, ruling, decided.is_suspect, now) {
            let change = line.health.suspect(&attempt.outcome, now, &mut self.rng);
            line.say(change, Some(&name));
        }
        let settle = |settled| line.settlement(&attempt, settled, name, reading);
        Ok(decided.change.map(settle))
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
                line.suspects.forget(id.lane, id.seq);
                let next = line.lanes.discarded(id.lane, id.seq);
                line.read(&self.store, next)?;
                line.take_back_if_alone(id.lane);
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

    /// When [`Self::claim`] may find something by time alone.
    #[must_use]
    pub fn wake_at(&self) -> Option<Moment> {
        let now = self.clock.moment();
        let clock = self.clock.as_ref();
        let dues = self
            .lines
            .iter()
            .filter_map(|line| line.wake_at(clock, now));
        dues.min()
    }

    /// How many attempts have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.lines.iter().map(|line| line.lanes.in_flight()).sum()
    }

    /// How each destination is.
    #[must_use]
    pub fn destinations(&self) -> Vec<DestinationState> {
        let (now, clock) = (self.clock.moment(), self.clock.as_ref());
        let states = self.lines.iter().map(|line| DestinationState {
            number: line.number,
            name: line.name.clone(),
            state: line.health.state(),
            held_by_operator: line.health.held_by_operator().is_some(),
            why: line.why(clock, now),
            is_closed: line.is_closed(clock),
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
    /// Whether it failed too often, and nobody knows whether it is the event or the destination.
    is_suspect: bool,
}

impl Decided {
    fn nothing(next: Option<Next>) -> Self {
        Self {
            change: None,
            next,
            is_suspect: false,
        }
    }
}

enum Settled {
    Delivered,
    Retry(Progress, Lane),
    Dead(DeadReason),
}

impl Line {
    fn claim(
        &mut self,
        store: &Store,
        clock: &dyn Clock,
        now: Moment,
    ) -> Result<Option<Job>, store::Error> {
        if self.health.allowance(now, self.lanes.in_flight()) == 0
            || self.pace.wait(clock).is_some()
        {
            return Ok(None);
        }
        let Some((head, next)) = self.lanes.take(now) else {
            return Ok(None);
        };
        self.read(store, next)?;
        self.pace.spend(self.length(store, head.seq)?, now);
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
                Decided::nothing(self.lanes.spare(head))
            }
            Ruling::Delivered => self.leave(lane, seq, Settled::Delivered, Then::Delivered),
            // Given up meanwhile, and nothing of it is left to be sent.
            Ruling::Dead if damaged && self.lanes.is_discarded(lane, seq) => {
                Decided::nothing(self.lanes.settled(lane, seq))
            }
            Ruling::Dead if damaged => self.die(lane, seq, DeadReason::Damaged),
            Ruling::Dead if matches!(attempt.outcome, Outcome::Invalid(_)) => {
                self.die(lane, seq, DeadReason::Invalid)
            }
            Ruling::Dead => self.die(lane, seq, DeadReason::Rejected),
            Ruling::Charge if self.is_last(attempt) => {
                if self.suspects.is_proven(seq) {
                    return self.die(lane, seq, DeadReason::Exhausted);
                }
                self.suspect(lane, seq)
            }
            Ruling::Charge => {
                self.suspects.failed(seq);
                let pause = self.policy.pause(charged.attempts, rng);
                let (row, next) = self.lanes.back_off(lane, seq, charged, now + pause);
                let to = match row {
                    Row::Stays => lane,
                    Row::MovesTo(alone) => alone,
                    Row::Gone => return Decided::nothing(next),
                };
                self.overlay.retry(lane, seq, to, charged);
                let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                let then = Then::RetryIn { pause_ms };
                Decided {
                    change: Some((Settled::Retry(charged, to), then)),
                    ..Decided::nothing(next)
                }
            }
        }
    }

    /// It leaves its lane for now, so that the next one shows whose fault it is.
    fn suspect(&mut self, lane: Lane, seq: Seq) -> Decided {
        self.suspects.failed(seq);
        Decided {
            is_suspect: !self.lanes.is_discarded(lane, seq),
            ..Decided::nothing(self.lanes.settled(lane, seq))
        }
    }

    /// Whether another event can be tried at once after this one, as a suspect needs it: an hour
    /// later it would arrive before it without having shown anything.
    fn can_be_followed(&self) -> bool {
        self.health.held_by_operator().is_none() && self.health.state() != State::Paused
    }

    /// Counts a probe with this event, which got an answer. Whether it was one too many for others
    /// to wait behind it.
    fn note_probe(&mut self, attempt: &Attempt) -> bool {
        let DeliveryId { lane, seq, .. } = attempt.delivery;
        let failures = self.suspects.probed(seq) + attempt.progress.attempts;
        lane.is_ordered() && self.policy.is_exhausted(failures)
    }

    /// What the committer is told.
    fn settlement(
        &self,
        attempt: &Attempt,
        (settled, then): (Settled, Then),
        name: String,
        reading: Reading,
    ) -> Settlement {
        let change = match settled {
            Settled::Delivered => Change::Delivered,
            Settled::Retry(progress, to) => Change::Retry { progress, lane: to },
            Settled::Dead(reason) => Change::Dead(dead_letter(attempt, reason, reading.wall)),
        };
        let action = Action::Attempted {
            destination: self.name.clone(),
            number: attempt.progress.attempts + 1,
            outcome: attempt.outcome.to_string(),
            took_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
            then,
        };
        Settlement {
            id: attempt.delivery,
            name,
            change,
            entry: Entry::new(reading, action),
        }
    }

    fn die(&mut self, lane: Lane, seq: Seq, reason: DeadReason) -> Decided {
        self.leave(lane, seq, Settled::Dead(reason), Then::Dead)
    }

    fn leave(&mut self, lane: Lane, seq: Seq, settled: Settled, then: Then) -> Decided {
        self.overlay.gone(lane, seq);
        self.suspects.forget(lane, seq);
        Decided {
            change: Some((settled, then)),
            ..Decided::nothing(self.lanes.settled(lane, seq))
        }
    }

    /// Whether the event becomes a dead letter if this attempt counts.
    fn is_last(&self, attempt: &Attempt) -> bool {
        self.policy.is_exhausted(attempt.progress.attempts + 1)
    }

    /// Sees to the suspect of a lane after an attempt in it: the one that just became it, or the
    /// one that stands aside until this attempt shows whose fault it is.
    ///
    /// - The next one was delivered: the suspect is tried once more, and is dead if it fails again.
    /// - The next one failed too, or there is none: it is the destination, which is returned. The
    ///   suspect is the head of its lane again, and nobody is charged while it is down.
    fn clear_up(
        &mut self,
        attempt: &Attempt,
        ruling: Ruling,
        is_suspect: bool,
        now: Moment,
    ) -> bool {
        let DeliveryId { lane, seq, .. } = attempt.delivery;
        if is_suspect {
            self.suspects.stand_aside(lane, seq, attempt.progress);
            if self.lanes.has(lane) {
                // At once: an outage that ended between the two would put them out of order.
                self.lanes.hurry(lane);
                self.health.probe_at_once(now);
                return false;
            }
        } else if !self.suspects.is_aside(lane) {
            return false;
        }
        let failed = is_suspect || matches!(ruling, Ruling::Charge | Ruling::Spare);
        if failed || ruling == Ruling::Delivered || !self.lanes.has(lane) {
            self.take_back(lane);
        }
        failed
    }

    fn take_back(&mut self, lane: Lane) {
        if let Some((seq, progress)) = self.suspects.take_back(lane) {
            self.lanes.arrived(lane, seq, progress);
        }
    }

    fn take_back_if_alone(&mut self, lane: Lane) {
        if !self.lanes.has(lane) {
            self.take_back(lane);
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
        // In flight, it was discarded and replayed meanwhile: the lanes must hear of it.
        if self.began.contains_key(&(id.lane, id.seq)) {
            return Ok(true);
        }
        Ok(self.find(store, id.lane, id.seq, id.seq)?.is_some())
    }

    /// Logs a change, and which event's attempt brought it about.
    fn say(&self, change: Option<health::Change>, event: Option<&str>) {
        let (Some(change), to) = (change, &self.name) else {
            return;
        };
        let event = event.map(|event| format!(" (event {event})"));
        let event = event.unwrap_or_default();
        match change {
            health::Change::Not {
                state: State::Held, ..
            } => warn!("[alert destination-held] {to}: {change}{event}"),
            health::Change::Not { .. } => warn!("[destination {to}] {change}{event}"),
            _ => info!("[destination {to}] {change}"),
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
        attempts: attempt.progress.attempts + u32::from(reason == DeadReason::Exhausted),
        outcome: attempt.outcome.to_string(),
        answer,
    }
}

#[cfg(test)]
mod tests;
