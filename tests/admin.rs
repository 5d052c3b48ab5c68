//! The admin server of a running gateway: the real binary, its socket and its port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

/// Bounds a test that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running gateway. Killed when it goes out of scope.
struct Gateway {
    process: Child,
    /// Its log. Read all the time, because nobody can log into a full pipe.
    log: Receiver<String>,
    folder: tempfile::TempDir,
}

impl Gateway {
    /// Starts one; also the port that one may look at.
    fn start() -> (Self, SocketAddr) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("gatepost.toml");
        let text = "[ingest]\nlisten = [\"127.0.0.1:0\"]\n[store]\npath = \"events.redb\"\n\
                    [admin]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(&file, text).expect("written");
        let mut process = Command::new(env!("CARGO_BIN_EXE_gatepost"))
            .arg("run")
            .arg("--config")
            .arg(&file)
            .env("RUST_LOG", "info")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let (tell, log) = channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        let gateway = Self {
            process,
            log,
            folder,
        };
        let line = gateway.await_line("[config] admin: listening on http://");
        let (_, rest) = line.split_once("http://").expect("an address");
        let address = rest.split(',').next().unwrap_or_default();
        (gateway, address.parse().expect("an address"))
    }

    /// The next line of the log with `words` in it.
    fn await_line(&self, words: &str) -> String {
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(_) => {}
                Err(error) => unreachable!("it never said {words}: {error}"),
            }
        }
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
        let command = command
            .args(arguments)
            .arg("--data")
            .arg(self.folder.path());
        let output = command.output().expect("the binary runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has seen.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn status(port: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(port).ok()?;
    stream.set_read_timeout(Some(PATIENCE / 10)).ok()?;
    let request = b"GET /api/status HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn the_daemon_is_looked_at_and_changed_while_it_runs() {
    let (gateway, port) = Gateway::start();
    let answer = status(port).expect("an answer");
    assert!(answer.contains("\"running\":true"), "{answer}");
    let (code, out) = gateway.run(&["status"]);
    assert_eq!(code, Some(0));
    assert!(out.contains(": running for "), "{out}");
    assert_eq!(gateway.run(&["replay", "--all"]).0, Some(0));
    assert_eq!(gateway.run(&["hold", "nobody"]).0, Some(1));
}

/// `tiny_http` 0.12 panics in the thread of a connection that is reset before its address was
/// asked for. Here that was the end of the whole gateway, after some two hundred of them.
#[test]
fn whoever_hangs_up_in_the_wrong_moment_ends_nothing() {
    let (gateway, port) = Gateway::start();
    let hang_up = || {
        let mut stream = TcpStream::connect(port).ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").ok()?;
        SockRef::from(&stream).set_linger(Some(Duration::ZERO)).ok()
    };
    let failed =
        |line: String| line.contains("[config] a connection to the admin server ended in a panic");
    let hit = (0..5_000).any(|number| {
        assert!(hang_up().is_some(), "it ended after {number}");
        gateway.log.try_iter().any(failed)
    });
    assert!(hit, "the wrong moment never came");
    assert_eq!(gateway.run(&["status"]).0, Some(0));
    // The thread that panicked may have left a connection waiting; the next one wakes it.
    let answer = (0..10).find_map(|_| status(port));
    assert!(answer.is_some_and(|answer| answer.contains("\"running\":true")));
}
