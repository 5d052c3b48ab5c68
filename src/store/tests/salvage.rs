//! Salvage and check, on stores that were damaged in every way a disk can think of.

mod sift;

use super::*;
use crate::audit::{Action, Entry, Then};
use crate::clock::{Reading, Timestamp};
use crate::delivery::{DeadLetter, DeadReason};
use crate::event::{Address, Quarantine};
use crate::rng::Rng;
use crate::store::schema::Sealed;
use crate::store::source::RowKey;
use redb::ReadableTable as _;

const EVENTS: u64 = 200;
const TRIALS: u64 = 10;
const CLOUD: DestinationNo = DestinationNo(1);
const NOWHERE: DestinationNo = DestinationNo(0);

fn body_of(seq: u64) -> Vec<u8> {
    let length = usize::try_from(seq * 37 % 700 + seq % 50 / 49 * 30_000).expect("small");
    (0..length)
        .map(|at| (at as u64 * 31 + seq).to_le_bytes()[0])
        .collect()
}

fn event_of(seq: u64) -> Event {
    let lane = Lane::of_device("door", &format!("cam-{}", seq % 7));
    let destination = if seq % 10 == 9 { NOWHERE } else { CLOUD };
    Event {
        event_id: Some(format!("e-{seq}")),
        to: vec![Address { destination, lane }],
        quarantine: (seq % 10 == 3).then_some(Quarantine::NoRoute),
        ..event(&body_of(seq))
    }
}

fn id_of(seq: u64) -> DeliveryId {
    let Address { destination, lane } = event_of(seq).to[0];
    let lane = if seq % 10 == 5 {
        Lane::alone(Seq(seq))
    } else {
        lane
    };
    DeliveryId {
        destination,
        lane,
        seq: Seq(seq),
    }
}

/// Every kind of row: of ten events one is dead, one in quarantine, one in a lane of its own, one
/// without a destination, the others are pending.
fn fill(tables: &mut Tables<'_>) -> Result<(), Error> {
    tables.put_meta("destination/cloud", &CLOUD)?;
    tables.put_meta("boot", &(Some("a boot"), 3))?;
    for seq in 0..EVENTS {
        let event = event_of(seq);
        tables.put_event(&event, &body_of(seq))?;
        // Some begin as JSON does.
        let first = if seq % 3 == 0 { b'{' } else { 7 };
        tables.put_recent(Seq(seq), &[first; 24], 1_000)?;
        let entry = Entry::new(Reading::default(), Action::Duplicate { times: seq });
        tables.put_entry(Seq(seq), &entry)?;
        let letter = DeadLetter {
            reason: DeadReason::Rejected,
            at: Timestamp::default(),
            lane: id_of(seq).lane,
            attempts: 1,
            outcome: "HTTP 422".to_owned(),
            answer: "no".to_owned(),
        };
        match seq % 10 {
            1 => tables.put_dead(CLOUD, Seq(seq), &letter)?,
            3 => {}
            _ => tables.put_pending(id_of(seq), Progress::default())?,
        }
    }
    Ok(())
}

/// A folder with a full store, and the store's bytes.
fn full(close: bool) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = folder();
    let path = folder.path().join("events.redb");
    let store = open(&path);
    store.write(Sync::Usual, fill).expect("the store works");
    if close {
        store.close().expect("closed");
    }
    let image = fs::read(&path).expect("readable");
    (folder, path, image)
}

/// What of the events is in the store at `path`, which must be whole. Every one must be as it was.
fn recovered(path: &Path, context: &str) -> u64 {
    let checked = check(path).expect("it can be looked at");
    let flaws: Vec<&Flaw> = checked
        .flaws
        .iter()
        // An event whose body was lost still waits, and the daemon says so when it comes to it.
        .filter(|flaw| !flaw.why.contains("bytes of its body"))
        .collect();
    assert!(flaws.is_empty(), "{context}: {flaws:?}");
    let store = Store::open_existing(path).expect("a store");
    let mut events = 0;
    for (seq, event) in store.events_from(Seq(0), 1_000).expect("readable") {
        let event = event.expect("whole");
        assert_eq!(event, event_of(seq.0), "{context}");
        if let Some(body) = store.body(seq, &event).expect("whole or not there") {
            assert!(body == body_of(seq.0), "{context}: {seq}");
        }
        events += 1;
    }
    for pending in store.pending_after(None, 1_000).expect("readable") {
        assert_eq!(pending.id, id_of(pending.id.seq.0), "{context}");
    }
    let counters = store.counters().expect("readable");
    assert!(EVENTS <= counters.next_seq || events < EVENTS, "{context}");
    events
}

