//! Getting events back out of a damaged store.
//!
//! # Guarantees
//!
//! - The damaged file is not changed. What redb would write to it stays in memory.
//! - Only records whose checksum is right are taken over; an event keeps its number and the gateway
//!   its id, so idempotency keys stay what they were.
//! - What could not be taken over is in the report: which rows do not prove whole, and how many
//!   rows each table should have had.
//! - A number that may have been given to a lost event is not given again.
//! - The new store has its name only once it is complete. What is left of a salvage that was cut
//!   short is no store that anybody would start on; the next salvage begins anew.
//!
//! The rows that belong to an event are looked up one by one under every key they can have, because
//! walking through a table ends at the first damaged page. What no tree leads to any more is looked
//! for page by page ([`super::sift`]), also where the header and with it all trees are lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::overlay::Mask;
use super::rescue::{Kept, Rescue};
use super::schema::RECENT;
use super::source::{RowKey, Rows, Source};
use super::{Counters, Error, Store, Sync, beside, give_name, newborn_path, remove_if_there};
use crate::event::{DestinationNo, Seq};
use crate::fault;

/// Bytes of bodies and records that are written in one transaction.
const AT_ONCE_BYTES: usize = super::CACHE_BYTES / 4;

/// How many numbers are skipped when it is not known which was the last that was given.
const GAP: u64 = 1_000_000;

/// How many unreadable keys in a row are the end, if it is not known where the end is.
const PATIENCE: u64 = 100_000;

/// The most flaws that are listed.
pub const MOST_FLAWS: usize = 1_000;

/// What came of it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Salvaged {
    /// What was recovered of each table.
    pub tables: Vec<TableCount>,
    /// What was not, as far as it is known where it was; the first [`MOST_FLAWS`].
    pub lost: Vec<Flaw>,
    /// The gateway kept its id, so idempotency keys are what they were.
    pub same_gateway: bool,
    /// It opened only as if it had been closed in order: the last moments may be missing.
    pub forced: bool,
    /// Some of it was found page by page, where what leads there is damaged: what was delivered or
    /// discarded shortly before may be there again.
    pub sifted: bool,
}

/// What was recovered of a table.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct TableCount {
    /// Its name.
    pub table: &'static str,
    /// How many rows it says it has; none if that can't be read.
    pub rows: Option<u64>,
    /// How many are in the new store.
    pub recovered: u64,
}

/// Something that does not prove whole.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Flaw {
    /// In which table.
    pub table: &'static str,
    /// The event's number, if it belongs to one.
    pub seq: Option<Seq>,
    /// What is wrong.
    pub why: String,
}

impl Salvaged {
    /// Whether everything was recovered.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let whole = |count: &TableCount| count.rows == Some(count.recovered);
        // A row that was removed may stand for one that is lost.
        self.lost.is_empty() && self.same_gateway && !self.sifted && self.tables.iter().all(whole)
    }

    /// Notes a loss.
    pub(super) fn lose(&mut self, table: &'static str, seq: Option<u64>, why: String) {
        if self.lost.len() < MOST_FLAWS {
            let seq = seq.map(Seq);
            self.lost.push(Flaw { table, seq, why });
        }
    }

    /// Notes how many rows a table should have.
    fn expect_rows<K: RowKey>(&mut self, rows: &Rows<K>) {
        let table = rows.name;
        if let Some(why) = rows.closed() {
            let what = if rows.is_lost() {
                "all of it"
            } else {
                "some of it, perhaps: it had to be found page by page"
            };
            self.lose(table, None, format!("{what}: {why}"));
        }
        self.tables.push(TableCount {
            table,
            rows: rows.count().ok(),
            recovered: 0,
        });
    }

    /// Counts rows that are in the new store.
    fn recover(&mut self, table: &'static str, rows: usize) {
        if let Some(count) = self.tables.iter_mut().find(|count| count.table == table) {
            count.recovered += rows as u64;
        }
    }
}

