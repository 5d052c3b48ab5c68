//! The life of one store: a site whose process dies again and again, the devices that send to it
//! and the upstream behind it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gatepost::rng::Rng;

use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::{Received, Reply, Upstream};
use crate::fleet::{Fleet, is_poison};
use crate::many::Tally;
use crate::oracle;

/// The most events that are acknowledged between two random kills.
const MOST_ACKNOWLEDGED: u64 = 1000;

/// The most that a kill is late, so that it falls anywhere between two commits.
const MOST_LATE_US: u64 = 30_000;

/// The most that a start lives which is killed before it listens.
const MOST_START_US: u64 = 60_000;

/// A quota that a few hundred events fill, so that those that have ended expire whatever the
/// clock says.
const SMALL: &str = "max_size = \"1 MiB\"";

/// How it is upstream.
#[derive(Clone, Copy)]
pub(crate) enum Weather {
    /// All but poison is taken.
    Calm,
    /// It fails now and then.
    Stormy,
    /// Nothing gets an answer.
    Closed,
}

/// One life.
pub(crate) struct Life {
    pub(crate) rng: Rng,
    weather: Arc<Mutex<Weather>>,
    upstream: Upstream,
    store: &'static str,
    pub(crate) site: Site,
    pub(crate) fleet: Fleet,
    /// How many times the process was started.
    runs: u64,
    /// How many times something was killed.
    pub(crate) kills: u64,
}

impl Life {
    /// A site that nothing was sent to yet.
    pub(crate) fn new(seed: u64) -> Self {
        Self::begin(seed, "")
    }

    /// The same with a store that is soon nearly full.
    pub(crate) fn small(seed: u64) -> Self {
        Self::begin(seed, SMALL)
    }

    fn begin(seed: u64, store: &'static str) -> Self {
        let weather = Arc::new(Mutex::new(Weather::Stormy));
        Self {
            rng: Rng::from_seed(seed),
            upstream: upstream(seed, Arc::clone(&weather)),
            weather,
            store,
            site: Site::bare(),
            fleet: Fleet::new(seed, store == SMALL),
            runs: 0,
            kills: 0,
        }
    }

    /// From now on it is so upstream.
    pub(crate) fn turn(&self, weather: Weather) {
        *self.weather.lock().expect("nothing panics with it") = weather;
    }

    /// To be called before each start: what comes upstream will say which run sent it.
    pub(crate) fn begin_run(&mut self) {
        self.runs += 1;
        let headers = format!("headers = {{ X-Run = \"{}\" }}", self.runs);
        let plan = Plan {
            ingest: "max_body = \"128 KiB\"",
            store: self.store,
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
        self.kills += 1;
        if self.rng.below(4) == 0 {
            let gateway = Gateway::spawn(&mut self.site.gateway(&[]));
            pass(self.rng.below(MOST_START_US));
            gateway.kill();
        } else {
            let gateway = self.site.start_quietly();
            let enough = self.rng.below(MOST_ACKNOWLEDGED);
            let late = self.rng.below(MOST_LATE_US);
            let address = gateway.address;
            self.fleet.send_until_killed(address, enough, |is_dying| {
                pass(late);
                is_dying.store(true, Ordering::SeqCst);
                gateway.kill();
            });
        }
    }

    /// A last start, in calm weather, and judgement.
    pub(crate) fn ends_well(mut self) -> Tally {
        self.turn(Weather::Calm);
        self.begin_run();
        let gateway = self.site.start_quietly();
        self.fleet.finish(gateway.address);
        self.site.wait_until_empty();
        let received = self.upstream.received();
        let aside = self.site.data().join("events.redb.damaged-1");
        assert!(!aside.exists(), "a kill damages nothing");
        let tally = oracle::judge(&self.fleet, &received, &self.site);
        gateway.stop();
        let kills = self.kills;
        Tally { kills, ..tally }
    }
}

/// An upstream that refuses poison, and in a storm fails now and then: with 503, or by hanging up
/// several times in a row, since a single time may be a connection that idled too long.
fn upstream(seed: u64, weather: Arc<Mutex<Weather>>) -> Upstream {
    let count = AtomicU64::new(seed);
    Upstream::start(move |received: &Received| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let weather = *weather.lock().expect("nothing panics with it");
        match (weather, number % 300) {
            (Weather::Closed, _) | (Weather::Stormy, 0..6) => Reply::HangUp,
            _ if is_poison(received.name()) => Reply::Status(422),
            (Weather::Stormy, _) if Rng::from_seed(number).below(20) == 0 => Reply::Status(503),
            _ => Reply::Status(200),
        }
    })
}

/// Whether it ended by SIGKILL.
pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// Waits without sleeping: a sleep ends when the kernel likes.
fn pass(microseconds: u64) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(microseconds) {
        std::hint::spin_loop();
    }
}