fn rescue(path: &Path, context: &str) -> Option<(Salvaged, u64)> {
    let into = folder();
    let new = into.path().join("events.redb");
    let before = fs::read(path).expect("readable");
    let salvaged = salvage(path, &new, 99, &mut |_, _| ());
    assert!(
        fs::read(path).expect("readable") == before,
        "{context}: changed"
    );
    match salvaged {
        Ok(salvaged) => {
            let events = recovered(&new, context);
            Some((salvaged, events))
        }
        Err(Error::Unreadable { .. } | Error::File { .. }) => {
            assert!(!new.exists(), "{context}");
            None
        }
        Err(error) => unreachable!("{context}: {error}"),
    }
}

#[test]
fn everything_comes_out_of_a_whole_store() {
    for close in [true, false] {
        let (_folder, path, image) = full(close);
        fs::write(&path, &image).expect("written");
        let checked = check(&path).expect("it can be looked at");
        assert_eq!(checked.flaws, [], "closed {close}");
        assert_eq!(checked.rows["events"], EVENTS);
        let into = folder();
        let new = into.path().join("new/events.redb");
        let salvaged = salvage(&path, &new, 99, &mut |_, _| ()).expect("salvaged");
        assert!(salvaged.is_whole(), "{salvaged:?}");
        assert_eq!(recovered(&new, "whole"), EVENTS);
        let (old, new) = (open(&path), open(&new));
        assert_eq!(new.gateway(), old.gateway());
        assert_eq!(new.counters().ok(), old.counters().ok());
        assert_eq!(new.recent().ok(), old.recent().ok());
        let names = |store: &Store| store.metas::<serde_json::Value>("").expect("readable");
        assert_eq!(names(&new), names(&old));
        for seq in (0..EVENTS).map(Seq) {
            assert_eq!(new.trail(seq).ok(), old.trail(seq).ok(), "{seq}");
            let dead = |store: &Store| store.dead_letter(CLOUD, seq).expect("readable");
            assert_eq!(dead(&new), dead(&old), "{seq}");
        }
        assert_eq!(new.quarantined().ok(), Some(EVENTS / 10));
    }
}

#[test]
fn a_flipped_bit_costs_what_it_hits_and_nothing_comes_out_wrong() {
    let (_folder, path, image) = full(true);
    let mut rng = Rng::from_seed(5);
    let (mut noticed, mut all) = (0, 0);
    for _ in 0..TRIALS {
        let bit = rng.below(image.len() as u64 * 8);
        let mut damaged = image.clone();
        damaged[usize::try_from(bit / 8).expect("small")] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).expect("written");
        let context = format!("bit {bit}");
        let found = rescue(&path, &context);
        let flaws = check(&path).map_or(1, |checked| checked.flaws.len());
        let is_whole = found
            .as_ref()
            .is_some_and(|(salvaged, _)| salvaged.is_whole());
        assert!(is_whole || 0 < flaws, "{context}: lost and not seen");
        if let Some((salvaged, events)) = found {
            assert!(!is_whole || events == EVENTS, "{context}: {salvaged:?}");
            assert!(EVENTS / 2 < events, "{context}: {events}");
            all += events;
        }
        noticed += u64::from(!is_whole);
    }
    assert!((1..TRIALS).contains(&noticed), "{noticed} noticed");
    assert!(TRIALS * EVENTS * 98 < all * 100, "{all} events recovered");
}

#[test]
fn a_page_of_zeros_costs_what_was_on_it() {
    let (_folder, path, image) = full(true);
    let pages = image.len() / 4096;
    let (mut opened, mut events, mut lost_some, mut tried) = (0, 0, 0, 0);
    for page in (1..pages).filter(|page| page % 16 == 1) {
        if image[page * 4096..][..4096].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut damaged = image.clone();
        damaged[page * 4096..][..4096].fill(0);
        fs::write(&path, &damaged).expect("written");
        tried += 1;
        if let Some((salvaged, found)) = rescue(&path, &format!("page {page}")) {
            opened += 1;
            events += found;
            lost_some += u64::from(!salvaged.is_whole());
        }
    }
    assert!(3 < tried, "{tried}");
    assert!(tried * 8 <= opened * 10, "{opened} of {tried} opened");
    assert!(
        opened * EVENTS * 8 <= events * 10,
        "{events} of {}",
        opened * EVENTS
    );
    assert!(0 < lost_some);
}

