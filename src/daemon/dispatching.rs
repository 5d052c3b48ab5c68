//! The dispatcher's thread, and the workers it hands jobs to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};

use super::Error;
use super::crew::Crew;
use super::threads::{Waiter, work as work_on};
use crate::clock::{Clock, Moment};
use crate::commit::{Notice, Settlement, Work};
use crate::deliver::Worker;
use crate::dispatch::{Concluded, DestinationState, Dispatcher, Job};
use crate::event::DestinationNo;
use crate::store::Store;

/// How many settlements may wait for the committer before no further delivery is claimed.
const MOST_UNSENT: usize = 1024;

/// How soon the committer is asked again when it had no room for a settlement.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// The longest sleep. Being woken is a hint; what is due is looked at all the same.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// What the dispatcher's thread can be asked.
#[derive(Debug)]
pub(super) enum Ask {
    /// How each destination is.
    Destinations(Sender<Vec<DestinationState>>),
    /// Hold or release a destination. Answers whether there is one of that name.
    Hold(String, bool, Sender<bool>),
    /// Try now what waits for its pause at a destination. Answers as
    /// [`Dispatcher::flush`] does.
    Flush(String, Sender<Option<bool>>),
    /// Claim nothing more, and end when nothing is in flight, at the latest after so long.
    Stop(Duration),
}

/// What the dispatcher's thread is connected to.
pub(super) struct Wires {
    /// From the committer.
    pub(super) notices: Receiver<Vec<Notice>>,
    /// To the committer.
    pub(super) work: Sender<Work<Waiter>>,
    /// From operators and the main thread.
    pub(super) asks: Receiver<Ask>,
}

/// Starts the dispatcher's thread and the workers of each destination.
pub(super) fn start(
    dispatcher: Dispatcher,
    workers: Vec<(DestinationNo, usize, Worker)>,
    store: &Arc<Store>,
    wires: Wires,
    clock: Arc<dyn Clock>,
    crew: &Crew,
) -> Result<(), Error> {
    let in_flight: usize = workers.iter().map(|(_, count, _)| count).sum();
    let (conclude, concluded) = bounded(in_flight.max(1));
    let mut jobs = BTreeMap::new();
    for (number, count, worker) in workers {
        let (hand_out, work) = bounded(count);
        jobs.insert(number, hand_out);
        for _ in 0..count {
            let (worker, store) = (worker.clone(), Arc::clone(store));
            let (work, conclude) = (work.clone(), conclude.clone());
            crew.spawn("work", move || work_on(&worker, &store, &work, &conclude))?;
        }
    }
    let dispatching = Dispatching {
        dispatcher,
        jobs,
        concluded,
        _conclude: conclude,
        wires,
        clock,
        unsent: VecDeque::new(),
        stop_at: None,
    };
    crew.spawn("dispatch", move || dispatching.run())
}

struct Dispatching {
    dispatcher: Dispatcher,
    jobs: BTreeMap<DestinationNo, Sender<Job>>,
    concluded: Receiver<Concluded>,
    /// Without a destination there are no workers; a channel that nobody can send to would always
    /// have news.
    _conclude: Sender<Concluded>,
    wires: Wires,
    clock: Arc<dyn Clock>,
    /// Settlements that the committer had no room for. It must never be waited for: it may be
    /// waiting for its notices to be heeded.
    unsent: VecDeque<Settlement>,
    stop_at: Option<Moment>,
}

impl Dispatching {
    fn run(mut self) -> Result<(), Error> {
        loop {
            // First, so that nothing is claimed after we were told to stop.
            while let Ok(ask) = self.wires.asks.try_recv() {
                self.answer(ask);
            }
            if !self.send_settlements() {
                return Ok(());
            }
            if self.stop_at.is_none() {
                self.hand_out()?;
            }
            let now = self.clock.moment();
            let idle = self.dispatcher.in_flight() == 0 && self.unsent.is_empty();
            if self.stop_at.is_some_and(|stop_at| idle || stop_at <= now) {
                return Ok(());
            }
            select! {
                recv(self.concluded) -> concluded => if let Ok(concluded) = concluded {
                    self.conclude(concluded)?;
                },
                recv(self.wires.notices) -> notices => match notices {
                    Ok(notices) => self.heed(notices)?,
                    Err(_) => return Ok(()),
                },
                recv(self.wires.asks) -> ask => match ask {
                    Ok(ask) => self.answer(ask),
                    Err(_) => return Ok(()),
                },
                default(self.sleep(now)) => {}
            }
            while let Ok(concluded) = self.concluded.try_recv() {
                self.conclude(concluded)?;
            }
            while let Ok(notices) = self.wires.notices.try_recv() {
                self.heed(notices)?;
            }
        }
    }

    fn conclude(&mut self, concluded: Concluded) -> Result<(), Error> {
        self.unsent.extend(self.dispatcher.conclude(concluded)?);
        Ok(())
    }

    fn heed(&mut self, notices: Vec<Notice>) -> Result<(), Error> {
        for notice in notices {
            self.dispatcher.heed(notice)?;
        }
        Ok(())
    }

    fn answer(&mut self, ask: Ask) {
        // Whoever asked may have left.
        match ask {
            Ask::Destinations(answer) => _ = answer.send(self.dispatcher.destinations()),
            Ask::Hold(name, held, answer) => _ = answer.send(self.dispatcher.hold(&name, held)),
            Ask::Flush(name, answer) => _ = answer.send(self.dispatcher.flush(&name)),
            Ask::Stop(patience) => self.stop_at = Some(self.clock.moment() + patience),
        }
    }

    /// Sends what the committer has room for; false if it is gone.
    fn send_settlements(&mut self) -> bool {
        while let Some(settlement) = self.unsent.pop_front() {
            match self.wires.work.try_send(Work::Settle(Box::new(settlement))) {
                Ok(()) => {}
                Err(TrySendError::Full(Work::Settle(settlement))) => {
                    self.unsent.push_front(*settlement);
                    break;
                }
                Err(_) => return false,
            }
        }
        true
    }

    fn hand_out(&mut self) -> Result<(), Error> {
        while self.unsent.len() < MOST_UNSENT {
            let Some(job) = self.dispatcher.claim()? else {
                break;
            };
            // There is room for as many as may be in flight.
            let worker = self.jobs.get(&job.delivery.destination);
            if worker.is_none_or(|worker| worker.send(job).is_err()) {
                return Err(Error::Ended("work"));
            }
        }
        Ok(())
    }

    fn sleep(&self, now: Moment) -> Duration {
        let due = self
            .dispatcher
            .wake_at()
            .into_iter()
            .chain(self.stop_at)
            .min();
        let sleep = due.map_or(LONGEST_SLEEP, |due| due.since(now));
        let longest = if self.unsent.is_empty() {
            LONGEST_SLEEP
        } else {
            ASK_AGAIN
        };
        sleep.min(longest)
    }
}
