//! TCP connections whose end is noticed.
//!
//! # Guarantees
//!
//! - Connecting takes no longer than it may, whatever the number of addresses; each gets half of
//!   what the ones before it left, the last all of it.
//! - A peer that acknowledges nothing for [`SILENCE`] is gone, and so is an idle one that answers
//!   no probe: a dead LTE link neither holds a worker until the timeout nor blames the event.
//! - No write takes longer than it may, also if the peer drains it byte by byte.
//! - A peer that answers before it has heard all is heard: a 413 that comes with a closed door must
//!   not look like a broken link, which is tried for ever.

use std::cell::Cell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

use super::outcome::broken;
use crate::clock::{Clock, Moment, SystemClock};

/// How long what was sent may stay unacknowledged (`TCP_USER_TIMEOUT`). Longer than a handover
/// between cells, shorter than the usual timeout of an attempt.
const SILENCE: Duration = Duration::from_secs(20);

/// After so long without a byte the peer is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(10);

/// How often it is asked again; after [`PROBES`] without an answer it is gone.
const INTERVAL: Duration = Duration::from_secs(5);

/// Source: tcp(7); `TCP_USER_TIMEOUT` decides where both are set.
const PROBES: u32 = 2;

/// After so long without progress in sending it is looked whether an answer is there already.
const LOOK: Duration = Duration::from_millis(500);

thread_local! {
    /// Whether this thread's exchange set out to make a new connection.
    static CONNECTED: Cell<bool> = const { Cell::new(false) };
}

/// Begins an exchange on this thread.
pub(super) fn watch() {
    CONNECTED.set(false);
}

/// Whether it set out to make a new connection, since the pool had none to give.
///
/// Source: ureq 3.5, `ConnectionPool::connect`: connectors run on the calling thread, and only
/// when the pool has nothing.
pub(super) fn has_connected() -> bool {
    CONNECTED.get()
}

/// Makes connections.
#[derive(Debug)]
pub(super) struct Dial {
    /// Whether they lead to a proxy, which errors then say.
    pub(super) to_proxy: bool,
    pub(super) clock: Arc<SystemClock>,
}

impl Connector for Dial {
    type Out = Tcp;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Tcp>, Error> {
        CONNECTED.set(true);
        let begun = self.clock.moment();
        let stream = self.dial(&details.addrs, begun, *details.timeout.after);
        let stream = stream.and_then(|stream| watched(&stream).map(|()| stream));
        match stream {
            Ok(stream) => Ok(Some(Tcp {
                stream,
                buffers: LazyBuffers::new(
                    details.config.input_buffer_size(),
                    details.config.output_buffer_size(),
                ),
                clock: Arc::clone(&self.clock),
                begun,
                is_deaf: false,
            })),
            Err(error) if self.to_proxy => {
                let why = format!("can't be reached: {}", broken(&error));
                Err(Error::ConnectProxyFailed(why))
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                Err(Error::Timeout(Timeout::Connect))
            }
            Err(error) => Err(Error::Io(error)),
        }
    }
}

