//! The daemon: puts the rooms of an event's way together, starts their threads, and stops them.
//!
//! # Guarantees
//!
//! - Nothing listens before the store is open and what waits in it is known. The log says so once
//!   devices and operators are both served.
//! - Stopping loses nothing: what was received is committed and answered, attempts in flight have
//!   [`PATIENCE`] to end, and the last commit makes the next start quick.
//! - When a thread ends that should not, everybody who waits hears that nothing was stored, and
//!   the process ends.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use log::{error, info};

mod crew;
mod dispatching;
mod office;
mod start;
mod stop;
mod threads;
mod upkeep;
mod watch;

pub use start::Ground;
pub use stop::{EXIT_INTERNAL, watch_signals};
pub use threads::fetch;

use crate::admin;
use crate::clock::{Clock, Moment, SystemClock};
use crate::config::{Config, Destination};
use crate::deliver::Worker;
use crate::dispatch::Dispatcher;
use crate::event::{DestinationNo, Request};
use crate::http::{self, Limits, Server, Ticket};
use crate::ingest::Intake;
use crate::logger::Logger;
use crate::memory;
use crate::rng::Rng;
use crate::route::{Route, Routes, SamePath};
use crate::store::{self, Store};
use crate::upstream::{self, Http};
use crew::{Crew, Ends};
use dispatching::{Ask, Wires};
use office::Desk;
use stop::Happened;
use threads::{Admitter, Reception};
use upkeep::Upkeep;
use watch::Watch;

/// How long attempts in flight may take to end once the daemon is asked to stop.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How much longer than its patience a thread may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// How long senders who wait have to hear that nothing was stored, before a failed store ends the
/// process.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Threads that read and admit what the event loop received.
const ADMITTERS: usize = 2;

/// How much work may wait for the committer: more than there are connections, so nobody who may
/// wait is ever turned away.
const WORK: usize = 4096;

/// Runs the gateway that `config` describes until a signal stops it.
///
/// # Errors
///
/// What kept it from starting, or made it stop. Devices that waited have heard that nothing was
/// stored.
pub fn run(config: &Config) -> Result<(), Error> {
    memory::keep_little();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let logger = Logger::start(Arc::clone(&clock));
    let (happened, events) = unbounded();
    watch_signals(happened.clone(), || Happened::Signal)?;
    let mut upkeep = Upkeep::of(&config.store.path, clock.moment());
    let gateway = Gateway::start(config, &clock, &upkeep, &Crew::new(happened));
    let ended = gateway.and_then(|mut gateway| {
        let mut ends = Ends::new(events);
        let tick = || {
            logger.tick(clock.moment());
            upkeep.tick(clock.moment());
            gateway.watch.tick(clock.moment());
        };
        match ends.next(tick) {
            None => gateway.stop(ends, clock.moment()),
            Some(thread) => {
                error!("[alert thread-ended] {thread}: the process ends");
                gateway.answers.refuse_all();
                gateway.answers.stop();
                ends.wait_for("http", LAST_WORDS);
                ends.wait_for_error(LAST_WORDS);
                Err(ends.error().unwrap_or(Error::Ended(thread)))
            }
        }
    });
    upkeep.end(&ended);
    ended
}

/// The running threads, and what they are reached by.
struct Gateway {
    answers: http::Answers,
    asks: Sender<Ask>,
    admin: admin::server::Handle,
    watch: Watch,
}

impl Gateway {
    fn start(
        config: &Config,
        clock: &Arc<dyn Clock>,
        upkeep: &Upkeep,
        crew: &Crew,
    ) -> Result<Self, Error> {
        let Ground {
            store,
            boot,
            numbers,
            committer,
        } = Ground::prepare(config, clock, upkeep)?;
        let destinations = numbered(config, &numbers);
        let rng = Rng::from_seed(start::random()?);
        let dispatcher =
            Dispatcher::new(Arc::clone(&store), Arc::clone(clock), rng, &destinations)?;

        let (to_admit, requests) = bounded(WORK);
        let server = listen(config, clock, to_admit)?;
        let answers = server.answers();
        stop::end_on_panic(answers.clone());

        let (work, to_commit) = bounded(WORK);
        let (notices, to_heed) = bounded(WORK);
        let (asks, asked) = bounded(WORK);
        let routes = Routes::new(config.routes.clone())?;
        let intake = Arc::new(Intake::new(routes, numbers, boot));
        let devices = intake.devices();
        let reception = Reception::new(answers.clone(), notices, devices, clock);
        reception.commit(committer, to_commit, Arc::clone(clock), crew)?;
        let wires = Wires {
            notices: to_heed,
            work: work.clone(),
            asks: asked,
        };
        let workers = workers(&destinations, &config.routes, &store, clock)?;
        dispatching::start(dispatcher, workers, &store, wires, Arc::clone(clock), crew)?;
        let watch = Watch::start(devices, &store, work.clone(), clock.moment())?;
        let desk = Desk {
            work: work.clone(),
            asks: asks.clone(),
            devices: Arc::clone(devices),
        };
        let admin = office::open(desk, config, &destinations, store, clock, crew)?;
        let admitter = Admitter {
            intake,
            requests,
            work,
            answers: answers.clone(),
            clock: Arc::clone(clock),
        };
        admitter.start(ADMITTERS, crew)?;
        serve(server, &config.store.path, crew)?;
        Ok(Self {
            answers,
            asks,
            admin,
            watch,
        })
    }

