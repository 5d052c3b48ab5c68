//! Threads that say when they end.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, select};

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

/// Waits until the thread called `name` has ended, at most for `patience` and not beyond another
/// signal. What other threads end with is not of interest any more.
pub(super) fn await_end(
    events: &Receiver<Happened>,
    name: &str,
    patience: Duration,
) -> Option<Result<(), Error>> {
    let too_late = after(patience);
    loop {
        select! {
            recv(events) -> event => match event {
                Ok(Happened::Ended(ended, result)) if ended == name => return Some(result),
                Ok(Happened::Ended(..)) => {}
                Ok(Happened::Signal) | Err(_) => return None,
            },
            recv(too_late) -> _ => return None,
        }
    }
}
