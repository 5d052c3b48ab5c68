//! The upstream is back: everything arrives, in little memory, while devices go on sending.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::note;
use crate::common::process::Gateway;
use crate::pause;
use crate::sink::Sink;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How often a device sends meanwhile.
const SEND: Duration = Duration::from_millis(20);

/// So long without a delivery is a standstill.
const STANDSTILL: Duration = Duration::from_secs(30);

/// Opens the sink and waits until it has the whole backlog, the events of those names, and what
/// was sent meanwhile.
pub(crate) fn all(gateway: &Gateway, sink: &Sink, acknowledged: &[String]) {
    let before = sink.left();
    let began = Instant::now();
    sink.open();
    let is_over = AtomicBool::new(false);
    let (most, mut waits) = thread::scope(|scope| {
        let sending = scope.spawn(|| send_meanwhile(gateway, &is_over));
        let most = watch(gateway, sink);
        is_over.store(true, Ordering::SeqCst);
        (most, sending.join().expect("all is acknowledged"))
    });
    let took = began.elapsed();
    waits.sort();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    note(&format!(
        "{before} delivered in {took:.1?}; {most} kB at most; meanwhile {} events acknowledged, \
         p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        waits.len(),
        at(50),
        at(99),
        at(100)
    ));
    let live = (0..waits.len()).map(live);
    for name in acknowledged.iter().cloned().chain(live) {
        sink.wait_for(&name);
    }
}

/// Waits until nothing of the backlog is left. The most memory that the gateway took.
fn watch(gateway: &Gateway, sink: &Sink) -> u64 {
    let (mut left, mut since, mut most) = (sink.left(), Instant::now(), 0);
    while 0 < left {
        pause(LOOK);
        most = most.max(gateway.resident_kb());
        let now = sink.left();
        if now < left {
            (left, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < STANDSTILL, "{left} are left");
    }
    most
}

/// Sends an event now and then. How long each was waited for.
fn send_meanwhile(gateway: &Gateway, is_over: &AtomicBool) -> Vec<Duration> {
    let mut device = gateway.connect();
    let mut waits = Vec::new();
    while !is_over.load(Ordering::SeqCst) {
        let body = crate::body("door-1", &live(waits.len()));
        let began = Instant::now();
        let answer = device.send(&body);
        waits.push(began.elapsed());
        assert_eq!(answer.status, 202, "{answer:?}");
        pause(SEND);
    }
    waits
}

fn live(number: usize) -> String {
    format!("l-{number}")
}
