//! Each row of the state table, and the promises of the head.

use super::*;
use crate::delivery::{Answer, RetryAfter};

const POLICY: RetryPolicy = RetryPolicy {
    jitter: 0.0,
    ..RetryPolicy::DEFAULT
};
const S: Duration = Duration::from_secs(1);

/// A destination with 8 workers, the time, and a short way to tell what ended.
struct World {
    health: Health,
    now: Moment,
    rng: Rng,
}

impl World {
    fn new() -> Self {
        Self {
            health: Health::new(8, POLICY),
            now: Moment::START,
            rng: Rng::from_seed(1),
        }
    }

    /// One whose first answers led to `state`, with its next probe due.
    fn in_state(state: State) -> Self {
        let mut world = Self::new();
        match state {
            State::Up => {}
            State::Down => _ = world.ends(100, &unreachable_host()),
            State::Held => _ = world.ends(100, &answer(401)),
            State::Paused => _ = world.ends(100, &answer(429)),
        }
        assert_eq!(world.health.state(), state);
        world.until_due();
        world
    }

    fn until_due(&mut self) {
        self.now = self.health.next_at(self.now).unwrap_or(self.now);
    }

    /// An attempt that began now ends now.
    fn ends(&mut self, seq: u64, outcome: &Outcome) -> (Ruling, Option<Change>) {
        self.ends_late(seq, self.now, outcome)
    }

    fn ends_late(
        &mut self,
        seq: u64,
        began: Moment,
        outcome: &Outcome,
    ) -> (Ruling, Option<Change>) {
        let ended = Ended {
            seq: Seq(seq),
            began,
            verdict: retry::classify(outcome),
            is_last: false,
            outcome,
        };
        let reading = Reading::default();
        self.health
            .observe(&ended, self.now, reading, &mut self.rng)
    }

    fn waits(&self) -> Option<Duration> {
        Some(self.health.next_at(self.now)?.since(self.now))
    }
}

fn answer(status: u16) -> Outcome {
    answer_after(status, None)
}

fn answer_after(status: u16, seconds: Option<u64>) -> Outcome {
    let delay = |seconds| RetryAfter::Delay(Duration::from_secs(seconds));
    Outcome::Answered(Answer {
        status,
        retry_after: seconds.map(delay),
        head: Vec::new(),
        headers: Vec::new(),
    })
}

fn unreachable_host() -> Outcome {
    Outcome::Unreachable("connection refused".to_owned())
}

#[test]
fn each_row_of_the_table_holds() {
    // What ends; then what follows in each state, of a fresh attempt and of a late one.
    type Row = (Outcome, [(Ruling, State); 4], [(Ruling, State); 4]);
    use Ruling::{Charge, Dead, Delivered, Spare};
    use State::{Down, Held, Paused, Up};
    let damaged = Outcome::Damaged("header record".to_owned());
    let states = [Up, Down, Held, Paused];
    let all = |ruling| states.map(|state| (ruling, state));
    let rows: [Row; 7] = [
        (
            answer(200),
            [Up; 4].map(|state| (Delivered, state)),
            [Up, Up, Up, Paused].map(|state| (Delivered, state)),
        ),
        (answer(422), [Up; 4].map(|state| (Dead, state)), all(Dead)),
        (
            answer(500),
            [(Charge, Up), (Spare, Down), (Spare, Down), (Charge, Up)],
            all(Spare),
        ),
        (answer(429), [(Spare, Paused); 4], all(Spare)),
        (answer(401), [(Spare, Held); 4], all(Spare)),
        (unreachable_host(), [(Spare, Down); 4], all(Spare)),
        (damaged, all(Dead), all(Dead)),
    ];
    for (outcome, fresh, late) in rows {
        for (index, state) in states.into_iter().enumerate() {
            let mut world = World::in_state(state);
            let (ruling, change) = world.ends(1, &outcome);
            let after = world.health.state();
            assert_eq!((ruling, after), fresh[index], "{outcome} while {state}");
            assert_eq!(change.is_some(), after != state, "{outcome} while {state}");

            let mut world = World::in_state(state);
            if state == Up {
                // Down and up again, so that an attempt from before can be late.
                let _ = world.ends(100, &unreachable_host());
                world.until_due();
                let _ = world.ends(101, &answer(200));
            }
            let (ruling, change) = world.ends_late(1, Moment::START, &outcome);
            let after = world.health.state();
            assert_eq!((ruling, after), late[index], "late {outcome} while {state}");
            assert_eq!(
                change.is_some(),
                after != state,
                "late {outcome} while {state}"
            );
        }
    }
}

