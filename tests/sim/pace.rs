//! Whether a destination is sent to no faster and at no other hour than its configuration says.
//! Counted a second time on purpose, and by hand.

use std::time::Duration;

use gatepost::clock::{Moment, Reading};
use gatepost::config::Destination;
use gatepost::pace::HEAD_BYTES;

/// So many attempts back a rate is looked at.
const MANY: usize = 500;

/// What one process has sent to one destination. A restart begins with a full bucket.
#[derive(Debug)]
pub(crate) struct Meter {
    name: String,
    events_per_s: Option<u64>,
    bytes_per_s: Option<u64>,
    /// From this minute of the day to that one.
    minutes: Option<(u64, u64)>,
    sent: Vec<(Moment, u64)>,
}

impl Meter {
    pub(crate) fn new(to: &Destination) -> Self {
        let amount = |text: String| text.split([' ', '/']).next().and_then(|n| n.parse().ok());
        let minutes = to.pace.hours.map(|hours| {
            let digits = hours.to_string().replace([':', '-'], "");
            let minute = |at: usize| {
                let two = |at: usize| digits[at..at + 2].parse::<u64>().expect("two digits");
                60 * two(at) + two(at + 2)
            };
            (minute(0), minute(4))
        });
        Self {
            name: to.name.clone(),
            events_per_s: to
                .pace
                .events
                .as_ref()
                .map(ToString::to_string)
                .and_then(amount),
            bytes_per_s: to
                .pace
                .bytes
                .as_ref()
                .map(ToString::to_string)
                .and_then(amount),
            minutes,
            sent: Vec::new(),
        }
    }

    /// An attempt with a body of so many bytes begins.
    pub(crate) fn count(&mut self, body_bytes: u64, now: Moment, reading: Reading) {
        let name = &self.name;
        if let Some((from, to)) = self.minutes.filter(|_| reading.certain) {
            let minute = u64::try_from(reading.wall.as_ms()).expect("after 1970") / 60_000 % 1_440;
            let is_open = if from < to {
                (from..to).contains(&minute)
            } else {
                from <= minute || minute < to
            };
            assert!(is_open, "{name} is sent to at {}", reading.wall);
        }
        self.sent.push((now, body_bytes + HEAD_BYTES));
        let (mut count, mut total, mut largest) = (0_u128, 0, 0);
        for (then, bytes) in self.sent.iter().rev().take(MANY) {
            count += 1;
            total += bytes;
            largest = largest.max(*bytes);
            let seconds = now.since(*then) + Duration::from_secs(1);
            let gives = |rate: u64| u128::from(rate) * (1 + seconds.as_millis()) / 1_000;
            if let Some(rate) = self.events_per_s {
                let most = gives(rate).max(1);
                assert!(
                    count <= most,
                    "{name}: {count} events of {most} in {seconds:?}"
                );
            }
            if let Some(rate) = self.bytes_per_s {
                let most = gives(rate) + u128::from(largest);
                let total = u128::from(total);
                assert!(
                    total <= most,
                    "{name}: {total} bytes of {most} in {seconds:?}"
                );
            }
        }
    }
}
