//! What an operator says to a destination.

use super::Dispatcher;

impl Dispatcher {
    /// An operator holds or releases a destination. Whether there is one of that name.
    pub fn hold(&mut self, name: &str, held: bool) -> bool {
        let now = self.clock.moment();
        let Some(line) = self.lines.iter_mut().find(|line| line.name == name) else {
            return false;
        };
        let change = if held {
            // Nobody will be tried who could show whose fault it was.
            for lane in line.suspects.lanes() {
                if !line.began.keys().any(|(tried, _)| *tried == lane) {
                    line.take_back(lane);
                }
            }
            line.health.hold(now)
        } else {
            line.health.release(now)
        };
        line.say(change, None);
        true
    }

    /// An operator wants what waits for its pause tried now: the destination's pause and those of
    /// its events. Its hours and its rate still hold. Whether that was done, which it is not while
    /// an operator holds it; none if there is none of that name.
    pub fn flush(&mut self, name: &str) -> Option<bool> {
        let now = self.clock.moment();
        let line = self.lines.iter_mut().find(|line| line.name == name)?;
        let change = line.health.flush(now);
        let is_done = change.is_some();
        if is_done {
            line.lanes.hurry_all();
        }
        line.say(change, None);
        Some(is_done)
    }
}