#[test]
fn the_window_doubles_with_each_success_and_halves_with_each_counted_failure() {
    let mut world = World::new();
    assert_eq!(world.health.allowance(world.now, 0), 1);
    for window in [2, 4, 8, 8] {
        let _ = world.ends(1, &answer(200));
        assert_eq!(world.health.allowance(world.now, 0), window);
    }
    assert_eq!(world.health.allowance(world.now, 3), 5);
    assert_eq!(world.health.allowance(world.now, 9), 0);
    for window in [4, 2, 1, 1] {
        let _ = world.ends(7, &answer(500));
        assert_eq!(world.health.allowance(world.now, 0), window);
    }
    assert_eq!(Health::new(0, POLICY).allowance(Moment::START, 0), 1);
}

#[test]
fn whoever_is_not_up_is_tried_by_one_probe_at_a_time() {
    for state in [State::Down, State::Held, State::Paused] {
        let mut world = World::new();
        let due = World::in_state(state).now;
        world.health = World::in_state(state).health;
        assert_eq!(world.health.allowance(world.now, 0), 0, "{state}");
        assert_eq!(world.health.next_at(world.now), Some(due), "{state}");
        assert_eq!(world.health.allowance(due, 0), 1, "{state}");
        assert_eq!(world.health.allowance(due, 1), 0, "{state}");
        assert_eq!(world.health.next_at(due), None, "{state}");
    }
}

#[test]
fn an_outage_is_one_step_of_backoff_however_many_were_in_flight() {
    let mut world = World::new();
    for seq in 0..8 {
        let (ruling, change) = world.ends(seq, &unreachable_host());
        assert_eq!(ruling, Ruling::Spare);
        assert_eq!(change.is_some(), seq == 0, "{seq}");
    }
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        assert_eq!(world.waits(), Some(pause * S));
        world.until_due();
        let _ = world.ends(pause.into(), &unreachable_host());
        // One that hung since before the outage, and ends after the probe.
        let _ = world.ends_late(9, Moment::START, &Outcome::TimedOut);
    }
    let (_, change) = world.ends_late(1, Moment::START, &answer(200));
    let words = change.map(|change| change.to_string());
    assert_eq!(words.as_deref(), Some("up after 18.5 min"));
    assert_eq!(world.health.allowance(world.now, 0), 1);
}

#[test]
fn several_events_that_fail_with_no_success_between_are_an_outage() {
    use Ruling::{Charge, Spare};
    let mut world = World::new();
    let rulings: Vec<_> = [1, 2, 2, 1, 3, 4]
        .map(|seq| world.ends(seq, &answer(500)).0)
        .to_vec();
    assert_eq!(rulings, [Charge, Charge, Charge, Charge, Spare, Spare]);
    assert_eq!(world.health.state(), State::Down);
    // Probes take turns over many events and cost none of them anything.
    for seq in 1..200 {
        world.until_due();
        assert_eq!(world.ends(seq, &Outcome::TimedOut).0, Spare, "{seq}");
    }
}

#[test]
fn a_poison_event_is_charged_each_time_while_others_arrive() {
    let mut world = World::new();
    for seq in 1..100 {
        assert_eq!(world.ends(0, &answer(500)).0, Ruling::Charge);
        assert_eq!(world.ends(1_000 + seq, &answer(500)).0, Ruling::Charge);
        assert_eq!(world.ends(seq, &answer(200)).0, Ruling::Delivered);
    }
    assert_eq!(world.health.state(), State::Up);
}

