//! The health of one destination: how many deliveries may be started now, and what an attempt
//! that ended means for its delivery once the others are looked at too.
//!
//! # Guarantees
//!
//! - An outage costs no event its attempts: at most [`SEVERAL`] − 1 events are charged once
//!   before answers of 5xx and timeouts count as an outage, and none when the destination can't be
//!   reached. An event that fails alone, while others arrive, is charged each time.
//! - A destination that is not up is tried for ever, by one probe at a time.
//! - A fleet of gateways that lost a destination at one instant does not come back in step: the
//!   first probe, those of what is held, and the steps of the slow start are spread by each
//!   gateway's own chance, and so is the first attempt of one that starts with a backlog.
//! - One outage is one change: of the attempts that were under way when it began, only the first
//!   to end counts. One that ends well after all brings the destination up.
//! - A run of [`BREAKER`] dead letters stops at one less: the last is kept pending.
//! - Nothing here asks for the time or for chance; both come in.
//!
//! It does not count what is in flight, keep lanes or know an event's attempts: the dispatcher
//! does, and turns a [`Ruling::Charge`] too many into a dead letter
//! ([`RetryPolicy::is_exhausted`]). A hold by an operator is not stored here.
//!
//! # States
//!
//! An attempt is *late* if it began before its end could say something about the present state:
//! before the first probe was due, or before the destination came up. What ends in → `state`
//! restarts the slow start or the time to the next probe.
//!
//! *The window* is how many may be in flight: see [`ramp`].
//!
//! | attempt | up | down | held | paused |
//! |---|---|---|---|---|
//! | delivered | Delivered, window × 2 | Delivered → up | Delivered → up | Delivered → up |
//! | delivered, late | Delivered, window × 2 | Delivered → up | Delivered → up | Delivered |
//! | dead | Dead | Dead → up | Dead → up | Dead → up |
//! | dead, late | Dead | Dead | Dead | Dead |
//! | dead, the twentieth | Spare → held | Spare → held | Spare → held | Spare → held |
//! | retry | Charge, window ÷ 2 | Spare → down | Spare → down | Charge → up |
//! | retry, the third event | Spare → down | Spare → down | Spare → down | Spare → down |
//! | retry, the third probe | | Charge → up | Charge → up | |
//! | pause | Spare → paused | Spare → paused | Spare → paused | Spare → paused |
//! | hold | Spare → held | Spare → held | Spare → held | Spare → held |
//! | down, the third fall | Charge, window ÷ 2 | | | |
//! | down | Spare → down | Spare → down | Spare → down | Spare → down |
//! | retry, pause, hold or down, late | Spare | Spare | Spare | Spare |
//! | its record is damaged | Dead | Dead | Dead | Dead |
//! | it breaks its schema | Dead | Dead | Dead | Dead |
//!
//! *The third event*: of [`SEVERAL`] that failed so with no success between. *The third probe*: of
//! [`SEVERAL`] in a row that failed so, but met fewer events, so only those are to blame.
//! *The twentieth*: of [`BREAKER`] events judged dead, or that failed too often, with none
//! delivered between; from then on every such event stays pending, until one is delivered or an
//! operator says release.
//!
//! *The third fall*: of [`SEVERAL`] in a row that the same event brought about, while the
//! destination took others in between. The event is charged and nothing falls.
//!
//! A late success does not end a pause: it was taken before the destination asked for one.
//! An operator's hold lies on top: the states go on below it, but nothing may be started.

use std::time::Duration;

mod ramp;
mod words;

use ramp::Ramp;
use words::next_words;

use crate::audit::Pause;
use crate::clock::{Moment, Reading};
use crate::delivery::{Outcome, Verdict};
use crate::event::Seq;
use crate::retry::{self, RetryPolicy};
use crate::rng::Rng;

/// When deliveries of so many different events have failed with no success between, it is the
/// destination and not the events.
pub const SEVERAL: usize = 3;

/// When so many different events in a row are judged dead with none delivered between, it is the
/// destination: a bad deployment upstream must not make dead letters of the whole backlog.
pub const BREAKER: usize = 20;

