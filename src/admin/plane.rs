//! One listener of the admin server: opened, watched, and opened again when it fails.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::Sender;
use log::{error, warn};
use socket2::SockRef;

use super::server::{Error, LONGEST_PATH};

/// How long a reader of an answer may stand still before its connection is given up.
const STALLED: Duration = Duration::from_secs(30);

/// A listener, and where it belongs.
pub(super) struct Plane {
    address: Address,
    listener: Mutex<Option<Arc<tiny_http::Server>>>,
}

/// Where it listens.
pub(super) enum Address {
    /// A Unix socket at this path.
    Socket(PathBuf),
    /// A loopback address.
    Tcp(SocketAddr),
}

/// How long to wait for what.
pub(super) struct Pace {
    /// Before a listener that failed is opened again.
    pub(super) reopen: Duration,
    /// Without a request, until it is looked whether anybody still listens.
    pub(super) watch: Duration,
}

impl Pace {
    /// For a real process.
    pub(super) const USUAL: Self = Self {
        reopen: Duration::from_secs(1),
        watch: Duration::from_secs(60),
    };
}

impl Plane {
    /// Listens there.
    pub(super) fn open(address: Address) -> Result<Self, Error> {
        let listener = address.listen()?;
        // A port that the system chose is kept when the listener is opened again.
        let chosen = listener.server_addr().to_ip().map(Address::Tcp);
        Ok(Self {
            address: chosen.unwrap_or(address),
            listener: Mutex::new(Some(Arc::new(listener))),
        })
    }

    /// Where it listens, if that is a port.
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        match self.address {
            Address::Socket(_) => None,
            Address::Tcp(address) => Some(address),
        }
    }

    /// Hands requests to `workers` until it is to stop.
    ///
    /// `tiny_http`'s accept loop ends at its first error, for instance when the process has no
    /// file descriptor left, or panics and says nothing. Somebody may also remove the socket.
    /// In all these cases it listens anew.
    pub(super) fn receive(&self, workers: &Sender<tiny_http::Request>, stop: &Stop, pace: &Pace) {
        loop {
            let listener = self.lock().clone();
            let why = match listener.as_ref().map(|one| one.recv_timeout(pace.watch)) {
                Some(Ok(Some(request))) => {
                    _ = workers.send(request);
                    continue;
                }
                // Nobody came, or it is to stop.
                Some(Ok(None)) => match self.address.look() {
                    _ if stop.is_set() => return,
                    Ok(()) => continue,
                    Err(error) => Some(error),
                },
                Some(Err(error)) => Some(error),
                None => None,
            };
            if let Some(why) = why {
                error!(
                    "[config] admin: {} failed, opening it again: {why}",
                    self.address
                );
            }
            // Closed before it is opened again: closing removes the socket from its path.
            *self.lock() = None;
            drop(listener);
            if stop.wait(pace.reopen) {
                return;
            }
            match self.address.listen() {
                Ok(listener) => *self.lock() = Some(Arc::new(listener)),
                Err(error) => warn!("[config] admin: {}", error.with_source()),
            }
            if stop.is_set() {
                return;
            }
        }
    }

    /// Ends [`Plane::receive`] if `stop` is set.
    pub(super) fn wake(&self) {
        if let Some(listener) = &*self.lock() {
            listener.unblock();
        }
    }

    /// Listens no more, and removes the socket.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<tiny_http::Server>>> {
        lock(&self.listener)
    }
}

impl Address {
    fn listen(&self) -> Result<tiny_http::Server, Error> {
        let listener: tiny_http::Listener = match self {
            Self::Socket(path) => listen_at(path)?.into(),
            Self::Tcp(address) if !address.ip().is_loopback() => {
                return Err(Error::NotLoopback(*address));
            }
            Self::Tcp(address) => listen_on(*address)
                .map_err(|error| Error::Port(*address, error))?
                .into(),
        };
        tiny_http::Server::from_listener(listener, None)
            .map_err(|error| Error::Start(error.to_string()))
    }

    /// Whether anybody listens there.
    fn look(&self) -> io::Result<()> {
        match self {
            Self::Socket(path) => UnixStream::connect(path).map(drop),
            Self::Tcp(address) => TcpStream::connect(address).map(drop),
        }
    }
}

fn listen_at(path: &Path) -> Result<UnixListener, Error> {
    let length = path.as_os_str().as_bytes().len();
    if LONGEST_PATH < length {
        return Err(Error::LongPath(path.to_owned(), length));
    }
    let failed = |error| Error::Socket(path.to_owned(), error);
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(Error::Taken(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    Ok(listener)
}

/// A connection inherits both options of its listener: without the first an answer of 3 kB takes
/// 44 ms, without the second a reader that stands still blocks a worker for ever (measured,
/// `tiny_http` 0.12). Nothing of the kind works for a Unix socket, whose connections inherit
/// nothing; there the clients are our own and read to the end.
fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    let socket = SockRef::from(&listener);
    socket.set_tcp_nodelay(true)?;
    socket.set_write_timeout(Some(STALLED))?;
    Ok(listener)
}

/// Whether the server is to stop.
#[derive(Default)]
pub(super) struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// It is.
    pub(super) fn set(&self) {
        *lock(&self.stopped) = true;
        self.changed.notify_all();
    }

    /// Whether it is.
    pub(super) fn is_set(&self) -> bool {
        *lock(&self.stopped)
    }

    /// Waits so long, or less if it is to stop; whether it is.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.stopped), pause, |stopped| !*stopped);
        *waited.expect("nothing panics while it holds this lock").0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("nothing panics while it holds this lock")
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crossbeam_channel::bounded;

    use super::*;

    const AT_ONCE: Pace = Pace {
        reopen: Duration::ZERO,
        watch: Duration::from_millis(1),
    };

    /// Breaks a plane, and waits until somebody can connect to it again.
    fn heals(breaks: impl FnOnce(&Plane, &Path)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.sock");
        let plane = Plane::open(Address::Socket(path.clone())).expect("it listens");
        breaks(&plane, &path);
        assert!(UnixStream::connect(&path).is_err(), "it is broken");
        let stop = Stop::default();
        let (workers, requests) = bounded(1);
        thread::scope(|scope| {
            scope.spawn(|| plane.receive(&workers, &stop, &AT_ONCE));
            let healed = (0..10_000_000).any(|_| plane.address.look().is_ok());
            stop.set();
            plane.wake();
            assert!(healed, "nobody listens any more");
        });
        drop(requests);
    }

    #[test]
    fn a_socket_that_was_removed_comes_back() {
        heals(|_, path| fs::remove_file(path).expect("it was there"));
    }

    #[test]
    fn a_listener_that_failed_is_opened_again() {
        heals(|plane, path| {
            plane.close();
            let listener = UnixListener::bind(path).expect("bound");
            // The first thing it accepts is an error.
            listener.set_nonblocking(true).expect("set");
            let listener = tiny_http::Server::from_listener(listener, None);
            *plane.lock() = Some(Arc::new(listener.expect("it runs")));
            while UnixStream::connect(path).is_ok() {
                thread::yield_now();
            }
        });
    }
}