#[test]
fn a_poison_event_is_charged_even_if_there_is_nothing_else_to_try() {
    for state in [State::Up, State::Down, State::Held, State::Paused] {
        for poison in [1, 2] {
            let mut world = World::in_state(state);
            let mut charged = 0;
            for attempt in 0..40 {
                world.until_due();
                let (ruling, _) = world.ends(attempt % poison, &answer(500));
                charged += u32::from(ruling == Ruling::Charge);
            }
            assert!(38 <= charged, "{poison} while {state}: {charged}");
        }
    }
}

#[test]
fn a_bad_deployment_upstream_does_not_make_dead_letters_of_the_backlog() {
    let mut world = World::new();
    for seq in 1..20 {
        assert_eq!(world.ends(seq, &answer(422)), (Ruling::Dead, None), "{seq}");
    }
    let (ruling, change) = world.ends(20, &answer(422));
    assert_eq!(ruling, Ruling::Spare);
    let words = change.map(|change| change.to_string());
    let held = "held: 20 events in a row refused, the last with HTTP 422, next probe in 5.0 min";
    assert_eq!(words.as_deref(), Some(held));
    // Those in flight, the probes, and what is refused after another outage stay pending too.
    assert_eq!(world.ends(21, &answer(422)), (Ruling::Spare, None));
    for seq in [22, 23, 1] {
        world.until_due();
        assert_eq!(world.ends(seq, &answer(422)), (Ruling::Spare, None));
    }
    world.until_due();
    let _ = world.ends(24, &unreachable_host());
    assert_eq!(world.health.state(), State::Down);
    world.until_due();
    assert_eq!(world.ends(24, &answer(422)).0, Ruling::Spare);
    assert_eq!(world.health.state(), State::Held);
    // One that arrives ends the run.
    world.until_due();
    assert_eq!(world.ends(25, &answer(200)).0, Ruling::Delivered);
    assert_eq!(world.ends(20, &answer(422)), (Ruling::Dead, None));
}

#[test]
fn a_success_between_keeps_the_breaker_shut() {
    let mut world = World::new();
    for seq in 0..500 {
        let outcome = answer(if seq % 20 == 19 { 200 } else { 422 });
        assert_ne!(world.ends(seq, &outcome).0, Ruling::Spare, "{seq}");
    }
}

#[test]
fn a_pause_is_as_long_as_asked_or_as_the_backoff_whichever_is_longer() {
    let rows = [
        (answer(429), 1, 2),
        (answer_after(429, Some(0)), 1, 2),
        (answer_after(429, Some(30)), 30, 30),
        (answer_after(503, Some(600)), 600, 600),
        (answer_after(429, Some(86_400)), 3_600, 3_600),
    ];
    for (outcome, first, second) in rows {
        let mut world = World::new();
        let _ = world.ends(1, &outcome);
        assert_eq!(world.waits(), Some(first * S), "{outcome:?}");
        world.until_due();
        let _ = world.ends(1, &outcome);
        assert_eq!(world.waits(), Some(second * S), "{outcome:?}");
    }
}

#[test]
fn an_operators_hold_lies_on_top() {
    let mut world = World::in_state(State::Down);
    assert_eq!(world.health.hold(world.now), Some(Change::HeldByOperator));
    assert_eq!(world.health.hold(world.now), None);
    assert_eq!(world.health.allowance(world.now, 0), 0);
    // What was in flight ends as always.
    assert_eq!(world.ends(1, &answer(200)).0, Ruling::Delivered);
    assert_eq!(world.health.allowance(world.now + 3_600 * S, 0), 0);
    let released = Some(Change::ReleasedByOperator);
    assert_eq!(world.health.release(world.now), released);
    assert_eq!(world.health.allowance(world.now, 0), 1);
    assert_eq!(world.health.release(world.now), None);
}

