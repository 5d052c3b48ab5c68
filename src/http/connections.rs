//! All connections, and who holds how many of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::answers::Shared;
use super::connection::Connection;
use crate::clock::Moment;

/// All connections, each in a slot whose number is used again.
pub(super) struct Connections {
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    by_address: HashMap<IpAddr, usize>,
    shared: Arc<Shared>,
}

impl Connections {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_address: HashMap::new(),
            shared,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    /// The slot that the next connection will have.
    pub(super) fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    pub(super) fn insert(&mut self, connection: Connection) {
        *self.by_address.entry(address(&connection)).or_default() += 1;
        let connection = Some(Box::new(connection));
        match self.free.pop() {
            Some(slot) => self.slots[slot] = connection,
            None => self.slots.push(connection),
        }
        self.count();
    }

    pub(super) fn remove(&mut self, slot: usize) -> Option<Box<Connection>> {
        let connection = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        let address = address(&connection);
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
        self.count();
        Some(connection)
    }

    /// All that are open, with their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(slot, connection)| Some((slot, connection.as_deref()?)))
    }

    /// Who has to go first when there are too many: of the addresses with an idle connection the
    /// one that holds most connections, and there the one that has been idle longest.
    pub(super) fn most_dispensable(&self) -> Option<usize> {
        self.iter()
            .filter_map(|(slot, connection)| {
                let since = connection.idle_since()?;
                let holds = self.by_address.get(&address(connection)).copied();
                Some((holds.unwrap_or(0), since, slot))
            })
            .max_by(|one, other| order(*one).cmp(&order(*other)))
            .map(|(_, _, slot)| slot)
    }

    fn count(&self) {
        self.shared.open.store(self.len(), Ordering::Relaxed);
    }
}

/// Most connections first, then longest idle.
fn order((holds, since, _): (usize, Moment, usize)) -> (usize, std::cmp::Reverse<Moment>) {
    (holds, std::cmp::Reverse(since))
}

/// An IPv4 sender is the same one on a socket for both families.
fn address(connection: &Connection) -> IpAddr {
    connection.peer.ip().to_canonical()
}
