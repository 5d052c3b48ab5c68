//! A store that may be damaged, read row by row: what proves whole, and what does not.
//!
//! Whoever wants all that is left opens it with [`Source::to_salvage`]: what the trees don't lead
//! to is then looked for page by page, see [`super::sift`].
//!
//! redb may panic anywhere in a damaged file, so every call is made in [`guarded`]. After a panic
//! in a read the rest stays readable (measured, redb 4.6).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    ConcurrencyMode, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, Value,
};

use super::damage::{panic_text, with_cause};
use super::overlay::{Mask, Overlay};
use super::schema::{META, SCHEMA, Sealed, SealedBy, unseal};
use super::sift::{self, Sifted};
use super::{Error, builder};

/// Calls into redb. A panic is what went wrong.
pub(super) fn guarded<R>(call: impl FnOnce() -> Result<R, Error>) -> Result<R, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => done.map_err(|error| with_cause(&error)),
        Err(panic) => Err(panic_text(panic.as_ref())),
    }
}

/// A store that is only looked at. The file is not changed.
pub(super) struct Source {
    /// What it took to open it.
    pub(super) mask: Mask,
    /// Why the trees can't be read at all; then there is no database.
    closed: Option<String>,
    // Dropped one after the other, because that may panic too.
    transaction: Option<ReadTransaction>,
    db: Option<Box<dyn ReadableDatabase>>,
    /// The file to sift, if that is wanted.
    sieve: Option<PathBuf>,
    /// The single values found there.
    metas: OnceCell<BTreeMap<String, Vec<u8>>>,
}

impl Source {
    /// Opens the file at `path` to take what it still has, whether or not its trees lead there.
    ///
    /// # Errors
    ///
    /// That of [`Source::open`], if nothing can be found otherwise either.
    pub(super) fn to_salvage(path: &Path) -> Result<Self, Error> {
        let sieve = Some(path.to_owned());
        let unreadable = match Self::open(path) {
            Err(Error::Unreadable { why, .. }) => why,
            Ok(mut source) => {
                source.sieve = sieve;
                return Ok(source);
            }
            Err(error) => return Err(error),
        };
        let source = Self {
            mask: Mask::Other,
            closed: Some(unreadable.clone()),
            transaction: None,
            db: None,
            sieve,
            metas: OnceCell::new(),
        };
        if source.sifted_metas().is_empty() && Sifted::<u64>::of(path, "events")?.is_empty() {
            return Err(Error::Unreadable {
                path: path.to_owned(),
                why: unreadable,
            });
        }
        source.if_known()
    }

    /// Opens the file at `path`, in the first of the ways that lead to its table of single values.
    ///
    /// # Errors
    ///
    /// The one of the first way, if none does.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let mut first = None;
        for mask in Mask::ALL {
            let overlay = Overlay::over(path, mask)?;
            match guarded(|| Self::open_as(overlay, mask, path)) {
                Ok(source) => return source.if_known(),
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(Error::Unreadable {
            path: path.to_owned(),
            why: first.unwrap_or_default(),
        })
    }

    fn open_as(overlay: Overlay, mask: Mask, path: &Path) -> Result<Self, Error> {
        let opening = |error| Error::opening(path, error);
        let db: Box<dyn ReadableDatabase> = if mask == Mask::None {
            Box::new(builder().create_with_backend(overlay).map_err(opening)?)
        } else {
            // In this mode redb reads neither the allocator's state, which may be what is damaged,
            // nor the length of the file.
            let mut builder = builder();
            builder.set_concurrency_mode(ConcurrencyMode::SingleWriter);
            let read_only = builder.open_read_only_with_backend(overlay);
            Box::new(read_only.map_err(opening)?)
        };
        let transaction = db.begin_read()?;
        transaction.open_table(META)?;
        Ok(Self {
            mask,
            closed: None,
            transaction: Some(transaction),
            db: Some(db),
            sieve: None,
            metas: OnceCell::new(),
        })
    }

    /// Refuses a store of a newer version.
    fn if_known(self) -> Result<Self, Error> {
        let schema = self.meta("schema").ok().flatten();
        let schema = schema.and_then(|content| serde_json::from_slice(&content).ok());
        match schema {
            Some(found) if SCHEMA < found => Err(Error::TooNew {
                found,
                known: SCHEMA,
            }),
            _ => Ok(self),
        }
    }

    /// A single value.
    pub(super) fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let read = self.transaction().and_then(|transaction| {
            guarded(|| {
                let table = transaction.open_table(META)?;
                let record = table.get(name)?;
                let content =
                    record.map(|record| unseal("meta", &name, record.value()).map(<[u8]>::to_vec));
                content.transpose()
            })
        });
        match (read, &self.closed) {
            (Err(why), None) => self.sifted_meta(name).map(Some).ok_or(why),
            (Err(_), Some(_)) => Ok(self.sifted_meta(name)),
            (read, _) => read,
        }
    }

