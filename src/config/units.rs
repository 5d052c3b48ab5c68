//! Sizes and durations as people write them.

use std::fmt;
use std::time::Duration;

use crate::pace::Rate;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A size or a duration as written: read without judging it, so that all mistakes of a file can
/// be reported together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Figure {
    Text(String),
    Number(i64),
}

/// The units of a size: the decimal ones and those of computers.
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// The units of a duration, in milliseconds.
const DURATIONS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60 * 1_000),
    ("h", 60 * 60 * 1_000),
    ("d", 24 * 60 * 60 * 1_000),
];

impl Figure {
    /// As a size in bytes: `"16 MiB"`, `"500 kB"`, or a plain number of bytes.
    pub(super) fn bytes(&self) -> Result<u64, String> {
        let bytes = match self {
            Self::Text(text) => amount(text, SIZES),
            Self::Number(bytes) => u64::try_from(*bytes).ok(),
        };
        bytes.ok_or_else(|| {
            format!("{self} is not a size; write it as \"16 MiB\", \"500 kB\" or a number of bytes")
        })
    }

    /// As a duration: `"250ms"`, `"30s"`, `"5m"`, `"24h"`, `"30d"`. The unit is never left out.
    pub(super) fn duration(&self) -> Result<Duration, String> {
        let ms = match self {
            Self::Text(text) => amount(text, DURATIONS),
            Self::Number(_) => None,
        };
        ms.map(Duration::from_millis).ok_or_else(|| {
            format!(
                "{self} is not a duration; \
                 write it as \"250ms\", \"30s\", \"5m\", \"24h\" or \"30d\""
            )
        })
    }

    /// As a number of events in a time: `"50/s"`, `"600/m"`, `"1000/h"`, `"5000/d"`.
    pub(super) fn rate_of_events(&self) -> Result<Rate, String> {
        self.rate(&[("", 1)]).ok_or_else(|| {
            format!("{self} is no rate; write how many in a time, as in \"50/s\" or \"600/m\"")
        })
    }

    /// As a number of bytes in a time: `"200 KiB/s"`, `"50 MB/d"`.
    pub(super) fn rate_of_bytes(&self) -> Result<Rate, String> {
        self.rate(SIZES).ok_or_else(|| {
            format!("{self} is no rate; write a size in a time, as in \"200 KiB/s\" or \"50 MB/d\"")
        })
    }

    /// So much in one of the times that are longer than a blink. Nothing is no rate.
    fn rate(&self, units: &[(&str, u64)]) -> Option<Rate> {
        let Self::Text(text) = self else {
            return None;
        };
        let (much, unit) = text.split_once('/')?;
        let much = amount(much, units).filter(|much| *much != 0)?;
        let mut periods = DURATIONS.iter().filter(|(name, _)| *name != "ms");
        let (_, ms) = periods.find(|(name, _)| *name == unit)?;
        Some(Rate::new(much, Duration::from_millis(*ms), text.clone()))
    }
}

/// A whole number and one of `units`, with or without a blank between them.
fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    // TOML's own numbers end there too.
    let most = u64::try_from(i64::MAX).ok()?;
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(*factor)
        .filter(|amount| *amount <= most)
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl Visitor<'_> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text with a number and its unit")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Figure, E> {
        Ok(Figure::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Figure, E> {
        Ok(Figure::Number(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Figure {
        Figure::Text(text.to_owned())
    }

    #[test]
    fn a_size_is_a_number_and_a_unit() {
        let rows = [
            (text("16 MiB"), 16 << 20),
            (text("16MiB"), 16 << 20),
            (text("2 GiB"), 2 << 30),
            (text("500 kB"), 500_000),
            (text("1 MB"), 1_000_000),
            (text("0 B"), 0),
            (Figure::Number(4_096), 4_096),
        ];
        for (figure, bytes) in rows {
            assert_eq!(figure.bytes(), Ok(bytes), "{figure}");
        }
        let wrong = [
            "",
            "16",
            "MiB",
            "16 mib",
            "1.5 GiB",
            "-1 B",
            "16  MiB",
            "9000000 TiB",
        ];
        for figure in wrong.map(text).into_iter().chain([Figure::Number(-1)]) {
            let expected = format!(
                "{figure} is not a size; write it as \"16 MiB\", \"500 kB\" or a number of bytes"
            );
            assert_eq!(figure.bytes(), Err(expected));
        }
    }

    #[test]
    fn a_rate_is_an_amount_and_a_time() {
        let second = Duration::from_secs(1);
        for (written, much, period) in [
            ("50/s", 50, second),
            ("600/m", 600, 60 * second),
            ("1000/h", 1_000, 3_600 * second),
            ("5000/d", 5_000, 86_400 * second),
        ] {
            let rate = Rate::new(much, period, written.to_owned());
            assert_eq!(text(written).rate_of_events(), Ok(rate), "{written}");
        }
        for (written, much, period) in [
            ("200 KiB/s", 200 << 10, second),
            ("50 MB/d", 50_000_000, 86_400 * second),
            ("1B/m", 1, 60 * second),
        ] {
            let rate = Rate::new(much, period, written.to_owned());
            assert_eq!(text(written).rate_of_bytes(), Ok(rate), "{written}");
        }
        let events = [
            "", "50", "50/", "/s", "0/s", "50/ms", "50/min", "50 B/s", "-1/s", "1.5/s",
        ];
        for figure in events.map(text).into_iter().chain([Figure::Number(50)]) {
            let why = figure.rate_of_events().expect_err("it is none");
            let right = "is no rate; write how many in a time, as in \"50/s\" or \"600/m\"";
            assert_eq!(why, format!("{figure} {right}"));
        }
        for figure in ["200 KiB", "200/s", "0 B/s", "200 KiB/ms"].map(text) {
            let why = figure.rate_of_bytes().expect_err("it is none");
            let right = "is no rate; write a size in a time, as in \"200 KiB/s\" or \"50 MB/d\"";
            assert_eq!(why, format!("{figure} {right}"));
        }
    }

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        let rows = [
            ("250ms", 250),
            ("1s", 1_000),
            ("30 s", 30_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("30d", 2_592_000_000),
            ("0s", 0),
        ];
        for (written, ms) in rows {
            assert_eq!(
                text(written).duration(),
                Ok(Duration::from_millis(ms)),
                "{written}"
            );
        }
        let wrong = [
            "",
            "30",
            "s",
            "1h30m",
            "5 min",
            "1.5s",
            "-1s",
            "200000000000d",
        ];
        for figure in wrong.map(text).into_iter().chain([Figure::Number(30)]) {
            let expected = format!(
                "{figure} is not a duration; \
                 write it as \"250ms\", \"30s\", \"5m\", \"24h\" or \"30d\""
            );
            assert_eq!(figure.duration(), Err(expected));
        }
    }
}
