//! One run of the gateway: the rooms of an event's way and the queues between them, as the
//! daemon wires them, without its threads.
//!
//! Each method is one step of one thread. What is in the queues is lost with the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gatepost::clock::{Clock, Moment};
use gatepost::commit::{Committer, Done, Notice, Operation, Report, Settlement, Work};
use gatepost::config::Config;
use gatepost::daemon::{Ground, fetch};
use gatepost::deliver::Worker;
use gatepost::delivery::Attempt;
use gatepost::dispatch::{Concluded, Dispatcher, Job};
use gatepost::event::{DestinationNo, Request};
use gatepost::ingest::{self, Admitted, Intake, Promise};
use gatepost::rng::Rng;
use gatepost::route::Routes;
use gatepost::store::{Error, Store};

use crate::sim::devices::MessageNo;
use crate::sim::disk::Disk;
use crate::sim::network::{self, Network};
use crate::sim::pace::Meter;

/// Who waits for the committer.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Device(MessageNo, Promise),
    Operator(Operation),
}

/// What somebody who waited is told.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    /// A device: its status, and what had become of its event.
    Device(MessageNo, u16, Option<Done>),
    /// An operator: what came of this.
    Operator(Operation, Report),
}

/// An attempt that has begun.
#[derive(Debug)]
struct UnderWay {
    ends: Moment,
    concluded: Concluded,
}

/// The running gateway.
pub(crate) struct Process {
    pub(crate) store: Arc<Store>,
    pub(crate) numbers: BTreeMap<String, DestinationNo>,
    clock: Arc<dyn Clock>,
    intake: Intake,
    committer: Committer,
    dispatcher: Dispatcher,
    workers: BTreeMap<DestinationNo, (Worker, Network)>,
    meters: BTreeMap<DestinationNo, Meter>,
    /// To the committer.
    work: VecDeque<Work<Waiter>>,
    /// To the dispatcher.
    notices: VecDeque<Vec<Notice>>,
    /// Settlements on their way to the committer.
    unsent: VecDeque<Settlement>,
    /// To the workers.
    jobs: Vec<Job>,
    under_way: Vec<UnderWay>,
    /// To devices and operators.
    answers: VecDeque<Told>,
    /// Whether a claim may find something.
    may_claim: bool,
}

/// What a step did that the world must know of.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Nothing that can be seen from outside.
    Inside,
    /// A request went upstream.
    Sent(Job, network::Request),
    /// An attempt ended, and this is to be noted of it.
    Concluded(Box<Attempt>, Option<Box<Settlement>>),
    /// Events, settlements and what operators wanted are on disk. Who waited has not heard of it.
    Committed(Vec<Told>, Vec<Notice>),
    /// Somebody was told something.
    Told(Told),
}

/// A thread of the process that has something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thread {
    Commit,
    Answer,
    Heed,
    SendSettlements,
    Claim,
    Begin,
    Conclude,
}

impl Process {
    /// Starts on an open store, as the daemon does.
    pub(crate) fn start(
        store: Store,
        disk: &Disk,
        boot: &str,
        config: &Config,
        clock: Arc<dyn Clock>,
        networks: &BTreeMap<String, Network>,
        rng: Rng,
    ) -> Result<Self, Error> {
        let Ground {
            store,
            boot,
            numbers,
            committer,
        } = Ground::on(
            store,
            Arc::new(disk.clone()),
            Some(boot.to_owned()),
            config,
            &clock,
        )?;
        let destinations: Vec<_> = config
            .destinations
            .iter()
            .map(|to| (numbers[&to.name], to))
            .collect();
        let dispatcher = Dispatcher::new(store.clone(), clock.clone(), rng, &destinations)?;
        let worker = |(number, to): &(DestinationNo, &gatepost::config::Destination)| {
            let network = networks[&to.name].clone();
            let worker = Worker {
                gateway: store.gateway(),
                destination: Arc::new((*to).clone()),
                transport: Arc::new(network.clone()),
                clock: clock.clone(),
                schemas: Arc::default(),
            };
            (*number, (worker, network))
        };
        let routes = Routes::new(config.routes.clone()).expect("no two have the same path");
        Ok(Self {
            intake: Intake::new(routes, numbers.clone(), boot),
            workers: destinations.iter().map(worker).collect(),
            meters: destinations
                .iter()
                .map(|(number, to)| (*number, Meter::new(to)))
                .collect(),
            committer,
            dispatcher,
            store,
            numbers,
            clock,
            work: VecDeque::new(),
            notices: VecDeque::new(),
            unsent: VecDeque::new(),
            jobs: Vec::new(),
            under_way: Vec::new(),
            answers: VecDeque::new(),
            may_claim: true,
        })
    }

