//! What keeps a backlog from doing harm: rates, hours, proofs, overrides.

use super::*;
use crate::pace::{HEAD_BYTES, Hours, Plan, Rate};

const S: Duration = Duration::from_secs(1);

fn paced(plan: Plan) -> World {
    let mut destination = destination();
    destination.pace = plan;
    World::with(destination)
}

fn rate(amount: u64) -> Rate {
    Rate::new(amount, S, format!("{amount}/s"))
}

fn night() -> Option<Hours> {
    Hours::parse("22:00-06:00").ok()
}

impl World {
    fn why(&self) -> String {
        self.dispatcher.destinations()[0].why.clone()
    }

    /// It is so many hours after midnight.
    fn set_hour(&self, hour: i64, certain: bool) {
        let wall = Timestamp::from_ms(hour * 3_600_000);
        self.clock.set_wall(wall, certain);
    }
}

#[test]
fn a_backlog_goes_at_its_rate_and_probes_count_too() {
    for outcome in [answered(200), refused(), answered(500)] {
        let mut world = paced(Plan {
            events: Some(rate(10)),
            ..Plan::default()
        });
        for device in 0..100 {
            world.receive(10, Lane(device));
        }
        world.run(20 * S, |_| outcome.clone());
        let tried = world.tried.len();
        // What one second gives may go at once, and then twenty seconds of it.
        assert!(tried <= 210, "{outcome}: {tried}");
        assert!(
            outcome != answered(200) || 209 <= tried,
            "{outcome}: {tried}"
        );
        world.run(HOUR, |_| answered(200));
        assert_eq!(world.backlog(), (0, 0), "{outcome}");
    }
}

#[test]
fn bytes_are_those_of_the_bodies_and_a_large_one_is_paid_off() {
    let mut world = paced(Plan {
        bytes: Some(rate(10_000)),
        ..Plan::default()
    });
    for body in [100_000, 1_000 - HEAD_BYTES] {
        let mut admission = admission(Lane(1));
        admission.event.kept = body;
        world.commit(vec![Work::Admit(Box::new(admission), ())]);
    }
    world.run(S, |_| answered(200));
    assert_eq!(world.arrived, [0], "it is sent though it is too large");
    let why = world.why();
    assert!(why.starts_with("up, "), "{why}");
    assert!(
        why.ends_with(" at a time, at most 10000/s: next attempt in 8.1 s"),
        "{why}"
    );
    world.run(8 * S, |_| answered(200));
    assert_eq!(world.arrived, [0]);
    world.run(S, |_| answered(200));
    assert_eq!(world.arrived, [0, 1]);
}

#[test]
fn outside_its_hours_nothing_is_sent_not_even_a_probe() {
    let mut world = paced(Plan {
        hours: night(),
        ..Plan::default()
    });
    world.set_hour(12, true);
    world.receive(3, Lane(1));
    world.run(9 * HOUR, |_| answered(200));
    assert_eq!(world.tried, []);
    let state = &world.dispatcher.destinations()[0];
    assert!(state.is_closed);
    let closed = "closed, it opens at 22:00, in 1.0 h (up, 1 at a time, only 22:00-06:00)";
    assert_eq!(state.why, closed);
    world.run(HOUR + S, |_| refused());
    assert!(!world.tried.is_empty());
    assert!(!world.dispatcher.destinations()[0].is_closed);
    // It is down when its hours end.
    world.run(7 * HOUR + HOUR, |_| refused());
    let tried = world.tried.len();
    world.run(15 * HOUR, |_| answered(200));
    assert_eq!(world.tried.len(), tried);
    let why = world.why();
    assert!(why.starts_with("closed, it opens at 22:00, in "), "{why}");
    assert!(
        why.contains("(down: connection refused, not up for "),
        "{why}"
    );
    world.run(2 * HOUR, |_| answered(200));
    assert_eq!(world.arrived, [0, 1, 2]);
}

#[test]
fn a_gateway_that_does_not_know_the_hour_sends() {
    let mut world = paced(Plan {
        hours: night(),
        ..Plan::default()
    });
    world.set_hour(12, false);
    world.receive(1, Lane(1));
    world.run(S, |_| answered(200));
    assert_eq!(world.arrived, [0]);
}

