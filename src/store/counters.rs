//! What the store counts. Written in the same commit as what is counted, so the numbers are
//! right after any crash.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::Totals;
use crate::event::DestinationNo;

/// Numbers that belong to the whole store.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Counters {
    /// The number of the next event.
    pub next_seq: u64,
    /// The number of the next entry of an audit trail.
    pub next_entry: u64,
    /// What `max_size` limits: bytes of events, bodies, and what is written beside them.
    pub stored_bytes: u64,
    /// The part of it that is in quarantine.
    pub quarantined_bytes: u64,
    /// Events whose record is in the store.
    pub events: u64,
    /// What waits, for each destination.
    pub backlog: BTreeMap<DestinationNo, Backlog>,
    /// How often each thing has happened.
    pub totals: Totals,
}

/// What waits for one destination.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Backlog {
    /// Deliveries still to be made.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
}

impl Counters {
    pub(super) fn backlog_of(&mut self, destination: u16) -> &mut Backlog {
        self.backlog.entry(DestinationNo(destination)).or_default()
    }
}
