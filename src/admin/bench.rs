//! A gateway for the tests of the API: a real store in a folder of its own, a clock that stands
//! still, and an office that also lets devices send and deliveries end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::views::Problem;
use super::{Kind, Office, Request, Response, State, Unavailable, Via, answer};
use crate::audit::{Action, Entry, Then};
use crate::clock::{Clock as _, ManualClock, Timestamp};
use crate::commit::{
    Admission, Change, Committer, DedupKey, Done, Operation, Report, Retention, Settlement, Work,
};
use crate::delivery::{DeadLetter, DeadReason, DeliveryId, Progress};
use crate::dispatch::DestinationState;
use crate::event::{Address, DestinationNo, Digest, Event, Header, Lane, Quarantine, Seq};
use crate::store::{Store, Sync};

pub(super) const CLOUD: DestinationNo = DestinationNo(1);
pub(super) const CRM: DestinationNo = DestinationNo(2);

/// 2026-01-02T03:04:05Z.
const TODAY: Timestamp = Timestamp::from_ms(1_767_323_045_000);

pub(super) struct Bench {
    pub(super) state: State,
    pub(super) clock: Arc<ManualClock>,
    pub(super) desk: Arc<Desk>,
    pub(super) folder: tempfile::TempDir,
}

type Meanwhile = Box<dyn FnMut(&Desk) + Send>;

pub(super) struct Desk {
    committer: Mutex<Committer>,
    /// What each operation was about.
    pub(super) asked: Mutex<Vec<Vec<Seq>>>,
    /// What the dispatcher was told.
    pub(super) told: Mutex<Vec<(String, bool)>>,
    pub(super) live: Mutex<Option<Vec<DestinationState>>>,
    /// Called after each operation: the world goes on while an operator works.
    pub(super) meanwhile: Mutex<Option<Meanwhile>>,
}

impl Desk {
    pub(super) fn step(&self, work: Vec<Work<()>>) -> Vec<Done> {
        let mut committer = self.committer.lock().expect("not poisoned");
        let step = committer.step(work).expect("the store works");
        step.answers.into_iter().map(|((), done)| done).collect()
    }

    /// Ends deliveries, on disk.
    pub(super) fn settle(&self, settlements: Vec<Settlement>) {
        let settlements = settlements.into_iter().map(Box::new).map(Work::Settle);
        self.step(settlements.collect());
        let mut committer = self.committer.lock().expect("not poisoned");
        committer.finish().expect("the store works");
    }
}

impl Office for Arc<Desk> {
    fn operate(&self, operation: Operation) -> Result<Report, Unavailable> {
        if let Operation::Replay(targets) | Operation::Discard(targets) = &operation {
            let mut asked = self.asked.lock().expect("not poisoned");
            asked.push(targets.iter().map(|target| target.seq).collect());
        }
        let done = self.step(vec![Work::Operate(operation, ())]).pop();
        if let Some(meanwhile) = &mut *self.meanwhile.lock().expect("not poisoned") {
            meanwhile(self);
        }
        match done {
            Some(Done::Operated(report)) => Ok(report),
            _ => unreachable!("an operation is answered with its report"),
        }
    }

    fn destinations(&self) -> Option<Vec<DestinationState>> {
        self.live.lock().expect("not poisoned").clone()
    }

    fn hold(&self, name: &str, held: bool) -> Result<(), Unavailable> {
        let mut told = self.told.lock().expect("not poisoned");
        told.push((name.to_owned(), held));
        Ok(())
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("events.redb"), 42).expect("a store");
        store
            .write(Sync::Usual, |tables| {
                tables.put_meta("destination/cloud", &CLOUD)?;
                tables.put_meta("destination/crm", &CRM)
            })
            .expect("the store works");
        let store = Arc::new(store);
        let clock = Arc::new(ManualClock::default());
        clock.set_wall(TODAY, true);
        let committer = Committer::new(
            Arc::clone(&store),
            clock.clone(),
            1 << 30,
            Retention::DEFAULT,
        );
        let desk = Arc::new(Desk {
            committer: Mutex::new(committer.expect("a committer")),
            asked: Mutex::default(),
            told: Mutex::default(),
            live: Mutex::default(),
            meanwhile: Mutex::default(),
        });
        let state = State {
            store,
            destinations: vec![(CLOUD, "cloud".to_owned())],
            routes: vec![("door".to_owned(), vec!["cloud".to_owned()])],
            office: Box::new(Arc::clone(&desk)),
            started: clock.reading(),
            version: "0.0.0-test",
            clock: clock.clone(),
        };
        clock.advance(Duration::from_secs(60));
        Self {
            state,
            clock,
            desk,
            folder,
        }
    }

    /// A device sends an event.
    pub(super) fn send(&self, device: &str, id: &str, to: &[DestinationNo]) -> Seq {
        self.admit(event(self, device, id, to), true)
    }

    /// A device sends an event that no delivery is made for.
    pub(super) fn send_odd(&self, id: &str) -> Seq {
        let mut odd = event(self, "cam-7", id, &[]);
        odd.quarantine = Some(Quarantine::NoDevice("no member deviceId".to_owned()));
        odd.device = None;
        self.admit(odd, false)
    }

    fn admit(&self, event: Event, known: bool) -> Seq {
        let key = event.event_id.as_deref().filter(|_| known);
        let key = key.map(|id| DedupKey::new("door", event.device.as_deref().unwrap_or("-"), id));
        let body = body();
        let admission = Box::new(Admission { event, body, key });
        match self.desk.step(vec![Work::Admit(admission, ())])[..] {
            [Done::Stored(seq)] => seq,
            ref other => unreachable!("a new event is stored: {other:?}"),
        }
    }

    /// Sends `count` events, `dev-0` to `dev-9`, all of which become dead letters.
    pub(super) fn dead(&self, count: usize, to: DestinationNo) -> Vec<Seq> {
        let mut seqs = Vec::with_capacity(count);
        for first in (0..count).step_by(500) {
            let numbers = first..count.min(first + 500);
            let work = numbers.map(|number| {
                let event = event(
                    self,
                    &device(number),
                    &format!("d-{}-{number}", to.0),
                    &[to],
                );
                let body = body();
                let key = None;
                Work::Admit(Box::new(Admission { event, body, key }), ())
            });
            let stored = self.desk.step(work.collect()).into_iter();
            seqs.extend(stored.map(|done| match done {
                Done::Stored(seq) => seq,
                other => unreachable!("a new event is stored: {other:?}"),
            }));
        }
        let ends = seqs.iter().zip(0..);
        let ends = ends.map(|(seq, number)| dies(*seq, &device(number), to));
        self.desk.settle(ends.collect());
        seqs
    }

    pub(super) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    pub(super) fn ask(&self, method: &str, target: &str, body: &str) -> Response {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let request = Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            body: body.as_bytes().to_vec(),
            via: Via::Socket,
        };
        answer(&request, &self.state)
    }

    /// What a request that must succeed is answered with.
    pub(super) fn see<T: DeserializeOwned>(&self, target: &str) -> T {
        read(&self.get(target))
    }

    pub(super) fn change<T: DeserializeOwned>(&self, target: &str, body: &str) -> T {
        read(&self.ask("POST", target, body))
    }
}

