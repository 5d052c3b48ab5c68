//! What an operator can do with deliveries: replay and discard.
//!
//! What can't be done is said in the report and changes nothing.

use serde::{Deserialize, Serialize};

use super::Notice;
use crate::audit::{Action, Ending, Entry};
use crate::clock::Reading;
use crate::delivery::{DeliveryId, Progress};
use crate::devices::Expected;
use crate::event::{DestinationNo, Event, Lane, Seq, name};
use crate::store::{Error, Pending, Tables};

/// What the devices that are expected are kept under, among the store's own notes.
pub const EXPECTED: &str = "expected";

/// One wish of an operator, done in one transaction. For many deliveries the caller makes several
/// of a few hundred each, so that devices do not wait.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Send these again: dead letters, or delivered events whose body is still kept. Keeps the
    /// idempotency key, starts counting attempts anew, takes its old place in its lane.
    Replay(Vec<Target>),
    /// Give these up: dead letters, pending deliveries, events in quarantine.
    Discard(Vec<Target>),
    /// Give these up and make deliveries to another destination instead, unless it has had them or
    /// has them waiting. They keep their keys and their places in their lanes.
    Move(Vec<Target>, DestinationRef),
    /// Make deliveries of these to a destination, unless it has had them or has them waiting.
    Backfill(Vec<Seq>, DestinationRef),
    /// Send nothing to this destination until it is released, over restarts too.
    Hold(String),
    /// Undo [`Operation::Hold`].
    Release(String),
    /// Make deliveries for events that had nowhere to go when they came.
    Assign(Vec<Assignment>),
    /// Remember under [`EXPECTED`] who is expected to be heard of.
    Expect(Expected),
}

/// What an operation is about.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Target {
    /// The event.
    pub seq: Seq,
    /// The destination; none: the event's quarantine.
    pub destination: Option<DestinationRef>,
}

/// A destination by number, for the store, and by name, for people.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DestinationRef {
    /// Its number.
    pub number: DestinationNo,
    /// Its name.
    pub name: String,
}

/// A held delivery and where it goes now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Assignment {
    /// The delivery that waits for a destination.
    pub held: DeliveryId,
    /// Where it goes.
    pub to: Vec<DestinationRef>,
}

/// What was done.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Report {
    /// How many.
    pub done: u64,
    /// What could not be done, and why, a sentence each.
    pub refused: Vec<String>,
}

/// A line for the log once the step is on disk.
pub(super) struct Said {
    /// What the event is called.
    pub(super) name: String,
    /// Its number.
    pub(super) seq: Seq,
    /// What happened to it.
    pub(super) action: Action,
}

/// Where the effects of an operation go besides the tables.
pub(super) struct Effects<'a> {
    now: Reading,
    notices: &'a mut Vec<Notice>,
    said: &'a mut Vec<Said>,
}

impl<'a> Effects<'a> {
    pub(super) fn new(now: Reading, notices: &'a mut Vec<Notice>, said: &'a mut Vec<Said>) -> Self {
        Self { now, notices, said }
    }

    /// Does one wish.
    pub(super) fn operate(
        &mut self,
        tables: &mut Tables<'_>,
        operation: &Operation,
    ) -> Result<Report, Error> {
        let mut report = Report::default();
        match operation {
            Operation::Replay(targets) => {
                for target in targets {
                    let replayed = self.replay(tables, target);
                    report.add(whole(replayed, target.seq)?);
                }
            }
            Operation::Discard(targets) => {
                for target in targets {
                    let discarded = self.discard(tables, target);
                    report.add(whole(discarded, target.seq)?);
                }
            }
            Operation::Move(targets, to) => {
                for target in targets {
                    let moved = self.move_to(tables, target, to);
                    report.add(whole(moved, target.seq)?);
                }
            }
            Operation::Backfill(seqs, to) => {
                for seq in seqs {
                    let filled = self.backfill(tables, *seq, to);
                    report.done += u64::from(filled?);
                }
            }
            Operation::Hold(name) => {
                tables.put_meta(&held_name(name), &true)?;
                report.done = 1;
            }
            Operation::Release(name) => {
                tables.remove_meta(&held_name(name))?;
                report.done = 1;
            }
            Operation::Expect(names) => {
                tables.put_meta(EXPECTED, names)?;
                report.done = 1;
            }
            Operation::Assign(assignments) => {
                for assignment in assignments {
                    self.assign(tables, assignment)?;
                    report.done += 1;
                }
            }
        }
        Ok(report)
    }

