//! What time it is.
//!
//! The only module that may ask the operating system for the time. Everything else is handed a
//! [`Moment`], a [`Timestamp`] or a [`Clock`], so a simulation runs a week of retries in a blink.
//!
//! A gateway without a battery-backed clock boots with a wrong date and corrects it minutes later.
//! So every timer is a [`Moment`], which only goes forward, and a [`Timestamp`] is for people and
//! records; a [`Reading`] says whether it can be trusted.

mod told;

use std::fmt;
use std::ops::Add;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

pub use told::Told;

/// A point on the monotonic clock: how long after its origin, which is the start of the process.
///
/// Never stored: it means nothing to the next process.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Moment(Duration);

impl Moment {
    /// The origin.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment `since_start` after the origin.
    #[must_use]
    pub const fn at(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, pause: Duration) -> Self {
        Self(self.0.saturating_add(pause))
    }
}

/// Wall time in milliseconds since 1970-01-01 UTC. May be wrong; see [`Reading::certain`].
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that many milliseconds after 1970.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// In the form of the HTTP `Date` header. Source: RFC 9110 section 5.6.7.
    #[must_use]
    pub fn http_date(self) -> String {
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self.to_jiff())
            .unwrap_or_default()
    }

    /// Date and time of a place that is so far ahead of UTC, or behind: `2026-03-04 09:16:02`.
    #[must_use]
    pub fn date_time(self, is_ahead: bool, distance: Duration) -> String {
        let distance = i64::try_from(distance.as_millis()).unwrap_or(0);
        let shift = if is_ahead { distance } else { -distance };
        let there = Self(self.0.saturating_add(shift)).to_jiff().to_string();
        let end = there.find(['.', 'Z']).unwrap_or(there.len());
        there[..end].replace('T', " ")
    }

    /// Reads an HTTP date, in its preferred form or as mail writes it.
    ///
    /// Source: RFC 9110 section 5.6.7; its two obsolete forms are not read.
    #[must_use]
    pub fn from_http_date(text: &str) -> Option<Self> {
        let timestamp = jiff::fmt::rfc2822::DateTimeParser::new()
            .parse_timestamp(text)
            .ok()?;
        Some(Self(timestamp.as_millisecond()))
    }

    /// Reads a time as RFC 3339 has it: `2026-03-04T02:16:01Z`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let timestamp: jiff::Timestamp = text.parse().ok()?;
        Some(Self(timestamp.as_millisecond()))
    }

    fn to_jiff(self) -> jiff::Timestamp {
        jiff::Timestamp::from_millisecond(self.0).unwrap_or_default()
    }
}

/// RFC 3339 in UTC, with milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.to_jiff())
    }
}

/// What is known of the time at one instant.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Reading {
    /// What the wall clock says.
    pub wall: Timestamp,
    /// Whether the kernel says that the wall clock is synchronised.
    pub certain: bool,
    /// How long the machine has been up, in milliseconds: orders readings of one boot.
    pub uptime_ms: u64,
}

impl Reading {
    /// How long after `earlier` this is, as far as that is known: by the machine's uptime if both
    /// are of one boot, else by the wall clock if it was right both times and did not go back.
    #[must_use]
    pub fn since(self, earlier: Self, same_boot: bool) -> Option<Duration> {
        if same_boot {
            let ms = self.uptime_ms.checked_sub(earlier.uptime_ms)?;
            return Some(Duration::from_millis(ms));
        }
        let ms = self.wall.0.checked_sub(earlier.wall.0)?;
        let known = self.certain && earlier.certain;
        let ms = u64::try_from(ms).ok().filter(|_| known)?;
        Some(Duration::from_millis(ms))
    }
}

