//! The committer on a disk that is short of room.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::super::*;
use crate::clock::ManualClock;
use crate::event::Digest;

const MIB: u64 = 1024 * 1024;

/// A disk that says what it is told to.
#[derive(Default)]
struct Says {
    free: AtomicU64,
    asked: AtomicU64,
    gave_up: AtomicBool,
}

impl Room for Says {
    fn free_bytes(&self) -> Option<u64> {
        self.asked.fetch_add(1, Relaxed);
        Some(self.free.load(Relaxed))
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(0)
    }

    fn give_up_ballast(&self) {
        self.gave_up.store(true, Relaxed);
    }
}

struct Bench {
    clock: Arc<ManualClock>,
    disk: Arc<Says>,
    committer: Committer,
    _folder: tempfile::TempDir,
}

fn bench(free: u64) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("events.redb"), 7).expect("a store");
    let clock = Arc::new(ManualClock::default());
    let disk = Arc::new(Says::default());
    disk.free.store(free, Relaxed);
    let committer = Committer::new(Arc::new(store), clock.clone(), 1 << 30, Retention::DEFAULT);
    Bench {
        committer: committer.expect("a committer").with_room(disk.clone()),
        clock,
        disk,
        _folder: folder,
    }
}

impl Bench {
    fn send(&mut self, id: &str) -> Done {
        let body = b"x";
        let event = Event {
            event_id: Some(id.to_owned()),
            device: None,
            route: Some("door".to_owned()),
            peer: "127.0.0.1:9".parse().expect("an address"),
            method: "POST".to_owned(),
            target: b"/".to_vec(),
            headers: Vec::new(),
            received: Reading::default(),
            boot: 1,
            length: 1,
            kept: 1,
            digest: Digest::of(body),
            event_time: None,
            items: None,
            revision_of: None,
            priority: crate::event::USUAL_PRIORITY,
            quarantine: None,
            to: Vec::new(),
        };
        let admission = Admission {
            event,
            body: body.to_vec(),
            key: Some(DedupKey::new("door", "cam-7", id)),
            within: None,
        };
        let work = vec![Work::Admit(Box::new(admission), ())];
        let step = self.committer.step(work).expect("the store works");
        step.answers[0].1.clone()
    }
}

#[test]
fn new_events_are_refused_while_room_is_low_and_taken_again_after() {
    let mut bench = bench(100 * MIB);
    assert_eq!(bench.send("e-1"), Done::Stored(Seq(0)));
    bench.disk.free.store(10 * MIB, Relaxed);
    assert_eq!(bench.send("e-2"), Done::Stored(Seq(1)), "not asked again");
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.send("e-3"), Done::Full);
    assert_eq!(bench.send("e-1"), Done::Duplicate(Seq(0)), "it has that");
    bench.disk.free.store(100 * MIB, Relaxed);
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.send("e-3"), Done::Stored(Seq(2)));
    assert_eq!(
        bench.disk.asked.load(Relaxed),
        5,
        "once a look, once a line"
    );
}

#[test]
fn only_a_full_disk_costs_the_ballast() {
    let file = |kind: std::io::ErrorKind| store::Error::File {
        path: "/x".into(),
        error: kind.into(),
    };
    let full = std::io::ErrorKind::StorageFull;
    for (error, gives_up) in [
        (file(std::io::ErrorKind::Other), false),
        (store::Error::Missing("/x".into()), false),
        (file(full), true),
    ] {
        let bench = bench(0);
        bench.committer.gate.note_failure(&error);
        assert_eq!(bench.disk.gave_up.load(Relaxed), gives_up, "{error:?}");
    }
}
