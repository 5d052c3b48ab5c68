//! A delivery: one event on its way to one destination, its attempts and what followed.
//!
//! An [`Outcome`] says what the network said and nothing about what it means; a [`Verdict`] says
//! what follows from it. [`crate::retry::classify`] is the only way from one to the other.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::event::{DestinationNo, Lane, Seq};

/// Which delivery: the key of its row in the store.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DeliveryId {
    /// Where to.
    pub destination: DestinationNo,
    /// In which lane of that destination.
    pub lane: Lane,
    /// Which event.
    pub seq: Seq,
}

/// How far a delivery has come that is still to be made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Attempts that count against the event.
    pub attempts: u32,
    /// Whether an operator sent it again.
    pub replayed: bool,
}

/// Which gateway: 64 random bits, drawn when the store is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GatewayId(pub u64);

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What a destination recognises a repeated delivery by: the same over retries, replays and
/// restarts, and never that of another event or gateway.
#[must_use]
pub fn idempotency_key(gateway: GatewayId, seq: Seq) -> String {
    format!("{gateway}-{seq}")
}

/// What came of one attempt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The destination answered.
    Answered(Answer),
    /// The request was sent and no answer came in time: it may have arrived.
    TimedOut,
    /// No request reached the destination: name resolution, connecting or TLS failed, or the
    /// connection ended before an answer. Says which, in words.
    Unreachable(String),
    /// Somebody answered 2xx and did not show what proves that it was the destination: a captive
    /// portal, say. Says what was lacking.
    Unproven(String),
    /// The event's record failed its checksum, so nothing was sent. Says what is damaged.
    Damaged(String),
    /// The body breaks the schema of its route, so nothing was sent. Says where and how.
    Invalid(String),
    /// What we were told about the destination can't be used (a token file that is not there), so
    /// nothing was sent and the event is not to blame: [`Verdict::Hold`]. Says what to mend.
    Misconfigured(String),
    /// Something else went wrong. Says what.
    Failed(String),
}

/// A destination's answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// When to come back, if it said so.
    pub retry_after: Option<RetryAfter>,
    /// The head of the answer's body, at most [`Answer::LONGEST_HEAD`] bytes of it.
    pub head: Vec<u8>,
    /// Those of its header fields that the destination's proof looks at.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Answer {
    /// How much of an answer's body is kept for whoever looks into a dead letter.
    pub const LONGEST_HEAD: usize = 1024;
}

/// A `Retry-After` header. Source: RFC 9110 section 10.2.3.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryAfter {
    /// After so long.
    Delay(Duration),
    /// At that time.
    Date(Timestamp),
}

/// In the words of the log: `HTTP 503`, `no answer in time`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(answer) => write!(f, "HTTP {}", answer.status),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Unreachable(why)
            | Self::Unproven(why)
            | Self::Misconfigured(why)
            | Self::Failed(why) => f.write_str(why),
            Self::Damaged(what) => write!(f, "not sent, {what}"),
            Self::Invalid(how) => write!(f, "not sent, its body breaks the schema: {how}"),
        }
    }
}

/// What follows from an outcome, as far as it can be said without knowing of other deliveries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It arrived.
    Delivered,
    /// This event will never be taken as it is: a dead letter at once.
    Dead,
    /// The event may be at fault or the destination: try again, and count it.
    Retry,
    /// The destination asks for a pause, as long as it says or as long as we think right.
    Pause(Option<RetryAfter>),
    /// Our configuration of the destination is wrong (address, credentials), not the event.
    Hold,
    /// The destination can't be reached.
    Down,
}

/// One attempt that ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// Which delivery was tried.
    pub delivery: DeliveryId,
    /// What had become of it before.
    pub progress: Progress,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// Why a delivery will not be tried again by itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadReason {
    /// The destination refused the event.
    Rejected,
    /// It failed too often.
    Exhausted,
    /// Its record is damaged.
    Damaged,
    /// Its body breaks the schema of its route.
    Invalid,
}

/// A dead letter's record: why, when, and what the destination said last.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeadLetter {
    /// Why.
    pub reason: DeadReason,
    /// Since when.
    pub at: Timestamp,
    /// The lane it goes back to when it is replayed.
    pub lane: Lane,
    /// Attempts that counted against it. A refusal counts none: it is dead at once.
    pub attempts: u32,
    /// The last outcome in words.
    pub outcome: String,
    /// The head of the last answer's body, bytes that are not UTF-8 replaced.
    pub answer: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idempotency_key_names_gateway_and_event() {
        let key = idempotency_key(GatewayId(0x2a), Seq(1042));
        assert_eq!(key, "000000000000002a-1042");
    }
}
