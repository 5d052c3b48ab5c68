//! The server on a real socket and a real port, and the client that speaks to it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::bench::{Bench, CLOUD, body};
use super::client::{self, Gateway};
use super::server::{Error, LONGEST_BODY, LONGEST_PATH, SOCKET, Server};
use super::views::{Changed, Found, Status};

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Bounds a test that hangs.
const PATIENCE: Duration = Duration::from_secs(10);

impl Bench {
    fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// Runs the server while `client` does something, then stops it.
    fn serve(&self, client: impl FnOnce(SocketAddr)) {
        let server = Server::bind(&self.socket(), Some(ANY_PORT)).expect("bound");
        let port = server.tcp_address().expect("a port");
        let handle = server.handle();
        thread::scope(|scope| {
            let running = scope.spawn(|| server.run(&self.state));
            // Stops it however the client ends.
            let stop = Stop(handle);
            client(port);
            drop(stop);
            running.join().expect("no panic").expect("it ran");
        });
    }
}

struct Stop(super::server::Handle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn over_tcp(port: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(port).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(request).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_command_line_sees_and_changes_over_the_socket() {
    let bench = Bench::new();
    bench.send("cam-7", "e 1", &[CLOUD]);
    bench.dead(3, CLOUD);
    bench.serve(|_| {
        let mode = bench.socket().metadata().expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o660);
        let gateway = Gateway::reach(&bench.folder.path().join("events.redb"));
        let gateway = gateway.unwrap_or_else(|error| unreachable!("{error}"));
        assert!(matches!(gateway, Gateway::Remote(_)));
        let call = |method: &str, target: &str, body: &[u8]| {
            let answer = gateway.call(method, target, body);
            answer.unwrap_or_else(|error| unreachable!("{error}"))
        };
        let (status, json) = call("GET", "/api/status", b"");
        let view: Status = serde_json::from_slice(&json).expect("a view");
        assert_eq!((status, view.events), (200, 4));
        let (_, json) = call("GET", "/api/events?id=e%201", b"");
        let found: Found = serde_json::from_slice(&json).expect("a view");
        assert_eq!(found.events.len(), 1);
        assert_eq!(call("GET", "/api/events/0/body", b""), (200, body()));
        let (_, json) = call("POST", "/api/replay", b"{\"all\":true}");
        let changed: Changed = serde_json::from_slice(&json).expect("a view");
        assert_eq!(changed.done, 3);
        assert_eq!(call("POST", "/api/hold", &[b'x'; 5_000]).0, 400);
    });
    assert!(!bench.socket().exists(), "it is gone with its server");
}

#[test]
fn a_browser_may_look_and_not_change() {
    let bench = Bench::new();
    bench.serve(|port| {
        let get = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = over_tcp(port, get).to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 200 "), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        for header in [
            &format!("content-length: {}", body.len()),
            "content-type: application/json",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
            "server: gatepost",
        ] {
            assert!(
                head.lines().any(|line| line == header),
                "{header} in {head}"
            );
        }
        let rebound =
            b"GET /api/status HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
        assert!(over_tcp(port, rebound).starts_with("HTTP/1.1 421 "));
        let post = b"POST /api/replay HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                     Content-Length: 12\r\n\r\n{\"all\":true}";
        assert!(over_tcp(port, post).starts_with("HTTP/1.1 403 "));
        let head = b"HEAD /api/status HTTP/1.0\r\nHost: localhost\r\n\r\n";
        assert!(over_tcp(port, head).ends_with("\r\n\r\n"));
    });
}

#[test]
fn requests_on_one_connection_are_answered_one_by_one() {
    let bench = Bench::new();
    bench.serve(|port| {
        let chunked = "POST /api/hold HTTP/1.1\r\nHost: localhost\r\n\
                       Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let last = "GET /api/nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = over_tcp(port, format!("{chunked}{last}").as_bytes());
        let statuses: Vec<&str> = answer
            .match_indices("HTTP/1.1 ")
            .map(|(at, _)| &answer[at + 9..at + 12])
            .collect();
        assert_eq!(statuses, ["403", "404"], "{answer}");
    });
}