/// Recovers what proves whole in the store at `damaged` into a new store at `into`, where nothing
/// may be yet. `entropy` names it if the old name is lost. Tells `progress` now and then how many
/// events are done, and of how many if that is known.
///
/// # Errors
///
/// [`Error::Unreadable`] if nothing can be read at all; then nothing is created.
pub fn salvage(
    damaged: &Path,
    into: &Path,
    entropy: u64,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Salvaged, Error> {
    let source = Source::to_salvage(damaged)?;
    let mut salvaged = Salvaged {
        forced: source.mask != Mask::None,
        ..Salvaged::default()
    };
    let gateway = single::<u64>(&source, "gateway", &mut salvaged);
    salvaged.same_gateway = gateway.is_some();
    let counters = single::<Counters>(&source, "counters", &mut salvaged);
    let unfinished = unfinished_path(into);
    discard(&unfinished)?;
    let store = Store::open(&unfinished, gateway.unwrap_or(entropy))?;
    let names = take_metas(&source, &store, &mut salvaged)?;
    let mut destinations: BTreeSet<DestinationNo> = names.keys().copied().collect();
    // Counters that were found page by page may be old ones.
    let known = counters.as_ref().filter(|_| !source.is_sifted());
    let end = known.map(|counters| counters.next_seq);
    store.write(Sync::Usual, |tables| {
        if let Some(counters) = counters {
            tables.counters.next_seq = counters.next_seq;
            tables.counters.next_entry = counters.next_entry;
            tables.counters.totals = counters.totals;
            destinations.extend(counters.backlog.keys());
        }
        Ok(())
    })?;
    let mut rescue = Rescue::of(&source, destinations, names);
    expect_all(&rescue, &mut salvaged);
    let mut batch = Batch::new(&store);
    take_events(&mut rescue, end, &mut batch, &mut salvaged, progress)?;
    take_recent(&source, &store, end, &mut salvaged)?;
    name_the_nameless(&store, &rescue.destinations, &mut salvaged)?;
    if end.is_none() {
        store.write(Sync::Usual, |tables| {
            tables.counters.next_seq = tables.counters.next_seq.saturating_add(GAP);
            tables.counters.next_entry = tables.counters.next_entry.saturating_add(GAP);
            Ok(())
        })?;
    }
    salvaged.sifted = source.is_sifted() || rescue.is_sifted();
    store.close()?;
    fault::point("salvage-before-rename");
    give_name(&unfinished, into)?;
    Ok(salvaged)
}

/// Whether a file is what a salvage into the store at `into` left that was cut short.
#[must_use]
pub fn is_unfinished(file: &Path, into: &Path) -> bool {
    let unfinished = unfinished_path(into);
    file == unfinished || file == newborn_path(&unfinished)
}

fn unfinished_path(into: &Path) -> PathBuf {
    beside(into, ".unfinished")
}

/// Removes what an earlier salvage left, if that is not still at it.
fn discard(unfinished: &Path) -> Result<(), Error> {
    let file = match File::open(unfinished) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| Error::file(unfinished, error))?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::InUse(unfinished.to_owned())),
        Err(TryLockError::Error(error)) => return Err(Error::file(unfinished, error)),
    }
    remove_if_there(unfinished).map_err(|error| Error::file(unfinished, error))
}

/// A single value, if it is there and whole.
fn single<T: DeserializeOwned>(source: &Source, name: &str, salvaged: &mut Salvaged) -> Option<T> {
    let why = match source.meta(name) {
        Ok(Some(content)) => match serde_json::from_slice(&content) {
            Ok(value) => return Some(value),
            Err(error) => error.to_string(),
        },
        // A store that was never written to counts nothing.
        Ok(None) if name == "counters" => return None,
        Ok(None) => "it is missing".to_owned(),
        Err(why) => why,
    };
    salvaged.lose("meta", None, format!("\"{name}\": {why}"));
    None
}

