//! What is given up when the store is full, and what never is.

use super::*;

/// Room for ten events of a kilobyte.
const QUOTA: u64 = 25_000;

fn full(is_shedding: bool) -> Bench {
    let mut bench = bench_with(QUOTA);
    let store = Arc::clone(&bench.store);
    let named = |tables: &mut store::Tables<'_>| tables.put_meta("destination/cloud", &CLOUD);
    store.write(Sync::Usual, named).expect("the store works");
    if is_shedding {
        bench.committer = bench.committer.with_shedding();
    }
    for number in 0.. {
        // By turns of priority 2 and 1.
        let priority = if number % 2 == 0 { 2 } else { 1 };
        if bench.send(&format!("e-{number}"), priority, 1_000) == Done::Full {
            break;
        }
    }
    bench
}

fn letter(reason: DeadReason) -> DeadLetter {
    DeadLetter {
        reason,
        at: Timestamp::default(),
        lane: lane(),
        attempts: 1,
        outcome: "HTTP 422".to_owned(),
        answer: String::new(),
    }
}

impl Bench {
    fn send(&mut self, event_id: &str, priority: u8, length: usize) -> Done {
        let mut admission = admission(event_id, &vec![b'x'; length]);
        admission.event.priority = priority;
        let step = self.step(vec![Work::Admit(Box::new(admission), 1)]);
        step.answers[0].1.clone()
    }

    /// Sends it again while it is refused, as devices do: what has ended is looked for first.
    fn insist(&mut self, event_id: &str, priority: u8, length: usize) -> Done {
        let mut done = Done::Full;
        for _ in 0..10 {
            done = self.send(event_id, priority, length);
            if done != Done::Full {
                break;
            }
        }
        done
    }

    /// Sends events until one is refused. The number after the last.
    fn fill(&mut self, from: u64, priority: u8, length: usize) -> u64 {
        let mut number = from;
        while self.send(&format!("e-{number}"), priority, length) != Done::Full {
            number += 1;
        }
        number
    }

    fn waiting(&self) -> Vec<u64> {
        let pending = self.store.pending_after(None, 10_000).expect("readable");
        pending.iter().map(|pending| pending.id.seq.0).collect()
    }

    fn shed(&self) -> u64 {
        self.store.counters().expect("readable").totals.shed
    }
}

#[test]
fn the_oldest_of_the_lowest_priority_makes_room_and_is_told_of() {
    let mut bench = full(true);
    let before = bench.waiting();
    assert!(matches!(bench.insist("new", 3, 1_000), Done::Stored(_)));
    let after = bench.waiting();
    assert!(
        !after.contains(&1),
        "seq 1 has the lowest priority: {after:?}"
    );
    assert_eq!(after.len(), before.len());
    assert_eq!(bench.shed(), 1);
    while matches!(
        bench.insist(&format!("{}", bench.shed()), 3, 1_000),
        Done::Stored(_)
    ) {}
    let priorities: Vec<u8> = bench
        .waiting()
        .iter()
        .map(|seq| {
            bench
                .store
                .event(Seq(*seq))
                .expect("readable")
                .expect("there")
        })
        .map(|event| event.priority)
        .collect();
    assert!(
        priorities.iter().all(|priority| *priority == 3),
        "{priorities:?}"
    );
    assert_eq!(bench.shed(), before.len() as u64);
}

#[test]
fn nothing_is_given_up_for_its_equal_or_where_nobody_said_so() {
    for (is_shedding, priority) in [(true, 1), (true, 0), (false, 9)] {
        let mut bench = full(is_shedding);
        let before = bench.waiting();
        let done = bench.insist("new", priority, 1_000);
        assert_eq!(done, Done::Full, "{is_shedding} {priority}");
        assert_eq!(bench.waiting(), before);
        assert_eq!(bench.shed(), 0);
    }
}

#[test]
fn nothing_is_given_up_for_what_still_has_no_room() {
    let mut bench = full(true);
    let before = bench.waiting();
    assert_eq!(bench.insist("new", 9, 30_000), Done::Full);
    assert_eq!(bench.waiting(), before);
    assert_eq!(bench.shed(), 0);
}

