//! An event: one request from a device, as received, and the record that is kept of it.
//!
//! # Guarantees
//!
//! - A [`Request`] holds what was on the wire: target, headers and body byte for byte.
//! - An [`Event`] never changes once it is stored. What becomes of it is written elsewhere.
//!
//! Reading a body (ids, signatures) is a view of it and never changes it.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::clock::Reading;

/// The number of an event: arrival order, given by the committer, never reused, no clock in it.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A header field as sent: the name with its spelling, the value byte for byte.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Header {
    /// The name, spelt as the sender did.
    pub name: String,
    /// The value without surrounding blanks. Bytes, because devices send more than ASCII.
    #[serde(with = "latin1")]
    pub value: Vec<u8>,
}

/// One complete request from a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// Who sent it.
    pub peer: SocketAddr,
    /// The method, spelt as sent.
    pub method: String,
    /// The request target as sent: origin form, absolute form, or something worse.
    pub target: Vec<u8>,
    /// All header fields, in order.
    pub headers: Vec<Header>,
    /// The body after removing the transfer coding; of an [`Oversize`] one its first bytes.
    pub body: Vec<u8>,
    /// Set when the body was longer than the gateway keeps.
    pub oversize: Option<Oversize>,
}

impl Request {
    /// The value of the first header called `name`, in any spelling.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        find_header(&self.headers, name)
    }

    /// Path and query of the target, without scheme and authority, fragment cut off.
    ///
    /// Source: RFC 9112 section 3.2; the absolute form is what some recorders send.
    #[must_use]
    pub fn path_and_query(&self) -> (&[u8], Option<&[u8]>) {
        let (path, end) = (self.path_at(), self.end_of_query());
        let query = (path.end < end).then(|| &self.target[path.end + 1..end]);
        if path.is_empty() && 0 < path.start && query.is_none() {
            // Only an authority: its path is the root.
            return (b"/", None);
        }
        (&self.target[path], query)
    }

    /// Where the path is in the target.
    #[must_use]
    pub fn path_at(&self) -> Range<usize> {
        let target = &self.target[..self.end_of_query()];
        let start = match find(target, b"://") {
            Some(at) if target[..at].iter().all(u8::is_ascii_alphanumeric) => {
                let mut rest = target[at + 3..].iter();
                let path = rest.position(|byte| matches!(byte, b'/' | b'?'));
                path.map_or(target.len(), |path| at + 3 + path)
            }
            _ => 0,
        };
        let mark = target[start..].iter().position(|byte| *byte == b'?');
        start..mark.map_or(target.len(), |mark| start + mark)
    }

    /// Where the query is in the target, without its question mark; where it would be if there is
    /// none.
    #[must_use]
    pub fn query_at(&self) -> Range<usize> {
        let end = self.end_of_query();
        (self.path_at().end + 1).min(end)..end
    }

    fn end_of_query(&self) -> usize {
        let fragment = self.target.iter().position(|byte| *byte == b'#');
        fragment.unwrap_or(self.target.len())
    }
}

/// What is known of a body that was too long to keep.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Oversize {
    /// How many bytes were sent.
    pub length: u64,
    /// SHA-256 of what was read.
    pub digest: Digest,
}

/// SHA-256 of a body.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

/// A digest that is fed piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces.
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(serde::de::Error::custom(
                "a digest is 64 hexadecimal digits",
            ));
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16)
                .map_err(serde::de::Error::custom)?;
        }
        Ok(Self(bytes))
    }
}

/// The number of a destination in the store. Given once to each name, never reused.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct DestinationNo(pub u16);

/// Deliveries to one destination that must stay in order.
///
/// A number made from what keeps them together (see [`Lane::of_device`]), so that it means the
/// same after a restart. Two devices whose numbers collide would merely share a lane.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Lane(pub u64);

impl Lane {
    /// Set in lanes without order, whose deliveries may overtake each other.
    const UNORDERED: u64 = 1 << 63;

    /// The lane of one device on one route.
    #[must_use]
    pub fn of_device(route: &str, device: &str) -> Self {
        Self(short_hash(&["device", route, device]) & !Self::UNORDERED)
    }

    /// The lane of a whole route, in order.
    #[must_use]
    pub fn of_route(route: &str) -> Self {
        Self(short_hash(&["route", route]) & !Self::UNORDERED)
    }

    /// The lane of a whole route whose events need no order.
    #[must_use]
    pub fn unordered(route: &str) -> Self {
        Self(short_hash(&["route", route]) | Self::UNORDERED)
    }

    /// A lane that only this event is in: where a failing delivery waits when its neighbours
    /// need not wait for it.
    #[must_use]
    pub fn alone(seq: Seq) -> Self {
        Self(short_hash(&["alone", &seq.to_string()]) & !Self::UNORDERED)
    }

