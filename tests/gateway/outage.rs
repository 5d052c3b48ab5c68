//! An upstream that is away, refuses everything, wants a pause or is too slow: nothing of that
//! costs an event its attempts or its place.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::process::{Plan, Site};
use crate::common::upstream::{Received, Reply, Upstream};

/// The longest pause of a site's plan, with its jitter.
const PROBE: Duration = Duration::from_millis(1200);

/// Asserts that each device's events came in the order in which it sent them, each once. Their
/// names are `<device>-<number>`.
fn assert_in_order(received: &[Arc<Received>]) {
    let mut next: HashMap<&str, usize> = HashMap::new();
    for received in received {
        let (device, number) = received.name().split_once('-').unwrap_or_default();
        let next = next.entry(device).or_default();
        assert_eq!(number, next.to_string(), "the next of {device}");
        *next += 1;
    }
}

#[test]
fn ten_thousand_events_of_an_outage_arrive_in_order_and_none_is_dead() {
    const CONNECTIONS: usize = 16;
    const DEVICES: usize = 20;
    const EACH: usize = 500;
    let mut upstream = Upstream::away(|_| Reply::Status(202));
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start_quietly();
    let turn = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let mut connection = gateway.connect();
                // A device's events follow one another, over whatever connection.
                while let device @ ..DEVICES = turn.fetch_add(1, Ordering::SeqCst) {
                    for number in 0..EACH {
                        let name = format!("cam{device}");
                        connection.deliver(&name, &format!("{name}-{number}"));
                    }
                }
            });
        }
    });
    let down = site.destination();
    assert_eq!(down["state"], "down", "{down}");
    assert_eq!(down["pending"], DEVICES * EACH, "{down}");
    let began = Instant::now();
    upstream.listen();
    let first = upstream.wait_for(1)[0].at - began;
    assert!(first < PROBE, "the first came after {first:?}");
    let received = upstream.wait_for(DEVICES * EACH);
    site.wait_until_empty();
    assert_eq!(upstream.received().len(), DEVICES * EACH);
    assert_in_order(&received);
    assert_eq!(site.json(&["dead"]).len(), 0);
    assert!(received.iter().all(|received| received.attempt() == "1"));
    gateway.stop();
}

#[test]
fn a_401_holds_the_destination_and_costs_nothing() {
    let is_known = Arc::new(AtomicBool::new(false));
    let knows = Arc::clone(&is_known);
    let upstream = Upstream::start(move |_| {
        if knows.load(Ordering::SeqCst) {
            Reply::Status(200)
        } else {
            Reply::Status(401)
        }
    });
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    let ids: Vec<String> = (0..30).map(|number| format!("e-{number:02}")).collect();
    for id in &ids {
        device.deliver("cam-7", id);
    }
    let line = gateway.log.wait_for("[alert destination-held] cloud: held");
    assert!(line.contains("HTTP 401"), "{line}");
    let held = site.destination();
    assert_eq!(
        (&held["state"], &held["pending"]),
        (&"held".into(), &30.into())
    );
    let why = held["why"].as_str().unwrap_or_default();
    assert!(
        why.contains("HTTP 401") && why.contains("next probe in"),
        "{why}"
    );
    is_known.store(true, Ordering::SeqCst);
    site.succeed(&["release", "cloud"]);
    let received = upstream.wait_for(31);
    site.wait_until_empty();
    let names: Vec<&str> = received[1..].iter().map(|one| one.name()).collect();
    assert_eq!(names, ids);
    assert!(received.iter().all(|received| received.attempt() == "1"));
    assert_eq!(site.json(&["dead"]).len(), 0);
}

#[test]
fn a_retry_after_pauses_the_destination_and_costs_nothing() {
    let asked = AtomicBool::new(false);
    let upstream = Upstream::start(move |_| {
        if asked.swap(true, Ordering::SeqCst) {
            Reply::Status(200)
        } else {
            Reply::Later(2)
        }
    });
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    for number in 0..10 {
        let device = format!("cam-{number}");
        gateway.connect().deliver(&device, &format!("e-{number}"));
    }
    let received = upstream.wait_for(11);
    let pauses: Vec<Duration> = received
        .windows(2)
        .map(|two| two[1].at - two[0].at)
        .collect();
    assert!(Duration::from_secs(2) <= pauses[0], "{pauses:?}");
    assert!(received.iter().all(|received| received.attempt() == "1"));
    gateway.log.wait_for("[destination cloud] paused: HTTP 503");
    gateway.log.wait_for("[destination cloud] up after 2.");
}

#[test]
fn an_answer_that_does_not_come_in_time_counts_and_others_go_on() {
    let upstream = Upstream::start(|received| match (received.name(), received.attempt()) {
        ("slow", "1" | "2") => Reply::Never,
        _ => Reply::Status(200),
    });
    let destination = "timeout = \"300ms\"";
    let site = Site::new(
        &upstream,
        Plan {
            destination,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "slow");
    device.deliver("cam-7", "after");
    for number in 0..20 {
        device.deliver("cam-8", &format!("e-{number}"));
    }
    let received = upstream.wait_for(24);
    let of = |name: &str| -> Vec<&str> {
        let named = received.iter().filter(|received| received.name() == name);
        named.map(|received| received.attempt()).collect()
    };
    assert_eq!(of("slow"), ["1", "2", "3"]);
    assert_eq!(of("after"), ["1"]);
    assert_eq!(received.last().map(|last| last.name()), Some("after"));
    let keys: Vec<&str> = received
        .iter()
        .filter(|received| received.name() == "slow")
        .map(|received| received.key())
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    let line = gateway.log.wait_for("[event slow] attempt 1 to cloud: ");
    assert!(line.contains("retry in 0.1 s (3"), "{line}");
}

#[test]
fn an_event_whose_answer_was_lost_comes_again_with_the_same_key() {
    let asked = AtomicBool::new(false);
    let upstream = Upstream::start(move |_| {
        if asked.swap(true, Ordering::SeqCst) {
            Reply::Status(200)
        } else {
            Reply::HangUp
        }
    });
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    gateway.connect().deliver("cam-7", "e-1");
    gateway
        .log
        .wait_for("[event e-1] delivered to cloud: HTTP 200, attempt 1");
    let received = upstream.received();
    let taken: Vec<bool> = received
        .iter()
        .map(|received| received.was_taken())
        .collect();
    assert_eq!(taken, [false, true]);
    assert_eq!(received[0].key(), received[1].key());
    assert_eq!(received[0].body, received[1].body);
}
