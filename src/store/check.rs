//! Is a store whole? Everything in it, read and compared. Changes nothing.
//!
//! - redb's own checksums over all pages.
//! - The checksum of every record, and whether events can be understood.
//! - Whether the tables agree: what waits has its event and body, what belongs to an event has one,
//!   and the counters say what is there.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use serde::Serialize;

use super::overlay::{Mask, Overlay};
use super::rescue::Rescue;
use super::salvage::{Flaw, MOST_FLAWS};
use super::schema::RECENT;
use super::source::{RowKey, Rows, Source, guarded};
use super::{Backlog, Counters, Error, builder};
use crate::event::{DestinationNo, Event, Seq};

/// How many rows are read at once.
const PAGE: usize = 256;

/// What a look at all of a store has shown.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Checked {
    /// How many rows of each table were read.
    pub rows: BTreeMap<&'static str, u64>,
    /// What is not right; the first [`MOST_FLAWS`].
    pub flaws: Vec<Flaw>,
}

impl Checked {
    fn flaw(&mut self, table: &'static str, seq: Option<u64>, why: String) {
        if self.flaws.len() < MOST_FLAWS {
            let seq = seq.map(Seq);
            self.flaws.push(Flaw { table, seq, why });
        }
    }

    /// Reads all rows of a table, as far as that is possible.
    fn each<K: RowKey>(
        &mut self,
        rows: &Rows<K>,
        seq: impl Fn(K) -> u64,
        mut row: impl FnMut(&mut Self, K, &[u8]),
    ) {
        let (mut last, mut count) = (None, 0);
        loop {
            let first = last.map_or(Bound::Unbounded, Bound::Excluded);
            let mut page = Vec::new();
            let read = rows.read((first, Bound::Unbounded), PAGE, &mut page);
            // A damaged page may lead back, and the walk would never end.
            let mut leads_back = false;
            for (key, content) in &page {
                if last.is_some_and(|last| *key <= last) {
                    self.flaw(rows.name, Some(seq(*key)), "it is out of order".to_owned());
                    leads_back = true;
                    break;
                }
                (last, count) = (Some(*key), count + 1);
                match content {
                    Ok(content) => row(self, *key, content),
                    Err(why) => self.flaw(rows.name, Some(seq(*key)), why.clone()),
                }
            }
            if let Err(why) = read {
                let why = format!("nothing after the first {count} rows can be read: {why}");
                self.flaw(rows.name, None, why);
                break;
            }
            if leads_back || page.is_empty() {
                break;
            }
        }
        self.rows.insert(rows.name, count);
        match rows.count() {
            Ok(said) if said != count => {
                self.flaw(
                    rows.name,
                    None,
                    format!("it has {count} rows and says {said}"),
                );
            }
            _ => {}
        }
    }
}

/// Looks at the store at `path`, which no process may have open for writing.
///
/// # Errors
///
/// When it can't be looked at: it is not there, in use, of a newer version, or nothing of it can
/// be read.
pub fn check(path: &Path) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    let overlay = Overlay::over(path, Mask::None)?;
    let sound = guarded(|| {
        let mut builder = builder();
        builder.set_check_integrity_on_open(true);
        let db = builder.create_with_backend(overlay);
        let db = db.map_err(|error| Error::opening(path, error))?;
        drop(db);
        Ok(())
    });
    if let Err(why) = sound {
        checked.flaw("(file)", None, why);
    }
    let source = Source::open(path)?;
    let rescue = Rescue::of(&source, [].into(), [].into());
    let mut seen = Counters::default();
    check_events(&rescue, &mut seen, &mut checked);
    check_waiting(&rescue, &mut seen, &mut checked);
    checked.each(&source.table(RECENT, "recent"), |seq| seq, |_, _, _| ());
    check_metas(&source, &seen, &mut checked);
    Ok(checked)
}

fn check_events(rescue: &Rescue, seen: &mut Counters, checked: &mut Checked) {
    checked.each(
        &rescue.events,
        |seq| seq,
        |checked, seq, record| {
            seen.events += 1;
            seen.next_seq = seq.saturating_add(1);
            if let Err(error) = serde_json::from_slice::<Event>(record) {
                checked.flaw("events", Some(seq), error.to_string());
            }
        },
    );
    let mut last = None;
    checked.each(
        &rescue.bodies,
        |(seq, _)| seq,
        |checked, (seq, _), _| {
            if last != Some(seq) {
                has_event(rescue, "bodies", seq, checked);
            }
            last = Some(seq);
        },
    );
    let mut last = None;
    checked.each(
        &rescue.audit,
        |(seq, _)| seq,
        |checked, (seq, entry), _| {
            seen.next_entry = seen.next_entry.max(entry.saturating_add(1));
            if last != Some(seq) {
                has_event(rescue, "audit", seq, checked);
            }
            last = Some(seq);
        },
    );
}

