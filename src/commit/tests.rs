//! The committer's promises, on a real store in a folder of its own.

mod repeats;
mod room;
mod shed;

use super::*;
use crate::clock::Timestamp;
use crate::clock::{ManualClock, Reading};
use crate::commit::operate::DestinationRef;
use crate::delivery::DeadReason;
use crate::event::{Address, DestinationNo, Digest, Quarantine};

const CLOUD: DestinationNo = DestinationNo(1);

struct Bench {
    clock: Arc<ManualClock>,
    store: Arc<Store>,
    committer: Committer,
    folder: tempfile::TempDir,
}

fn bench_with(max_bytes: u64) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    open(folder, Arc::new(ManualClock::default()), max_bytes)
}

fn open(folder: tempfile::TempDir, clock: Arc<ManualClock>, max_bytes: u64) -> Bench {
    let store = Store::open(&folder.path().join("events.redb"), 7).expect("a store");
    let store = Arc::new(store);
    let committer = Committer::new(
        Arc::clone(&store),
        clock.clone(),
        max_bytes,
        Retention::DEFAULT,
    );
    Bench {
        clock,
        store,
        committer: committer.expect("a committer"),
        folder,
    }
}

impl Bench {
    fn new() -> Self {
        bench_with(1 << 30)
    }

    /// As a crash leaves it: what was not committed is gone.
    fn crash(self) -> Self {
        let Self {
            clock,
            store,
            committer,
            folder,
        } = self;
        drop((committer, store));
        open(folder, clock, 1 << 30)
    }

    fn step(&mut self, work: Vec<Work<u32>>) -> Step<u32> {
        self.committer.step(work).expect("the store works")
    }

    fn settle(&mut self, change: Change) -> Step<u32> {
        self.step(vec![settlement(Seq(0), change)])
    }

    fn trail(&self, seq: Seq) -> Vec<Action> {
        let trail = self.store.trail(seq).expect("a trail");
        trail.into_iter().map(|entry| entry.action).collect()
    }

    fn backlog(&self) -> (u64, u64) {
        let counters = self.store.counters().expect("counters");
        let backlog = counters.backlog.get(&CLOUD).copied().unwrap_or_default();
        (backlog.pending, backlog.dead)
    }
}

fn lane() -> Lane {
    Lane::of_device("door", "cam-7")
}

fn id(seq: Seq) -> DeliveryId {
    DeliveryId {
        destination: CLOUD,
        lane: lane(),
        seq,
    }
}

fn admission(event_id: &str, body: &[u8]) -> Admission {
    let address = Address {
        destination: CLOUD,
        lane: lane(),
    };
    let event = Event {
        event_id: Some(event_id.to_owned()),
        device: Some("cam-7".to_owned()),
        route: Some("door".to_owned()),
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/ingest".to_vec(),
        headers: Vec::new(),
        received: Reading::default(),
        boot: 1,
        length: body.len() as u64,
        kept: body.len() as u64,
        digest: Digest::of(body),
        event_time: None,
        items: None,
        revision_of: None,
        priority: crate::event::USUAL_PRIORITY,
        quarantine: None,
        to: vec![address],
    };
    Admission {
        event,
        body: body.to_vec(),
        key: Some(DedupKey::new("door", "cam-7", event_id)),
        within: None,
    }
}

fn admit(event_id: &str, body: &[u8], who: u32) -> Work<u32> {
    Work::Admit(Box::new(admission(event_id, body)), who)
}

fn settlement(seq: Seq, change: Change) -> Work<u32> {
    settlement_at(Reading::default(), seq, change)
}

fn settlement_at(now: Reading, seq: Seq, change: Change) -> Work<u32> {
    let then = match change {
        Change::Delivered => Then::Delivered,
        Change::Retry { .. } => Then::RetryIn { pause_ms: 1 },
        Change::Dead(_) => Then::Dead,
    };
    let action = Action::Attempted {
        destination: "cloud".to_owned(),
        number: 1,
        outcome: "as the test says".to_owned(),
        took_ms: 1,
        then,
    };
    let entry = Entry::new(now, action);
    Work::Settle(Box::new(Settlement {
        id: id(seq),
        name: "e-1".to_owned(),
        change,
        entry,
    }))
}

fn dead_letter() -> Change {
    Change::Dead(DeadLetter {
        reason: DeadReason::Rejected,
        at: Timestamp::default(),
        lane: lane(),
        attempts: 1,
        outcome: "HTTP 422".to_owned(),
        answer: "no".to_owned(),
    })
}

