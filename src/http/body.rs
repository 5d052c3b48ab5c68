//! Collects a body within the memory it was given.
//!
//! # Guarantees
//!
//! - It never holds more memory than it asked for and was given, and it asks only when bytes are
//!   here that need it, a little ahead of them: what a head declares costs nothing until it comes.
//! - A body up to `max_body` is kept whole; of a longer one only its beginning and the hash of all
//!   that was read.

use super::Limits;
use crate::event::{Hasher, Oversize};

/// Asks for so many bytes in all; false means to wait for them. Asking for less than
/// before always succeeds.
pub(super) type Room<'a> = &'a mut dyn FnMut(usize) -> bool;

/// The first room of a body. After that it doubles, so that few steps lead to a large one.
const FIRST_ROOM: usize = 4096;

/// The most that is asked for at once, and so the most that is held for bytes that never come.
const LARGEST_STEP: usize = 1024 * 1024;

/// The body of one request, as far as it has come.
#[derive(Debug)]
pub(super) struct Body {
    kept: Vec<u8>,
    seen: u64,
    room: usize,
    declared: Option<u64>,
    /// Only of a body that is too long to keep.
    hasher: Option<Hasher>,
}

impl Body {
    /// A body of that many bytes, or of nobody knows how many.
    pub(super) fn new(declared: Option<u64>, limits: &Limits) -> Self {
        let oversize = declared.is_some_and(|declared| declared > limits.max_body);
        Self {
            kept: Vec::new(),
            seen: 0,
            room: 0,
            declared,
            hasher: oversize.then(Hasher::default),
        }
    }

    /// How many bytes have come.
    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// The bytes that are kept so far.
    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether it has its first room. Until then nothing of it is read.
    pub(super) fn has_room(&mut self, limits: &Limits, room: Room<'_>) -> bool {
        if self.room == 0 {
            let wanted = self.next_room(limits);
            // Of a body that has no bytes none have to be kept.
            if wanted != 0 && !room(wanted) {
                return false;
            }
            self.room = wanted;
        }
        true
    }

    /// How many bytes it can take before it asks for more room.
    pub(super) fn free(&self) -> usize {
        match self.hasher {
            Some(_) => usize::MAX,
            None => self.room.saturating_sub(self.kept.len()),
        }
    }

    /// The room that it waited for was given.
    pub(super) fn grant(&mut self, room: usize) {
        self.room = room;
    }

    /// Takes the next bytes. Returns how many; less than all if it must wait for room or if
    /// [`Body::is_cut`].
    pub(super) fn take(&mut self, bytes: &[u8], limits: &Limits, room: Room<'_>) -> usize {
        let mut taken = 0;
        while taken < bytes.len() {
            let bytes = &bytes[taken..];
            if self.hasher.is_some() {
                return taken + self.hash(bytes, limits);
            }
            let free = self.free();
            if free != 0 {
                taken += self.keep(&bytes[..bytes.len().min(free)]);
            } else if self.seen >= limits.max_body {
                self.give_up_keeping(limits, room);
            } else {
                let wanted = self.next_room(limits);
                if !room(wanted) {
                    break;
                }
                self.room = wanted;
            }
        }
        taken
    }

    /// Whether it is so long that its rest is not waited for.
    pub(super) fn is_cut(&self, limits: &Limits) -> bool {
        self.hasher.is_some() && self.seen >= limits.oversize_read
    }

    /// The bytes that are kept, and what else is known if these are not all.
    pub(super) fn finish(self) -> (Vec<u8>, Option<Oversize>) {
        let length = self.declared.unwrap_or(self.seen);
        let oversize = self.hasher.map(|hasher| Oversize {
            length,
            digest: hasher.finish(),
        });
        (self.kept, oversize)
    }

    /// Gives back what has come: it was no body.
    pub(super) fn forget(&mut self) -> Vec<u8> {
        self.hasher = None;
        self.seen = 0;
        std::mem::take(&mut self.kept)
    }

    fn next_room(&self, limits: &Limits) -> usize {
        let most = usize::try_from(limits.max_body).unwrap_or(usize::MAX);
        if self.hasher.is_some() {
            return limits.oversize_head.max(1);
        }
        let declared = self
            .declared
            .and_then(|declared| usize::try_from(declared).ok());
        let more = self.room + self.room.clamp(FIRST_ROOM, LARGEST_STEP);
        more.min(declared.unwrap_or(most)).min(most)
    }

    fn keep(&mut self, bytes: &[u8]) -> usize {
        let needed = self.kept.len() + bytes.len();
        if needed > self.kept.capacity() {
            // Twice as much each time, so that a long body is not copied at every piece.
            let capacity = needed.max(2 * self.kept.capacity()).min(self.room);
            self.kept.reserve_exact(capacity - self.kept.len());
        }
        self.kept.extend_from_slice(bytes);
        self.seen += length(bytes);
        bytes.len()
    }

    fn hash(&mut self, bytes: &[u8], limits: &Limits) -> usize {
        let left = limits.oversize_read.saturating_sub(self.seen);
        let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        let missing = limits.oversize_head.saturating_sub(self.kept.len());
        self.kept
            .extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.seen += length(bytes);
        bytes.len()
    }

