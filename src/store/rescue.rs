//! One event of a damaged store, with everything that belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::salvage::Salvaged;
use super::schema::{AUDIT, BODIES, DEAD, EVENTS, PENDING, QUARANTINE};
use super::source::{RowKey, Rows, Source};
use crate::audit::{Action, Entry, Then};
use crate::event::{DestinationNo, Event, Lane, Seq};

/// The number for what has no destination yet.
const NO_DESTINATION: DestinationNo = DestinationNo(0);

/// An event with all that is known of it, as it goes into the new store.
pub(super) struct Kept {
    /// Its number.
    pub(super) seq: u64,
    /// What its record says.
    pub(super) event: Event,
    /// Its record.
    pub(super) record: Vec<u8>,
    /// The parts of its body, if all of them prove whole.
    pub(super) parts: Vec<Vec<u8>>,
    /// Whether it is in quarantine.
    pub(super) quarantined: bool,
    /// Its pending deliveries.
    pub(super) pending: Vec<((u16, u64, u64), Vec<u8>)>,
    /// Its dead letters.
    pub(super) dead: Vec<((u16, u64), Vec<u8>)>,
    /// Its audit trail.
    pub(super) trail: Vec<((u64, u64), Vec<u8>)>,
}

impl Kept {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let trail = self.trail.iter().map(|(_, entry)| entry.len());
        let parts = self.parts.iter().map(Vec::len);
        self.record.len() + parts.chain(trail).sum::<usize>()
    }

    fn is_waiting(&self) -> bool {
        self.quarantined || !self.pending.is_empty() || !self.dead.is_empty()
    }
}

/// The tables in which an event has rows.
pub(super) struct Rescue {
    /// Their records.
    pub(super) events: Rows<u64>,
    /// Their bodies.
    pub(super) bodies: Rows<(u64, u32)>,
    /// Pending deliveries.
    pub(super) pending: Rows<(u16, u64, u64)>,
    /// Dead letters.
    pub(super) dead: Rows<(u16, u64)>,
    /// Events in quarantine.
    pub(super) quarantine: Rows<u64>,
    /// Audit trails.
    pub(super) audit: Rows<(u64, u64)>,
    /// Destinations that something may wait for.
    pub(super) destinations: BTreeSet<DestinationNo>,
    /// Those of them whose names are known.
    names: BTreeMap<DestinationNo, String>,
}

impl Rescue {
    /// The tables of `source`, in which something may wait for `destinations`.
    pub(super) fn of(
        source: &Source,
        mut destinations: BTreeSet<DestinationNo>,
        names: BTreeMap<DestinationNo, String>,
    ) -> Self {
        destinations.insert(NO_DESTINATION);
        Self {
            events: source.table(EVENTS, "events"),
            bodies: source.table(BODIES, "bodies"),
            pending: source.table(PENDING, "pending"),
            dead: source.table(DEAD, "dead"),
            quarantine: source.table(QUARANTINE, "quarantine"),
            audit: source.table(AUDIT, "audit"),
            destinations,
            names,
        }
    }

    /// Whether some rows were found page by page, so that they may have been removed since.
    pub(super) fn is_sifted(&self) -> bool {
        self.events.is_sifted()
            || self.bodies.is_sifted()
            || self.pending.is_sifted()
            || self.dead.is_sifted()
            || self.quarantine.is_sifted()
            || self.audit.is_sifted()
    }

    /// Gathers what belongs to the event whose record is `record`.
    pub(super) fn keep(
        &mut self,
        seq: u64,
        record: Vec<u8>,
        salvaged: &mut Salvaged,
    ) -> Option<Kept> {
        let event: Event = match serde_json::from_slice(&record) {
            Ok(event) => event,
            Err(error) => {
                salvaged.lose("events", Some(seq), error.to_string());
                return None;
            }
        };
        let to = event.to.iter().map(|address| address.destination);
        self.destinations.extend(to);
        let mut kept = Kept {
            seq,
            event,
            record,
            parts: Vec::new(),
            quarantined: one(&self.quarantine, seq, seq, salvaged).is_some(),
            pending: Vec::new(),
            dead: Vec::new(),
            trail: Vec::new(),
        };
        let lanes: BTreeSet<Lane> = kept
            .event
            .to
            .iter()
            .map(|address| address.lane)
            .chain([Lane::alone(Seq(seq))])
            .collect();
        for destination in &self.destinations {
            let key = (destination.0, seq);
            let letter = one(&self.dead, key, seq, salvaged);
            kept.dead.extend(letter.map(|letter| (key, letter)));
            for lane in &lanes {
                let key = (destination.0, lane.0, seq);
                let progress = one(&self.pending, key, seq, salvaged);
                kept.pending
                    .extend(progress.map(|progress| (key, progress)));
            }
        }
        let trail = (Bound::Included((seq, 0)), Bound::Included((seq, u64::MAX)));
        kept.trail = several(&self.audit, trail, seq, salvaged);
        self.drop_what_has_ended(&mut kept);
        self.take_body(&mut kept, salvaged);
        Some(kept)
    }

