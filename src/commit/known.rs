//! What is known of an event that was just received.

use super::{Admission, Committer, DedupKey, Known};
use crate::event::Seq;
use crate::store;

/// How many events are kept in mind by when they came. Their records may be gone before the time
/// is over in which the same bytes are the same event, where the store is nearly full.
const MOST_TIMES: usize = 10_000;

impl Committer {
    /// What is known of an event that was just received.
    pub(super) fn find(&self, key: DedupKey, admission: &Admission) -> Result<Known, store::Error> {
        let event = &admission.event;
        let strange = event.quarantine.is_some();
        let window = if strange { &self.strange } else { &self.recent };
        let known = window.find(key, &event.digest);
        let (Known::Duplicate(seq), Some(within)) = (known, admission.within) else {
            return Ok(known);
        };
        let first = match self.times.get(&seq) {
            Some(first) => Some(*first),
            // Since before this start.
            None => match self.store.event(seq) {
                // What cannot be read does not show that this is the same.
                Err(store::Error::Corrupt { .. }) => None,
                first => first?.map(|first| (first.received, first.boot)),
            },
        };
        let age = |(received, boot)| event.received.since(received, event.boot == boot);
        // When in doubt they are two.
        let is_same = first.and_then(age).is_some_and(|age| age <= within);
        Ok(if is_same { known } else { Known::New })
    }

    /// Remembers an event by its key.
    pub(super) fn remember(&mut self, admission: &Admission, seq: Seq) {
        let event = &admission.event;
        let strange = event.quarantine.is_some();
        let window = if strange {
            &mut self.strange
        } else {
            &mut self.recent
        };
        if let Some(key) = admission.key {
            window.insert(key, &event.digest, seq);
        }
        if admission.within.is_some() {
            self.times.insert(seq, (event.received, event.boot));
            if MOST_TIMES < self.times.len() {
                self.times.pop_first();
            }
        }
    }
}
