//! Starts that ended soon after: a number in a small file beside the store.
//!
//! Several in a row may mean that the store makes the process end again and again, so the next one
//! looks at all of it before it serves anybody.
//!
//! The file is replaced as a whole. One that can't be read counts as none, and one that can't be
//! written is done without: this must never keep a gateway from starting.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use log::debug;

use super::{beside, folder_of, remove_if_there};

/// So many starts in a row that ended soon are a reason to look at the whole store.
pub const SUSPICIOUS_STARTS: u32 = 3;

/// The count of one store.
#[derive(Debug)]
pub struct Starts {
    path: PathBuf,
}

impl Starts {
    /// The count of the store at `store`.
    #[must_use]
    pub fn of(store: &Path) -> Self {
        Self {
            path: beside(store, ".starts"),
        }
    }

    /// Notes that a start begins. Returns how many before it, in a row, ended soon.
    #[must_use]
    pub fn begin(&self) -> u32 {
        let before = self.read();
        self.set(before.saturating_add(1));
        before
    }

    /// Notes that a start begins whose store was found to be whole.
    pub fn begin_again(&self) {
        self.set(1);
    }

    /// Notes that the last start lasted, or ended for a reason that is known.
    pub fn forget(&self) {
        if let Err(error) = remove_if_there(&self.path) {
            debug!("[store] cannot remove {}: {error}", self.path.display());
        }
    }

    fn read(&self) -> u32 {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    fn set(&self, count: u32) {
        if let Err(error) = self.write(count) {
            debug!("[store] cannot write {}: {error}", self.path.display());
        }
    }

    fn write(&self, count: u32) -> io::Result<()> {
        let new = beside(&self.path, ".new");
        let mut file = File::create(&new)?;
        writeln!(file, "{count}")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(folder_of(&self.path))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_in_a_row_are_counted_until_one_lasts() {
        let folder = tempfile::tempdir().expect("a folder");
        let starts = Starts::of(&folder.path().join("events.redb"));
        let begun: Vec<u32> = (0..4).map(|_| starts.begin()).collect();
        assert_eq!(begun, [0, 1, 2, 3]);
        starts.forget();
        assert_eq!(starts.begin(), 0);
        starts.begin_again();
        assert_eq!(starts.begin(), 1);
    }

    #[test]
    fn a_file_that_is_no_count_counts_as_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let starts = Starts::of(&folder.path().join("events.redb"));
        for text in ["", "x", "-1", "99999999999999999999"] {
            fs::write(&starts.path, text).expect("written");
            assert_eq!(starts.begin(), 0, "{text:?}");
        }
        starts.forget();
        fs::create_dir(&starts.path).expect("a folder in its place");
        assert_eq!(starts.begin(), 0);
    }
}
