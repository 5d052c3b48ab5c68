//! A store that may be damaged, read row by row: what proves whole, and what does not.
//!
//! redb may panic anywhere in a damaged file, so every call is made in [`guarded`]. After a panic
//! in a read the rest stays readable (measured, redb 4.6).

use std::fmt::Debug;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::{
    ConcurrencyMode, Key, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition, Value,
};

use super::damage::{panic_text, with_cause};
use super::overlay::{Mask, Overlay};
use super::schema::{META, SCHEMA, Sealed, SealedBy, unseal};
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
    // Dropped one after the other, because that may panic too.
    transaction: Option<ReadTransaction>,
    db: Option<Box<dyn ReadableDatabase>>,
}

impl Source {
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
            transaction: Some(transaction),
            db: Some(db),
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
        guarded(|| {
            let table = self.transaction().open_table(META)?;
            let record = table.get(name)?;
            let content =
                record.map(|record| unseal("meta", &name, record.value()).map(<[u8]>::to_vec));
            content.transpose()
        })
    }

    /// The names of single values, in order, as far as they can be read.
    pub(super) fn meta_names(&self) -> (Vec<String>, Result<(), String>) {
        let mut names = Vec::new();
        let read = guarded(|| {
            let table = self.transaction().open_table(META)?;
            for row in table.range(""..)? {
                names.push(row?.0.value().to_owned());
            }
            Ok(())
        });
        (names, read)
    }

    fn transaction(&self) -> &ReadTransaction {
        let transaction = self.transaction.as_ref();
        transaction.expect("it is taken out only when this is dropped")
    }

    /// One of its tables.
    pub(super) fn table<K: RowKey>(
        &self,
        definition: TableDefinition<'static, K, Sealed>,
        name: &'static str,
    ) -> Rows<K> {
        let table = guarded(|| Ok(self.transaction().open_table(definition)?));
        Rows { name, table }
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
}

impl<K: RowKey> Rows<K> {
    /// How many rows there should be.
    pub(super) fn count(&self) -> Result<u64, String> {
        let table = self.table.as_ref().map_err(Clone::clone)?;
        guarded(|| Ok(redb::ReadableTableMetadata::len(table)?))
    }

    /// The content of one row.
    pub(super) fn get(&self, key: K) -> Result<Option<Vec<u8>>, String> {
        let table = self.table.as_ref().map_err(Clone::clone)?;
        guarded(|| {
            let record = table.get(key)?;
            let content =
                record.map(|record| unseal(self.name, &key, record.value()).map(<[u8]>::to_vec));
            content.transpose()
        })
    }

    /// The first row from `first` on.
    pub(super) fn next(&self, first: K) -> Result<Option<Row<K>>, String> {
        let mut rows = Vec::new();
        let range = (Bound::Included(first), Bound::Unbounded);
        self.read(range, 1, &mut rows)?;
        Ok(rows.pop())
    }

    /// Up to `limit` rows of a range. What was read before something went wrong is in `rows`.
    pub(super) fn read(
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

    /// Why the table can't be read at all, if that is so.
    pub(super) fn closed(&self) -> Option<&str> {
        self.table.as_ref().err().map(String::as_str)
    }
}
