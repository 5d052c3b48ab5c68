//! Records of a damaged store found page by page, without the trees that lead to them.
//!
//! A tree is lost below a damaged page, and all of them without the file's header. But each record
//! proves itself: its checksum covers its key. So every page of the file is looked at that may be
//! a leaf, and what proves whole on it is taken. But for the pages that a body takes which proves
//! whole: what a device sent is no record, whatever it looks like.
//!
//! # Limits
//!
//! - A checksum is no signature. Where the leaf of a body is damaged its pages are looked at, and a
//!   sender that has put pages of ours into it can bring records of its making into the new store.
//! - Pages that redb has given free and not used again hold rows that were removed since. What is
//!   found here may have been settled: the audit trail says so, as far as it is found too. See
//!   [`super::rescue`].
//! - Memory: about 50 bytes for each record of the tables that are sifted.
//!
//! Source: redb 4.6, `tree_store/btree_base.rs`: a leaf is `1`, a byte, the number of rows in two
//! bytes, the end of each key in four bytes unless its width is fixed, the end of each value
//! likewise, then the keys, then the values. Ends count from the start of the page.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use redb::Value as _;

use super::schema::unseal;
use super::source::RowKey;
use super::{Counters, Error};
use crate::delivery::DeadLetter;

/// redb's page. Leaves begin at multiples of it, also those that are longer.
const PAGE_BYTES: usize = 4096;

/// The longest leaf that is looked at. Ours are a quarter of a MiB and a little more.
const LONGEST_LEAF: usize = 4 << 20;

/// The first byte of a leaf.
const LEAF: u8 = 1;

/// The rows of one table that were found in a file.
pub(super) struct Sifted<K> {
    table: &'static str,
    file: File,
    places: BTreeMap<K, Place>,
}

/// Where a record lies in the file.
#[derive(Clone, Copy)]
struct Place {
    at: u64,
    length: u32,
}

impl<K: RowKey> Sifted<K> {
    /// Looks at all pages of the file at `path` for rows of `table`.
    pub(super) fn of(path: &Path, table: &'static str) -> Result<Self, Error> {
        let mut sifted = Self {
            table,
            file: open(path)?,
            places: BTreeMap::new(),
        };
        let width = K::fixed_width();
        let mut pages = Pages::of(path)?;
        while let Some((at, page)) = pages.next_leaf(width)? {
            for row in rows(page, width) {
                let key = K::from_bytes(&page[row.key.0..row.key.1]);
                let record = &page[row.value.0..row.value.1];
                let place = Place {
                    at: at + row.value.0 as u64,
                    length: u32::try_from(record.len()).unwrap_or(u32::MAX),
                };
                if let Ok(content) = unseal(table, &key, record)
                    && is_of(table, content)
                {
                    sifted.take(key, place, content);
                }
            }
        }
        Ok(sifted)
    }

    /// Of several copies of a row one is as good as the other, but for what changes: see [`age`].
    fn take(&mut self, key: K, place: Place, content: &[u8]) {
        let older = age(self.table, content).and_then(|_| self.get(key));
        match self.places.entry(key) {
            Entry::Vacant(empty) => _ = empty.insert(place),
            Entry::Occupied(mut taken) => {
                if older.is_some_and(|older| age(self.table, &older) < age(self.table, content)) {
                    taken.insert(place);
                }
            }
        }
    }

    /// The content of one row.
    pub(super) fn get(&self, key: K) -> Option<Vec<u8>> {
        let place = self.places.get(&key)?;
        let mut record = vec![0; place.length as usize];
        self.file.read_exact_at(&mut record, place.at).ok()?;
        unseal(self.table, &key, &record).map(<[u8]>::to_vec).ok()
    }

    /// The keys from `first` on.
    pub(super) fn keys_from(&self, first: K) -> impl Iterator<Item = K> {
        self.places.range(first..).map(|(key, _)| *key)
    }

