//! How much of what can't be delivered is kept, for one sender and for all.
//!
//! A sender that is misconfigured, or means harm, must not fill the store with what nobody asked
//! for: quarantine never expires, and a full store refuses everybody. So each address has an
//! allowance of bytes for quarantine that fills up again over a day. While it lasts an event is
//! kept whole; from its last quarter only heads are paid, without bodies; past it an event is only
//! counted.
//!
//! Addresses are cheap, so all of them together have a share of the store. That one goes by what
//! the store holds, so a restart gives nobody a new one, and it has room again as soon as an
//! operator discards what is there.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Moment;
use crate::commit::Quarantined;

/// What one address may have in hand: a day of small mistakes, or a few pictures.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The part of it that is for heads only, so that a few pictures do not hide what follows them.
const FOR_HEADS: u64 = MOST_BYTES / 4;

/// How long an empty allowance takes to fill up again.
const REFILL: Duration = Duration::from_secs(24 * 60 * 60);

/// How many addresses are kept in mind. Beyond that the fullest are forgotten, which only gives
/// them back a whole allowance.
const MOST_SENDERS: usize = 4096;

/// The share of the store's quota that quarantine may fill: an eighth, and a quarter of that again
/// for heads.
const SHARE: u64 = 8;

/// How much of an event is kept.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Keep {
    /// Nothing: it is counted.
    Nothing,
    /// Its record, without the body.
    Head,
    /// All of it.
    Whole,
}

/// What all senders together may have kept.
#[derive(Debug)]
pub(super) struct Total {
    held: Quarantined,
    most: u64,
}

/// No bound, for who has no store.
impl Default for Total {
    fn default() -> Self {
        Self {
            held: Quarantined::default(),
            most: u64::MAX,
        }
    }
}

impl Total {
    /// Goes by what is `held` of a store of `max_size` bytes.
    pub(super) fn new(held: Quarantined, max_size: u64) -> Self {
        let most = max_size / SHARE;
        Self { held, most }
    }

    /// How much may be kept at most of an event that costs `whole` bytes with its body and `head`
    /// bytes without.
    pub(super) fn allows(&self, whole: u64, head: u64) -> Keep {
        let bytes = self.held.bytes();
        if bytes.saturating_add(whole) <= self.most {
            Keep::Whole
        } else if bytes.saturating_add(head) <= self.most.saturating_add(self.most / 4) {
            Keep::Head
        } else {
            Keep::Nothing
        }
    }

    /// In MiB.
    pub(super) fn most_mib(&self) -> u64 {
        self.most >> 20
    }
}

/// What was taken of whose allowance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Paid {
    /// Whose.
    pub(super) sender: IpAddr,
    /// How much.
    pub(super) bytes: u64,
}

/// The allowances of all addresses.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    of: Mutex<HashMap<IpAddr, Left>>,
}

#[derive(Clone, Copy, Debug)]
struct Left {
    bytes: u64,
    at: Moment,
}

impl Left {
    /// What is left at `now`, filled up since the last look.
    fn at(self, now: Moment) -> u64 {
        let gained = u128::from(MOST_BYTES) * now.since(self.at).as_millis() / REFILL.as_millis();
        let gained = u64::try_from(gained).unwrap_or(MOST_BYTES);
        self.bytes.saturating_add(gained).min(MOST_BYTES)
    }
}

impl Allowance {
    /// Takes what can be had at `now` for an event of `sender` that costs `whole` bytes with its
    /// body and `head` bytes without; no more than `most`.
    pub(super) fn take(
        &self,
        sender: IpAddr,
        (whole, head): (u64, u64),
        most: Keep,
        now: Moment,
    ) -> Keep {
        if most == Keep::Nothing {
            return Keep::Nothing;
        }
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if MOST_SENDERS <= of.len() && !of.contains_key(&sender) {
            of.retain(|_, left| left.at(now) < MOST_BYTES / 2);
            if MOST_SENDERS <= of.len() {
                of.clear();
            }
        }
        let left = of.get(&sender).map_or(MOST_BYTES, |left| left.at(now));
        let (keep, price) = match left {
            left if most == Keep::Whole && whole.saturating_add(FOR_HEADS) <= left => {
                (Keep::Whole, whole)
            }
            left if head <= left => (Keep::Head, head),
            _ => (Keep::Nothing, 0),
        };
        let bytes = left - price;
        of.insert(sender, Left { bytes, at: now });
        keep
    }

