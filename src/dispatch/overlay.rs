//! What was settled and is not on disk yet.
//!
//! Settlements wait for a commit to share. Until then the store still shows the row as it was, so
//! whoever reads it must look here too.

use std::collections::BTreeMap;

use crate::delivery::Progress;
use crate::event::{Lane, Seq};

/// The settlements of one destination that are on their way.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    rows: BTreeMap<(Lane, Seq), Row>,
}

#[derive(Debug)]
struct Row {
    /// How far the delivery has come; none if it is no longer pending in this lane.
    now: Option<Progress>,
    /// Settlements of this row that are not on disk.
    unwritten: u32,
}

impl Overlay {
    /// A delivery is no longer pending.
    pub(super) fn gone(&mut self, lane: Lane, seq: Seq) {
        self.set(lane, seq, None);
    }

    /// A delivery has failed once more, and from now on waits in lane `to`.
    pub(super) fn retry(&mut self, lane: Lane, seq: Seq, to: Lane, progress: Progress) {
        self.set(lane, seq, (lane == to).then_some(progress));
    }

    /// One settlement of the row is on disk.
    pub(super) fn flushed(&mut self, lane: Lane, seq: Seq) {
        if let Some(row) = self.rows.get_mut(&(lane, seq)) {
            row.unwritten -= 1;
            if row.unwritten == 0 {
                self.rows.remove(&(lane, seq));
            }
        }
    }

    /// How far a delivery has come that the store shows with `stored`; none if it is no longer
    /// pending.
    pub(super) fn look(&self, lane: Lane, seq: Seq, stored: Progress) -> Option<Progress> {
        match self.rows.get(&(lane, seq)) {
            Some(row) => row.now,
            None => Some(stored),
        }
    }

    fn set(&mut self, lane: Lane, seq: Seq, now: Option<Progress>) {
        let row = self
            .rows
            .entry((lane, seq))
            .or_insert(Row { now, unwritten: 0 });
        row.now = now;
        row.unwritten += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANE: Lane = Lane(1);
    const SEQ: Seq = Seq(2);

    fn attempts(attempts: u32) -> Progress {
        Progress {
            attempts,
            replayed: false,
        }
    }

    #[test]
    fn a_row_counts_as_settled_until_the_last_of_its_settlements_is_on_disk() {
        let mut overlay = Overlay::default();
        let look = |overlay: &Overlay| overlay.look(LANE, SEQ, attempts(0));
        assert_eq!(look(&overlay), Some(attempts(0)));
        overlay.retry(LANE, SEQ, LANE, attempts(1));
        assert_eq!(look(&overlay), Some(attempts(1)));
        overlay.gone(LANE, SEQ);
        assert_eq!(look(&overlay), None);
        overlay.flushed(LANE, SEQ);
        assert_eq!(look(&overlay), None);
        overlay.flushed(LANE, SEQ);
        assert_eq!(look(&overlay), Some(attempts(0)));
    }

    #[test]
    fn a_row_that_moves_is_gone_from_its_old_lane() {
        let mut overlay = Overlay::default();
        overlay.retry(LANE, SEQ, Lane::alone(SEQ), attempts(1));
        assert_eq!(overlay.look(LANE, SEQ, attempts(0)), None);
    }
}
