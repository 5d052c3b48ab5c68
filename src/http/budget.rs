//! Who may hold how much of the memory for requests, and who waits for it.
//!
//! # Guarantees
//!
//! - All that is held together never exceeds the budget.
//! - A request up to [`SMALL`] draws first from a part that larger ones cannot use: slow large
//!   uploads delay each other, never the events around them.
//! - Who waits is served in order, so that many middling bodies cannot keep a large one waiting.
//!   How long to wait is the caller's decision.
//! - Who waits keeps what it has, so all may wait for each other. The caller ends that: nobody may
//!   wait for ever, and what one that gives up had goes to the next.

use std::collections::VecDeque;

/// The largest request that counts as small: all known events without a picture.
pub(super) const SMALL: usize = 64 * 1024;

/// What one request holds. Must go back by [`Budget::release`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Held {
    small: usize,
    large: usize,
}

impl Held {
    /// Whether it is more than a small request may have.
    pub(super) fn is_large(self) -> bool {
        SMALL < self.small + self.large
    }

    /// Whether there is nothing to give back.
    pub(super) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    who: usize,
    held: Held,
    wanted: usize,
}

/// The memory for requests.
#[derive(Debug)]
pub(super) struct Budget {
    /// What is left of the part for small bodies.
    small: usize,
    /// What is left of the rest.
    large: usize,
    small_queue: VecDeque<Waiter>,
    large_queue: VecDeque<Waiter>,
}

impl Budget {
    /// A budget of `bytes`, a quarter of them for small requests; but never so little that the
    /// longest one would not fit into the rest.
    pub(super) fn new(bytes: usize, longest: usize) -> Self {
        let small = (bytes / 4).max(SMALL);
        Self {
            small,
            large: bytes.saturating_sub(small).max(longest),
            small_queue: VecDeque::new(),
            large_queue: VecDeque::new(),
        }
    }

    /// Makes what `who` holds `wanted` bytes in all, at once or, if that returns false, when
    /// [`Budget::next`] says so. Asking for less than is held always succeeds.
    pub(super) fn ask(&mut self, who: usize, held: &mut Held, wanted: usize) -> bool {
        if wanted <= held.small + held.large {
            self.release(*held);
            *held = self.take(wanted).unwrap_or_default();
            return true;
        }
        let queue = self.queue(wanted);
        if queue.is_empty()
            && let Some(more) = self.grow(*held, wanted)
        {
            *held = more;
            return true;
        }
        let held = *held;
        self.queue(wanted).push_back(Waiter { who, held, wanted });
        false
    }

    /// Takes back what was held.
    pub(super) fn release(&mut self, held: Held) {
        self.small += held.small;
        self.large += held.large;
    }

    /// Forgets that `who` waits.
    pub(super) fn forget(&mut self, who: usize) {
        self.small_queue.retain(|waiter| waiter.who != who);
        self.large_queue.retain(|waiter| waiter.who != who);
    }

    /// The next who waited and now has what it wanted: who, what it holds, how much it asked for.
    pub(super) fn next(&mut self) -> Option<(usize, Held, usize)> {
        for large in [false, true] {
            let queue = if large {
                &self.large_queue
            } else {
                &self.small_queue
            };
            let Some(Waiter { who, held, wanted }) = queue.front().copied() else {
                continue;
            };
            if let Some(more) = self.grow(held, wanted) {
                self.queue(wanted).pop_front();
                return Some((who, more, wanted));
            }
        }
        None
    }

    fn queue(&mut self, wanted: usize) -> &mut VecDeque<Waiter> {
        if wanted <= SMALL {
            &mut self.small_queue
        } else {
            &mut self.large_queue
        }
    }

    /// `wanted` instead of `held`; nothing changes if that does not fit.
    fn grow(&mut self, held: Held, wanted: usize) -> Option<Held> {
        self.release(held);
        let more = self.take(wanted);
        if more.is_none() {
            self.small -= held.small;
            self.large -= held.large;
        }
        more
    }