#[test]
fn an_operators_hold_counts_more_than_hours_and_rates() {
    let mut world = paced(Plan {
        events: Some(rate(1)),
        hours: night(),
        ..Plan::default()
    });
    world.set_hour(12, true);
    assert!(world.dispatcher.hold("cloud", true));
    let why = world.why();
    assert!(why.starts_with("held by operator for "), "{why}");
    world.set_hour(23, true);
    world.receive(1, Lane(1));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.tried, []);
}

#[test]
fn what_a_destination_says_of_its_answers_is_what_follows() {
    let mut destination = destination();
    for (key, word) in [("404", "dead"), ("409", "delivered"), ("4xx", "down")] {
        destination.classify.add(key, word).expect("a constant");
    }
    let mut world = World::with(destination);
    world.receive(3, Lane(1));
    let statuses = [404, 409, 422];
    world.run(HOUR, |seq| {
        answered(statuses[usize::try_from(seq).expect("small")])
    });
    assert_eq!(world.backlog(), (1, 1));
    let why = world.why();
    assert!(why.starts_with("down: HTTP 422, "), "{why}");
    assert!(
        world
            .tried
            .iter()
            .all(|(_, progress)| progress.attempts == 0)
    );
}

#[test]
fn a_week_behind_a_portal_costs_no_event_its_attempts() {
    let mut world = World::new();
    for device in 0..3 {
        world.receive(30, Lane(device));
    }
    let portal = "HTTP 200 without the proof in header X-Ack";
    world.run(7 * 24 * HOUR, |_| Outcome::Unproven(portal.to_owned()));
    assert_eq!(world.backlog(), (90, 0));
    let attempts = world.tried.iter().map(|(_, progress)| progress.attempts);
    assert_eq!(attempts.max(), Some(0));
    let why = world.why();
    assert!(
        why.starts_with(&format!("down: {portal}, not up for 7")),
        "{why}"
    );
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.backlog(), (0, 0));
}

#[test]
fn a_flush_tries_what_waits_for_its_pause() {
    let mut world = World::new();
    for device in 0..3 {
        world.receive(1, Lane(device));
    }
    // One that fails alone waits for its own pause, while others arrive.
    world.run(30 * S, |seq| answered(if seq == 0 { 500 } else { 200 }));
    assert_eq!(world.arrived.len(), 2);
    world.tried.clear();
    assert_eq!(world.dispatcher.flush("cloud"), Some(true));
    world.run(Duration::ZERO, |_| answered(200));
    assert_eq!(world.arrived.len(), 3, "{:?}", world.tried);
    // The whole destination.
    world.receive(1, Lane(1));
    world.run(HOUR, |_| refused());
    world.tried.clear();
    assert_eq!(world.dispatcher.flush("cloud"), Some(true));
    world.run(Duration::ZERO, |_| answered(200));
    assert_eq!(world.arrived.len(), 4);
    // What an operator holds stays held.
    world.receive(1, Lane(1));
    assert!(world.dispatcher.hold("cloud", true));
    assert_eq!(world.dispatcher.flush("cloud"), Some(false));
    world.run(HOUR, |_| answered(200));
    assert_eq!(world.arrived.len(), 4);
    assert_eq!(world.dispatcher.flush("elsewhere"), None);
}

#[test]
fn after_a_restart_with_a_backlog_the_first_attempt_waits_for_its_own_moment() {
    let mut world = World::new();
    world.receive(3, Lane(1));
    let mut world = world.crash();
    assert_eq!(world.claim(), None);
    let due = world.dispatcher.wake_at().expect("it will be due");
    assert!(due.since(world.clock.moment()) < 2 * S);
    world.run(2 * S, |_| answered(200));
    assert_eq!(world.arrived, [0, 1, 2]);
    world.run(HOUR, |_| answered(200));
    // One that has nothing to catch up with does not wait.
    let mut world = world.crash();
    world.receive(1, Lane(1));
    assert!(world.claim().is_some());
}
