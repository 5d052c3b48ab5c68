//! Lets senders in, as many as there is room for.
//!
//! With all connections taken, some of them by requests whose senders have left unanswered, an idle
//! one makes room: see [`super::connections::Connections::most_dispensable`]. When none is idle the
//! new sender waits in the kernel's backlog. Running out of file descriptors is the same, found out
//! differently.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Token};

use super::connection::{Connection, Phase};
use super::server::Loop;

/// How many senders one listener lets in before those who are in get their turn.
const AT_ONCE: usize = 64;

/// How long nobody is let in after the system had no means for it.
const PAUSE: Duration = Duration::from_millis(100);

/// `ENFILE` and `EMFILE` of errno(3): the same numbers on every Linux.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];

impl Loop {
    /// Lets in who waits. True if somebody may still wait whom there is room for.
    pub(super) fn accept(&mut self) -> bool {
        if self.accept_again.is_some_and(|again| self.now < again) {
            return false;
        }
        self.accept_again = None;
        let mut more = false;
        for index in 0..self.listeners.len() {
            let mut left = AT_ONCE;
            while self.listeners[index].ready && self.accept_again.is_none() {
                if left == 0 {
                    more = true;
                    break;
                }
                left -= 1;
                if !self.accept_one(index) {
                    break;
                }
            }
        }
        more && self.accept_again.is_none()
    }

    /// Lets one sender in. False if there is no room for it.
    fn accept_one(&mut self, index: usize) -> bool {
        // A request stays when its sender leaves, or who comes and goes could pile them up.
        let taken = self.connections.len() + self.orphans.len();
        let is_full = taken >= self.limits.connections;
        let dispensable = if is_full {
            self.connections.most_dispensable()
        } else {
            None
        };
        if is_full && dispensable.is_none() {
            return false;
        }
        let listener = &mut self.listeners[index];
        match listener.socket.accept() {
            Ok((stream, peer)) => {
                if let Some(slot) = dispensable {
                    self.close(slot);
                }
                self.welcome(stream, peer);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => listener.ready = false,
            Err(error) if is_out_of_descriptors(&error) => {
                match self.connections.most_dispensable() {
                    Some(slot) => self.close(slot),
                    // Those who were let in just now are served first, and then some are idle.
                    None if !self.ready.is_empty() => return false,
                    None => self.pause_accepting(&error),
                }
            }
            // It left before it was let in. Source: accept(2), "Error handling".
            Err(error) if is_the_senders(&error) => {}
            Err(error) => self.pause_accepting(&error),
        }
        true
    }

    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr) {
        // Without it an answer in two packets takes 44 ms (stack.md B1, 17). A socket that refuses
        // is one that has already gone.
        _ = stream.set_nodelay(true);
        let mut connection = Connection::new(stream, peer, self.now);
        let slot = self.connections.next_slot();
        let registered = self.poll.registry().register(
            connection.stream(),
            Token(slot),
            Interest::READABLE | Interest::WRITABLE,
        );
        if let Err(error) = registered {
            self.pause_accepting(&error);
            return;
        }
        connection.go(Phase::Reading, self.now, &self.limits);
        self.connections.insert(connection);
        self.plan(slot);
    }

    fn pause_accepting(&mut self, error: &io::Error) {
        self.accept_again = Some(self.now + PAUSE);
        log::debug!("no device is let in for {} ms: {error}", PAUSE.as_millis());
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code))
}

fn is_the_senders(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
            | ErrorKind::TimedOut
            | ErrorKind::NetworkDown
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
    )
}