    /// The names of single values, in order, as far as they can be read.
    pub(super) fn meta_names(&self) -> (Vec<String>, Result<(), String>) {
        let mut names = Vec::new();
        let read = self.transaction().and_then(|transaction| {
            guarded(|| {
                let table = transaction.open_table(META)?;
                for row in table.range(""..)? {
                    names.push(row?.0.value().to_owned());
                }
                Ok(())
            })
        });
        if read.is_err() {
            names.extend(self.sifted_metas().keys().cloned());
            names.sort();
            names.dedup();
        }
        (names, read)
    }

    /// Whether single values were looked for page by page, so that they may be old.
    pub(super) fn is_sifted(&self) -> bool {
        self.metas.get().is_some_and(|metas| !metas.is_empty())
    }

    fn sifted_meta(&self, name: &str) -> Option<Vec<u8>> {
        self.sifted_metas().get(name).cloned()
    }

    fn sifted_metas(&self) -> &BTreeMap<String, Vec<u8>> {
        self.metas.get_or_init(|| {
            let sifted = self.sieve.as_deref().map(sift::metas);
            // What can't be read has nothing.
            sifted.and_then(Result::ok).unwrap_or_default()
        })
    }

    fn transaction(&self) -> Result<&ReadTransaction, String> {
        let closed = || self.closed.clone().unwrap_or_default();
        self.transaction.as_ref().ok_or_else(closed)
    }

    /// One of its tables.
    pub(super) fn table<K: RowKey>(
        &self,
        definition: TableDefinition<'static, K, Sealed>,
        name: &'static str,
    ) -> Rows<K> {
        let open =
            |transaction: &ReadTransaction| guarded(|| Ok(transaction.open_table(definition)?));
        Rows {
            name,
            table: self.transaction().and_then(open),
            sieve: self.sieve.clone(),
            sifted: OnceCell::new(),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let (transaction, db) = (self.transaction.take(), self.db.take());
        // Nothing was written, so nothing is lost if that fails.
        let _ = guarded(|| {
            drop(transaction);
            Ok(())
        });
        let _ = guarded(|| {
            drop(db);
            Ok(())
        });
    }
}

/// A key that is copied out of redb as it is.
pub(super) trait RowKey:
    Key + for<'a> Value<SelfType<'a> = Self> + SealedBy + Copy + Debug + Ord + 'static
{
}

impl<K> RowKey for K where
    K: Key + for<'a> Value<SelfType<'a> = K> + SealedBy + Copy + Debug + Ord + 'static
{
}

/// A row: its key, and its content or what is wrong with it.
pub(super) type Row<K> = (K, Result<Vec<u8>, String>);

/// The rows of one table.
pub(super) struct Rows<K: RowKey> {
    /// What the table is called.
    pub(super) name: &'static str,
    table: Result<ReadOnlyTable<K, Sealed>, String>,
    sieve: Option<PathBuf>,
    sifted: OnceCell<Option<Sifted<K>>>,
}

impl<K: RowKey> Rows<K> {
    /// How many rows there should be.
    pub(super) fn count(&self) -> Result<u64, String> {
        let table = self.table.as_ref().map_err(Clone::clone)?;
        guarded(|| Ok(redb::ReadableTableMetadata::len(table)?))
    }

    /// The content of one row.
    pub(super) fn get(&self, key: K) -> Result<Option<Vec<u8>>, String> {
        let read = self.table.as_ref().map_err(Clone::clone).and_then(|table| {
            guarded(|| {
                let record = table.get(key)?;
                let content = record
                    .map(|record| unseal(self.name, &key, record.value()).map(<[u8]>::to_vec));
                content.transpose()
            })
        });
        let Err(why) = read else {
            return read;
        };
        match self.sifted_get(key) {
            None if self.closed().is_some() && !self.is_lost() => Ok(None),
            content => content.map(Some).ok_or(why),
        }
    }

