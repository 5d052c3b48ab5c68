//! The dispatcher with the real committer and store, on a clock that is moved by hand.

mod calm;

use std::time::Duration;

use super::*;
use crate::clock::{ManualClock, Reading};
use crate::commit::{
    Admission, Committer, DestinationRef, Done, Operation, Retention, Target, Work,
};
use crate::config::Destination;
use crate::delivery::Answer;
use crate::event::{Address, Digest, Event};

const CLOUD: DestinationNo = DestinationNo(1);

/// A gateway with one destination that answers as `upstream` says.
struct World {
    clock: Arc<ManualClock>,
    store: Arc<Store>,
    committer: Committer,
    dispatcher: Dispatcher,
    /// What was tried, in this order.
    tried: Vec<(u64, Progress)>,
    /// What arrived, in this order.
    arrived: Vec<u64>,
    destination: Destination,
    folder: tempfile::TempDir,
}

fn destination() -> Destination {
    Destination::new("cloud".to_owned(), "http://127.0.0.1:9/".to_owned())
}

fn answered(status: u16) -> Outcome {
    Outcome::Answered(Answer {
        status,
        retry_after: None,
        head: b"because".to_vec(),
        headers: Vec::new(),
    })
}

fn refused() -> Outcome {
    Outcome::Unreachable("connection refused".to_owned())
}

impl World {
    fn new() -> Self {
        Self::with(destination())
    }

    fn with(destination: Destination) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::open(folder, Arc::new(ManualClock::default()), destination)
    }

    fn open(folder: tempfile::TempDir, clock: Arc<ManualClock>, destination: Destination) -> Self {
        let store = Store::open(&folder.path().join("events.redb"), 7).expect("a store");
        let store = Arc::new(store);
        let committer = Committer::new(
            Arc::clone(&store),
            clock.clone(),
            1 << 30,
            Retention::DEFAULT,
        );
        let dispatcher = Dispatcher::new(
            Arc::clone(&store),
            clock.clone(),
            Rng::from_seed(1),
            &[(CLOUD, &destination)],
        );
        Self {
            clock,
            store,
            committer: committer.expect("a committer"),
            dispatcher: dispatcher.expect("a dispatcher"),
            tried: Vec::new(),
            arrived: Vec::new(),
            destination,
            folder,
        }
    }

    fn crash(self) -> Self {
        let Self {
            clock,
            store,
            committer,
            dispatcher,
            destination,
            folder,
            ..
        } = self;
        drop((committer, dispatcher, store));
        Self::open(folder, clock, destination)
    }

    fn commit(&mut self, work: Vec<Work<()>>) -> Vec<Done> {
        let step = self.committer.step(work).expect("the store works");
        for notice in step.notices {
            self.dispatcher.heed(notice).expect("the store works");
        }
        step.answers.into_iter().map(|((), done)| done).collect()
    }

    fn receive(&mut self, count: u64, lane: Lane) {
        let work = (0..count).map(|_| Work::Admit(Box::new(admission(lane)), ()));
        self.commit(work.collect());
    }

    fn claim(&mut self) -> Option<Job> {
        let job = self.dispatcher.claim().expect("the store works")?;
        self.tried.push((job.delivery.seq.0, job.progress));
        Some(job)
    }

    fn conclude(&mut self, job: Job, outcome: Outcome) {
        let settlement = self.end(job, outcome).map(Box::new);
        self.commit(settlement.into_iter().map(Work::Settle).collect());
    }

    /// An attempt ends. What is to be settled has not reached the committer.
    fn end(&mut self, job: Job, outcome: Outcome) -> Option<Settlement> {
        if matches!(&outcome, Outcome::Answered(answer) if answer.status == 200) {
            self.arrived.push(job.delivery.seq.0);
        }
        let attempt = Attempt {
            delivery: job.delivery,
            progress: job.progress,
            outcome,
            took: Duration::ZERO,
        };
        let name = format!("#{}", job.delivery.seq);
        let concluded = Concluded { attempt, name };
        let settlement = self.dispatcher.conclude(concluded);
        settlement.expect("the store works")
    }

    /// Tries whatever may be tried for so long, each attempt ending at once.
    fn run(&mut self, how_long: Duration, upstream: impl Fn(u64) -> Outcome) {
        let end = self.clock.moment() + how_long;
        loop {
            while let Some(job) = self.claim() {
                let outcome = upstream(job.delivery.seq.0);
                self.conclude(job, outcome);
            }
            let now = self.clock.moment();
            let due = self
                .dispatcher
                .wake_at()
                .into_iter()
                .chain(self.committer.due());
            match due.min() {
                Some(due) if due < end => self.clock.advance(due.since(now)),
                _ => break,
            }
            self.commit(Vec::new());
        }
        self.clock.advance(end.since(self.clock.moment()));
        self.commit(Vec::new());
    }

    fn backlog(&self) -> (u64, u64) {
        let counters = self.store.counters().expect("counters");
        let backlog = counters.backlog.get(&CLOUD).copied().unwrap_or_default();
        (backlog.pending, backlog.dead)
    }

    fn replay(&mut self, seq: u64) -> u64 {
        let replay = Operation::Replay(vec![target(seq)]);
        let done = self.commit(vec![Work::Operate(replay, ())]);
        match &done[..] {
            [Done::Operated(report)] => report.done,
            _ => unreachable!("an operation is answered with its report"),
        }
    }
}

