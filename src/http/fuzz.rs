//! The door of the fuzz targets in `tests/fuzz/`, and of the tests beside the reader: what is made
//! of a connection's bytes, however they are cut. Compiled for tests and by cargo-fuzz only.
//!
//! A broken promise is a panic.

use std::net::{Ipv4Addr, SocketAddr};

use super::Limits;
use super::head::Head;
use super::reader::{After, Complete, Reader, Silence, Stage, Step};
use crate::event::Request;

/// What a connection came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Last {
    /// It could go on.
    More,
    /// What came cannot be understood.
    Refused,
    /// What came is no HTTP, or was cut short.
    Closed,
}

/// How the bytes of a connection come.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    /// The lengths of the pieces, over and over.
    pub sizes: &'a [usize],
    /// Whether no memory is there when it is first asked for.
    pub patient: bool,
}

/// What a reader may hold beside what it was given: its own state, a hash.
const SLACK: usize = 1024;

/// Limits that short inputs reach.
pub(super) fn limits() -> Limits {
    Limits {
        head_bytes: 1000,
        max_body: 3000,
        oversize_head: 10,
        oversize_read: 6000,
        ..Limits::default()
    }
}

/// The first request that comes on a connection, if one does before it ends.
#[must_use]
pub fn request(bytes: &[u8]) -> Option<Request> {
    let whole = Pieces {
        sizes: &[usize::MAX],
        patient: false,
    };
    let mut first = None;
    converse(bytes, &Limits::default(), whole, &|| 0, &mut |complete| {
        first.get_or_insert(complete.request);
    });
    first
}

/// Whether the same is read however `bytes` are cut: in `sizes`, byte by byte and whole, with and
/// without memory at hand. `held` says how much memory the process holds.
pub fn cut(bytes: &[u8], sizes: &[usize], held: &dyn Fn() -> usize) {
    let whole = read(bytes, &[usize::MAX], false);
    for sizes in [&[usize::MAX], &[1], sizes] {
        for patient in [false, true] {
            let found = read(bytes, sizes, patient);
            assert_eq!(found, whole, "by {sizes:?}, patient: {patient}");
            let pieces = Pieces { sizes, patient };
            converse(bytes, &limits(), pieces, held, &mut drop);
        }
    }
}

/// Reads `bytes` in pieces of that size with the limits of a gateway, for whoever takes the time.
pub fn read_on(bytes: &[u8], size: usize) {
    let pieces = Pieces {
        sizes: &[size],
        patient: false,
    };
    converse(bytes, &Limits::default(), pieces, &|| 0, &mut drop);
}

/// All requests of a connection with low limits, and what it came to.
pub(super) fn read(bytes: &[u8], sizes: &[usize], patient: bool) -> (Vec<Complete>, Last) {
    let mut requests = Vec::new();
    let pieces = Pieces { sizes, patient };
    let last = converse(bytes, &limits(), pieces, &|| 0, &mut |complete| {
        assert_whole(&complete.request, &limits());
        requests.push(complete);
    });
    (requests, last)
}

/// Feeds a reader as the loop does; then the sender closes.
fn converse(
    bytes: &[u8],
    limits: &Limits,
    pieces: Pieces<'_>,
    held: &dyn Fn() -> usize,
    hear: &mut dyn FnMut(Complete),
) -> Last {
    let before = held();
    let mut reader = Reader::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    let (mut rest, mut granted) = (bytes, 0);
    for size in pieces.sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (mut piece, later) = rest.split_at(rest.len().min(*size));
        rest = later;
        let mut nudge = false;
        while !piece.is_empty() || nudge {
            let mut denied = None;
            let (used, step) = reader.feed(piece, limits, &mut |wanted| {
                let given = !pieces.patient || wanted <= granted;
                *(if given {
                    &mut granted
                } else {
                    denied.get_or_insert(0)
                }) = wanted;
                given
            });
            nudge = false;
            piece = &piece[used..];
            match step {
                Step::More => assert!(piece.is_empty(), "more is wanted, so all was taken"),
                Step::Continue => {}
                Step::Room => {
                    granted = denied.expect("it was denied");
                    reader.grant(granted);
                    nudge = true;
                }
                Step::Complete(complete) => {
                    let after = complete.after;
                    hear(complete);
                    granted = 0;
                    if after == After::Rest {
                        return Last::Closed;
                    }
                }
                Step::Refuse => return Last::Refused,
                Step::Close => return Last::Closed,
            }
            let most = most_held(&reader, granted, limits);
            let holds = held().saturating_sub(before);
            assert!(holds <= most, "{holds} bytes are held, {most} are allowed");
        }
    }
    end(reader, hear)
}

/// The sender closes.
fn end(mut reader: Reader, hear: &mut dyn FnMut(Complete)) -> Last {
    match (reader.stage(), reader.end()) {
        (stage, Step::Complete(complete)) => {
            let lost = Silence::Lost;
            assert!(!matches!(stage, Stage::Body { silence, .. } if silence == lost));
            assert_eq!(complete.after, After::Nothing);
            hear(complete);
            Last::More
        }
        (Stage::Idle, _) => Last::More,
        _ => Last::Closed,
    }
}

/// The most that a reader may hold.
fn most_held(reader: &Reader, granted: usize, limits: &Limits) -> usize {
    SLACK
        + match reader.stage() {
            Stage::Idle => 0,
            // A vector doubles.
            Stage::Head => 2 * limits.head_bytes,
            Stage::Body { .. } => granted.max(Head::highest_cost(limits.head_bytes)),
        }
}

/// A body is as long as its sender said, and as what is kept of it may be.
fn assert_whole(request: &Request, limits: &Limits) {
    let kept = request.body.len() as u64;
    let most = match &request.oversize {
        Some(oversize) => {
            assert!(limits.max_body < oversize.length, "{oversize:?}");
            limits.oversize_head as u64
        }
        None => limits.max_body,
    };
    assert!(kept <= most, "{kept} of at most {most}");
    let declared = request.header("content-length");
    let declared = declared.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let length = request.oversize.as_ref().map_or(kept, |one| one.length);
    assert_eq!(length, declared.unwrap_or(length), "it is as long as said");
}