#[test]
fn a_dead_letter_and_what_is_being_settled_stay() {
    let mut bench = full(true);
    let letter = Change::Dead(letter(DeadReason::Rejected));
    bench.step(vec![settlement(Seq(1), letter.clone())]);
    // Not on disk yet, and in the step of the new event.
    let mut new = admission("new", &[b'x'; 1_000]);
    new.event.priority = 3;
    let work = vec![Work::Admit(Box::new(new), 1), settlement(Seq(3), letter)];
    let step = bench.step(work);
    assert!(matches!(step.answers[0].1, Done::Stored(_)));
    let gone: Vec<u64> = (0..9)
        .filter(|seq| !bench.waiting().contains(seq))
        .collect();
    assert_eq!(gone, [1, 3, 5]);
    for seq in [1, 3] {
        let letter = bench.store.dead_letter(CLOUD, Seq(seq)).expect("readable");
        assert!(letter.is_some(), "{seq}");
        assert!(bench.store.has_body(Seq(seq)).expect("readable"), "{seq}");
    }
}

#[test]
fn what_is_given_up_of_a_picture_stays_to_be_seen() {
    let mut bench = bench_with(200_000);
    bench.committer = bench.committer.with_shedding();
    for number in 0..4 {
        bench.insist(&format!("e-{number}"), 2, 40_000);
    }
    assert!(matches!(bench.insist("new", 3, 40_000), Done::Stored(_)));
    let gone = Seq(0);
    assert!(!bench.waiting().contains(&0));
    assert!(!bench.store.has_body(gone).expect("readable"));
    bench.clock.advance(Duration::from_secs(3_600));
    bench.step(Vec::new());
    assert!(bench.store.event(gone).expect("readable").is_some());
    let trail = bench.store.trail(gone).expect("readable");
    let actions: Vec<&Action> = trail.iter().map(|entry| &entry.action).collect();
    let shed = Action::Shed {
        destination: None,
        priority: 2,
    };
    assert_eq!(actions, [&shed]);
}

#[test]
fn what_was_given_up_does_not_expire_by_a_clock_that_nobody_vouches_for() {
    let mut bench = bench_with(200_000);
    bench.committer = bench.committer.with_shedding();
    let day = |number: i64| Timestamp::from_ms(number * 86_400_000);
    bench.clock.set_wall(day(1), true);
    for number in 0..4 {
        bench.insist(&format!("e-{number}"), 2, 40_000);
    }
    assert!(matches!(bench.insist("new", 3, 40_000), Done::Stored(_)));
    let gone = Seq(0);
    for (certain, is_there) in [(false, true), (true, false)] {
        bench.clock.set_wall(day(400), certain);
        for _ in 0..10 {
            bench.clock.advance(Duration::from_secs(10));
            bench.step(Vec::new());
        }
        let found = bench.store.event(gone).expect("readable").is_some();
        assert_eq!(found, is_there, "certain: {certain}");
    }
}

#[test]
fn the_lowest_priority_goes_first_however_far_back_it_is() {
    let mut bench = bench_with(64 << 20);
    bench.committer = bench.committer.with_shedding();
    // One of them is given up, and others are known by then.
    let mut number = bench.fill(0, 3, 180_000);
    assert!(matches!(bench.insist("first", 5, 180_000), Done::Stored(_)));
    assert_eq!(bench.shed(), 1);
    // Half are delivered and expire, since there is little room.
    for seq in (50..number).map(Seq) {
        bench.step(vec![settlement(seq, Change::Delivered)]);
    }
    for _ in 0..30 {
        bench.clock.advance(Duration::from_secs(10));
        bench.step(Vec::new());
    }
    // More come than are looked at in one step, and then one that matters less.
    let small = (0..7_000).map(|number| {
        let mut admission = admission(&format!("s-{number}"), b"x");
        admission.event.priority = 3;
        Work::Admit(Box::new(admission), 1)
    });
    bench.step(small.collect());
    let lowest = match bench.insist("lowest", 1, 300_000) {
        Done::Stored(seq) => seq,
        done => unreachable!("{done:?}"),
    };
    number = bench.fill(number, 3, 180_000);
    let mut tries = 0;
    while bench.insist(&format!("last-{number}"), 5, 180_000) == Done::Full {
        tries += 1;
        assert!(tries < 10, "there is enough to give up");
    }
    assert_eq!(bench.shed(), 2);
    assert!(!bench.store.has_body(lowest).expect("readable"));
}

#[test]
fn nothing_is_given_up_for_what_can_not_be_delivered() {
    let mut bench = full(true);
    let before = bench.waiting();
    let mut strange = admission("strange", &[b'x'; 1_000]);
    strange.event.priority = 9;
    strange.event.quarantine = Some(Quarantine::NoRoute);
    strange.event.to.clear();
    for _ in 0..4 {
        let step = bench.step(vec![Work::Admit(Box::new(strange.clone()), 1)]);
        assert_eq!(step.answers[0].1, Done::Full);
    }
    assert_eq!(bench.waiting(), before);
}

