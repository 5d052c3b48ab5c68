//! The threads of the daemon, each a loop around a step that a simulation calls too.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use log::warn;

use super::Error;
use super::crew::Crew;
use crate::clock::Clock;
use crate::commit::{Committer, Done, Ear, Notice, Report, Work, run};
use crate::deliver::{Parcel, Worker};
use crate::dispatch::{Concluded, Job};
use crate::event::Request;
use crate::fault;
use crate::http::{Answer, Answers, Ticket};
use crate::ingest::{self, Admitted, Intake, Lost, Promise};
use crate::store::{self, Store};

/// Who waits for the committer.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A device, for its answer.
    Device(Ticket, Promise),
    /// An operator, for a report; none if the store failed.
    Operator(Sender<Option<Report>>),
}

/// Reads requests and asks the committer to store what is in them.
#[derive(Clone)]
pub(super) struct Admitter {
    /// What decides what a request is.
    pub(super) intake: Arc<Intake>,
    /// From the event loop.
    pub(super) requests: Receiver<Vec<(Ticket, Request)>>,
    /// To the committer.
    pub(super) work: Sender<Work<Waiter>>,
    /// To devices, for what is not stored.
    pub(super) answers: Answers,
    /// When a request was received.
    pub(super) clock: Arc<dyn Clock>,
}

impl Admitter {
    /// Starts so many threads. They admit until the event loop is gone.
    pub(super) fn start(self, threads: usize, crew: &Crew) -> Result<(), Error> {
        for _ in 0..threads {
            let admitter = self.clone();
            crew.spawn("admit", move || {
                admitter.run();
                Ok(())
            })?;
        }
        Ok(())
    }

    fn run(&self) {
        for batch in &self.requests {
            let (received, now) = (self.clock.reading(), self.clock.moment());
            let mut at_once = Vec::new();
            for (ticket, request) in batch {
                match self.intake.admit(request, received, now) {
                    Admitted::Answer(answer) => at_once.push((ticket, answer)),
                    Admitted::Event(admission, promise) => {
                        let admit = Work::Admit(admission, Waiter::Device(ticket, promise));
                        if self.work.send(admit).is_err() {
                            at_once.push((ticket, Answer::refusal()));
                        }
                    }
                }
            }
            if !at_once.is_empty() {
                self.answers.send(at_once);
            }
        }
    }
}

/// Where the committer's answers and notices go.
pub(super) struct Reception {
    /// To devices.
    answers: Answers,
    /// To the dispatcher.
    notices: Sender<Vec<Notice>>,
    /// What was read of them.
    intake: Arc<Intake>,
    /// Notices what refusals cost.
    lost: Lost,
    /// When they were made.
    clock: Arc<dyn Clock>,
}

impl Reception {
    /// Answers go to `answers`, notices to `notices`, and what was admitted came from `intake`.
    pub(super) fn new(
        answers: Answers,
        notices: Sender<Vec<Notice>>,
        intake: &Arc<Intake>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        Self {
            intake: Arc::clone(intake),
            answers,
            notices,
            lost: Lost::new(Arc::clone(intake.devices())),
            clock: Arc::clone(clock),
        }
    }

    /// Starts the committer's thread. It commits until everybody who could ask for it is gone.
    pub(super) fn commit(
        mut self,
        mut committer: Committer,
        work: Receiver<Work<Waiter>>,
        clock: Arc<dyn Clock>,
        crew: &Crew,
    ) -> Result<(), Error> {
        crew.spawn("commit", move || {
            Ok(run(&mut committer, &work, clock.as_ref(), &mut self)?)
        })
    }
}

impl Ear<Waiter> for Reception {
    fn answer(&mut self, answers: Vec<(Waiter, Option<Done>)>) {
        let mut to_devices = Vec::with_capacity(answers.len());
        let now = self.clock.moment();
        for (waiter, done) in answers {
            match waiter {
                Waiter::Device(ticket, promise) => {
                    if done == Some(Done::Full) {
                        warn!("[store] full: an event was refused, its sender will come again");
                    }
                    self.intake.refund(&promise, done.as_ref(), now);
                    self.lost.hear(&promise, done.as_ref(), now);
                    to_devices.push((ticket, ingest::answer(&promise, done.as_ref())));
                }
                Waiter::Operator(operator) => {
                    let report = match done {
                        Some(Done::Operated(report)) => Some(report),
                        _ => None,
                    };
                    // An operator who left is not told.
                    let _ = operator.send(report);
                }
            }
        }
        if !to_devices.is_empty() {
            self.answers.send(to_devices);
        }
    }

    fn notice(&mut self, notices: Vec<Notice>) {
        if !notices.is_empty() {
            // While stopping the dispatcher may be gone; then nothing is dispatched any more.
            let _ = self.notices.send(notices);
        }
    }

    fn senders(&self) -> usize {
        self.answers.open_connections()
    }
}

/// Makes attempts until there are no more jobs.
pub(super) fn work(
    worker: &Worker,
    store: &Arc<Store>,
    jobs: &Receiver<Job>,
    concluded: &Sender<Concluded>,
) -> Result<(), Error> {
    for job in jobs {
        let parcel = fetch(store, &job)?;
        let (attempt, name) = worker.attempt(job.delivery, job.progress, parcel);
        fault::point("after-send");
        if concluded.send(Concluded { attempt, name }).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads what is to be sent, or says what is damaged of it. Holds nothing of the store afterwards.
pub fn fetch(store: &Store, job: &Job) -> Result<Result<Parcel, String>, store::Error> {
    match read(store, job) {
        Ok(parcel) => Ok(Ok(parcel)),
        Err(store::Error::Corrupt { table, reason }) => {
            Ok(Err(format!("its record in `{table}` is damaged: {reason}")))
        }
        Err(error) => Err(error),
    }
}

fn read(store: &Store, job: &Job) -> Result<Parcel, store::Error> {
    let seq = job.delivery.seq;
    let missing = || store::Error::Corrupt {
        table: "events",
        reason: format!("there is no record of seq {seq}"),
    };
    let event = store.event(seq)?.ok_or_else(missing)?;
    let body = store
        .body(seq, &event)?
        .ok_or_else(|| store::Error::Corrupt {
            table: "bodies",
            reason: format!("the body of seq {seq} is gone"),
        })?;
    Ok(Parcel { event, body })
}
