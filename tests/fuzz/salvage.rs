//! Salvage over damaged stores and over arbitrary bytes.
//!
//! The first byte of an input says what the rest is: a whole file, or damage to a store that was
//! closed, or to one whose process was killed. Damage is a list of changes of [`CHANGE`] bytes.
//!
//! What must hold: nothing panics; memory and time are bounded (libFuzzer sees to that); each event
//! that is recovered is one that was stored, with its bytes, and waits for nothing that it did
//! not wait for; a start on the same file is not blocked.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use gatepost::clock::Reading;
use gatepost::delivery::{DeliveryId, Progress};
use gatepost::event::{Address, DestinationNo, Digest, Event, Lane, Seq};
use gatepost::store::{self, Error, Look, Store, Sync};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

/// What to do (1), to which page (2), where on it (2), with what (4).
const CHANGE: usize = 9;
const PAGE: usize = 4096;
const EVENTS: u64 = 40;
const CLOUD: DestinationNo = DestinationNo(1);

/// A store that was closed, the same as its process left it when it was killed, and the names of
/// the lanes in which its events wait.
struct Known {
    closed: Vec<u8>,
    killed: Vec<u8>,
    events: BTreeMap<Seq, (Event, Vec<u8>)>,
}

/// What the last panic said.
static SAID: Mutex<String> = Mutex::new(String::new());

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    // redb panics where it meets some kinds of damage, and the store catches that. libFuzzer's
    // hook would end the process before. A panic that nobody catches still ends it.
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut said) = SAID.lock() {
            *said = panic.to_string();
        }
    }));
    Known::build()
});

fuzz_target!(|data: &[u8]| {
    let known = &*KNOWN;
    if catch_unwind(AssertUnwindSafe(|| run(known, data))).is_err() {
        eprintln!(
            "{}",
            SAID.lock()
                .map_or_else(|_| String::new(), |said| said.clone())
        );
        std::process::abort();
    }
});

fn run(known: &Known, data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let file = match kind % 4 {
        0 => rest.to_vec(),
        1 => damaged(&known.closed, rest),
        2 => damaged(&known.killed, rest),
        // A header and what follows it, as far as there is something.
        _ => [&known.closed[..PAGE], rest].concat(),
    };
    let folder = folder();
    let path = folder.path().join("damaged.redb");
    fs::write(&path, &file).expect("there is room");
    salvage(known, &path, folder.path().join("new/events.redb"));
    assert!(
        fs::read(&path).expect("it is there") == file,
        "the damaged file was changed"
    );
    // Either verdict is right; what counts is that there is one.
    let _ = store::check(&path);
    begin(&path);
}

fn salvage(known: &Known, path: &Path, into: PathBuf) {
    let Ok(salvaged) = store::salvage(path, &into, 9, &mut |_, _| ()) else {
        assert!(!into.exists(), "what can't be read leaves nothing");
        return;
    };
    let recovered = Store::open_existing(&into).expect("it is a store");
    let rows = recovered
        .events_from(Seq(0), usize::MAX)
        .expect("it is whole");
    for (seq, event) in rows {
        let event = event.expect("it is whole");
        let (original, body) = known.events.get(&seq).expect("it was stored");
        assert_eq!(&event, original, "{seq:?}");
        match recovered.body(seq, &event) {
            Ok(Some(found)) => assert!(found == *body, "{seq:?} has another body"),
            Ok(None) | Err(Error::Corrupt { .. }) => {}
            Err(error) => unreachable!("{error}"),
        }
    }
    let pending = recovered
        .pending_after(None, usize::MAX)
        .expect("it is whole");
    for row in pending {
        assert_eq!(row.id, id(row.id.seq), "it did not wait there");
        assert!(row.progress.attempts <= 1, "{row:?}");
    }
    let counted = salvaged.tables.iter().find(|count| count.table == "events");
    let counted = counted.map_or(0, |count| count.recovered);
    assert_eq!(
        recovered.counters().expect("they are whole").events,
        counted
    );
    recovered.close().expect("it is whole");
    let checked = store::check(&into).expect("it is a store");
    // A body that does not prove whole is said to be missing; nothing else may be wrong.
    let is_known = |flaw: &store::Flaw| flaw.why.contains("bytes of its body");
    assert!(checked.flaws.iter().all(is_known), "{:?}", checked.flaws);
}

/// A start is never blocked by damage. What of it shows only when something is written ends the
/// process; after a few such starts the whole store is looked at, and then it must show.
fn begin(path: &Path) {
    let usual = catch_unwind(AssertUnwindSafe(|| begin_with(path, Look::Usual)));
    if usual.is_err() {
        begin_with(path, Look::Whole);
    }
}