fn target(seq: Seq) -> Target {
    Target {
        seq,
        destination: Some(DestinationRef {
            number: CLOUD,
            name: "cloud".to_owned(),
        }),
    }
}

#[test]
fn a_stored_event_is_there_with_its_bytes_and_its_delivery() {
    let mut bench = Bench::new();
    let step = bench.step(vec![admit("e-1", b"{\"a\":1}", 5)]);
    assert_eq!(step.answers, [(5, Done::Stored(Seq(0)))]);
    assert!(matches!(step.notices[..], [Notice::Arrived(pending)] if pending.id == id(Seq(0))));
    let bench = bench.crash();
    let event = bench.store.event(Seq(0)).expect("readable").expect("there");
    assert_eq!(event.event_id.as_deref(), Some("e-1"));
    assert_eq!(
        bench.store.body(Seq(0), &event).expect("whole"),
        Some(b"{\"a\":1}".to_vec())
    );
    assert_eq!(bench.backlog(), (1, 0));
}

#[test]
fn a_duplicate_is_recognised_in_the_same_step_later_and_after_a_crash() {
    let mut bench = Bench::new();
    let step = bench.step(vec![admit("e-1", b"x", 1), admit("e-1", b"x", 2)]);
    let stored = [(1, Done::Stored(Seq(0))), (2, Done::Duplicate(Seq(0)))];
    assert_eq!(step.answers, stored);
    assert_eq!(bench.backlog(), (1, 0));
    let step = bench.step(vec![admit("e-1", b"x", 3)]);
    assert_eq!(step.answers, [(3, Done::Duplicate(Seq(0)))]);
    let mut bench = bench.crash();
    let step = bench.step(vec![admit("e-1", b"x", 4), admit("e-1", b"y", 5)]);
    let answers = [(4, Done::Duplicate(Seq(0))), (5, Done::Stored(Seq(1)))];
    assert_eq!(step.answers, answers);
    let event = bench.store.event(Seq(1)).expect("readable").expect("there");
    assert_eq!(event.revision_of, Some(Seq(0)));
}

#[test]
fn a_retry_storm_costs_no_commits() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    let first = bench.step(vec![admit("e-1", b"x", 2)]);
    assert_eq!(first.took, None);
    bench.clock.advance(RIDE);
    assert!(
        bench.step(Vec::new()).took.is_some(),
        "it is said within a second"
    );
    for _ in 0..10 {
        let step = bench.step(vec![admit("e-1", b"x", 3)]);
        assert_eq!(step.took, None);
    }
    bench.clock.advance(Duration::from_secs(60));
    bench.step(Vec::new());
    let times = [
        Action::Duplicate { times: 2 },
        Action::Duplicate { times: 12 },
    ];
    assert_eq!(bench.trail(Seq(0)), times);
    let counters = bench.store.counters().expect("counters");
    assert_eq!(counters.totals.duplicates, 11);
}

#[test]
fn settlements_ride_along_or_go_alone_after_a_second() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    assert_eq!(bench.settle(Change::Delivered).took, None);
    assert_eq!(bench.backlog(), (1, 0));
    let step = bench.step(vec![admit("e-2", b"x", 2)]);
    assert_eq!(step.notices[0], Notice::Settled(id(Seq(0))));
    assert_eq!(bench.backlog(), (1, 0), "one left, one came");
    bench.step(vec![settlement(Seq(1), Change::Delivered)]);
    let due = bench.committer.due();
    assert!(due.is_some_and(|due| due <= Moment::at(RIDE)));
    bench.clock.advance(RIDE);
    assert!(bench.step(Vec::new()).took.is_some());
    assert_eq!(bench.backlog(), (0, 0));
}

#[test]
fn a_lost_settlement_leaves_the_delivery_pending() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    bench.settle(Change::Delivered);
    let bench = bench.crash();
    let head = bench
        .store
        .next_in_lane(CLOUD, lane(), None)
        .expect("readable");
    assert_eq!(head.map(|pending| pending.id), Some(id(Seq(0))));
}

