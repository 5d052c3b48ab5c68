//! The life of one store: a site whose process dies again and again, the devices that send to it
//! and the upstream behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gatepost::rng::Rng;

use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::{Received, Reply, Upstream};
use crate::fleet::{Fleet, is_poison};
use crate::oracle;

/// The most events that are acknowledged between two random kills.
const MOST_ACKNOWLEDGED: u64 = 1000;

/// The most that a kill is late, so that it falls anywhere between two commits.
const MOST_LATE_US: u64 = 30_000;

/// The most that a start lives which is killed before it listens.
const MOST_START_US: u64 = 60_000;

/// One life.
pub(crate) struct Life {
    rng: Rng,
    is_calm: Arc<AtomicBool>,
    upstream: Upstream,
    pub(crate) site: Site,
    pub(crate) fleet: Fleet,
    /// How many times the process was started.
    runs: u64,
}

impl Life {
    /// A site that nothing was sent to yet.
    pub(crate) fn new(seed: u64) -> Self {
        let is_calm = Arc::new(AtomicBool::new(false));
        Self {
            rng: Rng::from_seed(seed),
            upstream: weather(seed, Arc::clone(&is_calm)),
            is_calm,
            site: Site::bare(),
            fleet: Fleet::new(seed),
            runs: 0,
        }
    }

    /// To be called before each start: what comes upstream will say which run sent it.
    pub(crate) fn begin_run(&mut self) {
        self.runs += 1;
        let headers = format!("headers = {{ X-Run = \"{}\" }}", self.runs);
        let plan = Plan {
            destination: &headers,
            // Only poison dies: nothing else meets a hundred failures.
            retry: "first = \"50ms\", max = \"200ms\", max_attempts = 100",
            ..Plan::default()
        };
        self.site.configure(&self.upstream, plan);
    }

    /// A start that is killed: one in four before it listens, the others under load.
    pub(crate) fn is_cut_short(&mut self) {
        self.begin_run();
        if self.rng.below(4) == 0 {
            let gateway = Gateway::spawn(&mut self.site.gateway(&[]));
            pass(self.rng.below(MOST_START_US));
            gateway.kill();
        } else {
            let gateway = self.site.start_quietly();
            let enough = self.rng.below(MOST_ACKNOWLEDGED);
            let late = self.rng.below(MOST_LATE_US);
            let address = gateway.address;
            self.fleet.send(address, enough, usize::MAX, |is_dying| {
                pass(late);
                is_dying.store(true, Ordering::SeqCst);
                gateway.kill();
            });
        }
    }

    /// A last start, in calm weather, and judgement.
    pub(crate) fn ends_well(mut self) {
        self.is_calm.store(true, Ordering::SeqCst);
        self.begin_run();
        let gateway = self.site.start_quietly();
        self.fleet.finish(gateway.address);
        self.site.wait_until_empty();
        let received = self.upstream.received();
        oracle::judge(&self.fleet, &received, &self.site);
        gateway.stop();
    }
}

/// An upstream that refuses poison, and as long as it is not calm fails now and then: with 503, or
/// by hanging up several times in a row, since a single time may be a connection that idled too
/// long.
fn weather(seed: u64, is_calm: Arc<AtomicBool>) -> Upstream {
    let count = AtomicU64::new(seed);
    Upstream::start(move |received: &Received| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let is_stormy = !is_calm.load(Ordering::SeqCst);
        match number % 300 {
            0..6 if is_stormy => Reply::HangUp,
            _ if is_poison(received.name()) => Reply::Status(422),
            _ if is_stormy && Rng::from_seed(number).below(20) == 0 => Reply::Status(503),
            _ => Reply::Status(200),
        }
    })
}

/// Waits without sleeping: a sleep ends when the kernel likes.
fn pass(microseconds: u64) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}
