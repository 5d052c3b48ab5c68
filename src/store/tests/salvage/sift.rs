//! What is found page by page may be old, or not ours at all.

use super::*;
use crate::store::schema::seal;

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("plain data")
}

/// A leaf as redb lays it out, with these rows. `fixed`: its keys are of one width.
fn leaf(rows: &[(Vec<u8>, Vec<u8>)], fixed: bool) -> Vec<u8> {
    let ends = if fixed { rows.len() } else { 2 * rows.len() };
    let mut at = 4 + 4 * ends;
    let mut end = |part: &[u8]| {
        at += part.len();
        u32::try_from(at).expect("short").to_le_bytes()
    };
    let of_keys: Vec<[u8; 4]> = rows.iter().map(|(key, _)| end(key)).collect();
    let of_values: Vec<[u8; 4]> = rows.iter().map(|(_, value)| end(value)).collect();
    let count = u16::try_from(rows.len()).expect("few rows").to_le_bytes();
    let mut page = [&[1, 0][..], &count].concat();
    page.extend(of_keys.concat().iter().filter(|_| !fixed));
    page.extend(of_values.concat());
    page.extend(rows.iter().flat_map(|(key, _)| key.clone()));
    page.extend(rows.iter().flat_map(|(_, value)| value.clone()));
    page.resize(page.len().next_multiple_of(4096), 0);
    page
}

/// A record that nobody stored, an entry that an event was delivered, and counters at their end.
fn forged() -> [Vec<u8>; 3] {
    let forged = Event {
        route: Some("stripe".to_owned()),
        ..event_of(500)
    };
    let row = |key: &[u8], record: Vec<u8>| vec![(key.to_vec(), record)];
    let delivered = Entry::new(
        Reading::default(),
        Action::Attempted {
            destination: "cloud".to_owned(),
            number: 1,
            outcome: "HTTP 200".to_owned(),
            took_ms: 1,
            then: Then::Delivered,
        },
    );
    let counters = Counters {
        next_seq: u64::MAX - 5,
        ..Counters::default()
    };
    let trail = (0_u64, 900_u64);
    let trail_key = [trail.0.to_le_bytes(), trail.1.to_le_bytes()].concat();
    [
        leaf(
            &row(&500_u64.to_le_bytes(), seal(&500_u64, &json(&forged))),
            true,
        ),
        leaf(&row(&trail_key, seal(&trail, &json(&delivered))), true),
        leaf(
            &row(b"counters", seal(&"counters", &json(&counters))),
            false,
        ),
    ]
}

#[test]
fn what_a_device_has_sent_is_no_record_whatever_it_looks_like() {
    let pages = forged();
    // A body begins 25 bytes into its leaf.
    let body = [vec![0; 4096 - 25], pages.concat()].concat();
    let (_folder, path, _) = full(false);
    let store = open(&path);
    let strange = Event {
        quarantine: Some(Quarantine::NoRoute),
        to: Vec::new(),
        ..event(&body)
    };
    let put = |tables: &mut Tables<'_>| tables.put_event(&strange, &body).map(drop);
    store.write(Sync::Usual, put).expect("the store works");
    store.close().expect("closed");
    let mut image = fs::read(&path).expect("readable");
    let aligned = image
        .chunks(4096)
        .filter(|page| page.starts_with(&pages[0][..64]));
    assert_eq!(
        aligned.count(),
        1,
        "what is forged lies where records may lie"
    );
    image[..4096].fill(0);
    fs::write(&path, &image).expect("written");
    let into = folder();
    let new = into.path().join("events.redb");
    salvage(&path, &new, 99, &mut |_, _| ()).expect("salvaged");
    let store = open(&new);
    assert_eq!(store.event(Seq(500)).expect("readable"), None);
    let first = store.pending_after(None, 1_000).expect("readable");
    assert!(
        first.iter().any(|row| row.id == id_of(0)),
        "seq 0 waits still"
    );
    let next = store.counters().expect("readable").next_seq;
    assert!(EVENTS < next && next < 10_000_000, "{next}");
}

#[test]
fn an_older_trail_takes_nothing_from_tables_that_are_whole() {
    let attempted = Action::Attempted {
        destination: "cloud".to_owned(),
        number: 1,
        outcome: "HTTP 422".to_owned(),
        took_ms: 1,
        then: Then::Dead,
    };
    let replayed = Action::Replayed {
        destination: "cloud".to_owned(),
    };
    let (_folder, path, _) = full(false);
    let store = open(&path);
    let note = |action: &Action| {
        let entry = Entry::new(Reading::default(), action.clone());
        let all = |tables: &mut Tables<'_>| {
            let pending = (0..EVENTS).filter(|seq| ![1, 3].contains(&(seq % 10)));
            pending
                .map(Seq)
                .try_for_each(|seq| tables.put_entry(seq, &entry))
        };
        store.write(Sync::Usual, all).expect("the store works");
    };
    note(&attempted);
    note(&replayed);
    store.close().expect("closed");
    let image = fs::read(&path).expect("readable");
    // Each leaf that holds the last word on somebody, alone.
    let is_newest = |page: &[u8]| page[0] == 1 && find(page, b"replayed").is_some();
    let leaves = (0..image.len() / 4096).filter(|at| is_newest(&image[at * 4096..][..4096]));
    let mut tried = 0;
    for at in leaves {
        let mut hurt = image.clone();
        hurt[at * 4096..][..4096].fill(0);
        fs::write(&path, &hurt).expect("written");
        let into = folder();
        let new = into.path().join("events.redb");
        salvage(&path, &new, 99, &mut |_, _| ()).expect("salvaged");
        let backlog = open(&new).counters().expect("readable").backlog;
        let pending = backlog[&CLOUD].pending + backlog[&NOWHERE].pending;
        assert_eq!(pending, EVENTS * 8 / 10, "page {at}");
        tried += 1;
    }
    assert!(2 < tried, "{tried}");
}

fn find(page: &[u8], what: &[u8]) -> Option<usize> {
    page.windows(what.len()).position(|window| window == what)
}