/// Takes over single values. Returns the destinations whose names are known.
fn take_metas(
    source: &Source,
    store: &Store,
    salvaged: &mut Salvaged,
) -> Result<BTreeMap<DestinationNo, String>, Error> {
    let (mut names, read) = source.meta_names();
    if let Err(why) = read {
        salvaged.lose(
            "meta",
            None,
            format!("names after the first {}: {why}", names.len()),
        );
        names.push("boot".to_owned());
    }
    let mut destinations = BTreeMap::new();
    store.write(Sync::Usual, |tables| {
        for name in &names {
            if matches!(name.as_str(), "schema" | "gateway" | "counters") {
                continue;
            }
            match source.meta(name) {
                Ok(Some(content)) => {
                    tables.restore_meta(name, &content)?;
                    if let Some(name) = name.strip_prefix("destination/")
                        && let Ok(number) = serde_json::from_slice(&content)
                    {
                        destinations.insert(number, name.to_owned());
                    }
                }
                Ok(None) => {}
                Err(why) => salvaged.lose("meta", None, format!("\"{name}\": {why}")),
            }
        }
        Ok(())
    })?;
    Ok(destinations)
}

fn expect_all(rescue: &Rescue, salvaged: &mut Salvaged) {
    salvaged.expect_rows(&rescue.events);
    salvaged.expect_rows(&rescue.bodies);
    salvaged.expect_rows(&rescue.pending);
    salvaged.expect_rows(&rescue.dead);
    salvaged.expect_rows(&rescue.quarantine);
    salvaged.expect_rows(&rescue.audit);
}

fn take_events(
    rescue: &mut Rescue,
    end: Option<u64>,
    batch: &mut Batch<'_>,
    salvaged: &mut Salvaged,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), Error> {
    let of = rescue.events.count().ok();
    let mut walk = Walk::default();
    while let Some((seq, record)) = walk.next(&rescue.events, end, salvaged) {
        let Some(kept) = rescue.keep(seq, record, salvaged) else {
            continue;
        };
        if batch.add(kept, salvaged)? {
            progress(batch.done, of);
        }
    }
    batch.flush(salvaged)?;
    progress(batch.done, of);
    Ok(())
}

fn take_recent(
    source: &Source,
    store: &Store,
    end: Option<u64>,
    salvaged: &mut Salvaged,
) -> Result<(), Error> {
    let recent = source.table(RECENT, "recent");
    salvaged.expect_rows(&recent);
    let mut walk = Walk::default();
    loop {
        let mut rows = Vec::new();
        while rows.len() < 1_000
            && let Some(row) = walk.next(&recent, end, salvaged)
        {
            rows.push(row);
        }
        if rows.is_empty() {
            return Ok(());
        }
        store.write(Sync::Usual, |tables| {
            rows.iter()
                .try_for_each(|(seq, key)| tables.restore_recent(*seq, key))
        })?;
        salvaged.recover("recent", rows.len());
    }
}

/// Makes sure that nobody else gets the number of a destination whose name is lost: its deliveries
/// would go to the wrong place.
fn name_the_nameless(
    store: &Store,
    seen: &BTreeSet<DestinationNo>,
    salvaged: &mut Salvaged,
) -> Result<(), Error> {
    let named: Vec<(String, DestinationNo)> = store.metas("destination/")?;
    let is_nameless =
        |number: &&DestinationNo| number.0 != 0 && named.iter().all(|(_, other)| other != *number);
    let nameless: Vec<&DestinationNo> = seen.iter().filter(is_nameless).collect();
    if nameless.is_empty() {
        return Ok(());
    }
    store.write(Sync::Usual, |tables| {
        nameless.iter().try_for_each(|number| {
            tables.put_meta(&format!("destination/lost-{}", number.0), number)
        })
    })?;
    for number in nameless {
        let why = format!(
            "the name of a destination: what waits for it waits for one called lost-{}",
            number.0
        );
        salvaged.lose("meta", None, why);
    }
    Ok(())
}