    fn take(&mut self, wanted: usize) -> Option<Held> {
        let mut held = Held::default();
        if wanted <= SMALL && wanted <= self.small {
            held.small = wanted;
        } else if wanted <= self.large {
            held.large = wanted;
        } else {
            return None;
        }
        self.small -= held.small;
        self.large -= held.large;
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn large_bodies_never_starve_small_ones() {
        let mut budget = Budget::new(8 * MIB, MIB);
        let mut held = [Held::default(); 7];
        for (who, held) in held.iter_mut().enumerate().take(6) {
            assert!(budget.ask(who, held, MIB), "{who}");
        }
        assert!(
            !budget.ask(6, &mut held[6], MIB),
            "six are all that is for large ones"
        );
        let mut small = [Held::default(); 33];
        for (who, held) in small.iter_mut().enumerate().take(32) {
            assert!(budget.ask(100 + who, held, SMALL), "{who}");
        }
        assert!(
            !budget.ask(200, &mut small[32], 1),
            "and 2 MiB all that is for small ones"
        );
    }

    #[test]
    fn small_bodies_may_use_what_large_ones_leave() {
        let mut budget = Budget::new(4 * MIB, MIB);
        let mut held = [Held::default(); 64];
        for (who, held) in held.iter_mut().enumerate() {
            assert!(budget.ask(who, held, SMALL), "{who}");
        }
        assert!(!budget.ask(64, &mut Held::default(), 1));
    }

    #[test]
    fn who_waits_is_served_in_order() {
        let mut budget = Budget::new(4 * MIB, 3 * MIB);
        let mut first = Held::default();
        assert!(budget.ask(1, &mut first, MIB));
        assert!(!budget.ask(2, &mut Held::default(), 3 * MIB));
        let mut third = Held::default();
        assert!(!budget.ask(3, &mut third, MIB), "nobody overtakes");
        assert_eq!(budget.next(), None);
        budget.release(first);
        let (who, second, wanted) = budget.next().expect("there is room again");
        assert_eq!((who, wanted), (2, 3 * MIB));
        assert_eq!(budget.next(), None);
        budget.release(second);
        assert_eq!(budget.next().map(|(who, ..)| who), Some(3));
        assert_eq!(budget.next(), None);
    }

    #[test]
    fn who_is_forgotten_is_not_served() {
        let mut budget = Budget::new(4 * MIB, 3 * MIB);
        let mut first = Held::default();
        assert!(budget.ask(1, &mut first, 3 * MIB));
        assert!(!budget.ask(2, &mut Held::default(), MIB));
        assert!(!budget.ask(3, &mut Held::default(), MIB));
        budget.forget(2);
        budget.release(first);
        assert_eq!(budget.next().map(|(who, ..)| who), Some(3));
    }

    #[test]
    fn all_who_wait_for_each_other_go_on_when_one_gives_up() {
        let mut budget = Budget::new(4 * MIB, 3 * MIB);
        let mut held = [Held::default(); 3];
        for (who, held) in held.iter_mut().enumerate() {
            assert!(budget.ask(who, held, MIB), "{who}");
        }
        for (who, held) in held.iter_mut().enumerate() {
            assert!(!budget.ask(who, held, 2 * MIB), "{who}");
        }
        assert_eq!(budget.next(), None);
        budget.forget(0);
        budget.release(held[0]);
        let (who, second, _) = budget.next().expect("there is room again");
        assert_eq!(who, 1);
        assert_eq!(budget.next(), None);
        budget.release(second);
        assert_eq!(budget.next().map(|(who, ..)| who), Some(2));
    }

    #[test]
    fn growing_and_shrinking_lose_nothing() {
        let whole = |budget: &Budget| (budget.small, budget.large);
        let mut budget = Budget::new(4 * MIB, MIB);
        let before = whole(&budget);
        let mut held = Held::default();
        for wanted in [4096, SMALL, SMALL + 1, MIB, 3 * MIB, 4096, 1, 2 * MIB] {
            assert!(budget.ask(1, &mut held, wanted), "{wanted}");
            let (small, large) = whole(&budget);
            assert_eq!(small + large + wanted, before.0 + before.1, "{wanted}");
        }
        let mut other = Held::default();
        assert!(budget.ask(2, &mut other, MIB));
        assert!(!budget.ask(1, &mut held, 3 * MIB));
        assert_eq!(budget.next(), None);
        budget.release(other);
        let (_, held, _) = budget.next().expect("there is room again");
        budget.release(held);
        assert_eq!(whole(&budget), before);
    }

    #[test]
    fn the_longest_body_always_fits() {
        let mut budget = Budget::new(0, 16 * MIB);
        assert!(budget.ask(1, &mut Held::default(), 16 * MIB));
        assert!(budget.ask(2, &mut Held::default(), SMALL));
    }
}
