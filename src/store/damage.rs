//! A store that can't be used: put aside, whole, and a new one begun in its place.
//!
//! # Guarantees
//!
//! - A damaged file never keeps a gateway from starting. It is renamed `….damaged-<n>`, and no
//!   file is ever deleted or overwritten for that.
//! - What was put aside is found again, see [`kept_aside`]: a start that was cut short right after
//!   could tell nobody.
//! - Only damage counts: a file of a newer version, one that somebody else has open, and one that
//!   may not be read or written stay where they are.
//!
//! redb panics where it meets some kinds of damage (measured: 4 % of opens with a page of zeros),
//! so a panic while opening is damage too. Here and in [`super::source`] are the only places
//! where one is caught.

use std::any::Any;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use super::{Error, Store, beside, folder_of};
use crate::event::DestinationNo;
use crate::fault;

/// What the name of a file that was put aside has behind the store's, before its number.
const SUFFIX: &str = ".damaged-";

/// A store that was put aside.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// Where it lies now.
    pub kept: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

/// How closely a store is looked at when it is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Look {
    /// As far as it is needed to open it.
    Usual,
    /// All of it is read and compared with redb's checksums.
    Whole,
}

impl Store {
    /// Opens the store at `path` like [`Store::open`]; one that is damaged is put aside and a new
    /// one begun.
    pub fn open_or_begin(
        path: &Path,
        entropy: u64,
        look: Look,
    ) -> Result<(Self, Option<Damage>), Error> {
        let why = match try_open(path, entropy, look) {
            Ok(store) => return Ok((store, None)),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Damage(why)) => why,
        };
        let kept = put_aside(path).map_err(|error| Error::file(path, error))?;
        let store = Self::open(path, entropy)?;
        Ok((store, Some(Damage { kept, why })))
    }

    /// Reads what everything else depends on.
    fn look(&self) -> Result<(), Error> {
        self.counters()?;
        self.metas::<DestinationNo>("destination/")?;
        self.meta::<serde_json::Value>("boot")?;
        self.open_all()
    }
}

/// The files that were put aside in the place of the store at `path` and are there still, the
/// latest last. None if their folder can't be read.
#[must_use]
pub fn kept_aside(path: &Path) -> Vec<PathBuf> {
    let prefix = beside(path, SUFFIX);
    let number = |name: &OsStr| -> Option<u32> {
        let prefix = prefix.file_name()?.as_encoded_bytes();
        let number = name.as_encoded_bytes().strip_prefix(prefix)?;
        str::from_utf8(number).ok()?.parse().ok()
    };
    let entries = fs::read_dir(folder_of(path)).into_iter().flatten();
    let mut kept: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((number(&entry.file_name())?, entry.path()))
        })
        .collect();
    kept.sort();
    kept.into_iter().map(|(_, path)| path).collect()
}

/// Why a store did not open.
enum Failure {
    Damage(String),
    Error(Error),
}

fn try_open(path: &Path, entropy: u64, look: Look) -> Result<Store, Failure> {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let store = Store::open_looking(path, entropy, look)?;
        store.look()?;
        Ok(store)
    }));
    match opened {
        Ok(Ok(store)) => Ok(store),
        Ok(Err(error)) if is_damage(&error) => Err(Failure::Damage(with_cause(&error))),
        Ok(Err(error)) => Err(Failure::Error(error)),
        Err(panic) => Err(Failure::Damage(panic_text(panic.as_ref()))),
    }
}

/// Whether an error says that the file is not, or no longer, a store of ours.
pub(super) fn is_damage(error: &Error) -> bool {
    let is_garbage = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
        )
    };
    match error {
        Error::Corrupt { .. } => true,
        Error::File { error, .. } => is_garbage(error),
        Error::Database(error) => match error.as_ref() {
            redb::Error::Io(error) => is_garbage(error),
            // A file of another version of redb is whole. That is said by words only.
            redb::Error::Corrupted(why) => !why.contains("file format version"),
            redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TableIsNotMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_) => true,
            _ => false,
        },
        _ => false,
    }
}

/// An error and what caused it, on one line.
pub(super) fn with_cause(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// What a panic said, on one line.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    let line = said.and_then(|said| said.lines().next());
    format!("the database panicked: {}", line.unwrap_or("unknown"))
}

