//! Device connections: one event loop that reads what senders really put on the wire.
//!
//! # Guarantees
//!
//! - A request is handed on when the last byte of its body is here, and never before: a body that
//!   is shorter than its sender said is dropped with its connection. The one exception is a body
//!   longer than [`Limits::oversize_read`], whose rest is not waited for.
//! - Target, header values and body are the bytes that were sent, without the transfer coding.
//! - One request of a connection is handed on at a time; the next one follows its answer. So
//!   answers leave in order, and a [`Ticket`] of an earlier request reaches nobody.
//! - The only answer made here is 503 with Retry-After: the bytes are not kept, send them again.
//!   Every answer has a length and, unless it answers a HEAD, a body; none is a 204.
//! - No sender can take more than [`Limits`] says: time, memory, connections, turns of the loop.
//!
//! # Limits
//!
//! - It does not know what a request means: no routes, no decoding, no decompression, no
//!   multipart. HTTP/1.x only, no TLS.
//! - Until a request is answered its connection is not read, so a sender that leaves in the
//!   meantime is noticed only if it resets the connection. Its event is kept all the same.
//!
//! Heads are read by httparse; what it declines is read by [`forgiving`]. [`reader`] is the pure
//! part: bytes in, requests out. [`server`], [`serve`] and [`accept`] are the loop around it.

mod accept;
mod answers;
mod body;
mod budget;
mod chunked;
mod connection;
mod connections;
mod forgiving;
mod framing;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod head;
mod reader;
mod reply;
mod serve;
mod server;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

pub use self::answers::Answers;
use self::head::Head;
use self::server::Loop;
use crate::clock::Clock;
use crate::event::Request;

/// What one sender, and all of them together, may take.
///
/// Sources: `devices.md` sections 4 and 6 for what real senders need, DESIGN section 4 for the
/// choice.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest head: request line and header fields. 32 KiB: receivers in the field allow 16
    /// to 64.
    pub head_bytes: usize,
    /// How long a head may take from its first byte to its last, however steadily it drips. 15 s.
    pub head_time: Duration,
    /// The longest body that is kept whole. 16 MiB: ten times the largest found (Uniview, 1.7 MB).
    pub max_body: u64,
    /// How much is kept of a longer body. 4 KiB: enough to see who sent what.
    pub oversize_head: usize,
    /// How much of a longer body is read and hashed before it is answered and its connection
    /// closed. 128 MiB, or 8 × [`Limits::max_body`] with [`Limits::with_max_body`]: a sender that
    /// hears no answer sends the same again, so reading a few minutes of video is cheaper than
    /// hanging up on it for ever.
    pub oversize_read: u64,
    /// How long a body may take before [`Limits::body_rate`] is asked of it. 30 s: senders on
    /// batteries and GSM start slowly.
    pub body_grace: Duration,
    /// Bytes per second that a body must have come at, measured over all of it. 1 KiB/s.
    pub body_rate: u64,
    /// How long nothing may come before there is taken to be no body where none was announced, or
    /// no end of the line after the last chunk. 2 s: shorter than any sender waits for its answer.
    pub silence: Duration,
    /// How long nothing may come before a body is taken to be complete that has begun and whose
    /// length nobody announced. 15 s: a lost packet comes again after 1 s, 3 s or 7 s (RFC 6298
    /// section 2), and half a body must not be acknowledged. Nothing in a body says for certain
    /// that it is whole; a sender that will not wait for so long closes, and that does.
    pub pause: Duration,
    /// How long a connection may stay open between requests. 75 s: longer than the slowest known
    /// keep-alive (`ZKTeco`, 60 s).
    pub idle: Duration,
    /// How many connections may be open, with the requests not yet answered whose senders have
    /// left. 1024; the daemon lowers it where the process may not open so many files.
    pub connections: usize,
    /// Bytes of requests in memory over all connections, heads included, from the end of the head
    /// until they are answered, whether or not their senders are still there. 64 MiB;
    /// [`Limits::with_max_body`] raises it to 4/3 of the longest request. A quarter, and at least
    /// 64 KiB, is kept for requests up to 64 KiB. The rest holds the longest request in any case:
    /// a number too small for that is exceeded.
    pub body_memory: usize,
    /// How long a request may wait, unread, for more of [`Limits::body_memory`]. 10 s: the
    /// strictest senders wait that long for an answer. Then another one is refused whose sender has
    /// been silent for [`Limits::stalled`], or itself.
    pub memory_wait: Duration,
    /// How long the sender of a request above 64 KiB must have been silent to be refused in favour
    /// of one that waits for memory. 5 s: a packet that was lost once or twice is here by then.
    pub stalled: Duration,
    /// How long a sender may take to read its answer. 30 s: an answer fits into one packet.
    pub answer_time: Duration,
    /// How long a closed connection is still read, so that unread bytes do not turn into a reset
    /// that destroys the answer on its way. 2 s. Source: RFC 9112 section 9.6.
    pub linger: Duration,
}

