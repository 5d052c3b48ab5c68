//! The files of `tests/samples`: what is on the wire, and what their descriptions say.

use std::fs;
use std::path::{Path, PathBuf};

use gatepost::event::Digest;
use serde_json::Value;

/// One file of raw requests and its description.
pub(crate) struct Sample {
    /// Its number, two digits.
    pub(crate) id: String,
    /// Every byte that the sender sends.
    pub(crate) wire: Vec<u8>,
    /// What is said of it.
    pub(crate) says: Value,
}

/// A request as it must be stored, read by hand.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) method: String,
    pub(crate) target: Vec<u8>,
    /// Names and values without the blanks around them.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Whether its sender wants the connection to end after the answer.
    pub(crate) closes: bool,
}

/// All samples, by their numbers.
pub(crate) fn samples() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let entries = fs::read_dir(folder).expect("it is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let text = fs::read(&path).expect("it can be read");
        let says: Value = serde_json::from_slice(&text).expect("it is JSON");
        Sample {
            id: says["id"].as_str().expect("it has a number").to_owned(),
            wire: fs::read(path.with_extension("http")).expect("there is one beside it"),
            says,
        }
    };
    let samples: Vec<Sample> = files.into_iter().map(read).collect();
    assert_eq!(samples.len(), 38);
    samples
}

impl Sample {
    /// The requests of the file. None of one that is not HTTP.
    pub(crate) fn requests(&self) -> Vec<Wanted> {
        if self.id == "47" {
            return Vec::new();
        }
        let mut requests = Vec::new();
        let mut rest = self.wire.as_slice();
        while !without_line_ends(rest).is_empty() {
            let (request, after) = first_of(without_line_ends(rest));
            requests.push(request);
            rest = after;
        }
        self.check(&requests);
        requests
    }

    /// A value that the description gives.
    pub(crate) fn value(&self, what: &str) -> Option<&str> {
        self.says[what]["value"].as_str()
    }

    /// Whether it is an event; otherwise a heartbeat, a poll, a handshake, or nothing at all.
    pub(crate) fn is_event(&self) -> bool {
        self.says["is_event"].as_bool().expect("it says so")
    }

    /// Reading by hand may go wrong too: the description knows the bodies.
    fn check(&self, requests: &[Wanted]) {
        let count = self.says["requests_in_file"].as_u64().unwrap_or(1);
        assert_eq!(requests.len() as u64, count, "{}", self.id);
        let bodies = self.says["bodies"].as_array().expect("a list");
        let described = bodies.iter().filter(|body| body["len"] != 0);
        let described: Vec<&str> = described
            .map(|body| body["sha256"].as_str().expect("a digest"))
            .collect();
        let read = requests.iter().filter(|request| !request.body.is_empty());
        let read: Vec<String> = read
            .map(|request| Digest::of(&request.body).to_string())
            .collect();
        assert_eq!(read, described, "{}", self.id);
    }
}

fn without_line_ends(bytes: &[u8]) -> &[u8] {
    let first = bytes.iter().position(|byte| !b"\r\n".contains(byte));
    &bytes[first.unwrap_or(bytes.len())..]
}

/// The first request and what follows it.
fn first_of(bytes: &[u8]) -> (Wanted, &[u8]) {
    let mut lines = Vec::new();
    let mut rest = bytes;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let end = end.expect("a head ends");
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        rest = &rest[end + 1..];
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let line = lines[0].trim_ascii_end();
    let first = line.iter().position(|byte| *byte == b' ');
    let last = line.iter().rposition(|byte| *byte == b' ');
    let (first, last) = (first.expect("a method"), last.expect("a version"));
    let headers = lines[1..].iter().map(|line| {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.expect("a field"));
        let name = String::from_utf8_lossy(name).trim_end().to_owned();
        (name, value[1..].trim_ascii().to_vec())
    });
    let mut request = Wanted {
        method: String::from_utf8_lossy(&line[..first]).into_owned(),
        target: line[first + 1..last].to_vec(),
        headers: headers.collect(),
        body: Vec::new(),
        closes: line.ends_with(b"/1.0"),
    };
    request.closes |= request.has("connection", "close");
    let rest = request.take_body(rest);
    (request, rest)
}

impl Wanted {
    /// Whether a header says just that.
    fn has(&self, name: &str, value: &str) -> bool {
        let found = self.header(name);
        found.is_some_and(|found| found.eq_ignore_ascii_case(value.as_bytes()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        let named = |(other, _): &&(String, Vec<u8>)| other.eq_ignore_ascii_case(name);
        let header = self.headers.iter().find(named);
        header.map(|(_, value)| value.as_slice())
    }

    /// Takes the body from `rest`; what is left.
    fn take_body<'b>(&mut self, rest: &'b [u8]) -> &'b [u8] {
        let length = self.header("content-length").map(|length| {
            let length = std::str::from_utf8(length).expect("digits");
            length.parse::<usize>().expect("digits")
        });
        let length = match length {
            _ if self.has("transfer-encoding", "chunked") => return self.take_chunks(rest),
            Some(length) => length.min(rest.len()),
            None if self.method == "POST" && self.closes => rest.len(),
            None => 0,
        };
        self.body = rest[..length].to_vec();
        &rest[length..]
    }

    fn take_chunks<'b>(&mut self, mut rest: &'b [u8]) -> &'b [u8] {
        loop {
            let end = rest.windows(2).position(|end| end == b"\r\n");
            let end = end.expect("a chunk has a size");
            let size = String::from_utf8_lossy(&rest[..end]).into_owned();
            let size = size.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).expect("a size");
            self.body.extend_from_slice(&rest[end + 2..][..size]);
            rest = &rest[end + 2 + size + 2..];
            if size == 0 {
                return rest;
            }
        }
    }
}