/// The view in an answer of success.
pub(super) fn read<T: DeserializeOwned>(response: &Response) -> T {
    let text = String::from_utf8_lossy(&response.body);
    assert_eq!(response.status, 200, "{text}");
    serde_json::from_slice(&response.body).unwrap_or_else(|error| unreachable!("{error}: {text}"))
}

/// The problem in an answer of failure.
pub(super) fn problem(response: &Response) -> (u16, Kind, String) {
    let problem: Problem = serde_json::from_slice(&response.body).expect("a problem");
    let kind = Kind::of(&problem).expect("one of ours");
    (response.status, kind, problem.detail)
}

pub(super) fn body() -> Vec<u8> {
    b"{\"a\":\xff\x00}".to_vec()
}

fn device(number: usize) -> String {
    format!("dev-{}", number % 10)
}

fn event(bench: &Bench, device: &str, id: &str, to: &[DestinationNo]) -> Event {
    let to = to.iter().map(|destination| Address {
        destination: *destination,
        lane: Lane::of_device("door", device),
    });
    Event {
        event_id: Some(id.to_owned()),
        device: Some(device.to_owned()),
        route: Some("door".to_owned()),
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/ingest/\xe9".to_vec(),
        headers: vec![Header {
            name: "X-Odd".to_owned(),
            value: b"a\x1b[31m".to_vec(),
        }],
        received: bench.clock.reading(),
        boot: 1,
        length: body().len() as u64,
        kept: body().len() as u64,
        digest: Digest::of(&body()),
        event_time: None,
        items: None,
        revision_of: None,
        priority: crate::event::USUAL_PRIORITY,
        quarantine: None,
        to: to.collect(),
    }
}

fn delivery(seq: Seq, device: &str, destination: DestinationNo) -> DeliveryId {
    let lane = Lane::of_device("door", device);
    DeliveryId {
        destination,
        lane,
        seq,
    }
}

/// A delivery becomes a dead letter.
pub(super) fn dies(seq: Seq, device: &str, to: DestinationNo) -> Settlement {
    let letter = DeadLetter {
        reason: DeadReason::Rejected,
        at: TODAY,
        lane: Lane::of_device("door", device),
        attempts: 1,
        outcome: "HTTP 422".to_owned(),
        answer: "no such door".to_owned(),
    };
    settlement(seq, device, to, Change::Dead(letter), Then::Dead)
}

/// A delivery arrives.
pub(super) fn arrives(seq: Seq, device: &str, to: DestinationNo) -> Settlement {
    settlement(seq, device, to, Change::Delivered, Then::Delivered)
}

/// A delivery is to be tried again, the third time.
pub(super) fn waits(seq: Seq, device: &str, to: DestinationNo) -> Settlement {
    let change = Change::Retry {
        progress: Progress {
            attempts: 2,
            replayed: false,
        },
        lane: Lane::of_device("door", device),
    };
    settlement(seq, device, to, change, Then::RetryIn { pause_ms: 4_000 })
}

fn settlement(seq: Seq, device: &str, to: DestinationNo, change: Change, then: Then) -> Settlement {
    let destination = if to == CLOUD { "cloud" } else { "crm" };
    let entry = Entry {
        at: TODAY,
        uncertain: false,
        action: Action::Attempted {
            destination: destination.to_owned(),
            number: 1,
            outcome: "HTTP 422".to_owned(),
            took_ms: 12,
            then,
        },
    };
    Settlement {
        id: delivery(seq, device, to),
        name: "test".to_owned(),
        change,
        entry,
    }
}
