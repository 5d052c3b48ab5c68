//! How the admin server reaches the committer and the dispatcher of the running daemon.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

use super::Error;
use super::crew::Crew;
use super::dispatching::Ask;
use super::threads::Waiter;
use crate::admin::server::{Handle, SOCKET, Server};
use crate::admin::{self, Office, Unavailable};
use crate::clock::Clock;
use crate::commit::{Operation, Report, Work};
use crate::config::{Config, Destination};
use crate::devices::Devices;
use crate::dispatch::DestinationState;
use crate::event::DestinationNo;
use crate::route::Route;
use crate::store::{Store, folder_of};

/// How long the dispatcher may take to say how it is. It answers between two attempts' ends, so
/// silence means that it is stopping.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the admin server beside the store. Returns what stops it.
pub(super) fn open(
    desk: Desk,
    config: &Config,
    destinations: &[(DestinationNo, &Destination)],
    store: Arc<Store>,
    clock: &Arc<dyn Clock>,
    crew: &Crew,
) -> Result<Handle, Error> {
    let socket = folder_of(&config.store.path).join(SOCKET);
    let server = Server::bind(&socket, config.admin)?;
    let handle = server.handle();
    let named = |(number, destination): &(DestinationNo, &Destination)| {
        let name = destination.name.clone();
        (*number, name)
    };
    let leads_to = |route: &Route| (route.name.clone(), route.to.clone());
    let state = admin::State {
        store,
        destinations: destinations.iter().map(named).collect(),
        routes: config.routes.iter().map(leads_to).collect(),
        office: Box::new(desk),
        started: clock.reading(),
        version: env!("CARGO_PKG_VERSION"),
        clock: Arc::clone(clock),
    };
    crew.spawn("admin", move || {
        let ran = server.run(&state);
        ran.map_err(|error| Error::System("cannot start a thread", error))
    })?;
    Ok(handle)
}

/// The daemon's office.
pub(super) struct Desk {
    /// To the committer.
    pub(super) work: Sender<Work<Waiter>>,
    /// To the dispatcher.
    pub(super) asks: Sender<Ask>,
    /// Who was heard of.
    pub(super) devices: Arc<Devices>,
}

impl Office for Desk {
    fn operate(&self, operation: Operation) -> Result<Report, Unavailable> {
        let (reply, report) = bounded(1);
        let work = Work::Operate(operation, Waiter::Operator(reply));
        self.work.send(work).map_err(|_| Unavailable::Stopping)?;
        match report.recv() {
            Ok(Some(report)) => Ok(report),
            Ok(None) | Err(_) => Err(Unavailable::Stopping),
        }
    }

    fn destinations(&self) -> Option<Vec<DestinationState>> {
        let (reply, states) = bounded(1);
        self.asks.send(Ask::Destinations(reply)).ok()?;
        states.recv_timeout(PATIENCE).ok()
    }

    fn devices(&self) -> Option<&Devices> {
        Some(&self.devices)
    }

    fn hold(&self, name: &str, held: bool) -> Result<(), Unavailable> {
        let (reply, known) = bounded(1);
        let ask = Ask::Hold(name.to_owned(), held, reply);
        self.asks.send(ask).map_err(|_| Unavailable::Stopping)?;
        known
            .recv_timeout(PATIENCE)
            .map(drop)
            .map_err(|_| Unavailable::Stopping)
    }
}
