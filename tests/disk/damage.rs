//! A damaged store: put aside, a new one begun, and its events recovered.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gatepost::store::{Store, Sync};

use super::gateway::{Gateway, Upstream, gatepost, store_in, wait_for};

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    (folder, data)
}

fn damaged(data: &Path) -> PathBuf {
    data.join("events.redb.damaged-1")
}

/// A data directory with so many events that wait.
fn lived_in(data: &Path, events: usize) {
    let gateway = Gateway::start(data, None);
    for number in 0..events {
        assert_eq!(gateway.send(&format!("e-{number}"), 300), Some(202));
    }
    assert_eq!(gateway.stop(), Some(0));
}

#[test]
fn what_is_no_store_is_put_aside_and_events_are_taken() {
    let zeros = vec![0; 100_000];
    let foreign: [&[u8]; 3] = [b"", b"-- somebody's notes\n", &zeros];
    for content in foreign {
        let (_folder, data) = folder();
        fs::create_dir(&data).expect("a folder");
        fs::write(store_in(&data), content).expect("written");
        let mut gateway = Gateway::start(&data, None);
        assert_eq!(gateway.send("a", 10), Some(202));
        let alert = gateway.says("[alert store-damaged]").expect("it says so");
        let remedy = format!("gatepost salvage {} --into DIR", damaged(&data).display());
        assert!(alert.contains(&remedy), "{alert}");
        assert!(fs::read(damaged(&data)).expect("kept") == content);
        assert_eq!(gateway.stop(), Some(0));
    }
}

#[test]
fn a_newer_store_is_left_alone() {
    let (_folder, data) = folder();
    let store = Store::open(&store_in(&data), 1).expect("a store");
    let newer = store.write(Sync::Usual, |tables| tables.put_meta("schema", &99));
    newer.expect("the store works");
    store.close().expect("closed");
    let (code, said) = Gateway::try_start(&data, None)
        .err()
        .expect("it must not start");
    assert_eq!(code, Some(74));
    let remedy = "install the newer version again";
    assert!(said.iter().any(|line| line.contains(remedy)), "{said:?}");
    assert!(!damaged(&data).exists());
}