/// Renames the file at `path` to a name that nothing has yet.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let names = (1_u32..).map(|number| beside(path, &format!("{SUFFIX}{number}")));
    for kept in names {
        match fs::symlink_metadata(&kept) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::rename(path, &kept)?;
                File::open(folder_of(path))?.sync_all()?;
                fault::point("put-aside");
                return Ok(kept);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Sync;

    fn folder_with(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.redb");
        fs::write(&path, content).expect("written");
        (folder, path)
    }

    #[test]
    fn what_is_no_store_is_put_aside_and_never_overwritten() {
        let zeros = vec![0; 73_728];
        let foreign: [&[u8]; 4] = [b"", b"x", b"SQLite format 3\0", &zeros];
        for content in foreign {
            let (_folder, path) = folder_with(content);
            let first = beside(&path, ".damaged-1");
            fs::write(&first, b"from before").expect("written");
            let (store, damage) = Store::open_or_begin(&path, 7, Look::Usual).expect("a new store");
            let damage = damage.expect("it was no store");
            assert_eq!(damage.kept, beside(&path, ".damaged-2"), "{damage:?}");
            assert_eq!(fs::read(&damage.kept).expect("kept"), content);
            assert_eq!(fs::read(&first).expect("kept"), b"from before");
            assert_eq!(store.counters().expect("readable").events, 0);
        }
    }

    #[test]
    fn what_was_put_aside_is_found_again_as_long_as_it_lies_there() {
        let (folder, path) = folder_with(b"");
        assert!(kept_aside(&path).is_empty());
        let others = [
            ".damaged-",
            ".damaged-x",
            ".damaged-1.note",
            ".new",
            ".damaged",
        ];
        for suffix in others {
            fs::write(beside(&path, suffix), b"").expect("written");
        }
        fs::write(folder.path().join("other.damaged-1"), b"").expect("written");
        // The first is salvaged and removed by now.
        let kept = [2, 9, 10].map(|number| beside(&path, &format!(".damaged-{number}")));
        for kept in &kept {
            fs::write(kept, b"").expect("written");
        }
        assert_eq!(kept_aside(&path), kept);
        assert!(kept_aside(Path::new("/nowhere/events.redb")).is_empty());
    }

    #[test]
    fn a_database_of_somebody_else_is_put_aside() {
        const OTHER: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("events");
        for name in ["other", "events"] {
            let (_folder, path) = folder_with(b"");
            let db = redb::Database::create(&path).expect("a database");
            let transaction = db.begin_write().expect("begun");
            let table = redb::TableDefinition::<u64, u64>::new(name);
            transaction.open_table(table).expect("a table");
            transaction.commit().expect("committed");
            drop(db);
            let (store, damage) = Store::open_or_begin(&path, 7, Look::Usual).expect("a new store");
            let damage = damage.expect("it is not ours");
            assert!(damage.why.contains("schema"), "{damage:?}");
            drop(store);
            let db = redb::Database::open(&damage.kept).expect("it is as it was");
            let transaction = redb::ReadableDatabase::begin_read(&db).expect("begun");
            assert_eq!(transaction.open_table(OTHER).is_ok(), name == "events");
        }
    }

    #[test]
    fn a_truncated_store_is_put_aside_and_a_whole_one_is_not() {
        let (_folder, path) = folder_with(b"");
        fs::remove_file(&path).expect("removed");
        let store = Store::open(&path, 7).expect("a store");
        store.close().expect("closed");
        let (store, damage) = Store::open_or_begin(&path, 8, Look::Whole).expect("a store");
        assert_eq!((damage, store.gateway().0), (None, 7));
        store.close().expect("closed");
        let length = fs::metadata(&path).expect("there").len();
        let file = File::options().write(true).open(&path).expect("opened");
        file.set_len(length / 2).expect("truncated");
        drop(file);
        let (store, damage) = Store::open_or_begin(&path, 8, Look::Usual).expect("a new store");
        assert!(damage.is_some());
        assert_eq!(store.gateway().0, 8);
    }

    #[test]
    fn only_damage_is_put_aside() {
        let (folder, path) = folder_with(b"");
        fs::remove_file(&path).expect("removed");
        let store = Store::open(&path, 7).expect("a store");
        let opened = Store::open_or_begin(&path, 8, Look::Usual);
        assert!(matches!(opened, Err(Error::InUse(_))), "{opened:?}");
        let newer = store.write(Sync::Usual, |tables| tables.put_meta("schema", &99));
        newer.expect("the store works");
        store.close().expect("closed");
        let opened = Store::open_or_begin(&path, 8, Look::Whole);
        assert!(matches!(opened, Err(Error::TooNew { .. })), "{opened:?}");
        assert!(!beside(&path, ".damaged-1").exists());
        let opened = Store::open_or_begin(folder.path(), 8, Look::Usual);
        assert!(matches!(opened, Err(Error::File { .. })), "{opened:?}");
    }
}