/// How often a destination is tried whose configuration looks wrong, give or take the jitter.
pub const HELD_PROBE: Duration = Duration::from_secs(5 * 60);

/// The longest pause a destination can ask for. Whoever says more is asked again after this.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// The longest that a step of the slow start waits after an outage.
pub const LONGEST_STEP: Duration = Duration::from_secs(5);

/// What a destination's answers say about it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// It takes events.
    Up,
    /// It can't be reached, or fails whatever is sent.
    Down,
    /// It is there but won't have our events: our configuration of it is wrong, or it is.
    Held,
    /// It asked for a pause.
    Paused,
}

/// What follows for the delivery that an attempt was made for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ruling {
    /// It arrived: settle it.
    Delivered,
    /// This event will never be taken: make it a dead letter, without counting an attempt.
    Dead,
    /// Count one attempt. Then, if the policy is exhausted, it is a dead letter; else its lane
    /// backs off.
    Charge,
    /// Not its fault: count nothing. Its lane is due again as soon as the destination allows, at
    /// the back of the turn order, so that each probe tries another lane.
    Spare,
}

/// An attempt that ended, as far as health is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Which event.
    pub seq: Seq,
    /// When the attempt began: the `now` of the [`Health::allowance`] it was started under.
    pub began: Moment,
    /// What came of it.
    pub outcome: &'a Outcome,
    /// What that means: by [`retry::classify`], or as the destination's configuration says.
    pub verdict: Verdict,
    /// Whether the event becomes a dead letter if this attempt counts.
    pub is_last: bool,
}

/// A change of state, for the log and the alerts: prints as what follows `[destination <name>] `.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// It takes events again.
    Up {
        /// How long it had not.
        after: Duration,
    },
    /// It stopped taking events.
    Not {
        /// What it is instead.
        state: State,
        /// Why, in words.
        reason: String,
        /// How long until it is tried.
        next_in: Duration,
    },
    /// An operator stopped it.
    HeldByOperator,
    /// An operator let it go on.
    ReleasedByOperator,
    /// An operator wants to know now.
    FlushedByOperator,
}

/// The health of one destination.
#[derive(Clone, Debug)]
pub struct Health {
    policy: RetryPolicy,
    state: State,
    /// How many may be in flight while up.
    ramp: Ramp,
    /// Nothing is started before while up.
    starts: Moment,
    /// Since when it is up, or since when it is not.
    since: Moment,
    /// When the next probe is due; not used while up.
    next: Moment,
    /// An attempt that began before is late.
    fresh_from: Moment,
    /// Failed probes while down, or pauses, since it was last up; the first failure included.
    failures: u32,
    /// Why it is not up.
    reason: String,
    /// Events that failed since the last success or since it was found down, fewer than
    /// [`SEVERAL`].
    failing: Vec<Seq>,
    /// Probes in a row that got an answer to retry, but met fewer than [`SEVERAL`] events.
    few: usize,
    /// Events that became dead letters since the last success, or would have; at most
    /// [`BREAKER`].
    refused: Vec<Seq>,
    /// Whether it is up only because nobody knows better: it has taken nothing since it was down.
    is_doubtful: bool,
    /// The event that brought it down last, and how often in a row it has.
    breaker: Option<(Seq, usize)>,
    /// Since when an operator holds it.
    held_by_operator: Option<Moment>,
}

impl Health {
    /// A destination nothing is known of: up, with a window of 1 that grows to `workers` (at least
    /// 1), so that a restart with a large backlog starts slowly.
    #[must_use]
    pub fn new(workers: usize, policy: RetryPolicy) -> Self {
        Self {
            policy,
            state: State::Up,
            ramp: Ramp::new(workers),
            starts: Moment::START,
            since: Moment::START,
            next: Moment::START,
            fresh_from: Moment::START,
            failures: 0,
            reason: String::new(),
            failing: Vec::new(),
            few: 0,
            refused: Vec::new(),
            is_doubtful: false,
            breaker: None,
            held_by_operator: None,
        }
    }

