//! What the outside knows: what was promised, what arrived, and what may explain that.
//!
//! It is told what happens as it happens, and complains at once about what must not.
//! [`super::inspect`] compares it with what the store says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use gatepost::commit::{Change, Done, Notice, Operation, Report, Settlement, Target};
use gatepost::config::Destination;
use gatepost::delivery::{Attempt, DeadReason, Outcome};
use gatepost::dispatch::Job;
use gatepost::event::{DestinationNo, Seq};
use gatepost::health::BREAKER;

use crate::sim::devices::{Message, MessageNo};
use crate::sim::network::Request;
use crate::sim::process::Told;
use crate::sim::repeats::Repeats;
use crate::sim::settings::priority;

/// What is known of one event on its way to one destination.
#[derive(Debug)]
pub(crate) struct Course {
    /// How often it has arrived.
    pub(crate) arrivals: u32,
    /// When it last may have ended: arrived, or was given up by an operator. None after a replay.
    pub(crate) ended: Option<Duration>,
    /// How many more arrivals can be explained.
    licences: u32,
    /// What was settled by this process and may not be on disk.
    settling: VecDeque<Change>,
    /// It arrived, the gateway heard of it, and that may not be on disk.
    is_unsettled: bool,
    /// Probes with it that were answered and failed, since others were taken.
    probes: u32,
    /// Others of its lane may have gone first: it failed as often as an event may, or it was dead,
    /// others went on, and a crash forgot that.
    may_be_late: bool,
}