    /// Whether nothing was found.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// The single values found in the file at `path`. Of the counters and the boots the last are taken,
/// of others the first that is found; some may have been removed since.
pub(super) fn metas(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut metas: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut pages = Pages::of(path)?;
    while let Some((_, page)) = pages.next_leaf(None)? {
        for row in rows(page, None) {
            let Ok(name) = std::str::from_utf8(&page[row.key.0..row.key.1]) else {
                continue;
            };
            let Ok(content) = unseal("meta", &name, &page[row.value.0..row.value.1]) else {
                continue;
            };
            let known = metas.get(name).map(|known| counted(known));
            if known.is_none_or(|known| known < counted(content)) && is_plausible(content) {
                metas.insert(name.to_owned(), content.to_vec());
            }
        }
    }
    Ok(metas)
}

/// How far the counters had come, or the starts of the machine; of other values nothing can be
/// said.
fn counted(content: &[u8]) -> Option<(u64, u64)> {
    if let Ok(counters) = serde_json::from_slice::<Counters>(content) {
        return Some((counters.next_seq, counters.next_entry));
    }
    let (_, boot): (Option<String>, u64) = serde_json::from_slice(content).ok()?;
    Some((boot, 0))
}

/// More than any gateway ever counts: ten thousand events a second for eight centuries.
const IMPLAUSIBLE: u64 = 1 << 48;

/// Whether counters can be what they say. Others would leave no numbers for what comes.
fn is_plausible(content: &[u8]) -> bool {
    let is_high = |(seq, entry)| IMPLAUSIBLE <= seq || IMPLAUSIBLE <= entry;
    !counted(content).is_some_and(is_high)
}

/// What is higher in a newer copy of a row: the attempts of a delivery, which a replay begins anew,
/// and the time of a dead letter. Of others nothing can be said.
fn age(table: &str, content: &[u8]) -> Option<(bool, i64)> {
    match (table, content) {
        ("pending", [a, b, c, d, replayed]) => {
            let attempts = u32::from_le_bytes([*a, *b, *c, *d]);
            Some((*replayed == 1, i64::from(attempts)))
        }
        ("dead", _) => {
            let letter: DeadLetter = serde_json::from_slice(content).ok()?;
            Some((false, letter.at.as_ms()))
        }
        _ => None,
    }
}

/// Whether content whose key has the width of that table's is of it: three tables have the same.
/// What an event is recognised by is any 24 bytes; its record is far longer, and JSON.
fn is_of(table: &str, content: &[u8]) -> bool {
    let is_record = RECENT_BYTES < content.len() && content.starts_with(b"{");
    match table {
        "events" => is_record,
        "quarantine" => content.is_empty(),
        "recent" => !content.is_empty() && !is_record,
        _ => true,
    }
}

/// The length of a row of `recent`.
const RECENT_BYTES: usize = 24;

/// Where a row lies in its leaf: from, and up to.
struct Row {
    key: (usize, usize),
    value: (usize, usize),
}

/// The rows that a leaf's ends speak of and that lie within it. `width` is that of its keys.
fn rows(page: &[u8], width: Option<usize>) -> impl Iterator<Item = Row> + use<'_> {
    let count = row_count(page);
    let ends = if width.is_none() { 2 } else { 1 };
    let keys = HEAD_BYTES + count * ends * END_BYTES;
    let key_end = move |index: usize| match width {
        Some(width) => Some(keys + width * index),
        None if index == 0 => Some(keys),
        None => end(page, index - 1),
    };
    let values = key_end(count).unwrap_or(usize::MAX);
    let value_end = move |index: usize| match index {
        0 => Some(values),
        _ => end(page, (ends - 1) * count + index - 1),
    };
    let mut free_from = values;
    (0..count).filter_map(move |index| {
        let row = Row {
            key: (key_end(index)?, key_end(index + 1)?),
            value: (value_end(index)?, value_end(index + 1)?),
        };
        let lies_within = |(from, to): (usize, usize)| from <= to && to <= page.len();
        // Rows don't overlap, so a page of nonsense costs no more than one of sense.
        let is_right = lies_within(row.key) && lies_within(row.value) && free_from <= row.value.0;
        free_from = if is_right { row.value.1 } else { free_from };
        is_right.then_some(row)
    })
}