#[test]
fn without_its_header_everything_is_found_page_by_page() {
    for close in [true, false] {
        let (_folder, path, mut image) = full(close);
        image[..4096].fill(0);
        fs::write(&path, &image).expect("written");
        let into = folder();
        let new = into.path().join("events.redb");
        let salvaged = salvage(&path, &new, 99, &mut |_, _| ()).expect("salvaged");
        assert!(salvaged.sifted && salvaged.same_gateway, "{salvaged:?}");
        assert!(!salvaged.is_whole(), "nobody knows how much there was");
        assert_eq!(recovered(&new, "no header"), EVENTS);
        let store = open(&new);
        let counters = store.counters().expect("readable");
        assert_eq!(counters.backlog[&CLOUD].dead, EVENTS / 10);
        assert_eq!(counters.backlog[&CLOUD].pending, EVENTS * 7 / 10);
        assert_eq!(counters.backlog[&NOWHERE].pending, EVENTS / 10);
        assert_eq!(store.quarantined().ok(), Some(EVENTS / 10));
        assert!(EVENTS < counters.next_seq, "a number is not given twice");
        for seq in (0..EVENTS).map(Seq) {
            assert_eq!(store.trail(seq).expect("readable").len(), 1, "{seq}");
        }
    }
}

#[test]
fn what_a_trail_says_has_ended_does_not_come_back_from_a_free_page() {
    let (_folder, path, _) = full(false);
    let store = open(&path);
    let attempted = |then| {
        let action = Action::Attempted {
            destination: "cloud".to_owned(),
            number: 1,
            outcome: "HTTP 200".to_owned(),
            took_ms: 1,
            then,
        };
        Entry::new(Reading::default(), action)
    };
    let of_cloud = |kind| (0..EVENTS).filter(move |seq| seq % 10 == kind).map(Seq);
    let settle = |tables: &mut Tables<'_>| {
        for seq in of_cloud(0) {
            tables.remove_pending(id_of(seq.0))?;
            tables.put_entry(seq, &attempted(Then::Delivered))?;
        }
        for seq in of_cloud(1) {
            tables.remove_dead(CLOUD, seq)?;
            tables.put_pending(id_of(seq.0), Progress::default())?;
            let replayed = Action::Replayed {
                destination: "cloud".to_owned(),
            };
            tables.put_entry(seq, &Entry::new(Reading::default(), replayed))?;
        }
        for seq in of_cloud(2) {
            let progress = Progress {
                attempts: 3,
                ..Progress::default()
            };
            tables.put_pending(id_of(seq.0), progress)?;
        }
        Ok(())
    };
    store.write(Sync::Usual, settle).expect("the store works");
    store.close().expect("closed");
    let mut image = fs::read(&path).expect("readable");
    image[..4096].fill(0);
    fs::write(&path, &image).expect("written");
    let into = folder();
    let new = into.path().join("events.redb");
    salvage(&path, &new, 99, &mut |_, _| ()).expect("salvaged");
    let store = open(&new);
    for pending in store.pending_after(None, 1_000).expect("readable") {
        let seq = pending.id.seq;
        assert_ne!(seq.0 % 10, 0, "{seq} was delivered");
        let attempts = if seq.0 % 10 == 2 { 3 } else { 0 };
        assert_eq!(pending.progress.attempts, attempts, "{seq}");
    }
    let counters = store.counters().expect("readable");
    assert_eq!(counters.backlog[&CLOUD].dead, 0, "all were replayed");
    assert_eq!(counters.backlog[&CLOUD].pending, EVENTS * 7 / 10);
}

#[test]
fn a_lost_branch_costs_nothing_of_what_is_below_it() {
    let (_folder, path, image) = full(true);
    let mut branches = 0;
    for page in 1..image.len() / 4096 {
        // redb's mark of a branch, with at least one key.
        if image[page * 4096] != 2 || image[page * 4096 + 2] == 0 {
            continue;
        }
        let mut damaged = image.clone();
        damaged[page * 4096..][..4096].fill(0);
        fs::write(&path, &damaged).expect("written");
        branches += 1;
        let (_, events) = rescue(&path, &format!("branch {page}")).expect("it opens");
        assert_eq!(events, EVENTS, "branch {page}");
    }
    assert!(3 < branches, "{branches}");
}

#[test]
fn a_truncated_store_gives_what_is_left_of_it() {
    for close in [true, false] {
        let (_folder, path, image) = full(close);
        fs::write(&path, &image[..image.len() - 3_000]).expect("written");
        assert!(Store::open_existing(&path).is_err());
        let (salvaged, events) = rescue(&path, "truncated").expect("something is left");
        assert!(salvaged.forced);
        assert!(EVENTS / 2 < events, "{salvaged:?}");
    }
}

