//! The audit trail: everything that happens to an event, said once.
//!
//! One enum, three renderings: the store keeps an [`Entry`], the log prints it as a [`Line`], and
//! the [`Totals`] count it. There is no second wording.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Reading, Timestamp};
use crate::event::{Event, Quarantine, Seq, printable};

/// Something that happened to an event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Entry {
    /// When, by the wall clock.
    pub at: Timestamp,
    /// Set if nobody knew then whether the clock was right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// What.
    #[serde(flatten)]
    pub action: Action,
}

/// What can happen to an event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// It is on disk. Not kept as an entry: the event's own record says it.
    Received {
        /// The sender's id for itself.
        device: Option<String>,
        /// The route that took it.
        route: Option<String>,
        /// The length of its body.
        bytes: u64,
        /// The earlier event with the same ids and other bytes.
        revision_of: Option<Seq>,
    },
    /// No delivery was made for it. Not kept as an entry either, for the same reason.
    Quarantined {
        /// Why.
        reason: Quarantine,
    },
    /// The same bytes were received again.
    Duplicate {
        /// How often the event has been received by now, the first time included.
        times: u64,
    },
    /// An attempt ended that counts: it settled the delivery or brought its end nearer.
    Attempted {
        /// Where to.
        destination: String,
        /// The attempt's number, from 1.
        number: u32,
        /// What came of it, in words.
        outcome: String,
        /// How long it took.
        took_ms: u64,
        /// What follows.
        then: Then,
    },
    /// It had nowhere to go when it came, and now has.
    Assigned {
        /// Where to.
        destination: String,
    },
    /// An operator sent it again.
    Replayed {
        /// Where to.
        destination: String,
    },
    /// An operator gave it up.
    Discarded {
        /// Where it would have gone; none for an event in quarantine.
        destination: Option<String>,
    },
    /// It was given up for an event that matters more: the store was full, and the operator had
    /// written `when_full = "shed-lowest-priority"`.
    Shed {
        /// Where it would have gone; none if it had no destination yet.
        destination: Option<String>,
        /// Its priority.
        priority: u8,
    },
}

/// How a delivery has ended that no longer waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ending {
    /// It arrived.
    Delivered,
    /// An operator gave it up.
    Discarded,
    /// It made room for one that matters more.
    Shed,
}

impl Ending {
    /// How the delivery to `destination` has ended, as far as the audit trail says.
    #[must_use]
    pub fn of(destination: &str, trail: &[Entry]) -> Option<Self> {
        trail.iter().rev().find_map(|entry| match &entry.action {
            Action::Attempted {
                destination: to,
                then: Then::Delivered,
                ..
            } if to == destination => Some(Self::Delivered),
            Action::Discarded {
                destination: Some(to),
            } if to == destination => Some(Self::Discarded),
            Action::Shed {
                destination: Some(to),
                ..
            } if to == destination => Some(Self::Shed),
            _ => None,
        })
    }
}

/// What follows from an attempt.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Nothing: it has arrived.
    Delivered,
    /// Another attempt.
    RetryIn {
        /// After so long.
        pause_ms: u64,
    },
    /// A decision of an operator.
    Dead,
}

impl Entry {
    /// What happens now.
    #[must_use]
    pub fn new(now: Reading, action: Action) -> Self {
        Self {
            at: now.wall,
            uncertain: !now.certain,
            action,
        }
    }

    /// The entries that a stored event's own record stands for: its arrival, and its quarantine.
    #[must_use]
    pub fn of_arrival(event: &Event) -> Vec<Self> {
        let received = Action::Received {
            device: event.device.clone(),
            route: event.route.clone(),
            bytes: event.length,
            revision_of: event.revision_of,
        };
        let quarantined = event
            .quarantine
            .clone()
            .map(|reason| Action::Quarantined { reason });
        let actions = std::iter::once(received).chain(quarantined);
        actions
            .map(|action| Self::new(event.received, action))
            .collect()
    }
}

