//! All connections, and who holds how many of them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
        let idle = self.iter().filter_map(|(slot, connection)| {
            let since = connection.idle_since()?;
            let holds = self.by_address.get(&address(connection)).copied();
            Some((holds.unwrap_or(0), since, slot))
        });
        most_dispensable(idle)
    }

    /// Whose large body has to go when others need its memory: the one whose sender has been silent
    /// longest, if that is at least `time`.
    pub(super) fn most_silent(&self, now: Moment, time: Duration) -> Option<usize> {
        let stalled = self
            .iter()
            .filter_map(|(slot, connection)| Some((connection.stalled_since()?, slot)));
        most_silent(stalled, now, time)
    }

    fn count(&self) {
        self.shared.open.store(self.len(), Ordering::Relaxed);
    }
}

/// The slot with most connections beside it, and among those the one idle for longest. Takes how
/// many connections its address holds, since when it is idle, and the slot.
fn most_dispensable(idle: impl Iterator<Item = (usize, Moment, usize)>) -> Option<usize> {
    idle.max_by_key(|(holds, since, _)| (*holds, Reverse(*since)))
        .map(|(_, _, slot)| slot)
}

/// The slot that was heard least lately, if that was at least `time` ago.
fn most_silent(
    stalled: impl Iterator<Item = (Moment, usize)>,
    now: Moment,
    time: Duration,
) -> Option<usize> {
    let (heard, slot) = stalled.min()?;
    (heard + time <= now).then_some(slot)
}

/// An IPv4 sender is the same one on a socket for both families.
fn address(connection: &Connection) -> IpAddr {
    connection.peer.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_most_gives_up_what_is_idle_longest() {
        type Row<'a> = (&'a [(usize, Moment, usize)], Option<usize>);
        let at = |seconds| Moment::at(Duration::from_secs(seconds));
        let rows: &[Row<'_>] = &[
            (&[], None),
            (&[(1, at(5), 0)], Some(0)),
            (&[(1, at(5), 0), (1, at(3), 1), (1, at(4), 2)], Some(1)),
            (
                &[(1, at(1), 0), (7, at(3), 1), (7, at(2), 2), (2, at(0), 3)],
                Some(2),
            ),
        ];
        for (idle, wanted) in rows {
            assert_eq!(most_dispensable(idle.iter().copied()), *wanted, "{idle:?}");
        }
    }

    #[test]
    fn who_was_heard_least_lately_is_the_most_silent() {
        type Row<'a> = (&'a [(Moment, usize)], Option<usize>);
        let at = |seconds| Moment::at(Duration::from_secs(seconds));
        let rows: &[Row<'_>] = &[
            (&[], None),
            (&[(at(6), 0), (at(7), 1)], None),
            (&[(at(6), 0), (at(5), 1)], Some(1)),
            (&[(at(3), 0), (at(1), 1), (at(2), 2)], Some(1)),
        ];
        for (stalled, wanted) in rows {
            let found = most_silent(stalled.iter().copied(), at(9), Duration::from_secs(4));
            assert_eq!(found, *wanted, "{stalled:?}");
        }
    }
}
