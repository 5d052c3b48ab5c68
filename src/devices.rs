//! Devices: who was heard of since this start, when, how often, and who has fallen silent.
//!
//! # Guarantees
//!
//! - Hearing of a device costs a look-up in memory and nothing on the disk, so that a heartbeat
//!   every few seconds costs nothing either.
//! - A device of a route with `expect_every` is silent once nothing was heard of it for so long,
//!   and is so until it is heard of again or forgotten; [`Devices::look`] tells each change once.
//!   Time is monotonic: a clock that jumps silences nobody.
//! - Such devices are expected after a restart too, counted from it, if somebody keeps what
//!   [`Devices::expected`] gives and hands it to [`Devices::expect`]. A camera that forgot its
//!   server in the same power cut would be missed otherwise.
//! - Memory is bounded: beyond [`MOST_DEVICES`] those of the largest route are forgotten that were
//!   silent the longest.
//!
//! # Limits
//!
//! - Times and counts do not survive a restart. What was stored is in the store.
//! - A device is what a route's selectors call one; a stranger can invent as many as it likes, and
//!   so make others of that route be forgotten.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::audit::Pause;
use crate::clock::{Moment, Reading};
use crate::event::printable;

/// How many devices are kept in mind: far more than one site has.
pub const MOST_DEVICES: usize = 4096;

/// The names of devices by their routes.
pub type Expected = BTreeMap<String, Vec<String>>;

/// All devices that were heard of.
#[derive(Debug, Default)]
pub struct Devices {
    /// How often each device of a route is expected to be heard of.
    every: BTreeMap<String, Duration>,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// By route, then by sender.
    of: HashMap<String, HashMap<String, Seen>>,
    count: usize,
    /// How often a device came or went.
    changes: u64,
}

/// What was heard of one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// When it was heard of last; if not yet, when it began to be expected.
    pub last: Moment,
    /// When it was heard of last, by the clocks of the machine; none: not since this start.
    pub at: Option<Reading>,
    /// Its events, repeated ones included.
    pub events: u64,
    /// Its heartbeats, polls and handshakes.
    pub signals: u64,
    /// Its events that were refused though it never sends them again.
    pub lost: u64,
    /// When it was heard of before it fell silent; none: it is not silent.
    pub silent_since: Option<Moment>,
}

/// What a device was heard of for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard {
    /// An event.
    Event,
    /// A heartbeat, a poll or a handshake.
    Signal,
}

/// A device has fallen silent, or is heard of again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Its route.
    pub route: String,
    /// Its id, or its address if it has none.
    pub sender: String,
    /// What has changed.
    pub to: Turn,
}

/// What has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Turn {
    /// It is silent.
    Silent {
        /// For so long.
        after: Duration,
        /// Whether it was heard of since this start.
        was_heard: bool,
        /// How often it is expected.
        every: Duration,
    },
    /// It is heard of again.
    Heard {
        /// How long it was silent in all.
        after: Duration,
    },
}

impl Devices {
    /// Those of the routes in `every` are expected to be heard of so often.
    #[must_use]
    pub fn new(every: BTreeMap<String, Duration>) -> Self {
        Self {
            every,
            all: Mutex::default(),
        }
    }

    /// Expects these from `now` on, if their routes expect anybody: they were known before.
    pub fn expect(&self, names: Expected, now: Moment) {
        let mut all = self.lock();
        for (route, senders) in names {
            if !self.every.contains_key(&route) {
                continue;
            }
            for sender in senders {
                if all.find(&route, &sender).is_none() {
                    all.add(&route, &sender, Seen::since(now));
                }
            }
        }
    }

    /// Who is to be expected after a restart, if that is not what it was at this number of
    /// `changes`; and the number that it is now.
    pub fn expected(&self, changes: u64) -> Option<(Expected, u64)> {
        let all = self.lock();
        if all.changes == changes || self.every.is_empty() {
            return None;
        }
        let senders = |route: &String| {
            let of = all.of.get(route).into_iter().flatten();
            let mut senders: Vec<String> = of.map(|(sender, _)| sender.clone()).collect();
            senders.sort_unstable();
            (route.clone(), senders)
        };
        Some((self.every.keys().map(senders).collect(), all.changes))
    }