impl Default for Course {
    fn default() -> Self {
        Self {
            arrivals: 0,
            ended: None,
            licences: 1,
            settling: VecDeque::new(),
            is_unsettled: false,
            probes: 0,
            may_be_late: false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The events that are on disk, whether or not their sender has heard so.
    pub(crate) events: BTreeMap<Seq, MessageNo>,
    /// Those that their sender was told are received.
    pub(crate) acknowledged: BTreeSet<Seq>,
    /// Events that may have been taken out of quarantine.
    pub(crate) let_go: BTreeSet<Seq>,
    /// Messages whose bytes on the disk are damaged.
    pub(crate) damaged: BTreeSet<MessageNo>,
    /// Events whose body or record has expired.
    pub(crate) expired: BTreeSet<Seq>,
    /// Events that were given up for others, and those that may have been in a commit whose end
    /// nobody has seen.
    pub(crate) shed: BTreeSet<Seq>,
    perhaps_shed: BTreeSet<Seq>,
    courses: BTreeMap<(DestinationNo, Seq), Course>,
    /// The number under which a message that can be recognised was first stored.
    known: BTreeMap<MessageNo, Seq>,
    keys: BTreeMap<Vec<u8>, Seq>,
    key_of: BTreeMap<Seq, Vec<u8>>,
    /// The last event of each lane whose first delivery was not a replay.
    last: BTreeMap<(DestinationNo, String), Seq>,
    repeats: Repeats,
    /// Dead letters in a row, with nothing delivered between.
    refused: BTreeMap<DestinationNo, BTreeSet<Seq>>,
    /// How many attempts got an answer from each destination, in this process.
    answers: BTreeMap<DestinationNo, u64>,
    /// How many had been answered when a delivery found nobody there.
    falls: BTreeMap<(DestinationNo, Seq), BTreeSet<u64>>,
    /// Destinations that an operator holds, and has heard so.
    held: BTreeSet<String>,
    /// Those that were held when this process started: nothing goes there.
    frozen: BTreeSet<String>,
    /// What operators wait for.
    wishes: Vec<Operation>,
    /// Whether events may be given up for others.
    may_shed: bool,
}

impl Ledger {
    /// `may_shed`: whether events may be given up for others.
    pub(crate) fn new(may_shed: bool) -> Self {
        Self {
            may_shed,
            ..Self::default()
        }
    }

    /// What is known of a delivery.
    pub(crate) fn course(&mut self, destination: DestinationNo, seq: Seq) -> &mut Course {
        self.courses.entry((destination, seq)).or_default()
    }

    /// An event is on disk: it stays there under this number, and is there once.
    pub(crate) fn stored(&mut self, seq: Seq, number: MessageNo, message: &Message) {
        let before = self.events.insert(seq, number);
        assert!(
            before.is_none_or(|before| before == number),
            "seq {seq} was message {before:?} and is message {number} now"
        );
        if message.has_id() {
            let first = *self.known.entry(number).or_insert(seq);
            assert_eq!(first, seq, "message {number} is stored twice");
        }
    }

    /// The earlier event with the ids of this one and other bytes.
    pub(crate) fn has_twin_before(&self, seq: Seq, sent: &[Message]) -> bool {
        let message = &sent[self.events[&seq]];
        let ids = |message: &Message| {
            let id = message.event_id.clone()?;
            (!message.is_odd).then_some((message.route, message.device.clone(), id))
        };
        let mine = ids(message);
        let earlier = self.events.range(..seq);
        mine.is_some()
            && earlier
                .into_iter()
                .any(|(_, other)| ids(&sent[*other]) == mine)
    }

    /// An operator's wish is on its way.
    pub(crate) fn wished(&mut self, operation: Operation) {
        if let Operation::Release(name) = &operation {
            self.held.remove(name);
            self.frozen.remove(name);
        }
        self.wishes.push(operation);
    }

    /// A commit has been synced.
    pub(crate) fn committed(
        &mut self,
        told: &[Told],
        notices: &[Notice],
        sent: &[Message],
        now: Duration,
    ) {
        for notice in notices {
            if let Notice::Settled(id) = notice {
                let course = self.course(id.destination, id.seq);
                let settled = course.settling.pop_front();
                if settled.expect("it was told to the committer") == Change::Delivered {
                    course.is_unsettled = false;
                }
            }
        }
        self.check_what_was_shed(told, notices, sent);
        for told in told {
            match told {
                Told::Operator(Operation::Hold(name), _) if !self.releases(name) => {
                    self.held.insert(name.clone());
                }
                _ => {}
            }
            match told {
                Told::Device(number, _, Some(Done::Stored(seq))) => {
                    let message = &sent[*number];
                    self.stored(*seq, *number, message);
                    if !message.has_id() {
                        self.repeats.stored(*seq, *number, message, now);
                    }
                }
                Told::Device(number, _, Some(Done::Duplicate(seq))) => {
                    let message = &sent[*number];
                    if message.has_id() {
                        let first = self.known.get(number);
                        assert_eq!(first, Some(seq), "message {number} repeats another");
                    } else {
                        let first = self.events.get(seq);
                        assert_eq!(first, Some(number), "message {number} repeats another");
                        self.repeats.repeated(*seq, *number, message, now);
                    }
                }
                Told::Device(..) => {}
                Told::Operator(operation, report) => self.operated(operation, report, now),
            }
        }
    }

    /// Whatever stops waiting without an attempt was discarded by an operator, or given up in the
    /// commit of an event that matters more.
    fn check_what_was_shed(&mut self, told: &[Told], notices: &[Notice], sent: &[Message]) {
        let priority = |number: MessageNo| priority(sent[number].route);
        let discarded: BTreeSet<_> = told
            .iter()
            .filter_map(|told| match told {
                Told::Operator(Operation::Discard(targets), _) => Some(deliveries(targets)),
                _ => None,
            })
            .flatten()
            .collect();
        let stored = told.iter().filter_map(|told| match told {
            Told::Device(number, _, Some(Done::Stored(_))) if !sent[*number].is_odd => {
                Some(priority(*number))
            }
            _ => None,
        });
        let highest = stored.max();
        for notice in notices {
            let Notice::Discarded(id) = notice else {
                continue;
            };
            // What an operator wanted discarded may have been given up just before.
            let own = priority(self.events[&id.seq]);
            if self.may_shed && Some(own) < highest {
                self.shed.insert(id.seq);
                continue;
            }
            assert!(
                discarded.contains(&(id.destination, id.seq)),
                "seq {} of priority {own} was given up for one of {highest:?}",
                id.seq
            );
        }
    }

    /// Whether an event that no longer waits may have been given up for another.
    pub(crate) fn was_shed(&mut self, seq: Seq) -> bool {
        if self.perhaps_shed.contains(&seq) {
            self.shed.insert(seq);
        }
        self.shed.contains(&seq)
    }

    /// The store has been looked at, so it is known what was given up.
    pub(crate) fn inspected(&mut self) {
        self.perhaps_shed.clear();
    }

    /// A device has heard something.
    pub(crate) fn heard(&mut self, message: &Message, status: u16, done: Option<&Done>) {
        let right = match done {
            Some(Done::Stored(_) | Done::Duplicate(_)) if message.is_odd => {
                let verdict = message.route == Some("test");
                status == if verdict { 400 } else { 200 }
            }
            Some(Done::Stored(_)) => status == 202,
            Some(Done::Duplicate(_)) => status == 200,
            None if message.may_be_cut() => status != 503,
            _ => status == 503,
        };
        assert!(right, "HTTP {status} for {done:?}");
        if let Some(Done::Stored(seq) | Done::Duplicate(seq)) = done {
            self.acknowledged.insert(*seq);
        }
    }

    /// A request went upstream.
    pub(crate) fn sent(
        &mut self,
        (job, name): (&Job, &str),
        request: &Request,
        sent: &[Message],
        now: Duration,
    ) {
        assert!(!self.frozen.contains(name), "{name} is held");
        let (destination, seq) = (job.delivery.destination, job.delivery.seq);
        let number = self.events.get(&seq);
        let number = *number.expect("what is sent was stored before");
        let body = &sent[number].request.body;
        assert!(*body == request.sent.body, "seq {seq}: other bytes");
        self.check_key(seq, request);
        if !request.arrived {
            return;
        }
        let course = self.course(destination, seq);
        let is_first = course.arrivals == 0;
        course.arrivals += 1;
        course.ended = Some(now);
        assert!(
            0 < course.licences,
            "seq {seq} arrives once more and nothing explains it"
        );
        course.licences -= 1;
        if request.is_heard {
            course.is_unsettled = true;
        } else {
            course.licences += 1;
        }
        let may_be_late = std::mem::take(&mut course.may_be_late);
        let Some(lane) = sent[number].line_up_with() else {
            return;
        };
        if is_first && !job.progress.replayed {
            let last = self.last.entry((destination, lane)).or_insert(seq);
            assert!(
                may_be_late || *last <= seq,
                "seq {seq} arrives after {last} of its lane"
            );
            *last = seq.max(*last);
        }
    }

    /// An attempt ended, and `settlement` is to be noted of it.
    pub(crate) fn concluded(
        &mut self,
        attempt: &Attempt,
        settlement: Option<&Settlement>,
        to: &Destination,
    ) {
        let most = to.retry.max_attempts;
        let said = to.classify.to_string();
        let (destination, seq) = (attempt.delivery.destination, attempt.delivery.seq);
        let charged = attempt.progress.attempts + 1;
        let change = settlement.map(|settlement| &settlement.change);
        let outcome = &attempt.outcome;
        let is_fall = is_fall(outcome, &said);
        let breaks = self.breaks(destination, seq, is_fall);
        let blame = match blame(outcome, &said) {
            Blame::Nobody if breaks => Blame::Doubtful,
            blame => blame,
        };
        let right = match change {
            None => blame != Blame::Arrived,
            Some(Change::Delivered) => blame == Blame::Arrived,
            Some(Change::Retry { progress, .. }) => {
                blame == Blame::Doubtful && progress.attempts == charged && charged < most
            }
            Some(Change::Dead(letter)) => match letter.reason {
                DeadReason::Rejected => blame == Blame::Guilty,
                DeadReason::Exhausted => blame == Blame::Doubtful && most <= charged,
                DeadReason::Damaged => matches!(outcome, Outcome::Damaged(_)),
                DeadReason::Invalid => false,
            },
        };
        assert!(right, "seq {seq}: {outcome} led to {change:?}");
        let refused = self.refused.entry(destination).or_default();
        match change {
            Some(Change::Delivered) => refused.clear(),
            Some(Change::Dead(letter)) if letter.reason != DeadReason::Damaged => {
                refused.insert(seq);
                assert!(refused.len() < BREAKER, "the breaker does not break");
            }
            _ => {}
        }
        if blame == Blame::Arrived {
            let courses = self.courses.iter_mut();
            let here = courses.filter(|((to, _), _)| *to == destination);
            here.for_each(|(_, course)| course.probes = 0);
        }
        let course = self.course(destination, seq);
        if change.is_none() && blame == Blame::Doubtful {
            // Before it is given up it lets the next of its lane show whose fault it is.
            course.probes += u32::from(matches!(outcome, Outcome::Answered(_)));
            let failures = attempt.progress.attempts + course.probes.max(1);
            course.may_be_late |= most <= failures;
        }
        course.settling.extend(change.cloned());
    }

    /// Whether this event has brought the destination down three times, which took others between.
    fn breaks(&mut self, destination: DestinationNo, seq: Seq, is_fall: bool) -> bool {
        let answers = self.answers.entry(destination).or_default();
        if !is_fall {
            *answers += 1;
            return false;
        }
        let falls = self.falls.entry((destination, seq)).or_default();
        falls.insert(*answers);
        3 <= falls.len()
    }

    /// A process starts, and nothing may go to what was held before.
    pub(crate) fn process_started(&mut self) {
        self.frozen = self.held.clone();
        self.repeats.begin();
    }

    /// The process is gone. `orderly`: what it had settled is on disk.
    pub(crate) fn process_ended(&mut self, orderly: bool, now: Duration) {
        if self.may_shed && !orderly {
            self.perhaps_shed.extend(self.events.keys());
        }
        self.refused.clear();
        self.answers.clear();
        self.falls.clear();
        for course in self.courses.values_mut() {
            let settling = std::mem::take(&mut course.settling);
            let settled = orderly && settling.contains(&Change::Delivered);
            if std::mem::take(&mut course.is_unsettled) && !settled {
                course.licences += 1;
            }
            let is_dead = |change: &Change| matches!(change, Change::Dead(_));
            course.may_be_late |= !orderly && settling.iter().any(is_dead);
        }
        // Nobody knows whether what they wanted was done.
        for wish in std::mem::take(&mut self.wishes) {
            match wish {
                Operation::Replay(targets) => {
                    for (destination, seq) in deliveries(&targets) {
                        self.course(destination, seq).licences += 1;
                    }
                }
                Operation::Discard(targets) => self.gave_up(&targets, now),
                _ => {}
            }
        }
    }

    /// Whether somebody wants this destination released meanwhile.
    fn releases(&self, name: &str) -> bool {
        let is = |wish: &Operation| matches!(wish, Operation::Release(other) if other == name);
        self.wishes.iter().any(is)
    }

    fn operated(&mut self, operation: &Operation, report: &Report, now: Duration) {
        let wish = self.wishes.iter().position(|wish| wish == operation);
        self.wishes.remove(wish.expect("somebody wished it"));
        match operation {
            Operation::Replay(targets) if 0 < report.done => {
                for (destination, seq) in deliveries(targets) {
                    let course = self.course(destination, seq);
                    course.licences += 1;
                    // One that has arrived meanwhile may be all that the operator wanted.
                    if !course.is_unsettled {
                        course.ended = None;
                    }
                }
            }
            Operation::Discard(targets) if 0 < report.done => self.gave_up(targets, now),
            Operation::Release(_) => self.refused.clear(),
            _ => {}
        }
    }

    fn gave_up(&mut self, targets: &[Target], now: Duration) {
        for target in targets {
            match &target.destination {
                Some(to) => {
                    let course = self.course(to.number, target.seq);
                    course.ended = course.ended.or(Some(now));
                }
                None => _ = self.let_go.insert(target.seq),
            }
        }
    }

    fn check_key(&mut self, seq: Seq, request: &Request) {
        let key = request.sent.header("Idempotency-Key");
        let key = key.expect("each request has one").to_vec();
        let first = self.key_of.entry(seq).or_insert_with(|| key.clone());
        assert_eq!(*first, key, "seq {seq} has a new key");
        let owner = *self.keys.entry(key).or_insert(seq);
        assert_eq!(owner, seq, "two events share a key");
    }
}

fn deliveries(targets: &[Target]) -> impl Iterator<Item = (DestinationNo, Seq)> {
    let to = |target: &Target| Some((target.destination.as_ref()?.number, target.seq));
    targets.iter().filter_map(to)
}

/// What is said of a status in words such as `404 is dead, 5xx is hold`.
fn word(status: u16, said: &str) -> Option<&str> {
    let word = |key: String| {
        let mut all = said.split(", ").filter_map(|one| one.split_once(" is "));
        all.find_map(|(other, word)| (other == key).then_some(word))
    };
    word(status.to_string()).or_else(|| word(format!("{}xx", status / 100)))
}

/// Whether nobody is there, or it is said to mean that.
fn is_fall(outcome: &Outcome, said: &str) -> bool {
    match outcome {
        Outcome::Answered(answer) => word(answer.status, said) == Some("down"),
        outcome => matches!(outcome, Outcome::Unreachable(_) | Outcome::Unproven(_)),
    }
}

/// Whom an outcome blames. Written down a second time on purpose: see DESIGN section 6.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Blame {
    Arrived,
    /// The event, for certain.
    Guilty,
    /// The event or the destination.
    Doubtful,
    /// The destination or our configuration of it.
    Nobody,
}

fn blame(outcome: &Outcome, said: &str) -> Blame {
    match outcome {
        Outcome::Answered(answer) if word(answer.status, said).is_some() => {
            match word(answer.status, said) {
                Some("delivered") => Blame::Arrived,
                Some("dead") => Blame::Guilty,
                Some("retry") => Blame::Doubtful,
                _ => Blame::Nobody,
            }
        }
        Outcome::Answered(answer) => match answer.status {
            200..=299 => Blame::Arrived,
            400 | 406 | 411 | 413 | 414 | 415 | 422 | 431 | 451 => Blame::Guilty,
            503 if answer.retry_after.is_some() => Blame::Nobody,
            408 | 409 | 425 | 500..=599 => Blame::Doubtful,
            _ => Blame::Nobody,
        },
        Outcome::TimedOut | Outcome::Failed(_) => Blame::Doubtful,
        Outcome::Damaged(_) | Outcome::Invalid(_) => Blame::Guilty,
        Outcome::Unreachable(_) | Outcome::Unproven(_) | Outcome::Misconfigured(_) => Blame::Nobody,
    }
}