#[test]
fn a_retry_keeps_its_count_and_may_move_to_a_lane_of_its_own() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    let progress = Progress {
        attempts: 3,
        replayed: false,
    };
    let lane = Lane::alone(Seq(0));
    bench.settle(Change::Retry { progress, lane });
    bench.committer.finish().expect("the store works");
    let heads = bench.store.lane_heads(CLOUD).expect("readable");
    let head = Pending {
        id: DeliveryId { lane, ..id(Seq(0)) },
        progress,
    };
    assert_eq!(heads, [head]);
    assert_eq!(bench.backlog(), (1, 0));
}

#[test]
fn a_dead_letter_waits_and_is_replayed_in_its_lane() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    bench.settle(dead_letter());
    let replay = Operation::Replay(vec![target(Seq(0)), target(Seq(0)), target(Seq(9))]);
    let step = bench.step(vec![Work::Operate(replay, 2)]);
    let Done::Operated(report) = &step.answers[0].1 else {
        unreachable!("an operation is answered with its report");
    };
    assert_eq!(report.done, 1);
    let refused = ["e-1 still waits for cloud", "there is no event with seq 9"];
    assert_eq!(report.refused, refused);
    let [Notice::Settled(_), Notice::Arrived(pending)] = step.notices[..] else {
        unreachable!("a settlement, then the replay: {:?}", step.notices);
    };
    assert_eq!(pending.id, id(Seq(0)));
    assert!(pending.progress.replayed);
    assert_eq!(bench.backlog(), (1, 0));
}

#[test]
fn what_is_discarded_stays_discarded() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1), admit("e-2", b"x", 2)]);
    let discard = Operation::Discard(vec![target(Seq(0))]);
    let step = bench.step(vec![Work::Operate(discard, 3)]);
    assert_eq!(step.notices, [Notice::Discarded(id(Seq(0)))]);
    bench.settle(dead_letter());
    bench.committer.finish().expect("the store works");
    assert_eq!(
        bench.backlog(),
        (1, 0),
        "an attempt that ends later does not bring it back"
    );
    assert_eq!(bench.trail(Seq(0)).len(), 2);
}

#[test]
fn quarantine_holds_an_event_without_deliveries_until_it_is_discarded() {
    let mut bench = Bench::new();
    let mut odd = admission("e-1", b"x");
    odd.event.quarantine = Some(Quarantine::NoRoute);
    odd.event.to.clear();
    let bytes = store::footprint(&odd.event, &odd.body);
    bench.step(vec![Work::Admit(Box::new(odd), 1), admit("e-2", b"x", 2)]);
    assert_eq!(
        bench.store.quarantined_after(None, 10).expect("readable"),
        [Seq(0)]
    );
    let held = bench.committer.quarantined();
    assert_eq!(held.bytes(), bytes, "only what is in quarantine counts");
    let store = Arc::clone(&bench.store);
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let restarted = Committer::new(store, clock, 1 << 30, Retention::DEFAULT);
    let restarted = restarted.expect("a committer").quarantined();
    assert_eq!(restarted.bytes(), bytes, "also after a restart");
    let quarantined = Target {
        seq: Seq(0),
        destination: None,
    };
    let replay = Operation::Replay(vec![quarantined.clone()]);
    let discard = Operation::Discard(vec![quarantined]);
    let step = bench.step(vec![Work::Operate(replay, 2), Work::Operate(discard, 3)]);
    let done = step.answers.iter().map(|(_, done)| match done {
        Done::Operated(report) => report.done,
        _ => unreachable!("an operation is answered with its report"),
    });
    assert_eq!(done.collect::<Vec<_>>(), [0, 1]);
    assert_eq!(bench.store.quarantined().expect("readable"), 0);
    assert_eq!(held.bytes(), 0);
}

#[test]
fn a_full_store_refuses_and_keeps_room_for_settlements() {
    let mut bench = bench_with(10_000);
    let mut stored = 0;
    for number in 0..20 {
        let step = bench.step(vec![admit(&format!("e-{number}"), b"x", 1)]);
        match step.answers[0].1 {
            Done::Stored(_) => stored += 1,
            Done::Full => break,
            _ => unreachable!("nothing else can happen to a new event"),
        }
    }
    assert!((5..9).contains(&stored), "{stored}");
    assert!(bench.store.counters().expect("counters").stored_bytes <= 9_000);
    bench.settle(Change::Delivered);
    bench.committer.finish().expect("the store works");
    assert_eq!(bench.backlog(), (stored - 1, 0));
}

