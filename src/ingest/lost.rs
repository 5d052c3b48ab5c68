//! Refusals that nobody makes good.
//!
//! A refused sender sends its event again; one that is known never to do so has lost it, and only
//! an alert can tell. The alert has a start and an end, and each loss is counted at its device.

use std::sync::Arc;
use std::time::Duration;

use log::{info, warn};

use super::Promise;
use crate::clock::Moment;
use crate::commit::Done;
use crate::devices::Devices;
use crate::event::printable;

/// How long nothing may have been lost before the alert is over.
const CALM: Duration = Duration::from_secs(60);

/// Notices when events are lost. One for all answers of the committer.
#[derive(Debug)]
pub struct Lost {
    devices: Arc<Devices>,
    raised: Option<Raised>,
}

#[derive(Clone, Copy, Debug)]
struct Raised {
    events: u64,
    last: Moment,
}

/// Whose event it is, if its sender never sends it again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct OnlyOnce {
    /// The route.
    pub(super) route: String,
    /// What stands for the sender.
    pub(super) sender: String,
}

impl Lost {
    /// Counts at `devices`.
    #[must_use]
    pub fn new(devices: Arc<Devices>) -> Self {
        Self {
            devices,
            raised: None,
        }
    }

    /// Hears how the store has dealt with an event, as [`super::answer`] does.
    pub fn hear(&mut self, promise: &Promise, done: Option<&Done>, now: Moment) {
        let is_kept = matches!(done, Some(Done::Stored(_) | Done::Duplicate(_)));
        match (&promise.only_once, self.raised) {
            (_, Some(raised)) if is_kept && CALM <= now.since(raised.last) => {
                let events = raised.events;
                info!("[alert refused] over: {events} events were lost, new ones are taken again");
                self.raised = None;
            }
            (Some(only_once), raised) if !is_kept => {
                let OnlyOnce { route, sender } = &**only_once;
                self.devices.lose(route, sender);
                if raised.is_none() {
                    let sender = printable(sender);
                    warn!(
                        "[alert refused] an event of {sender} on {route} was refused (503), and \
                         this kind of sender never sends again: it is lost; the store says why"
                    );
                }
                let events = raised.map_or(0, |raised| raised.events) + 1;
                self.raised = Some(Raised { events, last: now });
            }
            _ => {}
        }
    }

    /// How many events were lost since the alert was raised; none while it is not.
    #[must_use]
    pub fn raised(&self) -> Option<u64> {
        self.raised.map(|raised| raised.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Reading;
    use crate::devices::Heard;
    use crate::event::Seq;
    use crate::route::Status;

    #[test]
    fn an_alert_lasts_until_a_minute_without_losses() {
        let devices = Arc::new(Devices::default());
        devices.hear("lora", "d", Heard::Event, Moment::START, Reading::default());
        let mut lost = Lost::new(Arc::clone(&devices));
        let promise = |only_once: Option<OnlyOnce>| Promise {
            event_id: None,
            quarantine: None,
            status: Status::Received,
            accepted: None,
            rejected: None,
            only_once: only_once.map(Box::new),
            paid: None,
        };
        let again = promise(None);
        let once = promise(Some(OnlyOnce {
            route: "lora".to_owned(),
            sender: "d".to_owned(),
        }));
        let stored = Some(Done::Stored(Seq(1)));
        let rows = [
            (&again, None, 0, None),
            (&once, stored.clone(), 1, None),
            (&once, Some(Done::Full), 2, Some(1)),
            (&again, None, 3, Some(1)),
            (&once, None, 4, Some(2)),
            (&again, stored.clone(), 5, Some(2)),
            (&again, None, 90, Some(2)),
            (&again, stored, 91, None),
        ];
        for (promise, done, seconds, raised) in rows {
            let now = Moment::at(Duration::from_secs(seconds));
            lost.hear(promise, done.as_ref(), now);
            assert_eq!(lost.raised(), raised, "{seconds}");
        }
        assert_eq!(devices.list()[0].2.lost, 2);
    }
}
