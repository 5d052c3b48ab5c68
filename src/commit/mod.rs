//! The committer: one transaction and one sync for all who wait.
//!
//! # Guarantees
//!
//! - What [`Committer::step`] answers with [`Done::Stored`] is on disk, with its deliveries, its
//!   deduplication key and its place in the order of arrival.
//! - After [`Failed`] nobody of that step may be acknowledged: what it held is on disk or not.
//!   The process must end; the next start looks.
//! - A duplicate is recognised against everything stored before it, in the same step too.
//! - A settlement waits at most [`RIDE`] for a commit to share. Losing it repeats a delivery and
//!   loses none.
//! - While the disk has too little room, new events are refused and everything else goes on; see
//!   [`FLOOR_BYTES`].
//! - An operator's change of a delivery takes effect after all settlements that came before it.
//!
//! The thread of the real process and a simulation call the same [`Committer::step`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use log::{Level, log, log_enabled};

mod apply;
mod known;
mod linger;
mod operate;
mod plan;
mod prune;
mod quarantined;
mod recent;
mod repeats;
mod room;
mod run;
mod shed;

pub use operate::{Assignment, DestinationRef, EXPECTED, Operation, Report, Target};
pub use quarantined::Quarantined;
pub use recent::{DedupKey, Known, Recent, recent_with_id};
pub use room::FLOOR_BYTES;
pub use run::{Ear, run};

use crate::audit::{Action, Entry, Line, Then};
use crate::clock::{Clock, Moment, Reading};
use crate::delivery::{DeadLetter, DeliveryId, Progress};
use crate::event::{DestinationNo, Event, Lane, Seq};
use crate::store::{self, Pending, Room, Store, Sync};
use plan::Plan;
use prune::Pruner;
use repeats::{Repeated, Repeats};
use room::Gate;
use shed::{Shedder, Victim};

/// The longest a settlement waits for a commit to share. Longer would save syncs and repeat more
/// deliveries after a power cut.
pub const RIDE: Duration = Duration::from_secs(1);

/// So many settlements are worth a commit of their own. Bounds what a power cut repeats.
const FULL_RIDE: usize = 512;

/// After so long without work the next start is made quick. See [`Sync::Checkpoint`].
const IDLE: Duration = Duration::from_secs(1);

/// How many events can be recognised when they come again.
pub const WINDOW: usize = 100_000;

/// How many requests in quarantine can be recognised when they come again. Their own window, so
/// that strangers do not make known events be forgotten; in memory only.
const STRANGE_WINDOW: usize = 1_000;

/// The share of the quota that new events may not fill, so that settlements and deletes always
/// have room: one tenth.
const RESERVE: u64 = 10;

/// Where deliveries wait that have no destination yet: a number that no destination ever gets.
pub const HELD: DestinationNo = DestinationNo(0);

/// How long what has ended is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// Bodies, from the end of the last delivery on.
    pub keep_delivered: Duration,
    /// Records and audit trails, likewise; never shorter than the body.
    pub keep_audit: Duration,
}

impl Retention {
    /// For a committer that only does what an operator says.
    pub const FOREVER: Self = Self {
        keep_delivered: Duration::MAX,
        keep_audit: Duration::MAX,
    };

    /// A day for bodies, a month for the rest.
    pub const DEFAULT: Self = Self {
        keep_delivered: Duration::from_secs(24 * 60 * 60),
        keep_audit: Duration::from_secs(30 * 24 * 60 * 60),
    };
}

/// A new event on its way to the disk.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Its record, complete but for what only the committer knows.
    pub event: Event,
    /// Its body, as far as it is kept.
    pub body: Vec<u8>,
    /// What it is recognised by when it comes again; none: never.
    pub key: Option<DedupKey>,
    /// How long after the first the same is a duplicate; none: as long as it is remembered.
    pub within: Option<Duration>,
}

impl Admission {
    /// Keeps the event's record only.
    pub fn forget_body(&mut self) {
        self.body = Vec::new();
        self.event.kept = 0;
    }
}

/// What the committer is asked to do. `T` is who waits for it.
#[derive(Debug)]
pub enum Work<T> {
    /// Store an event.
    Admit(Box<Admission>, T),
    /// Note what became of a delivery.
    Settle(Box<Settlement>),
    /// Do what an operator wants.
    Operate(Operation, T),
}

/// What became of a delivery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settlement {
    /// Which.
    pub id: DeliveryId,
    /// What its event is called.
    pub name: String,
    /// Its new state.
    pub change: Change,
    /// What the audit trail says of it.
    pub entry: Entry,
}

