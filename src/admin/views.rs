//! What the admin API says, as types of its own: the records in the store may change their form,
//! these may only grow.
//!
//! The command line reads them back, so each can be written and read. Times are RFC 3339 in UTC;
//! an age is counted by the gateway's own clock, so a client with a wrong one shows it right.
//! Texts of a device (ids, header values) are given as sent: whoever shows them makes them safe.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::audit::{Action, Totals};
use crate::clock::{Reading, Timestamp};
use crate::delivery::DeadReason;
use crate::event::{Quarantine, Seq};

/// A time, and how long ago it was.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Time {
    /// RFC 3339, UTC, with milliseconds.
    pub at: String,
    /// How long ago, by the gateway's wall clock; 0 for a time in its future.
    pub age_ms: u64,
}

impl Time {
    /// The time `at` as seen `now`.
    #[must_use]
    pub fn of(at: Timestamp, now: Reading) -> Self {
        let age = now.wall.since(at).as_millis();
        Self {
            at: at.to_string(),
            age_ms: u64::try_from(age).unwrap_or(u64::MAX),
        }
    }
}

/// One page of a list. `GET /api/queue`, `/api/dead`, `/api/quarantine`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Page<T> {
    /// The rows, in the order of their keys.
    pub items: Vec<T>,
    /// What to give as `after` for the next page; none: this was the last.
    pub next: Option<String>,
}

/// `GET /api/status`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Status {
    /// The version of the program that answers.
    pub version: String,
    /// Which gateway this is: 16 hexadecimal digits, the first part of every idempotency key.
    pub gateway: String,
    /// Whether the daemon runs. If not, the command line has read the store itself.
    pub running: bool,
    /// Since when the program that answers runs.
    pub started: Time,
    /// Whether the kernel says that the wall clock is synchronised.
    pub clock_certain: bool,
    /// Events in the store, ended ones that are still kept included.
    pub events: u64,
    /// Bytes that count towards `max_size`.
    pub stored_bytes: u64,
    /// Events in quarantine.
    pub quarantined: u64,
    /// How often each thing has happened since the store was created.
    pub totals: Totals,
    /// Devices that were heard of since the daemon started; none if it does not run.
    #[serde(default)]
    pub devices: Option<u64>,
    /// Devices that were expected and are silent; none if no daemon runs.
    #[serde(default)]
    pub silent: Option<u64>,
    /// All destinations that are configured or that something waits for, by number; all that the
    /// store knows if no daemon runs. What has no destination yet is under
    /// [`crate::admin::NO_DESTINATION`].
    pub destinations: Vec<DestinationStatus>,
}

/// One device. `GET /api/devices`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeviceRow {
    /// The route it sends to.
    pub route: String,
    /// Its id, or its address if it has none.
    pub device: String,
    /// When it was heard of last; none: not since the daemon started, though it is expected.
    pub last_seen: Option<Time>,
    /// Whether it was expected and is silent.
    pub silent: bool,
    /// Its events since the daemon started, repeated ones included.
    pub events: u64,
    /// Its heartbeats, polls and handshakes since then.
    pub heartbeats: u64,
    /// Its events since then that were refused though it never sends them again.
    pub lost: u64,
}

/// One destination in [`Status`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DestinationStatus {
    /// Its name.
    pub name: String,
    /// Whether the configuration that runs has it.
    pub configured: bool,
    /// Whether an operator holds it; see `gatepost hold`.
    pub held: bool,
    /// `up`, `down`, `held` or `paused`; none while no daemon runs.
    pub state: Option<String>,
    /// A sentence: how it is, and if it is not up, why and when it is tried next; empty while no
    /// daemon runs.
    pub why: String,
    /// Deliveries still to be made.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Attempts that run now.
    pub in_flight: usize,
    /// Lanes with something to deliver; 0 while no daemon runs.
    pub lanes: usize,
    /// The oldest event that waits for it.
    pub oldest: Option<Oldest>,
}

/// The oldest event that waits for a destination.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Oldest {
    /// Its number.
    pub seq: Seq,
    /// When it was received; none if its record is damaged.
    pub received: Option<Time>,
}

/// What every list says of an event.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct EventHead {
    /// Its number, which the command line takes as `#<seq>`.
    pub seq: Seq,
    /// What it is called in the log: the sender's id made safe, or `#<seq>`.
    pub name: String,
    /// The sender's id for it, as sent.
    pub event_id: Option<String>,
    /// The sender's id for itself, as sent.
    pub device: Option<String>,
    /// The route that took it.
    pub route: Option<String>,
    /// When it was received.
    pub received: Option<Time>,
    /// How many bytes of body were sent.
    pub bytes: u64,
    /// Why its record cannot be read; everything else is missing then.
    pub damaged: Option<String>,
}

/// A row of `GET /api/queue`: a delivery still to be made.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct QueueRow {
    /// Where it goes.
    pub destination: String,
    /// Attempts that counted against it.
    pub attempts: u32,
    /// Whether an operator sent it again.
    pub replayed: bool,
    /// Its event.
    #[serde(flatten)]
    pub event: EventHead,
}

/// A row of `GET /api/dead`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeadRow {
    /// Where it was to go.
    pub destination: String,
    /// Why and since when.
    #[serde(flatten)]
    pub letter: Letter,
    /// Its event.
    #[serde(flatten)]
    pub event: EventHead,
}

