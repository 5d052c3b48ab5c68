//! How much lies in quarantine, for whoever decides what may still go there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of all events in quarantine, as of the last commit; cheap to clone and to ask.
///
/// It comes from the store's counters, so it is right after a restart too. What is on its way to
/// the disk is not in it yet.
#[derive(Clone, Debug, Default)]
pub struct Quarantined(Arc<AtomicU64>);

impl Quarantined {
    /// Bytes, counted as those of [`crate::store::footprint`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}