    /// Whether one delivery must end before the next begins.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        self.0 & Self::UNORDERED == 0
    }
}

/// 64 bits of SHA-256 over `parts`, each ended by a zero byte. Stable for ever: it is stored.
#[must_use]
pub fn short_hash<T: AsRef<[u8]>>(parts: &[T]) -> u64 {
    let mut hasher = Hasher::default();
    for part in parts {
        hasher.update(part.as_ref());
        hasher.update(&[0]);
    }
    let digest = hasher.finish();
    u64::from_be_bytes(
        digest.0[..8]
            .try_into()
            .expect("a digest has more than 8 bytes"),
    )
}

/// Why no delivery was made for an event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quarantine {
    /// No route has this path.
    NoRoute,
    /// The route requires an event id and there is none. Says what was looked at.
    NoEventId(String),
    /// The route requires a device id and there is none. Says what was looked at.
    NoDevice(String),
    /// The body is longer than the gateway keeps.
    TooLong,
    /// The route is not for senders of this address.
    Address(IpAddr),
    /// The route asks for a token. Says what is wrong with it, never what was sent.
    Token(String),
    /// The route asks for a user and a password. Likewise.
    Password(String),
    /// The route's events are signed. Likewise.
    Signature(String),
}

impl Quarantine {
    /// What kind of reason it is, in a word: the same for all of its kind, as what else is said of
    /// them is not.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoRoute => "route",
            Self::NoEventId(_) => "event id",
            Self::NoDevice(_) => "device",
            Self::TooLong => "length",
            Self::Address(_) => "address",
            Self::Token(_) => "token",
            Self::Password(_) => "password",
            Self::Signature(_) => "signature",
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => f.write_str("no route has this path"),
            Self::NoEventId(why) => write!(f, "required event id missing: {why}"),
            Self::NoDevice(why) => write!(f, "required device id missing: {why}"),
            Self::TooLong => f.write_str("body longer than max_body"),
            Self::Address(address) => write!(f, "address {address} not allowed"),
            Self::Token(why) => write!(f, "token {why}"),
            Self::Password(why) => write!(f, "password {why}"),
            Self::Signature(why) => write!(f, "signature {why}"),
        }
    }
}

/// Where one event goes: a destination, and the lane it keeps its place in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Address {
    /// Which destination.
    pub destination: DestinationNo,
    /// Which of its lanes.
    pub lane: Lane,
}

/// The record of an event. Immutable once stored; its body lies beside it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Event {
    /// The sender's id for it, as text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_id: Option<String>,
    /// The sender's id for itself, as text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub device: Option<String>,
    /// When it happened, in the sender's words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub event_time: Option<String>,
    /// How many events the request holds, if its route counts them. They stay one event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<u64>,
    /// The route that took it; none if no route has its path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub route: Option<String>,
    /// Who sent it.
    pub peer: SocketAddr,
    /// The method, spelt as sent.
    pub method: String,
    /// The request target as sent, but for a token in it.
    #[serde(with = "latin1")]
    pub target: Vec<u8>,
    /// All header fields, in order, as sent but for a token or a password among them.
    pub headers: Vec<Header>,
    /// When it was received.
    pub received: Reading,
    /// In which start of the machine: orders [`Reading::uptime_ms`] of different ones.
    pub boot: u64,
    /// How many bytes of body were sent.
    pub length: u64,
    /// How many of them are kept; less than `length` only if the body was too long.
    pub kept: u64,
    /// SHA-256 of what was sent.
    pub digest: Digest,
    /// The earlier event with the same ids but other bytes, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revision_of: Option<Seq>,
    /// Why no delivery was made for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quarantine: Option<Quarantine>,
    /// The deliveries that were made for it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub to: Vec<Address>,
    /// How much it matters: its route's, [`USUAL_PRIORITY`] if that says nothing.
    #[serde(skip_serializing_if = "is_usual", default = "usual")]
    pub priority: u8,
}

/// The priority of events whose route names none. Priorities are 0 to 9, and 9 goes first.
pub const USUAL_PRIORITY: u8 = 5;

fn usual() -> u8 {
    USUAL_PRIORITY
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_usual(priority: &u8) -> bool {
    *priority == USUAL_PRIORITY
}

impl Event {
    /// What the event is called in logs, answers and headers: the sender's id made safe, or
    /// `#<seq>` if it has none.
    #[must_use]
    pub fn name(&self, seq: Seq) -> String {
        name(self.event_id.as_deref(), seq)
    }

    /// The value of the first header called `name`, in any spelling.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        find_header(&self.headers, name)
    }
}

/// See [`Event::name`].
#[must_use]
pub fn name(event_id: Option<&str>, seq: Seq) -> String {
    event_id.map_or_else(|| format!("#{seq}"), printable)
}

