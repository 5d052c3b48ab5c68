//! One connection: its socket, its reader, what it waits for and until when.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;

use super::Limits;
use super::budget::Held;
use super::reader::{After, Reader, Silence, Stage};
use crate::clock::Moment;

/// How much is read at once while it is not known how much is wanted. What comes after a request
/// is kept until that is answered, so this is also the most that a connection keeps of it.
const USUAL_READ: usize = 16 * 1024;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// For its sender.
    Reading,
    /// For memory for its body.
    Room {
        /// When the stage that it interrupts began.
        began: Moment,
    },
    /// For the answer to its request.
    Waiting(Waiting),
    /// For its sender to take the answer.
    Writing {
        /// What comes then.
        then: Then,
    },
    /// For its sender to close, after we did.
    Lingering,
}

/// What comes after an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Then {
    /// The next request.
    Read,
    /// The end.
    Close,
    /// The end, but the sender has not said everything: see [`Limits::linger`].
    Linger,
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Waiting {
    /// The number of its ticket.
    pub(super) number: u64,
    pub(super) head_only: bool,
    pub(super) old: bool,
    pub(super) after: After,
}

/// What the kernel has said about the input, which it says only once.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Input {
    /// There is none.
    None,
    /// There may be some.
    Some,
    /// There may be some, and after it comes the end.
    Last,
}

