//! An upstream that is wrong, or is somebody else, or must be spared: what the process makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::process::{Plan, Site};
use crate::common::upstream::{Reply, Upstream};

/// An upstream that answers one way until it is mended, and another from then on.
fn mended(before: Reply, after: Reply) -> (Upstream, Arc<AtomicBool>) {
    let is_mended = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_mended);
    let upstream = Upstream::start(move |_| {
        if asked.load(Ordering::SeqCst) {
            after
        } else {
            before
        }
    });
    (upstream, is_mended)
}

#[test]
fn a_bad_deployment_is_held_at_the_twentieth_event_and_loses_nothing() {
    const EVENTS: usize = 60;
    let (upstream, is_mended) = mended(Reply::Status(400), Reply::Status(202));
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    for number in 0..EVENTS {
        let device = format!("cam-{number}");
        gateway.connect().deliver(&device, &format!("e-{number}"));
    }
    let line = gateway.log.wait_for("[alert destination-held] cloud: held");
    assert!(
        line.contains("20 events in a row refused, the last with HTTP 400"),
        "{line}"
    );
    let held = site.destination();
    assert_eq!(held["state"], "held", "{held}");
    assert_eq!(
        (&held["dead"], &held["pending"]),
        (&19.into(), &(EVENTS - 19).into()),
        "{held}"
    );
    let why = held["why"].as_str().unwrap_or_default();
    assert!(
        why.contains("not up for") && why.contains("next probe in"),
        "{why}"
    );

    is_mended.store(true, Ordering::SeqCst);
    site.succeed(&["flush", "cloud"]);
    gateway
        .log
        .wait_for("[destination cloud] flushed by operator");
    gateway.log.wait_for("[destination cloud] up after ");
    site.succeed(&["replay", "--all"]);
    site.wait_until_empty();
    assert_eq!(site.json(&["dead"]).len(), 0);
    let taken = upstream.received();
    let mut names: Vec<&str> = taken
        .iter()
        .filter(|received| received.was_taken())
        .map(|received| received.name())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), EVENTS);
}

#[test]
fn a_portals_200_settles_nothing_where_a_proof_is_asked_for() {
    let (upstream, is_home) = mended(Reply::Status(200), Reply::Proven(200));
    let destination = "proof = { header = { name = \"X-Ack\", value = \"yes\" } }";
    let site = Site::new(
        &upstream,
        Plan {
            destination,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    for number in 0..10 {
        device.deliver("cam-7", &format!("e-{number}"));
    }
    let down = "[destination cloud] down: HTTP 200 without the proof in header X-Ack";
    gateway.log.wait_for(down);
    upstream.wait_for(4);
    let status = site.destination();
    assert_eq!(
        (&status["state"], &status["pending"]),
        (&"down".into(), &10.into()),
        "{status}"
    );
    is_home.store(true, Ordering::SeqCst);
    site.wait_until_empty();
    let received = upstream.received();
    let taken: Vec<&str> = received
        .iter()
        .map(|received| received.name())
        .skip(received.len() - 10)
        .collect();
    let sent: Vec<String> = (0..10).map(|number| format!("e-{number}")).collect();
    assert_eq!(taken, sent);
    assert!(received.iter().all(|received| received.attempt() == "1"));
    assert_eq!(site.json(&["dead"]).len(), 0);
}

#[test]
fn what_a_destination_says_of_its_answers_counts() {
    let upstream = Upstream::start(|received| match received.name() {
        "gone" => Reply::Status(404),
        "twice" => Reply::Status(409),
        _ => Reply::Status(200),
    });
    let destination = "classify = { 404 = \"dead\", 409 = \"delivered\" }";
    let site = Site::new(
        &upstream,
        Plan {
            destination,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    for id in ["gone", "twice", "e-1"] {
        device.deliver("cam-7", id);
    }
    gateway
        .log
        .wait_for("[event gone] dead letter for cloud: HTTP 404");
    gateway
        .log
        .wait_for("[event twice] delivered to cloud: HTTP 409");
    upstream.wait_for(3);
    site.wait_until_empty();
    assert_eq!(upstream.names(), ["gone", "twice", "e-1"]);
}

#[test]
fn a_backlog_goes_no_faster_than_its_rate() {
    const EVENTS: usize = 30;
    let mut upstream = Upstream::away(|_| Reply::Status(202));
    let destination = "rate = { events = \"10/s\" }";
    let site = Site::new(
        &upstream,
        Plan {
            destination,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    for number in 0..EVENTS {
        let device = format!("cam-{number}");
        gateway.connect().deliver(&device, &format!("e-{number}"));
    }
    upstream.listen();
    let received = upstream.wait_for(EVENTS);
    let took = received[EVENTS - 1].at - received[0].at;
    // What a second gives may go at once.
    let least = Duration::from_millis(1_900);
    assert!(least <= took, "{EVENTS} events in {took:?}");
    let why = site.destination()["why"].to_string();
    assert!(why.contains("at most 10/s"), "{why}");
}
