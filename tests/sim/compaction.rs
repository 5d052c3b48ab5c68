//! A store that is compacted while the power goes, again and again.

use std::collections::BTreeMap;

use gatepost::clock::Reading;
use gatepost::delivery::{DeliveryId, Progress};
use gatepost::event::{DestinationNo, Digest, Event, Lane, Seq};
use gatepost::rng::Rng;
use gatepost::store::{Error, Store, Sync};

use crate::sim::disk::{Disk, Failure, Operation, Plan};

/// How many events are stored; two of three expire, which is what makes room to give back.
const EVENTS: u64 = 150;

/// The most power cuts of one store.
const MOST_CUTS: u64 = 12;

/// Lives such a life. Returns how many compactions were cut short.
pub(crate) fn live(seed: u64) -> u64 {
    let mut rng = Rng::from_seed(seed);
    let disk = Disk::new(true);
    let kept = fill(&disk, &mut rng);
    let before = disk.len();
    let mut cuts = 0;
    for _ in 0..MOST_CUTS {
        let store = open(&disk);
        let on = [Operation::Write, Operation::Sync][usize::from(rng.below(2) == 0)];
        let most = if on == Operation::Write { 200 } else { 12 };
        disk.plan(Some(Plan {
            on,
            after: 1 + rng.below(most),
            failure: Failure::PowerCut,
        }));
        let compacted = compact(store);
        assert_eq!(compacted.is_err(), !disk.is_powered(), "{compacted:?}");
        cuts += u64::from(compacted.is_err());
        let survives = rng.below(101);
        disk.cut_power(&mut rng, survives);
        assert_eq!(content(&open(&disk)), kept, "after {cuts} cuts");
    }
    compact(open(&disk)).expect("nothing goes wrong any more");
    assert!(disk.len() < before, "{} of {before} bytes", disk.len());
    assert_eq!(content(&open(&disk)), kept, "at the end");
    cuts
}

/// What a store holds: the bodies of its events, all of which wait.
type Content = BTreeMap<Seq, Vec<u8>>;

fn open(disk: &Disk) -> Store {
    Store::open_on(disk.open(), 7).expect("what was synced opens")
}

/// What `gatepost compact` does.
fn compact(mut store: Store) -> Result<(), Error> {
    while store.compact()? {}
    store.close()
}

/// Stores events of which most expire. Returns the others.
fn fill(disk: &Disk, rng: &mut Rng) -> Content {
    let store = open(disk);
    let mut kept = Content::new();
    for _ in 0..EVENTS {
        let length = rng.below(6_000);
        let body: Vec<u8> = (0..length)
            .map(|_| rng.below(256).to_le_bytes()[0])
            .collect();
        let put = store.write(Sync::Usual, |tables| {
            let seq = tables.put_event(&event(&body), &body)?;
            tables.put_pending(id(seq), Progress::default())?;
            Ok(seq)
        });
        kept.insert(put.expect("the disk is well"), body);
    }
    let expired: Vec<Seq> = kept.keys().copied().filter(|_| rng.below(3) != 0).collect();
    for seq in expired {
        let removed = store.write(Sync::Usual, |tables| {
            tables.remove_pending(id(seq))?;
            tables.remove_event(seq)
        });
        removed.expect("the disk is well");
        kept.remove(&seq);
    }
    kept
}

fn content(store: &Store) -> Content {
    let events = store.events_from(Seq(0), 1_000).expect("readable");
    let body_of = |(seq, event): (Seq, Option<Event>)| {
        let event = event.expect("whole");
        let body = store.body(seq, &event).expect("whole");
        (seq, body.expect("it is there"))
    };
    let content: Content = events.into_iter().map(body_of).collect();
    let pending = store.pending_after(None, 1_000).expect("readable");
    let waiting = pending.iter().map(|pending| pending.id);
    assert!(
        waiting.eq(content.keys().map(|seq| id(*seq))),
        "{pending:?}"
    );
    let counters = store.counters().expect("readable");
    assert_eq!(counters.events, content.len() as u64);
    content
}

fn id(seq: Seq) -> DeliveryId {
    DeliveryId {
        destination: DestinationNo(1),
        lane: Lane(0),
        seq,
    }
}

fn event(body: &[u8]) -> Event {
    Event {
        event_id: None,
        device: None,
        route: Some("door".to_owned()),
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/".to_vec(),
        headers: Vec::new(),
        received: Reading::default(),
        boot: 1,
        length: body.len() as u64,
        kept: body.len() as u64,
        digest: Digest::of(body),
        event_time: None,
        items: None,
        revision_of: None,
        priority: gatepost::event::USUAL_PRIORITY,
        quarantine: None,
        to: Vec::new(),
    }
}
