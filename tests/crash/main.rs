//! The power goes: the real process is killed with SIGKILL under load, started again on the same
//! store, and so on. Afterwards an oracle outside the process compares what devices were told with
//! what the upstream got and what an operator is shown.
//!
//! There are kills at random, kills at the points that `gatepost::fault` names, which only builds
//! with debug assertions have, and kills of the commands that work on the store's file.
//!
//! - `ROUNDS=100 cargo test --test crash` kills at random so many times; the default is 10.
//! - `TIMES=50 cargo test --test crash` repeats everything else so many times, each time with
//!   other events; the default is once.
//! - `SEED=n` sends the same events and plans the same kills; where in the program a kill falls is
//!   up to the machine all the same.

#[expect(
    dead_code,
    reason = "crashes need only a part of what the gateway's tests need"
)]
#[path = "../common/mod.rs"]
mod common;

mod commands;
mod fleet;
mod life;
mod many;
mod oracle;
#[cfg(debug_assertions)]
mod points;

use common::note;
use life::Life;

/// So many random kills without a variable that says otherwise.
const ROUNDS: u64 = 10;

/// The most kills of one store; then another life begins, so that long runs stay small.
const LONGEST_LIFE: u64 = 20;

#[test]
fn what_was_acknowledged_survives_every_kill_and_arrives() {
    let rounds = number("ROUNDS").unwrap_or(ROUNDS);
    let longest = rounds.div_ceil(many::at_once()).clamp(1, LONGEST_LIFE);
    let seed = seed();
    note(&format!(
        "repeat with: SEED={seed} ROUNDS={rounds} cargo test --test crash"
    ));
    many::live(rounds.div_ceil(longest), "random kills", |number| {
        let mut life = Life::new(seed + number);
        let kills = longest.min(rounds - number * longest);
        for _ in 0..kills {
            life.is_cut_short();
        }
        life.ends_well()
    });
}

fn seed() -> u64 {
    number("SEED").unwrap_or(std::process::id().into())
}

/// How many times what is not random is repeated.
fn times() -> u64 {
    number("TIMES").unwrap_or(1)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("it is a number"))
}
