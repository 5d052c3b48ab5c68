//! The hours of the day in which a destination is sent to.

use std::fmt;
use std::time::Duration;

use crate::clock::{Reading, Timestamp, Zone};

const MINUTE: Duration = Duration::from_secs(60);

/// From one time of the day to another by local clocks, over midnight if the second comes before
/// the first; the first is inside, the second is not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hours {
    /// Minutes since midnight.
    from: u16,
    to: u16,
}

impl Hours {
    /// Reads `22:00-06:00`. An end of `24:00` is midnight.
    ///
    /// # Errors
    ///
    /// Says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = |time: &str| {
            let (hours, minutes) = time.split_once(':')?;
            let two = |digits: &str| {
                let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
                plain.then(|| digits.parse::<u16>().ok()).flatten()
            };
            let (hours, minutes) = (two(hours)?, two(minutes)?);
            (hours < 24 && minutes < 60 || (hours, minutes) == (24, 0))
                .then_some(60 * hours + minutes)
        };
        let found = text.split_once('-').and_then(|(from, to)| {
            let from = read(from).filter(|from| *from < DAY)?;
            Some((from, read(to)? % DAY))
        });
        match found {
            None => Err(format!(
                "\"{text}\" is no part of a day; write it as \"22:00-06:00\", in local time"
            )),
            Some((from, to)) if from == to => Err(format!(
                "\"{text}\" is either a whole day or no time at all; leave it out to send at any \
                 time"
            )),
            Some((from, to)) => Ok(Self { from, to }),
        }
    }

    /// When it opens, by the wall clock; none while it is open.
    ///
    /// By a clock that is not known to be right it is always open: a gateway that does not know
    /// the time must not sit on its events.
    pub(super) fn opens(self, now: Reading, zone: &Zone) -> Option<Timestamp> {
        if !now.certain {
            return None;
        }
        let day = zone.time_of_day(now.wall);
        let (from, to) = (u32::from(self.from) * MINUTE, u32::from(self.to) * MINUTE);
        let is_open = if from < to {
            from <= day && day < to
        } else {
            from <= day || day < to
        };
        (!is_open).then(|| zone.next(now.wall, from))
    }

    /// When it begins, by local clocks: `22:00`.
    #[must_use]
    pub fn begin(self) -> String {
        clock_time(self.from)
    }
}

/// The minutes of a day.
const DAY: u16 = 24 * 60;

fn clock_time(minutes: u16) -> String {
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// As it is written: `22:00-06:00`.
impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", clock_time(self.from), clock_time(self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-28, midnight in UTC, in milliseconds: the day before summer begins in Europe.
    const DAY_BEFORE: i64 = 1_774_656_000_000;
    const HOUR: i64 = 3_600_000;

    fn reading(ms: i64, certain: bool) -> Reading {
        Reading {
            wall: Timestamp::from_ms(ms),
            certain,
            uptime_ms: 0,
        }
    }

    #[test]
    fn a_part_of_a_day_is_two_times() {
        for (text, shown) in [
            ("22:00-06:00", "22:00-06:00"),
            ("00:00-00:01", "00:00-00:01"),
            ("18:30-24:00", "18:30-00:00"),
        ] {
            let hours = Hours::parse(text).expect(text);
            assert_eq!(hours.to_string(), shown);
        }
        let wrong = [
            "",
            "22-06",
            "22:00",
            "24:00-06:00",
            "2:00-6:00",
            "22:60-06:00",
            "22:00-24:01",
            "22:00 - 06:00",
            "+2:00-06:00",
            "22:00-06:00-07:00",
        ];
        for text in wrong {
            let why = Hours::parse(text).expect_err(text);
            let end = "is no part of a day; write it as \"22:00-06:00\", in local time";
            assert_eq!(why, format!("\"{text}\" {end}"));
        }
        for text in ["06:00-06:00", "00:00-24:00"] {
            let why = Hours::parse(text).expect_err(text);
            assert!(why.contains("leave it out"), "{why}");
        }
    }

    #[test]
    fn it_opens_at_its_first_minute_and_closes_before_its_last() {
        let night = "22:00-06:00";
        let noon = "11:30-13:00";
        let minute = HOUR / 60;
        // What it is, hours of the day by the minute, in how many minutes it opens.
        let rows = [
            (night, 22 * HOUR, None),
            (night, 22 * HOUR - 1, Some(1)),
            (night, 6 * HOUR - 1, None),
            (night, 6 * HOUR, Some(16 * HOUR)),
            (night, 0, None),
            (night, 12 * HOUR, Some(10 * HOUR)),
            (noon, 11 * HOUR + 30 * minute, None),
            (noon, 13 * HOUR, Some(22 * HOUR + 30 * minute)),
            (noon, 13 * HOUR - 1, None),
            (noon, 0, Some(11 * HOUR + 30 * minute)),
        ];
        for (text, day, expected) in rows {
            let hours = Hours::parse(text).expect(text);
            let now = DAY_BEFORE + day;
            let opens = hours.opens(reading(now, true), &Zone::UTC);
            let expected = expected.map(|ms| Timestamp::from_ms(now + ms));
            assert_eq!(opens, expected, "{text} at {day}");
        }
    }

    #[test]
    fn a_clock_that_is_not_known_to_be_right_keeps_nothing_shut() {
        let hours = Hours::parse("22:00-06:00").expect("a constant");
        for hour in 0..24 {
            let now = reading(DAY_BEFORE + hour * HOUR, false);
            assert_eq!(hours.opens(now, &Zone::UTC), None, "{hour}");
        }
    }

    #[test]
    fn the_day_is_that_of_the_place() {
        let bangkok = Zone::posix("<+07>-7").expect("a constant");
        let berlin = Zone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a constant");
        let hours = Hours::parse("22:00-06:00").expect("a constant");
        let opens = |zone, ms| {
            let opens = hours.opens(reading(ms, true), zone)?;
            Some((opens.as_ms() - ms) / HOUR)
        };
        assert_eq!(opens(&bangkok, DAY_BEFORE), Some(15), "it is seven there");
        assert_eq!(opens(&bangkok, DAY_BEFORE + 15 * HOUR), None);
        assert_eq!(opens(&berlin, DAY_BEFORE + 20 * HOUR), Some(1));
        // The night has an hour less: six o'clock of summer is four in UTC.
        let sunday = DAY_BEFORE + 24 * HOUR;
        assert_eq!(opens(&berlin, sunday + 4 * HOUR - 1), None);
        assert_eq!(opens(&berlin, sunday + 4 * HOUR), Some(16));
    }
}
