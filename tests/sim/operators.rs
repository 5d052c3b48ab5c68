//! Operators: they send again, give up, hold and release, mostly for no reason.

use std::collections::BTreeMap;

use gatepost::commit::{DestinationRef, Operation, Target};
use gatepost::event::{DestinationNo, Seq};
use gatepost::rng::Rng;

use crate::sim::inspect::Waiting;
use crate::sim::ledger::Ledger;
use crate::sim::settings::pick;

/// A wish about some event, or about a destination.
pub(crate) fn wish(
    ledger: &Ledger,
    numbers: &BTreeMap<String, DestinationNo>,
    rng: &mut Rng,
) -> Operation {
    let names: Vec<&String> = numbers.keys().collect();
    let name = pick(rng, &names).clone();
    let to = DestinationRef {
        number: numbers[&name],
        name: name.clone(),
    };
    let newest = ledger.events.last_key_value().map_or(0, |(seq, _)| seq.0);
    let seq = Seq(rng.below(newest + 2));
    let target = |destination| vec![Target { seq, destination }];
    match rng.below(10) {
        0..=3 => Operation::Replay(target(Some(to))),
        4 => Operation::Replay(target(None)),
        5 => Operation::Discard(target(Some(to))),
        6 => Operation::Discard(target(None)),
        7 => Operation::Hold(name),
        _ => Operation::Release(name),
    }
}

/// All dead letters are sent again.
pub(crate) fn replay_all(
    waiting: &Waiting,
    numbers: &BTreeMap<String, DestinationNo>,
) -> Vec<Operation> {
    let named = |number: DestinationNo| {
        let mut all = numbers.iter();
        let name = all.find(|(_, other)| **other == number);
        let name = name.expect("a destination has a name").0.clone();
        DestinationRef { number, name }
    };
    let replay = |(number, seq): &(DestinationNo, Seq)| {
        let destination = Some(named(*number));
        Operation::Replay(vec![Target {
            seq: *seq,
            destination,
        }])
    };
    waiting.dead.iter().map(replay).collect()
}
