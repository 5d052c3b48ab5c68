//! The committer's thread: gather what waits, step, tell who waited.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::linger::{expected, linger};
use super::{Committer, Done, Failed, Notice, Work};
use crate::clock::Clock;
use crate::store::{self, CACHE_BYTES};

/// The most events in one commit.
const MOST_EVENTS: usize = 512;

/// The most bytes of bodies in one commit: more than half the cache would be written twice.
const MOST_BYTES: usize = CACHE_BYTES / 2;

/// Who hears of what was committed.
pub trait Ear<T> {
    /// These can be answered now, or, if there is no `Done`, were not stored.
    fn answer(&mut self, answers: Vec<(T, Option<Done>)>);

    /// The dispatcher must know this.
    fn notice(&mut self, notices: Vec<Notice>);

    /// How many senders are connected: the most that are worth waiting for.
    fn senders(&self) -> usize;
}

/// Commits what comes through `work` until nobody can send more, then puts everything on disk.
///
/// # Errors
///
/// When the store fails. Everybody who waited has been told that nothing was stored.
pub fn run<T>(
    committer: &mut Committer,
    work: &Receiver<Work<T>>,
    clock: &dyn Clock,
    ear: &mut impl Ear<T>,
) -> Result<(), store::Error> {
    let mut pace = Pace::default();
    loop {
        let first = match committer.due() {
            Some(due) => work.recv_timeout(due.since(clock.moment())),
            None => work.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let batch = match first {
            Ok(first) => gather(first, work, clock, &pace, ear.senders()),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match committer.step(batch) {
            Ok(step) => {
                if let Some(took) = step.took {
                    pace.last_sync = took;
                    pace.released = step.answers.len();
                }
                let answers = step
                    .answers
                    .into_iter()
                    .map(|(who, done)| (who, Some(done)));
                ear.answer(answers.collect());
                ear.notice(step.notices);
            }
            Err(Failed { error, waiting }) => {
                ear.answer(waiting.into_iter().map(|who| (who, None)).collect());
                return Err(error);
            }
        }
    }
    committer.finish()
}

/// How the last commits went.
#[derive(Default)]
struct Pace {
    last_sync: Duration,
    released: usize,
}

/// One batch of work, counted.
struct Batch<T> {
    work: Vec<Work<T>>,
    events: usize,
    bytes: usize,
}

impl<T> Batch<T> {
    fn add(&mut self, work: Work<T>) {
        if let Work::Admit(admission, _) = &work {
            self.events += 1;
            self.bytes += admission.body.len();
        }
        self.work.push(work);
    }

    fn has_room(&self) -> bool {
        self.work.len() < 2 * MOST_EVENTS && self.events < MOST_EVENTS && self.bytes < MOST_BYTES
    }
}

/// Takes all that waits, and on a slow disk waits a little for the rest of a wave.
fn gather<T>(
    first: Work<T>,
    work: &Receiver<Work<T>>,
    clock: &dyn Clock,
    pace: &Pace,
    senders: usize,
) -> Vec<Work<T>> {
    let mut batch = Batch {
        work: Vec::new(),
        events: 0,
        bytes: 0,
    };
    batch.add(first);
    take_waiting(&mut batch, work);
    if batch.events == 0 {
        return batch.work;
    }
    let expected = expected(batch.events, pace.released, senders);
    let until = clock.moment() + linger(pace.last_sync, batch.events, expected);
    while batch.has_room() && batch.events < expected {
        let left = until.since(clock.moment());
        if left.is_zero() {
            break;
        }
        match work.recv_timeout(left) {
            Ok(more) => {
                batch.add(more);
                take_waiting(&mut batch, work);
            }
            Err(_) => break,
        }
    }
    batch.work
}

fn take_waiting<T>(batch: &mut Batch<T>, work: &Receiver<Work<T>>) {
    while batch.has_room() {
        match work.try_recv() {
            Ok(more) => batch.add(more),
            Err(_) => break,
        }
    }
}
