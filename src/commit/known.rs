//! What is known of an event that was just received.

use super::plan::Plan;
use super::{Admission, Committer, DedupKey, Known};
use crate::event::{Event, Seq};
use crate::store;

impl Committer {
    /// What is known of an event that was just received.
    pub(super) fn find<T>(
        &self,
        key: DedupKey,
        admission: &Admission,
        plan: &Plan<T>,
    ) -> Result<Known, store::Error> {
        let event = &admission.event;
        let strange = event.quarantine.is_some();
        let window = if strange { &self.strange } else { &self.recent };
        let known = window.find(key, &event.digest);
        let (Known::Duplicate(seq), Some(within)) = (known, admission.within) else {
            return Ok(known);
        };
        let age = |first: &Event| {
            event
                .received
                .since(first.received, event.boot == first.boot)
        };
        let planned = plan.admissions.iter().find(|(planned, _)| *planned == seq);
        let age = if let Some((_, first)) = planned {
            age(&first.event)
        } else {
            match self.store.event(seq) {
                // What cannot be read does not show that this is the same.
                Err(store::Error::Corrupt { .. }) => None,
                first => first?.as_ref().and_then(age),
            }
        };
        // When in doubt they are two.
        let is_same = age.is_some_and(|age| age <= within);
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
    }
}
