//! Many lives, several at a time, and what they come to.

use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::common::note;

/// What happened in one or more lives.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Processes that were killed.
    pub(crate) kills: u64,
    /// Events that devices sent at least once.
    pub(crate) sent: u64,
    /// Those of them that were acknowledged. None of these is lost, or the test has failed.
    pub(crate) acknowledged: u64,
    /// Requests that the upstream got.
    pub(crate) came: u64,
    /// Events that it took more than once.
    pub(crate) repeated: u64,
    /// Dead letters.
    pub(crate) dead: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.sent += other.sent;
        self.acknowledged += other.acknowledged;
        self.came += other.came;
        self.repeated += other.repeated;
        self.dead += other.dead;
    }
}

/// How many lives are lived at a time: two a core, since half of each is waiting.
pub(crate) fn at_once() -> u64 {
    thread::available_parallelism().map_or(2, |cores| 2 * cores.get() as u64)
}

/// Lives so many lives, each by its number from 0, and says what they came to. The first that
/// fails lets no others begin.
pub(crate) fn live(lives: u64, what: &str, one: impl Fn(u64) -> Tally + Sync) {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let sum = Mutex::new(Tally::default());
    let live_some = || {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if lives <= number {
                return;
            }
            let last_words = LastWords {
                number,
                next: &next,
            };
            let tally = one(number);
            drop(last_words);
            *sum.lock().expect("nothing panics while it is held") += tally;
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once().min(lives) {
            scope.spawn(live_some);
        }
    });
    let Tally {
        kills,
        sent,
        acknowledged,
        came,
        repeated,
        dead,
    } = *sum.lock().expect("nothing panics while it is held");
    let took_s = began.elapsed().as_secs();
    note(&format!(
        "{what}: {lives} lives, {kills} kills, {sent} sent, {acknowledged} acknowledged, 0 lost, \
         {came} came, {repeated} repeated, {dead} dead, {took_s} s"
    ));
}

/// Ends the other lives if this one fails, and says which it was.
struct LastWords<'a> {
    number: u64,
    next: &'a AtomicU64,
}

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.next.store(u64::MAX / 2, Ordering::SeqCst);
            note(&format!("life {} failed", self.number));
        }
    }
}