#[test]
fn what_has_ended_goes_before_anything_that_waits() {
    let mut bench = bench_with(4 << 20);
    bench.committer = bench.committer.with_shedding();
    // Far behind a backlog of small ones.
    let small = (0..1_500).map(|number| {
        let mut admission = admission(&format!("s-{number}"), b"x");
        admission.event.priority = 1;
        Work::Admit(Box::new(admission), 1)
    });
    bench.step(small.collect());
    let number = bench.fill(0, 2, 30_000);
    let ended = bench.store.counters().expect("readable").next_seq - number;
    for seq in (ended..ended + number).map(Seq) {
        bench.step(vec![settlement(seq, Change::Delivered)]);
    }
    bench.clock.advance(RIDE);
    bench.step(Vec::new());
    let waiting = bench.store.counters().expect("readable").backlog[&CLOUD].pending;
    for fresh in 0..number {
        let done = bench.insist(&format!("new-{fresh}"), 9, 30_000);
        assert!(matches!(done, Done::Stored(_)), "{fresh} of {number}");
    }
    assert_eq!(bench.shed(), 0);
    let backlog = bench.store.counters().expect("readable").backlog[&CLOUD];
    assert_eq!(backlog.pending, waiting + number);
    // And then what waits.
    let done = bench.insist("last", 9, 30_000);
    assert!(matches!(done, Done::Stored(_)));
    assert!(0 < bench.shed());
}

#[test]
fn what_waits_again_is_found_again() {
    let mut bench = full(true);
    let seqs = bench.waiting();
    let letter = letter(DeadReason::Rejected);
    for seq in &seqs {
        let dead = Change::Dead(letter.clone());
        bench.step(vec![settlement(Seq(*seq), dead)]);
    }
    assert_eq!(bench.insist("new", 9, 1_000), Done::Full);
    let target = |seq: &u64| Target {
        seq: Seq(*seq),
        destination: Some(DestinationRef {
            number: CLOUD,
            name: "cloud".to_owned(),
        }),
    };
    let replay = Operation::Replay(seqs.iter().map(target).collect());
    bench.step(vec![Work::Operate(replay, 1)]);
    bench.clock.advance(Duration::from_secs(61));
    assert!(matches!(bench.insist("new", 9, 1_000), Done::Stored(_)));
}

#[test]
fn the_last_that_were_given_up_are_seen_also_after_a_restart() {
    let mut bench = bench_with(1 << 20);
    bench.committer = bench.committer.with_shedding();
    bench.fill(0, 2, 300);
    let mut given_up = Vec::new();
    for number in 0..100 {
        let before = bench.waiting();
        let done = bench.insist(&format!("new-{number}"), 3, 300);
        assert!(matches!(done, Done::Stored(_)), "{number}");
        let after = bench.waiting();
        given_up.extend(before.into_iter().filter(|seq| !after.contains(seq)));
    }
    for restarts in [0, 1] {
        for _ in 0..200 {
            bench.clock.advance(Duration::from_secs(1));
            bench.step(Vec::new());
        }
        let has_trail = |seq: &u64| !bench.trail(Seq(*seq)).is_empty();
        let seen: Vec<u64> = given_up.iter().copied().filter(has_trail).collect();
        let last = &given_up[given_up.len() - 32..];
        assert_eq!(seen, last, "after {restarts} restarts");
        let Bench {
            clock,
            store,
            committer,
            folder,
        } = bench;
        drop((committer, store));
        bench = open(folder, clock, 1 << 20);
    }
}

#[test]
fn an_event_that_was_given_up_while_it_was_tried_is_no_damaged_one() {
    let mut bench = full(true);
    assert!(matches!(bench.insist("new", 3, 1_000), Done::Stored(_)));
    assert_eq!(bench.trail(Seq(1)), []);
    let before = bench.store.counters().expect("readable").totals;
    let letter = letter(DeadReason::Damaged);
    bench.step(vec![settlement(Seq(1), Change::Dead(letter))]);
    bench.committer.finish().expect("the store works");
    assert_eq!(bench.store.counters().expect("readable").totals, before);
    assert_eq!(
        bench.store.dead_letter(CLOUD, Seq(1)).expect("readable"),
        None
    );
}