impl Dial {
    fn dial(
        &self,
        addresses: &[SocketAddr],
        begun: Moment,
        limit: Duration,
    ) -> io::Result<TcpStream> {
        let mut last = io::Error::from(ErrorKind::TimedOut);
        for (number, address) in (1..).zip(addresses) {
            let left = limit.saturating_sub(self.clock.moment().since(begun));
            let share = if number == addresses.len() {
                left
            } else {
                left / 2
            };
            if share.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(address, share) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Sets what lets its end be noticed.
fn watched(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let alive = TcpKeepalive::new()
        .with_time(IDLE)
        .with_interval(INTERVAL)
        .with_retries(PROBES);
    socket.set_tcp_keepalive(&alive)?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}

/// A connection.
pub(super) struct Tcp {
    stream: TcpStream,
    buffers: LazyBuffers,
    clock: Arc<SystemClock>,
    begun: Moment,
    /// Whether the peer hears nothing more, but has answered.
    is_deaf: bool,
}

impl Tcp {
    /// What is left of the time that connecting as a whole may take.
    pub(super) fn left(&self, details: &ConnectionDetails<'_>) -> NextTimeout {
        let spent = self.clock.moment().since(self.begun);
        let mut left = details.timeout;
        left.after = left.after.saturating_sub(spent).into();
        left
    }
}

/// The first bytes that wait to be read, as far as they are there.
fn peek(stream: &TcpStream) -> io::Result<[u8; 10]> {
    let mut start = [0; 10];
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut start);
    stream.set_nonblocking(false)?;
    match peeked? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(start),
    }
}

/// Whether these are the first bytes of a final answer. Those of TLS are never.
fn is_answer(start: [u8; 10]) -> bool {
    start.starts_with(b"HTTP/1.") && matches!(start[8..], [b' ', b'2'..=b'9'])
}

impl Transport for Tcp {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let until = self.clock.moment() + *timeout.after;
        let mut rest = &self.buffers.output()[..amount];
        while !rest.is_empty() && !self.is_deaf {
            let left = until.since(self.clock.moment());
            if left.is_zero() {
                return Err(Error::Timeout(timeout.reason));
            }
            self.stream.set_write_timeout(Some(left.min(LOOK)))?;
            match (&self.stream).write(rest) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_deaf = peek(&self.stream).is_ok_and(is_answer);
                }
                Err(error)
                    if peek(&self.stream).is_ok() && error.kind() != ErrorKind::Interrupted =>
                {
                    self.is_deaf = true;
                }
                Err(error) => may_go_on(error, timeout)?,
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let until = self.clock.moment() + *timeout.after;
        loop {
            let left = until.since(self.clock.moment());
            if left.is_zero() {
                return Err(Error::Timeout(timeout.reason));
            }
            self.stream.set_read_timeout(Some(left))?;
            match (&self.stream).read(self.buffers.input_append_buf()) {
                Ok(count) => {
                    self.buffers.input_appended(count);
                    return Ok(count != 0);
                }
                Err(error) => may_go_on(error, timeout)?,
            }
        }
    }

    /// Bytes that nobody asked for also end it: they would be taken for the next answer.
    fn is_open(&mut self) -> bool {
        let is_quiet = peek(&self.stream).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        is_quiet && !self.is_deaf
    }
}

/// Out of time or broken, unless a signal came between.
fn may_go_on(error: io::Error, timeout: NextTimeout) -> Result<(), Error> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        // What the limit that we set for one call is told as; the kernel's own is `TimedOut`.
        ErrorKind::WouldBlock => Err(Error::Timeout(timeout.reason)),
        _ => Err(error.into()),
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tcp").field(&self.stream).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_end_of_a_connection_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let dial = Dial {
            to_proxy: false,
            clock: Arc::new(SystemClock::new()),
        };
        let begun = dial.clock.moment();
        let stream = dial.dial(&[address], begun, Duration::from_secs(5));
        let stream = stream.expect("somebody listens");
        watched(&stream).expect("the kernel knows these options");
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().expect("it can be asked"));
        assert_eq!(socket.tcp_keepalive_time().expect("it can be asked"), IDLE);
        let interval = socket.tcp_keepalive_interval().expect("it can be asked");
        assert_eq!(interval, INTERVAL);
        let silence = socket.tcp_user_timeout().expect("it can be asked");
        assert_eq!(silence, Some(SILENCE));
        assert!(stream.nodelay().expect("it can be asked"));
        // Both end before the usual timeout of an attempt does.
        assert!(SILENCE < crate::config::Destination::TIMEOUT);
        assert!(IDLE + INTERVAL * PROBES <= SILENCE);
    }

    #[test]
    fn an_address_that_refuses_leaves_its_time_to_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let open = listener.local_addr().expect("it is bound");
        let closed = TcpListener::bind("127.0.0.1:0").and_then(|other| other.local_addr());
        let closed = closed.expect("loopback is there");
        let dial = Dial {
            to_proxy: false,
            clock: Arc::new(SystemClock::new()),
        };
        let begun = dial.clock.moment();
        let limit = Duration::from_secs(5);
        assert!(dial.dial(&[closed, open], begun, limit).is_ok());
        let none = dial.dial(&[open], begun, Duration::ZERO).err();
        assert_eq!(none.map(|error| error.kind()), Some(ErrorKind::TimedOut));
    }
}
