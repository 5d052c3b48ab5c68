//! An upstream that records what it gets, answers as it is told, and can be away.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// A request that it got, whole.
#[derive(Debug)]
pub(crate) struct Received {
    /// When its last byte was read.
    pub(crate) at: Instant,
    /// `POST /events HTTP/1.1`
    pub(crate) line: String,
    /// Names in lower case, values as sent.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    reply: OnceLock<Reply>,
}

impl Received {
    /// The value of a header, if it is there once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().filter(|(other, _)| other == name);
        let values: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
        assert!(values.len() <= 1, "{name} is there twice: {values:?}");
        values.first().copied()
    }

    /// What the event is called.
    pub(crate) fn name(&self) -> &str {
        self.header("x-gatepost-event").unwrap_or_default()
    }

    pub(crate) fn key(&self) -> &str {
        self.header("idempotency-key").unwrap_or_default()
    }

    /// Whether it was answered 2xx.
    pub(crate) fn was_taken(&self) -> bool {
        matches!(
            self.reply.get(),
            Some(Reply::Status(200..=299) | Reply::Proven(200..=299))
        )
    }

    pub(crate) fn attempt(&self) -> &str {
        self.header("x-gatepost-attempt").unwrap_or_default()
    }
}

/// How it answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// With this status.
    Status(u16),
    /// With this status, and `X-Ack: yes`.
    Proven(u16),
    /// With 503 and a `Retry-After` of so many seconds.
    Later(u32),
    /// Not at all; it closes the connection.
    HangUp,
    /// Not at all; it waits until the other side has gone.
    Never,
}

type Answering = dyn Fn(&Received) -> Reply + Send + Sync;

struct Shared {
    port: u16,
    answering: Box<Answering>,
    received: Mutex<Vec<Arc<Received>>>,
    arrived: Condvar,
    open: Mutex<Vec<TcpStream>>,
    away: AtomicBool,
}

/// The upstream. It is away until [`Upstream::listen`].
pub(crate) struct Upstream {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

impl Upstream {
    /// One that listens and answers as `answering` says.
    pub(crate) fn start(answering: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        // Never without its port in between: other tests look for one too.
        let listener = free_port();
        let mut upstream = Self::at(&listener, answering);
        upstream.serve(listener);
        upstream
    }

    /// One that takes everything.
    pub(crate) fn well() -> Self {
        Self::start(|_| Reply::Status(202))
    }

    /// One that does not listen yet.
    pub(crate) fn away(answering: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::at(&free_port(), answering)
    }

    fn at(
        listener: &TcpListener,
        answering: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("it is bound");
        let shared = Shared {
            port: address.port(),
            answering: Box::new(answering),
            received: Mutex::default(),
            arrived: Condvar::new(),
            open: Mutex::default(),
            away: AtomicBool::new(true),
        };
        Self {
            shared: Arc::new(shared),
            listener: None,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/events", self.shared.port)
    }

    /// Comes back, at the same address.
    pub(crate) fn listen(&mut self) {
        let address = SocketAddr::from(([127, 0, 0, 1], self.shared.port));
        self.serve(TcpListener::bind(address).expect("nobody else has this port"));
    }

    fn serve(&mut self, listener: TcpListener) {
        self.shared.away.store(false, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        self.listener = Some(thread::spawn(move || serve_all(&listener, &shared)));
    }

    /// Goes away: all connections are closed and no new ones taken.
    pub(crate) fn leave(&mut self) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        self.shared.away.store(true, Ordering::SeqCst);
        // It waits for somebody.
        _ = TcpStream::connect(("127.0.0.1", self.shared.port));
        listener.join().expect("the listener does not panic");
        let open = std::mem::take(&mut *lock(&self.shared.open));
        for stream in open {
            // The other side may have been faster.
            _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// All requests so far, in the order in which they came.
    pub(crate) fn received(&self) -> Vec<Arc<Received>> {
        lock(&self.shared.received).clone()
    }

    /// Waits until so many requests have come; all of them.
    pub(crate) fn wait_for(&self, count: usize) -> Vec<Arc<Received>> {
        self.wait_longer(count, PATIENCE)
    }

    pub(crate) fn wait_longer(&self, count: usize, patience: Duration) -> Vec<Arc<Received>> {
        let received = lock(&self.shared.received);
        let few = |all: &mut Vec<_>| all.len() < count;
        let waited = self
            .shared
            .arrived
            .wait_timeout_while(received, patience, few);
        let received = waited.expect("no thread panics with it").0.clone();
        let came = received.len();
        assert!(count <= came, "{came} of {count} requests came");
        received
    }

    /// The names of the events that came, repeated ones too.
    pub(crate) fn names(&self) -> Vec<String> {
        let received = self.received();
        let names = received.iter().map(|received| received.name().to_owned());
        names.collect()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.leave();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}

/// A port outside the range from which the kernel gives out others (32768 and above, ip(7)), so
/// that nobody takes it while we are away.
fn free_port() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    let start = std::process::id().wrapping_mul(97);
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::SeqCst));
        let port = FIRST + start.wrapping_add(next) % COUNT;
        let port = u16::try_from(port).expect("it is below 32000");
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener;
        }
    }
}

fn serve_all(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.away.load(Ordering::SeqCst) {
            return;
        }
        let Ok(clone) = stream.try_clone() else {
            continue;
        };
        lock(&shared.open).push(clone);
        let shared = Arc::clone(shared);
        // A gateway that goes away, or an upstream that does, is part of many tests.
        thread::spawn(move || _ = serve(stream, &shared));
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let received = Arc::new(read(&mut reader)?);
        lock(&shared.received).push(Arc::clone(&received));
        shared.arrived.notify_all();
        let reply = (shared.answering)(&received);
        _ = received.reply.set(reply);
        let (status, more) = match reply {
            Reply::Status(status) => (status, String::new()),
            Reply::Proven(status) => (status, "X-Ack: yes\r\n".to_owned()),
            Reply::Later(seconds) => (503, format!("Retry-After: {seconds}\r\n")),
            // Dropping it is not enough: there is another handle, for when we leave.
            Reply::HangUp => return reader.get_ref().shutdown(Shutdown::Both),
            Reply::Never => return io::copy(&mut reader, &mut io::sink()).map(drop),
        };
        let body = format!("{{\"status\":{status}}}");
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} So\r\n{more}Content-Length: {length}\r\n\r\n{body}");
        reader.get_mut().write_all(answer.as_bytes())?;
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Received> {
    let mut line = || -> io::Result<String> {
        let mut line = String::new();
        match reader.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    };
    let first = line()?;
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim_start().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.expect("gatepost always sends a length")];
    reader.read_exact(&mut body)?;
    Ok(Received {
        at: Instant::now(),
        line: first,
        headers,
        body,
        reply: OnceLock::new(),
    })
}
