//! What a start does to the store before anything listens: counts the boot, gives destinations
//! their numbers, and sends on its way what had nowhere to go before.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use log::{error, info, warn};

use super::Error as DaemonError;
use super::upkeep::Upkeep;
use crate::clock::{self, Clock};
use crate::commit::{Assignment, Committer, DestinationRef, HELD, Operation, Retention, Work};
use crate::config::{Config, WhenFull};
use crate::delivery::DeliveryId;
use crate::event::DestinationNo;
use crate::rng::entropy;
use crate::store::{Damage, Error, Look, Room, SUSPICIOUS_STARTS, Store, Sync, kept_aside};

/// How many held deliveries are sent on their way in one transaction.
const AT_ONCE: usize = 500;

/// What everything else stands on.
pub struct Ground {
    /// The open store.
    pub store: Arc<Store>,
    /// The number of this start of the machine.
    pub boot: u64,
    /// The numbers of the configured destinations.
    pub numbers: BTreeMap<String, DestinationNo>,
    /// The store's one writer.
    pub committer: Committer,
}

impl Ground {
    /// Opens the store and brings it up to date with `config`.
    pub(super) fn prepare(
        config: &Config,
        clock: &Arc<dyn Clock>,
        upkeep: &Upkeep,
    ) -> Result<Self, DaemonError> {
        let store = open(config, upkeep)?;
        let room = upkeep.disk.clone();
        Ok(Self::on(store, room, clock::boot_id(), config, clock)?)
    }

    /// Brings an open store up to date with `config`. `room` is the disk that it lies on, and
    /// `boot_id` what the kernel calls this start of the machine. A simulation begins here.
    pub fn on(
        store: Store,
        room: Arc<dyn Room>,
        boot_id: Option<String>,
        config: &Config,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let store = Arc::new(store);
        let boot = boot_number(&store, boot_id)?;
        let numbers = numbers(&store, config)?;
        let max_size = config.store.max_size;
        let retention = Retention {
            keep_delivered: config.store.keep_delivered,
            keep_audit: config.store.keep_audit,
        };
        let mut committer =
            Committer::new(Arc::clone(&store), Arc::clone(clock), max_size, retention)?
                .with_room(room);
        if config.store.when_full == WhenFull::ShedLowestPriority {
            committer = committer.with_shedding();
        }
        assign_held(&store, &mut committer, config, &numbers)?;
        Ok(Self {
            store,
            boot,
            numbers,
            committer,
        })
    }
}

/// Opens the store. One that is damaged is put aside; one at which several starts in a row have
/// ended soon is looked at as a whole.
fn open(config: &Config, upkeep: &Upkeep) -> Result<Store, DaemonError> {
    let path = &config.store.path;
    let suspicious = SUSPICIOUS_STARTS <= upkeep.starts.begin();
    let look = if suspicious {
        info!("[store] the last starts ended within a minute: the whole store is checked");
        Look::Whole
    } else {
        Look::Usual
    };
    if suspicious {
        // Before the check: one that is cut short must not be what the next start begins with.
        upkeep.starts.begin_again();
    }
    let (store, damage) = Store::open_or_begin(path, random()?, look)?;
    if suspicious {
        info!("[store] checked");
    }
    if damage.is_none() {
        remind(path);
    }
    if let Some(Damage { kept, why }) = damage {
        let (path, kept) = (path.display(), kept.display());
        error!(
            "[alert store-damaged] {path} cannot be used ({why}): it is kept as {kept} and a new \
             store is begun; the events in it are not delivered until you get them back with: \
             gatepost salvage {kept} --into DIR"
        );
    }
    Ok(store)
}

/// Says again what earlier starts put aside: the one that did may have been cut short before it
/// said so, and a line in a log is soon forgotten.
fn remind(path: &Path) {
    let kept = kept_aside(path);
    let Some(last) = kept.last() else {
        return;
    };
    let (count, last) = (kept.len(), last.display());
    warn!(
        "[alert store-damaged] {count} damaged store(s) of earlier starts are kept, the last as \
         {last}: get the events in it back with: gatepost salvage {last} --into DIR, or move it \
         away if that is done"
    );
}

