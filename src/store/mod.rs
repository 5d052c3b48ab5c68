//! The store: every accepted event and what became of it, in one redb file.
//!
//! # Guarantees
//!
//! - What [`Store::write`] returned `Ok` for is on disk, whole: one call is one transaction and
//!   one sync, so a state, its audit entry and the counters never disagree.
//! - After [`Error::Database`] the change may be on disk or not, and nothing more can be written.
//!   The process must restart and look; it does so by exiting. Any other error changed nothing.
//! - Event rows and bodies are never rewritten.
//! - A file that can't be used is put aside and never deleted; see [`damage`].
//! - A record is handed out only if its checksum is right; otherwise [`Error::Corrupt`].
//! - Reads see the last commit and hold nothing once they have returned.
//!
//! # Limits
//!
//! - One process at a time; redb locks the file.
//! - One writer at a time; the others wait their turn for about one disk sync.
//! - Memory: about 1.1 × [`CACHE_BYTES`], whatever the backlog.
//!
//! The tables and their encodings are in [`schema`], reading in [`read`], writing in [`mod@write`].

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase};

mod ballast;
mod check;
mod counters;
mod damage;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod overlay;
mod parts;
mod read;
mod rescue;
mod room;
mod salvage;
mod schema;
mod sift;
mod source;
mod starts;
mod write;

pub use check::{Checked, check};
pub use counters::{Backlog, Counters};
pub use damage::{Damage, Look, kept_aside};
pub use read::{Body, DeadRow, Pending};
pub use room::{Disk, Room};
pub use salvage::{Flaw, MOST_FLAWS, Salvaged, TableCount, is_unfinished, salvage};
pub use starts::{SUSPICIOUS_STARTS, Starts};
pub use write::{Tables, footprint};

use crate::delivery::GatewayId;
use crate::fault;
use schema::{META, SCHEMA};

/// redb's page cache. Its default of 1 GiB is not for this box. A commit must stay under half
/// of it, or its pages are written twice (measured, redb 4.6).
pub const CACHE_BYTES: usize = 4 * 1024 * 1024;

/// The open store.
#[derive(Debug)]
pub struct Store {
    db: Database,
    gateway: GatewayId,
}

/// Whether the next start after a power cut may have to scan the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sync {
    /// One sync. After a crash redb reads the live data to find out what it holds.
    Usual,
    /// Two syncs and some more bytes; after a crash the file opens in milliseconds. For commits
    /// after which nothing is expected for a while.
    Checkpoint,
}

impl Store {
    /// Opens the store's file at `path`, creating it and its folder if there is none. `entropy`
    /// names a new store: see [`GatewayId`].
    ///
    /// redb never again opens a file whose creation was cut short. So a new store is created
    /// under another name and gets its own only once it is complete.
    ///
    /// Source: redb 4.6, `TransactionalMemory::new`; found by simulated power cuts.
    pub fn open(path: &Path, entropy: u64) -> Result<Self, Error> {
        Self::open_looking(path, entropy, Look::Usual)
    }

    fn open_looking(path: &Path, entropy: u64, look: Look) -> Result<Self, Error> {
        let newborn = newborn_path(path);
        remove_if_there(&newborn).map_err(|error| Error::file(&newborn, error))?;
        if !path
            .try_exists()
            .map_err(|error| Error::file(path, error))?
        {
            give_birth(path, &newborn, entropy)?;
        }
        let mut builder = builder();
        builder.set_check_integrity_on_open(look == Look::Whole);
        Self::finish(builder.open(path), path, None)
    }

    /// Opens the store at `path` if there is one: for commands that look and never create.
    pub fn open_existing(path: &Path) -> Result<Self, Error> {
        Self::finish(builder().open(path), path, None)
    }

    /// Opens or creates a store on a disk of the caller's: a simulated one.
    pub fn open_on(disk: impl redb::StorageBackend, entropy: u64) -> Result<Self, Error> {
        Self::finish(
            builder().create_with_backend(disk),
            Path::new("disk"),
            Some(entropy),
        )
    }

    /// `entropy` if it may be new. An existing file without our marks is somebody else's.
    fn finish(
        opened: Result<Database, redb::DatabaseError>,
        path: &Path,
        entropy: Option<u64>,
    ) -> Result<Self, Error> {
        let db = opened.map_err(|error| Error::opening(path, error))?;
        let gateway = GatewayId(0);
        let mut store = Self { db, gateway };
        match (store.meta::<u64>("schema")?, entropy) {
            (Some(SCHEMA), _) => {}
            (Some(found), _) => {
                return Err(Error::TooNew {
                    found,
                    known: SCHEMA,
                });
            }
            (None, Some(entropy)) => store.write(Sync::Checkpoint, |tables| {
                tables.put_meta("schema", &SCHEMA)?;
                tables.put_meta("gateway", &entropy)
            })?,
            (None, None) => {
                return Err(Error::Corrupt {
                    table: "meta",
                    reason: "it has no schema version, so gatepost did not write it".to_owned(),
                });
            }
        }
        store.gateway = GatewayId(store.meta("gateway")?.ok_or(Error::Corrupt {
            table: "meta",
            reason: "the gateway's id is missing".to_owned(),
        })?);
        Ok(store)
    }