#[test]
fn what_is_no_store_or_a_newer_one_is_said() {
    let (_folder, path, image) = full(true);
    for content in [&b""[..], b"x", &[7; 5_000], &image[..400]] {
        fs::write(&path, content).expect("written");
        assert!(rescue(&path, "foreign").is_none());
        assert!(check(&path).is_err());
    }
    fs::write(&path, &image).expect("written");
    let store = open(&path);
    let new = path.with_extension("new");
    let salvaged = salvage(&path, &new, 99, &mut |_, _| ());
    assert!(matches!(salvaged, Err(Error::InUse(_))), "{salvaged:?}");
    assert!(matches!(check(&path), Err(Error::InUse(_))));
    let newer = |tables: &mut Tables<'_>| tables.put_meta("schema", &(SCHEMA + 1));
    store.write(Sync::Usual, newer).expect("the store works");
    store.close().expect("closed");
    let salvaged = salvage(&path, &new, 99, &mut |_, _| ());
    assert!(
        matches!(salvaged, Err(Error::TooNew { .. })),
        "{salvaged:?}"
    );
    assert!(!new.exists());
}

#[test]
fn a_salvage_that_was_cut_short_leaves_no_store_and_begins_anew() {
    let (_folder, path, image) = full(true);
    fs::write(&path, &image).expect("written");
    let into = folder();
    let new = into.path().join("events.redb");
    let unfinished = beside(&new, ".unfinished");
    let mut was_unfinished = false;
    let mut progress = |_, _| {
        assert!(!new.exists(), "it is not complete");
        was_unfinished |= unfinished.exists();
    };
    salvage(&path, &new, 99, &mut progress).expect("salvaged");
    assert!(was_unfinished && !unfinished.exists());
    fs::rename(&new, &unfinished).expect("cut short just before");
    for left in [&unfinished, &newborn_path(&unfinished)] {
        assert!(is_unfinished(left, &new), "{}", left.display());
        fs::write(left, &image[..image.len() / 2]).expect("written");
        let salvaged = salvage(&path, &new, 99, &mut |_, _| ()).expect("salvaged");
        assert!(salvaged.is_whole() && !left.exists(), "{salvaged:?}");
        assert_eq!(recovered(&new, "anew"), EVENTS);
        fs::remove_file(&new).expect("it is there");
    }
    let other = open(&unfinished);
    let salvaged = salvage(&path, &new, 99, &mut |_, _| ());
    assert!(matches!(salvaged, Err(Error::InUse(_))), "{salvaged:?}");
    assert!(unfinished.exists() && !new.exists());
    drop(other);
    for other in [&path, &new, &beside(&new, ".damaged-1")] {
        assert!(!is_unfinished(other, &new), "{}", other.display());
    }
}

#[test]
fn tables_that_disagree_are_found() {
    let (_folder, path, _) = full(true);
    let store = open(&path);
    let disagree = store.write(Sync::Usual, |tables| {
        tables.put_pending(
            DeliveryId {
                seq: Seq(9_999),
                ..id_of(0)
            },
            Progress::default(),
        )?;
        tables.remove_body(Seq(2))?;
        tables.counters.events += 1;
        Ok(())
    });
    disagree.expect("the store works");
    store.close().expect("closed");
    let flaws = check(&path).expect("it can be looked at").flaws;
    let flaws: Vec<String> = flaws
        .iter()
        .map(|flaw| format!("{} {:?} {}", flaw.table, flaw.seq, flaw.why))
        .collect();
    let length = body_of(2).len();
    let expected = [
        format!("pending Some(Seq(2)) it waits with 0 of the {length} bytes of its body"),
        "pending Some(Seq(9999)) it belongs to no event".to_owned(),
        "meta None events: 200 are there and the counter says 201".to_owned(),
    ];
    let mut found = flaws.clone();
    found.retain(|flaw| expected.contains(flaw));
    assert_eq!((found.len(), flaws.len()), (3, 3), "{flaws:?}");
}

