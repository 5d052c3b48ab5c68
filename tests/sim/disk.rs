//! A disk that forgets what was not synced when the power goes, fails, fills up and rots.
//!
//! Between two syncs a real disk may write in any order. So at a power cut each sector written
//! since the last sync, and each change of length, has either happened or not, decided by chance
//! and independently of the others. A sector of 512 bytes is written whole or not at all.
//!
//! It lies below the database: what runs on it is the real store.
//!
//! Not simulated: a kernel that drops pages whose write-back failed and then calls them clean.
//! Here what a failed sync did not write stays in the cache.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gatepost::rng::Rng;
use gatepost::store::Room;
use redb::StorageBackend;

const SECTOR: usize = 512;

/// What a file system gives room in.
const BLOCK: usize = 4096;

/// What is set aside: 8 MiB.
const BALLAST_BLOCKS: usize = (8 << 20) / BLOCK;

/// An operation of the disk that can fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    Read,
    Write,
    Sync,
}

/// What happens when an operation fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Failure {
    /// The operation fails, those after it don't.
    Error,
    /// Nothing works until the power is back.
    PowerCut,
}

/// What is to go wrong: the `after`-th of these operations from now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) on: Operation,
    pub(crate) after: u64,
    pub(crate) failure: Failure,
}

/// A disk with one file. Clones are the same disk.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<Platter>>);

/// The open file of one process. Useless once the process is gone.
#[derive(Debug)]
pub(crate) struct Handle {
    disk: Disk,
    process: u64,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "a disk can be each of these beside the others"
)]
struct Platter {
    /// What a reader sees.
    now: Vec<u8>,
    /// What survives any power cut.
    synced: Vec<u8>,
    /// What was written since the last sync: where and how much.
    unsynced: Vec<(usize, usize)>,
    /// The lengths that were set since the last sync.
    lengths: Vec<usize>,
    /// Blocks that have room on the file system.
    blocks: BTreeSet<usize>,
    /// How many more blocks there is room for.
    room: Option<usize>,
    /// Whether there ever was a limit.
    was_small: bool,
    /// Whether something is set aside for when there is no room.
    ballast: bool,
    /// Which process has the file open.
    process: u64,
    powered: bool,
    honest: bool,
    plan: Option<Plan>,
    /// Whether something has gone wrong since the process was started.
    hurt: bool,
}

/// redb wants to name what it opens; all bytes would be half the cost of a life.
impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a false disk")
    }
}

impl Disk {
    /// An empty disk. One that is not honest says that it has synced, and has not.
    pub(crate) fn new(honest: bool) -> Self {
        Self(Arc::new(Mutex::new(Platter {
            now: Vec::new(),
            synced: Vec::new(),
            unsynced: Vec::new(),
            lengths: Vec::new(),
            blocks: BTreeSet::new(),
            room: None,
            was_small: false,
            ballast: true,
            process: 0,
            powered: true,
            honest,
            plan: None,
            hurt: false,
        })))
    }

    /// The file for a process that starts now. Whatever had it open before is gone.
    pub(crate) fn open(&self) -> Handle {
        let mut platter = self.lock();
        platter.process += 1;
        platter.hurt = false;
        Handle {
            disk: self.clone(),
            process: platter.process,
        }
    }

    /// The process is gone; the cache of the operating system stays.
    pub(crate) fn kill_process(&self) {
        self.lock().process += 1;
    }

    /// The power goes, and comes back: of what was not synced each sector survives by a chance of
    /// `percent`.
    pub(crate) fn cut_power(&self, rng: &mut Rng, percent: u64) {
        let mut platter = self.lock();
        let platter = &mut *platter;
        platter.process += 1;
        let mut survives = || rng.below(100) < percent;
        let mut length = platter.synced.len();
        for set in &platter.lengths {
            if survives() {
                length = *set;
            }
        }
        platter.synced.resize(length, 0);
        let sectors: BTreeSet<usize> = platter
            .unsynced
            .iter()
            .flat_map(|(at, bytes)| at / SECTOR..(at + bytes).div_ceil(SECTOR))
            .collect();
        for sector in sectors {
            let start = sector * SECTOR;
            let end = (start + SECTOR).min(length).min(platter.now.len());
            if start < end && survives() {
                platter.synced[start..end].copy_from_slice(&platter.now[start..end]);
            }
        }
        platter.now = platter.synced.clone();
        platter.unsynced.clear();
        platter.lengths.clear();
        platter.powered = true;
        platter.plan = None;
    }

    /// Plans what goes wrong next; none: nothing.
    pub(crate) fn plan(&self, plan: Option<Plan>) {
        self.lock().plan = plan;
    }

    /// Whether the power is on.
    pub(crate) fn is_powered(&self) -> bool {
        self.lock().powered
    }

    /// Whether something has gone wrong since the process was started.
    pub(crate) fn is_hurt(&self) -> bool {
        self.lock().hurt
    }