fn target(seq: u64) -> Target {
    Target {
        seq: Seq(seq),
        destination: Some(DestinationRef {
            number: CLOUD,
            name: "cloud".to_owned(),
        }),
    }
}

fn admission(lane: Lane) -> Admission {
    let event = Event {
        event_id: None,
        device: None,
        route: None,
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/".to_vec(),
        headers: Vec::new(),
        received: Reading::default(),
        boot: 1,
        length: 0,
        kept: 0,
        digest: Digest::of(b""),
        event_time: None,
        items: None,
        revision_of: None,
        priority: crate::event::USUAL_PRIORITY,
        quarantine: None,
        to: vec![Address {
            destination: CLOUD,
            lane,
        }],
    };
    Admission {
        event,
        body: Vec::new(),
        key: None,
        within: None,
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_outage_of_a_week_costs_no_event_its_attempts() {
    let mut world = World::new();
    for device in 0..3 {
        world.receive(100, Lane(device));
    }
    world.run(7 * 24 * HOUR, |_| refused());
    assert_eq!(world.backlog(), (300, 0));
    let attempts = world.tried.iter().map(|(_, progress)| progress.attempts);
    assert_eq!(attempts.max(), Some(0));
    world.tried.clear();
    world.run(RetryPolicy::DEFAULT.max.mul_f64(1.2), |_| answered(200));
    assert_eq!(world.backlog(), (0, 0));
    for device in 0..3 {
        let of_device = world.arrived.iter().filter(|seq| *seq / 100 == device);
        assert!(of_device.is_sorted(), "device {device}");
    }
    assert_eq!(world.arrived.len(), 300, "each arrived once");
}

#[test]
fn a_refused_event_is_a_dead_letter_and_the_others_of_its_device_go_on() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    world.run(HOUR, |seq| answered(if seq == 1 { 422 } else { 200 }));
    assert_eq!(world.arrived, [0, 2]);
    assert_eq!(world.backlog(), (0, 1));
    let dead = world
        .store
        .dead_letter(CLOUD, Seq(1))
        .expect("readable")
        .expect("there");
    let words = (dead.outcome.as_str(), dead.answer.as_str());
    assert_eq!(words, ("HTTP 422", "because"));
    assert_eq!(world.replay(1), 1);
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0, 2, 1]);
    assert_eq!(world.backlog(), (0, 0));
}

#[test]
fn a_poison_event_is_tried_ten_times_while_others_pass() {
    let mut world = World::new();
    for device in 0..5 {
        world.receive(20, Lane(device));
    }
    world.run(24 * HOUR, |seq| answered(if seq == 7 { 500 } else { 200 }));
    assert_eq!(world.arrived.len(), 99);
    assert_eq!(world.backlog(), (0, 1));
    let poison = world.tried.iter().filter(|(seq, _)| *seq == 7);
    let counted: Vec<u32> = poison.map(|(_, progress)| progress.attempts).collect();
    let ten: Vec<u32> = (0..10).collect();
    assert_eq!(counted[..10], ten);
    assert_eq!(
        counted[10..],
        [9],
        "once more, after the next one proved it"
    );
}

#[test]
fn an_outage_of_answers_costs_no_event_even_where_a_lone_device_sends() {
    for (status, devices) in [(502, 1), (500, 1), (503, 2)] {
        let mut world = World::new();
        for device in 0..devices {
            world.receive(20, Lane(device));
        }
        world.run(12 * HOUR, |_| answered(status));
        assert_eq!(world.backlog(), (20 * devices, 0), "{status}");
        world.run(HOUR, |_| answered(200));
        assert_eq!(world.backlog(), (0, 0), "{status}");
        let of_first = world.arrived.iter().filter(|seq| **seq < 20);
        assert!(of_first.is_sorted(), "{status}: {:?}", world.arrived);
    }
}