/// A delivery's new state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// It arrived.
    Delivered,
    /// It is to be tried again.
    Retry {
        /// How far it has come now.
        progress: Progress,
        /// The lane it waits in from now on.
        lane: Lane,
    },
    /// It will not be tried again by itself.
    Dead(DeadLetter),
}

/// What has become of somebody's work.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Done {
    /// The event is on disk under this number.
    Stored(Seq),
    /// The same bytes are on disk under this number.
    Duplicate(Seq),
    /// There is no room for it. Nothing is kept.
    Full,
    /// The operator's wish, as far as it could be done.
    Operated(Report),
}

/// What the dispatcher must know of a commit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Notice {
    /// A delivery is to be made.
    Arrived(Pending),
    /// A settlement is on disk.
    Settled(DeliveryId),
    /// A pending delivery is gone: an operator discarded it, or it was given up for another.
    Discarded(DeliveryId),
}

/// What came of one step.
#[derive(Debug)]
pub struct Step<T> {
    /// Who can be answered, and what.
    pub answers: Vec<(T, Done)>,
    /// What the dispatcher must know, in this order.
    pub notices: Vec<Notice>,
    /// How long the commit took; none if there was none.
    pub took: Option<Duration>,
}

/// The store failed. Nobody who waits may be acknowledged.
#[derive(Debug)]
pub struct Failed<T> {
    /// Why.
    pub error: store::Error,
    /// Everybody whose work was part of the step.
    pub waiting: Vec<T>,
}

/// The one writer of the store.
pub struct Committer {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    max_bytes: u64,
    recent: Recent,
    /// The same of what went to quarantine.
    strange: Recent,
    /// When those came that are duplicates for some time only, and in which boot.
    times: BTreeMap<Seq, (Reading, u64)>,
    repeats: Repeats,
    pruner: Pruner,
    gate: Gate,
    /// Gives up what matters less when the quota is reached; none: refuses.
    shedder: Option<Shedder>,
    riding: Vec<Settlement>,
    riding_since: Moment,
    last_commit: Moment,
    checkpointed: bool,
    /// Duplicates that the store's counters do not have yet.
    uncounted: u64,
    next_seq: u64,
    stored_bytes: u64,
    quarantined: Quarantined,
}

impl Committer {
    /// Takes over writing. `max_bytes` is the quota of the store, and `retention` says how long
    /// what has ended is kept.
    pub fn new(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        max_bytes: u64,
        retention: Retention,
    ) -> Result<Self, store::Error> {
        let recent = Recent::restore(WINDOW, &store)?;
        let counters = store.counters()?;
        let now = clock.moment();
        let pruner = Pruner::new(retention, max_bytes, now);
        let quarantined = Quarantined::default();
        quarantined.set(counters.quarantined_bytes);
        Ok(Self {
            pruner,
            store,
            clock,
            max_bytes,
            recent,
            strange: Recent::new(STRANGE_WINDOW),
            times: BTreeMap::new(),
            repeats: Repeats::default(),
            gate: Gate::default(),
            shedder: None,
            riding: Vec::new(),
            riding_since: now,
            last_commit: now,
            checkpointed: false,
            uncounted: 0,
            next_seq: counters.next_seq,
            stored_bytes: counters.stored_bytes,
            quarantined,
        })
    }

    /// From now on refuses new events while the disk has too little room, and gives up the ballast
    /// when a commit meets a full one.
    #[must_use]
    pub fn with_room(mut self, room: Arc<dyn Room>) -> Self {
        self.gate = Gate::new(room);
        self
    }

    /// How much lies in quarantine, now and later.
    #[must_use]
    pub fn quarantined(&self) -> Quarantined {
        self.quarantined.clone()
    }

    /// From now on gives up pending events of a lower priority for new ones that the quota has no
    /// room for.
    #[must_use]
    pub fn with_shedding(mut self) -> Self {
        self.shedder = Some(Shedder::default());
        self
    }

