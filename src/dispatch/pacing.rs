//! When the next delivery to a destination may begin by time alone, and what is said of that.

use super::Line;
use crate::audit::Pause;
use crate::clock::{Clock, Moment};
use crate::event::Seq;
use crate::pace;
use crate::store::{self, Store};

impl Line {
    /// How long the body of an event is that is about to be sent, if that matters.
    pub(super) fn length(&self, store: &Store, seq: Seq) -> Result<u64, store::Error> {
        if !self.pace.counts_bytes() {
            return Ok(0);
        }
        match store.event(seq) {
            Ok(event) => Ok(event.map_or(0, |event| event.kept)),
            // Whoever is to send it finds that out too, and says so.
            Err(store::Error::Corrupt { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub(super) fn wake_at(&self, clock: &dyn Clock, now: Moment) -> Option<Moment> {
        let lanes = self.lanes.next_due(now);
        let wait = (!self.lanes.is_empty()).then(|| self.pace.wait(clock));
        // Until then nothing else matters, and afterwards all of it.
        if let Some(wait) = wait.flatten() {
            return Some(wait.until);
        }
        let health = self.health.next_at(now);
        lanes.into_iter().chain(health).min()
    }

    /// Whether it is outside the hours in which it is sent to.
    pub(super) fn is_closed(&self, clock: &dyn Clock) -> bool {
        let wait = self.pace.wait(clock);
        wait.is_some_and(|wait| wait.closed.is_some())
    }

    /// How it is, in a sentence.
    pub(super) fn why(&self, clock: &dyn Clock, now: Moment) -> String {
        let held = self.health.held_by_operator().is_some();
        match self.pace.wait(clock) {
            Some(pace::Wait { until, closed }) if !held => {
                let next_in = Pause(until.since(now));
                let how = self.health.condition(now);
                match closed {
                    Some(hours) => {
                        let opens = hours.begin();
                        format!(
                            "closed, it opens at {opens}, in {next_in} ({how}, {})",
                            self.pace
                        )
                    }
                    None => format!("{how}, {}: next attempt in {next_in}", self.pace),
                }
            }
            _ if self.pace.is_free() => self.health.why(now),
            _ => format!("{}, {}", self.health.why(now), self.pace),
        }
    }
}