/// What a leaf begins with before the ends.
const HEAD_BYTES: usize = 4;
/// Of one end.
const END_BYTES: usize = 4;

fn row_count(page: &[u8]) -> usize {
    match page {
        [LEAF, _, low, high, ..] => usize::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    }
}

fn end(page: &[u8], index: usize) -> Option<usize> {
    let at = HEAD_BYTES + index * END_BYTES;
    let bytes = page.get(at..at + END_BYTES)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|error| Error::file(path, error))
}

/// A file, page by page.
struct Pages<'p> {
    file: File,
    path: &'p Path,
    length: u64,
    next: u64,
    page: Vec<u8>,
}

impl<'p> Pages<'p> {
    fn of(path: &'p Path) -> Result<Self, Error> {
        let file = open(path)?;
        let length = file.metadata().map_err(|error| Error::file(path, error))?;
        Ok(Self {
            file,
            path,
            length: length.len(),
            next: 0,
            page: Vec::new(),
        })
    }

    /// The next page that may be a leaf with keys of that width, whole, and where it begins.
    fn next_leaf(&mut self, width: Option<usize>) -> Result<Option<(u64, &[u8])>, Error> {
        while self.next < self.length {
            let at = self.next;
            self.next += PAGE_BYTES as u64;
            self.read(at, PAGE_BYTES)?;
            let count = row_count(&self.page);
            if count == 0 {
                continue;
            }
            if let Some(end) = self.bodies_end(at, count)? {
                let pages = end.div_ceil(PAGE_BYTES) as u64;
                self.next = at + pages * PAGE_BYTES as u64;
                if width != <(u64, u32)>::fixed_width() {
                    continue;
                }
            }
            let ends = if width.is_none() { 2 * count } else { count };
            // The ends of many rows may take more than a page.
            if PAGE_BYTES < HEAD_BYTES + ends * END_BYTES {
                self.read(at, HEAD_BYTES + ends * END_BYTES)?;
            }
            let Some(end) = end(&self.page, ends - 1) else {
                continue;
            };
            if (PAGE_BYTES..=LONGEST_LEAF).contains(&end) {
                self.read(at, end)?;
            }
            return Ok(Some((at, &self.page)));
        }
        Ok(None)
    }

    /// If the page at `at` is a leaf of bodies: where the last part on it ends that proves whole.
    fn bodies_end(&mut self, at: u64, count: usize) -> Result<Option<usize>, Error> {
        let width = <(u64, u32)>::fixed_width();
        self.read(at, HEAD_BYTES + count * END_BYTES)?;
        if let Some(end) = end(&self.page, count - 1)
            && (PAGE_BYTES..=LONGEST_LEAF).contains(&end)
        {
            self.read(at, end)?;
        }
        let is_part = |row: &Row| {
            let key = <(u64, u32)>::from_bytes(&self.page[row.key.0..row.key.1]);
            unseal("bodies", &key, &self.page[row.value.0..row.value.1]).is_ok()
        };
        let parts = rows(&self.page, width).filter(is_part);
        Ok(parts.map(|row| row.value.1).max())
    }

    /// Reads a page, or more of it if so many bytes are wanted; less at the end of the file.
    fn read(&mut self, at: u64, wanted: usize) -> Result<(), Error> {
        let left = usize::try_from(self.length - at).unwrap_or(usize::MAX);
        self.page.resize(wanted.max(PAGE_BYTES).min(left), 0);
        let read = self.file.read_exact_at(&mut self.page, at);
        read.map_err(|error| Error::file(self.path, error))
    }
}
