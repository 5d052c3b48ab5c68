//! Times as devices tell them.
//!
//! Source of the forms: `devices.md` sections 2 and 3; of when a clock is doubted: section 6.

use std::time::Duration;

use super::Timestamp;

/// Further from the truth than that no zone is, and few senders are that late.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a device says that the time is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Told {
    /// The time; that of UTC if it names no zone.
    pub at: Timestamp,
    /// Whether it names its zone, or is counted from 1970.
    pub has_zone: bool,
}

impl Told {
    /// Reads what is commonly written: RFC 3339, the same without a zone, with a blank or slashes,
    /// and seconds, milliseconds, microseconds or nanoseconds since 1970.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(ms) = since_1970(text) {
            let at = Timestamp::from_ms(ms);
            let has_zone = true;
            return Some(Self { at, has_zone });
        }
        let text = text.replacen('/', "-", 2);
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            let at = Timestamp::from_ms(time.as_millisecond());
            let has_zone = true;
            return Some(Self { at, has_zone });
        }
        let local: jiff::civil::DateTime = text.parse().ok()?;
        let time = jiff::tz::Offset::UTC.to_timestamp(local).ok()?;
        Some(Self {
            at: Timestamp::from_ms(time.as_millisecond()),
            has_zone: false,
        })
    }

    /// How far from `received` it is if that is more than a day: it was sent late, or the device's
    /// clock is wrong.
    #[must_use]
    pub fn is_far_from(self, received: Timestamp) -> Option<Duration> {
        let apart = self.at.since(received).max(received.since(self.at));
        (DAY < apart).then_some(apart)
    }
}

/// Milliseconds of a number that is counted from 1970, by its length: from 2001 to 2286.
fn since_1970(text: &str) -> Option<i64> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let number: i64 = whole.parse().ok().filter(|number| 0 <= *number)?;
    match whole.len() {
        10 => {
            let fraction: f64 = text[whole.len()..].parse().unwrap_or(0.0);
            #[expect(clippy::cast_possible_truncation, reason = "it is below a thousand")]
            let ms = (fraction * 1_000.0) as i64;
            number.checked_mul(1_000)?.checked_add(ms)
        }
        13 => Some(number),
        16 => Some(number / 1_000),
        19 => Some(number / 1_000_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_devices_are_read() {
        let time = "2026-03-04T02:16:02.000Z";
        let rows = [
            ("2026-03-04T09:16:02+07:00", time, true),
            ("2026-03-04T02:16:02Z", time, true),
            ("2026-03-04 09:16:02", "2026-03-04T09:16:02.000Z", false),
            ("2026/03/04 09:16:02", "2026-03-04T09:16:02.000Z", false),
            (" 2026-03-04T09:16:02.5 ", "2026-03-04T09:16:02.500Z", false),
            ("1772590562", time, true),
            ("1772590562.25", "2026-03-04T02:16:02.250Z", true),
            ("1772590562000", time, true),
            ("1772590562000000", time, true),
            ("1772590562000000000", time, true),
        ];
        for (text, at, has_zone) in rows {
            let told = Told::read(text).map(|told| (told.at.to_string(), told.has_zone));
            assert_eq!(told, Some((at.to_owned(), has_zone)), "{text}");
        }
        for text in [
            "",
            "noon",
            "-1772590562",
            "177259056",
            "2026-13-04T00:00:00Z",
            "9.9",
        ] {
            assert_eq!(Told::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_doubted_that_is_more_than_a_day_off() {
        let received = Timestamp::from_ms(1_772_590_562_000);
        let far = |text| Told::read(text).and_then(|told| told.is_far_from(received));
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3_600));
        assert_eq!(far("2026-03-04T16:16:02"), None);
        assert_eq!(far("2026-03-03T02:16:02Z"), None);
        assert_eq!(far("2026-03-03T01:16:02Z"), hours(25));
        assert_eq!(far("2026-03-06T02:16:02Z"), hours(48));
        assert!(far("1970-01-01T00:00:01Z").is_some());
    }
}
