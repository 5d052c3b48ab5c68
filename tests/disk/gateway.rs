//! A real gateway on a data directory, a device and an upstream.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running gateway. Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    /// Where devices connect.
    pub(crate) address: SocketAddr,
}

impl Gateway {
    /// Starts one that must come up.
    pub(crate) fn start(data: &Path, upstream: Option<SocketAddr>) -> Self {
        Self::try_start(data, upstream).unwrap_or_else(|(code, said)| {
            unreachable!("it ended with {code:?}: {said:?}");
        })
    }

    /// Starts one. If it ends before it listens: its exit code and its log.
    pub(crate) fn try_start(
        data: &Path,
        upstream: Option<SocketAddr>,
    ) -> Result<Self, (Option<i32>, Vec<String>)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
        command
            .args(["run", "--listen", "127.0.0.1:0", "--data"])
            .arg(data);
        command.env_remove("JOURNAL_STREAM").env("RUST_LOG", "info");
        command.env("RUST_BACKTRACE", "0");
        if let Some(upstream) = upstream {
            command.args(["--forward-to", &format!("http://{upstream}/")]);
        }
        let mut child = command
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        let log = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let mut gateway = Self {
            child,
            lines,
            said: Vec::new(),
            address: ([127, 0, 0, 1], 0).into(),
        };
        let Some(line) = gateway.says("listening on ") else {
            let code = gateway.ends();
            return Err((code, std::mem::take(&mut gateway.said)));
        };
        let rest = line.split("listening on ").nth(1).expect("it is in there");
        let address = rest.split(',').next().expect("a part");
        gateway.address = address.parse().expect("an address");
        Ok(gateway)
    }

    /// The first line that has `text` in it, said already or within [`PATIENCE`].
    pub(crate) fn says(&mut self, text: &str) -> Option<String> {
        if let Some(line) = self.said.iter().find(|line| line.contains(text)) {
            return Some(line.clone());
        }
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            self.said.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
    }

    /// Sends an event. The status, or none if the connection ended without an answer.
    pub(crate) fn send(&self, id: &str, size: usize) -> Option<u16> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let body = body_of(id, size);
        let length = body.len();
        let head = format!("POST /ingest/door HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&body).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.split(' ').nth(1)?.parse().ok()
    }

    /// Waits for its end, and gives up after [`PATIENCE`].
    pub(crate) fn ends(&mut self) -> Option<i32> {
        wait_for(|| {
            self.child
                .try_wait()
                .expect("it can be waited for")
                .is_some()
        });
        let status = self.child.try_wait().expect("it can be waited for");
        // What it said last is in the pipe still.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(1)) {
            self.said.push(line);
        }
        status.and_then(|status| status.code())
    }

    /// Asks it to stop, as an init system does.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(asked.expect("kill runs").success());
        self.ends()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Everything it said.
    pub(crate) fn said(&self) -> &[String] {
        &self.said
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command on a data directory.
pub(crate) fn gatepost(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gatepost"))
        .args(arguments)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the binary runs")
}

/// The body of an event: its id, then bytes that follow from it.
pub(crate) fn body_of(id: &str, size: usize) -> Vec<u8> {
    let mut body = format!("{{\"eventId\":\"{id}\",\"deviceId\":\"cam\",\"x\":\"").into_bytes();
    body.extend((0..size).map(|at| b'a' + (at.wrapping_mul(7) % 26).to_le_bytes()[0]));
    body.extend(b"\"}");
    body
}

/// Waits until `done`; whether it was in time.
pub(crate) fn wait_for(mut done: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while !done() {
        if until < Instant::now() {
            return false;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    true
}

/// An upstream that keeps the bodies it was sent, or answers 503 while it is down.
pub(crate) struct Upstream {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Whether it takes anything.
    pub(crate) up: Arc<AtomicBool>,
    got: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Upstream {
    /// Starts one; it ends with the test.
    pub(crate) fn start(up: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (up, got) = (Arc::new(AtomicBool::new(up)), Arc::default());
        let upstream = Self { address, up, got };
        let (up, got) = (Arc::clone(&upstream.up), Arc::clone(&upstream.got));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (up, got) = (Arc::clone(&up), Arc::clone(&got));
                thread::spawn(move || serve(stream, &up, &got));
            }
        });
        upstream
    }

    /// Whether it was sent the body of this event.
    pub(crate) fn has(&self, id: &str, size: usize) -> bool {
        let body = body_of(id, size);
        let got = self.got.lock().expect("no test panics with it");
        got.contains(&body)
    }

    /// How many bodies it was sent.
    pub(crate) fn count(&self) -> usize {
        self.got.lock().expect("no test panics with it").len()
    }
}

/// One request after the other, until the connection ends.
fn serve(stream: TcpStream, up: &AtomicBool, got: &Mutex<Vec<Vec<u8>>>) -> Option<()> {
    let mut out = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let status = if up.load(Relaxed) {
            got.lock().ok()?.push(body);
            "200 OK"
        } else {
            "503 No\r\nRetry-After: 1"
        };
        write!(out, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").ok()?;
    }
}

/// The store's file in a data directory.
pub(crate) fn store_in(data: &Path) -> PathBuf {
    data.join("events.redb")
}
