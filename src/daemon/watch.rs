//! Watching for devices that fall silent.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use log::{info, warn};

use super::threads::Waiter;
use crate::clock::Moment;
use crate::commit::{EXPECTED, Operation, Work};
use crate::devices::{Devices, Expected, Turn};
use crate::store::{self, Store};

/// How often who is expected is written down at most. Whoever came since and is not heard of again
/// after a power cut is not missed.
const EVERY: Duration = Duration::from_secs(10);

/// Raises and ends the alert on silent devices, and has those remembered who are expected.
pub(super) struct Watch {
    devices: Arc<Devices>,
    /// To the committer.
    work: Sender<Work<Waiter>>,
    /// [`Devices::expected`] that was written down last.
    changes: u64,
    next: Moment,
}

impl Watch {
    /// Goes on with the devices that `store` remembers.
    pub(super) fn start(
        devices: &Arc<Devices>,
        store: &Store,
        work: Sender<Work<Waiter>>,
        now: Moment,
    ) -> Result<Self, store::Error> {
        let names: Expected = store.meta(EXPECTED)?.unwrap_or_default();
        devices.expect(names, now);
        let changes = devices.expected(0).map_or(0, |(_, changes)| changes);
        Ok(Self {
            devices: Arc::clone(devices),
            work,
            changes,
            next: now,
        })
    }

    /// To be called about once a second.
    pub(super) fn tick(&mut self, now: Moment) {
        for change in self.devices.look(now) {
            match change.to {
                Turn::Silent { .. } => warn!("[alert device-silent] {change}"),
                Turn::Heard { .. } => info!("[alert device-silent] {change}"),
            }
        }
        if self.next <= now {
            self.write_down(now);
        }
    }

    /// Has them remembered who are expected now, if they are others than before.
    pub(super) fn write_down(&mut self, now: Moment) {
        let Some((names, changes)) = self.devices.expected(self.changes) else {
            return;
        };
        let (nobody, _) = bounded(1);
        let work = Work::Operate(Operation::Expect(names), Waiter::Operator(nobody));
        // A committer that has no room now is asked again.
        if self.work.try_send(work).is_ok() {
            self.changes = changes;
            self.next = now + EVERY;
        }
    }
}
