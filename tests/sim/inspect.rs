//! What the store says, held against what the outside knows. Done at each start and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gatepost::audit::{Action, Entry, Then};
use gatepost::commit::HELD;
use gatepost::config::Config;
use gatepost::delivery::{DeliveryId, Progress};
use gatepost::event::{DestinationNo, Digest, Event, Seq};
use gatepost::store::{Counters, DeadRow, Error, Store, footprint};

use crate::sim::devices::Message;
use crate::sim::disk::Disk;
use crate::sim::ledger::Ledger;
use crate::sim::settings::{ATTIC, ATTIC_TO};

/// From this quota on an event only expires by its age.
pub(crate) const ROOMY: u64 = 1 << 30;

/// What redb's file takes when nothing is in it, and what its pages waste, in bytes.
const FILE_AT_LEAST: u64 = 4 << 20;

/// All rows of a store.
struct Rows {
    counters: Counters,
    events: BTreeMap<Seq, Option<Event>>,
    pending: BTreeMap<DeliveryId, Progress>,
    dead: BTreeMap<(DestinationNo, Seq), DeadRow>,
    quarantine: BTreeSet<Seq>,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Pending(Progress),
    Dead,
    Delivered,
    Discarded,
}

/// The store and what it is compared with.
pub(crate) struct Inspection<'a> {
    pub(crate) store: &'a Store,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) sent: &'a [Message],
    pub(crate) numbers: &'a BTreeMap<String, DestinationNo>,
    pub(crate) config: &'a Config,
    /// The disk that the store lies on.
    pub(crate) disk: &'a Disk,
    /// How old the life is.
    pub(crate) now: Duration,
}

/// What waits, for who wants to know whether anything still does.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Pending deliveries to destinations that there are.
    pub(crate) pending: Vec<DeliveryId>,
    /// Dead letters.
    pub(crate) dead: Vec<(DestinationNo, Seq)>,
}

