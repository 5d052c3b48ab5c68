//! The window of recent events in which a repeated one is recognised.
//!
//! In memory, in the order of arrival, bounded. The store keeps a copy of it, so that a restart
//! forgets nothing.
//!
//! Memory: about 5 MB for 100,000 events, taken as they come. A table from keys to events beside
//! their order would take 7 MB as a tree and 11 MB hashed, which doubles while it grows.

use std::collections::{BTreeSet, VecDeque};

use crate::event::{Digest, Seq, short_hash};
use crate::store::{Error, Store};

/// What one sender's event is recognised by: the hash of its event id, then the hash of route
/// and sender. Apart, so that an event can be found by its id alone.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct DedupKey {
    /// 64 bits of the event id's hash.
    pub id: u64,
    /// 64 bits of the hash of route and sender.
    pub place: u64,
}

impl DedupKey {
    /// How many bytes a key and a digest's head take in the store.
    const BYTES: usize = 24;

    /// The key of the event called `event_id` by its sender, which is a device or an address.
    #[must_use]
    pub fn new(route: &str, sender: &str, event_id: &str) -> Self {
        Self {
            id: Self::id_hash(event_id),
            place: short_hash(&[route, sender]),
        }
    }

    /// The key of a request that is recognised by its bytes: its method, its target and its body.
    #[must_use]
    pub fn of_content(
        route: &str,
        sender: &str,
        method: &str,
        target: &[u8],
        body: &Digest,
    ) -> Self {
        Self {
            id: short_hash(&[&body.0[..], method.as_bytes(), target]),
            place: short_hash(&["", route, sender]),
        }
    }

    /// The part of a key that comes from the event id.
    #[must_use]
    pub fn id_hash(event_id: &str) -> u64 {
        short_hash(&[event_id])
    }

    /// The key under which another body of the same event is kept.
    fn revised(self, bytes: u64) -> Self {
        Self {
            place: self.place ^ bytes.rotate_left(1) ^ 1,
            ..self
        }
    }
}

/// What the window knows of an event that was just received.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// Nothing.
    New,
    /// The same bytes are stored under this number.
    Duplicate(Seq),
    /// The same ids came with other bytes before.
    Revision(Seq),
}

/// The window.
#[derive(Debug)]
pub struct Recent {
    /// In the order of arrival.
    entries: VecDeque<Entry>,
    /// The number of the first of them. Numbers go round.
    first: u32,
    /// A part of each key, and the number of its entry.
    index: BTreeSet<(u32, u32)>,
    window: usize,
}

/// An event of the window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: DedupKey,
    bytes: u64,
    seq: Seq,
}

impl Recent {
    /// A window of at most `window` events.
    #[must_use]
    pub fn new(window: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(window + 1),
            first: 0,
            index: BTreeSet::new(),
            window,
        }
    }

    /// A window of at most `window` events, filled with what `store` remembers. Rows that are not
    /// ours are left out.
    pub fn restore(window: usize, store: &Store) -> Result<Self, Error> {
        let mut recent = Self::new(window);
        store.each_recent(|seq, row| {
            recent.remember(seq, row);
            true
        })?;
        Ok(recent)
    }

    fn remember(&mut self, seq: Seq, row: &[u8]) {
        if let Some((key, bytes)) = decode(row) {
            self.insert_hashed(key, bytes, seq);
        }
    }

    /// Whether the event with this key and body was seen before.
    #[must_use]
    pub fn find(&self, key: DedupKey, digest: &Digest) -> Known {
        let bytes = head(digest);
        let revised = self.get(key.revised(bytes));
        match (self.get(key), revised) {
            (Some(first), _) if first.bytes == bytes => Known::Duplicate(first.seq),
            // Also when the first of its revisions has left the window.
            (_, Some(revised)) => Known::Duplicate(revised.seq),
            (Some(first), None) => Known::Revision(first.seq),
            (None, None) => Known::New,
        }
    }

    /// Remembers an event; the oldest is forgotten if the window is full.
    pub fn insert(&mut self, key: DedupKey, digest: &Digest, seq: Seq) {
        self.insert_hashed(key, head(digest), seq);
    }

    /// What the store keeps of one event.
    #[must_use]
    pub fn encode(key: DedupKey, digest: &Digest) -> [u8; DedupKey::BYTES] {
        let mut row = [0; DedupKey::BYTES];
        row[..8].copy_from_slice(&key.id.to_le_bytes());
        row[8..16].copy_from_slice(&key.place.to_le_bytes());
        row[16..].copy_from_slice(&head(digest).to_le_bytes());
        row
    }

    fn insert_hashed(&mut self, key: DedupKey, bytes: u64, seq: Seq) {
        let key = match self.get(key) {
            Some(first) if first.bytes != bytes => key.revised(bytes),
            _ => key,
        };
        let entry = Entry { key, bytes, seq };
        if let Some(place) = self.place(key) {
            self.entries[place] = entry;
            return;
        }
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.index
            .insert((part(key), self.first.wrapping_add(count)));
        self.entries.push_back(entry);
        if self.window < self.entries.len()
            && let Some(oldest) = self.entries.pop_front()
        {
            self.index.remove(&(part(oldest.key), self.first));
            self.first = self.first.wrapping_add(1);
        }
    }

    fn get(&self, key: DedupKey) -> Option<&Entry> {
        self.entries.get(self.place(key)?)
    }

    /// Where in the order an event with that key is.
    fn place(&self, key: DedupKey) -> Option<usize> {
        let part = part(key);
        let numbers = self.index.range((part, 0)..=(part, u32::MAX));
        let mut places = numbers.map(|(_, number)| number.wrapping_sub(self.first) as usize);
        places.find(|place| {
            self.entries
                .get(*place)
                .is_some_and(|entry| entry.key == key)
        })
    }
}