    /// Gives back what was taken for an event that was not stored after all.
    pub(super) fn give_back(&self, paid: Paid, now: Moment) {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = of.get_mut(&paid.sender) {
            let bytes = left.at(now).saturating_add(paid.bytes).min(MOST_BYTES);
            *left = Left { bytes, at: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn each_sender_has_its_own_which_fills_up_over_a_day() {
        let allowance = Allowance::default();
        let take = |who, hours: u64| {
            let now = Moment::at(Duration::from_secs(hours * 3_600));
            allowance.take(sender(who), (MIB, MIB / 2), Keep::Whole, now)
        };
        for number in 0..12 {
            assert_eq!(take(1, 0), Keep::Whole, "{number}");
        }
        for number in 0..8 {
            assert_eq!(take(1, 0), Keep::Head, "{number}");
        }
        assert_eq!(take(1, 0), Keep::Nothing);
        assert_eq!(take(2, 0), Keep::Whole);
        assert_eq!(take(1, 12), Keep::Whole);
        assert_eq!(take(1, 100), Keep::Whole);
    }

    #[test]
    fn what_was_not_stored_costs_nothing() {
        let allowance = Allowance::default();
        let give_back = |who, bytes| {
            let sender = sender(who);
            allowance.give_back(Paid { sender, bytes }, Moment::START);
        };
        for number in 0..100 {
            let keep = allowance.take(sender(1), (MIB, MIB / 2), Keep::Whole, Moment::START);
            assert_eq!(keep, Keep::Whole, "{number}");
            give_back(1, MIB);
        }
        give_back(2, MIB);
        give_back(1, u64::MAX);
        let take = || allowance.take(sender(1), (MIB, MIB), Keep::Whole, Moment::START);
        let most = |_: &i32| take() == Keep::Whole;
        assert_eq!((0..100).take_while(most).count(), 12);
    }

    #[test]
    fn where_all_have_too_much_nobody_pays_for_what_is_not_kept() {
        let allowance = Allowance::default();
        let take = |most| allowance.take(sender(1), (MIB, MIB / 2), most, Moment::START);
        for number in 0..100 {
            assert_eq!(take(Keep::Nothing), Keep::Nothing, "{number}");
        }
        for number in 0..8 {
            assert_eq!(take(Keep::Head), Keep::Head, "{number}");
        }
        for number in 0..8 {
            assert_eq!(take(Keep::Whole), Keep::Whole, "{number}");
        }
        assert_eq!(take(Keep::Whole), Keep::Head);
    }

    #[test]
    fn all_together_may_fill_an_eighth_of_the_store_and_a_quarter_more_with_heads() {
        let total = |held| {
            let quarantined = Quarantined::default();
            quarantined.set(held);
            Total::new(quarantined, 800)
        };
        let rows = [
            (0, 100, Keep::Whole),
            (0, 101, Keep::Head),
            (90, 10, Keep::Whole),
            (90, 11, Keep::Head),
            (120, 11, Keep::Head),
            (121, 11, Keep::Nothing),
            (u64::MAX, 11, Keep::Nothing),
        ];
        for (held, whole, expected) in rows {
            assert_eq!(total(held).allows(whole, 5), expected, "{held} {whole}");
        }
        assert_eq!(Total::default().allows(u64::MAX, 1), Keep::Whole);
    }

    #[test]
    fn any_number_of_senders_takes_bounded_memory() {
        let allowance = Allowance::default();
        for number in 0..3 * u32::try_from(MOST_SENDERS).expect("it is small") {
            assert_eq!(
                allowance.take(sender(number), (10, 5), Keep::Whole, Moment::START),
                Keep::Whole
            );
        }
        assert!(allowance.of.lock().expect("unharmed").len() <= MOST_SENDERS);
    }
}