    /// A gateway starts at `now` and finds a backlog. After a power cut all of a region do, so the
    /// first attempt waits for about the policy's `first`, each as its own chance will have it.
    #[must_use]
    pub fn with_backlog(mut self, now: Moment, rng: &mut Rng) -> Self {
        self.starts = now + self.policy.first_pause(rng);
        self
    }

    /// How many more deliveries may be started at `now`, when `in_flight` have not ended.
    ///
    /// Up: as many as the window has room for. Otherwise one probe, when it is due and nothing is
    /// in flight. None while an operator holds it.
    #[must_use]
    pub fn allowance(&self, now: Moment, in_flight: usize) -> usize {
        match self.state {
            _ if self.held_by_operator.is_some() => 0,
            State::Up if now < self.starts => 0,
            State::Up => self.ramp.width(now).saturating_sub(in_flight),
            State::Down | State::Held | State::Paused => {
                usize::from(self.next <= now && in_flight == 0)
            }
        }
    }

    /// The moment after `now` at which [`Health::allowance`] grows by time alone. `None` if only
    /// an attempt that ends or an operator can make it grow.
    #[must_use]
    pub fn next_at(&self, now: Moment) -> Option<Moment> {
        let next = match self.state {
            _ if self.held_by_operator.is_some() => None,
            State::Up if now < self.starts => Some(self.starts),
            State::Up => self.ramp.next(),
            State::Down | State::Held | State::Paused => Some(self.next),
        };
        next.filter(|next| now < *next)
    }

    /// Takes note of an attempt that ended at `now`: what follows for its delivery, and what
    /// changed for the destination.
    ///
    /// To be called once for each attempt, in the order in which they end.
    #[must_use = "the ruling says what to do with the delivery"]
    pub fn observe(
        &mut self,
        ended: &Ended<'_>,
        now: Moment,
        reading: Reading,
        rng: &mut Rng,
    ) -> (Ruling, Option<Change>) {
        let (state, since) = (self.shown(), self.since);
        let ruling = self.follow(ended, now, reading, rng);
        let change = (state != self.shown()).then(|| match self.shown() {
            State::Up => Change::Up {
                after: now.since(since),
            },
            state => Change::Not {
                state,
                reason: self.reason.clone(),
                next_in: self.next.since(now),
            },
        });
        (ruling, change)
    }

    /// Notes that it must be the destination and not the event, from what the caller knows of the
    /// order of events: it is down until something is delivered.
    #[must_use = "a change belongs in the log"]
    pub fn suspect(&mut self, outcome: &Outcome, now: Moment, rng: &mut Rng) -> Option<Change> {
        if self.state != State::Up {
            return None;
        }
        let is_news = self.shown() == State::Up;
        self.failing.clear();
        self.go_down(outcome.to_string(), now, rng);
        is_news.then(|| Change::Not {
            state: self.state,
            reason: self.reason.clone(),
            next_in: self.next.since(now),
        })
    }

    /// The next probe does not wait for its time: the caller needs to know at once whether what it
    /// has found out about an event is true.
    pub fn probe_at_once(&mut self, now: Moment) {
        if matches!(self.state, State::Down | State::Held) {
            self.next = self.next.min(now);
            self.fresh_from = self.next;
        }
    }

    /// An operator stops the destination: nothing is sent, not even a probe, until
    /// [`Health::release`]. What is in flight may end, and is observed as always.
    #[must_use = "a change belongs in the log"]
    pub fn hold(&mut self, now: Moment) -> Option<Change> {
        if self.held_by_operator.is_some() {
            return None;
        }
        self.held_by_operator = Some(now);
        Some(Change::HeldByOperator)
    }

    /// An operator has looked and says go on: ends a [`Health::hold`], makes the next probe due
    /// now whatever it waits for, and forgets the run of dead letters that led to the breaker.
    #[must_use = "a change belongs in the log"]
    pub fn release(&mut self, now: Moment) -> Option<Change> {
        let held = self.held_by_operator.take();
        if held.is_none() && self.state == State::Up {
            return None;
        }
        self.ramp.begin(now);
        self.next = self.next.min(now);
        self.starts = self.starts.min(now);
        self.fresh_from = now;
        self.refused.clear();
        Some(Change::ReleasedByOperator)
    }

