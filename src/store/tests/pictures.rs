//! What a picture costs on the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::*;

const PICTURE: usize = 200_000;
const COMMITS: u64 = 25;

/// A disk that counts what is written to it.
#[derive(Debug, Default)]
struct Counting {
    disk: InMemoryBackend,
    written: Arc<AtomicU64>,
}

impl StorageBackend for Counting {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.disk.write(offset, data)
    }
}

/// Stores pictures as the committer does: so many in each transaction, each with its delivery.
fn put_pictures(store: &Store, commits: u64, at_once: u64) {
    let body: Vec<u8> = (0..PICTURE).map(|at| (at % 251).to_le_bytes()[0]).collect();
    let event = event(&body);
    for _ in 0..commits {
        let stored = store.write(Sync::Usual, |tables| {
            (0..at_once).try_for_each(|_| {
                let seq = tables.put_event(&event, &body)?;
                tables.put_recent(seq, &[7; 24], 100_000)?;
                let id = DeliveryId {
                    destination: DestinationNo(1),
                    lane: Lane(1),
                    seq,
                };
                tables.put_pending(id, Progress::default())
            })
        });
        stored.expect("the store works");
    }
}

/// How many bytes of the file are in use.
fn in_use(store: &Store) -> u64 {
    let transaction = store.db.begin_write().expect("begun");
    let stats = transaction.stats().expect("readable");
    stats.allocated_pages() * stats.page_size() as u64
}

/// What stays in the file is within a percent of the picture. Beside it, each commit writes about
/// ten pages of trees, which all that is in the commit share.
#[test]
fn a_picture_takes_little_more_than_its_bytes() {
    // How many share a commit; per picture, at most so many percent in use and written.
    let rows = [(1, 101, 125), (4, 101, 110), (8, 101, 105)];
    for (at_once, most_in_use, most_written) in rows {
        let disk = Counting::default();
        let written = Arc::clone(&disk.written);
        let store = Store::open_on(disk, 7).expect("a store");
        // The first commits create tables and reuse nothing yet.
        put_pictures(&store, 5, at_once);
        let (used_before, written_before) = (in_use(&store), written.load(Ordering::Relaxed));
        put_pictures(&store, COMMITS, at_once);
        let percent = |bytes| 100 * bytes / (COMMITS * at_once * PICTURE as u64);
        let used = percent(in_use(&store) - used_before);
        let written = percent(written.load(Ordering::Relaxed) - written_before);
        assert!(
            used <= most_in_use && written <= most_written,
            "{at_once} at once: {used} % in use, {written} % written"
        );
    }
}