/// What the clocks of a place show.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// That of the machine: `TZ`, else `/etc/localtime`; UTC where there is neither, as on an image
    /// without a zone database. A change is noticed within five minutes.
    #[must_use]
    pub fn system() -> Self {
        Self(TimeZone::system())
    }

    /// One that is written as POSIX writes it: `CET-1CEST,M3.5.0,M10.5.0/3`.
    #[must_use]
    pub fn posix(rule: &str) -> Option<Self> {
        TimeZone::posix(rule).ok().map(Self)
    }

    /// How long after midnight it is there, by what the clocks show.
    #[must_use]
    pub fn time_of_day(&self, at: Timestamp) -> Duration {
        let time = self.0.to_datetime(at.to_jiff()).time();
        let midnight = time.duration_since(jiff::civil::Time::midnight());
        midnight.try_into().unwrap_or_default()
    }

    /// The next time after `at` at which the clocks show so long after midnight. If they leave that
    /// out on some day, it is as much later as they leap; if they show it twice, it is the first.
    #[must_use]
    pub fn next(&self, at: Timestamp, time_of_day: Duration) -> Timestamp {
        let seconds = time_of_day.as_secs();
        let time = [seconds / 3_600, seconds / 60 % 60, seconds % 60]
            .map(|part| i8::try_from(part).unwrap_or_default());
        let mut date = self.0.to_datetime(at.to_jiff()).date();
        for _ in 0..3 {
            let there = date.at(time[0], time[1], time[2], 0);
            match self.0.to_timestamp(there) {
                Ok(found) if at.0 < found.as_millisecond() => {
                    return Timestamp(found.as_millisecond());
                }
                _ => date = date.tomorrow().unwrap_or(date),
            }
        }
        at
    }
}

/// Its name, if it has one: `Asia/Bangkok`.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unnamed = || if self.0.is_unknown() { "UTC" } else { "local" };
        f.write_str(self.0.iana_name().unwrap_or_else(unnamed))
    }
}

/// A source of time. Simulations have their own.
pub trait Clock: Send + Sync {
    /// Now, on the monotonic clock.
    fn moment(&self) -> Moment;

    /// Now, in every way that is known.
    fn reading(&self) -> Reading;

    /// What the clocks on the wall show here; UTC for a clock that is nowhere.
    fn zone(&self) -> Zone {
        Zone::UTC
    }
}

/// The operating system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
    uptime_at_origin: Duration,
}

impl SystemClock {
    /// A clock whose monotonic origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            uptime_at_origin: machine_uptime().unwrap_or_default(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn moment(&self) -> Moment {
        Moment(self.origin.elapsed())
    }

    fn reading(&self) -> Reading {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let uptime = self.uptime_at_origin + self.origin.elapsed();
        Reading {
            wall: Timestamp(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)),
            certain: synchronised(),
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn zone(&self) -> Zone {
        Zone::system()
    }
}

/// A clock that stands still until it is moved: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<(Moment, Reading)>,
}

impl ManualClock {
    /// Lets time pass, on every clock.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        now.0 = now.0 + by;
        now.1.uptime_ms = now.1.uptime_ms.saturating_add(ms);
        now.1.wall.0 = now.1.wall.0.saturating_add_unsigned(ms);
    }

    /// Sets the wall clock, and whether it is known to be right. The other clocks go on.
    pub fn set_wall(&self, wall: Timestamp, certain: bool) {
        let mut now = self.lock();
        now.1.wall = wall;
        now.1.certain = certain;
    }

    fn lock(&self) -> MutexGuard<'_, (Moment, Reading)> {
        self.now
            .lock()
            .expect("nothing panics while it holds this lock")
    }
}

impl Clock for ManualClock {
    fn moment(&self) -> Moment {
        self.lock().0
    }

    fn reading(&self) -> Reading {
        self.lock().1
    }
}