fn begin_with(path: &Path, look: Look) {
    match Store::open_or_begin(path, 9, look) {
        Ok((store, _)) => store.counters().map_or((), |_| ()),
        // A file of another version is whole and left alone.
        Err(error) => {
            let text = format!("{error:?}");
            let is_version = text.contains("version") || text.contains("UpgradeRequired");
            assert!(
                is_version || matches!(error, Error::TooNew { .. }),
                "{text}"
            );
        }
    }
}

/// In memory, where there is room.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => TempDir::with_prefix_in("gatepost-fuzz-", memory),
        false => TempDir::with_prefix("gatepost-fuzz-"),
    };
    folder.expect("there is room")
}

/// `file` after the changes that `data` lists.
fn damaged(file: &[u8], data: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    for change in data.chunks_exact(CHANGE).take(64) {
        let number = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
        let pages = (file.len() / PAGE).max(1);
        let page = number(1) % pages * PAGE;
        let at = page + number(3) % PAGE;
        let with = &change[5..9];
        match change[0] % 6 {
            0 => overwrite(&mut file, at, with),
            1 => overwrite(&mut file, at, &with[..1]),
            2 => overwrite(&mut file, page, &[with[0]; PAGE]),
            3 => file.truncate(at),
            4 => {
                let from = number(5) % pages * PAGE;
                let copy = file[from..file.len().min(from + PAGE)].to_vec();
                overwrite(&mut file, page, &copy);
            }
            // The header, where most of what redb goes by is.
            _ => overwrite(&mut file, number(3) % 320, with),
        }
    }
    file
}

fn overwrite(file: &mut [u8], at: usize, with: &[u8]) {
    if let Some(rest) = file.get_mut(at..) {
        let count = rest.len().min(with.len());
        rest[..count].copy_from_slice(&with[..count]);
    }
}

fn body(seq: u64) -> Vec<u8> {
    let length = if seq % 20 == 19 {
        30_000
    } else {
        seq * 37 % 700
    };
    (0..length)
        .map(|at| (at * 31 + seq).to_le_bytes()[0])
        .collect()
}

fn id(seq: Seq) -> DeliveryId {
    DeliveryId {
        destination: CLOUD,
        lane: Lane::of_device("door", &format!("cam-{}", seq.0 % 7)),
        seq,
    }
}

fn event(seq: u64) -> Event {
    let body = body(seq);
    Event {
        event_id: Some(format!("e-{seq}")),
        device: Some(format!("cam-{}", seq % 7)),
        route: Some("door".to_owned()),
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/ingest/door".to_vec(),
        headers: Vec::new(),
        received: Reading::default(),
        boot: 1,
        length: body.len() as u64,
        kept: body.len() as u64,
        digest: Digest::of(&body),
        event_time: None,
        items: None,
        revision_of: None,
        priority: gatepost::event::USUAL_PRIORITY,
        quarantine: None,
        to: vec![Address {
            destination: CLOUD,
            lane: id(Seq(seq)).lane,
        }],
    }
}

impl Known {
    fn build() -> Self {
        let folder = folder();
        let path = folder.path().join("events.redb");
        let store = Store::open(&path, 7).expect("there is room");
        let mut events = BTreeMap::new();
        for from in (0..EVENTS).step_by(10) {
            let stored = store.write(Sync::Usual, |tables| {
                tables.put_meta("destination/cloud", &CLOUD)?;
                for seq in from..from + 10 {
                    let put = tables.put_event(&event(seq), &body(seq))?;
                    events.insert(put, (event(seq), body(seq)));
                    tables.put_recent(put, &[7; 24], 1_000)?;
                    tables.put_pending(id(put), Progress::default())?;
                }
                Ok(())
            });
            stored.expect("there is room");
        }
        // Some have failed once, some have gone.
        let settled = store.write(Sync::Usual, |tables| {
            for seq in 0..EVENTS / 4 {
                tables.remove_pending(id(Seq(seq)))?;
                let progress = Progress {
                    attempts: 1,
                    replayed: false,
                };
                if seq % 2 == 0 {
                    tables.put_pending(id(Seq(seq)), progress)?;
                }
            }
            Ok(())
        });
        settled.expect("there is room");
        let killed = fs::read(&path).expect("it is there");
        store.close().expect("there is room");
        let closed = fs::read(&path).expect("it is there");
        Self {
            closed,
            killed,
            events,
        }
    }
}