/// What is known of a dead letter.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Letter {
    /// Why it will not be tried again by itself.
    pub reason: DeadReason,
    /// Since when.
    pub since: Time,
    /// Attempts that counted against it, the last one included.
    pub attempts: u32,
    /// The last outcome in words.
    pub outcome: String,
    /// The head of the last answer's body, at most [`crate::delivery::Answer::LONGEST_HEAD`]
    /// bytes of it.
    pub answer: String,
}

/// A row of `GET /api/quarantine`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct QuarantineRow {
    /// Why no delivery was made for it, in words.
    pub why: String,
    /// Its event.
    #[serde(flatten)]
    pub event: EventHead,
}

/// `GET /api/events?id=ID`: all events that an operator may mean by `ID`, oldest first.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Found {
    /// At most [`crate::admin::MOST_FOUND`] of them.
    pub events: Vec<EventHead>,
}

/// `GET /api/events/{seq}`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct EventView {
    /// What the lists say of it too.
    #[serde(flatten)]
    pub head: EventHead,
    /// Whether the wall clock was known to be right when it was received.
    pub clock_certain: bool,
    /// When it happened, in the sender's words.
    pub event_time: Option<String>,
    /// How far that is from when it was received, in milliseconds, if that is more than a day and
    /// both are known: it was sent late, or the sender's clock is wrong.
    pub event_time_off_ms: Option<u64>,
    /// How many items it holds, if its route says what one is.
    pub items: Option<u64>,
    /// The address it came from.
    pub peer: String,
    /// The method, spelt as sent.
    pub method: String,
    /// The request target; each byte that is not UTF-8 is replaced.
    pub target: String,
    /// All header fields, in order; bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// How many bytes of the body are kept: less than `bytes` only if it was too long.
    pub kept: u64,
    /// Whether what was kept has expired.
    pub expired: bool,
    /// SHA-256 of what was sent, in hexadecimal.
    pub digest: String,
    /// The earlier event with the same ids but other bytes.
    pub revision_of: Option<Seq>,
    /// What every destination recognises it by.
    pub idempotency_key: String,
    /// Why no delivery was made for it, if so.
    pub quarantine: Option<QuarantineView>,
    /// Its deliveries.
    pub deliveries: Vec<DeliveryView>,
    /// Its audit trail, oldest first.
    pub trail: Vec<TrailLine>,
}

/// The quarantine of an event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct QuarantineView {
    /// Why.
    pub reason: Quarantine,
    /// The same in words.
    pub why: String,
    /// Whether it still waits there for a decision.
    pub waiting: bool,
}

/// One delivery of an event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeliveryView {
    /// Where to.
    pub destination: String,
    /// What became of it.
    pub state: DeliveryState,
    /// Attempts that counted against it; 0 once it has ended.
    pub attempts: u32,
    /// Whether an operator sent it again and it still waits.
    pub replayed: bool,
    /// Set if it is a dead letter.
    pub letter: Option<Letter>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Still to be made.
    Pending,
    /// A dead letter.
    Dead,
    /// It arrived.
    Delivered,
    /// An operator gave it up.
    Discarded,
    /// It was given up for one that matters more, when the store was full.
    Shed,
    /// It no longer waits, and its audit trail has been removed.
    Ended,
}

/// An entry of an audit trail.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TrailLine {
    /// When.
    #[serde(flatten)]
    pub time: Time,
    /// The line of the log: see [`crate::audit::Line`].
    pub line: String,
    /// The same for programs.
    pub entry: Action,
}

/// Body of `POST /api/replay` and `POST /api/discard`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// This event: its dead letters; if it has none, its delivered deliveries. For a discard
    /// also what is pending, and its quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Only what goes to this destination. Without `seq`, for a replay: all its dead letters; for a
    /// discard: all that waits for it, of a destination that is removed or held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// All dead letters (replay only).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Make the deliveries to this destination instead (discard of all of a destination only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to: Option<String>,
    /// Make deliveries to `destination` of what was stored before it was there (replay only).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backfill: bool,
    /// Where an earlier answer to the same selection stopped: its [`Changed::next`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Body of `POST /api/hold` and `POST /api/release`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The name of a destination.
    pub destination: String,
}

/// Body of `POST /api/forget`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    /// The id of a device, or its address if it has none.
    pub device: String,
    /// The route; none: all.
    #[serde(default)]
    pub route: Option<String>,
}

/// Answer to `POST /api/replay|discard|hold|release|forget`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Changed {
    /// How many deliveries or quarantined events, or 1 for a destination.
    pub done: u64,
    /// What could not be done, and why, a sentence each; at most [`Changed::MOST_REFUSED`].
    pub refused: Vec<String>,
    /// How many could not be done.
    pub refused_count: u64,
    /// Set if the selection goes on: send it again with this as `after`.
    pub next: Option<String>,
}

impl Changed {
    /// How many refusals are named.
    pub const MOST_REFUSED: usize = 100;
}

/// An error, `application/problem+json`. Source: RFC 9457.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// `urn:gatepost:problem:<kind>`; the kinds are the names of [`crate::admin::Kind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// What kind of problem it is, in words; the same for all of its kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong here, and what would be right.
    pub detail: String,
    /// Further members.
    #[serde(flatten)]
    pub more: BTreeMap<String, serde_json::Value>,
}
