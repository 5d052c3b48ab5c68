//! What real senders put on the wire arrives byte for byte: every file of `tests/samples`.

use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};

use gatepost::event::{Digest, Request};
use gatepost::http::Limits;
use serde_json::Value;

use crate::wire::{PATIENCE, Running, answer, closed, say};

/// All samples: their names, what is on the wire, what the description says.
fn samples() -> Vec<(String, Vec<u8>, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let entries = std::fs::read_dir(folder).expect("the samples are there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "http")
        })
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let wire = std::fs::read(&path).expect("a sample can be read");
            let description = std::fs::read_to_string(path.with_extension("json"));
            let description = description.expect("each sample has a description");
            let name = path.file_stem().expect("it has a name");
            (
                name.to_string_lossy().into_owned(),
                wire,
                serde_json::from_str(&description).expect("it is JSON"),
            )
        })
        .collect()
}

fn received(server: &Running, count: usize) -> Vec<Request> {
    let mut requests = Vec::new();
    while requests.len() < count {
        let batch = server.batches.recv_timeout(PATIENCE);
        let batch = batch.expect("all requests of a sample are handed on");
        requests.extend(batch.into_iter().map(|(_, request)| request));
    }
    requests
}

/// 46 is cut short, 47 is not HTTP; 29 has a body that no header announces and is handed on with
/// it all the same.
#[test]
fn every_sample_arrives_byte_for_byte() {
    let samples = samples();
    assert_eq!(samples.len(), 38);
    for half_close in [false, true] {
        let server = Running::echo(Limits {
            silence: std::time::Duration::from_millis(50),
            pause: std::time::Duration::from_millis(50),
            ..Limits::default()
        });
        for (name, wire, description) in &samples {
            let mut stream = server.send(wire);
            if half_close || name.starts_with("46") {
                let shut = stream.shutdown(Shutdown::Write);
                // The server may have closed first: what is not HTTP is not waited for.
                assert!(shut.is_ok() || name.starts_with("47"), "{name}");
            }
            if name.starts_with("46") || name.starts_with("47") {
                closed(&mut stream, name);
                assert_eq!(server.unseen(), 0, "{name}");
                continue;
            }
            assert_arrives(&server, &mut stream, name, description);
            assert_eq!(server.unseen(), 0, "{name}");
        }
    }
}

/// Asserts that all requests of a sample are handed on with their bodies, and answered.
fn assert_arrives(server: &Running, stream: &mut TcpStream, name: &str, description: &Value) {
    let bodies = description["bodies"].as_array().expect("a list of bodies");
    let count = description["requests_in_file"].as_u64().unwrap_or(1);
    let requests = received(server, usize::try_from(count).expect("a small number"));
    let with_body = requests.iter().filter(|request| !request.body.is_empty());
    let found: Vec<String> = with_body
        .map(|request| Digest::of(&request.body).to_string())
        .collect();
    let wanted: Vec<&str> = bodies
        .iter()
        .filter(|body| body["len"] != 0)
        .map(|body| body["sha256"].as_str().expect("a digest"))
        .collect();
    assert_eq!(found, wanted, "{name}");
    for _ in &requests {
        let mut head = answer(stream).0;
        if head.starts_with("HTTP/1.1 100 ") {
            head = answer(stream).0;
        }
        assert!(head.starts_with("HTTP/1.1 202 "), "{name}: {head}");
    }
}

#[test]
fn samples_arrive_however_slowly_they_are_sent() {
    let server = Running::false_time(Limits::default());
    for (name, wire, description) in samples() {
        if name.starts_with("46") || name.starts_with("47") {
            continue;
        }
        let mut stream = server.connect();
        stream.set_nodelay(true).expect("a socket takes that");
        for piece in wire.chunks(37) {
            say(&mut stream, piece);
            server.settle();
        }
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_arrives(&server, &mut stream, &name, &description);
        assert_eq!(server.unseen(), 0, "{name}");
    }
}

#[test]
fn a_sample_keeps_its_form() {
    let server = Running::echo(Limits::default());
    let rows: &[(&str, &[u8])] = &[
        ("21", b"http://10.20.0.9:5002/API"),
        (
            "27",
            b"/hook?value1=Your plant needs water! (26% moisture)&device=esp-0a12",
        ),
        ("48", b"/lf"),
    ];
    for (number, target) in rows {
        let all = samples();
        let (_, wire, _) = all
            .iter()
            .find(|(name, ..)| name.starts_with(number))
            .expect("there is such a sample");
        let _stream = server.send(wire);
        let request = received(&server, 1).remove(0);
        assert_eq!(request.target, *target, "{number}");
        assert!(
            request
                .headers
                .iter()
                .all(|header| !header.name.ends_with(' '))
        );
    }
}