#[test]
fn a_false_length_and_silent_clients_stop_nobody() {
    let bench = Bench::new();
    bench.serve(|port| {
        let (mut liars, mut silent) = (Vec::new(), Vec::new());
        for length in [
            "30000000000",
            "9300000000000000000",
            &(LONGEST_BODY + 1).to_string(),
        ] {
            let mut liar = TcpStream::connect(port).expect("connected");
            let request = format!(
                "GET /api/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
            );
            liar.write_all(request.as_bytes()).expect("sent");
            liars.push(liar);
            let mut client = UnixStream::connect(bench.socket()).expect("connected");
            client.write_all(b"GET /api/st").expect("sent");
            silent.push(client);
        }
        for _ in 0..3 {
            let get = b"GET /api/status HTTP/1.0\r\nHost: localhost\r\n\r\n";
            assert!(over_tcp(port, get).contains(" 200 "));
        }
        let gateway = Gateway::Remote(bench.socket());
        let answer = gateway.call("GET", "/api/status", b"");
        assert_eq!(answer.map(|(status, _)| status).ok(), Some(200));
    });
}

#[test]
fn a_port_that_is_taken_does_not_keep_the_socket_from_working() {
    let bench = Bench::new();
    let taken = TcpListener::bind(ANY_PORT).expect("bound");
    let port = taken.local_addr().expect("an address");
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    for address in [port, everywhere] {
        let server = Server::bind(&bench.socket(), Some(address)).expect("bound");
        assert_eq!(server.tcp_address(), None, "{address}");
    }
}

#[test]
fn a_socket_left_behind_is_replaced_and_anything_else_is_not() {
    let bench = Bench::new();
    drop(UnixListener::bind(bench.socket()).expect("bound"));
    assert!(bench.socket().exists());
    assert!(UnixStream::connect(bench.socket()).is_err());
    bench.serve(|_| {
        UnixStream::connect(bench.socket()).expect("somebody listens again");
    });
    std::fs::write(bench.socket(), b"precious").expect("written");
    let error = Server::bind(&bench.socket(), None).err();
    assert!(matches!(error, Some(Error::Taken(_))), "{error:?}");
}

#[test]
fn a_path_that_is_too_long_is_said_with_its_remedy() {
    let bench = Bench::new();
    let room = LONGEST_PATH - bench.folder.path().as_os_str().len() - 1;
    let path = |length| bench.folder.path().join("x".repeat(length));
    assert!(Server::bind(&path(room), None).is_ok());
    let error = Server::bind(&path(room + 1), None).err().expect("too long");
    let text = error.to_string();
    assert!(text.contains("has 108 bytes"), "{text}");
    assert!(text.contains("choose a shorter data directory"), "{text}");
}

#[test]
fn without_a_daemon_the_store_is_opened_unless_somebody_has_it() {
    let bench = Bench::new();
    let seq = bench.dead(1, CLOUD)[0];
    let store = bench.folder.path().join("events.redb");
    let error = Gateway::reach(&store).err();
    assert!(
        matches!(error, Some(client::Error::Silent(_))),
        "it is in use"
    );
    let Bench {
        state,
        desk,
        folder,
        ..
    } = bench;
    drop((state, desk));
    let gateway = Gateway::reach(&store);
    let gateway = gateway.unwrap_or_else(|error| unreachable!("{error}"));
    assert!(matches!(gateway, Gateway::Local(_)));
    let asked = format!("{{\"seq\":{seq}}}");
    let answer = gateway.call("POST", "/api/replay", asked.as_bytes());
    assert_eq!(answer.map(|(status, _)| status).ok(), Some(200));
    drop(gateway);
    let nowhere = folder.path().join("none/events.redb");
    let error = Gateway::reach(&nowhere).err();
    let missing = matches!(
        error,
        Some(client::Error::Store(crate::store::Error::Missing(_)))
    );
    assert!(missing, "{error:?}");
}
