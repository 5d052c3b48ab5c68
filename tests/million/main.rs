//! A million events wait: the real process is ready at once after SIGKILL, and small while it
//! delivers them.
//!
//! Not part of `cargo test`, because each of these builds a store of a gigabyte or more:
//! `tests/long/million` runs them in release mode.

#[expect(
    dead_code,
    reason = "a backlog needs only a part of what the gateway's tests need"
)]
#[path = "../common/mod.rs"]
mod common;

mod backlog;
mod burst;
mod drain;
mod sink;

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::device::event;
use common::note;
use common::process::{Gateway, Plan, Site};
use sink::Sink;

/// How many events wait.
const EVENTS: usize = 1_000_000;

/// From the start of the process until it serves devices and operators, if it was killed while it
/// had nothing to do.
const READY_AFTER_IDLE: Duration = Duration::from_secs(1);

/// The same, if it was killed in the middle of a burst.
const READY_AFTER_BURST: Duration = Duration::from_secs(3);

/// The most memory it takes, at any time from its start.
const MOST_RESIDENT_KB: u64 = 24 * 1024;

/// What the most memory it has ever taken is called. Source: proc(5).
const PEAK: &str = "VmHWM:";

#[test]
#[ignore = "it takes minutes: see tests/long/million"]
fn of_one_device() {
    a_million_wait(1);
}

#[test]
#[ignore = "it takes minutes: see tests/long/million"]
fn of_a_hundred_devices() {
    a_million_wait(100);
}

#[test]
#[ignore = "it takes minutes: see tests/long/million"]
fn of_a_thousand_devices() {
    a_million_wait(1_000);
}

#[test]
#[ignore = "it takes minutes: see tests/long/million"]
fn of_fifty_thousand_devices() {
    a_million_wait(50_000);
}

fn a_million_wait(devices: usize) {
    let site = Site::bare();
    let sink = Sink::closed(EVENTS);
    let plan = Plan {
        store: "max_size = \"16 GiB\"",
        destination: "workers = 16",
        ..Plan::default()
    };
    site.configure_url(&sink.url(), plan);
    let began = Instant::now();
    backlog::build(&site, EVENTS, devices);
    let file = fs::metadata(site.data().join("events.redb")).expect("it was built");
    let (took, mib) = (began.elapsed(), file.len() >> 20);
    note(&format!(
        "{EVENTS} events of {devices} devices take {mib} MiB, built in {took:.1?}"
    ));

    let (gateway, _) = start(&site, "after an orderly end");
    idle();
    gateway.kill();

    let (gateway, after_idle) = start(&site, "after a kill while idle");
    let acknowledged = burst::until_death(gateway);

    let (gateway, after_burst) = start(&site, "after a kill under load");
    drain::all(&gateway, &sink, &acknowledged);
    site.wait_until_empty();
    let peak = gateway.status_kb(PEAK);
    gateway.stop();
    assert!(after_idle <= READY_AFTER_IDLE, "{after_idle:?}");
    assert!(after_burst <= READY_AFTER_BURST, "{after_burst:?}");
    assert!(peak <= MOST_RESIDENT_KB, "{peak} kB");
}

/// Starts the gateway. How long it takes until it has acknowledged an event and answered an
/// operator.
fn start(site: &Site, when: &str) -> (Gateway, Duration) {
    let began = Instant::now();
    let gateway = site.start_quietly();
    gateway.connect().deliver("door-1", when);
    let status = site.json(&["status"]);
    let took = began.elapsed();
    assert_eq!(status.len(), 1, "{status:?}");
    let (now, peak) = (gateway.resident_kb(), gateway.status_kb(PEAK));
    let ticks = gateway.ticks();
    note(&format!(
        "{when}: ready in {took:.2?}, {ticks} hundredths of a second of it \
         computing; {now} kB, {peak} kB at most"
    ));
    (gateway, took)
}

/// Waits until the gateway has had nothing to do for long enough to have made its checkpoint.
fn idle() {
    pause(Duration::from_secs(4));
}

fn pause(time: Duration) {
    let (_sender, never) = mpsc::channel::<()>();
    _ = never.recv_timeout(time);
}

/// The body of an event as a terminal sends it: 350 bytes.
fn body(device: &str, id: &str) -> String {
    const BYTES: usize = 350;
    let short = event(device, id);
    let pad = BYTES.saturating_sub(short.len());
    short.replace("door opened", &format!("door opened{:pad$}", ""))
}
