//! The judgement over a life: promises against facts, from outside of the process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::common::process::Site;
use crate::common::upstream::Received;
use crate::fleet::{Fleet, is_poison, number_in};
use crate::many::Tally;

/// How many dead letters are compared byte for byte, each by a command of its own.
const COMPARED: usize = 25;

/// Asserts that
///
/// - what was acknowledged arrived, byte for byte, or is a dead letter that the upstream refused;
/// - nothing arrived that was not sent so;
/// - an event has one idempotency key, and no two have the same;
/// - first deliveries of a device come in the order in which it sent;
/// - one run of the process sends what was taken once only.
pub(crate) fn judge(fleet: &Fleet, received: &[Arc<Received>], site: &Site) -> Tally {
    let arrived = arrivals(fleet, received);
    let letters = site.json(&["dead"]);
    let dead: HashMap<&str, &Value> = letters
        .iter()
        .map(|letter| (letter["event_id"].as_str().unwrap_or_default(), letter))
        .collect();
    assert_eq!(dead.len(), letters.len(), "an event is dead twice");
    let mut tally = Tally {
        came: received.len() as u64,
        dead: letters.len() as u64,
        repeated: arrived.values().filter(|times| 1 < **times).count() as u64,
        ..Tally::default()
    };
    for device in &fleet.devices {
        for (number, acknowledged) in device.acknowledged.iter().enumerate() {
            let name = format!("{}-{number}", device.name);
            let taken = arrived.get(name.as_str()).is_some_and(|times| 0 < *times);
            let is_dead = dead.contains_key(name.as_str());
            assert!(!taken || !is_dead, "{name} was taken and is dead");
            assert!(!is_dead || is_poison(&name), "{name} is dead");
            assert!(taken || is_dead || !acknowledged, "{name} is lost");
            tally.acknowledged += u64::from(*acknowledged);
            tally.sent += 1;
        }
    }
    for letter in letters.iter().take(COMPARED) {
        let name = letter["event_id"].as_str().unwrap_or_default();
        let body = site.body(&format!("#{}", letter["seq"]));
        assert_eq!(body, body_of(fleet, name).as_bytes(), "{name}");
    }
    tally
}

/// How often each event that came was taken. Everything that can be said of what came alone is
/// asserted here.
fn arrivals<'a>(fleet: &Fleet, received: &'a [Arc<Received>]) -> HashMap<&'a str, u64> {
    let mut keys: BTreeMap<&str, &str> = BTreeMap::new();
    let mut last: HashMap<&str, usize> = HashMap::new();
    let mut taken: HashMap<&str, (u64, Option<&str>)> = HashMap::new();
    for received in received {
        let name = received.name();
        let body = body_of(fleet, name);
        assert!(received.body == body.as_bytes(), "{name} has other bytes");
        let (device, number) = number_in(name).expect("body_of knows it");
        let key = *keys.entry(name).or_insert(received.key());
        assert_eq!(key, received.key(), "{name} has two keys");
        let before = taken.entry(name).or_insert_with(|| {
            let earlier = last.insert(device, number);
            assert!(earlier < Some(number), "{name} came after {earlier:?}");
            (0, None)
        });
        if received.was_taken() {
            let run = received.header("x-run").expect("each run has a number");
            let again = before.1.replace(run) == Some(run);
            assert!(!again, "{name} was taken twice of run {run}");
            before.0 += 1;
        }
    }
    let distinct: HashSet<&&str> = keys.values().collect();
    assert_eq!(distinct.len(), keys.len(), "two events share a key");
    taken
        .into_iter()
        .map(|(name, (times, _))| (name, times))
        .collect()
}

/// What was sent under that name.
fn body_of(fleet: &Fleet, name: &str) -> String {
    let sent = number_in(name).and_then(|(device, number)| {
        let mut devices = fleet.devices.iter();
        let device = devices.find(|memory| memory.name == device)?;
        (number < device.acknowledged.len()).then(|| device.body(number))
    });
    assert!(sent.is_some(), "{name:?} was never sent");
    sent.unwrap_or_default()
}