    /// Does `work`, all of it in one transaction, and what else is due by now.
    ///
    /// Returns once that is on disk. Settlements may stay in memory until [`Self::due`].
    pub fn step<T>(&mut self, work: Vec<Work<T>>) -> Result<Step<T>, Failed<T>> {
        let now = self.clock.moment();
        self.gate.look(now, self.stored_bytes);
        if let Some(shedder) = &mut self.shedder {
            shedder.begin(now, self.pruner.trails_left());
        }
        let mut plan = Plan::default();
        let mut arrivals = Vec::new();
        for work in work {
            match work {
                Work::Settle(settlement) => self.ride(*settlement, now),
                Work::Operate(operation, who) => plan.operations.push((operation, who)),
                Work::Admit(admission, who) => arrivals.push((admission, who)),
            }
        }
        let mut failure = None;
        // What is settled in this step must be known before anything is given up for an arrival.
        for (admission, who) in arrivals {
            let done = self.admit(*admission, now, &mut plan);
            plan.waiting
                .push((who, done.as_ref().map_or(Done::Full, Clone::clone)));
            failure = failure.or(done.err());
        }
        let committed = match failure {
            Some(error) => Err(error),
            None => self.commit_if_due(&mut plan, now),
        };
        match committed {
            Ok(took) => {
                let (answers, notices) = plan.answers();
                Ok(Step {
                    answers,
                    notices,
                    took,
                })
            }
            Err(error) => {
                self.gate.note_failure(&error);
                Err(Failed {
                    error,
                    waiting: plan.abandon(),
                })
            }
        }
    }

    /// When [`Self::step`] has something to do without new work.
    #[must_use]
    pub fn due(&self) -> Option<Moment> {
        let ride = (!self.riding.is_empty()).then_some(self.riding_since + RIDE);
        let checkpoint = (!self.checkpointed).then_some(self.last_commit + IDLE);
        let due = [
            ride,
            checkpoint,
            self.repeats.next_due(),
            Some(self.pruner.due()),
        ];
        due.into_iter().flatten().min()
    }

    /// Puts everything on disk that waits in memory, and makes the next start quick.
    pub fn finish(&mut self) -> Result<(), store::Error> {
        let mut plan = Plan::<()>::default();
        plan.repeats = self.repeats.due(self.clock.moment());
        let finished = self.commit(&mut plan, Sync::Checkpoint);
        finished.inspect_err(|error| self.gate.note_failure(error))
    }

    fn ride(&mut self, settlement: Settlement, now: Moment) {
        if self.riding.is_empty() {
            self.riding_since = now;
        }
        self.riding.push(settlement);
    }

    /// Decides what an event is and where it will lie. Changes nothing on disk.
    fn admit<T>(
        &mut self,
        mut admission: Admission,
        now: Moment,
        plan: &mut Plan<T>,
    ) -> Result<Done, store::Error> {
        if let Some(key) = admission.key {
            match self.find(key, &admission)? {
                Known::New => {}
                Known::Revision(seq) => admission.event.revision_of = Some(seq),
                Known::Duplicate(seq) => {
                    let name = admission.event.name(seq);
                    let store = &self.store;
                    self.repeats
                        .count(seq, &name, now, || times_received(store, seq))?;
                    self.uncounted += 1;
                    return Ok(Done::Duplicate(seq));
                }
            }
        }
        let size = store::footprint(&admission.event, &admission.body);
        let room = self.max_bytes - self.max_bytes / RESERVE;
        let wanted = self.stored_bytes.saturating_add(size).saturating_sub(room);
        let priority = admission.event.priority;
        if self.gate.is_closed() {
            return Ok(Done::Full);
        }
        if 0 < wanted {
            self.pruner.hurry(now);
            // What has ended goes first, and nothing goes for what can't be delivered.
            let may_shed = self.pruner.has_nothing() && admission.event.quarantine.is_none();
            if !may_shed || !self.make_room(priority, wanted, now, &mut plan.shed)? {
                return Ok(Done::Full);
            }
        }
        self.stored_bytes += size;
        let seq = Seq(self.next_seq);
        self.next_seq += 1;
        self.remember(&admission, seq);
        plan.admissions.push((seq, admission));
        Ok(Done::Stored(seq))
    }

    /// Chooses what is given up for `wanted` bytes of an event of `priority`; whether there is
    /// enough of it.
    fn make_room(
        &mut self,
        priority: u8,
        wanted: u64,
        now: Moment,
        shed: &mut Vec<Victim>,
    ) -> Result<bool, store::Error> {
        let Some(shedder) = &mut self.shedder else {
            return Ok(false);
        };
        let riding = &self.riding;
        let is_settling = |seq| riding.iter().any(|settlement| settlement.id.seq == seq);
        let victims = shedder.choose(&self.store, priority, wanted, is_settling)?;
        shedder.note(&victims, now);
        for victim in &victims {
            self.stored_bytes = self.stored_bytes.saturating_sub(victim.frees);
            self.pruner.spare(victim.seq);
        }
        let is_enough = !victims.is_empty();
        shed.extend(victims);
        Ok(is_enough)
    }