#[test]
fn a_poison_event_of_a_lone_device_is_proven_by_the_next_one() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    world.run(24 * HOUR, |seq| answered(if seq == 0 { 500 } else { 200 }));
    assert_eq!(world.arrived, [1, 2]);
    assert_eq!(world.backlog(), (0, 1));
    let dead = world.store.dead_letter(CLOUD, Seq(0));
    let dead = dead.expect("readable").expect("there");
    assert_eq!((dead.reason, dead.attempts), (DeadReason::Exhausted, 10));
}

#[test]
fn where_each_lane_begins_with_poison_the_events_behind_it_arrive() {
    let mut world = World::new();
    for device in 0..4 {
        world.receive(5, Lane(device));
    }
    let is_poison = |seq| seq % 5 == 0;
    let upstream = |seq| answered(if is_poison(seq) { 500 } else { 200 });
    world.run(24 * HOUR, upstream);
    assert_eq!(world.arrived.len(), 16);
    assert_eq!(world.backlog(), (0, 4));
    let poison = world.tried.iter().filter(|(seq, _)| is_poison(*seq));
    let most = poison.map(|(_, progress)| progress.attempts).max();
    assert_eq!(most, Some(9), "each died of its ten attempts");
}

#[test]
fn a_poison_event_that_nothing_follows_waits_for_a_witness() {
    let mut world = World::new();
    let upstream = |seq| answered(if seq == 0 { 500 } else { 200 });
    world.receive(1, Lane(1));
    world.run(24 * HOUR, upstream);
    assert_eq!(world.backlog(), (1, 0));
    assert_eq!(world.dispatcher.destinations()[0].state, State::Down);
    world.receive(1, Lane(1));
    world.run(HOUR, upstream);
    assert_eq!(world.backlog(), (0, 1));
    assert_eq!(world.arrived, [1]);
}

#[test]
fn a_suspect_that_is_discarded_while_it_stands_aside_stays_discarded() {
    let mut world = World::new();
    world.receive(2, Lane(1));
    let mut tries = 0;
    let next = loop {
        let Some(job) = world.claim() else {
            let due = world.dispatcher.wake_at().expect("something is due");
            world.clock.advance(due.since(world.clock.moment()));
            continue;
        };
        if job.delivery.seq == Seq(1) {
            break job;
        }
        tries += 1;
        assert!(tries <= 10, "the next one has its turn");
        world.conclude(job, answered(500));
    };
    world.commit(vec![Work::Operate(Operation::Discard(vec![target(0)]), ())]);
    world.conclude(next, answered(200));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [1]);
}

#[test]
fn a_suspect_whose_move_to_a_lane_of_its_own_is_not_on_disk_yet_is_tried_again() {
    let mut world = World::new();
    world.receive(1, Lane::unordered("door"));
    let mut unsettled = Vec::new();
    for _ in 0..RetryPolicy::DEFAULT.max_attempts {
        let job = world.claim().expect("it is due");
        unsettled.extend(world.end(job, answered(500)));
        let due = world.dispatcher.wake_at().expect("it is tried again");
        world.clock.advance(due.since(world.clock.moment()));
    }
    let unsettled = unsettled.into_iter().map(Box::new).map(Work::Settle);
    world.commit(unsettled.collect());
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0]);
    assert_eq!(world.backlog(), (0, 0));
}

#[test]
fn what_comes_back_while_it_is_in_flight_is_tried_again() {
    let mut world = World::new();
    world.receive(2, Lane(1));
    let first = world.claim().expect("the first");
    world.commit(vec![Work::Operate(Operation::Discard(vec![target(0)]), ())]);
    // An operator's change of mind reaches the store before the attempt ends.
    let pending = Pending {
        id: first.delivery,
        progress: Progress {
            attempts: 0,
            replayed: true,
        },
    };
    let put = world.store.write(store::Sync::Usual, |tables| {
        tables.put_pending(pending.id, pending.progress)
    });
    put.expect("the store works");
    let heeded = world.dispatcher.heed(Notice::Arrived(pending));
    heeded.expect("the store works");
    world.conclude(first, answered(500));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0, 1]);
}

#[test]
fn what_was_settled_is_not_tried_again_before_it_is_on_disk() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    let first = world.claim().expect("the first");
    world.conclude(first, answered(422));
    world.clock.advance(Duration::from_secs(2));
    world.commit(Vec::new());
    let second = world.claim().expect("the second");
    // The replay of the first sends the reading of the lane back behind the second, whose
    // settlement is still in memory when the third is looked for.
    assert_eq!(world.replay(0), 1);
    world.conclude(second, answered(200));
    let again = world.claim().expect("the first again");
    assert_eq!(again.delivery.seq, Seq(0));
    assert!(again.progress.replayed);
    world.conclude(again, answered(200));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [1, 0, 2]);
    assert_eq!(world.backlog(), (0, 0));
}

