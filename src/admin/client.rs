//! How the command line reaches a gateway: the daemon over its socket, or the store itself.
//!
//! # Guarantees
//!
//! - The same requests have the same answers either way.
//! - An answer that was cut short is an error and never taken for a whole one.
//! - Nothing waits longer than [`PATIENCE`] for a sign of life.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::server::SOCKET;
use super::{Alone, Request, State, Via, answer};
use crate::clock::{Clock, SystemClock};
use crate::commit::{Committer, Retention};
use crate::store::{self, Store, folder_of};

/// How long one read or write may take: longer than the slowest answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A gateway that can be asked.
pub enum Gateway {
    /// The daemon, at its socket.
    Remote(PathBuf),
    /// The store, opened by this process because no daemon runs.
    Local(Box<State>),
}

impl Gateway {
    /// Reaches the gateway whose store is the file `store`: over the socket beside it if a
    /// daemon answers there, otherwise by opening the store.
    pub fn reach(store: &Path) -> Result<Self, Error> {
        let socket = folder_of(store).join(SOCKET);
        let Err(error) = UnixStream::connect(&socket) else {
            return Ok(Self::Remote(socket));
        };
        match error.kind() {
            // The last one: the path is too long, so no daemon listens there.
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::InvalidInput => {}
            _ => return Err(Error::Socket(socket, error)),
        }
        match local(store) {
            Ok(state) => Ok(Self::Local(Box::new(state))),
            Err(store::Error::InUse(_)) => Err(Error::Silent(socket)),
            Err(error) => Err(Error::Store(error)),
        }
    }

    /// Makes one request. `target` is a path with a query. Returns status and body.
    pub fn call(&self, method: &str, target: &str, body: &[u8]) -> Result<(u16, Vec<u8>), Error> {
        match self {
            Self::Remote(socket) => exchange(socket, method, target, body),
            Self::Local(state) => {
                let (path, query) = target.split_once('?').unwrap_or((target, ""));
                let request = Request {
                    method: method.to_owned(),
                    path: path.to_owned(),
                    query: query.to_owned(),
                    body: body.to_vec(),
                    via: Via::Socket,
                };
                let response = answer(&request, state);
                Ok((response.status, response.body))
            }
        }
    }
}

fn local(path: &Path) -> Result<State, store::Error> {
    let store = Arc::new(Store::open_existing(path)?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    // Nothing is admitted here, so no quota is needed; and what expires is for the daemon to say.
    let (writer, time) = (Arc::clone(&store), Arc::clone(&clock));
    let committer = Committer::new(writer, time, u64::MAX, Retention::FOREVER)?;
    Ok(State {
        store,
        destinations: Vec::new(),
        routes: Vec::new(),
        office: Box::new(Alone::new(committer)),
        started: clock.reading(),
        version: env!("CARGO_PKG_VERSION"),
        clock,
    })
}

/// HTTP/1.0, so the answer ends with the connection and nothing is chunked.
fn exchange(
    socket: &Path,
    method: &str,
    target: &str,
    body: &[u8],
) -> Result<(u16, Vec<u8>), Error> {
    let spoken = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = spoken().map_err(|error| Error::Socket(socket.to_owned(), error))?;
    parse(answer).ok_or_else(|| Error::NotWhole(socket.to_owned()))
}

/// Status and body of an answer, if it is one and whole.
fn parse(mut answer: Vec<u8>) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    let status = status.parse().ok()?;
    let length: usize = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    })?;
    answer.drain(..end + 4);
    (answer.len() == length).then_some((status, answer))
}

/// Why a gateway could not be asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The daemon's socket is there but cannot be used.
    Socket(PathBuf, io::Error),
    /// Somebody has the store open and nobody answers at the socket.
    Silent(PathBuf),
    /// What came back is not a whole answer.
    NotWhole(PathBuf),
    /// No daemon runs, and the store could not be opened.
    Store(store::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path, error) if error.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "cannot reach the daemon at {}: run this as root or as a member of the group \
                 that owns the socket",
                path.display()
            ),
            Self::Socket(path, _) => write!(f, "cannot reach the daemon at {}", path.display()),
            Self::Silent(path) => write!(
                f,
                "the store is in use, but no daemon answers at {}: it is starting or stopping, \
                 try again",
                path.display()
            ),
            Self::NotWhole(path) => {
                write!(f, "the answer from {} was cut short", path.display())
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket(_, error) => Some(error),
            Self::Silent(_) | Self::NotWhole(_) => None,
            // Its text is this one's.
            Self::Store(error) => std::error::Error::source(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_one() {
        type Row<'a> = (&'a str, Option<(u16, &'a [u8])>);
        let rows: [Row<'_>; 7] = [
            (
                "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
                Some((200, b"ok")),
            ),
            (
                "HTTP/1.1 404 No\r\nA: b\r\nContent-Length: 0\r\n\r\n",
                Some((404, b"")),
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok", None),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nok", None),
            ("HTTP/1.0 200 OK\r\n\r\nok", None),
            ("HTTP/1.0 200 OK\r\nContent-Le", None),
            ("", None),
        ];
        for (answer, expected) in rows {
            let expected = expected.map(|(status, body)| (status, body.to_vec()));
            assert_eq!(parse(answer.as_bytes().to_vec()), expected, "{answer:?}");
        }
    }
}