#[test]
fn release_makes_the_next_probe_due_and_forgets_the_run_of_dead_letters() {
    let mut world = World::new();
    for seq in 1..=20 {
        let _ = world.ends(seq, &answer(422));
    }
    assert_eq!(world.health.allowance(world.now, 0), 0);
    let released = Some(Change::ReleasedByOperator);
    assert_eq!(world.health.release(world.now), released);
    assert_eq!(world.health.allowance(world.now, 0), 1);
    assert_eq!(world.ends(20, &answer(422)).0, Ruling::Dead);
    assert_eq!(world.health.state(), State::Up);
}

#[test]
fn a_flush_makes_the_next_try_due_and_forgets_nothing() {
    for state in [State::Down, State::Held, State::Paused] {
        let mut world = World::new();
        world.health = World::in_state(state).health;
        assert_eq!(world.health.allowance(world.now, 0), 0, "{state}");
        let flushed = world.health.flush(world.now);
        assert_eq!(flushed, Some(Change::FlushedByOperator), "{state}");
        assert_eq!(world.health.allowance(world.now, 0), 1, "{state}");
        let (_, change) = world.ends(1, &answer(200));
        assert!(
            matches!(change, Some(Change::Up { .. })),
            "{state}: {change:?}"
        );
    }
    // What fails again waits as long as it would have next.
    let mut world = World::in_state(State::Down);
    let _ = world.ends(1, &unreachable_host());
    let _ = world.health.flush(world.now);
    let _ = world.ends(1, &unreachable_host());
    assert_eq!(world.waits(), Some(4 * S));
    // The run of dead letters goes on, and an operator's hold stays.
    let mut world = World::new();
    for seq in 1..=20 {
        let _ = world.ends(seq, &answer(422));
    }
    let _ = world.health.flush(world.now);
    assert_eq!(world.ends(20, &answer(422)).0, Ruling::Spare);
    let _ = world.health.hold(world.now);
    assert_eq!(world.health.flush(world.now), None);
    assert_eq!(world.health.allowance(world.now + 3_600 * S, 0), 0);
}

/// What happens to one gateway of a fleet.
type Falls = &'static dyn Fn(&mut World);

#[test]
fn a_fleet_that_loses_its_upstream_at_one_instant_does_not_come_back_in_step() {
    // What each gateway of a thousand waits for, in milliseconds.
    let fleet = |falls: Falls| {
        let waits = |seed| {
            let mut world = World {
                health: Health::new(8, RetryPolicy::DEFAULT),
                now: Moment::START,
                rng: Rng::from_seed(seed),
            };
            falls(&mut world);
            world.waits().expect("it waits").as_millis()
        };
        let mut all: Vec<u128> = (0..1_000).map(waits).collect();
        all.sort_unstable();
        all
    };
    let rows: [(&str, Falls, [u128; 2], u128); 4] = [
        (
            "the first probe",
            &|world| _ = world.ends(1, &unreachable_host()),
            [200, 1_800],
            700,
        ),
        (
            "the probe of what is held",
            &|world| _ = world.ends(1, &answer(401)),
            [240_000, 360_000],
            50_000,
        ),
        (
            "the end of a pause that all were told",
            &|world| _ = world.ends(1, &answer_after(503, Some(60))),
            [60_000, 72_000],
            2_000,
        ),
        (
            "the first attempt with a backlog",
            &|world| {
                let health = world.health.clone();
                world.health = health.with_backlog(world.now, &mut world.rng);
                assert_eq!(world.health.allowance(world.now, 0), 0);
            },
            [200, 1_800],
            700,
        ),
    ];
    for (what, falls, [least, most], apart) in rows {
        let waits = fleet(falls);
        assert!(least <= waits[0] && waits[999] <= most, "{what}: {waits:?}");
        assert!(waits[250] + apart < waits[750], "{what}: {waits:?}");
    }
}

