//! Whole lives of a gateway on a false disk, network and clock, among false devices and operators.
//!
//! ```text
//! cargo test --test simulation                            the usual lives, and the named ones
//! SEED=7 cargo test --test simulation                     that life, and its story
//! LIVES=100000 cargo test --release --test simulation     so many; FIRST=n begins elsewhere
//! ```
//!
//! A seed that fails becomes a named test here, and its cause a unit test beside the code.
//! `tests/mutants` shows that lives notice when a promise is broken.

mod sim;

use std::any::Any;
use std::env;
use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use sim::compaction;
use sim::story;
use sim::world::{Tally, World};

/// How many lives `cargo test` sees.
const USUAL: u64 = 220;

/// After so many failures a run has said enough, unless `ENOUGH` says otherwise.
const ENOUGH: u64 = 5;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .expect("SEED, FIRST, LIVES and ENOUGH are numbers"),
    )
}

/// What a life that failed says.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "without a word".to_owned())
}

/// Lives these lives on all cores. Returns what happened in them, and which failed.
fn live(seeds: std::ops::Range<u64>, honest: bool) -> (Vec<Tally>, Vec<(u64, String)>) {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new((Vec::new(), Vec::new()));
    let enough = number("ENOUGH").unwrap_or(ENOUGH);
    let live_some = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let failures = results
                .lock()
                .map_or(enough, |results| results.1.len() as u64);
            if seeds.end <= seed || (honest && enough <= failures) {
                break;
            }
            let ended = panic::catch_unwind(|| World::new(seed, honest).live());
            let mut results = results.lock().expect("nothing panics while it is held");
            match ended {
                Ok(tally) => results.0.push(tally),
                Err(panic) => results.1.push((seed, words(panic.as_ref()))),
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(live_some);
        }
    });
    let (tallies, mut failures) = results.into_inner().expect("all have let go of it");
    failures.sort();
    (tallies, failures)
}

/// Devices send, destinations fail, the clock jumps, disks fill, fail and rot, operators interfere
/// and the power goes. Whatever was received must still arrive once the world heals, unchanged, in
/// order, and no more often than crashes and lost answers explain.
#[test]
fn nothing_acknowledged_is_lost() {
    let seeds = if let Some(seed) = number("SEED") {
        story::tell();
        seed..seed + 1
    } else {
        let first = number("FIRST").unwrap_or_default();
        first..first + number("LIVES").unwrap_or(USUAL)
    };
    let (tallies, failures) = live(seeds, true);
    let line = |(seed, words): &(u64, String)| {
        format!("SEED={seed} cargo test --test simulation\n{words}\n")
    };
    let failures: Vec<String> = failures.iter().map(line).collect();
    assert!(failures.is_empty(), "repeat with:\n{}", failures.join("\n"));
    assert_that_much_happened(&tallies);
}

/// Lives in which nothing happens prove nothing.
fn assert_that_much_happened(tallies: &[Tally]) {
    if (tallies.len() as u64) < USUAL {
        return;
    }
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let rows = [
        ("events stored", sum(|tally| tally.stored)),
        ("duplicates", sum(|tally| tally.duplicates)),
        ("refusals", sum(|tally| tally.refused)),
        ("arrivals", sum(|tally| tally.arrivals)),
        ("starts", sum(|tally| tally.starts)),
        ("power cuts", sum(|tally| tally.power_cuts)),
        ("disk errors", sum(|tally| tally.disk_errors)),
        ("orderly stops", sum(|tally| tally.stops)),
        ("operations", sum(|tally| tally.operations)),
        ("dead letters", sum(|tally| tally.settled_dead)),
        ("expired events", sum(|tally| tally.expired)),
        ("events given up", sum(|tally| tally.shed)),
        ("damaged events", sum(|tally| tally.damaged)),
    ];
    let lives = tallies.len() as u64;
    for (what, count) in rows {
        assert!(
            lives / 20 < count,
            "only {count} {what} in {lives} lives: {rows:?}"
        );
    }
}

/// `gatepost compact` moves what is stored; the power goes at any write or sync of it.
#[test]
fn power_cuts_during_compaction_cost_nothing() {
    if env::var_os("SEED").is_some() {
        return;
    }
    // Each costs as much as ten of the others.
    let lives = number("LIVES").unwrap_or(USUAL).div_ceil(100) + 5;
    let cuts: u64 = (0..lives).map(compaction::live).sum();
    assert!(lives <= cuts, "only {cuts} compactions were cut short");
}

/// The negative control: if this passes by itself, lives notice nothing.
#[test]
fn a_disk_that_lies_loses_events_and_lives_notice() {
    if env::var_os("SEED").is_some() {
        return;
    }
    let lives = 24;
    let (_, failures) = live(0..lives, false);
    let noticed = failures.len() as u64;
    assert!(
        lives / 4 < noticed,
        "only {noticed} of {lives} lives noticed"
    );
}
