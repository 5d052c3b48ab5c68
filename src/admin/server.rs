//! Carries [`answer`] over a Unix socket and, if wanted, over a loopback port.
//!
//! # Guarantees
//!
//! - [`Server::bind`] fails only if there is no Unix socket; a port that is taken is a warning,
//!   because devices must be served whether or not anybody looks.
//! - The socket may be used by its owner and its group, nobody else; one that an earlier process
//!   left behind is replaced, and ours is gone once [`Server::run`] has returned.
//! - Each plane has [`WORKERS`] threads of its own: whoever blocks the port cannot keep the
//!   command line out.
//! - A request body is read to its end before the answer, at most [`LONGEST_BODY`] of it, and
//!   every answer has its exact length.
//!
//! # What it does not do
//!
//! `tiny_http` 0.12 must not meet strangers: whoever can connect can use up its threads, and a
//! connection that is reset at once panics one of its threads, which are the only ones of this
//! process without a name. So the port is on loopback or there is none.

use std::fmt;
use std::io::{self, Cursor, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, bounded};
use log::{debug, info, warn};
use tiny_http::{Header, StatusCode};

use super::plane::{Address, Pace, Plane, Stop};
use super::{Request, Response, State, Via, answer};

/// The name of the Unix socket in the data directory.
pub const SOCKET: &str = "admin.sock";

/// Threads that answer, for each of socket and port. A browser opens six connections but seldom
/// waits on more than a few; each thread can be blocked by one slow reader of an answer.
pub const WORKERS: usize = 4;

/// The longest request body that is read, in bytes: 1 MiB.
pub const LONGEST_BODY: u64 = 1024 * 1024;

/// The longest path of a Unix socket: `sun_path` has 108 bytes and ends with a zero.
/// Source: unix(7).
pub const LONGEST_PATH: usize = 107;

/// The admin server, bound and ready to run.
pub struct Server {
    planes: Vec<Arc<Plane>>,
    stop: Arc<Stop>,
}

/// Stops a [`Server`] from another thread.
#[derive(Clone)]
pub struct Handle {
    planes: Vec<Arc<Plane>>,
    stop: Arc<Stop>,
}

impl Server {
    /// Listens on a Unix socket at `socket`, and on `tcp` if that is a loopback address.
    ///
    /// Only the process that has the store open may call this: it takes the socket's path from
    /// whoever had it.
    pub fn bind(socket: &Path, tcp: Option<SocketAddr>) -> Result<Self, Error> {
        let mut planes = vec![Plane::open(Address::Socket(socket.to_owned()))?];
        if let Some(address) = tcp {
            match Plane::open(Address::Tcp(address)) {
                Ok(plane) => {
                    let address = plane.tcp().unwrap_or(address);
                    info!(
                        "[config] admin: listening on http://{address}, to look and not to change"
                    );
                    planes.push(plane);
                }
                Err(error) => warn!(
                    "[config] admin: nobody can look at http://{address}, only the \
                     command line can: {}",
                    error.with_source()
                ),
            }
        }
        let planes = planes.into_iter().map(Arc::new).collect();
        let stop = Arc::default();
        Ok(Self { planes, stop })
    }

    /// What stops it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle {
            planes: self.planes.clone(),
            stop: Arc::clone(&self.stop),
        }
    }

    /// Where it listens for TCP; none if it does not.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.planes.iter().find_map(|plane| plane.tcp())
    }

    /// Answers until [`Handle::stop`], then removes the socket. Requests that were received
    /// before are still answered.
    ///
    /// # Errors
    ///
    /// When there are no threads to be had; nothing is answered then.
    pub fn run(self, state: &State) -> io::Result<()> {
        let started = thread::scope(|scope| {
            let mut started = Ok(());
            for plane in &self.planes {
                let (sender, receiver) = bounded::<tiny_http::Request>(0);
                let stop = &*self.stop;
                let name = || thread::Builder::new().name("admin".to_owned());
                for _ in 0..WORKERS {
                    let (receiver, over_tcp) = (receiver.clone(), plane.tcp().is_some());
                    let work = move || work(&receiver, over_tcp, state);
                    started = started.and(name().spawn_scoped(scope, work).map(drop));
                }
                let plane = Arc::clone(plane);
                let receive = move || plane.receive(&sender, stop, &Pace::USUAL);
                started = started.and(name().spawn_scoped(scope, receive).map(drop));
            }
            if started.is_err() {
                self.handle().stop();
            }
            started
        });
        for plane in &self.planes {
            plane.close();
        }
        started
    }
}

impl Handle {
    /// Makes [`Server::run`] return.
    pub fn stop(&self) {
        self.stop.set();
        for plane in &self.planes {
            plane.wake();
        }
    }
}

fn work(requests: &Receiver<tiny_http::Request>, over_tcp: bool, state: &State) {
    for request in requests {
        if let Err(error) = serve(request, over_tcp, state) {
            debug!("[config] admin: an answer was not read: {error}");
        }
    }
}

