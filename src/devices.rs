//! Devices: who was heard of since this start, when, and how often.
//!
//! # Guarantees
//!
//! - Hearing of a device costs a look-up in memory and nothing on the disk, so that a heartbeat
//!   every few seconds costs nothing either.
//! - Memory is bounded: beyond [`MOST_DEVICES`] those that were silent the longest are forgotten.
//!
//! # Limits
//!
//! - Nothing of it survives a restart. What was stored is in the store.
//! - A device is what a route's selectors call one; a stranger can invent as many as it likes, and
//!   so make others be forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::{Moment, Reading};

/// How many devices are kept in mind: far more than one site has.
pub const MOST_DEVICES: usize = 4096;

/// All devices that were heard of.
#[derive(Debug, Default)]
pub struct Devices {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// By route, then by sender.
    of: HashMap<String, HashMap<String, Seen>>,
    count: usize,
}

/// What was heard of one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// When it was heard of last.
    pub last: Moment,
    /// The same, by the clocks of the machine.
    pub at: Reading,
    /// Its events, repeated ones included.
    pub events: u64,
    /// Its heartbeats, polls and handshakes.
    pub signals: u64,
    /// Its events that were refused though it never sends them again.
    pub lost: u64,
}

/// What a device was heard of for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// An event.
    Event,
    /// A heartbeat, a poll or a handshake.
    Signal,
}

impl Devices {
    /// Notes that `sender` was heard of on `route`.
    pub fn hear(&self, route: &str, sender: &str, heard: Heard, now: Moment, at: Reading) {
        let mut all = self.lock();
        if let Some(seen) = all.find(route, sender) {
            seen.note(heard, now, at);
            return;
        }
        let mut seen = Seen {
            last: now,
            at,
            events: 0,
            signals: 0,
            lost: 0,
        };
        seen.note(heard, now, at);
        all.add(route, sender, seen);
    }

    /// Notes that an event was refused to a `sender` that never sends it again.
    pub fn lose(&self, route: &str, sender: &str) {
        if let Some(seen) = self.lock().find(route, sender) {
            seen.lost += 1;
        }
    }

    /// All of them: route, sender and what was heard, in that order.
    #[must_use]
    pub fn list(&self) -> Vec<(String, String, Seen)> {
        let all = self.lock();
        let mut list: Vec<_> = all
            .of
            .iter()
            .flat_map(|(route, of)| of.iter().map(move |entry| (route, entry)))
            .map(|(route, (sender, seen))| (route.clone(), sender.clone(), *seen))
            .collect();
        drop(all);
        list.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        list
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().count
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn note(&mut self, heard: Heard, now: Moment, at: Reading) {
        self.last = now;
        self.at = at;
        match heard {
            Heard::Event => self.events += 1,
            Heard::Signal => self.signals += 1,
        }
    }
}

impl All {
    fn find(&mut self, route: &str, sender: &str) -> Option<&mut Seen> {
        self.of.get_mut(route)?.get_mut(sender)
    }

    /// Adds one that is not there.
    fn add(&mut self, route: &str, sender: &str, seen: Seen) {
        if MOST_DEVICES <= self.count {
            self.forget_half();
        }
        self.count += 1;
        let of = self.of.entry(route.to_owned()).or_default();
        of.insert(sender.to_owned(), seen);
    }

    /// Forgets the half that was silent the longest: at once, so that one stranger who invents
    /// devices does not cost a walk over all of them each time.
    fn forget_half(&mut self) {
        let mut last: Vec<Moment> = self
            .of
            .values()
            .flat_map(HashMap::values)
            .map(|seen| seen.last)
            .collect();
        last.sort_unstable();
        let middle = last.get(last.len() / 2).copied().unwrap_or_default();
        let mut room = self.count / 2;
        for of in self.of.values_mut() {
            of.retain(|_, seen| {
                let stays = middle < seen.last && 0 < room;
                room -= usize::from(stays);
                stays
            });
        }
        self.of.retain(|_, of| !of.is_empty());
        self.count = self.of.values().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::at(Duration::from_secs(seconds))
    }

    #[test]
    fn what_is_heard_is_counted_for_each_device_of_each_route() {
        let devices = Devices::default();
        let hear = |route, sender, heard, seconds| {
            devices.hear(route, sender, heard, at(seconds), Reading::default());
        };
        hear("door", "b", Heard::Event, 1);
        hear("door", "a", Heard::Signal, 2);
        hear("cam", "a", Heard::Event, 3);
        hear("door", "a", Heard::Event, 4);
        hear("door", "a", Heard::Signal, 5);
        devices.lose("door", "a");
        devices.lose("door", "unknown");
        let list = devices.list();
        let found: Vec<_> = list
            .iter()
            .map(|(route, sender, seen)| {
                let Seen {
                    last,
                    events,
                    signals,
                    lost,
                    ..
                } = *seen;
                (route.as_str(), sender.as_str(), last, events, signals, lost)
            })
            .collect();
        let expected = [
            ("cam", "a", at(3), 1, 0, 0),
            ("door", "a", at(5), 1, 2, 1),
            ("door", "b", at(1), 1, 0, 0),
        ];
        assert_eq!(found, expected);
        assert_eq!(devices.count(), 3);
    }

    #[test]
    fn invented_devices_take_bounded_memory_and_those_heard_last_stay() {
        let devices = Devices::default();
        for number in 0..3 * MOST_DEVICES as u64 {
            let sender = number.to_string();
            devices.hear(
                "door",
                &sender,
                Heard::Event,
                at(number),
                Reading::default(),
            );
            let signal = Heard::Signal;
            devices.hear("door", "true", signal, at(number), Reading::default());
        }
        assert!(devices.count() <= MOST_DEVICES, "{}", devices.count());
        let list = devices.list();
        assert_eq!(list.len(), devices.count());
        let seen = list.iter().find(|(_, sender, _)| sender == "true");
        let signals = seen.map(|(_, _, seen)| seen.signals);
        assert_eq!(signals, Some(3 * MOST_DEVICES as u64));
        // All at one moment: none is newer than another, and still there is room again.
        let devices = Devices::default();
        for number in 0..3 * MOST_DEVICES {
            devices.hear(
                "a",
                &number.to_string(),
                Heard::Event,
                at(1),
                Reading::default(),
            );
        }
        assert!(devices.count() <= MOST_DEVICES);
    }
}