    /// An operator wants it tried now, whatever its pause: the next probe or attempt is due.
    /// Nothing else changes; a failure makes it wait as long as it would have next. None while it
    /// is held by an operator, who must release it.
    #[must_use = "a change belongs in the log"]
    pub fn flush(&mut self, now: Moment) -> Option<Change> {
        if self.held_by_operator.is_some() {
            return None;
        }
        self.next = self.next.min(now);
        self.starts = self.starts.min(now);
        self.fresh_from = self.fresh_from.min(now);
        Some(Change::FlushedByOperator)
    }

    /// What the destination's answers say, whether or not an operator holds it.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Since when it is up, or since when it is not, whatever it was in between.
    #[must_use]
    pub fn since(&self) -> Moment {
        self.since
    }

    /// Since when an operator holds it.
    #[must_use]
    pub fn held_by_operator(&self) -> Option<Moment> {
        self.held_by_operator
    }

    /// For `gatepost status`: why it is not up and when it is tried next.
    #[must_use]
    pub fn why(&self, now: Moment) -> String {
        let (state, below) = (self.state, self.condition(now));
        if let Some(held) = self.held_by_operator {
            let held = Pause(now.since(held));
            return format!("held by operator for {held}, nothing is sent ({below})");
        }
        match (state, self.next_at(now)) {
            (State::Up, _) => below,
            (_, Some(next)) => format!(
                "{below}, {} in {}",
                next_words(state),
                Pause(next.since(now))
            ),
            (_, None) => format!("{below}, {} is due", next_words(state)),
        }
    }

    /// How it is, and if it is not up, why and since when.
    #[must_use]
    pub fn condition(&self, now: Moment) -> String {
        let state = self.state;
        if state == State::Up {
            return format!("up, {} at a time", self.ramp.width(now));
        }
        let since = Pause(now.since(self.since));
        format!("{state}: {}, not up for {since}", self.reason)
    }

    /// The state as people are told it: what is up only for want of a better idea is still down.
    fn shown(&self) -> State {
        match self.state {
            State::Up if self.is_doubtful => State::Down,
            state => state,
        }
    }

    /// The table of the module's head: one arm, one row.
    fn follow(
        &mut self,
        ended: &Ended<'_>,
        now: Moment,
        reading: Reading,
        rng: &mut Rng,
    ) -> Ruling {
        use State::{Paused, Up};
        let late = ended.began < self.fresh_from;
        match (ended.verdict, self.state) {
            // Nothing was sent, so it says nothing about the destination.
            _ if matches!(ended.outcome, Outcome::Damaged(_)) => return Ruling::Dead,
            (Verdict::Delivered, state) => {
                self.failing.clear();
                self.refused.clear();
                if state == Up && !self.is_doubtful {
                    self.ramp.widen(ended.began, now, &self.policy, rng);
                } else if state != Paused || !late {
                    self.rise(now);
                }
                return Ruling::Delivered;
            }
            (Verdict::Dead, _) => {
                if self.is_too_much(ended, late, now, rng) {
                    return Ruling::Spare;
                }
                if self.shown() != Up && !late && was_sent(ended.outcome) {
                    self.rise(now);
                }
                return Ruling::Dead;
            }
            // From here on it is bad news, and old bad news changes nothing.
            _ if late => {}
            (Verdict::Retry, _) => {
                let ruling = self.doubt(ended, now, rng);
                let dies = ruling == Ruling::Charge && ended.is_last;
                let spared = dies && self.is_too_much(ended, late, now, rng);
                return if spared { Ruling::Spare } else { ruling };
            }
            (Verdict::Down, Up) if self.breaks_it_again(ended.seq) => {
                self.ramp.halve(now);
                return Ruling::Charge;
            }
            (Verdict::Down, _) => {
                self.few = 0;
                self.go_down(ended.outcome.to_string(), now, rng);
            }
            (Verdict::Hold, _) => self.hold_off(ended.outcome.to_string(), now, rng),
            (Verdict::Pause(asked), state) => {
                let before = if state == Paused { self.failures } else { 0 };
                self.failures = before.saturating_add(1);
                let backoff = self.policy.pause(self.failures, rng);
                let asked = asked
                    .and_then(|asked| retry::retry_after(asked, reading, LONGEST_RETRY_AFTER))
                    .map_or(Duration::ZERO, |asked| self.policy.at_least(asked, rng));
                self.fall(Paused, ended.outcome.to_string(), asked.max(backoff), now);
            }
        }
        Ruling::Spare
    }