    /// A device's request has been read.
    pub(crate) fn receive(&mut self, number: MessageNo, request: Request) {
        let (received, now) = (self.clock.reading(), self.clock.moment());
        match self.intake.admit(request, received, now) {
            Admitted::Answer(answer) => {
                let told = Told::Device(number, answer.status, None);
                self.answers.push_back(told);
            }
            Admitted::Event(admission, promise) => {
                let waiter = Waiter::Device(number, promise);
                self.work.push_back(Work::Admit(admission, waiter));
            }
        }
    }

    /// An operator wants something.
    pub(crate) fn operate(&mut self, operation: Operation) {
        let waiter = Waiter::Operator(operation.clone());
        self.work.push_back(Work::Operate(operation, waiter));
    }

    /// What of the daemon could run now.
    pub(crate) fn runnable(&self) -> Vec<Thread> {
        let now = self.clock.moment();
        let committer_is_due = self.committer.due().is_some_and(|due| due <= now);
        let has_ended = self.under_way.iter().any(|attempt| attempt.ends <= now);
        let all = [
            (!self.work.is_empty() || committer_is_due, Thread::Commit),
            (!self.answers.is_empty(), Thread::Answer),
            (!self.notices.is_empty(), Thread::Heed),
            (!self.unsent.is_empty(), Thread::SendSettlements),
            (self.may_claim, Thread::Claim),
            (!self.jobs.is_empty(), Thread::Begin),
            (has_ended, Thread::Conclude),
        ];
        let runnable = all.into_iter().filter(|(is_runnable, _)| *is_runnable);
        runnable.map(|(_, thread)| thread).collect()
    }

