//! The count: what was sent and acknowledged, and where it is.
//!
//! Decided from facts alone, by the digests of bodies: what devices sent, what they heard, what
//! the upstream got, what lies in quarantine. Nothing that the gateway says of itself counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::Serialize;

use crate::event::Digest;

/// A device's try to send an event.
#[derive(Clone, Debug)]
pub(super) struct Try {
    /// Who.
    pub(super) device: &'static str,
    /// What the event is called in the story.
    pub(super) name: String,
    /// Of its body.
    pub(super) digest: Digest,
    /// What came of it.
    pub(super) fate: Fate,
}

/// What came of a try.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// Nobody listened: nothing was sent.
    Nobody,
    /// No whole answer came; why.
    Broken(String),
    /// An answer.
    Answered {
        /// Its status.
        status: u16,
        /// Its body.
        body: String,
    },
}

/// A request that reached the upstream and was answered.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// `X-Gatepost-Event`.
    pub(super) event: String,
    /// Of its body.
    pub(super) digest: Digest,
    /// Its `Idempotency-Key`.
    pub(super) key: String,
    /// Its `Webhook-Signature`, if it has one.
    pub(super) signature: Option<String>,
    /// Whether it says that an operator sent it again.
    pub(super) replayed: bool,
    /// What the upstream answered.
    pub(super) status: u16,
}

/// All that happened and matters.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// In the order in which they ended.
    pub(super) tries: Vec<Try>,
    /// In the order in which they were answered.
    pub(super) arrivals: Vec<Arrival>,
    /// Of the bodies that lie in quarantine.
    pub(super) quarantine: HashSet<Digest>,
    /// What the gateway logged.
    pub(super) log: Vec<String>,
    /// Whether a device has sent half of an event.
    pub(super) half_sent: bool,
}

impl Try {
    /// Whether the gateway has taken the event over.
    pub(super) fn is_acknowledged(&self) -> bool {
        matches!(self.fate, Fate::Answered { status, .. } if (200..300).contains(&status))
    }

    fn is_duplicate(&self) -> bool {
        let Fate::Answered { body, .. } = &self.fate else {
            return false;
        };
        let answer: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        answer["duplicate"] == true
    }
}

