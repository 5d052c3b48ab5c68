//! When to try a delivery again, and what an outcome means.
//!
//! # Guarantees
//!
//! - [`classify`] knows every outcome: what it has never heard of is tried again, and counted.
//! - A pause never overflows and is never longer than its cap and the jitter on it.
//! - Nothing here asks for the time or for chance; both come in.
//!
//! What an outcome means beyond its own delivery (is the destination down, or only this event
//! bad?) is decided in `health`.

use std::time::Duration;

mod overrides;

pub use overrides::Overrides;

use crate::clock::Reading;
use crate::delivery::{Answer, Outcome, RetryAfter, Verdict};
use crate::rng::Rng;

/// How patient we are with one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The pause after the first failure; doubles with every further one. Not zero: nothing else
    /// keeps a failing delivery from being tried without rest.
    pub first: Duration,
    /// Pauses stop doubling here.
    pub max: Duration,
    /// Each pause is made longer or shorter by up to this share of itself, after the cap.
    pub jitter: f64,
    /// After this many attempts that count, the delivery becomes a dead letter.
    pub max_attempts: u32,
}

impl RetryPolicy {
    /// 1 s, 2 s, 4 s … 5 min, each ± 20 %: ten attempts that count take 7 to 10 minutes.
    pub const DEFAULT: Self = Self {
        first: Duration::from_secs(1),
        max: Duration::from_secs(5 * 60),
        jitter: 0.2,
        max_attempts: 10,
    };

    /// Whatever [`RetryPolicy::max`] says, no pause is planned longer than this: ten years.
    const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

    /// How many times as far the moments are spread at which a fleet would be in step.
    const APART: f64 = 4.0;

    /// How long to wait after the `failures`-th failure in a row (counted from 1; 0 is taken as 1):
    /// `first` × 2^(`failures` − 1), at most `max`, then jittered.
    ///
    /// The jitter comes after the cap: before it, all who have reached the cap would come at once.
    /// Source: reference/lessons.md section 9, fleetdm/fleet PR#53357.
    #[must_use]
    pub fn pause(&self, failures: u32, rng: &mut Rng) -> Duration {
        let max = self.max.min(Self::LONGEST);
        let mut pause = self.first;
        for _ in 1..failures {
            if max <= pause || pause.is_zero() {
                break;
            }
            pause = pause.saturating_mul(2);
        }
        rng.jitter(pause.min(max), self.share())
    }

    /// How long to wait after the first of several failures that a whole fleet of gateways may have
    /// met at the same instant: `first`, spread [`RetryPolicy::APART`] times as far as the others,
    /// so that they do not come back in step. 0.2 to 1.8 s by default.
    #[must_use]
    pub fn first_pause(&self, rng: &mut Rng) -> Duration {
        self.apart(self.first.min(self.max).min(Self::LONGEST), rng)
    }

    /// `pause`, made longer or shorter by up to [`RetryPolicy::APART`] times the jitter of the
    /// policy, but never by more than all of it.
    #[must_use]
    pub fn apart(&self, pause: Duration, rng: &mut Rng) -> Duration {
        rng.jitter(pause, (Self::APART * self.share()).min(1.0))
    }

    /// `pause`, jittered as all pauses are.
    #[must_use]
    pub fn about(&self, pause: Duration, rng: &mut Rng) -> Duration {
        rng.jitter(pause, self.share())
    }

    /// `asked`, or up to the policy's jitter longer; never shorter, since a destination asked for
    /// it. At most [`RetryPolicy::LONGEST`] before the jitter.
    ///
    /// Source: reference/lessons.md section 8, svix/svix-webhooks#2199.
    #[must_use]
    pub fn at_least(&self, asked: Duration, rng: &mut Rng) -> Duration {
        let asked = asked.min(Self::LONGEST);
        asked + rng.jitter(asked, self.share()).abs_diff(asked)
    }

    /// Whether a delivery with so many counted attempts is not tried again.
    #[must_use]
    pub fn is_exhausted(&self, attempts: u32) -> bool {
        self.max_attempts <= attempts
    }

    /// The jitter as a share that cannot make a pause negative or endless.
    fn share(&self) -> f64 {
        if self.jitter.is_nan() {
            return 0.0;
        }
        self.jitter.clamp(0.0, 1.0)
    }
}

