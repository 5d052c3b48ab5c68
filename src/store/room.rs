//! How much room the store has on its disk, and what is set aside for when there is none.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use log::{info, warn};

use super::ballast::{BALLAST_BYTES, Ballast};
use super::folder_of;

/// What a disk says of its room. Simulations have their own.
pub trait Room: Send + Sync {
    /// Bytes that may still be written to the disk; none if that is not known.
    fn free_bytes(&self) -> Option<u64>;

    /// Bytes of the disk that the store's file takes; none if that is not known. The file's length
    /// may be twice as much.
    fn file_bytes(&self) -> Option<u64>;

    /// A commit met a full disk: gives back what was set aside for that, so that deletes succeed
    /// after the next start.
    fn give_up_ballast(&self);
}

/// The disk that a store's file lies on.
#[derive(Debug)]
pub struct Disk {
    store: PathBuf,
    ballast: Ballast,
}

impl Disk {
    /// The disk of the store at `store`.
    #[must_use]
    pub fn of(store: &Path) -> Self {
        Self {
            store: store.to_owned(),
            ballast: Ballast::of(store),
        }
    }

    /// Writes the ballast if it is not there and at least `spare` bytes stay free beside it.
    /// Whether it is there now.
    pub fn keep_ballast(&self, spare: u64) -> io::Result<bool> {
        if self.ballast.is_there() {
            return Ok(true);
        }
        let has_room = |free| spare.saturating_add(BALLAST_BYTES) <= free;
        if !self.free_bytes().is_some_and(has_room) {
            return Ok(false);
        }
        self.ballast.build()?;
        Ok(true)
    }
}

impl Room for Disk {
    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(folder_of(&self.store)).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn file_bytes(&self) -> Option<u64> {
        let file = fs::metadata(&self.store).ok()?;
        Some(file.blocks().saturating_mul(512))
    }

    fn give_up_ballast(&self) {
        // Also one whose making was cut short: what there is of it is needed now.
        let was_there = self.ballast.is_there();
        match self.ballast.give_up() {
            Ok(()) if !was_there => {}
            Ok(()) => info!(
                "[store] the disk is full: {} MiB set aside for this are free now, so that \
                 deliveries can be settled",
                BALLAST_BYTES >> 20
            ),
            Err(error) => warn!("[store] the disk is full and the ballast stays: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballast_is_only_built_where_enough_stays_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::of(&folder.path().join("events.redb"));
        let free = disk.free_bytes().expect("a disk");
        assert!(!disk.keep_ballast(free).expect("looked"));
        assert!(!disk.keep_ballast(u64::MAX).expect("looked"));
        assert!(disk.keep_ballast(0).expect("built"));
        assert!(disk.keep_ballast(u64::MAX).expect("it is there already"));
        disk.give_up_ballast();
        assert!(!disk.keep_ballast(u64::MAX).expect("looked"));
    }

    #[test]
    fn a_store_takes_what_is_written_and_not_its_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.redb");
        let disk = Disk::of(&path);
        assert_eq!(disk.file_bytes(), None);
        fs::File::create(&path)
            .and_then(|file| file.set_len(1 << 30))
            .expect("a sparse file");
        let taken = disk.file_bytes().expect("there");
        assert!(taken < 1 << 20, "{taken}");
    }
}