/// An entry as the log has it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// What the event is called; see [`Event::name`].
    pub name: &'a str,
    /// Its number.
    pub seq: Seq,
    /// What happened to it.
    pub action: &'a Action,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[event {}] ", self.name)?;
        match self.action {
            Action::Received {
                device,
                route,
                bytes,
                revision_of,
            } => {
                f.write_str("received")?;
                if let Some(device) = device.as_deref().map(printable) {
                    write!(f, " from {device}")?;
                }
                let route = route.as_ref().map(|route| format!(" on {route}"));
                write!(f, "{}, {bytes} bytes", route.unwrap_or_default())?;
                revision_of.map_or(Ok(()), |first| write!(f, ", revision of seq {first}"))
            }
            Action::Quarantined { reason } => write!(f, "quarantined: {reason}"),
            Action::Duplicate { times } => {
                write!(f, "duplicate of seq {}, {} time", self.seq, Ordinal(*times))
            }
            Action::Attempted {
                destination,
                number,
                outcome,
                took_ms,
                then,
            } => match then {
                Then::Delivered => write!(
                    f,
                    "delivered to {destination}: {outcome}, attempt {number} ({took_ms} ms)"
                ),
                Then::RetryIn { pause_ms } => write!(
                    f,
                    "attempt {number} to {destination}: {outcome}, retry in {} ({took_ms} ms)",
                    Pause(Duration::from_millis(*pause_ms))
                ),
                Then::Dead => {
                    write!(f, "dead letter for {destination}: {outcome} ({took_ms} ms)")
                }
            },
            Action::Assigned { destination } => write!(f, "assigned to {destination}"),
            Action::Replayed { destination } => write!(f, "replayed to {destination} by operator"),
            Action::Discarded { destination } => {
                write!(f, "discarded{} by operator", For(destination.as_deref()))
            }
            Action::Shed {
                destination,
                priority,
            } => {
                let whose = For(destination.as_deref());
                write!(
                    f,
                    "given up{whose}: the store is full and its priority is {priority}"
                )
            }
        }
    }
}

/// Where something would have gone, if anywhere.
struct For<'a>(Option<&'a str>);

impl fmt::Display for For<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |to| write!(f, " for {to}"))
    }
}

/// A pause as people say it: `1.1 s`, `5.0 min`.
#[derive(Clone, Copy, Debug)]
pub struct Pause(pub Duration);

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds < 60.0 {
            write!(f, "{seconds:.1} s")
        } else if seconds < 3_600.0 {
            write!(f, "{:.1} min", seconds / 60.0)
        } else if seconds < 48.0 * 3_600.0 {
            write!(f, "{:.1} h", seconds / 3_600.0)
        } else {
            write!(f, "{:.1} days", seconds / 86_400.0)
        }
    }
}

struct Ordinal(u64);

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = match (self.0 % 10, self.0 % 100) {
            (_, 11..=13) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            _ => "th",
        };
        write!(f, "{}{ending}", self.0)
    }
}

/// How often each thing has happened since the store was created. Kept in the same commit as
/// what it counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Totals {
    /// Events put on disk, quarantined ones included.
    pub received: u64,
    /// Requests that repeated a stored event.
    pub duplicates: u64,
    /// Events that no delivery was made for.
    pub quarantined: u64,
    /// Attempts that ended and count.
    pub attempts: u64,
    /// Deliveries that arrived.
    pub delivered: u64,
    /// Deliveries that became dead letters.
    pub dead: u64,
    /// Deliveries that an operator sent again.
    pub replayed: u64,
    /// Deliveries and quarantined events that an operator gave up.
    pub discarded: u64,
    /// Deliveries given up because the store was full.
    pub shed: u64,
}