/// What follows from an outcome, before the destination's own overrides.
///
/// | outcome | verdict |
/// |---|---|
/// | 2xx | delivered |
/// | 400 406 411 413 414 415 422 431 451, a damaged record, a broken schema | dead |
/// | 408 409 425, 5xx, no answer in time | retry |
/// | 429, 503 with Retry-After | pause |
/// | 401 403 404 405 407 410, 3xx | hold |
/// | not reachable, 511, a 2xx without the proof that the destination asks for | down |
/// | anything else: 1xx, other 4xx, 600 and above, a failure of our own | retry |
///
/// That a destination demands a proof beside its 2xx must be checked before: it is not in the
/// status. 511 never comes from a destination, but from what stands between.
///
/// Source: DESIGN section 6; RFC 9110 section 15, RFC 6585 (429, 431, 511), RFC 8470 (425), RFC
/// 7725 (451).
#[must_use]
pub fn classify(outcome: &Outcome) -> Verdict {
    match outcome {
        Outcome::Answered(answer) => classify_answer(answer),
        Outcome::TimedOut | Outcome::Failed(_) => Verdict::Retry,
        Outcome::Unreachable(_) | Outcome::Unproven(_) => Verdict::Down,
        Outcome::Misconfigured(_) => Verdict::Hold,
        Outcome::Damaged(_) | Outcome::Invalid(_) => Verdict::Dead,
    }
}

/// How long a destination asks us to stay away, at most `longest`; a date in the past is zero.
///
/// `None` when it named a date and our clock is not certain: then nobody knows, as if it had not
/// said when. A delay in seconds needs no clock.
///
/// Source: RFC 9110 section 10.2.3.
#[must_use]
pub fn retry_after(asked: RetryAfter, now: Reading, longest: Duration) -> Option<Duration> {
    let pause = match asked {
        RetryAfter::Delay(delay) => delay,
        RetryAfter::Date(date) if now.certain => date.since(now.wall),
        RetryAfter::Date(_) => return None,
    };
    Some(pause.min(longest))
}

