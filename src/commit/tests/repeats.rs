//! What comes again.

use super::*;

/// Ten minutes.
const WITHIN: Duration = Duration::from_secs(600);

/// A request without an event id, recognised by its content.
fn nameless(body: &[u8], sender: &str, target: &[u8], received: Reading, boot: u64) -> Admission {
    let mut admission = admission("", body);
    let event = &mut admission.event;
    event.event_id = None;
    event.received = received;
    event.boot = boot;
    event.target = target.to_vec();
    let digest = &event.digest;
    admission.key = Some(DedupKey::of_content("door", sender, "POST", target, digest));
    admission.within = Some(WITHIN);
    admission
}

/// A request that can't be delivered.
fn strange(body: &[u8]) -> Work<u32> {
    let mut strange = nameless(body, "a", b"/", Reading::default(), 1);
    strange.event.quarantine = Some(Quarantine::NoRoute);
    strange.event.to.clear();
    strange.within = None;
    Work::Admit(Box::new(strange), 1)
}

fn reading(seconds: u64, certain: bool, uptime: u64) -> Reading {
    let wall = Timestamp::from_ms(i64::try_from(seconds * 1_000).expect("a small number"));
    Reading {
        wall,
        certain,
        uptime_ms: uptime * 1_000,
    }
}

impl Bench {
    fn arrive(&mut self, admission: Admission) -> Done {
        let step = self.step(vec![Work::Admit(Box::new(admission), 1)]);
        step.answers[0].1.clone()
    }
}

#[test]
fn the_same_bytes_within_the_window_are_a_duplicate_and_after_it_another_event() {
    let mut bench = Bench::new();
    let mut send = |uptime| bench.arrive(nameless(b"1", "a", b"/", reading(0, false, uptime), 1));
    assert_eq!(send(0), Done::Stored(Seq(0)));
    assert_eq!(send(300), Done::Duplicate(Seq(0)));
    assert_eq!(
        send(600),
        Done::Duplicate(Seq(0)),
        "the first counts, not the last"
    );
    assert_eq!(send(601), Done::Stored(Seq(1)));
    assert_eq!(send(1_200), Done::Duplicate(Seq(1)));
    assert_eq!(send(1_202), Done::Stored(Seq(2)));
}

#[test]
fn only_what_is_all_the_same_is_the_same_event() {
    let mut bench = Bench::new();
    let now = reading(0, false, 0);
    let rows: [(&[u8], &str, &[u8], u64); 5] = [
        (b"1", "a", b"/", 0),
        (b"2", "a", b"/", 1),
        (b"1", "b", b"/", 2),
        (b"1", "a", b"/?x", 3),
        (b"1", "a", b"/\xff", 4),
    ];
    let one = |row: &(&[u8], &str, &[u8], u64)| nameless(row.0, row.1, row.2, now, 1);
    for row in &rows {
        assert_eq!(bench.arrive(one(row)), Done::Stored(Seq(row.3)), "{row:?}");
    }
    for row in &rows {
        assert_eq!(
            bench.arrive(one(row)),
            Done::Duplicate(Seq(row.3)),
            "{row:?}"
        );
    }
}

#[test]
fn the_same_bytes_in_one_step_are_stored_once() {
    let mut bench = Bench::new();
    let again = || {
        let admission = nameless(b"1", "a", b"/", reading(0, false, 0), 1);
        Work::Admit(Box::new(admission), 1)
    };
    let step = bench.step(vec![again(), again()]);
    let done: Vec<Done> = step.answers.into_iter().map(|(_, done)| done).collect();
    assert_eq!(done, [Done::Stored(Seq(0)), Done::Duplicate(Seq(0))]);
}

