//! A rate, and the bucket that keeps it.

use std::fmt;
use std::time::Duration;

use crate::clock::Moment;

/// So much at most in each such time, as it was written: `50/s`, `200 KiB/s`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rate {
    amount: u64,
    period: Duration,
    text: String,
}

impl Rate {
    /// A rate that is written as `text`. An `amount` of 0 is taken as 1.
    #[must_use]
    pub fn new(amount: u64, period: Duration, text: String) -> Self {
        Self {
            amount: amount.max(1),
            period,
            text,
        }
    }

    /// How long it takes until so much more may follow.
    fn time_for(&self, units: u64) -> Duration {
        let nanos = self.period.as_nanos().saturating_mul(units.into()) / u128::from(self.amount);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A token bucket: full at first, it holds what the rate gives in [`Bucket::BURST`], and at least
/// one unit.
///
/// Whatever it holds is enough to begin with: what is larger than that is sent all the same, the
/// bucket then owes the rest, and nothing more may be sent until that is paid off. So nothing is
/// too large to be ever sent, and the rate holds in the long run.
///
/// Source: the generic cell rate algorithm (ITU-T I.371, annex A), which keeps one moment instead
/// of a level.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// When the bucket is full again.
    full: Moment,
}

impl Bucket {
    /// How much may go at once, as the time in which the rate gives it.
    const BURST: Duration = Duration::from_secs(1);

    pub(super) fn new(rate: Rate) -> Self {
        let full = Moment::START;
        Self { rate, full }
    }

    /// From when on something may be sent; not after `now` if it may be sent now.
    pub(super) fn ready(&self) -> Moment {
        let ahead = Self::BURST.saturating_sub(self.rate.time_for(1));
        let full = self.full.since(Moment::START);
        Moment::at(full.saturating_sub(ahead))
    }

    /// So much is sent at `now`.
    pub(super) fn spend(&mut self, units: u64, now: Moment) {
        self.full = self.full.max(now) + self.rate.time_for(units);
    }

    pub(super) fn rate(&self) -> &Rate {
        &self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn bucket(amount: u64, period: Duration) -> Bucket {
        Bucket::new(Rate::new(amount, period, String::new()))
    }

    fn at(ms: u64) -> Moment {
        Moment::at(Duration::from_millis(ms))
    }

    /// When so many pieces of this size go, if all of them wait from the start.
    fn sent(bucket: &mut Bucket, units: u64, count: usize, start: Moment) -> Vec<u128> {
        let mut now = start;
        let mut times = Vec::new();
        for _ in 0..count {
            now = now.max(bucket.ready());
            bucket.spend(units, now);
            times.push(now.since(start).as_millis());
        }
        times
    }

    #[test]
    fn what_a_second_gives_goes_at_once_and_the_rest_at_its_rate() {
        let rows: [(u64, Duration, u64, &[u128]); 6] = [
            // Events.
            (4, Bucket::BURST, 1, &[0, 0, 0, 0, 250, 500, 750, 1_000]),
            (1, Bucket::BURST, 1, &[0, 1_000, 2_000]),
            (2, MINUTE, 1, &[0, 30_000, 60_000, 90_000]),
            // Bytes: smaller than the bucket, larger than it, nothing at all.
            (1_000, Bucket::BURST, 400, &[0, 0, 0, 201, 601, 1_001]),
            (1_000, Bucket::BURST, 5_000, &[0, 4_001, 9_001, 14_001]),
            (1_000, Bucket::BURST, 0, &[0, 0, 0, 0]),
        ];
        for (amount, period, units, expected) in rows {
            let mut bucket = bucket(amount, period);
            let times = sent(&mut bucket, units, expected.len(), at(0));
            assert_eq!(times, expected, "{units} at {amount} in {period:?}");
        }
    }

    #[test]
    fn the_rate_holds_in_the_long_run_whatever_the_sizes() {
        let mut bucket = bucket(1_000, Bucket::BURST);
        let mut now = at(0);
        let mut total = 0;
        for number in 0..10_000 {
            let units = (number * 7_919) % 5_000;
            now = now.max(bucket.ready());
            bucket.spend(units, now);
            total += units;
            let most = 1_000 + 5_000 + u64::try_from(now.since(at(0)).as_millis()).expect("short");
            assert!(total <= most, "{total} after {now:?}");
        }
    }

    #[test]
    fn a_bucket_that_idles_holds_no_more_than_a_full_one() {
        let mut bucket = bucket(2, Bucket::BURST);
        assert_eq!(sent(&mut bucket, 1, 3, at(0)), [0, 0, 500]);
        assert_eq!(sent(&mut bucket, 1, 4, at(600_000)), [0, 0, 500, 1_000]);
    }

    #[test]
    fn no_rate_is_too_slow_or_too_fast_to_be_counted() {
        for amount in [0, 1, u64::MAX] {
            for period in [Duration::ZERO, Duration::from_secs(86_400), Duration::MAX] {
                let mut bucket = bucket(amount, period);
                bucket.spend(u64::MAX, at(1));
                bucket.spend(u64::MAX, at(2));
                assert!(at(0) <= bucket.ready(), "{amount} in {period:?}");
            }
        }
    }
}