    /// Who has fallen silent by `now`, and who is heard of again; each is said once.
    pub fn look(&self, now: Moment) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut all = self.lock();
        for (route, every) in &self.every {
            for (sender, seen) in all.of.get_mut(route).into_iter().flatten() {
                if let Some(to) = seen.turn(*every, now) {
                    let (route, sender) = (route.clone(), sender.clone());
                    changes.push(Change { route, sender, to });
                }
            }
        }
        drop(all);
        changes.sort_by(|one, other| (&one.route, &one.sender).cmp(&(&other.route, &other.sender)));
        changes
    }

    /// Forgets `sender`, on `route` or on all. How many that were.
    pub fn forget(&self, route: Option<&str>, sender: &str) -> u64 {
        self.lock().forget(route, sender)
    }

    /// Notes that `sender` was heard of on `route`.
    pub fn hear(&self, route: &str, sender: &str, heard: Heard, now: Moment, at: Reading) {
        let mut all = self.lock();
        if let Some(seen) = all.find(route, sender) {
            seen.note(heard, now, at);
            return;
        }
        let mut seen = Seen::since(now);
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

    /// How many were heard of since this start, and how many are silent.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let all = self.lock();
        let seen = || all.of.values().flat_map(HashMap::values);
        let heard = seen().filter(|seen| seen.at.is_some()).count();
        let silent = seen().filter(|seen| seen.silent_since.is_some()).count();
        (heard, silent)
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Nothing was heard of it, and it is expected since `now`.
    fn since(now: Moment) -> Self {
        Self {
            last: now,
            at: None,
            events: 0,
            signals: 0,
            lost: 0,
            silent_since: None,
        }
    }

    /// Whether it falls silent at `now`, or is heard of again.
    fn turn(&mut self, every: Duration, now: Moment) -> Option<Turn> {
        let after = now.since(self.last);
        match self.silent_since {
            None if every < after => {
                self.silent_since = Some(self.last);
                let was_heard = self.at.is_some();
                Some(Turn::Silent {
                    after,
                    was_heard,
                    every,
                })
            }
            Some(since) if since < self.last => {
                self.silent_since = None;
                let after = self.last.since(since);
                Some(Turn::Heard { after })
            }
            _ => None,
        }
    }

    fn note(&mut self, heard: Heard, now: Moment, at: Reading) {
        self.last = now;
        self.at = Some(at);
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
            self.forget_many();
        }
        self.count += 1;
        self.changes += 1;
        let of = self.of.entry(route.to_owned()).or_default();
        of.insert(sender.to_owned(), seen);
    }

    fn forget(&mut self, route: Option<&str>, sender: &str) -> u64 {
        let is_meant = |name: &String| route.is_none_or(|route| route == name);
        let of = self.of.iter_mut().filter(|(name, _)| is_meant(name));
        let gone = of.filter_map(|(_, of)| of.remove(sender)).count();
        self.count -= gone;
        self.changes += u64::from(0 < gone);
        gone as u64
    }

    /// Forgets those of the largest route that were silent the longest, half of them: at once, so
    /// that one stranger who invents devices does not cost a walk over all of them each time.
    fn forget_many(&mut self) {
        let Some(of) = self.of.values_mut().max_by_key(|of| of.len()) else {
            return;
        };
        let before = of.len();
        let mut last: Vec<Moment> = of.values().map(|seen| seen.last).collect();
        last.sort_unstable();
        let middle = last.get(before / 2).copied().unwrap_or_default();
        of.retain(|_, seen| middle < seen.last);
        self.count -= before - of.len();
        self.changes += 1;
    }
}

