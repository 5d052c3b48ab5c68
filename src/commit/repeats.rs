//! Duplicates, counted.
//!
//! A retry storm of one sender must cost a look-up and not a commit or a log line each. So the
//! first repetition of an event is said at once, and further ones once a minute with their count.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::event::Seq;

/// How often the repetitions of one event are said.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// How long an event whose repetitions have all been said is kept in mind.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// How often one event has been received.
#[derive(Clone, Debug)]
struct Repeat {
    name: String,
    times: u64,
    said: u64,
    say_at: Moment,
}

/// A repetition that is to be said now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Said {
    /// Which event.
    pub(super) seq: Seq,
    /// What it is called.
    pub(super) name: String,
    /// How often it has been received by now, the first time included.
    pub(super) times: u64,
}

/// The events that were repeated lately.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    of: HashMap<Seq, Repeat>,
}

impl Repeats {
    /// Counts one repetition. `before` says how often the event had been received when it is not
    /// in mind.
    pub(super) fn count<E>(
        &mut self,
        seq: Seq,
        name: &str,
        now: Moment,
        before: impl FnOnce() -> Result<u64, E>,
    ) -> Result<(), E> {
        if let Some(repeat) = self.of.get_mut(&seq) {
            repeat.times += 1;
            return Ok(());
        }
        let said = before()?;
        let repeat = Repeat {
            name: name.to_owned(),
            times: said + 1,
            said,
            say_at: now,
        };
        self.of.insert(seq, repeat);
        Ok(())
    }

    /// What is to be said at `now`, in order of seq.
    pub(super) fn due(&mut self, now: Moment) -> Vec<Said> {
        let mut due = Vec::new();
        self.of.retain(|seq, repeat| {
            let unsaid = repeat.said < repeat.times;
            if unsaid && repeat.say_at <= now {
                due.push(Said {
                    seq: *seq,
                    name: repeat.name.clone(),
                    times: repeat.times,
                });
                repeat.said = repeat.times;
                repeat.say_at = now + SAY_EVERY;
            }
            unsaid || now.since(repeat.say_at) < FORGET_AFTER
        });
        due.sort_by_key(|said| said.seq);
        due
    }

    /// When something is to be said next, if anything is.
    pub(super) fn next_due(&self) -> Option<Moment> {
        let unsaid = self.of.values().filter(|repeat| repeat.said < repeat.times);
        unsaid.map(|repeat| repeat.say_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(repeats: &mut Repeats, seconds: u64) {
        let now = Moment::at(Duration::from_secs(seconds));
        let counted = repeats.count(Seq(7), "e-1", now, || Ok::<_, ()>(1));
        assert_eq!(counted, Ok(()));
    }

    fn due(repeats: &mut Repeats, seconds: u64) -> Vec<u64> {
        let due = repeats.due(Moment::at(Duration::from_secs(seconds)));
        due.iter().map(|said| said.times).collect()
    }

    #[test]
    fn a_storm_is_said_at_once_and_then_once_a_minute() {
        let mut repeats = Repeats::default();
        count(&mut repeats, 0);
        assert_eq!(due(&mut repeats, 0), [2]);
        for second in 1..60 {
            count(&mut repeats, second);
            assert!(due(&mut repeats, second).is_empty(), "{second}");
        }
        assert_eq!(repeats.next_due(), Some(Moment::at(SAY_EVERY)));
        assert_eq!(due(&mut repeats, 60), [61]);
        assert_eq!(repeats.next_due(), None);
    }

    #[test]
    fn what_was_said_is_forgotten_in_the_end() {
        let mut repeats = Repeats::default();
        count(&mut repeats, 0);
        assert_eq!(due(&mut repeats, 0), [2]);
        assert!(due(&mut repeats, 600).is_empty());
        assert_eq!(repeats.of.len(), 1);
        assert!(due(&mut repeats, 661).is_empty());
        assert_eq!(repeats.of.len(), 0);
    }
}
