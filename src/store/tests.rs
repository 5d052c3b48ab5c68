//! The store's promises, on files in a folder of their own.

mod pictures;
mod salvage;

use super::*;
use crate::clock::Reading;
use crate::delivery::{DeliveryId, Progress};
use crate::event::{DestinationNo, Digest, Event, Lane, Seq};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn open(path: &Path) -> Store {
    Store::open(path, 42).expect("a store")
}

fn event(body: &[u8]) -> Event {
    Event {
        event_id: None,
        device: None,
        route: Some("door".to_owned()),
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/\xe9".to_vec(),
        headers: Vec::new(),
        received: Reading::default(),
        boot: 1,
        length: body.len() as u64,
        kept: body.len() as u64,
        digest: Digest::of(body),
        event_time: None,
        items: None,
        revision_of: None,
        priority: crate::event::USUAL_PRIORITY,
        quarantine: None,
        to: Vec::new(),
    }
}

fn put(store: &Store, body: &[u8]) -> Seq {
    let event = event(body);
    store
        .write(Sync::Usual, |tables| tables.put_event(&event, body))
        .expect("the store works")
}

#[test]
fn a_store_keeps_its_name_and_its_events_over_restarts() {
    let folder = folder();
    let path = folder.path().join("deep/events.redb");
    let store = open(&path);
    let gateway = store.gateway();
    assert_eq!(put(&store, b"one"), Seq(0));
    store.close().expect("closed");
    let store = Store::open(&path, 43).expect("a store");
    assert_eq!(store.gateway(), gateway);
    assert_eq!(put(&store, b"two"), Seq(1), "numbers are never reused");
    assert_eq!(store.event(Seq(0)).expect("readable"), Some(event(b"one")));
}

#[test]
fn a_birth_that_was_cut_short_is_begun_again() {
    let folder = folder();
    let path = folder.path().join("events.redb");
    fs::write(newborn_path(&path), vec![0; 73_728]).expect("written");
    put(&open(&path), b"one");
    assert!(!newborn_path(&path).exists());
}

#[test]
fn bodies_of_all_lengths_come_back_byte_for_byte() {
    let folder = folder();
    let store = open(&folder.path().join("events.redb"));
    for length in [
        0_usize, 1, 4_000, 4_060, 20_000, 200_000, 1_048_576, 5_000_001,
    ] {
        let body: Vec<u8> = (0..length)
            .map(|at: usize| (at % 253).to_le_bytes()[0])
            .collect();
        let seq = put(&store, &body);
        let event = store.event(seq).expect("readable").expect("there");
        assert!(
            store.body(seq, &event).expect("whole") == Some(body),
            "{length} bytes"
        );
    }
}

#[test]
fn a_change_that_fails_changes_nothing() {
    let folder = folder();
    let store = open(&folder.path().join("events.redb"));
    let failed = store.write(Sync::Usual, |tables| {
        tables.put_event(&event(b"x"), b"x")?;
        Err::<(), _>(Error::Missing(PathBuf::new()))
    });
    assert!(failed.is_err());
    assert_eq!(store.event(Seq(0)).expect("readable"), None);
    assert_eq!(store.counters().expect("readable"), Counters::default());
    assert_eq!(put(&store, b"y"), Seq(0));
}

#[test]
fn the_heads_of_lanes_are_their_oldest_deliveries() {
    let folder = folder();
    let store = open(&folder.path().join("events.redb"));
    let id = |destination, lane, seq| DeliveryId {
        destination: DestinationNo(destination),
        lane: Lane(lane),
        seq: Seq(seq),
    };
    let rows = [
        id(1, 0, 7),
        id(1, 5, 3),
        id(1, 5, 4),
        id(1, u64::MAX, 9),
        id(2, 5, 1),
    ];
    store
        .write(Sync::Usual, |tables| {
            rows.iter()
                .try_for_each(|id| tables.put_pending(*id, Progress::default()))
        })
        .expect("the store works");
    let heads = store.lane_heads(DestinationNo(1)).expect("readable");
    let heads: Vec<DeliveryId> = heads.into_iter().map(|head| head.id).collect();
    assert_eq!(heads, [rows[0], rows[1], rows[3]]);
    let next = |after| {
        let next = store
            .next_in_lane(DestinationNo(1), Lane(5), after)
            .expect("readable");
        next.map(|pending| pending.id)
    };
    assert_eq!(next(None), Some(rows[1]));
    assert_eq!(next(Some(Seq(3))), Some(rows[2]));
    assert_eq!(next(Some(Seq(4))), None);
    let after = store.pending_after(Some(rows[1]), 2).expect("readable");
    assert_eq!(
        after.iter().map(|pending| pending.id).collect::<Vec<_>>(),
        rows[2..4]
    );
}

#[test]
fn one_process_at_a_time() {
    let folder = folder();
    let path = folder.path().join("events.redb");
    let _store = open(&path);
    assert!(matches!(Store::open(&path, 1), Err(Error::InUse(_))));
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("events.redb");
    let store = open(&path);
    let newer = |tables: &mut Tables<'_>| tables.put_meta("schema", &(SCHEMA + 1));
    store.write(Sync::Usual, newer).expect("the store works");
    store.close().expect("closed");
    let error = Store::open(&path, 1).expect_err("it is too new");
    let text = "the store has schema 2 but this program knows only up to 1; \
                install the newer version again";
    assert_eq!(error.to_string(), text);
}

#[test]
fn looking_for_a_store_creates_none() {
    let folder = folder();
    let path = folder.path().join("events.redb");
    assert!(matches!(
        Store::open_existing(&path),
        Err(Error::Missing(_))
    ));
    assert!(!path.exists());
}

#[test]
fn the_oldest_keys_are_forgotten() {
    let folder = folder();
    let store = open(&folder.path().join("events.redb"));
    store
        .write(Sync::Usual, |tables| {
            (0..1_000).try_for_each(|seq| tables.put_recent(Seq(seq), b"key", 100))
        })
        .expect("the store works");
    let kept = store.recent().expect("readable");
    assert!((100..=102).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|(seq, _)| *seq), Some(Seq(999)));
}

#[test]
fn only_the_gateway_and_its_group_may_read_the_store() {
    let folder = folder();
    let path = folder.path().join("deep/events.redb");
    open(&path);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o640);
    assert_eq!(mode(folder_of(&path)) & 0o007, 0);
}

#[test]
fn a_full_disk_is_told_apart_from_other_failures() {
    let rows = [
        (io::ErrorKind::StorageFull, true),
        (io::ErrorKind::QuotaExceeded, true),
        (io::ErrorKind::ReadOnlyFilesystem, false),
        (io::ErrorKind::Other, false),
    ];
    for (kind, full) in rows {
        let error: Error = redb::StorageError::Io(kind.into()).into();
        assert_eq!(error.is_disk_full(), full, "{kind}");
        let error = Error::file(Path::new("/x"), kind.into());
        assert_eq!(error.is_disk_full(), full, "{kind}");
    }
    let error: Error = redb::StorageError::PreviousIo.into();
    assert!(!error.is_disk_full(), "the first error says it");
}