    /// When something is to do by time alone.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let ends = self.under_way.iter().map(|attempt| attempt.ends);
        let due = self.dispatcher.wake_at().into_iter().chain(ends);
        due.chain(self.committer.due()).min()
    }

    /// Time has passed.
    pub(crate) fn wake(&mut self) {
        self.may_claim = true;
    }

    /// One step of a thread.
    pub(crate) fn run(&mut self, thread: Thread, rng: &mut Rng) -> Result<Happened, Error> {
        match thread {
            Thread::Commit => return self.commit(rng),
            Thread::Answer => return Ok(self.answer()),
            Thread::Heed => {
                for notice in self.notices.pop_front().into_iter().flatten() {
                    self.dispatcher.heed(notice)?;
                }
                self.may_claim = true;
            }
            Thread::SendSettlements => {
                let settlement = self.unsent.pop_front().map(Box::new);
                self.work.extend(settlement.map(Work::Settle));
            }
            Thread::Claim => {
                let job = self.dispatcher.claim()?;
                self.may_claim = job.is_some();
                if let Some(job) = &job {
                    self.measure(job)?;
                }
                self.jobs.extend(job);
            }
            Thread::Begin => return self.begin(rng),
            Thread::Conclude => return self.conclude(rng),
        }
        Ok(Happened::Inside)
    }

    /// An operator wants what waits for its pause tried now.
    pub(crate) fn flush(&mut self, name: &str) {
        let _ = self.dispatcher.flush(name);
        self.may_claim = true;
    }

    fn measure(&mut self, job: &Job) -> Result<(), Error> {
        let length = match self.store.event(job.delivery.seq) {
            Err(Error::Corrupt { .. }) => 0,
            event => event?.map_or(0, |event| event.kept),
        };
        let meter = self.meters.get_mut(&job.delivery.destination);
        let meter = meter.expect("each destination has one");
        meter.count(length, self.clock.moment(), self.clock.reading());
        Ok(())
    }

    /// Lets everything that was begun end, and closes the store. What the workers have not ended
    /// is lost.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.committer.finish()?;
        let Self {
            store,
            committer,
            dispatcher,
            ..
        } = self;
        drop((committer, dispatcher));
        Arc::into_inner(store)
            .expect("whoever else had it is gone")
            .close()
    }

    /// Whether nothing waits in a queue, is under way or will be tried again.
    pub(crate) fn is_idle(&self) -> bool {
        let queues = [
            self.work.len(),
            self.notices.len(),
            self.unsent.len(),
            self.answers.len(),
            self.jobs.len(),
            self.under_way.len(),
        ];
        queues.iter().all(|length| *length == 0) && self.dispatcher.wake_at().is_none()
    }

    fn commit(&mut self, rng: &mut Rng) -> Result<Happened, Error> {
        let waiting = self.work.len() as u64;
        // Mostly all that waits, as the daemon does; now and then it was quicker.
        let count = match rng.below(4) {
            0 => rng.below(waiting + 1),
            _ => waiting,
        };
        let count = usize::try_from(count).expect("a small number");
        let batch: Vec<Work<Waiter>> = self.work.drain(..count).collect();
        let step = self.committer.step(batch).map_err(|failed| failed.error)?;
        let told: Vec<Told> = step.answers.into_iter().map(tell).collect();
        self.answers.extend(told.clone());
        if !step.notices.is_empty() {
            self.notices.push_back(step.notices.clone());
        }
        Ok(Happened::Committed(told, step.notices))
    }

    fn answer(&mut self) -> Happened {
        let Some(told) = self.answers.pop_front() else {
            return Happened::Inside;
        };
        // The office tells the dispatcher once the operation is on disk.
        match &told {
            Told::Operator(Operation::Hold(name), _) => _ = self.dispatcher.hold(name, true),
            Told::Operator(Operation::Release(name), _) => _ = self.dispatcher.hold(name, false),
            _ => {}
        }
        self.may_claim = true;
        Happened::Told(told)
    }

    fn begin(&mut self, rng: &mut Rng) -> Result<Happened, Error> {
        let job = self.jobs.swap_remove(any(self.jobs.len(), rng));
        let parcel = fetch(&self.store, &job)?;
        let (worker, network) = &self.workers[&job.delivery.destination];
        let (mut attempt, name) = worker.attempt(job.delivery, job.progress, parcel);
        let request = network.take_last();
        attempt.took = request
            .as_ref()
            .map_or(Duration::ZERO, |request| request.takes);
        self.under_way.push(UnderWay {
            ends: self.clock.moment() + attempt.took,
            concluded: Concluded { attempt, name },
        });
        Ok(request.map_or(Happened::Inside, |request| Happened::Sent(job, request)))
    }

    fn conclude(&mut self, rng: &mut Rng) -> Result<Happened, Error> {
        let now = self.clock.moment();
        let ended: Vec<usize> = (0..self.under_way.len())
            .filter(|index| self.under_way[*index].ends <= now)
            .collect();
        let UnderWay { concluded, .. } = self.under_way.swap_remove(ended[any(ended.len(), rng)]);
        let attempt = concluded.attempt.clone();
        let settlement = self.dispatcher.conclude(concluded)?;
        self.unsent.extend(settlement.clone());
        self.may_claim = true;
        Ok(Happened::Concluded(
            Box::new(attempt),
            settlement.map(Box::new),
        ))
    }
}

/// What somebody who waited is told once the commit is done.
fn tell((waiter, done): (Waiter, Done)) -> Told {
    match (waiter, done) {
        (Waiter::Device(number, promise), done) => {
            let status = ingest::answer(&promise, Some(&done)).status;
            Told::Device(number, status, Some(done))
        }
        (Waiter::Operator(operation), Done::Operated(report)) => Told::Operator(operation, report),
        (Waiter::Operator(_), done) => {
            unreachable!("an operator is answered with a report, not with {done:?}")
        }
    }
}

/// One of so many, at least one.
fn any(count: usize, rng: &mut Rng) -> usize {
    usize::try_from(rng.below(count as u64)).expect("a small number")
}