/// Flips a bit in the first record of a table, in all copies of it: also those on free pages.
fn flip<K: RowKey>(path: &Path, table: redb::TableDefinition<'static, K, Sealed>) {
    let db = Database::open(path).expect("a database");
    let record = {
        let transaction = db.begin_read().expect("begun");
        let table = transaction.open_table(table).expect("a table");
        let first = table.first().expect("readable").expect("a row");
        first.1.value().to_vec()
    };
    drop(db);
    let mut image = fs::read(path).expect("readable");
    let mut found = 0;
    for at in 0..image.len() - record.len() {
        if image[at..].starts_with(&record) {
            image[at + record.len() - 1] ^= 4;
            found += 1;
        }
    }
    assert!(0 < found, "the record is in the file");
    fs::write(path, &image).expect("written");
}

#[test]
fn a_flipped_bit_in_each_table_costs_that_record_only() {
    type Flip = fn(&Path);
    let rows: [(&str, Flip); 7] = [
        ("events", |path| flip(path, schema::EVENTS)),
        ("bodies", |path| flip(path, schema::BODIES)),
        ("pending", |path| flip(path, schema::PENDING)),
        ("dead", |path| flip(path, schema::DEAD)),
        ("quarantine", |path| flip(path, schema::QUARANTINE)),
        ("recent", |path| flip(path, schema::RECENT)),
        ("audit", |path| flip(path, schema::AUDIT)),
    ];
    let (_folder, path, image) = full(true);
    for (table, flip) in rows {
        fs::write(&path, &image).expect("written");
        flip(&path);
        let flaws = check(&path).expect("it can be looked at").flaws;
        assert!(
            flaws.iter().any(|flaw| flaw.table == table),
            "{table}: {flaws:?}"
        );
        let (salvaged, events) = rescue(&path, table).expect("it opens");
        assert_eq!(events, EVENTS - u64::from(table == "events"), "{table}");
        for count in &salvaged.tables {
            let missing = count.rows.expect("readable") - count.recovered;
            // With its record an event's other rows have lost their meaning.
            let may_miss = table == "events" || count.table == table;
            assert!(missing <= u64::from(may_miss) * 2, "{table}: {count:?}");
            assert!(
                count.table != table || missing == 1 || table == "bodies",
                "{count:?}"
            );
        }
        assert!(
            salvaged.lost.iter().any(|flaw| flaw.table == table),
            "{table}"
        );
        let (_, damage) = Store::open_or_begin(&path, 1, Look::Usual).expect("it starts");
        assert_eq!(
            damage, None,
            "{table}: one record is no reason to put the store aside"
        );
    }
}

#[test]
fn damaged_single_values_put_the_store_aside() {
    for name in ["schema", "gateway", "counters", "boot", "destination/cloud"] {
        let (_folder, path, _) = full(true);
        let db = Database::open(&path).expect("a database");
        let transaction = db.begin_write().expect("begun");
        let mut table = transaction.open_table(META).expect("a table");
        table
            .insert(name, [1, 2, 3, 4, 5, 6].as_slice())
            .expect("written");
        drop(table);
        transaction.commit().expect("committed");
        drop(db);
        let (_, damage) = Store::open_or_begin(&path, 1, Look::Usual).expect("it starts");
        let kept = damage.expect("nothing can be done without it").kept;
        let (salvaged, events) = rescue(&kept, name).expect("it opens");
        assert_eq!(events, EVENTS, "{name}");
        assert!(
            !salvaged.is_whole() || name == "schema",
            "{name}: {salvaged:?}"
        );
        assert_eq!(salvaged.same_gateway, name != "gateway");
    }
}

#[test]
fn a_check_ends_where_rows_lead_back() {
    let folder = folder();
    let path = folder.path().join("events.redb");
    let store = open(&path);
    store.write(Sync::Usual, fill).expect("the store works");
    store.close().expect("closed");
    let mut file = fs::read(&path).expect("there");
    let mut damaged = 0;
    for page in file.chunks_exact_mut(4096) {
        let count = usize::from(u16::from_le_bytes([page[2], page[3]]));
        let keys = 4 + 4 * count;
        if page[0] != 1 || count < 4 || page.len() < keys + 8 * count {
            continue;
        }
        let key = |index: usize| {
            let bytes = page[keys + 8 * index..][..8].try_into();
            u64::from_le_bytes(bytes.expect("eight bytes"))
        };
        if (0..count).all(|index| key(index) == key(0).wrapping_add(index as u64)) {
            page[keys + 8 * (count - 1)..][..8].fill(0);
            damaged += 1;
        }
    }
    assert!(0 < damaged, "there are leaves with ascending keys");
    fs::write(&path, file).expect("written");
    let checked = check(&path).expect("it can be looked at");
    let says = |flaw: &Flaw| flaw.why == "it is out of order";
    assert!(checked.flaws.iter().any(says), "{:?}", checked.flaws);
}
