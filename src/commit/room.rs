//! Whether the disk has room for new events.
//!
//! Below a floor new events are refused, while deliveries, settlements and retention go on and
//! make room. What the file holds free inside counts as room, because redb gives little of it
//! back to the disk: without that, a store that filled its disk would refuse for ever.
//!
//! Refusing ends by itself, a little above the floor, so that it does not flicker.

use std::sync::Arc;
use std::time::Duration;

use log::{info, warn};

use crate::clock::Moment;
use crate::store::{Error, Room};

const MIB: u64 = 1024 * 1024;

/// So much room must be left, on the disk or inside the file. Ten times what one commit writes at
/// most.
pub const FLOOR_BYTES: u64 = 64 * MIB;

/// The share of what is stored that must be left too, for a large store: an eighth.
const SHARE: u64 = 8;

/// So much must be left on the disk itself, whatever is free inside the file: the file may need to
/// grow before it can reuse what it has.
const BARE_BYTES: u64 = 16 * MIB;

/// How far above the floors refusing ends.
const MARGIN_BYTES: u64 = 16 * MIB;

/// How often the disk is asked at most.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Lets events in or not.
#[derive(Default)]
pub(super) struct Gate {
    room: Option<Arc<dyn Room>>,
    ask_at: Moment,
    closed: bool,
}

impl Gate {
    /// A gate that goes by what `room` says.
    pub(super) fn new(room: Arc<dyn Room>) -> Self {
        Self {
            room: Some(room),
            ..Self::default()
        }
    }

    /// Asks the disk if it is time to. `stored` is what the store holds, in bytes.
    pub(super) fn look(&mut self, now: Moment, stored: u64) {
        let Some(room) = self.room.as_ref().filter(|_| self.ask_at <= now) else {
            return;
        };
        self.ask_at = now + ASK_EVERY;
        let closed = match room.free_bytes() {
            Some(free) => is_low(self.closed, free, room.file_bytes().unwrap_or(0), stored),
            None => false,
        };
        if closed == self.closed {
            return;
        }
        self.closed = closed;
        let free = room.free_bytes().unwrap_or(0) / MIB;
        if closed {
            warn!(
                "[alert disk-low] only {free} MiB are free on the store's disk: new events are \
                 refused (503) until there are {} MiB, deliveries go on; remove other files from \
                 that disk, or give [store] max_size a value that fits it",
                (floor(stored) + MARGIN_BYTES) / MIB
            );
        } else {
            info!("[alert disk-low] over: {free} MiB are free, new events are taken again");
        }
    }

    /// Whether new events are refused.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Hears that the store failed.
    pub(super) fn note_failure(&self, error: &Error) {
        if let Some(room) = self.room.as_ref().filter(|_| error.is_disk_full()) {
            room.give_up_ballast();
        }
    }
}

fn floor(stored: u64) -> u64 {
    FLOOR_BYTES.max(stored / SHARE)
}

/// Whether there is too little room: `free` on the disk, and what a file that takes `file` bytes
/// has left when it holds `stored`. What is stored may take up to twice its bytes.
fn is_low(was_low: bool, free: u64, file: u64, stored: u64) -> bool {
    let inside = file.saturating_sub(stored.saturating_mul(2));
    let margin = if was_low { MARGIN_BYTES } else { 0 };
    free < BARE_BYTES + margin || free.saturating_add(inside) < floor(stored) + margin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_grows_with_the_store_and_counts_what_is_free_inside() {
        let rows = [
            // free, file, stored; low?
            (64, 0, 0, false),
            (63, 0, 0, true),
            (63, 1, 0, false),
            (16, 48, 0, false),
            (15, 1_000, 0, true),
            (64, 100, 50, false),
            (20, 100, 50, true),
            (20, 200, 50, false),
            (200, 1_600, 1_600, false),
            (199, 1_600, 1_600, true),
        ];
        for (free, file, stored, low) in rows {
            let got = is_low(false, free * MIB, file * MIB, stored * MIB);
            assert_eq!(got, low, "free {free}, file {file}, stored {stored}");
        }
    }

    #[test]
    fn refusing_ends_a_little_above_the_floor() {
        for (free, low) in [(64, true), (79, true), (80, false)] {
            assert_eq!(is_low(true, free * MIB, 0, 0), low, "{free} MiB");
        }
        assert!(is_low(true, 31 * MIB, 1_000 * MIB, 0));
        assert!(!is_low(true, 32 * MIB, 1_000 * MIB, 0));
    }
}