/// Steps from row to row over what can't be read.
#[derive(Default)]
struct Walk {
    next: Option<u64>,
    /// How many keys in a row could not be read, and since which.
    gap: Option<(u64, u64, String)>,
    ended: bool,
}

impl Walk {
    /// The next row that proves whole. `end` is the key after the last, if it is known.
    fn next(
        &mut self,
        rows: &Rows<u64>,
        end: Option<u64>,
        salvaged: &mut Salvaged,
    ) -> Option<(u64, Vec<u8>)> {
        if rows.is_lost() {
            return None;
        }
        while !self.ended {
            let key = self.next.unwrap_or(0);
            let patience = self
                .gap
                .as_ref()
                .is_some_and(|(_, keys, _)| PATIENCE <= *keys);
            if end.map_or(patience, |end| end <= key) {
                break;
            }
            self.next = key.checked_add(1);
            self.ended = self.next.is_none();
            match rows.next(key) {
                Ok(None) => break,
                Ok(Some((found, Ok(content)))) if key <= found => {
                    self.close_gap(rows.name, salvaged);
                    self.next = found.checked_add(1);
                    self.ended = self.next.is_none();
                    return Some((found, content));
                }
                // A key of a damaged row may be wrong, so it is not used to step ahead.
                Ok(Some((found, Err(why)))) => {
                    self.close_gap(rows.name, salvaged);
                    if found == key {
                        salvaged.lose(rows.name, Some(key), why);
                    }
                }
                Ok(Some((found, Ok(_)))) => {
                    self.note(key, format!("row {found} is out of order"));
                }
                Err(why) => {
                    self.note(key, why);
                    self.ended |= rows.has_none();
                }
            }
        }
        self.ended = true;
        self.close_gap(rows.name, salvaged);
        None
    }

    fn note(&mut self, key: u64, why: String) {
        self.gap.get_or_insert((key, 0, why)).1 += 1;
    }

    fn close_gap(&mut self, table: &'static str, salvaged: &mut Salvaged) {
        let Some((first, keys, why)) = self.gap.take() else {
            return;
        };
        let why = match keys {
            1 => why,
            _ => format!("and the {} after it: {why}", keys - 1),
        };
        salvaged.lose(table, Some(first), why);
    }
}

/// Events on their way into the new store.
struct Batch<'s> {
    store: &'s Store,
    kept: Vec<Kept>,
    bytes: usize,
    done: u64,
}

impl<'s> Batch<'s> {
    fn new(store: &'s Store) -> Self {
        Self {
            store,
            kept: Vec::new(),
            bytes: 0,
            done: 0,
        }
    }

    /// Adds an event; whether some were written.
    fn add(&mut self, kept: Kept, salvaged: &mut Salvaged) -> Result<bool, Error> {
        self.bytes += kept.bytes();
        self.kept.push(kept);
        if self.bytes < AT_ONCE_BYTES {
            return Ok(false);
        }
        self.flush(salvaged)?;
        Ok(true)
    }

    fn flush(&mut self, salvaged: &mut Salvaged) -> Result<(), Error> {
        self.store.write(Sync::Usual, |tables| {
            self.kept.iter().try_for_each(|kept| tables.restore(kept))
        })?;
        for kept in &self.kept {
            salvaged.recover("events", 1);
            salvaged.recover("bodies", kept.parts.len());
            salvaged.recover("pending", kept.pending.len());
            salvaged.recover("dead", kept.dead.len());
            salvaged.recover("quarantine", usize::from(kept.quarantined));
            salvaged.recover("audit", kept.trail.len());
        }
        self.done += self.kept.len() as u64;
        self.kept.clear();
        self.bytes = 0;
        Ok(())
    }
}