    /// Lets everything end in the order of an event's way.
    fn stop(mut self, mut ends: Ends, now: Moment) -> Result<(), Error> {
        info!("[config] stopping");
        self.answers.drain();
        // The committer goes on until nobody can ask it for anything.
        self.watch.write_down(now);
        drop(self.watch);
        ends.wait_for("http", PATIENCE);
        self.answers.stop();
        // A dispatcher that has ended by itself needs no telling.
        let _ = self.asks.send(Ask::Stop(PATIENCE));
        self.admin.stop();
        ends.wait_for("admin", PATIENCE);
        ends.wait_for("dispatch", PATIENCE + GRACE);
        let committed = ends.wait_for("commit", PATIENCE);
        match ends.error() {
            Some(error) => Err(error),
            None if committed => {
                info!("[config] stopped");
                Ok(())
            }
            None => Err(Error::Ended("commit")),
        }
    }
}

/// The configured destinations with their numbers.
fn numbered<'a>(
    config: &'a Config,
    numbers: &BTreeMap<String, DestinationNo>,
) -> Vec<(DestinationNo, &'a Destination)> {
    let numbered = |to: &'a Destination| Some((*numbers.get(&to.name)?, to));
    config.destinations.iter().filter_map(numbered).collect()
}

/// Binds the device plane's addresses. Nobody is served before the server runs.
fn listen(
    config: &Config,
    clock: &Arc<dyn Clock>,
    to_admit: Sender<Vec<(Ticket, Request)>>,
) -> Result<Server, Error> {
    let limits = Limits::with_max_body(config.ingest.max_body);
    let server = Server::bind(&config.ingest.listen, limits, Arc::clone(clock), to_admit)?;
    Ok(server)
}

/// Serves devices, and says where. Whoever waits for these lines may also ask over the admin
/// socket at once, so they come last.
fn serve(server: Server, store: &Path, crew: &Crew) -> Result<(), Error> {
    let addresses = server.addresses();
    crew.spawn("http", move || Ok(server.run()?))?;
    for address in addresses {
        info!(
            "[config] listening on {address}, storing in {}",
            store.display()
        );
    }
    Ok(())
}

/// What makes the attempts for each destination, and how many of them at once.
fn workers(
    destinations: &[(DestinationNo, &Destination)],
    routes: &[Route],
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<(DestinationNo, usize, Worker)>, Error> {
    let schema = |route: &Route| Some((route.name.clone(), route.schema.clone()?));
    let schemas = Arc::new(routes.iter().filter_map(schema).collect());
    let worker = |(number, destination): &(DestinationNo, &Destination)| {
        let worker = Worker {
            gateway: store.gateway(),
            destination: Arc::new((*destination).clone()),
            transport: Arc::new(Http::new(destination)?),
            clock: Arc::clone(clock),
            schemas: Arc::clone(&schemas),
        };
        Ok((*number, destination.workers, worker))
    };
    destinations.iter().map(worker).collect()
}

/// Why the daemon could not start or go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store.
    Store(store::Error),
    /// The device plane.
    Http(http::Error),
    /// The admin server.
    Admin(admin::server::Error),
    /// A destination.
    Upstream(upstream::Error),
    /// The routes.
    Routes(SamePath),
    /// A thread that must run has ended.
    Ended(&'static str),
    /// The operating system refused something; says what.
    System(&'static str, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Http(error) => error.fmt(f),
            Self::Admin(error) => error.fmt(f),
            Self::Upstream(error) => error.fmt(f),
            Self::Routes(error) => error.fmt(f),
            Self::Ended(thread) => write!(f, "the {thread} thread ended by itself"),
            Self::System(what, _) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Http(error) => error.source(),
            Self::Admin(error) => error.source(),
            Self::Upstream(error) => error.source(),
            Self::Routes(error) => error.source(),
            Self::Ended(_) => None,
            Self::System(_, error) => Some(error),
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<http::Error> for Error {
    fn from(error: http::Error) -> Self {
        Self::Http(error)
    }
}

impl From<admin::server::Error> for Error {
    fn from(error: admin::server::Error) -> Self {
        Self::Admin(error)
    }
}

impl From<upstream::Error> for Error {
    fn from(error: upstream::Error) -> Self {
        Self::Upstream(error)
    }
}

impl From<SamePath> for Error {
    fn from(error: SamePath) -> Self {
        Self::Routes(error)
    }
}