#[test]
fn after_a_restart_the_window_goes_on_as_far_as_the_time_is_known() {
    // When and in which boot the first came, when and in which boot the same, whether it is one.
    let rows = [
        (reading(0, false, 100), 1, reading(0, false, 500), 1, true),
        (
            reading(5_000, true, 100),
            1,
            reading(5_300, true, 9),
            2,
            true,
        ),
        (
            reading(5_000, true, 100),
            1,
            reading(5_601, true, 9),
            2,
            false,
        ),
        (
            reading(5_000, true, 100),
            1,
            reading(5_300, false, 9),
            2,
            false,
        ),
        (
            reading(5_000, false, 100),
            1,
            reading(5_300, true, 9),
            2,
            false,
        ),
        (
            reading(5_000, true, 100),
            1,
            reading(4_000, true, 9),
            2,
            false,
        ),
    ];
    for (first, boot, again, next_boot, is_same) in rows {
        let mut bench = Bench::new();
        bench.arrive(nameless(b"1", "a", b"/", first, boot));
        let mut bench = bench.crash();
        let done = bench.arrive(nameless(b"1", "a", b"/", again, next_boot));
        let expected = if is_same {
            Done::Duplicate(Seq(0))
        } else {
            Done::Stored(Seq(1))
        };
        assert_eq!(done, expected, "{again:?}");
    }
}

#[test]
fn a_storm_of_what_can_not_be_delivered_costs_one_event_and_a_commit_a_minute() {
    let mut bench = Bench::new();
    let strange = || strange(b"1");
    bench.step(vec![strange()]);
    let mut commits = 0;
    for _ in 0..1_200 {
        bench.clock.advance(Duration::from_millis(100));
        let step = bench.step(vec![strange(), strange()]);
        let done: Vec<Done> = step.answers.into_iter().map(|(_, done)| done).collect();
        assert_eq!(done, [Done::Duplicate(Seq(0)), Done::Duplicate(Seq(0))]);
        commits += u64::from(step.took.is_some());
    }
    // After one second, and after each minute.
    assert_eq!(commits, 2);
    let Some(Action::Duplicate { times }) = bench.trail(Seq(0)).pop() else {
        unreachable!("it is said how often it came");
    };
    assert!(1_000 < times, "{times}");
    assert_eq!(bench.store.counters().expect("counters").events, 1);
}

#[test]
fn strangers_make_no_known_event_be_forgotten() {
    let mut bench = Bench::new();
    bench.step(vec![admit("e-1", b"x", 1)]);
    let strange = |number: usize| strange(number.to_string().as_bytes());
    bench.step((0..2 * STRANGE_WINDOW).map(strange).collect());
    let step = bench.step(vec![admit("e-1", b"x", 1), strange(0)]);
    let done: Vec<Done> = step.answers.into_iter().map(|(_, done)| done).collect();
    assert_eq!(done[0], Done::Duplicate(Seq(0)));
    assert!(matches!(done[1], Done::Stored(_)), "{done:?}");
}

#[test]
fn a_counter_that_starts_again_loses_nothing() {
    let mut bench = Bench::new();
    let mut seq = 0;
    for run in ["before", "after a reset", "after another"] {
        for number in 1..=3 {
            let body = format!("{run} {number}");
            let step = bench.step(vec![admit(&number.to_string(), body.as_bytes(), 1)]);
            assert_eq!(step.answers[0].1, Done::Stored(Seq(seq)), "{body}");
            let event = bench.store.event(Seq(seq)).expect("readable");
            let first = event.expect("there").revision_of;
            assert_eq!(first.is_some(), run != "before", "{body}");
            // What comes twice within a run is one event all the same.
            let step = bench.step(vec![admit(&number.to_string(), body.as_bytes(), 1)]);
            assert_eq!(step.answers[0].1, Done::Duplicate(Seq(seq)), "{body}");
            seq += 1;
        }
    }
    assert_eq!(bench.backlog(), (9, 0), "all are delivered");
}

#[test]
fn what_comes_again_is_known_though_its_record_is_gone() {
    let mut bench = bench_with(20_000);
    let send = |bench: &mut Bench, body: &[u8]| {
        bench.arrive(nameless(body, "a", b"/", reading(0, false, 0), 1))
    };
    // Nearly full, so that what is delivered goes at once.
    assert_eq!(send(&mut bench, &[b'x'; 15_200]), Done::Stored(Seq(0)));
    assert_eq!(send(&mut bench, b"1"), Done::Stored(Seq(1)));
    bench.step(vec![settlement(Seq(1), Change::Delivered)]);
    for _ in 0..5 {
        bench.clock.advance(RIDE);
        bench.step(Vec::new());
    }
    assert_eq!(bench.store.event(Seq(1)).expect("readable"), None);
    assert_eq!(send(&mut bench, b"1"), Done::Duplicate(Seq(1)));
}
