//! What a process says on standard error, line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::PATIENCE;

/// How many of the last lines are shown when a test fails.
const SHOWN: usize = 60;

/// All lines so far.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<(Mutex<Lines>, Condvar)>);

#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    ended: bool,
}

impl Log {
    /// Follows a process until it ends.
    pub(super) fn follow(stderr: ChildStderr) -> Self {
        let log = Self::default();
        let follower = log.clone();
        thread::spawn(move || {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                follower.lock().lines.push(text);
                follower.0.1.notify_all();
            }
            follower.lock().ended = true;
            follower.0.1.notify_all();
        });
        log
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.0.lock().expect("no thread panics with it")
    }

    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// Waits for a line that contains `what`; the first of them.
    pub(crate) fn wait_for(&self, what: &str) -> String {
        let found = self.find(what);
        assert!(found.is_some(), "no line says {what:?}");
        found.unwrap_or_default()
    }

    /// The same, or nothing if the process ends without it.
    pub(super) fn find(&self, what: &str) -> Option<String> {
        self.wait(|lines| {
            let mut lines = lines.lines.iter();
            lines.find(|line| line.contains(what)).cloned()
        })
    }

    /// Waits until the process has closed its standard error, as it does by ending.
    pub(super) fn wait_for_end(&self) {
        let ended = self.wait(|lines| lines.ended.then_some(()));
        assert!(ended.is_some(), "it does not end");
    }

    fn wait<T>(&self, found: impl Fn(&Lines) -> Option<T>) -> Option<T> {
        let waiting = |lines: &mut Lines| found(lines).is_none() && !lines.ended;
        let waited = self.0.1.wait_timeout_while(self.lock(), PATIENCE, waiting);
        found(&waited.expect("no thread panics with it").0)
    }

    /// Shows the last lines to who looks for what went wrong.
    pub(super) fn show(&self) {
        let lines = self.lines();
        let from = lines.len().saturating_sub(SHOWN);
        // Nobody is left to hear of a failure.
        _ = writeln!(std::io::stderr(), "{}", lines[from..].join("\n"));
    }
}