    fn commit_if_due<T>(
        &mut self,
        plan: &mut Plan<T>,
        now: Moment,
    ) -> Result<Option<Duration>, store::Error> {
        let ride_is_over = FULL_RIDE <= self.riding.len()
            || (!self.riding.is_empty() && self.riding_since + RIDE <= now);
        plan.repeats = self.repeats.due(now);
        let full = self.gate.is_closed();
        self.pruner
            .note_fill(full, self.stored_bytes, self.max_bytes, now);
        let (incoming, reading) = (plan.admissions.len(), self.clock.reading());
        plan.expired = self.pruner.walk(&self.store, incoming, now, reading)?;
        if !plan.is_empty() || ride_is_over {
            self.commit(plan, Sync::Usual)?;
            return Ok(Some(self.clock.moment().since(now)));
        }
        if !self.checkpointed && self.last_commit + IDLE <= now {
            self.commit(plan, Sync::Checkpoint)?;
        }
        Ok(None)
    }

    fn commit<T>(&mut self, plan: &mut Plan<T>, sync: Sync) -> Result<(), store::Error> {
        let mut riding = std::mem::take(&mut self.riding);
        let mut vanished = Vec::new();
        let reading = self.clock.reading();
        let uncounted = std::mem::take(&mut self.uncounted);
        let changed = self.store.write(sync, |tables| {
            for settlement in &riding {
                if !apply::settle(tables, settlement)? {
                    vanished.push(settlement.id);
                }
                plan.notices.push(Notice::Settled(settlement.id));
            }
            plan.expired.remove_from(tables)?;
            plan.shed_from(tables, reading)?;
            plan.operate_on(tables, reading)?;
            for (seq, admission) in &plan.admissions {
                let pending = apply::admit(tables, *seq, admission)?;
                plan.notices
                    .extend(pending.into_iter().map(Notice::Arrived));
            }
            for said in &plan.repeats {
                tables.put_entry(said.seq, &said.entry(reading))?;
            }
            tables.counters.totals.duplicates += uncounted;
            let counters = &tables.counters;
            self.quarantined.set(counters.quarantined_bytes);
            Ok((counters.next_seq, counters.stored_bytes))
        })?;
        (self.next_seq, self.stored_bytes) = changed;
        for notice in &plan.notices {
            if let Notice::Settled(id) | Notice::Discarded(id) = notice {
                self.pruner.ended(id.seq);
            }
        }
        self.last_commit = self.clock.moment();
        self.checkpointed = sync == Sync::Checkpoint;
        riding.retain(|settlement| !vanished.contains(&settlement.id));
        say(&riding, plan);
        Ok(())
    }
}

/// How often an event has been received, as far as its audit trail says.
fn times_received(store: &Store, seq: Seq) -> Result<u64, store::Error> {
    let trail = match store.trail(seq) {
        // A damaged trail can't say how often, which is no reason to turn the device away.
        Err(store::Error::Corrupt { .. }) => return Ok(1),
        trail => trail?,
    };
    let times = trail.iter().rev().find_map(|entry| match entry.action {
        Action::Duplicate { times } => Some(times),
        _ => None,
    });
    Ok(times.unwrap_or(1))
}

/// Prints what is now on disk.
fn say<T>(riding: &[Settlement], plan: &Plan<T>) {
    if !log_enabled!(Level::Warn) {
        return;
    }
    for settlement in riding {
        let Settlement {
            id, name, entry, ..
        } = settlement;
        print(name, id.seq, &entry.action);
    }
    for line in &plan.said {
        print(&line.name, line.seq, &line.action);
    }
    for (seq, admission) in &plan.admissions {
        let name = admission.event.name(*seq);
        for entry in Entry::of_arrival(&admission.event) {
            print(&name, *seq, &entry.action);
        }
    }
    for said in &plan.repeats {
        print(&said.name, said.seq, &said.action());
    }
}

fn print(name: &str, seq: Seq, action: &Action) {
    log!(level(action), "{}", Line { name, seq, action });
}

/// `warn` for what waits for an operator's decision.
fn level(action: &Action) -> Level {
    match action {
        Action::Quarantined { .. }
        | Action::Attempted {
            then: Then::Dead, ..
        } => Level::Warn,
        _ => Level::Info,
    }
}

impl Repeated {
    fn action(&self) -> Action {
        Action::Duplicate { times: self.times }
    }

    fn entry(&self, now: Reading) -> Entry {
        Entry::new(now, self.action())
    }
}

#[cfg(test)]
mod tests;
