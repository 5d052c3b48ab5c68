//! The story of one life: the log of the gateway and what the world did to it, line by line.

use std::io::{self, Write as _};

use log::{LevelFilter, Log, Metadata, Record};

struct Story;

impl Log for Story {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // redb talks of its own pages.
        if record.target().starts_with("redb") {
            return;
        }
        // Past the capture of the test harness: the story is what was asked for.
        let _ = writeln!(io::stdout(), "{}", record.args());
    }

    fn flush(&self) {}
}

/// From now on the story is told.
pub(crate) fn tell() {
    if log::set_logger(&Story).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}
