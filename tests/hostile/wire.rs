//! A real server on loopback, and senders that are not nice to it.

use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::Receiver;
use gatepost::clock::{Clock, Moment, Reading, SystemClock};
use gatepost::event::Request;
use gatepost::http::{Answer, Answers, Error, Limits, Server, Ticket};

/// No wait in a test lasts longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A complete request with a body of two bytes.
pub(crate) const POST: &str = "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";

/// Time as the test wants it.
#[derive(Default)]
pub(crate) struct FalseClock(Mutex<(Moment, Reading)>);

impl FalseClock {
    pub(crate) fn pass(&self, time: Duration) {
        let mut now = self.0.lock().expect("no thread panics with it");
        now.0 = now.0 + time;
    }

    pub(crate) fn set_reading(&self, reading: Reading) {
        self.0.lock().expect("no thread panics with it").1 = reading;
    }
}

impl Clock for FalseClock {
    fn moment(&self) -> Moment {
        self.0.lock().expect("no thread panics with it").0
    }

    fn reading(&self) -> Reading {
        self.0.lock().expect("no thread panics with it").1
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) answers: Answers,
    pub(crate) clock: Arc<FalseClock>,
    pub(crate) batches: Receiver<Vec<(Ticket, Request)>>,
    server: Option<JoinHandle<Result<(), Error>>>,
    handler: Option<JoinHandle<()>>,
}

impl Running {
    /// One whose requests the test answers itself, and whose time it makes.
    pub(crate) fn by_hand(limits: Limits) -> Self {
        let clock = Arc::new(FalseClock::default());
        Self::start(limits, clock.clone(), clock)
    }

    /// One that answers each request with its own body; all requests can be seen in `batches`.
    pub(crate) fn echo(limits: Limits) -> Self {
        Self::start(limits, Arc::new(SystemClock::new()), Arc::default()).with_echo()
    }

    /// The same, with time as the test wants it.
    pub(crate) fn false_time(limits: Limits) -> Self {
        Self::by_hand(limits).with_echo()
    }

    fn start(limits: Limits, clock: Arc<dyn Clock>, false_clock: Arc<FalseClock>) -> Self {
        let (requests, batches) = crossbeam_channel::bounded(limits.connections);
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(&[loopback], limits, clock, requests).expect("port 0 is free");
        Self {
            address: server.addresses()[0],
            answers: server.answers(),
            clock: false_clock,
            batches,
            server: Some(std::thread::spawn(move || server.run())),
            handler: None,
        }
    }

    fn with_echo(mut self) -> Self {
        let answers = self.answers.clone();
        let (seen, batches) = crossbeam_channel::unbounded();
        let requests = std::mem::replace(&mut self.batches, batches);
        self.handler = Some(std::thread::spawn(move || {
            for batch in requests {
                let echoes = batch
                    .iter()
                    .map(|(ticket, request)| (*ticket, echo(request)));
                answers.send(echoes.collect());
                // The test may have seen enough.
                _ = seen.send(batch);
            }
        }));
        self
    }

    /// Lets time pass and makes the server look at its clock. Whatever was sent to it before has
    /// been read by then.
    pub(crate) fn pass(&self, time: Duration) {
        self.settle();
        self.clock.pass(time);
        self.answers.send(Vec::new());
        self.settle();
    }

    /// Returns when the server has read what was sent to it before: it answers a sender that came
    /// later, without the help of a handler.
    pub(crate) fn settle(&self) {
        let mut stream = self.send("GET / HTTP/2.0\r\n\r\n");
        assert!(read_all(&mut stream).starts_with("HTTP/1.1 503 "));
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes a timeout");
        stream
    }

    /// A new connection on which `bytes` were sent.
    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = self.connect();
        say(&mut stream, bytes);
        stream
    }

    /// The next request that the server handed on.
    pub(crate) fn next(&self) -> (Ticket, Request) {
        let mut batch = self
            .batches
            .recv_timeout(PATIENCE)
            .expect("a request is complete");
        assert_eq!(batch.len(), 1, "they come one by one");
        batch.remove(0)
    }

    /// How many requests were handed on and not looked at.
    pub(crate) fn unseen(&self) -> usize {
        self.batches.try_iter().map(|batch| batch.len()).sum()
    }

    /// Waits until so many connections are open.
    pub(crate) fn wait_for_connections(&self, count: usize) {
        let started = SystemClock::new();
        while self.answers.open_connections() != count {
            let open = self.answers.open_connections();
            let waited = started.moment().since(Moment::START);
            assert!(waited < PATIENCE, "{open} are open, not {count}");
            std::thread::yield_now();
        }
    }

    /// Waits for the server to end by itself.
    pub(crate) fn join(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(server) = self.server.take() {
            let ended = server.join().expect("the server does not panic");
            ended.expect("the server does not fail");
        }
        if let Some(handler) = self.handler.take() {
            handler.join().expect("the handler does not panic");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.answers.stop();
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// An answer with the body of the request.
pub(crate) fn echo(request: &Request) -> Answer {
    Answer {
        status: 202,
        content_type: Cow::Borrowed("text/plain"),
        body: request.body.clone(),
        retry_after: None,
        asks_password: false,
        close: false,
    }
}

pub(crate) fn say(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    stream
        .write_all(bytes.as_ref())
        .expect("the server takes what is sent");
}

/// Reads one answer: its head and its body.
pub(crate) fn answer(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        let count = stream.read(&mut byte).expect("an answer comes in time");
        assert_ne!(
            count,
            0,
            "closed after {:?}",
            String::from_utf8_lossy(&head)
        );
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("answers are ASCII");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().expect("a length is a number"));
    let mut body = vec![0; length];
    stream
        .read_exact(&mut body)
        .expect("the body comes in time");
    (head, body)
}

/// Whether the next answer says 202; its body.
pub(crate) fn accepted(stream: &mut TcpStream) -> Vec<u8> {
    let (head, body) = answer(stream);
    assert!(head.starts_with("HTTP/1.1 202 "), "{head}");
    body
}

/// Everything until the server closes, which it must do.
pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => unreachable!("not closed: {error}"),
    }
    String::from_utf8(all).expect("answers are ASCII")
}

/// Asserts that the server closes without a word.
pub(crate) fn closed(stream: &mut TcpStream, what: &str) {
    assert_eq!(read_all(stream), "", "{what}");
}

/// Asserts that the server says 503 and closes, without a reset that could destroy the answer.
pub(crate) fn refused(stream: &mut TcpStream, what: &str) {
    let mut all = String::new();
    let read = stream.read_to_string(&mut all);
    assert!(read.is_ok(), "{what}: {read:?} after {all:?}");
    assert!(all.starts_with("HTTP/1.1 503 "), "{what}: {all:?}");
    assert!(all.contains("\r\nRetry-After: 5\r\n"), "{what}: {all:?}");
    assert!(all.contains("\r\nConnection: close\r\n"), "{what}: {all:?}");
}

/// Whether nothing has come and the connection is open.
pub(crate) fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket can be that");
    let read = stream.read(&mut [0]);
    stream.set_nonblocking(false).expect("a socket can be that");
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}
