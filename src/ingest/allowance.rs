//! How much of what can't be delivered is kept whole for one sender.
//!
//! A sender that is misconfigured, or means harm, must not fill the store with what nobody asked
//! for. So each address has an allowance of bytes for quarantine that fills up again over a day;
//! past it, an event is kept without its body.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Moment;

/// What one address may have in hand: a day of small mistakes, or a few pictures.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// How long an empty allowance takes to fill up again.
const REFILL: Duration = Duration::from_secs(24 * 60 * 60);

/// How many addresses are kept in mind. Beyond that the fullest are forgotten, which only gives
/// them back a whole allowance.
const MOST_SENDERS: usize = 4096;

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
    /// Takes `bytes` of what `sender` has left at `now`; false if that is not enough, and then
    /// nothing is taken.
    pub(super) fn take(&self, sender: IpAddr, bytes: usize, now: Moment) -> bool {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if MOST_SENDERS <= of.len() && !of.contains_key(&sender) {
            of.retain(|_, left| left.at(now) < MOST_BYTES / 2);
            if MOST_SENDERS <= of.len() {
                of.clear();
            }
        }
        let left = of.get(&sender).map_or(MOST_BYTES, |left| left.at(now));
        let rest = left.checked_sub(bytes as u64);
        let bytes = rest.unwrap_or(left);
        of.insert(sender, Left { bytes, at: now });
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    const MIB: usize = 1024 * 1024;

    #[test]
    fn each_sender_has_its_own_which_fills_up_over_a_day() {
        let allowance = Allowance::default();
        let hours = |hours: u64| Moment::at(Duration::from_secs(hours * 3_600));
        for _ in 0..16 {
            assert!(allowance.take(sender(1), MIB, hours(0)));
        }
        assert!(!allowance.take(sender(1), 1, hours(0)));
        assert!(allowance.take(sender(2), MIB, hours(0)));
        assert!(allowance.take(sender(1), 8 * MIB, hours(12)));
        assert!(!allowance.take(sender(1), MIB, hours(12)));
        assert!(allowance.take(sender(1), 16 * MIB, hours(100)));
    }

    #[test]
    fn any_number_of_senders_takes_bounded_memory() {
        let allowance = Allowance::default();
        for number in 0..3 * u32::try_from(MOST_SENDERS).expect("it is small") {
            assert!(allowance.take(sender(number), 10, Moment::START));
        }
        assert!(allowance.of.lock().expect("unharmed").len() <= MOST_SENDERS);
    }
}
