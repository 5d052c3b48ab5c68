//! One sender that repeats one request as fast as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::device::{Device, event, post};
use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::{Reply, Upstream};

/// So many quiet senders, and events of each.
const SENDERS: usize = 4;
const EVENTS: usize = 100;

/// How much longer one in a hundred quiet senders may wait beside a storm. It has one of two
/// cores to itself here, and a gateway that commits each repetition makes it ten times and more.
const MOST: u32 = 4;

/// What the scheduler of a busy machine may add.
const NOISE: Duration = Duration::from_millis(10);

/// How long one in a hundred waits for its answer.
fn slowest(gateway: &Gateway, round: usize) -> Duration {
    let mut senders: Vec<Device> = (0..SENDERS).map(|_| gateway.connect()).collect();
    let mut took = Vec::new();
    for number in 0..EVENTS {
        for (sender, device) in senders.iter_mut().enumerate() {
            let event = event(&format!("cam-{sender}"), &format!("e-{round}-{number}"));
            let begun = Instant::now();
            assert_eq!(device.send(&event).status, 202);
            took.push(begun.elapsed());
        }
    }
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Repeats `request` until `is_over`; how often it was answered.
fn storm(
    gateway: &Gateway,
    request: Vec<u8>,
    is_over: &Arc<AtomicBool>,
) -> thread::JoinHandle<u64> {
    let mut device = gateway.connect();
    let is_over = Arc::clone(is_over);
    thread::spawn(move || {
        let mut times = 0;
        while !is_over.load(Ordering::SeqCst) {
            device.say(&request).expect("the gateway reads");
            assert_eq!(device.hear().expect("the gateway answers").status, 200);
            times += 1;
        }
        times
    })
}

#[test]
fn a_storm_costs_one_event_one_line_and_nobody_elses_time() {
    let upstream = Upstream::start(|_| Reply::Status(200));
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-9", "again");
    let json = "Content-Type: application/json\r\n";
    let known = post("/ingest/door", json, event("cam-9", "again").as_bytes());
    let bad = post("/ingest/door", json, b"{\"nope\":1}");
    let mut ratios = Vec::new();
    for (round, request) in [known, bad].into_iter().enumerate() {
        let alone = slowest(&gateway, 2 * round);
        let is_over = Arc::new(AtomicBool::new(false));
        let storm = storm(&gateway, request, &is_over);
        let beside = slowest(&gateway, 2 * round + 1);
        is_over.store(true, Ordering::SeqCst);
        let times = storm.join().expect("it was answered each time");
        assert!(200 < times, "{times} times are no storm");
        ratios.push((alone, beside));
    }
    for (alone, beside) in ratios {
        assert!(
            beside <= alone * MOST + NOISE,
            "{beside:?} beside, {alone:?} alone"
        );
    }
    let status = &site.json(&["status"])[0];
    assert_eq!(status["events"], 2 + 4 * SENDERS * EVENTS);
    assert_eq!(status["quarantined"], 1);
    let lines = gateway.log.lines();
    let of_storm = |line: &&String| line.contains("duplicate of") || line.contains("rejected");
    assert!(lines.iter().filter(of_storm).count() <= 4, "{lines:?}");
}