impl Inspection<'_> {
    /// Compares everything. Fails only if the disk does; what is wrong is a panic.
    pub(crate) fn run(mut self) -> Result<Waiting, Error> {
        let rows = Rows::read(self.store)?;
        let mut trails = BTreeMap::new();
        let (mut stored_bytes, mut noted_bytes) = (0, 0);
        for (seq, event) in &rows.events {
            let Some(event) = event else {
                let number = self.ledger.events.get(seq);
                let is_damaged = number.is_some_and(|number| self.ledger.damaged.contains(number));
                assert!(is_damaged, "the record of seq {seq} can't be read");
                continue;
            };
            stored_bytes += self.check_event(*seq, event)?;
            let trail = self.store.trail(*seq)?;
            self.check_deliveries(*seq, event, &trail, &rows);
            noted_bytes += trail.iter().map(sealed).sum::<u64>();
            trails.insert(*seq, trail);
        }
        noted_bytes += rows
            .dead
            .values()
            .map(|row| sealed(&row.letter))
            .sum::<u64>();
        self.check_what_is_gone(&rows)?;
        check_rows(&rows);
        check_counters(&rows, &trails);
        if self.ledger.damaged.is_empty() {
            let right = stored_bytes + noted_bytes;
            assert_eq!(rows.counters.stored_bytes, right, "bytes are miscounted");
        }
        let quota = self.config.store.max_size;
        assert!(
            stored_bytes <= quota - quota / 10,
            "{stored_bytes} of {quota} bytes"
        );
        let most = FILE_AT_LEAST + 2 * quota;
        assert!(
            self.disk.len() <= most,
            "a file of {} bytes",
            self.disk.len()
        );
        self.ledger.inspected();
        Ok(rows.waiting())
    }

    /// Its record and its bytes are those that were sent. Returns what it counts.
    fn check_event(&mut self, seq: Seq, event: &Event) -> Result<u64, Error> {
        let number = if let Some(number) = self.ledger.events.get(&seq) {
            *number
        } else {
            // Stored, and the answer was lost with the process.
            let same = |message: &Message| Digest::of(&message.request.body) == event.digest;
            let number = self.sent.iter().position(same);
            number.expect("somebody has sent what is stored")
        };
        let message = &self.sent[number];
        self.ledger.stored(seq, number, message);
        let request = &message.request;
        let record = (&event.target, &event.headers, &event.method, event.peer);
        let sent = (
            &request.target,
            &request.headers,
            &request.method,
            request.peer,
        );
        assert_eq!(record, sent, "seq {seq}");
        let ids = (&event.event_id, &event.device, event.route.as_deref());
        let right = (&message.event_id, &message.device, message.route);
        assert_eq!(ids, right, "seq {seq}");
        assert_eq!(event.quarantine.is_some(), message.is_odd, "seq {seq}");
        assert_eq!(event.length, request.body.len() as u64, "seq {seq}");
        assert_eq!(event.digest, Digest::of(&request.body), "seq {seq}");
        let has_twin = self.ledger.has_twin_before(seq, self.sent);
        assert_eq!(event.revision_of.is_some(), has_twin, "seq {seq}");
        match self.store.body(seq, event) {
            Ok(Some(body)) => {
                let is_cut = event.kept == 0 && message.may_be_cut();
                assert!(is_cut || body == request.body, "seq {seq}: other bytes");
                Ok(footprint(event, &body))
            }
            Ok(None) => {
                self.check_expired(seq, number, self.config.store.keep_delivered);
                Ok(footprint(event, &[]))
            }
            Err(Error::Corrupt { .. }) if self.ledger.damaged.contains(&number) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether tables and audit trail say the same of each delivery, and it did arrive that is
    /// said to have arrived.
    fn check_deliveries(&mut self, seq: Seq, event: &Event, trail: &[Entry], rows: &Rows) {
        if event.quarantine.is_some() {
            let given_up = trail
                .iter()
                .any(|entry| matches!(entry.action, Action::Discarded { destination: None }));
            let waits = rows.quarantine.contains(&seq);
            assert!(event.to.is_empty(), "seq {seq} is in quarantine");
            assert_ne!(waits, given_up, "seq {seq}: {trail:?}");
            assert!(
                waits || self.ledger.let_go.contains(&seq),
                "seq {seq} left quarantine"
            );
            return;
        }
        for (name, number) in self.destinations(event, seq, rows) {
            let state = rows.state(number, seq, event);
            let told = follow(trail, &name);
            let agree = match told {
                State::Pending(_) | State::Dead => state == Some(told),
                State::Delivered | State::Discarded => state.is_none(),
            };
            assert!(
                agree,
                "seq {seq} to {name} is {state:?}, and the trail says {trail:?}"
            );
            let course = self.ledger.course(number, seq);
            if told == State::Delivered {
                assert!(0 < course.arrivals, "seq {seq} never arrived at {name}");
            }
            let has_ended = course.ended.is_some();
            if state.is_none() {
                assert!(
                    has_ended || self.ledger.was_shed(seq),
                    "seq {seq} to {name} is lost: {trail:?}"
                );
            }
        }
    }

    /// Where an event goes: where its route led when it came, or leads now if it was held.
    fn destinations(&self, event: &Event, seq: Seq, rows: &Rows) -> Vec<(String, DestinationNo)> {
        let name = |number: DestinationNo| {
            let mut all = self.numbers.iter();
            let name = all.find(|(_, other)| **other == number);
            (name.expect("a destination").0.clone(), number)
        };
        let held = event
            .to
            .first()
            .is_some_and(|address| address.destination == HELD);
        if !held {
            return event
                .to
                .iter()
                .map(|address| name(address.destination))
                .collect();
        }
        assert_eq!(
            event.route.as_deref(),
            Some(ATTIC),
            "seq {seq} has nowhere to go"
        );
        let lane = event.to[0].lane;
        let waits = rows.pending.contains_key(&DeliveryId {
            destination: HELD,
            lane,
            seq,
        });
        if waits {
            return Vec::new();
        }
        vec![(ATTIC_TO.to_owned(), self.numbers[ATTIC_TO])]
    }

    /// Only what has ended may be gone.
    fn check_what_is_gone(&mut self, rows: &Rows) -> Result<(), Error> {
        let gone: Vec<_> = self
            .ledger
            .events
            .iter()
            .map(|(seq, number)| (*seq, *number))
            .collect();
        for (seq, number) in gone {
            if rows.events.contains_key(&seq) {
                continue;
            }
            self.check_expired(seq, number, self.config.store.keep_audit);
            let trail = self.store.trail(seq)?;
            assert!(
                trail.is_empty(),
                "seq {seq} is gone and its trail is not: {trail:?}"
            );
        }
        Ok(())
    }

    /// An event has ended everywhere, and long enough ago if the store is roomy.
    fn check_expired(&mut self, seq: Seq, number: usize, keep: Duration) {
        self.ledger.expired.insert(seq);
        let message = &self.sent[number];
        let is_roomy = ROOMY <= self.config.store.max_size && !self.disk.was_small();
        if message.is_odd {
            assert!(
                self.ledger.let_go.contains(&seq),
                "seq {seq} was in quarantine, and is gone"
            );
            return;
        }
        let to: &[&str] = match message.route {
            Some("door") => &["cloud", "archive"],
            Some("gate" | "test") => &["cloud"],
            _ => &["archive"],
        };
        for name in to {
            let ended = self.ledger.course(self.numbers[*name], seq).ended;
            let Some(ended) = ended else {
                assert!(self.ledger.was_shed(seq), "seq {seq} waited, and is gone");
                continue;
            };
            let old = keep <= self.now.saturating_sub(ended);
            assert!(!is_roomy || old, "seq {seq} is gone too early");
        }
    }
}

impl Rows {
    fn read(store: &Store) -> Result<Self, Error> {
        let pending = store.pending_after(None, usize::MAX)?.into_iter();
        let dead = store.dead_after(None, usize::MAX)?.into_iter();
        Ok(Self {
            counters: store.counters()?,
            events: store.events_from(Seq(0), usize::MAX)?.into_iter().collect(),
            pending: pending.map(|row| (row.id, row.progress)).collect(),
            dead: dead.map(|row| ((row.destination, row.seq), row)).collect(),
            quarantine: store
                .quarantined_after(None, usize::MAX)?
                .into_iter()
                .collect(),
        })
    }

    /// What the tables say of a delivery; none: it has ended.
    fn state(&self, destination: DestinationNo, seq: Seq, event: &Event) -> Option<State> {
        let mut rows = self.pending.iter();
        let mut rows = rows
            .by_ref()
            .filter(|(id, _)| id.destination == destination && id.seq == seq);
        let pending = rows.next();
        assert!(rows.next().is_none(), "seq {seq} waits twice");
        if let Some((id, _)) = pending {
            let own = event.to.iter().any(|address| address.lane == id.lane);
            let alone = id.lane == gatepost::event::Lane::alone(seq);
            assert!(own || alone, "seq {seq} waits in a strange lane");
        }
        let dead = self.dead.contains_key(&(destination, seq));
        match (pending, dead) {
            (Some((_, progress)), false) => Some(State::Pending(*progress)),
            (None, true) => Some(State::Dead),
            (None, false) => None,
            (Some(_), true) => unreachable!("seq {seq} is dead and waits"),
        }
    }

    fn waiting(self) -> Waiting {
        let pending = self.pending.into_keys();
        Waiting {
            pending: pending.filter(|id| id.destination != HELD).collect(),
            dead: self.dead.into_keys().collect(),
        }
    }
}

/// What a record of this takes in the store: version, checksum and JSON.
fn sealed(record: &impl serde::Serialize) -> u64 {
    let json = serde_json::to_vec(record).expect("it was read from such");
    5 + json.len() as u64
}

/// What an audit trail says of a delivery in the end.
fn follow(trail: &[Entry], name: &str) -> State {
    let fresh = |replayed| {
        State::Pending(Progress {
            attempts: 0,
            replayed,
        })
    };
    let mut state = fresh(false);
    for entry in trail {
        match &entry.action {
            Action::Attempted {
                destination,
                then,
                number,
                ..
            } if destination == name => {
                // What an operator gave up meanwhile stays so.
                let State::Pending(progress) = state else {
                    continue;
                };
                assert_eq!(*number, progress.attempts + 1, "{trail:?}");
                state = match then {
                    Then::Delivered => State::Delivered,
                    Then::Dead => State::Dead,
                    Then::RetryIn { .. } => State::Pending(Progress {
                        attempts: *number,
                        ..progress
                    }),
                };
            }
            Action::Replayed { destination } if destination == name => state = fresh(true),
            Action::Assigned { destination } if destination == name => state = fresh(false),
            Action::Discarded {
                destination: Some(destination),
            } if destination == name => {
                state = State::Discarded;
            }
            Action::Shed { destination, .. }
                if destination.as_deref().is_none_or(|to| to == name) =>
            {
                state = State::Discarded;
            }
            _ => {}
        }
    }
    state
}

/// Whatever waits has an event.
fn check_rows(rows: &Rows) {
    let pending = rows.pending.keys().map(|id| id.seq);
    let dead = rows.dead.keys().map(|(_, seq)| *seq);
    for seq in pending.chain(dead).chain(rows.quarantine.iter().copied()) {
        assert!(
            rows.events.contains_key(&seq),
            "seq {seq} waits, and is gone"
        );
    }
}

/// The counters are those of the rows.
fn check_counters(rows: &Rows, trails: &BTreeMap<Seq, Vec<Entry>>) {
    let counters = &rows.counters;
    assert_eq!(
        counters.events,
        rows.events.len() as u64,
        "events are miscounted"
    );
    for (number, backlog) in &counters.backlog {
        let pending = rows.pending.keys().filter(|id| id.destination == *number);
        let dead = rows
            .dead
            .keys()
            .filter(|(destination, _)| destination == number);
        let right = (pending.count() as u64, dead.count() as u64);
        assert_eq!(
            (backlog.pending, backlog.dead),
            right,
            "{number:?} is miscounted"
        );
    }
    let totals = &counters.totals;
    assert_eq!(
        totals.received, counters.next_seq,
        "arrivals are miscounted"
    );
    if counters.events < counters.next_seq {
        return; // What has expired can't be counted again.
    }
    let entries = || trails.values().flatten();
    let count =
        |is: fn(&Action) -> bool| entries().filter(|entry| is(&entry.action)).count() as u64;
    let ends = |is: fn(&Then) -> bool| {
        let then =
            |entry: &&Entry| matches!(&entry.action, Action::Attempted { then, .. } if is(then));
        entries().filter(then).count() as u64
    };
    let events = rows.events.values().flatten();
    let quarantined = events.filter(|event| event.quarantine.is_some()).count() as u64;
    let counted = [
        totals.quarantined,
        totals.attempts,
        totals.delivered,
        totals.dead,
        totals.replayed,
        totals.discarded,
        totals.shed,
    ];
    let right = [
        quarantined,
        ends(|_| true),
        ends(|then| *then == Then::Delivered),
        ends(|then| *then == Then::Dead),
        count(|action| matches!(action, Action::Replayed { .. })),
        count(|action| matches!(action, Action::Discarded { .. })),
        count(|action| matches!(action, Action::Shed { .. })),
    ];
    if trails.len() == rows.events.len() {
        assert_eq!(counted, right, "what happened is miscounted");
    }
}