    /// Leaves room for so many more blocks on the file system; none: no limit, and something is
    /// set aside again.
    pub(crate) fn leave_room(&self, blocks: Option<usize>) {
        let mut platter = self.lock();
        platter.room = blocks;
        platter.ballast |= blocks.is_none();
        platter.was_small |= blocks.is_some();
    }

    /// Whether other programs have filled the file system.
    pub(crate) fn is_small(&self) -> bool {
        self.lock().room.is_some()
    }

    /// Whether something is set aside for when there is no room.
    pub(crate) fn has_ballast(&self) -> bool {
        self.lock().ballast
    }

    /// Whether they ever had.
    pub(crate) fn was_small(&self) -> bool {
        self.lock().was_small
    }

    /// The length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.lock().now.len() as u64
    }

    /// Flips one bit of each copy of `needle`, behind its end. Returns how many copies.
    pub(crate) fn rot(&self, needle: &[u8]) -> usize {
        let mut platter = self.lock();
        let found: Vec<usize> = platter
            .now
            .windows(needle.len())
            .enumerate()
            .filter_map(|(at, window)| (window == needle).then_some(at + needle.len()))
            .collect();
        for at in &found {
            if let Some(byte) = platter.now.get_mut(*at) {
                *byte ^= 1;
            }
            if let Some(byte) = platter.synced.get_mut(*at) {
                *byte ^= 1;
            }
        }
        found.len()
    }

    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// The disk, if this process is alive, the power is on and nothing goes wrong now. A write
    /// that the power cut interrupts has begun: its sectors are in the cache.
    fn begin(&self, on: Operation) -> io::Result<MutexGuard<'_, Platter>> {
        let mut platter = self.disk.lock();
        if self.process != platter.process || !platter.powered {
            return Err(io::Error::other("the power is off"));
        }
        let Some(plan) = &mut platter.plan else {
            return Ok(platter);
        };
        if plan.on != on {
            return Ok(platter);
        }
        plan.after = plan.after.saturating_sub(1);
        if plan.after != 0 {
            return Ok(platter);
        }
        let failure = plan.failure;
        platter.plan = None;
        platter.hurt = true;
        if failure == Failure::PowerCut {
            platter.powered = false;
            if on == Operation::Write {
                return Ok(platter);
            }
        }
        Err(io::Error::other("input/output error"))
    }
}

impl Platter {
    /// What a write that has begun ends with.
    fn end(&self) -> io::Result<()> {
        if self.powered {
            Ok(())
        } else {
            Err(io::Error::other("the power went"))
        }
    }

    /// Gives room to the blocks of a write.
    fn allocate(&mut self, at: usize, bytes: usize) -> io::Result<()> {
        for block in at / BLOCK..(at + bytes).div_ceil(BLOCK) {
            if self.blocks.contains(&block) {
                continue;
            }
            match &mut self.room {
                Some(0) => {
                    self.hurt = true;
                    return Err(ErrorKind::StorageFull.into());
                }
                Some(room) => *room -= 1,
                None => {}
            }
            self.blocks.insert(block);
        }
        Ok(())
    }
}

/// The ballast is written by the daemon's main thread and lies beside the store; here it is so many
/// blocks that come back.
impl Room for Disk {
    fn free_bytes(&self) -> Option<u64> {
        Some(
            self.lock()
                .room
                .map_or(1 << 40, |blocks| (blocks * BLOCK) as u64),
        )
    }

    fn file_bytes(&self) -> Option<u64> {
        Some((self.lock().blocks.len() * BLOCK) as u64)
    }

    fn give_up_ballast(&self) {
        let mut platter = self.lock();
        if std::mem::take(&mut platter.ballast) {
            platter.room = platter.room.map(|blocks| blocks + BALLAST_BLOCKS);
        }
    }
}

impl StorageBackend for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.begin(Operation::Read)?.now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.begin(Operation::Read)?;
        let start = index(offset);
        match platter.now.get(start..start + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut platter = self.begin(Operation::Write)?;
        let length = index(length);
        platter.now.resize(length, 0);
        platter.lengths.push(length);
        platter.end()
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.begin(Operation::Sync)?;
        let platter = &mut *platter;
        if !platter.honest {
            return Ok(());
        }
        let length = platter.now.len();
        platter.synced.resize(length, 0);
        for (at, bytes) in platter.unsynced.drain(..) {
            let (start, end) = (at.min(length), (at + bytes).min(length));
            platter.synced[start..end].copy_from_slice(&platter.now[start..end]);
        }
        platter.lengths.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.begin(Operation::Write)?;
        let start = index(offset);
        platter.allocate(start, data.len())?;
        match platter.now.get_mut(start..start + data.len()) {
            Some(bytes) => bytes.copy_from_slice(data),
            None => return Err(ErrorKind::UnexpectedEof.into()),
        }
        platter.unsynced.push((start, data.len()));
        platter.end()
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("a simulated disk is small")
}
