//! How fast a destination may be sent to, and in which hours: what a backlog may do to a metered
//! link.
//!
//! # Guarantees
//!
//! - What is sent stays within each rate in the long run, whatever the sizes; what may go at once
//!   is what the rate gives in a second, or one event if that is more.
//! - An event is never too large for a rate: it is sent, and what follows waits until that is paid.
//! - By a clock that is not known to be right every hour is open.
//! - Nothing here asks for the time by itself; the clock comes in.
//!
//! Attempts count, probes and those that failed too: the link has carried them. Bytes are those of
//! the body and [`HEAD_BYTES`] for what is around it; what TLS adds, and the answer, are not
//! counted.
//! After a restart the buckets are full: what was spent before is forgotten.
//!
//! It does not know whether the destination is up (`health`) nor whose turn it is (`lanes`), and
//! what is in flight when the hours end may end.

use std::fmt;

use crate::clock::{Clock, Moment};

mod bucket;
mod hours;

pub use bucket::Rate;
pub use hours::Hours;

use bucket::Bucket;

/// What an attempt is taken to cost beside its body, in bytes: the head of the request. It has
/// 300 to 600 bytes with the headers that gatepost sets and a bearer token.
pub const HEAD_BYTES: u64 = 512;

/// What a destination's configuration says; nothing is no limit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    /// The most attempts.
    pub events: Option<Rate>,
    /// The most bytes.
    pub bytes: Option<Rate>,
    /// The only hours.
    pub hours: Option<Hours>,
}

/// What one destination has spent.
#[derive(Clone, Debug)]
pub struct Pace {
    events: Option<Bucket>,
    bytes: Option<Bucket>,
    hours: Option<Hours>,
}

/// Why nothing may be sent now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wait {
    /// When to ask again. A wall clock that is set meanwhile changes it.
    pub until: Moment,
    /// The hours that are not open; none if it is a rate.
    pub closed: Option<Hours>,
}

impl Pace {
    /// With full buckets.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            events: plan.events.clone().map(Bucket::new),
            bytes: plan.bytes.clone().map(Bucket::new),
            hours: plan.hours,
        }
    }

    /// Why nothing may be sent now, if so.
    #[must_use]
    pub fn wait(&self, clock: &dyn Clock) -> Option<Wait> {
        if self.is_free() {
            return None;
        }
        let now = clock.moment();
        let shut = self.hours.and_then(|hours| {
            let reading = clock.reading();
            let opens = hours.opens(reading, &clock.zone())?;
            Some(Wait {
                until: now + opens.since(reading.wall),
                closed: Some(hours),
            })
        });
        shut.or_else(|| {
            let buckets = self.events.iter().chain(&self.bytes);
            let until = buckets.map(Bucket::ready).max()?;
            let closed = None;
            (now < until).then_some(Wait { until, closed })
        })
    }

    /// Whether there is no limit.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.events.is_none() && self.bytes.is_none() && self.hours.is_none()
    }

    /// Whether it matters how long an event is.
    #[must_use]
    pub fn counts_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// An attempt with a body of so many bytes begins.
    pub fn spend(&mut self, body_bytes: u64, now: Moment) {
        if let Some(events) = &mut self.events {
            events.spend(1, now);
        }
        if let Some(bytes) = &mut self.bytes {
            bytes.spend(body_bytes.saturating_add(HEAD_BYTES), now);
        }
    }
}

/// What holds, for who looks: `at most 50/s and 200 KiB/s, only 22:00-06:00`; empty if nothing.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.events.as_ref(), self.bytes.as_ref(), self.hours)
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bucket: &'_ Option<Bucket>| bucket.as_ref().map(Bucket::rate).cloned();
        let (events, bytes) = (rate(&self.events), rate(&self.bytes));
        write(f, events.as_ref(), bytes.as_ref(), self.hours)
    }
}

fn write(
    f: &mut fmt::Formatter<'_>,
    events: Option<&Rate>,
    bytes: Option<&Rate>,
    hours: Option<Hours>,
) -> fmt::Result {
    let rates: Vec<String> = events
        .into_iter()
        .chain(bytes)
        .map(Rate::to_string)
        .collect();
    let rates = (!rates.is_empty()).then(|| format!("at most {}", rates.join(" and ")));
    let hours = hours.map(|hours| format!("only {hours}"));
    let parts: Vec<String> = rates.into_iter().chain(hours).collect();
    f.write_str(&parts.join(", "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::{ManualClock, Timestamp};

    const S: Duration = Duration::from_secs(1);

    fn rate(amount: u64, text: &str) -> Rate {
        Rate::new(amount, S, text.to_owned())
    }

    fn night() -> Option<Hours> {
        Hours::parse("22:00-06:00").ok()
    }

    #[test]
    fn without_a_plan_nothing_waits() {
        let mut pace = Pace::new(&Plan::default());
        let clock = ManualClock::default();
        for _ in 0..10_000 {
            pace.spend(u64::MAX, clock.moment());
            assert_eq!(pace.wait(&clock), None);
        }
        assert!(!pace.counts_bytes());
        assert_eq!(pace.to_string(), "");
    }

    #[test]
    fn the_stricter_rate_counts() {
        let plan = Plan {
            events: Some(rate(10, "10/s")),
            bytes: Some(rate(100_000, "100 kB/s")),
            hours: None,
        };
        assert_eq!(plan.to_string(), "at most 10/s and 100 kB/s");
        // Bodies in bytes, and how many of them go in ten seconds with what the first gives.
        for (body_bytes, expected) in [(0, 110), (200_000 - HEAD_BYTES, 6), (20_000_000, 1)] {
            let mut pace = Pace::new(&plan);
            let clock = ManualClock::default();
            let mut sent = 0;
            while clock.moment() <= Moment::at(10 * S) {
                if let Some(wait) = pace.wait(&clock) {
                    clock.advance(wait.until.since(clock.moment()));
                    continue;
                }
                pace.spend(body_bytes, clock.moment());
                sent += 1;
            }
            assert_eq!(sent, expected, "{body_bytes}");
        }
    }

    #[test]
    fn hours_that_are_not_open_say_when_they_are() {
        let plan = Plan {
            events: Some(rate(1, "1/s")),
            bytes: None,
            hours: night(),
        };
        assert_eq!(plan.to_string(), "at most 1/s, only 22:00-06:00");
        let clock = ManualClock::default();
        let noon = Timestamp::from_ms(12 * 3_600_000);
        clock.set_wall(noon, true);
        let mut pace = Pace::new(&plan);
        let wait = pace.wait(&clock).expect("it is noon");
        let until = Moment::at(10 * 3_600 * S);
        assert_eq!((wait.until, wait.closed), (until, night()));
        // Nobody knows any more what time it is.
        clock.set_wall(noon, false);
        assert_eq!(pace.wait(&clock), None);
        clock.set_wall(noon, true);
        clock.advance(10 * 3_600 * S);
        assert_eq!(pace.wait(&clock), None);
        pace.spend(0, clock.moment());
        let wait = pace.wait(&clock).expect("one a second");
        assert_eq!((wait.until, wait.closed), (until + S, None));
    }
}