#[test]
fn the_events_of_a_truncated_store_are_recovered_and_delivered() {
    let (folder, data) = folder();
    lived_in(&data, 40);
    let file = fs::File::options()
        .write(true)
        .open(store_in(&data))
        .expect("there");
    let length = file.metadata().expect("there").len();
    file.set_len(length - 100).expect("truncated");
    drop(file);
    let gateway = Gateway::start(&data, None);
    assert_eq!(gateway.send("new", 300), Some(202));
    assert_eq!(gateway.stop(), Some(0));
    let damaged = damaged(&data);
    let before = fs::read(&damaged).expect("kept");
    let into = folder.path().join("recovered");
    let arguments = [
        "salvage",
        damaged.to_str().expect("text"),
        "--json",
        "--into",
        into.to_str().expect("text"),
    ];
    let output = gatepost(&arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("40 of 40 events"), "progress: {err}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // What was in the last 100 bytes of the file: a body or two.
    let lost = report["lost"].as_array().expect("a list");
    let lost: Vec<u64> = lost
        .iter()
        .filter_map(|flaw| flaw["seq"].as_u64())
        .collect();
    assert!(lost.len() < 3, "{report}");
    let code = i32::from(!lost.is_empty());
    assert_eq!(output.status.code(), Some(code), "{report}{err}");

    assert!(
        fs::read(&damaged).expect("kept") == before,
        "it is as it was"
    );
    let again = gatepost(&arguments);
    assert_eq!(again.status.code(), Some(1), "not over what is there");
    let upstream = Upstream::start(true);
    let gateway = Gateway::start(&into, Some(upstream.address));
    let whole: Vec<u64> = (0..40).filter(|seq| !lost.contains(seq)).collect();
    let arrived = |seq: &u64| upstream.has(&format!("e-{seq}"), 300);
    assert!(wait_for(|| whole.iter().all(arrived)), "{report}");
    assert_eq!(gateway.send("e-7", 300), Some(200), "it is known still");
    assert_eq!(gateway.stop(), Some(0));
}

/// One bit in a record of each table: `check-store` sees it, and salvage gives the rest.
#[test]
fn a_flipped_bit_in_a_record_is_found_and_costs_only_its_record() {
    let (folder, data) = folder();
    lived_in(&data, 30);
    let image = fs::read(store_in(&data)).expect("there");
    let check = |data: &Path| {
        let output = gatepost(&["check-store", "--json", "--data", text(data)]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let flaws = report["flaws"].as_array().expect("a list").len();
        (output.status.code(), flaws)
    };
    assert_eq!(check(&data), (Some(0), 0));
    // What is found in the records of the tables of events, bodies and single values.
    let marks: [&[u8]; 3] = [b"\"127.0.0.1", b"\"eventId\":\"e-1", b"\"next_seq\""];
    for (number, mark) in marks.iter().enumerate() {
        let name = String::from_utf8_lossy(mark);
        let mut image = image.clone();
        let places: Vec<usize> = (0..image.len() - mark.len())
            .filter(|at| image[*at..].starts_with(mark))
            .collect();
        assert!(!places.is_empty(), "{name} is in no record");
        for at in places {
            image[at + 2] ^= 4;
        }
        let damaged = folder.path().join(format!("{number}.redb"));
        fs::write(&damaged, &image).expect("written");
        let (code, flaws) = check(&damaged);
        assert_eq!(code, Some(1), "{name}");
        assert!(0 < flaws, "{name}");
        let into = folder.path().join(format!("into-{number}"));
        let output = gatepost(&["salvage", text(&damaged), "--json", "--into", text(&into)]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let lost = report["lost"].as_array().expect("a list");
        assert!(!lost.is_empty(), "{name}: {report}");
    }
}

#[test]
fn three_quick_crashes_lead_to_a_look_at_the_whole_store() {
    let (_folder, data) = folder();
    lived_in(&data, 40);
    // A bit in a body: the store opens, and no start would notice.
    let mut image = fs::read(store_in(&data)).expect("there");
    let mark = b"\"eventId\":\"e-3\"";
    let at = (0..image.len() - mark.len())
        .rfind(|at| image[*at..].starts_with(mark))
        .expect("it is in there");
    image[at + 3] ^= 1;
    fs::write(store_in(&data), &image).expect("written");
    for round in 0..3 {
        let mut gateway = Gateway::start(&data, None);
        assert!(!damaged(&data).exists(), "start {round} does not look");
        kill(&mut gateway);
    }
    let mut gateway = Gateway::start(&data, None);
    assert!(gateway.says("the whole store is checked").is_some());
    assert!(gateway.says("[alert store-damaged]").is_some());
    assert!(damaged(&data).exists());
    assert_eq!(gateway.send("new", 300), Some(202));
    kill(&mut gateway);
    let gateway = Gateway::start(&data, None);
    assert_eq!(gateway.send("more", 300), Some(202));
    let looked = gateway.said().iter().any(|line| line.contains("checked"));
    assert!(!looked, "the count began again");
    drop(gateway);
    assert!(!data.join("events.redb.damaged-2").exists());
}

fn kill(gateway: &mut Gateway) {
    let killed = Command::new("kill")
        .args(["-KILL", &gateway.pid()])
        .status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(gateway.ends(), None, "a signal has no exit code");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our own folders are text")
}

#[test]
fn a_store_in_use_is_left_alone_by_every_command() {
    let (folder, data) = folder();
    let gateway = Gateway::start(&data, None);
    let (store, into) = (store_in(&data), folder.path().join("into"));
    let commands: [&[&str]; 3] = [
        &["check-store", "--data", text(&data)],
        &["compact", "--data", text(&data)],
        &["salvage", text(&store), "--into", text(&into)],
    ];
    for command in commands {
        let output = gatepost(command);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(74), "{command:?}: {err}");
        assert!(err.contains("or stop it"), "{command:?}: {err}");
    }
    assert!(!into.exists());
    let (code, said) = Gateway::try_start(&data, None)
        .err()
        .expect("one at a time");
    assert_eq!(code, Some(74), "{said:?}");
    assert!(!damaged(&data).exists());
    assert_eq!(gateway.stop(), Some(0));
}

#[test]
fn compact_gives_room_back_and_keeps_every_event() {
    let (_folder, data) = folder();
    let upstream = Upstream::start(true);
    let gateway = Gateway::start(&data, Some(upstream.address));
    for number in 0..6 {
        assert_eq!(gateway.send(&format!("e-{number}"), 100_000), Some(202));
    }
    assert!(wait_for(|| upstream.count() == 6));
    assert_eq!(gateway.stop(), Some(0));
    let output = gatepost(&["compact", "--json", "--data", text(&data)]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!output.stderr.is_empty(), "it says how far it is");
    let sizes: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let size = |name: &str| sizes[name].as_u64().expect("a number");
    assert!(size("after") <= size("before"), "{sizes}");
    let output = gatepost(&["check-store", "--data", text(&data)]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert!(out.contains("events: 6 rows"), "{out}");
}