    fn replay(
        &mut self,
        tables: &mut Tables<'_>,
        target: &Target,
    ) -> Result<Result<(), String>, Error> {
        let Some(event) = tables.event(target.seq)? else {
            return Ok(Err(format!("there is no event with seq {}", target.seq)));
        };
        let name = event.name(target.seq);
        let Some(to) = &target.destination else {
            return Ok(Err(format!(
                "{name} is in quarantine: it has no delivery to replay"
            )));
        };
        let lane = match tables.dead_letter(to.number, target.seq)? {
            Some(letter) => {
                tables.remove_dead(to.number, target.seq)?;
                letter.lane
            }
            None => match delivered_in(tables, &event, target.seq, to)? {
                Ok(_) if 0 < event.kept && !tables.has_body(target.seq)? => {
                    return Ok(Err(format!("the body of {name} has expired")));
                }
                Ok(lane) => lane,
                Err(refused) => return Ok(Err(refused)),
            },
        };
        let id = DeliveryId {
            destination: to.number,
            lane,
            seq: target.seq,
        };
        let progress = Progress {
            attempts: 0,
            replayed: true,
        };
        tables.put_pending(id, progress)?;
        self.notices.push(Notice::Arrived(Pending { id, progress }));
        let destination = to.name.clone();
        self.note(tables, target.seq, name, Action::Replayed { destination })?;
        Ok(Ok(()))
    }

    fn discard(
        &mut self,
        tables: &mut Tables<'_>,
        target: &Target,
    ) -> Result<Result<(), String>, Error> {
        let Some(event) = tables.event(target.seq)? else {
            return Ok(Err(format!("there is no event with seq {}", target.seq)));
        };
        let name = event.name(target.seq);
        let Some(to) = &target.destination else {
            if !tables.remove_quarantined(target.seq)? {
                return Ok(Err(format!("{name} is not in quarantine")));
            }
            let action = Action::Discarded { destination: None };
            self.note(tables, target.seq, name, action)?;
            return Ok(Ok(()));
        };
        if !tables.remove_dead(to.number, target.seq)? {
            let Some(id) = pending_as(tables, &event, target.seq, to.number)? else {
                return Ok(Err(format!(
                    "{name} neither waits for {} nor is a dead letter of it",
                    to.name
                )));
            };
            tables.remove_pending(id)?;
            self.notices.push(Notice::Discarded(id));
        }
        let destination = Some(to.name.clone());
        self.note(tables, target.seq, name, Action::Discarded { destination })?;
        Ok(Ok(()))
    }

    fn move_to(
        &mut self,
        tables: &mut Tables<'_>,
        target: &Target,
        to: &DestinationRef,
    ) -> Result<Result<(), String>, Error> {
        let seq = target.seq;
        let discarded = self.discard(tables, target)?;
        if discarded.is_ok() {
            self.backfill(tables, seq, to)?;
        }
        Ok(discarded)
    }

    /// Whether a delivery was made. What is damaged, was never to be delivered or has no body any
    /// more is left alone.
    fn backfill(
        &mut self,
        tables: &mut Tables<'_>,
        seq: Seq,
        to: &DestinationRef,
    ) -> Result<bool, Error> {
        let event = match tables.event(seq) {
            Err(Error::Corrupt { .. }) | Ok(None) => return Ok(false),
            other => other?.expect("none was ruled out"),
        };
        let Some(lane) = event.to.first().map(|address| address.lane) else {
            return Ok(false);
        };
        let has_it = pending_as(tables, &event, seq, to.number)?.is_some()
            || tables.dead_letter(to.number, seq)?.is_some()
            || Ending::of(&to.name, &tables.trail(seq)?).is_some();
        let has_expired = 0 < event.kept && !tables.has_body(seq)?;
        if has_it || has_expired {
            return Ok(false);
        }
        self.deliver(tables, event.name(seq), lane, seq, to)?;
        Ok(true)
    }

