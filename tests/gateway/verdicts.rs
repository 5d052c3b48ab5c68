//! Events that the upstream blames: dead letters, and what an operator does about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::device::event;
use crate::common::process::{Plan, Site};
use crate::common::upstream::{Reply, Upstream};

#[test]
fn an_event_that_is_refused_is_a_dead_letter_at_once_and_a_replay_keeps_its_key() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let mended = Arc::clone(&is_mended);
    let upstream = Upstream::start(move |received| {
        let is_bad = received.name() == "bad" && !mended.load(Ordering::SeqCst);
        Reply::Status(if is_bad { 422 } else { 201 })
    });
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    for id in ["e-1", "bad", "e-2", "e-3"] {
        device.deliver("cam-7", id);
    }
    gateway
        .log
        .wait_for("[event bad] dead letter for cloud: HTTP 422");
    upstream.wait_for(4);
    site.wait_until_empty();
    assert_eq!(upstream.names(), ["e-1", "bad", "e-2", "e-3"]);
    let dead = site.json(&["dead"]);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["event_id"], "bad");
    assert_eq!(dead[0]["outcome"], "HTTP 422");
    assert_eq!(dead[0]["answer"], "{\"status\":422}");
    assert_eq!(site.body("bad"), event("cam-7", "bad").as_bytes());

    is_mended.store(true, Ordering::SeqCst);
    gateway.kill();
    let gateway = site.start();
    site.succeed(&["replay", "bad"]);
    let received = upstream.wait_for(5);
    gateway
        .log
        .wait_for("[event bad] replayed to cloud by operator");
    gateway
        .log
        .wait_for("[event bad] delivered to cloud: HTTP 201");
    let (first, again) = (&received[1], &received[4]);
    assert_eq!(again.key(), first.key());
    assert_eq!(again.body, first.body);
    assert_eq!(first.header("x-gatepost-replayed"), None);
    assert_eq!(again.header("x-gatepost-replayed"), Some("true"));
    assert_eq!(site.json(&["dead"]).len(), 0);
    // What was delivered can be sent again too.
    site.succeed(&["replay", "e-2"]);
    let received = upstream.wait_for(6);
    assert_eq!(received[5].key(), received[2].key());
    assert_eq!(received[5].header("x-gatepost-replayed"), Some("true"));
}

#[test]
fn all_dead_letters_are_replayed_in_the_order_in_which_they_came() {
    let is_mended = Arc::new(AtomicBool::new(false));
    let mended = Arc::clone(&is_mended);
    let upstream = Upstream::start(move |received| {
        let is_bad = received.name().starts_with("bad") && !mended.load(Ordering::SeqCst);
        Reply::Status(if is_bad { 400 } else { 200 })
    });
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    let bad: Vec<String> = (10..25).map(|number| format!("bad-{number}")).collect();
    for id in &bad {
        device.deliver("cam-7", id);
        device.deliver("cam-7", &id.replace("bad", "good"));
    }
    upstream.wait_for(30);
    site.wait_until_empty();
    assert_eq!(site.json(&["dead"]).len(), bad.len());
    is_mended.store(true, Ordering::SeqCst);
    let replayed = &site.json(&["replay", "--all"])[0];
    assert_eq!(replayed["done"], bad.len(), "{replayed}");
    upstream.wait_for(45);
    site.wait_until_empty();
    assert_eq!(upstream.names()[30..], bad);
    assert_eq!(site.json(&["dead"]).len(), 0);
    gateway.stop();
}

#[test]
fn an_event_that_always_fails_dies_alone_after_its_attempts() {
    let upstream = Upstream::start(|received| match received.name() {
        "poison" => Reply::Status(500),
        _ => Reply::Status(200),
    });
    let retry = "first = \"20ms\", max = \"100ms\", max_attempts = 4";
    let site = Site::new(
        &upstream,
        Plan {
            retry,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "poison");
    device.deliver("cam-7", "after");
    for number in 0..100 {
        device.deliver("cam-8", &format!("e-{number}"));
    }
    gateway
        .log
        .wait_for("[event poison] dead letter for cloud: HTTP 500");
    let received = upstream.wait_for(105);
    site.wait_until_empty();
    let poison = received
        .iter()
        .filter(|received| received.name() == "poison");
    let attempts: Vec<&str> = poison.map(|received| received.attempt()).collect();
    assert_eq!(attempts, ["1", "2", "3", "4"]);
    let names = upstream.names();
    let place = |name: &str| names.iter().rposition(|other| other == name);
    assert!(place("poison") < place("after"), "{names:?}");
    let dead = site.json(&["dead"]);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(
        (&dead[0]["event_id"], &dead[0]["attempts"]),
        (&"poison".into(), &4.into())
    );
}

#[test]
fn a_body_that_breaks_its_schema_is_a_dead_letter_that_says_where() {
    let upstream = Upstream::start(|_| Reply::Status(200));
    let site = Site::bare();
    let schema = r#"{"properties": {"eventId": {"maxLength": 3}}}"#;
    std::fs::write(site.file("door.json"), schema).expect("there is room");
    let route = "schema = \"door.json\"\n";
    site.configure(
        &upstream,
        Plan {
            route,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-1000");
    device.deliver("cam-7", "e-2");
    upstream.wait_for(1);
    site.wait_until_empty();
    assert_eq!(upstream.names(), ["e-2"]);
    let dead = site.json(&["dead"]);
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["reason"], "invalid");
    let outcome = dead[0]["outcome"].as_str().expect("words");
    assert!(
        outcome.starts_with("not sent, its body breaks the schema: at /eventId: "),
        "{outcome}"
    );
    gateway.stop();

    std::fs::write(site.file("door.json"), "{").expect("there is room");
    let output = site.gateway(&[]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(78));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("route \"door\" schema: "), "{words}");
    assert!(words.contains("door.json: it is not JSON: "), "{words}");
}