impl Arrival {
    /// Whether the upstream has taken it.
    pub(super) fn is_taken(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Facts {
    /// How many tries of `device` were acknowledged.
    pub(super) fn acknowledged(&self, device: &str) -> usize {
        let tries = self.tries.iter().filter(|tried| tried.device == device);
        tries.filter(|tried| tried.is_acknowledged()).count()
    }

    /// Whether `device` has found nobody to send to.
    pub(super) fn found_nobody(&self, device: &str) -> bool {
        let mut tries = self.tries.iter();
        tries.any(|tried| tried.device == device && tried.fate == Fate::Nobody)
    }

    /// How many lines of the log hold `words`.
    pub(super) fn logged(&self, words: &str) -> usize {
        let lines = self.log.iter();
        lines.filter(|line| line.contains(words)).count()
    }

    /// How many different bodies the upstream has taken.
    pub(super) fn taken(&self) -> usize {
        self.taken_bodies().len()
    }

    fn taken_bodies(&self) -> HashSet<Digest> {
        let taken = self.arrivals.iter().filter(|arrival| arrival.is_taken());
        taken.map(|arrival| arrival.digest).collect()
    }

    /// The events that were acknowledged and are nowhere, each once.
    fn nowhere(&self) -> Vec<&Try> {
        let mut seen = self.taken_bodies();
        seen.extend(&self.quarantine);
        let tries = self.tries.iter();
        tries
            .filter(|tried| tried.is_acknowledged() && seen.insert(tried.digest))
            .collect()
    }

    /// Which events were lost, if any were.
    pub(super) fn lost(&self) -> Option<String> {
        let lost = self.nowhere();
        let name = |tried: &&Try| format!("{} of {}", tried.name, tried.device);
        let names: Vec<String> = lost.iter().map(name).collect();
        (!lost.is_empty()).then(|| names.join(", "))
    }

    /// What is wrong with the order of arrivals, if anything: of each device the events must have
    /// been taken in the order in which it sent them. What an operator sent again is exempt.
    pub(super) fn disorder(&self) -> Option<String> {
        let mut places: HashMap<Digest, (usize, &Try)> = HashMap::new();
        for (place, tried) in self.tries.iter().enumerate() {
            places.entry(tried.digest).or_insert((place, tried));
        }
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        let mut seen = HashSet::new();
        let first = self.arrivals.iter().filter(|one| {
            // What comes a second time, after a crash, was in order when it came first.
            one.is_taken() && !one.replayed && seen.insert(one.digest)
        });
        for arrival in first {
            let Some((place, tried)) = places.get(&arrival.digest) else {
                return Some(format!("nobody sent {} as it arrived", arrival.event));
            };
            let last = last.entry(tried.device).or_insert(0);
            if *place < *last {
                return Some(format!("{} of {} came late", tried.name, tried.device));
            }
            *last = *place;
        }
        None
    }

    /// What is wrong with the keys, if anything: each event must have come with one
    /// `Idempotency-Key`, always the same and nobody else's.
    pub(super) fn wrong_key(&self) -> Option<String> {
        let (mut keys, mut owners) = (HashMap::new(), HashMap::new());
        for Arrival {
            event, digest, key, ..
        } in &self.arrivals
        {
            if key.is_empty() {
                return Some(format!("{event} has no Idempotency-Key"));
            }
            if keys.entry(*digest).or_insert(key) != &key {
                return Some(format!("{event} came with two Idempotency-Keys"));
            }
            if owners.entry(key).or_insert(*digest) != digest {
                return Some(format!("{event} has the Idempotency-Key {key} of another"));
            }
        }
        None
    }
}

/// What it comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Count {
    /// Requests that devices sent, wholly or in part.
    pub sent: usize,
    /// Requests that were answered 2xx.
    pub acknowledged: usize,
    /// Those of them that were recognised as repeated.
    pub duplicates: usize,
    /// Different bodies among the acknowledged ones.
    pub events: usize,
    /// Those of them that the upstream has taken.
    pub delivered: usize,
    /// Those of them that the upstream once refused for good.
    pub dead: usize,
    /// Those of the refused that it took from an operator later.
    pub replayed: usize,
    /// Those of them that lie in quarantine.
    pub quarantined: usize,
    /// Those of them that are nowhere.
    pub lost: usize,
}

impl Count {
    pub(super) fn of(facts: &Facts) -> Self {
        let tries = || facts.tries.iter();
        let events: HashSet<Digest> = tries()
            .filter(|tried| tried.is_acknowledged())
            .map(|tried| tried.digest)
            .collect();
        let those = |is: &dyn Fn(&Arrival) -> bool| -> HashSet<Digest> {
            let arrivals = facts.arrivals.iter().filter(|arrival| is(arrival));
            arrivals.map(|arrival| arrival.digest).collect()
        };
        let delivered = facts.taken_bodies();
        let dead = those(&|arrival| !arrival.is_taken());
        let replayed = those(&|arrival| arrival.is_taken() && arrival.replayed);
        let among = |found: &HashSet<Digest>| events.intersection(found).count();
        Self {
            sent: tries().filter(|tried| tried.fate != Fate::Nobody).count(),
            acknowledged: tries().filter(|tried| tried.is_acknowledged()).count(),
            duplicates: tries().filter(|tried| tried.is_duplicate()).count(),
            events: events.len(),
            delivered: among(&delivered),
            dead: among(&dead),
            replayed: dead.intersection(&replayed).count(),
            quarantined: among(&facts.quarantine),
            lost: facts.nowhere().len(),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sent,
            acknowledged,
            duplicates,
            events,
            delivered,
            dead,
            replayed,
            quarantined,
            lost,
        } = self;
        writeln!(f, "  requests sent          {sent:>4}")?;
        writeln!(f, "  acknowledged           {acknowledged:>4}")?;
        writeln!(f, "  duplicates recognised  {duplicates:>4}")?;
        writeln!(f, "  events acknowledged    {events:>4}")?;
        writeln!(f, "  delivered              {delivered:>4}")?;
        writeln!(f, "  dead letters           {dead:>4}, replayed {replayed}")?;
        writeln!(f, "  in quarantine          {quarantined:>4}")?;
        writeln!(f, "  lost = {lost}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    fn tried(device: &'static str, name: &str, fate: Fate) -> Try {
        Try {
            device,
            name: name.to_owned(),
            digest: digest(name),
            fate,
        }
    }

    fn answered(status: u16, body: &str) -> Fate {
        let body = body.to_owned();
        Fate::Answered { status, body }
    }

    fn kept(device: &'static str, name: &str) -> Try {
        tried(device, name, answered(202, r#"{"accepted":true}"#))
    }

    fn arrival(name: &str, status: u16) -> Arrival {
        Arrival {
            event: name.to_owned(),
            digest: digest(name),
            key: format!("\"g-{name}\""),
            signature: None,
            replayed: false,
            status,
        }
    }

    /// Two devices, one dead letter that was replayed, one event in quarantine.
    fn all_is_well() -> Facts {
        let duplicate = answered(200, r#"{"accepted":true,"duplicate":true}"#);
        Facts {
            tries: vec![
                tried("cam", "c1", Fate::Nobody),
                tried("cam", "c1", Fate::Broken("no answer".to_owned())),
                tried("cam", "c1", answered(503, "{}")),
                kept("cam", "c1"),
                tried("cam", "c1", duplicate),
                kept("door", "d1"),
                kept("door", "d2"),
                kept("cam", "c2"),
                tried("cam", "odd", answered(200, r#"{"accepted":false}"#)),
            ],
            arrivals: vec![
                arrival("d1", 422),
                arrival("d2", 202),
                arrival("c1", 202),
                arrival("c2", 202),
                arrival("c1", 202),
                Arrival {
                    replayed: true,
                    ..arrival("d1", 202)
                },
            ],
            quarantine: HashSet::from([digest("odd")]),
            ..Facts::default()
        }
    }

    #[test]
    fn what_was_acknowledged_is_counted_where_it_is() {
        let facts = all_is_well();
        let count = Count {
            sent: 8,
            acknowledged: 6,
            duplicates: 1,
            events: 5,
            delivered: 4,
            dead: 1,
            replayed: 1,
            quarantined: 1,
            lost: 0,
        };
        assert_eq!(Count::of(&facts), count);
        assert_eq!(facts.lost(), None);
        assert_eq!(facts.disorder(), None);
        assert_eq!(facts.wrong_key(), None);
    }

    #[test]
    fn what_is_nowhere_is_lost() {
        type Loss = fn(&mut Facts);
        let rows: [(Loss, usize, &str); 4] = [
            (|facts| facts.arrivals[3].status = 500, 1, "c2 of cam"),
            (
                |facts| facts.arrivals[3].digest = digest("c2 with another byte"),
                1,
                "c2 of cam",
            ),
            (|facts| facts.quarantine.clear(), 1, "odd of cam"),
            (
                |facts| facts.arrivals.clear(),
                4,
                "c1 of cam, d1 of door, d2 of door, c2 of cam",
            ),
        ];
        for (lose, lost, words) in rows {
            let mut facts = all_is_well();
            lose(&mut facts);
            assert_eq!(Count::of(&facts).lost, lost, "{words}");
            assert_eq!(facts.lost().as_deref(), Some(words));
        }
    }

    #[test]
    fn events_of_one_device_must_arrive_in_order() {
        let mut facts = all_is_well();
        facts.arrivals.swap(1, 2);
        assert_eq!(facts.disorder(), None, "two devices");
        facts.arrivals.swap(1, 3);
        assert_eq!(facts.disorder().as_deref(), Some("c1 of cam came late"));
        let mut facts = all_is_well();
        facts.arrivals[5].replayed = false;
        assert_eq!(facts.disorder().as_deref(), Some("d1 of door came late"));
        facts.arrivals[5] = arrival("stranger", 202);
        let words = "nobody sent stranger as it arrived";
        assert_eq!(facts.disorder().as_deref(), Some(words));
    }

    #[test]
    fn an_event_has_one_key_of_its_own() {
        let rows = [
            ("", "d1 has no Idempotency-Key"),
            ("\"g-9\"", "d1 came with two Idempotency-Keys"),
        ];
        for (key, words) in rows {
            let mut facts = all_is_well();
            key.clone_into(&mut facts.arrivals[5].key);
            assert_eq!(facts.wrong_key().as_deref(), Some(words));
        }
        let mut facts = all_is_well();
        "\"g-d2\"".clone_into(&mut facts.arrivals[3].key);
        let words = "c2 has the Idempotency-Key \"g-d2\" of another";
        assert_eq!(facts.wrong_key().as_deref(), Some(words));
    }
}