#[test]
fn an_idle_committer_makes_the_next_start_quick_once() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    assert!(!bench.committer.checkpointed);
    bench.clock.advance(IDLE);
    bench.step(Vec::new());
    assert!(bench.committer.checkpointed);
    bench.clock.advance(IDLE);
    let step = bench.step(Vec::new());
    assert_eq!(step.took, None, "once is enough");
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Bench {
    /// Lets time pass, with a step whenever one is due.
    fn pass(&mut self, how_long: Duration) {
        let end = self.clock.moment() + how_long;
        while let Some(due) = self.committer.due().filter(|due| *due < end) {
            // A walk rests for minutes; skipping most of its steps keeps the test short.
            let pause = due.since(self.clock.moment()).max(Duration::from_secs(300));
            self.clock.advance(pause);
            self.step(Vec::new());
        }
    }

    /// What is left of the first event: its record and its body.
    fn left(&self, seq: Seq) -> (bool, bool) {
        let event = self.store.event(seq).expect("readable").is_some();
        (event, self.store.has_body(seq).expect("readable"))
    }
}

/// A delivered event, a dead letter, and one that is pending.
fn three_ends(bench: &mut Bench) {
    let admissions = ["e-0", "e-1", "e-2"].map(|id| admit(id, b"x", 1));
    bench.step(admissions.into());
    let now = bench.clock.reading();
    bench.step(vec![
        settlement_at(now, Seq(0), Change::Delivered),
        settlement_at(now, Seq(1), dead_letter()),
    ]);
    bench.committer.finish().expect("the store works");
}

#[test]
fn what_has_ended_expires_and_what_waits_stays() {
    let mut bench = Bench::new();
    bench
        .clock
        .set_wall(Timestamp::from_ms(1_790_000_000_000), true);
    three_ends(&mut bench);
    bench.pass(DAY / 2);
    assert_eq!(bench.left(Seq(0)), (true, true));
    bench.pass(DAY);
    assert_eq!(bench.left(Seq(0)), (true, false), "the body goes first");
    let replay = Operation::Replay(vec![target(Seq(0))]);
    let step = bench.step(vec![Work::Operate(replay, 2)]);
    let Done::Operated(report) = &step.answers[0].1 else {
        unreachable!("an operation is answered with its report");
    };
    assert_eq!(report.refused, ["the body of e-0 has expired"]);
    bench.pass(31 * DAY);
    assert_eq!(bench.left(Seq(0)), (false, false));
    let again = bench.step(vec![admit("e-0", b"x", 3)]);
    assert_eq!(again.answers, [(3, Done::Duplicate(Seq(0)))]);
    bench.committer.finish().expect("the store works");
    assert_eq!(bench.trail(Seq(0)), [], "nothing is noted of it any more");
    for seq in [1, 2] {
        assert_eq!(bench.left(Seq(seq)), (true, true), "seq {seq}");
    }
    let counters = bench.store.counters().expect("counters");
    assert_eq!(counters.events, 2);
    let per_event = store::footprint(&admission("e-0", b"x").event, b"x");
    let beside = counters.stored_bytes - 2 * per_event;
    assert!(
        (100..1_000).contains(&beside),
        "one dead letter and its entry: {beside}"
    );
}

#[test]
fn nothing_expires_by_a_clock_that_may_be_wrong() {
    // What ended under a wrong clock, and what is judged by one.
    for (then, now) in [(false, true), (true, false)] {
        let mut bench = Bench::new();
        bench.clock.set_wall(Timestamp::from_ms(0), then);
        three_ends(&mut bench);
        bench
            .clock
            .set_wall(Timestamp::from_ms(1_790_000_000_000), now);
        bench.pass(2 * DAY);
        assert_eq!(
            bench.left(Seq(0)),
            (true, true),
            "certain then {then}, now {now}"
        );
    }
}

#[test]
fn a_nearly_full_store_makes_room_from_what_has_ended() {
    let mut bench = bench_with(30_000);
    three_ends(&mut bench);
    let mut refused = 0;
    for number in 0..100 {
        let step = bench.step(vec![admit(&format!("n-{number}"), b"x", 1)]);
        match step.answers[0].1 {
            Done::Stored(seq) => {
                bench.step(vec![settlement(seq, Change::Delivered)]);
            }
            _ => refused += 1,
        }
        bench.clock.advance(SHORT);
    }
    assert_eq!(refused, 0);
    for seq in [1, 2] {
        assert_eq!(bench.left(Seq(seq)), (true, true), "seq {seq}");
    }
}

const SHORT: Duration = Duration::from_secs(1);