    /// The first row from `first` on.
    pub(super) fn next(&self, first: K) -> Result<Option<Row<K>>, String> {
        if self.closed().is_some()
            && let Some(sifted) = self.sifted()
        {
            let key = sifted.keys_from(first).next();
            return Ok(key.map(|key| (key, self.proven(key))));
        }
        let mut rows = Vec::new();
        let range = (Bound::Included(first), Bound::Unbounded);
        let read = self.read_tree(range, 1, &mut rows);
        match (read, rows.pop()) {
            (Ok(()), Some((key, Err(why)))) => Ok(Some((key, self.sifted_or(key, why)))),
            (Ok(()), row) => Ok(row),
            // Whatever the tree still leads to is found by sifting too.
            (Err(why), _) => {
                let sifted = self.sifted().ok_or(why)?;
                let key = sifted.keys_from(first).next();
                Ok(key.map(|key| (key, self.proven(key))))
            }
        }
    }

    /// Up to `limit` rows of a range. What was read before something went wrong is in `rows`.
    pub(super) fn read(
        &self,
        range: (Bound<K>, Bound<K>),
        limit: usize,
        rows: &mut Vec<Row<K>>,
    ) -> Result<(), String> {
        let read = self.read_tree(range, limit, rows);
        for (key, content) in rows.iter_mut() {
            if let Err(why) = content {
                *content = self.sifted_or(*key, std::mem::take(why));
            }
        }
        let Some(sifted) = read.as_ref().err().and_then(|_| self.sifted()) else {
            return read;
        };
        let known: BTreeSet<K> = rows.iter().map(|(key, _)| *key).collect();
        let first = match range.0 {
            Bound::Included(first) | Bound::Excluded(first) => first,
            Bound::Unbounded => return read,
        };
        let missing = sifted
            .keys_from(first)
            .take_while(|key| range.contains(key))
            .filter(|key| !known.contains(key));
        rows.extend(missing.map(|key| (key, self.proven(key))));
        rows.sort_by_key(|(key, _)| *key);
        rows.truncate(limit);
        if self.closed().is_some() {
            Ok(())
        } else {
            read
        }
    }

    /// Likewise, by the tree only.
    fn read_tree(
        &self,
        range: (Bound<K>, Bound<K>),
        limit: usize,
        rows: &mut Vec<Row<K>>,
    ) -> Result<(), String> {
        let table = self.table.as_ref().map_err(Clone::clone)?;
        guarded(|| {
            for row in table.range::<K>(range)?.take(limit) {
                let (key, record) = row?;
                let key = key.value();
                let content = unseal(self.name, &key, record.value());
                let content = content.map(<[u8]>::to_vec);
                rows.push((key, content.map_err(|error| with_cause(&error))));
            }
            Ok(())
        })
    }

    /// Why the table's tree can't be read at all, if that is so.
    pub(super) fn closed(&self) -> Option<&str> {
        self.table.as_ref().err().map(String::as_str)
    }

    /// Whether there is nothing to be had of it.
    pub(super) fn is_lost(&self) -> bool {
        self.closed().is_some() && self.sifted().is_none()
    }

    /// Whether no row of it proves whole anywhere in the file.
    pub(super) fn has_none(&self) -> bool {
        self.sieve.is_some() && self.sifted().is_none()
    }

    /// Whether rows were looked for page by page, so that some may have been removed since.
    pub(super) fn is_sifted(&self) -> bool {
        self.sifted.get().is_some_and(Option::is_some)
    }

    fn sifted_or(&self, key: K, why: String) -> Result<Vec<u8>, String> {
        self.sifted_get(key).ok_or(why)
    }

    fn sifted_get(&self, key: K) -> Option<Vec<u8>> {
        self.sifted()?.get(key)
    }

    fn proven(&self, key: K) -> Result<Vec<u8>, String> {
        self.sifted_or(key, "it was there a moment ago".to_owned())
    }

    fn sifted(&self) -> Option<&Sifted<K>> {
        let sift = || {
            let sifted = Sifted::of(self.sieve.as_deref()?, self.name).ok()?;
            (!sifted.is_empty()).then_some(sifted)
        };
        self.sifted.get_or_init(sift).as_ref()
    }
}