/// The most characters of a sender's text that go into one log line.
pub const LONGEST_NAME: usize = 64;

/// `text` as it may stand in a log line or a header: printable ASCII only, everything else as
/// `\u{…}`, cut after [`LONGEST_NAME`] characters, never empty, never mistaken for `#<seq>`.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len().min(LONGEST_NAME));
    for (index, character) in text.chars().enumerate() {
        match character {
            _ if index == LONGEST_NAME => {
                safe.push_str("...");
                break;
            }
            '#' if index == 0 => safe.push_str("\\#"),
            ' '..='~' if !matches!(character, ']' | '\\' | '"') => safe.push(character),
            _ => _ = write!(safe, "{}", character.escape_unicode()),
        }
    }
    if safe.trim().is_empty() {
        safe = format!("\"{safe}\"");
    }
    safe
}

fn find_header<'a>(headers: &'a [Header], name: &str) -> Option<&'a [u8]> {
    let header = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(&header.value)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Bytes as text, each byte the character of the same number: any bytes survive JSON unchanged,
/// and ASCII stays readable.
mod latin1 {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) if text.is_ascii() => serializer.serialize_str(text),
            _ => {
                let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
                serializer.serialize_str(&text)
            }
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.chars()
            .map(|character| u8::try_from(u32::from(character)))
            .collect::<Result<_, _>>()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &[u8]) -> Request {
        Request {
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            method: "POST".to_owned(),
            target: target.to_vec(),
            headers: Vec::new(),
            body: Vec::new(),
            oversize: None,
        }
    }

    #[test]
    fn a_target_is_split_whatever_its_form() {
        type Row<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);
        let rows: &[Row<'_>] = &[
            (b"/a/b", b"/a/b", None),
            (b"/a?x=1?2", b"/a", Some(b"x=1?2")),
            (b"/a?", b"/a", Some(b"")),
            (b"/a#frag?no", b"/a", None),
            (b"http://10.0.0.9:8080/API", b"/API", None),
            (b"HTTP://10.0.0.9", b"/", None),
            (b"http://10.0.0.9?x", b"", Some(b"x")),
            (b"/go?to=http://b/c", b"/go", Some(b"to=http://b/c")),
            (b"*", b"*", None),
        ];
        for (target, path, query) in rows {
            let request = request(target);
            let shown = String::from_utf8_lossy(target);
            assert_eq!(request.path_and_query(), (*path, *query), "{shown}");
        }
    }

    #[test]
    fn a_name_is_safe_for_a_log_line() {
        let rows = [
            ("e-1042", "e-1042"),
            ("two words", "two words"),
            (
                "evil\n[event x] delivered",
                "evil\\u{a}[event x\\u{5d} delivered",
            ),
            ("#12", "\\#12"),
            ("", "\"\""),
            ("ไทย", "\\u{e44}\\u{e17}\\u{e22}"),
        ];
        for (id, name) in rows {
            assert_eq!(printable(id), name);
        }
        assert_eq!(printable(&"x".repeat(65)), "x".repeat(64) + "...");
        assert_eq!(printable(&"x".repeat(64)), "x".repeat(64));
        assert_eq!(name(None, Seq(7)), "#7");
    }

    #[test]
    fn any_header_bytes_survive_the_record() {
        let value: Vec<u8> = (0..=255).collect();
        let header = Header {
            name: "X-Bytes".to_owned(),
            value,
        };
        let text = serde_json::to_string(&header).expect("a header is valid JSON");
        let back: Header = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(back, header);
    }

    #[test]
    fn a_digest_prints_as_sha_256_and_reads_back() {
        let digest = Digest::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        let json = serde_json::to_string(&digest).expect("a digest is valid JSON");
        assert_eq!(serde_json::from_str::<Digest>(&json).ok(), Some(digest));
        assert!(serde_json::from_str::<Digest>("\"ba\"").is_err());
        let mut hasher = Hasher::default();
        hasher.update(b"a");
        hasher.update(b"bc");
        assert_eq!(hasher.finish(), digest);
    }

    #[test]
    fn lanes_keep_apart_what_need_not_wait_for_each_other() {
        let one = Lane::of_device("door", "cam-7");
        assert_eq!(one, Lane::of_device("door", "cam-7"));
        assert_ne!(one, Lane::of_device("door", "cam-8"));
        assert_ne!(one, Lane::of_device("gate", "cam-7"));
        assert_ne!(Lane::alone(Seq(1)), Lane::alone(Seq(2)));
        assert!(one.is_ordered() && Lane::of_route("door").is_ordered());
        assert!(Lane::alone(Seq(1)).is_ordered());
        assert!(!Lane::unordered("door").is_ordered());
    }
}