    /// Makes a delivery.
    fn deliver(
        &mut self,
        tables: &mut Tables<'_>,
        name: String,
        lane: Lane,
        seq: Seq,
        to: &DestinationRef,
    ) -> Result<(), Error> {
        let id = DeliveryId {
            destination: to.number,
            lane,
            seq,
        };
        let progress = Progress::default();
        tables.put_pending(id, progress)?;
        self.notices.push(Notice::Arrived(Pending { id, progress }));
        let destination = to.name.clone();
        self.note(tables, seq, name, Action::Assigned { destination })
    }

    fn assign(&mut self, tables: &mut Tables<'_>, assignment: &Assignment) -> Result<(), Error> {
        let Assignment { held, to } = assignment;
        if !tables.remove_pending(*held)? {
            return Ok(());
        }
        let event_id = tables.event(held.seq)?.and_then(|event| event.event_id);
        for destination in to {
            let name = name(event_id.as_deref(), held.seq);
            self.deliver(tables, name, held.lane, held.seq, destination)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        tables: &mut Tables<'_>,
        seq: Seq,
        name: String,
        action: Action,
    ) -> Result<(), Error> {
        let entry = Entry::new(self.now, action);
        tables.put_entry(seq, &entry)?;
        let action = entry.action;
        self.said.push(Said { name, seq, action });
        Ok(())
    }
}

impl Report {
    fn add(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => self.done += 1,
            Err(refused) => self.refused.push(refused),
        }
    }
}

/// Under which name the store remembers that an operator holds a destination.
#[must_use]
pub(crate) fn held_name(destination: &str) -> String {
    format!("held/{destination}")
}

/// The lanes that a delivery of this event may wait in.
fn lanes(event: &Event, seq: Seq) -> impl Iterator<Item = Lane> {
    let lanes = event.to.iter().map(|address| address.lane);
    lanes.chain(std::iter::once(Lane::alone(seq)))
}

fn pending_as(
    tables: &Tables<'_>,
    event: &Event,
    seq: Seq,
    destination: DestinationNo,
) -> Result<Option<DeliveryId>, Error> {
    for lane in lanes(event, seq) {
        let id = DeliveryId {
            destination,
            lane,
            seq,
        };
        if tables.pending(id)?.is_some() {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// The lane of a delivery that ended well, or why there is none.
fn delivered_in(
    tables: &Tables<'_>,
    event: &Event,
    seq: Seq,
    to: &DestinationRef,
) -> Result<Result<Lane, String>, Error> {
    let name = event.name(seq);
    if pending_as(tables, event, seq, to.number)?.is_some() {
        return Ok(Err(format!("{name} still waits for {}", to.name)));
    }
    let ending = Ending::of(&to.name, &tables.trail(seq)?);
    let lane = event.to.first().map(|address| address.lane);
    Ok(match (ending, lane) {
        (Some(Ending::Delivered), Some(lane)) => Ok(lane),
        (Some(Ending::Discarded), _) => Err(format!("{name} was discarded for {}", to.name)),
        (Some(Ending::Shed), _) => Err(format!("{name} was given up when the store was full")),
        _ => Err(format!("{name} was never delivered to {}", to.name)),
    })
}

/// What could not be done because a record is damaged is said, and is no reason to stop.
fn whole(done: Result<Result<(), String>, Error>, seq: Seq) -> Result<Result<(), String>, Error> {
    match done {
        Err(error @ Error::Corrupt { .. }) => Ok(Err(format!("seq {seq}: {error}"))),
        other => other,
    }
}