    /// More has come than is kept of a body whose length nobody knew.
    fn give_up_keeping(&mut self, limits: &Limits, room: Room<'_>) {
        let mut hasher = Hasher::default();
        hasher.update(&self.kept);
        self.hasher = Some(hasher);
        self.kept.truncate(limits.oversize_head);
        self.kept.shrink_to_fit();
        let wanted = limits.oversize_head.max(1);
        if wanted < self.room && room(wanted) {
            self.room = wanted;
        }
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Digest;

    fn limits() -> Limits {
        Limits {
            max_body: 10_000,
            oversize_head: 100,
            oversize_read: 20_000,
            ..Limits::default()
        }
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count)
            .map(|index| (index % 251).to_le_bytes()[0])
            .collect()
    }

    #[test]
    fn a_body_up_to_the_limit_is_kept_whole() {
        for (count, declared) in [(1, true), (9_999, true), (10_000, true), (10_000, false)] {
            let all = bytes(count);
            for size in [1, 7, 4096, 20_000] {
                let declared = declared.then_some(length(&all));
                let mut body = Body::new(declared, &limits());
                for piece in all.chunks(size) {
                    assert_eq!(body.take(piece, &limits(), &mut |_| true), piece.len());
                }
                assert!(body.kept.capacity() <= body.room);
                assert_eq!(body.seen(), length(&all));
                assert_eq!(body.finish(), (all.clone(), None), "{count} by {size}");
            }
        }
    }

    #[test]
    fn of_a_longer_body_the_beginning_and_the_hash_are_kept() {
        for (count, declared) in [(10_001, true), (10_001, false), (20_000, true)] {
            let all = bytes(count);
            for size in [7, 4096, 30_000] {
                let declared = declared.then_some(length(&all));
                let mut body = Body::new(declared, &limits());
                let mut room = 0;
                assert!(body.has_room(&limits(), &mut |wanted| {
                    room = wanted;
                    true
                }));
                for piece in all.chunks(size) {
                    let taken = body.take(piece, &limits(), &mut |wanted| {
                        room = wanted;
                        true
                    });
                    assert_eq!(taken, piece.len());
                }
                assert_eq!(room, 100, "{count} by {size}");
                assert!(body.kept.capacity() <= 1000);
                let oversize = Oversize {
                    length: length(&all),
                    digest: Digest::of(&all),
                };
                assert_eq!(body.finish(), (all[..100].to_vec(), Some(oversize)));
            }
        }
    }

    #[test]
    fn of_a_very_long_body_no_more_is_read_than_the_limit() {
        for declared in [Some(30_000_000_000), None] {
            let mut body = Body::new(declared, &limits());
            let all = bytes(25_000);
            assert_eq!(body.take(&all[..11_000], &limits(), &mut |_| true), 11_000);
            assert!(!body.is_cut(&limits()));
            assert_eq!(body.take(&all[11_000..], &limits(), &mut |_| true), 9_000);
            assert!(body.is_cut(&limits()));
            let (kept, oversize) = body.finish();
            let oversize = oversize.expect("it was cut");
            assert_eq!(kept, all[..100]);
            assert_eq!(oversize.length, declared.unwrap_or(20_000));
            assert_eq!(oversize.digest, Digest::of(&all[..20_000]));
        }
    }

    #[test]
    fn room_is_asked_for_as_bytes_come() {
        const MIB: usize = 1024 * 1024;
        let limits = Limits::default();
        let piece = vec![b'x'; 1024];
        for declared in [Some(4 * MIB as u64), None] {
            let mut body = Body::new(declared, &limits);
            let mut held = 0;
            while body.seen() < 4 * MIB as u64 {
                let kept = body.kept.len();
                body.take(&piece, &limits, &mut |wanted| {
                    assert!(wanted <= (2 * kept).max(FIRST_ROOM), "{wanted} for {kept}");
                    assert!(wanted <= kept + LARGEST_STEP, "{wanted} for {kept}");
                    held = wanted;
                    true
                });
                assert!(body.kept.capacity() <= held, "{kept}");
            }
            assert_eq!(held, 4 * MIB, "{declared:?}");
        }
    }

    #[test]
    fn nothing_is_taken_without_room() {
        let mut body = Body::new(Some(500), &limits());
        assert!(!body.has_room(&limits(), &mut |wanted| wanted != 500));
        assert_eq!(body.take(&bytes(10), &limits(), &mut |_| false), 0);
        body.grant(500);
        assert!(body.has_room(&limits(), &mut |_| false));
        assert_eq!(body.take(&bytes(10), &limits(), &mut |_| false), 10);

        let mut growing = Body::new(None, &limits());
        let taken = growing.take(&bytes(9_000), &limits(), &mut |wanted| wanted <= 5_000);
        assert_eq!(taken, 4096);
        growing.grant(8192);
        let taken = growing.take(&bytes(9_000)[taken..], &limits(), &mut |_| true);
        assert_eq!(taken, 9_000 - 4096);
        assert_eq!(growing.finish(), (bytes(9_000), None));
    }
}
