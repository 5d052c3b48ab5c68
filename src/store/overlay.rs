//! A file as redb sees it, without a way for redb to change it.
//!
//! A plain open repairs what a crash left, so it writes. Here what is written stays in memory,
//! over the file, and so does what [`Mask`] changes in the header. So a damaged store can be
//! looked at without a copy, on a full disk too.
//!
//! Memory: what a repair writes, which is little beside the file.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::BackendError;

use super::Error;

/// What is kept in one piece: redb's page.
const PAGE: u64 = 4096;

/// Where redb's header says how the file was left. Source: redb 4.6, `page_store/header.rs`.
const GOD_BYTE: usize = 9;
/// The commit that counts is in the second slot.
const PRIMARY: u8 = 1;
/// The file was not closed, or its last commit may not be on disk.
const UNCLEAN: u8 = 2 | 8;
/// The commit that counts was made with two syncs, so the other is not looked at.
const TWO_PHASE: u8 = 4;
/// Where the header has its page size, and the pages of a region's header, of a region, the number
/// of whole regions and the pages of the last one: four bytes each.
const GEOMETRY: usize = 12;
const HEADER_BYTES: usize = 320;

/// What of the header is to look different.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mask {
    /// Nothing: redb repairs, in memory.
    None,
    /// It looks as if it had been closed, and is as long as it should be; so redb verifies nothing
    /// and what is missing at its end reads as zeros.
    Closed,
    /// Likewise, with the commit in the other slot.
    Other,
}

impl Mask {
    /// All, in the order in which they are worth trying.
    pub(super) const ALL: [Self; 3] = [Self::None, Self::Closed, Self::Other];
}

/// The file and what lies over it.
#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    length: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// Looks at the file at `path`, which nobody may have open for writing.
    pub(super) fn over(path: &Path, mask: Mask) -> Result<Self, Error> {
        let failed = |error| Error::file(path, error);
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing(path.to_owned()),
            _ => failed(error),
        })?;
        match file.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let length = file.metadata().map_err(failed)?.len();
        if length < HEADER_BYTES as u64 {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("its {length} bytes are not even a database's head"),
            )));
        }
        let pages = BTreeMap::new();
        let overlay = Self {
            file,
            inner: Mutex::new(Inner { length, pages }),
        };
        if mask != Mask::None {
            overlay.put_on(mask, length).map_err(failed)?;
        }
        Ok(overlay)
    }

    fn put_on(&self, mask: Mask, length: u64) -> io::Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, 0)?;
        header[GOD_BYTE] &= !(UNCLEAN | TWO_PHASE);
        if mask == Mask::Other {
            header[GOD_BYTE] ^= PRIMARY;
        }
        // Which slot counts is said twice: redb also prefers the newer one. So the other goes.
        let unwanted = if header[GOD_BYTE] & PRIMARY == 0 {
            192
        } else {
            64
        };
        header[unwanted + 1..unwanted + 128].fill(0);
        let length = fit(&mut header, length);
        redb::StorageBackend::write(self, 0, &header)?;
        self.lock().length = length;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page of the file; what is beyond its end is zeros.
    fn page(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut page = vec![0; usize::try_from(PAGE).expect("a small number")];
        let mut filled = 0;
        while filled < page.len() {
            let at = number * PAGE + filled as u64;
            match self.file.read_at(&mut page[filled..], at) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }
}

/// Makes the header say how many regions a file of `length` has, if it has more than it says.
/// Returns the length that goes with the header.
fn fit(header: &mut [u8; HEADER_BYTES], length: u64) -> u64 {
    let field = |header: &[u8; HEADER_BYTES], number: usize| {
        let at = GEOMETRY + 4 * number;
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u64::from(u32::from_le_bytes(bytes))
    };
    let page = field(header, 0);
    let (head, most) = (field(header, 1), field(header, 2));
    let long = |full: u64, last: u64| {
        let last = if last == 0 { 0 } else { head + last };
        let regions = full.saturating_mul(head + most);
        page.saturating_mul(regions.saturating_add(last).saturating_add(1))
    };
    let said = long(field(header, 3), field(header, 4));
    let region = (head + most).saturating_mul(page);
    if length <= said || page == 0 || region == 0 {
        return said.max(length.min(PAGE));
    }
    let (full, rest) = ((length - page) / region, (length - page) % region);
    let last = (rest / page).saturating_sub(head);
    for (number, value) in [(3, full), (4, last)] {
        let at = GEOMETRY + 4 * number;
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    long(full, last)
}

impl redb::StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.lock();
        let mut at = offset;
        let mut out = out;
        while !out.is_empty() {
            let (number, within) = (at / PAGE, at % PAGE);
            let fresh;
            let page = if let Some(page) = inner.pages.get(&number) {
                page
            } else {
                fresh = self.page(number)?;
                &fresh
            };
            let page = &page[usize::try_from(within).expect("less than a page")..];
            let count = page.len().min(out.len());
            let (now, rest) = out.split_at_mut(count);
            now.copy_from_slice(&page[..count]);
            out = rest;
            at += count as u64;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.lock();
        let mut at = offset;
        let mut data = data;
        while !data.is_empty() {
            let (number, within) = (at / PAGE, at % PAGE);
            let page = match inner.pages.entry(number) {
                std::collections::btree_map::Entry::Occupied(page) => page.into_mut(),
                std::collections::btree_map::Entry::Vacant(page) => page.insert(self.page(number)?),
            };
            let page = &mut page[usize::try_from(within).expect("less than a page")..];
            let count = page.len().min(data.len());
            page[..count].copy_from_slice(&data[..count]);
            data = &data[count..];
            at += count as u64;
        }
        let end = offset.saturating_add(at - offset);
        inner.length = inner.length.max(end);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.lock().length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    // Nobody else sees this overlay, so every lock is free.

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }
}