#[test]
fn a_gateway_that_starts_with_a_backlog_waits_once() {
    let mut world = World::new();
    world.health = world.health.with_backlog(world.now, &mut world.rng);
    assert_eq!(world.waits(), Some(S));
    let health = world.health.clone();
    world.until_due();
    assert_eq!(world.health.allowance(world.now, 0), 1);
    assert_eq!(world.waits(), None);
    // An operator who cannot wait need not.
    for wish in [Health::flush, Health::release] {
        let mut health = health.clone();
        let _ = health.hold(Moment::START);
        let _ = health.release(Moment::START);
        let _ = wish(&mut health, Moment::START);
        assert_eq!(health.allowance(Moment::START, 0), 1);
    }
}

#[test]
fn a_destination_says_in_words_how_it_is() {
    let mut world = World::new();
    assert_eq!(world.health.why(world.now), "up, 1 at a time");
    let (_, change) = world.ends(1, &unreachable_host());
    let words = change.map(|change| change.to_string());
    let down = "down: connection refused, next probe in 1.0 s";
    assert_eq!(words.as_deref(), Some(down));
    world.until_due();
    let due = "down: connection refused, not up for 1.0 s, next probe is due";
    assert_eq!(world.health.why(world.now), due);
    let _ = world.ends(2, &answer_after(429, Some(30)));
    let paused = "paused: HTTP 429, not up for 1.0 s, next attempt in 30.0 s";
    assert_eq!(world.health.why(world.now), paused);
    let _ = world.health.hold(world.now);
    let held = "held by operator for 1.0 min, nothing is sent \
        (paused: HTTP 429, not up for 1.0 min)";
    assert_eq!(world.health.why(world.now + 60 * S), held);
}

#[test]
fn an_event_that_breaks_the_connection_each_time_is_charged_in_the_end() {
    let mut world = World::new();
    for fall in 1..SEVERAL {
        let (ruling, change) = world.ends(7, &unreachable_host());
        assert_eq!(ruling, Ruling::Spare, "{fall}");
        assert!(change.is_some(), "{fall}");
        world.until_due();
        assert_eq!(world.ends(8, &answer(200)).0, Ruling::Delivered, "{fall}");
    }
    let (ruling, change) = world.ends(7, &unreachable_host());
    assert_eq!((ruling, change), (Ruling::Charge, None));
    // Another event that can't be sent means what it always meant.
    assert_eq!(world.ends(9, &unreachable_host()).0, Ruling::Spare);
    assert_eq!(world.health.state(), State::Down);
}

#[test]
fn the_pauses_of_an_outage_of_answers_grow_to_the_longest_and_it_is_said_once() {
    let mut world = World::new();
    let mut said = 0;
    let mut last = Duration::ZERO;
    // One lone event, for hours: probed, charged for want of witnesses, suspected.
    for _ in 0..200 {
        world.until_due();
        let began = world.now;
        let (ruling, change) = world.ends(7, &answer(500));
        said += usize::from(change.is_some());
        if ruling == Ruling::Charge {
            let now = world.now;
            let change = world.health.suspect(&answer(500), now, &mut world.rng);
            said += usize::from(change.is_some());
        }
        last = world.waits().unwrap_or(last);
        assert!(began <= world.now);
    }
    assert_eq!(last, POLICY.max);
    assert_eq!(said, 1);
    world.until_due();
    let (_, change) = world.ends(7, &answer(200));
    assert!(matches!(change, Some(Change::Up { .. })), "{change:?}");
}

#[test]
fn an_event_that_breaks_its_schema_says_nothing_of_the_destination() {
    let breaks = Outcome::Invalid("at /: it is no object".to_owned());
    for state in [State::Up, State::Down, State::Held, State::Paused] {
        let mut world = World::in_state(state);
        for seq in 0..BREAKER as u64 - 1 {
            assert_eq!(world.ends(seq, &breaks), (Ruling::Dead, None), "{state}");
        }
        assert_eq!(world.health.state(), state);
        // A wrong schema must not make dead letters of the whole backlog.
        assert_eq!(world.ends(99, &breaks).0, Ruling::Spare, "{state}");
        assert_eq!(world.health.state(), State::Held);
    }
}
