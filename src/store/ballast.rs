//! A file that is there to be given up.
//!
//! On a full disk redb can't even delete, because a delete writes new pages first: a full store
//! could never drain (measured, redb 4.6: in 14 of 18 rounds not one delete succeeded). With a few
//! MiB given back, it drained every time.
//!
//! The file is really written, with bytes that no file system compresses, and synced. One that is
//! shorter than it should be does not count and is written again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{beside, remove_if_there};

/// How much is set aside. 1 MiB was enough in all rounds that were measured.
pub(super) const BALLAST_BYTES: u64 = 8 * 1024 * 1024;

/// What is written in one piece.
const PIECE_BYTES: usize = 64 * 1024;

/// The ballast of one store.
#[derive(Debug)]
pub(super) struct Ballast {
    path: PathBuf,
}

impl Ballast {
    /// The ballast of the store at `store`, which may not be there.
    pub(super) fn of(store: &Path) -> Self {
        Self {
            path: beside(store, ".ballast"),
        }
    }

    /// Whether it is there, whole.
    pub(super) fn is_there(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| BALLAST_BYTES <= file.len())
    }

    /// Writes it. If that fails, nothing is left of it.
    pub(super) fn build(&self) -> io::Result<()> {
        let built = self.write();
        if built.is_err() {
            self.give_up()?;
        }
        built
    }

    /// Removes it, if it is there.
    pub(super) fn give_up(&self) -> io::Result<()> {
        remove_if_there(&self.path)
    }

    fn write(&self) -> io::Result<()> {
        let mut file = File::create(&self.path)?;
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut left = BALLAST_BYTES;
        let mut piece = vec![0; PIECE_BYTES];
        while 0 < left {
            noise.fill(&mut piece);
            file.write_all(&piece)?;
            left -= PIECE_BYTES as u64;
        }
        file.sync_all()
    }
}

/// Bytes without a pattern: xorshift64. Source: Marsaglia, "Xorshift RNGs", 2003.
struct Noise(u64);

impl Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn it_takes_its_bytes_on_the_disk_and_gives_them_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let ballast = Ballast::of(&folder.path().join("events.redb"));
        assert!(!ballast.is_there());
        ballast.build().expect("there is room");
        assert!(ballast.is_there());
        let file = fs::metadata(folder.path().join("events.redb.ballast")).expect("there");
        assert_eq!(file.len(), BALLAST_BYTES);
        assert!(BALLAST_BYTES <= file.blocks() * 512, "{}", file.blocks());
        ballast.give_up().expect("removed");
        ballast.give_up().expect("nothing to remove");
        assert!(!ballast.is_there());
    }

    #[test]
    fn one_that_was_cut_short_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let ballast = Ballast::of(&folder.path().join("events.redb"));
        fs::write(&ballast.path, b"short").expect("written");
        assert!(!ballast.is_there());
        ballast.build().expect("there is room");
        assert!(ballast.is_there());
    }
}