fn check_waiting(rescue: &Rescue, seen: &mut Counters, checked: &mut Checked) {
    checked.each(
        &rescue.pending,
        |(_, _, seq)| seq,
        |checked, (destination, _, seq), _| {
            seen.backlog_of(destination).pending += 1;
            has_body(rescue, "pending", seq, checked);
        },
    );
    checked.each(
        &rescue.dead,
        |(_, seq)| seq,
        |checked, (destination, seq), _| {
            seen.backlog_of(destination).dead += 1;
            has_body(rescue, "dead", seq, checked);
        },
    );
    checked.each(
        &rescue.quarantine,
        |seq| seq,
        |checked, seq, _| has_body(rescue, "quarantine", seq, checked),
    );
}

/// The event of a row, if there is one. If its record is damaged, that has been said already.
fn has_event(
    rescue: &Rescue,
    table: &'static str,
    seq: u64,
    checked: &mut Checked,
) -> Option<Event> {
    match rescue.events.get(seq) {
        Ok(Some(record)) => serde_json::from_slice(&record).ok(),
        Ok(None) => {
            checked.flaw(table, Some(seq), "it belongs to no event".to_owned());
            None
        }
        Err(_) => None,
    }
}

fn has_body(rescue: &Rescue, table: &'static str, seq: u64, checked: &mut Checked) {
    let Some(event) = has_event(rescue, table, seq, checked) else {
        return;
    };
    let mut parts = Vec::new();
    let range = (Bound::Included((seq, 0)), Bound::Included((seq, u32::MAX)));
    // What is damaged has been said already; here it is about what is not there.
    let read = rescue.bodies.read(range, usize::MAX, &mut parts);
    let whole = parts.iter().all(|(_, content)| content.is_ok());
    let has = parts
        .iter()
        .map(|(_, content)| content.as_ref().map_or(0, Vec::len) as u64)
        .sum::<u64>();
    if read.is_ok() && whole && has != event.kept {
        let why = format!(
            "it waits with {has} of the {} bytes of its body",
            event.kept
        );
        checked.flaw(table, Some(seq), why);
    }
}

fn check_metas(source: &Source, seen: &Counters, checked: &mut Checked) {
    let (names, read) = source.meta_names();
    checked.rows.insert("meta", names.len() as u64);
    if let Err(why) = read {
        checked.flaw("meta", None, why);
    }
    for name in &names {
        if let Err(why) = source.meta(name) {
            checked.flaw("meta", None, format!("\"{name}\": {why}"));
        }
    }
    for name in ["schema", "gateway"] {
        if let Ok(None) = source.meta(name) {
            checked.flaw("meta", None, format!("\"{name}\" is missing"));
        }
    }
    let Ok(content) = source.meta("counters") else {
        return;
    };
    let said = content.map_or(Ok(Counters::default()), |content| {
        serde_json::from_slice(&content)
    });
    match said {
        Ok(said) => compare(&said, seen, checked),
        Err(error) => checked.flaw("meta", None, format!("\"counters\": {error}")),
    }
}

/// What the counters say beside what is there.
fn compare(said: &Counters, seen: &Counters, checked: &mut Checked) {
    let mut differ = |what: String, said: u64, seen: u64| {
        if said != seen {
            let why = format!("{what}: {seen} are there and the counter says {said}");
            checked.flaw("meta", None, why);
        }
    };
    differ("events".to_owned(), said.events, seen.events);
    let numbers = said.backlog.keys().chain(seen.backlog.keys());
    let numbers: std::collections::BTreeSet<&DestinationNo> = numbers.collect();
    for number in numbers {
        let of = |counters: &Counters| -> Backlog {
            counters.backlog.get(number).copied().unwrap_or_default()
        };
        let (said, seen) = (of(said), of(seen));
        let name = number.0;
        differ(
            format!("pending for destination {name}"),
            said.pending,
            seen.pending,
        );
        differ(
            format!("dead letters of destination {name}"),
            said.dead,
            seen.dead,
        );
    }
    for (what, said, seen) in [
        ("event", said.next_seq, seen.next_seq),
        ("entry", said.next_entry, seen.next_entry),
    ] {
        if said < seen {
            let why =
                format!("the number of the next {what} is {said} and should be {seen} or more");
            checked.flaw("meta", None, why);
        }
    }
}