#[test]
fn without_order_a_failing_event_waits_alone() {
    let mut world = World::new();
    let lane = Lane::unordered("door");
    world.receive(50, lane);
    world.run(Duration::from_millis(500), |seq| {
        answered(if seq == 3 { 500 } else { 200 })
    });
    assert_eq!(world.arrived.len(), 49, "the others pass it");
    let mut world = world.crash();
    let heads = world.store.lane_heads(CLOUD).expect("readable");
    assert!(heads.len() <= 2, "{heads:?}");
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.backlog(), (0, 0));
    assert!(world.arrived.contains(&3));
}

#[test]
fn a_restart_goes_on_where_it_was_and_counts_on() {
    let mut world = World::new();
    world.receive(2, Lane(1));
    world.run(Duration::from_secs(5), |_| answered(500));
    let charged = world.tried.last().expect("it was tried").1.attempts;
    assert!(0 < charged);
    world.run(Duration::from_secs(2), |_| answered(500));
    let mut world = world.crash();
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0, 1]);
    assert!(charged <= world.tried[0].1.attempts, "{:?}", world.tried);
}

#[test]
fn a_hold_outlives_a_restart() {
    let mut world = World::new();
    world.receive(1, Lane(1));
    let hold = Operation::Hold("cloud".to_owned());
    world.commit(vec![Work::Operate(hold, ())]);
    assert!(world.dispatcher.hold("cloud", true));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.tried, []);
    let mut world = world.crash();
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.tried, []);
    assert!(world.dispatcher.destinations()[0].held_by_operator);
    let release = Operation::Release("cloud".to_owned());
    world.commit(vec![Work::Operate(release, ())]);
    assert!(world.dispatcher.hold("cloud", false));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0]);
    assert!(!world.dispatcher.hold("elsewhere", true));
}

#[test]
fn a_discarded_delivery_is_not_tried() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    world.commit(vec![Work::Operate(Operation::Discard(vec![target(0)]), ())]);
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [1, 2]);
}

/// Fails the first event of the only lane as often as an event may, but for once.
fn all_but_once(world: &mut World, outcome: impl Fn() -> Outcome) -> Job {
    let most = usize::try_from(destination().retry.max_attempts).expect("a small number");
    let mut failed = 0;
    loop {
        let Some(job) = world.claim() else {
            let due = world.dispatcher.wake_at().expect("something is due");
            world.clock.advance(due.since(world.clock.moment()));
            continue;
        };
        assert_eq!(job.delivery.seq, Seq(0), "nobody overtakes it");
        failed += 1;
        if failed == most {
            return job;
        }
        world.conclude(job, outcome());
    }
}

#[test]
fn nobody_overtakes_an_event_whose_destination_was_held_while_it_was_tried() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    let last = all_but_once(&mut world, || answered(500));
    assert!(world.dispatcher.hold("cloud", true));
    world.conclude(last, answered(500));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0_u64; 0]);
    assert!(world.dispatcher.hold("cloud", false));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0, 1, 2]);
}

#[test]
fn a_suspect_waits_in_its_old_place_when_an_operator_holds_its_destination() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    let last = all_but_once(&mut world, || answered(500));
    world.conclude(last, answered(500));
    assert!(world.dispatcher.hold("cloud", true));
    assert!(world.dispatcher.hold("cloud", false));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0, 1, 2]);
}

#[test]
fn nobody_overtakes_an_event_whose_probes_nobody_answered() {
    let mut world = World::new();
    for device in 0..4 {
        world.receive(2, Lane(device));
    }
    world.run(24 * HOUR, |_| Outcome::TimedOut);
    // It may have arrived.
    let heads = world.tried.iter().filter(|(seq, _)| seq % 2 == 0).count();
    assert_eq!(heads, world.tried.len());
    assert!(100 < heads, "{heads}");
    assert_eq!(world.backlog(), (8, 0));
}

#[test]
fn the_witness_of_a_suspect_is_tried_before_other_lanes() {
    let mut world = World::new();
    world.receive(2, Lane(1));
    let last = all_but_once(&mut world, || answered(500));
    // Ready before the witness is.
    world.receive(3, Lane(2));
    world.conclude(last, answered(500));
    let next = world.claim().expect("at once");
    assert_eq!(next.delivery.seq, Seq(1));
}

#[test]
fn an_event_that_was_given_up_while_it_was_tried_does_not_die_of_it() {
    let mut world = World::new();
    world.receive(1, Lane(1));
    let job = world.claim().expect("it is due");
    let id = job.delivery;
    world
        .dispatcher
        .heed(Notice::Discarded(id))
        .expect("the store works");
    let damage = Outcome::Damaged("its record is missing".to_owned());
    assert_eq!(world.end(job, damage), None);
}
