//! The log: one line per change, on standard error.
//!
//! - Under systemd (`JOURNAL_STREAM` is set) each line begins with the journal's priority and has
//!   no timestamp of its own; elsewhere it begins with the time and the level.
//! - `RUST_LOG` chooses levels, as `env_logger` reads it; the default is `info`.
//! - A line that would repeat is printed once, then counted and printed once a minute. Lines about
//!   an event are exempt: the committer counts those that repeat.
//!
//! A failure to write is ignored: logging must never be able to fail a delivery or an answer.
//!
//! Source of the priorities: sd-daemon(3); `<3>` error, `<4>` warning, `<6>` info, `<7>` debug.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use log::{Level, LevelFilter};

use crate::clock::{Clock, Moment};

/// How often a line that repeats is printed.
const EVERY: Duration = Duration::from_secs(60);

/// How many different lines are kept in mind.
const MOST_LINES: usize = 256;

/// Lines that begin so are never counted as repeated.
const EXEMPT: &str = "[event ";

/// The running log.
#[derive(Clone, Debug)]
pub struct Logger {
    repeats: Arc<Mutex<Repeats>>,
}

impl Logger {
    /// Starts logging. A second start in one process changes nothing.
    pub fn start(clock: Arc<dyn Clock>) -> Self {
        let journal = std::env::var_os("JOURNAL_STREAM").is_some();
        let repeats = Arc::new(Mutex::new(Repeats::default()));
        let seen = Arc::clone(&repeats);
        let mut builder = env_logger::Builder::new();
        builder.filter_level(LevelFilter::Info).parse_default_env();
        builder.format(move |out, record| {
            if is_indiscreet(record.level(), record.target()) {
                return Ok(());
            }
            let text = record.args().to_string();
            let mut repeats = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !text.starts_with(EXEMPT) && !repeats.is_news(record.level(), &text, clock.moment())
            {
                return Ok(());
            }
            drop(repeats);
            if journal {
                writeln!(out, "<{}>{text}", priority(record.level()))
            } else {
                let now = clock.reading().wall;
                writeln!(out, "{now} {:<5} {text}", record.level())
            }
        });
        let _ = builder.try_init();
        Self { repeats }
    }

    /// Prints what was counted and is due at `now`. To be called about once a second.
    pub fn tick(&self, now: Moment) {
        let due = self
            .repeats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .due(now);
        for (level, line) in due {
            log::log!(level, "{line}");
        }
    }
}

/// What must not be logged whatever `RUST_LOG` says: the HTTP client and TLS print requests with
/// their credentials at these levels.
fn is_indiscreet(level: Level, target: &str) -> bool {
    Level::Info < level
        && ["ureq", "rustls"]
            .iter()
            .any(|client| target.starts_with(client))
}

fn priority(level: Level) -> u8 {
    match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

/// The lines that were printed lately.
#[derive(Debug, Default)]
struct Repeats {
    lines: HashMap<String, Line>,
}

#[derive(Debug)]
struct Line {
    level: Level,
    printed: Moment,
    /// How often it came since it was printed.
    unsaid: u64,
}

impl Repeats {
    /// Whether a line is to be printed now. Counts it if not.
    fn is_news(&mut self, level: Level, text: &str, now: Moment) -> bool {
        if let Some(line) = self.lines.get_mut(text) {
            line.unsaid += 1;
            return false;
        }
        if self.lines.len() < MOST_LINES {
            let line = Line {
                level,
                printed: now,
                unsaid: 0,
            };
            self.lines.insert(text.to_owned(), line);
        }
        true
    }

    /// The lines whose minute is over: those that came again, with their count; the others are
    /// forgotten.
    fn due(&mut self, now: Moment) -> Vec<(Level, String)> {
        let mut due = Vec::new();
        self.lines.retain(|text, line| {
            if now.since(line.printed) < EVERY {
                return true;
            }
            if line.unsaid == 0 {
                return false;
            }
            let count = line.unsaid;
            due.push((
                line.level,
                format!("{text} ({count} more of this in a minute)"),
            ));
            line.unsaid = 0;
            line.printed = now;
            true
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::at(Duration::from_secs(seconds))
    }

    #[test]
    fn a_line_that_repeats_is_printed_once_a_minute_with_its_count() {
        let mut repeats = Repeats::default();
        assert!(repeats.is_news(Level::Warn, "[store] full", at(0)));
        for second in 1..60 {
            assert!(
                !repeats.is_news(Level::Warn, "[store] full", at(second)),
                "{second}"
            );
        }
        assert!(repeats.is_news(Level::Warn, "[store] other", at(30)));
        assert!(repeats.due(at(59)).is_empty());
        let line = "[store] full (59 more of this in a minute)".to_owned();
        assert_eq!(repeats.due(at(60)), [(Level::Warn, line)]);
        assert!(!repeats.is_news(Level::Warn, "[store] full", at(61)));
        let line = "[store] full (1 more of this in a minute)".to_owned();
        assert_eq!(repeats.due(at(120)), [(Level::Warn, line)]);
        assert!(repeats.due(at(180)).is_empty());
        assert!(repeats.is_news(Level::Warn, "[store] full", at(181)));
    }

    #[test]
    fn no_level_makes_the_client_print_its_credentials() {
        let rows = [
            (Level::Trace, "ureq::run", true),
            (Level::Debug, "ureq_proto::client", true),
            (Level::Warn, "ureq::pool", false),
            (Level::Trace, "gatepost::http", false),
        ];
        for (level, target, silent) in rows {
            assert_eq!(is_indiscreet(level, target), silent, "{level} {target}");
        }
    }

    #[test]
    fn a_flood_of_different_lines_takes_bounded_memory() {
        let mut repeats = Repeats::default();
        for number in 0..10 * MOST_LINES {
            assert!(repeats.is_news(Level::Info, &number.to_string(), at(0)));
        }
        assert_eq!(repeats.lines.len(), MOST_LINES);
    }
}
