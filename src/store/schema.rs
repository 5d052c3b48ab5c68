//! The tables, and how records lie in them.
//!
//! Keys ascend wherever they can, because a random key costs 4 to 40 times the bytes
//! (measured, redb 4.6). Every value is sealed: a version byte, a checksum over key and content,
//! then the content. redb verifies no checksums when it reads, so [`unseal`] is what stands
//! between a flipped bit and an upstream.

use redb::TableDefinition;

use super::Error;

/// What this program writes. A store with a higher number is refused, not guessed at.
pub(super) const SCHEMA: u64 = 1;

/// A sealed record as redb hands it out.
pub(super) type Sealed = &'static [u8];

/// seq → [`crate::event::Event`] as JSON.
pub(super) const EVENTS: TableDefinition<'_, u64, Sealed> = TableDefinition::new("events");
/// (seq, part) → raw bytes; see [`super::parts`].
pub(super) const BODIES: TableDefinition<'_, (u64, u32), Sealed> = TableDefinition::new("bodies");
/// (destination, lane, seq) → [`crate::delivery::Progress`].
pub(super) const PENDING: TableDefinition<'_, (u16, u64, u64), Sealed> =
    TableDefinition::new("pending");
/// (destination, seq) → [`crate::delivery::DeadLetter`] as JSON.
pub(super) const DEAD: TableDefinition<'_, (u16, u64), Sealed> = TableDefinition::new("dead");
/// seq → nothing: the reason is in the event's record.
pub(super) const QUARANTINE: TableDefinition<'_, u64, Sealed> = TableDefinition::new("quarantine");
/// seq → deduplication key and the first bytes of the body's digest.
pub(super) const RECENT: TableDefinition<'_, u64, Sealed> = TableDefinition::new("recent");
/// (seq, number of the entry) → [`crate::audit::Entry`] as JSON.
pub(super) const AUDIT: TableDefinition<'_, (u64, u64), Sealed> = TableDefinition::new("audit");
/// name → JSON: schema version, gateway id, boots, counters, destinations' numbers.
pub(super) const META: TableDefinition<'_, &'static str, Sealed> = TableDefinition::new("meta");

/// The form of the records below, in case it has to change.
const VERSION: u8 = 1;

/// Version byte and checksum.
pub(super) const SEAL_BYTES: usize = 5;

/// A key as the bytes that its record's checksum covers, so that a record which turns up under
/// another key is noticed.
pub(super) trait SealedBy {
    /// Feeds the key to the checksum.
    fn feed(&self, checksum: &mut crc32fast::Hasher);
}

impl SealedBy for u64 {
    fn feed(&self, checksum: &mut crc32fast::Hasher) {
        checksum.update(&self.to_le_bytes());
    }
}

impl SealedBy for (u64, u32) {
    fn feed(&self, checksum: &mut crc32fast::Hasher) {
        self.0.feed(checksum);
        checksum.update(&self.1.to_le_bytes());
    }
}

impl SealedBy for (u64, u64) {
    fn feed(&self, checksum: &mut crc32fast::Hasher) {
        self.0.feed(checksum);
        self.1.feed(checksum);
    }
}

impl SealedBy for (u16, u64) {
    fn feed(&self, checksum: &mut crc32fast::Hasher) {
        checksum.update(&self.0.to_le_bytes());
        self.1.feed(checksum);
    }
}

impl SealedBy for (u16, u64, u64) {
    fn feed(&self, checksum: &mut crc32fast::Hasher) {
        (self.0, self.1).feed(checksum);
        self.2.feed(checksum);
    }
}

impl SealedBy for &str {
    fn feed(&self, checksum: &mut crc32fast::Hasher) {
        checksum.update(self.as_bytes());
    }
}

/// The record of `content` under `key`.
pub(super) fn seal(key: &impl SealedBy, content: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(SEAL_BYTES + content.len());
    record.push(VERSION);
    record.extend_from_slice(&checksum(key, content).to_le_bytes());
    record.extend_from_slice(content);
    record
}

/// The content of the record under `key` in `table`, if it is what was written there.
pub(super) fn unseal<'a>(
    table: &'static str,
    key: &impl SealedBy,
    record: &'a [u8],
) -> Result<&'a [u8], Error> {
    let corrupt = |reason: &str| Error::Corrupt {
        table,
        reason: reason.to_owned(),
    };
    let Some((head, content)) = record.split_at_checked(SEAL_BYTES) else {
        return Err(corrupt("it is too short"));
    };
    if head[0] != VERSION {
        return Err(corrupt("its version is unknown"));
    }
    if head[1..] != checksum(key, content).to_le_bytes() {
        return Err(corrupt("its checksum is wrong"));
    }
    Ok(content)
}

fn checksum(key: &impl SealedBy, content: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    key.feed(&mut checksum);
    checksum.update(&[VERSION]);
    checksum.update(content);
    checksum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_record_opens_under_its_own_key_only() {
        let record = seal(&(7_u64, 0_u32), b"body");
        assert_eq!(
            unseal("bodies", &(7_u64, 0_u32), &record).ok(),
            Some(&b"body"[..])
        );
        assert!(unseal("bodies", &(8_u64, 0_u32), &record).is_err());
        assert!(unseal("bodies", &(7_u64, 1_u32), &record).is_err());
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_noticed() {
        let record = seal(&7_u64, b"a record of some length");
        for bit in 0..record.len() * 8 {
            let mut damaged = record.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal("events", &7_u64, &damaged).is_err(), "bit {bit}");
        }
        for length in 0..record.len() {
            assert!(
                unseal("events", &7_u64, &record[..length]).is_err(),
                "{length} bytes"
            );
        }
    }
}