/// 64 random bits.
pub(super) fn random() -> Result<u64, DaemonError> {
    entropy().map_err(|error| DaemonError::System("there is no randomness", error))
}

/// The number of this start of the machine: 1 for the first that the store has seen. `boot_id` is
/// what the kernel calls it; a start without one counts as a new one.
fn boot_number(store: &Store, boot_id: Option<String>) -> Result<u64, Error> {
    let last: Option<(Option<String>, u64)> = store.meta("boot")?;
    let (last_id, number) = last.unwrap_or_default();
    if 0 < number && boot_id.is_some() && boot_id == last_id {
        return Ok(number);
    }
    let number = number + 1;
    store.write(Sync::Usual, |tables| {
        tables.put_meta("boot", &(boot_id, number))
    })?;
    Ok(number)
}

/// The numbers of the configured destinations. A name keeps its number for ever, so its events
/// find it again after it was taken out of the configuration and put back.
fn numbers(store: &Store, config: &Config) -> Result<BTreeMap<String, DestinationNo>, Error> {
    let known: BTreeMap<String, DestinationNo> = store.metas("destination/")?.into_iter().collect();
    let mut last = known.values().copied().max().unwrap_or(HELD);
    let mut numbers = BTreeMap::new();
    let mut new = Vec::new();
    for destination in &config.destinations {
        let name = &destination.name;
        let number = known.get(name).copied().unwrap_or_else(|| {
            last = DestinationNo(last.0 + 1);
            new.push((format!("destination/{name}"), last));
            last
        });
        numbers.insert(name.clone(), number);
    }
    if !new.is_empty() {
        store.write(Sync::Usual, |tables| {
            new.iter()
                .try_for_each(|(name, number)| tables.put_meta(name, number))
        })?;
    }
    Ok(numbers)
}

/// Makes deliveries for events that came when their route led nowhere, if it leads somewhere now.
/// Returns how many events.
fn assign_held(
    store: &Store,
    committer: &mut Committer,
    config: &Config,
    numbers: &BTreeMap<String, DestinationNo>,
) -> Result<u64, Error> {
    let mut assigned = 0;
    if config.routes.iter().all(|route| route.to.is_empty()) {
        return Ok(assigned);
    }
    let mut after = None;
    loop {
        let held = held_after(store, after)?;
        let Some(last) = held.last().copied() else {
            break;
        };
        after = Some(last);
        let mut assignments = Vec::new();
        for held in held {
            let to = destinations_now(store, held, config, numbers)?;
            if !to.is_empty() {
                assignments.push(Assignment { held, to });
            }
        }
        if !assignments.is_empty() {
            assigned += assignments.len() as u64;
            let work = Work::Operate(Operation::Assign(assignments), ());
            committer.step(vec![work]).map_err(|failed| failed.error)?;
        }
    }
    if 0 < assigned {
        info!("[store] {assigned} events that were held have a destination now");
    }
    Ok(assigned)
}

fn held_after(store: &Store, after: Option<DeliveryId>) -> Result<Vec<DeliveryId>, Error> {
    // HELD is the lowest number, so its rows are the first.
    let rows = store
        .pending_after(after, AT_ONCE)?
        .into_iter()
        .map(|pending| pending.id);
    Ok(rows.take_while(|id| id.destination == HELD).collect())
}

fn destinations_now(
    store: &Store,
    held: DeliveryId,
    config: &Config,
    numbers: &BTreeMap<String, DestinationNo>,
) -> Result<Vec<DestinationRef>, Error> {
    let event = match store.event(held.seq) {
        Err(Error::Corrupt { .. }) | Ok(None) => return Ok(Vec::new()),
        other => other?.expect("none was ruled out"),
    };
    let route = config
        .routes
        .iter()
        .find(|route| Some(&route.name) == event.route.as_ref());
    let names = route.map(|route| route.to.iter()).into_iter().flatten();
    let known = names.filter_map(|name| {
        Some(DestinationRef {
            number: *numbers.get(name)?,
            name: name.clone(),
        })
    });
    Ok(known.collect())
}