/// What the log says of it: `cam-7 on door: nothing was heard of it for 10.2 min, …`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sender, route) = (printable(&self.sender), &self.route);
        match self.to {
            Turn::Silent {
                after,
                was_heard,
                every,
            } => {
                let (after, every) = (Pause(after), Pause(every));
                let since = if was_heard { "" } else { "since the start, " };
                write!(
                    f,
                    "{sender} on {route}: nothing was heard of it {since}for {after}, it is \
                     expected every {every}"
                )
            }
            Turn::Heard { after } => {
                let after = Pause(after);
                write!(
                    f,
                    "over: {sender} on {route} is heard of again, after {after}"
                )
            }
        }
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
        assert_eq!(devices.counts(), (3, 0));
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
        let list = devices.list();
        assert!(list.len() <= MOST_DEVICES, "{}", list.len());
        assert_eq!(list.len(), devices.counts().0);
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
        assert!(devices.counts().0 <= MOST_DEVICES);
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// Devices of a door that are expected every minute.
    fn watched() -> Devices {
        Devices::new(BTreeMap::from([("door".to_owned(), MINUTE)]))
    }

    fn hear(devices: &Devices, route: &str, sender: &str, seconds: u64) {
        devices.hear(
            route,
            sender,
            Heard::Signal,
            at(seconds),
            Reading::default(),
        );
    }

    fn said(devices: &Devices, seconds: u64) -> Vec<String> {
        let changes = devices.look(at(seconds));
        changes.iter().map(Change::to_string).collect()
    }

    #[test]
    fn silence_begins_and_ends_and_is_told_once() {
        let devices = watched();
        hear(&devices, "door", "a", 0);
        hear(&devices, "door", "b", 30);
        hear(&devices, "cam", "c", 0);
        assert_eq!(said(&devices, 60), [""; 0]);
        let silent = "a on door: nothing was heard of it for 1.0 min, it is expected every 1.0 min";
        assert_eq!(said(&devices, 61), [silent]);
        assert_eq!(said(&devices, 62), [""; 0]);
        assert_eq!(devices.counts(), (3, 1));
        hear(&devices, "door", "a", 3_600);
        let over = "over: a on door is heard of again, after 1.0 h";
        let other = "b on door: nothing was heard of it for 59.5 min, it is expected every 1.0 min";
        assert_eq!(said(&devices, 3_600), [over, other]);
        assert_eq!(devices.counts(), (3, 1));
        assert_eq!(said(&devices, 3_661).len(), 1);
    }

    #[test]
    fn who_was_expected_before_a_restart_is_expected_after_it() {
        let before = watched();
        assert_eq!(before.expected(0), None);
        hear(&before, "door", "a", 0);
        hear(&before, "door", "b", 0);
        hear(&before, "cam", "c", 0);
        let (names, changes) = before.expected(0).expect("there are new ones");
        let door = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(names, Expected::from([("door".to_owned(), door)]));
        hear(&before, "door", "a", 5);
        assert_eq!(before.expected(changes), None);

        let after = watched();
        let mut names = names;
        names.insert("removed".to_owned(), vec!["d".to_owned()]);
        after.expect(names, at(10));
        assert_eq!(after.counts(), (0, 0));
        hear(&after, "door", "b", 50);
        let silent = "a on door: nothing was heard of it since the start, for 1.0 min, it is \
                      expected every 1.0 min";
        assert_eq!(said(&after, 71), [silent]);
        // An operator has taken it away.
        assert_eq!(after.forget(Some("cam"), "a"), 0);
        assert_eq!(after.forget(None, "a"), 1);
        assert_eq!(after.counts(), (1, 0));
        let (names, _) = after.expected(0).expect("one has gone");
        assert_eq!(names["door"], ["b"]);
    }

    #[test]
    fn a_stranger_who_invents_devices_makes_none_of_another_route_be_forgotten() {
        let devices = watched();
        hear(&devices, "door", "a", 0);
        for number in 0..2 * MOST_DEVICES as u64 {
            hear(&devices, "open", &number.to_string(), number);
        }
        assert_eq!(said(&devices, 100).len(), 1);
    }
}
