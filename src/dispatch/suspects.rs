//! Events that failed too often while nothing else passed.
//!
//! When a device is the only one that sends, its oldest event is all that is tried. If that fails
//! again and again, it may be the event or the destination, and nobody can say which: the rest of
//! the lane waits behind it. If it became a dead letter, an outage would cost one event after the
//! other; if it never did, one poison event would block its lane for ever.
//!
//! So it stands aside for a moment, and the next event of its lane is tried, at once. If that one
//! is delivered, it was the event. If it fails too, it was the destination, and both wait in their
//! old order.
//!
//! Where the heads of all lanes are such events, the destination counts as down, and probes are
//! all that is tried. So probes that got an answer count here too, beside the attempts that are
//! charged: nobody loses an attempt, but behind one of them may be the event that arrives.
//!
//! This is the one way in which an event can arrive before an earlier one of its lane: the earlier
//! one has failed as often as an event may, and an outage ends in the moment between the two. So
//! nobody stands aside where the next one can't be tried at once: while an operator holds the
//! destination, or while it is paused.

use std::collections::HashMap;

use crate::delivery::Progress;
use crate::event::{Lane, Seq};

/// The doubtful events of one destination.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Deliveries so far.
    delivered: u64,
    /// Events that failed and were charged: how many deliveries there had been then.
    failed: HashMap<Seq, u64>,
    /// Probes that each event failed since the last delivery or since it stood aside.
    probed: HashMap<Seq, u32>,
    /// Who stands aside, for each lane.
    aside: HashMap<Lane, (Seq, Progress)>,
}

impl Suspects {
    /// An event was delivered.
    pub(super) fn delivered(&mut self) {
        self.delivered += 1;
        self.probed.clear();
    }

    /// A probe with this event got an answer, and it was not taken. How often that was so.
    pub(super) fn probed(&mut self, seq: Seq) -> u32 {
        let times = self.probed.entry(seq).or_default();
        *times = times.saturating_add(1);
        *times
    }

    /// An attempt failed and counts against this event.
    pub(super) fn failed(&mut self, seq: Seq) {
        self.failed.insert(seq, self.delivered);
    }

    /// Whether another event was delivered since this one failed last.
    pub(super) fn is_proven(&self, seq: Seq) -> bool {
        let before = self.failed.get(&seq);
        before.is_some_and(|before| *before < self.delivered)
    }

    /// An event no longer waits.
    pub(super) fn forget(&mut self, lane: Lane, seq: Seq) {
        self.failed.remove(&seq);
        self.probed.remove(&seq);
        if self
            .aside
            .get(&lane)
            .is_some_and(|(aside, _)| *aside == seq)
        {
            self.aside.remove(&lane);
        }
    }

    /// An event lets the next one of its lane go first.
    pub(super) fn stand_aside(&mut self, lane: Lane, seq: Seq, progress: Progress) {
        self.probed.remove(&seq);
        self.aside.insert(lane, (seq, progress));
    }

    /// Whether somebody stands aside in this lane.
    pub(super) fn is_aside(&self, lane: Lane) -> bool {
        self.aside.contains_key(&lane)
    }

    /// The lanes in which somebody stands aside.
    pub(super) fn lanes(&self) -> Vec<Lane> {
        self.aside.keys().copied().collect()
    }

    /// Who stood aside is the head of its lane again.
    pub(super) fn take_back(&mut self, lane: Lane) -> Option<(Seq, Progress)> {
        self.aside.remove(&lane)
    }
}