fn classify_answer(answer: &Answer) -> Verdict {
    match answer.status {
        200..=299 => Verdict::Delivered,
        400 | 406 | 411 | 413 | 414 | 415 | 422 | 431 | 451 => Verdict::Dead,
        300..=399 | 401 | 403 | 404 | 405 | 407 | 410 => Verdict::Hold,
        429 => Verdict::Pause(answer.retry_after),
        503 if answer.retry_after.is_some() => Verdict::Pause(answer.retry_after),
        511 => Verdict::Down,
        _ => Verdict::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn answered(status: u16, retry_after: Option<RetryAfter>) -> Verdict {
        classify(&Outcome::Answered(Answer {
            status,
            retry_after,
            head: Vec::new(),
            headers: Vec::new(),
        }))
    }

    #[test]
    fn every_status_has_the_verdict_of_the_table() {
        let dead = [400, 406, 411, 413, 414, 415, 422, 431, 451];
        let hold = [401, 403, 404, 405, 407, 410];
        let retry = [408, 409, 425, 500, 502, 503, 504];
        let soon = RetryAfter::Delay(Duration::from_secs(7));
        for status in 100..=599 {
            let (plain, with_retry_after) = match status {
                200..=299 => (Verdict::Delivered, Verdict::Delivered),
                300..=399 => (Verdict::Hold, Verdict::Hold),
                429 => (Verdict::Pause(None), Verdict::Pause(Some(soon))),
                503 => (Verdict::Retry, Verdict::Pause(Some(soon))),
                511 => (Verdict::Down, Verdict::Down),
                _ if dead.contains(&status) => (Verdict::Dead, Verdict::Dead),
                _ if hold.contains(&status) => (Verdict::Hold, Verdict::Hold),
                _ if retry.contains(&status) => (Verdict::Retry, Verdict::Retry),
                // Not in the table, so unknown.
                100..=199 | 402..=499 | 501..=599 => (Verdict::Retry, Verdict::Retry),
                _ => unreachable!("{status} is in no row"),
            };
            assert_eq!(answered(status, None), plain, "{status}");
            assert_eq!(answered(status, Some(soon)), with_retry_after, "{status}");
        }
        for status in [0, 99, 600, 999, u16::MAX] {
            assert_eq!(answered(status, None), Verdict::Retry, "{status}");
        }
    }

    #[test]
    fn an_attempt_without_an_answer_has_a_verdict_too() {
        let words = || "words".to_owned();
        let rows = [
            (Outcome::TimedOut, Verdict::Retry),
            (Outcome::Unreachable(words()), Verdict::Down),
            (Outcome::Unproven(words()), Verdict::Down),
            (Outcome::Damaged(words()), Verdict::Dead),
            (Outcome::Invalid(words()), Verdict::Dead),
            (Outcome::Misconfigured(words()), Verdict::Hold),
            (Outcome::Failed(words()), Verdict::Retry),
        ];
        for (outcome, verdict) in rows {
            assert_eq!(classify(&outcome), verdict, "{outcome:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_cap() {
        let policy = RetryPolicy {
            jitter: 0.0,
            ..RetryPolicy::DEFAULT
        };
        let mut rng = Rng::from_seed(1);
        let seconds = [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
        for (failures, seconds) in (0..).zip(seconds) {
            let pause = policy.pause(failures, &mut rng);
            assert_eq!(pause, Duration::from_secs(seconds), "{failures}");
        }
        assert_eq!(policy.pause(u32::MAX, &mut rng), policy.max);
    }

    #[test]
    fn pauses_at_the_cap_are_spread_in_both_directions() {
        let policy = RetryPolicy::DEFAULT;
        let mut rng = Rng::from_seed(2);
        let pauses: Vec<_> = (0..200).map(|_| policy.pause(40, &mut rng)).collect();
        let (low, high) = (policy.max.mul_f64(0.8), policy.max.mul_f64(1.2));
        assert!(pauses.iter().all(|pause| (low..=high).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause < policy.max.mul_f64(0.85)));
        assert!(pauses.iter().any(|pause| policy.max.mul_f64(1.15) < *pause));
    }

    #[test]
    fn no_policy_makes_a_pause_overflow() {
        let lengths = [Duration::ZERO, Duration::from_nanos(1), HOUR, Duration::MAX];
        let jitters = [f64::NAN, -1.0, 0.0, 0.2, 5.0, f64::INFINITY];
        let mut rng = Rng::from_seed(3);
        for first in lengths {
            for max in lengths {
                for jitter in jitters {
                    let policy = RetryPolicy {
                        first,
                        max,
                        jitter,
                        max_attempts: 1,
                    };
                    for failures in [0, 1, 2, 31, 32, 33, 64, 128, u32::MAX] {
                        let pause = policy.pause(failures, &mut rng);
                        assert!(pause <= max.saturating_mul(2), "{policy:?} {failures}");
                    }
                    let asked = policy.at_least(first, &mut rng);
                    assert!(first.min(RetryPolicy::LONGEST) <= asked, "{policy:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_pause_of_a_fleet_is_spread_over_most_of_twice_its_length() {
        let policy = RetryPolicy::DEFAULT;
        let mut rng = Rng::from_seed(6);
        let ms: Vec<u128> = (0..1_000)
            .map(|_| policy.first_pause(&mut rng).as_millis())
            .collect();
        assert!(ms.iter().all(|ms| (200..=1_800).contains(ms)), "{ms:?}");
        for tenth in 0..10 {
            let range = 200 + 160 * tenth..360 + 160 * tenth;
            let share = ms.iter().filter(|ms| range.contains(*ms)).count();
            assert!((60..=140).contains(&share), "{share} of 1000 in {range:?}");
        }
        let steady = RetryPolicy {
            jitter: 0.0,
            ..policy
        };
        assert_eq!(steady.first_pause(&mut rng), policy.first);
    }

    #[test]
    fn ten_attempts_that_count_take_seven_to_ten_minutes() {
        for seed in 0..100 {
            let mut rng = Rng::from_seed(seed);
            let policy = RetryPolicy::DEFAULT;
            let pauses = 1..policy.max_attempts;
            let total: Duration = pauses.map(|number| policy.pause(number, &mut rng)).sum();
            let minutes = total.as_secs_f64() / 60.0;
            assert!((6.8..=10.3).contains(&minutes), "seed {seed}: {minutes}");
        }
    }

    #[test]
    fn what_a_destination_asked_for_is_only_ever_made_longer() {
        let mut rng = Rng::from_seed(4);
        let asked = Duration::from_secs(100);
        for _ in 0..500 {
            let pause = RetryPolicy::DEFAULT.at_least(asked, &mut rng);
            let longest = Duration::from_secs(120);
            assert!((asked..=longest).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn a_jitter_that_is_no_number_leaves_pauses_as_they_are() {
        let policy = RetryPolicy {
            jitter: f64::NAN,
            ..RetryPolicy::DEFAULT
        };
        let mut rng = Rng::from_seed(5);
        assert_eq!(policy.pause(1, &mut rng), policy.first);
    }

    #[test]
    fn attempts_run_out() {
        let rows = [(0, false), (9, false), (10, true), (11, true)];
        for (attempts, exhausted) in rows {
            let policy = RetryPolicy::DEFAULT;
            assert_eq!(policy.is_exhausted(attempts), exhausted, "{attempts}");
        }
    }

    #[test]
    fn retry_after_is_obeyed_as_far_as_it_can_be_understood() {
        let seconds = |seconds| RetryAfter::Delay(Duration::from_secs(seconds));
        let date = |ms| RetryAfter::Date(Timestamp::from_ms(ms));
        let rows = [
            (seconds(0), true, Some(0)),
            (seconds(30), true, Some(30)),
            (seconds(30), false, Some(30)),
            (seconds(u64::MAX), false, Some(3_600)),
            (date(1_030_000), true, Some(30)),
            (date(990_000), true, Some(0)),
            (date(i64::MIN), true, Some(0)),
            (date(i64::MAX), true, Some(3_600)),
            (date(1_030_000), false, None),
            (date(990_000), false, None),
        ];
        for (asked, certain, pause) in rows {
            let now = Reading {
                wall: Timestamp::from_ms(1_000_000),
                certain,
                uptime_ms: 0,
            };
            let pause = pause.map(Duration::from_secs);
            assert_eq!(retry_after(asked, now, HOUR), pause, "{asked:?} {certain}");
        }
    }
}