impl Totals {
    /// Counts one thing that happened. Duplicates are counted as they come, not by their entry,
    /// which stands for many.
    pub fn count(&mut self, action: &Action) {
        match action {
            Action::Received { .. } => self.received += 1,
            Action::Quarantined { .. } => self.quarantined += 1,
            Action::Duplicate { .. } | Action::Assigned { .. } => {}
            Action::Attempted { then, .. } => {
                self.attempts += 1;
                match then {
                    Then::Delivered => self.delivered += 1,
                    Then::RetryIn { .. } => {}
                    Then::Dead => self.dead += 1,
                }
            }
            Action::Replayed { .. } => self.replayed += 1,
            Action::Discarded { .. } => self.discarded += 1,
            Action::Shed { .. } => self.shed += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempted(outcome: &str, number: u32, took_ms: u64, then: Then) -> Action {
        let destination = "cloud".to_owned();
        Action::Attempted {
            destination,
            number,
            outcome: outcome.to_owned(),
            took_ms,
            then,
        }
    }

    fn received(revision_of: Option<Seq>) -> Action {
        Action::Received {
            device: Some("cam-7".to_owned()),
            route: Some("door".to_owned()),
            bytes: 412,
            revision_of,
        }
    }

    #[test]
    fn what_is_given_up_says_why() {
        for (destination, whose) in [(Some("cloud".to_owned()), " for cloud"), (None, "")] {
            let line = Line {
                name: "e-1042",
                seq: Seq(1),
                action: &Action::Shed {
                    destination,
                    priority: 2,
                },
            };
            let why = "the store is full and its priority is 2";
            let words = format!("[event e-1042] given up{whose}: {why}");
            assert_eq!(line.to_string(), words);
        }
    }

    #[test]
    fn each_action_has_its_line() {
        let retry = Then::RetryIn { pause_ms: 1_100 };
        let rows = [
            (received(None), "received from cam-7 on door, 412 bytes"),
            (
                received(Some(Seq(3))),
                "received from cam-7 on door, 412 bytes, revision of seq 3",
            ),
            (
                Action::Quarantined {
                    reason: Quarantine::NoRoute,
                },
                "quarantined: no route has this path",
            ),
            (
                Action::Duplicate { times: 3 },
                "duplicate of seq 88121, 3rd time",
            ),
            (
                attempted("HTTP 503", 1, 41, retry),
                "attempt 1 to cloud: HTTP 503, retry in 1.1 s (41 ms)",
            ),
            (
                attempted("HTTP 202", 2, 38, Then::Delivered),
                "delivered to cloud: HTTP 202, attempt 2 (38 ms)",
            ),
            (
                attempted("HTTP 422", 1, 12, Then::Dead),
                "dead letter for cloud: HTTP 422 (12 ms)",
            ),
            (
                Action::Assigned {
                    destination: "cloud".to_owned(),
                },
                "assigned to cloud",
            ),
            (
                Action::Replayed {
                    destination: "cloud".to_owned(),
                },
                "replayed to cloud by operator",
            ),
            (
                Action::Discarded { destination: None },
                "discarded by operator",
            ),
        ];
        for (action, words) in rows {
            let line = Line {
                name: "e-1042",
                seq: Seq(88_121),
                action: &action,
            };
            assert_eq!(line.to_string(), format!("[event e-1042] {words}"));
        }
    }

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let actions = [
            attempted("HTTP 500", 1, 2, Then::Delivered),
            attempted("HTTP 500", 1, 2, Then::RetryIn { pause_ms: 5 }),
            attempted("HTTP 500", 1, 2, Then::Dead),
            received(Some(Seq(3))),
            Action::Quarantined {
                reason: Quarantine::NoEventId("no body".to_owned()),
            },
            Action::Duplicate { times: 2 },
            Action::Replayed {
                destination: "cloud".to_owned(),
            },
            Action::Discarded { destination: None },
        ];
        for action in actions {
            let entry = Entry {
                at: Timestamp::from_ms(9),
                uncertain: true,
                action,
            };
            let json = serde_json::to_string(&entry).expect("an entry is valid JSON");
            assert_eq!(
                serde_json::from_str::<Entry>(&json).ok(),
                Some(entry),
                "{json}"
            );
        }
    }

    #[test]
    fn ordinals_end_as_in_english() {
        let rows = [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (112, "112th"),
        ];
        for (number, words) in rows {
            assert_eq!(Ordinal(number).to_string(), words);
        }
    }
}
