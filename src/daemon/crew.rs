//! Threads that say when they end.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, after, select};

use super::Error;
use super::stop::Happened;

/// Starts threads and hears of their end.
pub(super) struct Crew {
    happened: Sender<Happened>,
}

impl Crew {
    /// What happens to the threads is told through `happened`.
    pub(super) fn new(happened: Sender<Happened>) -> Self {
        Self { happened }
    }

    /// Starts a thread. Its end will be among what happened.
    pub(super) fn spawn(
        &self,
        name: &'static str,
        work: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let happened = self.happened.clone();
        let tell = move || {
            let result = work();
            // Nobody listens any more once the main thread has stopped waiting.
            let _ = happened.send(Happened::Ended(name, result));
        };
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(tell);
        spawned.map_err(|error| Error::System("cannot start a thread", error))?;
        Ok(())
    }
}

/// Hears of the end of threads, and remembers it.
pub(super) struct Ends {
    events: Receiver<Happened>,
    ended: Vec<End>,
}

/// Which thread ended, and how.
type End = (&'static str, Result<(), Error>);

impl Ends {
    /// What happens comes through `events`.
    pub(super) fn new(events: Receiver<Happened>) -> Self {
        let ended = Vec::new();
        Self { events, ended }
    }

    /// Waits for a signal, or for the end of a thread. Calls `tick` about once a second.
    pub(super) fn next(&mut self, mut tick: impl FnMut()) -> Option<&'static str> {
        loop {
            match self.events.recv_timeout(Duration::from_secs(1)) {
                Ok(Happened::Ended(name, result)) => {
                    self.ended.push((name, result));
                    return Some(name);
                }
                Ok(Happened::Signal) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => tick(),
            }
        }
    }

    /// Waits until the thread called `name` has ended, at most for `patience` and not beyond
    /// another signal. Whether it has.
    pub(super) fn wait_for(&mut self, name: &str, patience: Duration) -> bool {
        self.wait_until(|(ended, _)| *ended == name, patience)
    }

    /// Likewise, until one has ended with an error. A thread that fails drops what it was connected
    /// to before it says so, and those that then have nothing to do may be heard of first.
    pub(super) fn wait_for_error(&mut self, patience: Duration) -> bool {
        self.wait_until(|(_, result)| result.is_err(), patience)
    }

    fn wait_until(&mut self, is_it: impl Fn(&End) -> bool, patience: Duration) -> bool {
        let too_late = after(patience);
        while !self.ended.iter().any(&is_it) {
            select! {
                recv(self.events) -> event => match event {
                    Ok(Happened::Ended(name, result)) => self.ended.push((name, result)),
                    Ok(Happened::Signal) | Err(_) => return false,
                },
                recv(too_late) -> _ => return false,
            }
        }
        true
    }

    /// The first error that a thread ended with.
    pub(super) fn error(self) -> Option<Error> {
        self.ended.into_iter().find_map(|(_, result)| result.err())
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn an_end_that_came_early_is_not_forgotten() {
        let (happened, events) = unbounded();
        let end = |name, result| happened.send(Happened::Ended(name, result));
        end("commit", Err(Error::Ended("commit"))).expect("it is heard");
        end("dispatch", Ok(())).expect("it is heard");
        // Without it a wait for more would not end.
        drop(happened);
        let mut ends = Ends::new(events);
        assert!(ends.wait_for("dispatch", LONG));
        assert!(ends.wait_for("commit", LONG));
        assert!(!ends.wait_for("http", LONG));
        assert!(matches!(ends.error(), Some(Error::Ended("commit"))));
    }

    #[test]
    fn the_cause_is_waited_for_that_is_heard_of_last() {
        let (happened, events) = unbounded();
        let mut ends = Ends::new(events);
        happened
            .send(Happened::Ended("dispatch", Ok(())))
            .expect("it is heard");
        assert_eq!(ends.next(|| ()), Some("dispatch"));
        let late = thread::spawn(move || {
            let cause = Err(Error::Ended("commit"));
            happened.send(Happened::Ended("commit", cause))
        });
        assert!(ends.wait_for_error(LONG));
        assert!(matches!(ends.error(), Some(Error::Ended("commit"))));
        late.join().expect("no panic").expect("it was heard");
    }

    #[test]
    fn a_second_signal_ends_the_wait() {
        let (happened, events) = unbounded();
        happened.send(Happened::Signal).expect("it is heard");
        assert!(!Ends::new(events).wait_for("http", LONG));
    }
}
