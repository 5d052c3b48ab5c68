//! What the main thread sees to while the others work: the ballast, and whether this start lasted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::{info, warn};

use super::Error;
use crate::clock::Moment;
use crate::commit::FLOOR_BYTES;
use crate::store::{self, Disk, Room, Starts};

/// A start that lasted so long has not been ended by the store.
const LASTING: Duration = Duration::from_secs(60);

/// How often the ballast is looked after. Writing it may take seconds on a slow card.
const EVERY: Duration = Duration::from_secs(5);

/// On a disk with less room than this, a store that failed has most likely met its end.
const NEXT_TO_NOTHING: u64 = 1024 * 1024;

/// What is seen to.
pub(super) struct Upkeep {
    /// The store's disk.
    pub(super) disk: Arc<Disk>,
    /// The starts that ended soon.
    pub(super) starts: Starts,
    begun: Moment,
    lasted: bool,
    next: Moment,
    complained: bool,
}

impl Upkeep {
    /// Of the store at `store`, for a process that began at `now`.
    pub(super) fn of(store: &Path, now: Moment) -> Self {
        Self {
            disk: Arc::new(Disk::of(store)),
            starts: Starts::of(store),
            begun: now,
            lasted: false,
            next: now,
            complained: false,
        }
    }

    /// To be called about once a second.
    pub(super) fn tick(&mut self, now: Moment) {
        if !self.lasted && self.begun + LASTING <= now {
            self.lasted = true;
            self.starts.forget();
        }
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        if let Err(error) = self.disk.keep_ballast(FLOOR_BYTES)
            && !self.complained
        {
            self.complained = true;
            warn!("[store] cannot set room aside for a full disk: {error}");
        }
    }

    /// Draws the conclusions from how the process ends.
    pub(super) fn end(&self, result: &Result<(), Error>) {
        let failed = match result {
            Err(Error::Store(error)) => Some(error),
            _ => None,
        };
        let met_the_end = |error: &store::Error| {
            let free = self.disk.free_bytes().unwrap_or(u64::MAX);
            let fails = matches!(error, store::Error::Database(_));
            error.is_disk_full() || (fails && free < NEXT_TO_NOTHING)
        };
        let is_full = failed.is_some_and(met_the_end);
        if is_full {
            self.disk.give_up_ballast();
            info!("[store] the disk is full: the next start goes on with deliveries");
        }
        let is_crash = match result {
            Err(Error::Store(store::Error::Database(_) | store::Error::Corrupt { .. })) => !is_full,
            Err(Error::Ended(_)) => true,
            _ => false,
        };
        if !is_crash {
            self.starts.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When it ends, with what, and how many short starts are counted after it.
    type Row = (u64, Result<(), Error>, u32);

    fn upkeep() -> (tempfile::TempDir, Upkeep) {
        let folder = tempfile::tempdir().expect("a folder");
        let upkeep = Upkeep::of(&folder.path().join("events.redb"), Moment::START);
        (folder, upkeep)
    }

    #[test]
    fn a_start_counts_as_short_unless_it_lasts_or_ends_for_a_known_reason() {
        let damaged = || {
            Error::Store(store::Error::Corrupt {
                table: "pending",
                reason: "flipped".to_owned(),
            })
        };
        let full = || {
            Error::Store(store::Error::File {
                path: "/x".into(),
                error: std::io::ErrorKind::StorageFull.into(),
            })
        };
        let rows: [Row; 5] = [
            (59, Err(damaged()), 1),
            (60, Err(damaged()), 0),
            (1, Err(Error::Ended("commit")), 1),
            (1, Err(full()), 0),
            (1, Ok(()), 0),
        ];
        for (seconds, end, short) in rows {
            let (_folder, mut upkeep) = upkeep();
            assert_eq!(upkeep.starts.begin(), 0);
            upkeep.tick(Moment::at(Duration::from_secs(seconds)));
            upkeep.end(&end);
            assert_eq!(upkeep.starts.begin(), short, "{seconds} s, {end:?}");
        }
    }
}
