//! Commands that change a store's file, killed in the middle: at a system call of theirs, whichever
//! the build, and at named points.
//!
//! What a killed `gatepost compact` leaves is the store, with everything that was in it. What a
//! killed `gatepost salvage` leaves is nothing that anybody would start on, and the same command
//! again recovers everything.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::note;
use crate::common::process::{Gateway, Site};
use crate::fleet::Fleet;
use crate::life::{Life, Weather, was_killed};
use crate::many::{self, Tally};

/// How many events each device has before a command is killed.
const FEW: usize = 4;

/// The calls that change a file, and the factor from one that kills to the next.
const CALLS: [(&str, u64); 4] = [
    ("fdatasync,fsync", 2),
    ("pwrite64", 8),
    ("ftruncate", 2),
    ("rename", 2),
];

/// The named points that a command passes.
const POINTS: [(&str, &str); 8] = [
    ("compact", "compact-round"),
    ("salvage", "birth-created"),
    ("salvage", "birth-before-rename"),
    ("salvage", "before-commit:1"),
    ("salvage", "after-commit:2"),
    ("salvage", "before-commit:3"),
    ("salvage", "after-commit:4"),
    ("salvage", "salvage-before-rename"),
];

/// When a command is killed.
#[derive(Clone, Copy, Debug)]
enum When {
    /// At the n-th of these system calls.
    Call(&'static str, u64),
    /// At a named point, `name:times`.
    Point(&'static str),
}

#[test]
fn what_was_acknowledged_survives_compactions_that_are_cut_short() {
    repeat("compactions", |seed| {
        let mut life = Life::small(seed);
        cut_all(&mut life, "compact", |life, when| {
            life.sends_some();
            let ended = life.cut(&["compact"], when);
            // Half of what is left is looked at, half is used at once.
            if life.rng.below(2) == 0 {
                is_whole(&life.site.data());
            }
            ended
        });
        life.site.succeed(&["compact"]);
        is_whole(&life.site.data());
        life.ends_well()
    });
}

#[test]
fn a_salvage_that_was_cut_short_is_repeated_and_recovers_everything() {
    repeat("salvages", |seed| {
        let mut life = Life::new(seed);
        life.turn(Weather::Closed);
        life.sends_some();
        let damaged = life.site.data().join("events.redb.damaged-1");
        life.is_put_aside(&damaged);
        let into = life.site.file("recovered");
        let [damaged, target] = [&damaged, &into].map(|path| path.to_string_lossy());
        let command = ["salvage", &damaged, "--json", "--into", &target];
        cut_all(&mut life, "salvage", |life, when| {
            let ended = life.cut(&command, when);
            // Only if it was killed after the very last step.
            if store_in(&into).exists() {
                has_all(&into, &life.fleet);
                fs::remove_dir_all(&into).expect("it is there");
            }
            ended.inspect(assert_salvaged)
        });
        let output = Site::command().args(command).output().expect("it runs");
        assert_salvaged(&output);
        has_all(&into, &life.fleet);
        let data = life.site.data();
        fs::rename(&data, life.site.file("old")).expect("renamed");
        fs::rename(&into, &data).expect("renamed");
        life.ends_well()
    });
}

/// Lives such a life as often as `TIMES` says.
fn repeat(what: &str, live: impl Fn(u64) -> Tally + Sync) {
    let (seed, times) = (crate::seed(), crate::times());
    note(&format!(
        "repeat with: SEED={seed} TIMES={times} cargo test --test crash"
    ));
    many::live(times, what, |number| live(seed + number));
}

/// Cuts a command at call after call of each kind, until it lives to see its end, and at each
/// named point. `cut` returns what a command said that was not killed.
fn cut_all(life: &mut Life, command: &str, mut cut: impl FnMut(&mut Life, When) -> Option<Output>) {
    for (call, factor) in CALLS {
        // Other calls each time.
        let mut number = 1 + life.rng.below(factor);
        while cut(life, When::Call(call, number)).is_none() {
            number = number * factor + life.rng.below(factor);
        }
    }
    let points = POINTS.iter().filter(|(of, _)| *of == command);
    for (_, point) in points.filter(|_| cfg!(debug_assertions)) {
        assert!(cut(life, When::Point(point)).is_none(), "it passes {point}");
    }
}

impl Life {
    /// A run in which some events are acknowledged, and which is asked to stop.
    fn sends_some(&mut self) {
        self.begin_run();
        let gateway = self.site.start_quietly();
        self.fleet.send_some(gateway.address, FEW);
        gateway.stop();
    }

    /// Runs a command that is killed then. What it said if it ended before.
    fn cut(&mut self, arguments: &[&str], when: When) -> Option<Output> {
        let mut command = match when {
            When::Call(call, number) => {
                let mut command = Command::new("strace");
                let inject = format!("inject={call}:signal=KILL:when={number}");
                command.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject]);
                command.arg(env!("CARGO_BIN_EXE_gatepost"));
                command
            }
            When::Point(point) => {
                let mut command = Site::command();
                command.env("GATEPOST_FAULT", point);
                command
            }
        };
        command.args(arguments);
        if !arguments.contains(&"--into") {
            command.arg("--data").arg(self.site.data());
        }
        let output = command.output();
        let output = output.expect("the program is there; tests/run installs what is missing");
        if was_killed(output.status) {
            self.kills += 1;
            return None;
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let is_usual = matches!(output.status.code(), Some(0 | 1)) && !errors.contains("panicked");
        assert!(
            is_usual,
            "{arguments:?} {when:?}: {}: {errors}",
            output.status
        );
        Some(output)
    }

    /// Damages the record that counts what is in the store. A start that puts it aside is killed
    /// right after, and the next begins a new store and says what lies there.
    fn is_put_aside(&mut self, damaged: &Path) {
        let store = store_in(&self.site.data());
        let mark = b"\"next_seq\"";
        let mut image = fs::read(&store).expect("it is there");
        let places: Vec<usize> = (0..image.len() - mark.len())
            .filter(|at| image[*at..].starts_with(mark))
            .collect();
        for at in places {
            image[at + 2] ^= 4;
        }
        fs::write(&store, &image).expect("there is room");
        if cfg!(debug_assertions) {
            let mut command = self.site.gateway(&[]);
            let status = Gateway::spawn(command.env("GATEPOST_FAULT", "put-aside")).wait();
            assert!(was_killed(status), "{status}");
            assert!(damaged.exists() && !store.exists());
            self.kills += 1;
        }
        let gateway = self.site.start_quietly();
        let alert = gateway.log.wait_for("[alert store-damaged]");
        let remedy = format!("gatepost salvage {} --into DIR", damaged.display());
        assert!(alert.contains(&remedy), "{alert}");
        gateway.stop();
    }
}

/// Asserts that there is a store whose every byte is right. How many rows its tables have.
fn is_whole(data: &Path) -> Value {
    let mut command = Site::command();
    let command = command.args(["check-store", "--json", "--data"]).arg(data);
    let checked = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{}: {said}", data.display());
    let report: Value = serde_json::from_str(&said).expect("JSON");
    report["rows"].clone()
}

/// Asserts that there is a store in which everything waits that was ever sent.
fn has_all(data: &Path, fleet: &Fleet) {
    let rows = is_whole(data);
    for table in ["events", "pending", "recent"] {
        assert_eq!(rows[table], FEW * fleet.devices.len(), "{table}: {rows}");
    }
}

/// Asserts that nothing but the damaged record is lost.
fn assert_salvaged(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let is_whole = |count: &Value| count["rows"] == count["recovered"];
    let tables = report["tables"].as_array().expect("a list");
    assert!(tables.iter().all(is_whole), "{report}");
    let lost = report["lost"].as_array().expect("a list");
    assert!(lost.iter().all(|flaw| flaw["table"] == "meta"), "{report}");
}

fn store_in(data: &Path) -> PathBuf {
    data.join("events.redb")
}
