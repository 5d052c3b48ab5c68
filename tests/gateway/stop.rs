//! An orderly stop: what was begun is ended, and nothing is done twice afterwards.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::common::device::{event, post};
use crate::common::process::{Plan, Site};
use crate::common::upstream::{Reply, Upstream};

#[test]
fn a_sigterm_ends_what_was_begun_and_nothing_is_delivered_twice_afterwards() {
    let (free, waits) = channel::<()>();
    let waits = Mutex::new(waits);
    let upstream = Upstream::start(move |received| {
        if received.name() == "in-flight" {
            // Until the test says so, or has ended.
            _ = waits.lock().expect("no thread panics with it").recv();
        }
        Reply::Status(200)
    });
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    for number in 0..50 {
        device.deliver("cam-7", &format!("e-{number}"));
    }
    upstream.wait_for(50);
    device.deliver("cam-8", "in-flight");
    device.deliver("cam-8", "behind");
    upstream.wait_for(51);
    // A request of which half has come.
    let body = event("cam-9", "half");
    let request = post("/ingest/door", "", body.as_bytes());
    let (begin, rest) = request.split_at(request.len() - 10);
    let mut half = gateway.connect();
    half.say(begin).expect("the gateway reads");
    // Whatever came before has been read when a later one is answered.
    device.deliver("cam-8", "last");
    gateway.ask_to_stop();
    gateway.log.wait_for("[config] stopping");
    half.say(rest).expect("the gateway reads");
    let answer = half.hear().expect("the request in hand is answered");
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(answer.head.contains("Connection: close"), "{answer:?}");
    // The admin socket closes, and only then is the dispatcher told.
    while site.run(&["status"]).status.code() != Some(69) {}
    free.send(()).expect("the upstream waits");
    let log = gateway.log.clone();
    let status = gateway.wait();
    assert_eq!(status.code(), Some(0));
    let said = log.lines().into_iter();
    let said = said.filter(|line| line.contains("[event in-flight] delivered to cloud"));
    assert_eq!(said.count(), 1);
    let names = upstream.names();
    assert!(!names.iter().any(|name| name == "behind"), "{names:?}");

    let gateway = site.start();
    upstream.wait_for(54);
    site.wait_until_empty();
    let names = upstream.names();
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), 54, "{names:?}");
    assert_eq!(names.len(), 54, "something came twice: {names:?}");
    gateway.stop();
}

#[test]
fn a_stop_waits_for_no_upstream_that_never_answers() {
    let upstream = Upstream::start(|_| Reply::Never);
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-1");
    upstream.wait_for(1);
    let began = std::time::Instant::now();
    gateway.ask_to_stop();
    let status = gateway.wait();
    assert_eq!(status.code(), Some(0));
    let took = began.elapsed();
    assert!(took.as_secs() < 12, "{took:?}");
    let waiting = site.json(&["queue"]);
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert_eq!(waiting[0]["attempts"], 0);
}