    /// Rows that were found page by page may have been removed since. The trail says so; but what
    /// waits is never lost by it, since the trail may be an older copy itself.
    fn drop_what_has_ended(&self, kept: &mut Kept) {
        let [pending, dead, quarantine] = [
            self.pending.is_sifted(),
            self.dead.is_sifted(),
            self.quarantine.is_sifted(),
        ];
        if !(pending || dead || quarantine) {
            return;
        }
        let entries = kept.trail.iter();
        let trail: Vec<Entry> = entries
            .filter_map(|(_, entry)| serde_json::from_slice(entry).ok())
            .collect();
        let last = |number: u16| {
            let name = self.names.get(&DestinationNo(number))?;
            Stage::last_of(name, &trail)
        };
        let waits = |number: u16| kept.pending.iter().any(|(key, _)| key.0 == number);
        let is_waiting: BTreeSet<u16> = kept
            .dead
            .iter()
            .map(|(key, _)| key.0)
            .filter(|number| waits(*number))
            .collect();
        if dead {
            kept.dead.retain(|(key, _)| match last(key.0) {
                Some(Stage::Waits) => !is_waiting.contains(&key.0),
                Some(Stage::Over) => false,
                Some(Stage::Dead) | None => true,
            });
        }
        if pending {
            let is_dead = |number: u16| kept.dead.iter().any(|(key, _)| key.0 == number);
            kept.pending.retain(|(key, _)| match last(key.0) {
                Some(Stage::Dead) => !is_dead(key.0),
                Some(Stage::Over) => false,
                Some(Stage::Waits) | None => true,
            });
        }
        let is_discarded =
            |entry: &Entry| matches!(entry.action, Action::Discarded { destination: None });
        kept.quarantined &= !(quarantine && trail.iter().any(is_discarded));
    }

    /// A body is only of use if all of it proves whole.
    fn take_body(&self, kept: &mut Kept, salvaged: &mut Salvaged) {
        let (seq, length) = (kept.seq, kept.event.kept);
        let range = (Bound::Included((seq, 0)), Bound::Included((seq, u32::MAX)));
        let parts = several(&self.bodies, range, seq, salvaged);
        let has: usize = parts.iter().map(|(_, part)| part.len()).sum();
        let in_order = parts
            .iter()
            .zip(0..)
            .all(|((key, _), number)| key.1 == number);
        if in_order && has as u64 == length {
            kept.parts = parts.into_iter().map(|(_, part)| part).collect();
        } else if !parts.is_empty() || kept.is_waiting() {
            let why = format!("{has} of {length} bytes prove whole; the rest of the event is kept");
            salvaged.lose("bodies", Some(seq), why);
        }
    }
}

/// Where a delivery stood last, as far as a trail says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Waits,
    Dead,
    Over,
}

impl Stage {
    fn last_of(name: &str, trail: &[Entry]) -> Option<Self> {
        let stage = |entry: &Entry| match &entry.action {
            Action::Attempted {
                destination, then, ..
            } if destination == name => Some(match then {
                Then::Delivered => Self::Over,
                Then::Dead => Self::Dead,
                Then::RetryIn { .. } => Self::Waits,
            }),
            Action::Assigned { destination } | Action::Replayed { destination }
                if destination == name =>
            {
                Some(Self::Waits)
            }
            Action::Discarded {
                destination: Some(destination),
            }
            | Action::Shed {
                destination: Some(destination),
                ..
            } if destination == name => Some(Self::Over),
            _ => None,
        };
        trail.iter().rev().find_map(stage)
    }
}

/// The row under `key`, if it is there and whole.
fn one<K: RowKey>(rows: &Rows<K>, key: K, seq: u64, salvaged: &mut Salvaged) -> Option<Vec<u8>> {
    if rows.is_lost() {
        return None;
    }
    let row = rows.get(key);
    row.unwrap_or_else(|why| {
        salvaged.lose(rows.name, Some(seq), why);
        None
    })
}

/// The rows of a range that are whole.
fn several<K: RowKey>(
    rows: &Rows<K>,
    range: (Bound<K>, Bound<K>),
    seq: u64,
    salvaged: &mut Salvaged,
) -> Vec<(K, Vec<u8>)> {
    if rows.is_lost() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Err(why) = rows.read(range, usize::MAX, &mut found) {
        salvaged.lose(rows.name, Some(seq), why);
    }
    let mut whole = Vec::new();
    for (key, content) in found {
        match content {
            Ok(content) => whole.push((key, content)),
            Err(why) => salvaged.lose(rows.name, Some(seq), why),
        }
    }
    whole
}
