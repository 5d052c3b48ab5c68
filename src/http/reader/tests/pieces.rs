//! However the bytes of a connection are cut, the same is read of them.
//!
//! The bytes are the files of `tests/samples`, whole and broken; `SEED=7` repeats one run.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use crate::http::fuzz;
use crate::rng::Rng;

/// How many broken connections are read. The fuzz target `reader` reads as many as it is given
/// time for.
const BROKEN: u64 = 400;

/// What is put somewhere.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b" ",
    b":",
    b"\0",
    b"0\r\n\r\n",
    b"5;x\r\nhello\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"POST /a HTTP/1.0\r\n\r\n",
    b"Content-Length: 4000\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
];

#[test]
fn a_sample_is_read_the_same_in_any_two_pieces() {
    for sample in samples() {
        let whole = fuzz::read(&sample, &[usize::MAX], false);
        for first in 1..sample.len() {
            let found = fuzz::read(&sample, &[first, usize::MAX], first % 2 == 0);
            assert_eq!(found, whole, "{first} of {}", sample.escape_ascii());
        }
    }
}

#[test]
fn broken_connections_are_read_the_same_in_any_pieces() {
    let only = std::env::var("SEED").map(|seed| seed.parse().expect("SEED is a number"));
    let samples = samples();
    for seed in only.map_or(0..BROKEN, |seed| seed..seed + 1) {
        let mut rng = Rng::from_seed(seed);
        let mut bytes = samples[below(samples.len(), &mut rng)].clone();
        for _ in 0..=rng.below(4) {
            bytes = broken(bytes, &samples, &mut rng);
        }
        let sizes = sizes(&mut rng);
        let same = catch_unwind(|| fuzz::cut(&bytes, &sizes, &|| 0));
        assert!(same.is_ok(), "SEED={seed}: {}", bytes.escape_ascii());
    }
}

fn samples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let entries = fs::read_dir(folder).expect("it is there");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "http"))
        .collect();
    paths.sort();
    let read = |path| fs::read(path).expect("it can be read");
    paths.into_iter().map(read).collect()
}

/// `bytes` after one change, mostly where lines end: there a reader decides.
fn broken(mut bytes: Vec<u8>, samples: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut at = below(bytes.len() + 1, rng);
    if rng.below(3) != 0 {
        let feed = bytes[at..].iter().position(|byte| *byte == b'\n');
        at += feed.map_or(0, |feed| feed + 1);
    }
    let end = bytes.len().min(at + below(40, rng));
    match rng.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..at, b"x".repeat(3500))),
        3 => {
            let other = &samples[below(samples.len(), rng)];
            drop(bytes.splice(at.., other.iter().copied()));
        }
        _ => {
            let word = WORDS[below(WORDS.len(), rng)];
            drop(bytes.splice(at..at, word.iter().copied()));
        }
    }
    bytes
}

/// The lengths of some pieces.
fn sizes(rng: &mut Rng) -> Vec<usize> {
    let count = 1 + below(4, rng);
    let mut size = || {
        let most = [2, 8, 100, 2000][below(4, rng)];
        1 + below(most, rng)
    };
    (0..count).map(|_| size()).collect()
}

fn below(limit: usize, rng: &mut Rng) -> usize {
    usize::try_from(rng.below(limit as u64)).expect("it is below a usize")
}