    /// Which gateway this is: part of every idempotency key.
    #[must_use]
    pub fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Makes one change: all of `change` or, if it fails, nothing of it.
    pub fn write<R>(
        &self,
        sync: Sync,
        change: impl FnOnce(&mut Tables<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_quick_repair(sync == Sync::Checkpoint);
        let mut tables = Tables::open(&transaction)?;
        let changed = change(&mut tables).and_then(|result| {
            tables.put_counters()?;
            Ok(result)
        });
        drop(tables);
        match changed {
            Ok(result) => {
                fault::point(match sync {
                    Sync::Usual => "before-commit",
                    Sync::Checkpoint => "before-checkpoint",
                });
                transaction.commit()?;
                fault::point("after-commit");
                Ok(result)
            }
            Err(error) => {
                // After a failed disk this fails too, and says less.
                let aborted = transaction.abort();
                if !matches!(error, Error::Database(_)) {
                    aborted?;
                }
                Err(error)
            }
        }
    }

    /// Moves what is stored together and gives the rest back to the disk. Returns whether more may
    /// be gained by doing it again. Takes a few syncs and, for a while, some room of its own.
    pub fn compact(&mut self) -> Result<bool, Error> {
        let again = self.db.compact()?;
        fault::point("compact-round");
        Ok(again)
    }

    /// Closes the file so that the next start opens it at once.
    pub fn close(self) -> Result<(), Error> {
        self.db
            .close()
            .map_err(|error| Error::Database(Box::new(error.into())))
    }

    /// The value of `name` in the table of single values.
    pub fn meta<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let transaction = self.db.begin_read()?;
        let table = match transaction.open_table(META) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(record) = table.get(name)? else {
            return Ok(None);
        };
        read::json("meta", &name, record.value()).map(Some)
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn give_birth(path: &Path, newborn: &Path, entropy: u64) -> Result<(), Error> {
    let folder = folder_of(path);
    let mut folders = fs::DirBuilder::new();
    let made = folders.recursive(true).mode(0o750).create(folder);
    made.map_err(|error| Error::file(folder, error))?;
    let created = builder().create(newborn);
    fault::point("birth-created");
    let store = Store::finish(created, newborn, Some(entropy))?;
    store.close()?;
    // Faces and payments are nobody's business but the gateway's and its group's.
    let closed = fs::set_permissions(newborn, Permissions::from_mode(0o640));
    closed.map_err(|error| Error::file(newborn, error))?;
    fault::point("birth-before-rename");
    give_name(newborn, path)
}

/// Gives a file that is complete the name it is known by, for good.
fn give_name(complete: &Path, path: &Path) -> Result<(), Error> {
    fs::rename(complete, path).map_err(|error| Error::file(path, error))?;
    let folder = folder_of(path);
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| Error::file(folder, error))
}

/// The folder that `path` lies in, also if it is named without one.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn newborn_path(path: &Path) -> PathBuf {
    beside(path, ".new")
}

/// The path of a file beside `path`: its name and `suffix`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Why the store could not do what it was asked to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The disk or the database failed. The process can't do its work and must restart.
    Database(Box<redb::Error>),
    /// The file could not be opened, created or renamed.
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Another process has the store open.
    InUse(PathBuf),
    /// There is no store at this path.
    Missing(PathBuf),
    /// Nothing of the file can be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A record on disk is not one we wrote; says which table it is in.
    Corrupt {
        /// The table's name.
        table: &'static str,
        /// What is wrong with the record.
        reason: String,
    },
    /// The store was written by a newer version of this program.
    TooNew {
        /// The file's schema version.
        found: u64,
        /// The newest version this program knows.
        known: u64,
    },
}

impl Error {
    /// Whether it failed because the disk is full. After that every operation on the open store
    /// fails, reads too, so the process must restart.
    ///
    /// Source: redb 4.6, measured on tmpfs and ext4.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let error = match self {
            Self::Database(error) => match error.as_ref() {
                redb::Error::Io(error) => error,
                _ => return false,
            },
            Self::File { error, .. } => error,
            _ => return false,
        };
        matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }

    fn file(path: &Path, error: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            error,
        }
    }

    fn opening(path: &Path, error: redb::DatabaseError) -> Self {
        let path = path.to_owned();
        match error {
            redb::DatabaseError::DatabaseAlreadyOpen => Self::InUse(path),
            redb::DatabaseError::Storage(redb::StorageError::Io(error))
                if error.kind() == io::ErrorKind::NotFound =>
            {
                Self::Missing(path)
            }
            redb::DatabaseError::Storage(redb::StorageError::Io(error)) => {
                Self::File { path, error }
            }
            error => Self::Database(Box::new(error.into())),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(_) => f.write_str("the store failed"),
            Self::File { path, error } => {
                write!(f, "cannot open {}", path.display())?;
                f.write_str(remedy(error))
            }
            Self::InUse(path) => write!(
                f,
                "{} is in use by another process; ask that one with gatepost status, or stop it",
                path.display()
            ),
            Self::Unreadable { path, why } => {
                write!(f, "nothing of {} can be read: {why}", path.display())
            }
            Self::Missing(path) => write!(f, "there is no store at {}", path.display()),
            Self::Corrupt { table, reason } => write!(f, "damaged record in `{table}`: {reason}"),
            Self::TooNew { found, known } => write!(
                f,
                "the store has schema {found} but this program knows only up to {known}; \
                 install the newer version again"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::File { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// What the operator can do, as far as that is known.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; give it and its folder to the user that gatepost runs as"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; mount its file system for writing, and look why it is not"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room on its disk",
        _ => "",
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::Database(Box::new(error.into()))
            }
        }
    )*};
}

from_redb!(
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::CompactionError
);

#[cfg(test)]
mod tests;