/// The numbers of the recent events that some sender calls `event_id`, oldest first, read from
/// the store. May hold one whose id merely has the same hash.
pub fn recent_with_id(store: &Store, event_id: &str) -> Result<Vec<Seq>, Error> {
    let id = DedupKey::id_hash(event_id);
    let mut found = Vec::new();
    store.each_recent(|seq, row| {
        if decode(row).is_some_and(|(key, _)| key.id == id) {
            found.push(seq);
        }
        true
    })?;
    Ok(found)
}

/// Enough of a key to find it among few.
fn part(key: DedupKey) -> u32 {
    let mixed = key.id ^ key.place.rotate_left(32);
    u32::try_from(mixed >> 32).expect("32 bits are left")
}

fn head(digest: &Digest) -> u64 {
    u64::from_le_bytes(
        digest.0[..8]
            .try_into()
            .expect("a digest has more than 8 bytes"),
    )
}

fn decode(row: &[u8]) -> Option<(DedupKey, u64)> {
    let row: &[u8; DedupKey::BYTES] = row.try_into().ok()?;
    let number = |at: usize| {
        let bytes = row[at..at + 8]
            .try_into()
            .expect("eight bytes are eight bytes");
        u64::from_le_bytes(bytes)
    };
    let key = DedupKey {
        id: number(0),
        place: number(8),
    };
    Some((key, number(16)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(size: usize) -> Recent {
        Recent::new(size)
    }

    #[test]
    fn the_window_goes_on_where_its_numbers_go_round() {
        let mut recent = window(4);
        recent.first = u32::MAX - 3;
        let key = |number: u64| DedupKey::new("door", "cam-7", &format!("e-{number}"));
        let body = Digest::of(b"1");
        for number in 0..20 {
            recent.insert(key(number), &body, Seq(number));
            for known in 0..=number {
                let expected = if known + 4 <= number {
                    Known::New
                } else {
                    Known::Duplicate(Seq(known))
                };
                assert_eq!(
                    recent.find(key(known), &body),
                    expected,
                    "{known} of {number}"
                );
            }
        }
        assert_eq!(recent.index.len(), 4);
    }

    #[test]
    fn the_same_bytes_are_a_duplicate_and_other_bytes_a_revision() {
        let mut recent = window(10);
        let key = DedupKey::new("door", "cam-7", "e-1");
        let (one, two, three) = (Digest::of(b"1"), Digest::of(b"2"), Digest::of(b"3"));
        assert_eq!(recent.find(key, &one), Known::New);
        recent.insert(key, &one, Seq(1));
        assert_eq!(recent.find(key, &one), Known::Duplicate(Seq(1)));
        assert_eq!(recent.find(key, &two), Known::Revision(Seq(1)));
        recent.insert(key, &two, Seq(2));
        assert_eq!(recent.find(key, &two), Known::Duplicate(Seq(2)));
        assert_eq!(recent.find(key, &one), Known::Duplicate(Seq(1)));
        assert_eq!(recent.find(key, &three), Known::Revision(Seq(1)));
    }

    #[test]
    fn an_id_is_the_senders_own() {
        let keys = [
            DedupKey::new("door", "cam-7", "1"),
            DedupKey::new("door", "cam-8", "1"),
            DedupKey::new("gate", "cam-7", "1"),
            DedupKey::new("door", "", "1"),
        ];
        let mut recent = window(10);
        for (seq, key) in (0..).zip(keys) {
            assert_eq!(recent.find(key, &Digest::of(b"x")), Known::New, "{key:?}");
            recent.insert(key, &Digest::of(b"x"), Seq(seq));
        }
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut recent = window(3);
        let key = |id: u64| DedupKey::new("door", "cam-7", &id.to_string());
        let digest = Digest::of(b"x");
        for id in 0..5 {
            recent.insert(key(id), &digest, Seq(id));
        }
        for id in 0..2 {
            assert_eq!(recent.find(key(id), &digest), Known::New, "{id}");
        }
        for id in 2..5 {
            assert_eq!(
                recent.find(key(id), &digest),
                Known::Duplicate(Seq(id)),
                "{id}"
            );
        }
    }

    #[test]
    fn a_revision_is_recognised_after_the_first_was_forgotten() {
        let mut recent = window(2);
        let key = DedupKey::new("door", "cam-7", "e-1");
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        recent.insert(key, &one, Seq(1));
        recent.insert(key, &two, Seq(2));
        recent.insert(DedupKey::new("door", "cam-7", "e-2"), &one, Seq(3));
        assert_eq!(recent.find(key, &two), Known::Duplicate(Seq(2)));
    }

    #[test]
    fn a_restart_forgets_nothing() {
        let key = DedupKey::new("door", "cam-7", "e-1");
        let (one, two) = (Digest::of(b"1"), Digest::of(b"2"));
        let rows = [
            (Seq(1), Recent::encode(key, &one).to_vec()),
            (Seq(2), Recent::encode(key, &two).to_vec()),
            (Seq(3), b"not ours".to_vec()),
        ];
        let mut recent = window(10);
        for (seq, row) in rows {
            recent.remember(seq, &row);
        }
        assert_eq!(recent.find(key, &one), Known::Duplicate(Seq(1)));
        assert_eq!(recent.find(key, &two), Known::Duplicate(Seq(2)));
    }
}