impl Limits {
    /// The limits for bodies up to `max_body` bytes: what depends on that follows it, the rest is
    /// the default.
    #[must_use]
    pub fn with_max_body(max_body: u64) -> Self {
        let mut limits = Self {
            max_body,
            oversize_read: max_body.saturating_mul(8),
            ..Self::default()
        };
        // A quarter is not for large ones.
        let needed = (limits.longest_request() / 3 + 1).saturating_mul(4);
        limits.body_memory = limits.body_memory.max(needed);
        limits
    }

    /// The most memory that one request takes.
    fn longest_request(&self) -> usize {
        let body = usize::try_from(self.max_body).unwrap_or(usize::MAX);
        body.saturating_add(Head::highest_cost(self.head_bytes))
    }
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u32 = 1024 * 1024;
        Self {
            head_bytes: 32 * 1024,
            head_time: Duration::from_secs(15),
            max_body: u64::from(16 * MIB),
            oversize_head: 4096,
            oversize_read: u64::from(8 * 16 * MIB),
            body_grace: Duration::from_secs(30),
            body_rate: 1024,
            silence: Duration::from_secs(2),
            pause: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            connections: 1024,
            body_memory: 64 * MIB as usize,
            memory_wait: Duration::from_secs(10),
            stalled: Duration::from_secs(5),
            answer_time: Duration::from_secs(30),
            linger: Duration::from_secs(2),
        }
    }
}

/// Which request an [`Answer`] is for. No two requests of a process have the same.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ticket {
    slot: usize,
    number: u64,
}

impl Ticket {
    /// A ticket that no connection waits for: for simulations that do without sockets.
    #[must_use]
    pub const fn of_nobody(number: u64) -> Self {
        Self {
            slot: usize::MAX,
            number,
        }
    }
}

/// What a device is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The status code. A 204 is sent as 200: some senders hang on it (arduino-esp32 #3586).
    pub status: u16,
    /// The media type of the body.
    pub content_type: Cow<'static, str>,
    /// The body. An empty one is sent as `OK`: some senders crash on it (nodemcu #3338).
    pub body: Vec<u8>,
    /// How long the sender is asked to wait before it tries again; whole seconds are sent.
    pub retry_after: Option<Duration>,
    /// Whether a user and a password are asked for: `WWW-Authenticate: Basic`.
    pub asks_password: bool,
    /// Whether the connection is closed afterwards, though the sender would keep it.
    pub close: bool,
}

impl Answer {
    /// How long a refused sender is asked to wait.
    pub const RETRY_AFTER: Duration = Duration::from_secs(5);

    /// 200, and nothing more to say.
    #[must_use]
    pub fn ok() -> Self {
        Self {
            status: 200,
            content_type: Cow::Borrowed("text/plain"),
            body: b"OK".to_vec(),
            retry_after: None,
            asks_password: false,
            close: false,
        }
    }

    /// "I do not have your bytes, send them again": 503 with Retry-After.
    #[must_use]
    pub fn refusal() -> Self {
        Self {
            status: 503,
            content_type: Cow::Borrowed("application/json"),
            body: b"{\"received\":false}\n".to_vec(),
            retry_after: Some(Self::RETRY_AFTER),
            asks_password: false,
            close: false,
        }
    }
}

/// Why device connections cannot be served.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system does not let us listen there.
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system does not let us wait for sockets.
    Poll(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { address, .. } => write!(f, "cannot listen on {address}"),
            Self::Poll(_) => f.write_str("cannot wait for device connections"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::Poll(source) => Some(source),
        }
    }
}

/// Listens for devices and hands their requests on.
pub struct Server(Loop);

impl Server {
    /// Listens on all `addresses`; nothing is accepted before [`Server::run`].
    ///
    /// All requests that are complete in one turn of the loop go to `requests` as one batch. Give
    /// it room for [`Limits::connections`] batches and it is never full; if it is, or if nobody
    /// receives, the batch is refused.
    pub fn bind(
        addresses: &[SocketAddr],
        limits: Limits,
        clock: Arc<dyn Clock>,
        requests: Sender<Vec<(Ticket, Request)>>,
    ) -> Result<Self, Error> {
        Loop::new(addresses, limits, clock, requests).map(Self)
    }

    /// Where it listens: what was asked for, with the port that the system chose for port 0.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.0.addresses()
    }

    /// The way back: where answers go, and how the server is told to stop.
    #[must_use]
    pub fn answers(&self) -> Answers {
        self.0.answers()
    }

    /// Serves until [`Answers::stop`], or until everybody is served after [`Answers::drain`].
    pub fn run(self) -> Result<(), Error> {
        self.0.run()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.addresses()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_longest_body_follows_it() {
        const MIB: u64 = 1024 * 1024;
        for max_body in [0, 1, MIB, 16 * MIB, 64 * MIB, 1024 * MIB, u64::MAX] {
            let limits = Limits::with_max_body(max_body);
            assert_eq!(limits.oversize_read, max_body.saturating_mul(8));
            let large = limits.body_memory - limits.body_memory / 4;
            let fits = limits.longest_request() <= large || limits.body_memory == usize::MAX;
            assert!(fits, "{max_body}");
        }
        let usual = Limits::with_max_body(Limits::default().max_body);
        assert_eq!(format!("{usual:?}"), format!("{:?}", Limits::default()));
    }
}