    /// A failure that is the event's fault or the destination's. The destination's, once several
    /// events fail; the event's, once several probes have met fewer events than that, since probes
    /// take turns: there is nothing else to try, and a poison event must not block its lane for
    /// ever.
    fn doubt(&mut self, ended: &Ended<'_>, now: Moment, rng: &mut Rng) -> Ruling {
        let several = note(&mut self.failing, ended.seq, SEVERAL);
        let probed = matches!(self.state, State::Down | State::Held);
        self.few += usize::from(probed);
        if several {
            self.failing.clear();
            self.few = 0;
        }
        if several || (probed && self.few < SEVERAL) {
            self.go_down(ended.outcome.to_string(), now, rng);
            return Ruling::Spare;
        }
        if self.state != State::Up {
            // It is tried as if it were up, but it has taken nothing: its pauses go on growing.
            let (failures, since) = (self.failures, self.since);
            self.rise(now);
            if probed {
                (self.failures, self.since) = (failures, since);
                self.is_doubtful = true;
            }
        }
        self.ramp.halve(now);
        Ruling::Charge
    }

    /// Notes an event that is about to become a dead letter; whether it is one too many.
    fn is_too_much(&mut self, ended: &Ended<'_>, late: bool, now: Moment, rng: &mut Rng) -> bool {
        let too_much = note(&mut self.refused, ended.seq, BREAKER);
        if too_much && (self.state != State::Held || !late) {
            let reason = format!("{BREAKER} events in a row refused, the last with ");
            self.hold_off(reason + &ended.outcome.to_string(), now, rng);
        }
        too_much
    }

    /// Whether this event has brought an upstream down that takes others, [`SEVERAL`] times in a
    /// row: one that the other side hangs up on, since it is too large for it, say.
    fn breaks_it_again(&mut self, seq: Seq) -> bool {
        let times = match self.breaker {
            Some((last, times)) if last == seq => times + 1,
            _ => 1,
        };
        self.breaker = Some((seq, times));
        SEVERAL <= times
    }

    fn rise(&mut self, now: Moment) {
        self.ramp.begin_after(now.since(self.since), now);
        self.state = State::Up;
        self.since = now;
        self.fresh_from = now;
        self.failures = 0;
        self.few = 0;
        self.is_doubtful = false;
        self.reason.clear();
    }

    fn go_down(&mut self, reason: String, now: Moment, rng: &mut Rng) {
        self.failures = if matches!(self.state, State::Down | State::Up) {
            self.failures.saturating_add(1)
        } else {
            1
        };
        let pause = match self.failures {
            1 => self.policy.first_pause(rng),
            failures => self.policy.pause(failures, rng),
        };
        self.fall(State::Down, reason, pause, now);
    }

    /// Our configuration of it is wrong, or it is.
    fn hold_off(&mut self, reason: String, now: Moment, rng: &mut Rng) {
        let pause = self.policy.about(HELD_PROBE, rng);
        self.fall(State::Held, reason, pause, now);
    }

    fn fall(&mut self, state: State, reason: String, pause: Duration, now: Moment) {
        if self.shown() == State::Up {
            self.since = now;
        }
        self.is_doubtful = false;
        self.state = state;
        self.reason = reason;
        self.next = now + pause;
        self.fresh_from = self.next;
    }
}

/// Whether an event that is judged dead says something of the destination.
fn was_sent(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::Invalid(_))
}

/// Adds `seq` to a run of different events; whether the run is now `enough`.
fn note(run: &mut Vec<Seq>, seq: Seq, enough: usize) -> bool {
    if run.len() < enough && !run.contains(&seq) {
        run.push(seq);
    }
    enough <= run.len()
}

#[cfg(test)]
mod tests;
