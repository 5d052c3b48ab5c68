//! The way back into the loop, from any thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender};
use mio::Waker;

use super::{Answer, Ticket};

/// Answers that go on their way together.
pub(super) type Batch = Vec<(Ticket, Answer)>;

/// Answers requests and tells the server to stop. Cheap to clone; never blocks.
///
/// Every call also makes the loop look at its clock.
#[derive(Clone)]
pub struct Answers {
    queue: Sender<Batch>,
    shared: Arc<Shared>,
}

/// What all [`Answers`] and the loop share.
pub(super) struct Shared {
    waker: Waker,
    /// Whether a wake is under way: one is enough for all that happens until the loop sees it.
    woken: AtomicBool,
    pub(super) open: AtomicUsize,
    pub(super) draining: AtomicBool,
    pub(super) stopping: AtomicBool,
    pub(super) refusing: AtomicBool,
}

impl Answers {
    pub(super) fn new(waker: Waker) -> (Self, Receiver<Batch>, Arc<Shared>) {
        let (queue, receiver) = crossbeam_channel::unbounded();
        let shared = Arc::new(Shared {
            waker,
            woken: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
        });
        let answers = Self {
            queue,
            shared: Arc::clone(&shared),
        };
        (answers, receiver, shared)
    }

    /// Sends each answer to the request that waits for it. An answer that nobody waits for, since
    /// its sender has left or was answered, is dropped.
    ///
    /// Every request needs its answer, even when its sender has left: only then are its memory and
    /// its place among the connections given to others. One call for a whole batch is one wake of
    /// the loop.
    pub fn send(&self, answers: Vec<(Ticket, Answer)>) {
        // The loop has ended when this fails, and with it all connections.
        _ = self.queue.send(answers);
        self.shared.wake();
    }

    /// How many connections are open, idle ones included.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Accepts nobody any more and closes idle connections. Requests that are being read or wait
    /// are finished, and their answers close the connection. Then [`super::Server::run`] returns.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::SeqCst);
        self.shared.wake();
    }

    /// Makes [`super::Server::run`] return as soon as the answers sent before this were written as
    /// far as their senders take them at once.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.wake();
    }

    /// Refuses everybody who waits, and every request from now on: 503 with Retry-After.
    pub fn refuse_all(&self) {
        self.shared.refusing.store(true, Ordering::SeqCst);
        self.shared.wake();
    }
}

impl Shared {
    /// The loop has seen the wake and is about to look: what comes later needs another one.
    pub(super) fn seen(&self) {
        self.woken.store(false, Ordering::SeqCst);
    }

    fn wake(&self) {
        if !self.woken.swap(true, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            // Writing to an eventfd fails only when it is closed, so nobody is there to wake.
            log::error!("cannot wake the device connections: {error}");
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers")
            .field("open_connections", &self.open_connections())
            .finish_non_exhaustive()
    }
}