fn serve(mut request: tiny_http::Request, over_tcp: bool, state: &State) -> io::Result<()> {
    let Some(body) = read_body(&mut request)? else {
        // Dropping the request would reserve as many bytes as it promised to send, and a false
        // promise ends the process (tiny_http 0.12, `EqualReader::drop`). So it is never
        // dropped: the connection stays open, unanswered, until its client gives up.
        warn!("[config] admin: a request with more than {LONGEST_BODY} bytes is left unanswered");
        std::mem::forget(request);
        return Ok(());
    };
    let (path, query) = match request.url().split_once('?') {
        Some((path, query)) => (path.to_owned(), query.to_owned()),
        None => (request.url().to_owned(), String::new()),
    };
    let via = if over_tcp {
        let host = header(&request, "Host").map(str::to_owned);
        Via::Tcp { host }
    } else {
        Via::Socket
    };
    let method = request.method().as_str().to_owned();
    let asked = Request {
        method,
        path,
        query,
        body,
        via,
    };
    let response = answer(&asked, state);
    debug!(
        "[config] admin: {} {} {}",
        asked.method,
        asked.path.escape_debug(),
        response.status
    );
    request.respond(carried(response))
}

/// The whole body; none if it is longer than [`LONGEST_BODY`].
fn read_body(request: &mut tiny_http::Request) -> io::Result<Option<Vec<u8>>> {
    let declared = request.body_length().unwrap_or(0) as u64;
    if LONGEST_BODY < declared {
        return Ok(None);
    }
    let upgrade = |value: &str| value.to_ascii_lowercase().contains("upgrade");
    let chunked = header(request, "Transfer-Encoding").is_some();
    // tiny_http reads the body of an upgrade until the connection ends. Java's HTTP client asks
    // for one by default.
    if (declared == 0 && !chunked) || header(request, "Connection").is_some_and(upgrade) {
        return Ok(Some(Vec::new()));
    }
    let mut body = Vec::new();
    let mut reader = request.as_reader().take(LONGEST_BODY + 1);
    reader.read_to_end(&mut body)?;
    if body.len() as u64 > LONGEST_BODY {
        return Ok(None);
    }
    if (body.len() as u64) < declared {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(body))
}

fn header<'a>(request: &'a tiny_http::Request, name: &'static str) -> Option<&'a str> {
    let mut headers = request.headers().iter();
    let found = headers.find(|header| header.field.equiv(name))?;
    Some(found.value.as_str())
}

/// What every answer says besides its type: it is not kept, and it is nothing but data.
const ALWAYS: [(&str, &str); 4] = [
    ("Server", "gatepost"),
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    (
        "Content-Security-Policy",
        "default-src 'none'; frame-ancestors 'none'",
    ),
];

fn carried(response: Response) -> tiny_http::Response<Cursor<Vec<u8>>> {
    let own = [
        Some(("Content-Type", response.content_type)),
        response.allow.map(|allow| ("Allow", allow)),
    ];
    let headers = ALWAYS.into_iter().chain(own.into_iter().flatten());
    let headers = headers.filter_map(|(name, value)| Header::from_bytes(name, value).ok());
    let length = response.body.len();
    tiny_http::Response::new(
        StatusCode(response.status),
        headers.collect(),
        Cursor::new(response.body),
        Some(length),
        None,
    )
    .with_chunked_threshold(usize::MAX)
}

/// Why the admin server cannot listen.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The path of the Unix socket is longer than the system can take: the path, its length.
    LongPath(PathBuf, usize),
    /// Something that is not a socket lies where the socket should.
    Taken(PathBuf),
    /// The Unix socket could not be made.
    Socket(PathBuf, io::Error),
    /// The TCP address could not be bound.
    Port(SocketAddr, io::Error),
    /// The TCP address is not a loopback one.
    NotLoopback(SocketAddr),
    /// The server could not be started.
    Start(String),
}

impl Error {
    /// Its text and what caused it.
    pub(super) fn with_source(&self) -> String {
        match self {
            Self::Socket(_, error) | Self::Port(_, error) => format!("{self}: {error}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LongPath(path, length) => write!(
                f,
                "the path of the admin socket has {length} bytes, but the system allows \
                 {LONGEST_PATH}: choose a shorter data directory than that of {}",
                path.display()
            ),
            Self::Taken(path) => write!(
                f,
                "{} is not a socket: move it away, the admin socket belongs there",
                path.display()
            ),
            Self::Socket(path, _) => write!(f, "cannot make the admin socket {}", path.display()),
            Self::Port(address, _) => write!(f, "cannot listen on {address}"),
            Self::NotLoopback(address) => write!(
                f,
                "{address} is not a loopback address: listen on 127.0.0.1 and reach it through \
                 ssh -L"
            ),
            Self::Start(why) => write!(f, "cannot start the admin server: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket(_, error) | Self::Port(_, error) => Some(error),
            _ => None,
        }
    }
}