/// What the kernel calls this start of the machine, if it says so.
///
/// Source: random(4), `/proc/sys/kernel/random/boot_id`: a random UUID drawn at each boot.
#[must_use]
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Source: proc(5), `/proc/uptime`: seconds since boot, with two decimals.
fn machine_uptime() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Whether the kernel holds the wall clock to be synchronised with the world.
///
/// Source: adjtimex(2): with no mode set it changes nothing and returns `TIME_ERROR` while nobody
/// disciplines the clock. Every time daemon (timesyncd, chrony, ntpd, ptp4l) clears that.
#[expect(unsafe_code, reason = "no maintained crate offers adjtimex without it")]
fn synchronised() -> bool {
    // SAFETY: `timex` is plain data for which all zeroes is a value, and the call writes only to
    // the struct it is given.
    let state = unsafe {
        let mut request: libc::timex = std::mem::zeroed();
        libc::adjtimex(&raw mut request)
    };
    state >= 0 && state != libc::TIME_ERROR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_prints_as_rfc_3339_and_as_an_http_date() {
        let time = Timestamp::from_ms(784_111_777_123);
        assert_eq!(time.to_string(), "1994-11-06T08:49:37.123Z");
        assert_eq!(time.http_date(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(
            Timestamp::from_http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Timestamp::from_ms(784_111_777_000))
        );
        assert_eq!(Timestamp::from_http_date("soon"), None);
        let hours = |hours: u64| Duration::from_secs(3_600 * hours);
        assert_eq!(time.date_time(true, hours(7)), "1994-11-06 15:49:37");
        assert_eq!(time.date_time(false, hours(9)), "1994-11-05 23:49:37");
    }

    #[test]
    fn how_long_ago_is_known_within_a_boot_or_by_a_clock_that_was_right() {
        let reading = |wall, certain, uptime_ms| Reading {
            wall: Timestamp(wall),
            certain,
            uptime_ms,
        };
        let earlier = reading(5_000, true, 100);
        let rows = [
            (reading(9_000, false, 350), true, Some(250)),
            (reading(4_000, true, 350), true, Some(250)),
            (reading(9_000, true, 50), true, None),
            (reading(9_000, true, 50), false, Some(4_000)),
            (reading(9_000, false, 350), false, None),
            (reading(4_999, true, 350), false, None),
        ];
        for (later, same_boot, ms) in rows {
            let expected = ms.map(Duration::from_millis);
            assert_eq!(later.since(earlier, same_boot), expected, "{later:?}");
        }
        let unsure = reading(5_000, false, 100);
        assert_eq!(reading(9_000, true, 50).since(unsure, false), None);
    }

    #[test]
    fn a_place_has_its_own_days() {
        // 2026-03-29, one hour after midnight in UTC: clocks in Germany leap from 2 to 3.
        let leap = Timestamp::from_ms(1_774_746_000_000);
        let hour = Duration::from_secs(3_600);
        let later = |hours: i64| Timestamp::from_ms(leap.0 + 3_600_000 * hours);
        let berlin = Zone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a constant");
        let rows = [
            (&Zone::UTC, leap, 1, 6, later(5)),
            (&berlin, leap, 3, 6, later(3)),
            (&berlin, later(-1), 1, 6, later(3)),
            // What is left out comes an hour later, and what is now comes tomorrow.
            (&berlin, later(-1), 1, 2, leap),
            (&berlin, leap, 3, 3, later(24)),
            (&Zone::UTC, leap, 1, 0, later(23)),
        ];
        for (zone, now, shows, next, expected) in rows {
            assert_eq!(zone.time_of_day(now), shows * hour, "{now} {zone}");
            assert_eq!(
                zone.next(now, next * hour),
                expected,
                "{now} {zone}, {next}"
            );
        }
        assert_eq!(Zone::UTC.to_string(), "UTC");
        let any = SystemClock::new().zone();
        assert!(any.time_of_day(leap) < 24 * hour);
    }

    #[test]
    fn durations_never_go_below_zero() {
        let early = Timestamp::from_ms(0);
        let late = Timestamp::from_ms(1_500);
        assert_eq!(late.since(early), Duration::from_millis(1_500));
        assert_eq!(early.since(late), Duration::ZERO);
        let moment = Moment::START + Duration::from_secs(1);
        assert_eq!(Moment::START.since(moment), Duration::ZERO);
    }

    #[test]
    fn the_system_clock_goes_forward() {
        let clock = SystemClock::new();
        let first = clock.moment();
        assert!(first <= clock.moment());
        assert!(Timestamp::from_ms(0) < clock.reading().wall);
        assert!(0 < clock.reading().uptime_ms);
    }
}