/// What came of reading from a socket.
#[derive(Debug)]
pub(super) enum Heard {
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The sender has closed its side.
    End,
    /// The connection is gone.
    Lost,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) reader: Reader,
    pub(super) phase: Phase,
    /// What was read beyond the request that is being dealt with.
    pub(super) rest: Vec<u8>,
    /// What the sender has not taken yet of what we had to say.
    unsent: Vec<u8>,
    pub(super) held: Held,
    pub(super) input: Input,
    /// Whether it was given the memory that it waited for and has not used it yet.
    pub(super) granted: bool,
    /// Whether its turn is already planned.
    pub(super) queued: bool,
    /// When the current stage or phase began, less the time it was not allowed to go on.
    since: Moment,
    /// When the last bytes came.
    heard: Moment,
    /// The latest the current stage or phase may last, if there is such a limit.
    pub(super) due: Option<Moment>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: SocketAddr, now: Moment) -> Self {
        Self {
            stream,
            peer,
            reader: Reader::new(peer),
            phase: Phase::Reading,
            rest: Vec::new(),
            unsent: Vec::new(),
            held: Held::default(),
            // Most senders have something to say, and nobody is to be taken for idle unheard.
            input: Input::Some,
            granted: false,
            queued: false,
            since: now,
            heard: now,
            due: None,
        }
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Since when nothing has been under way; none if something is.
    pub(super) fn idle_since(&self) -> Option<Moment> {
        let idle = self.phase == Phase::Reading
            && self.reader.stage() == Stage::Idle
            && self.rest.is_empty()
            && !self.is_readable();
        idle.then_some(self.since)
    }

    /// Since when its sender has left us waiting for more of a body that holds large memory; none
    /// if it is not its sender that we wait for.
    pub(super) fn stalled_since(&self) -> Option<Moment> {
        let stalled = self.phase == Phase::Reading
            && self.held.is_large()
            && matches!(self.reader.stage(), Stage::Body { .. })
            && self.rest.is_empty()
            && !self.granted
            && !self.is_readable();
        stalled.then_some(self.heard)
    }

    /// Whether it has something to do without the kernel saying so.
    pub(super) fn has_work(&self) -> bool {
        match self.phase {
            Phase::Reading => self.is_readable() || self.granted || !self.rest.is_empty(),
            Phase::Lingering => self.is_readable(),
            Phase::Room { .. } | Phase::Waiting(_) | Phase::Writing { .. } => false,
        }
    }

    /// Whether reading may yield something.
    pub(super) fn is_readable(&self) -> bool {
        self.input != Input::None
    }

    /// Goes over to `phase`, which begins `now`.
    pub(super) fn go(&mut self, phase: Phase, now: Moment, limits: &Limits) {
        self.phase = phase;
        self.since = now;
        self.heard = now;
        self.due = self.deadline(limits);
    }

    /// The memory that it waited for is there. Its clock stood still meanwhile.
    pub(super) fn resume(&mut self, now: Moment, limits: &Limits) {
        if let Phase::Room { began } = self.phase {
            self.phase = Phase::Reading;
            self.since = began + now.since(self.since);
            self.heard = now;
            self.granted = true;
            self.due = self.deadline(limits);
        }
    }

    /// When the current stage or phase began.
    pub(super) fn since(&self) -> Moment {
        self.since
    }

    /// Bytes came, and the reader is where it is now; it was in `earlier` before.
    pub(super) fn progressed(&mut self, earlier: Stage, now: Moment, limits: &Limits) {
        let stage = self.reader.stage();
        if std::mem::discriminant(&earlier) != std::mem::discriminant(&stage) {
            self.since = now;
        }
        self.heard = now;
        self.due = self.deadline(limits);
    }

    /// Whether its sender has been silent for so long that this ends the body.
    pub(super) fn ended_in_silence(&self, now: Moment, limits: &Limits) -> bool {
        let Stage::Body { silence, .. } = self.reader.stage() else {
            return false;
        };
        let end = self.end_of_silence(silence, limits);
        self.phase == Phase::Reading && end.is_some_and(|end| end <= now)
    }

    /// When a body is complete if nothing more comes until then.
    fn end_of_silence(&self, silence: Silence, limits: &Limits) -> Option<Moment> {
        match silence {
            Silence::Lost => None,
            Silence::Complete => Some(self.heard + limits.silence),
            Silence::Doubtful => Some(self.heard + limits.pause),
        }
    }

    /// The latest that the current stage or phase may last.
    fn deadline(&self, limits: &Limits) -> Option<Moment> {
        let time = match self.phase {
            Phase::Reading => match self.reader.stage() {
                Stage::Idle => limits.idle,
                Stage::Head => limits.head_time,
                Stage::Body { seen, silence } => {
                    let earned = Duration::from_secs(seen / limits.body_rate.max(1));
                    let due = self.since + limits.body_grace.max(earned);
                    // No rate is asked of the silence that ends a body.
                    let silent = self.end_of_silence(silence, limits);
                    return silent.filter(|_| self.heard <= due).or(Some(due));
                }
            },
            Phase::Room { .. } => limits.memory_wait,
            Phase::Waiting(_) => return None,
            Phase::Writing { .. } => limits.answer_time,
            Phase::Lingering => limits.linger,
        };
        Some(self.since + time)
    }

    /// Reads once, as much as the reader can use.
    pub(super) fn hear(&mut self, scratch: &mut [u8]) -> Heard {
        let most = match self.phase {
            Phase::Lingering => scratch.len(),
            _ => self.reader.wanted(USUAL_READ),
        };
        let most = most.min(scratch.len());
        match self.stream.read(&mut scratch[..most]) {
            Ok(0) => {
                self.input = Input::None;
                Heard::End
            }
            Ok(count) => {
                // Less than asked for: the kernel has no more and will say so when it has.
                // Source: epoll(7), "Questions and answers", 9.
                if count < most && self.input == Input::Some {
                    self.input = Input::None;
                }
                Heard::Bytes(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.input = Input::None;
                Heard::Nothing
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Heard::Nothing,
            Err(_) => Heard::Lost,
        }
    }

    /// Says `bytes`, after what is still unsent. What the sender does not take now is kept.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return self.flush();
        }
        let sent = self.write(bytes)?;
        self.unsent.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    /// Says more of what is unsent, if the sender takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let unsent = std::mem::take(&mut self.unsent);
        let sent = self.write(&unsent)?;
        if sent < unsent.len() {
            self.unsent = unsent;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Whether everything was taken.
    pub(super) fn is_flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Tells the sender that nothing more will be said.
    pub(super) fn hang_up(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}
