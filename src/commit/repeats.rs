//! Duplicates, counted.
//!
//! A retry storm of one sender must cost a look-up and not a commit or a log line each. So the
//! first repetition of an event is said with the next commit, and further ones once a minute with
//! their count. What is kept in mind is bounded: beyond it a repetition is only counted.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::RIDE;
use crate::clock::Moment;
use crate::event::Seq;

/// How often the repetitions of one event are said.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// How many repeated events are kept in mind: a terminal that sends its last ten thousand again.
const MOST_EVENTS: usize = 10_000;

/// How often one event has been received.
#[derive(Clone, Debug)]
struct Repeat {
    name: String,
    times: u64,
    said: u64,
}

/// A repetition that is to be said now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Repeated {
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
    /// Each of them, by when it is looked at: to be said or, if there is nothing new, forgotten.
    by_time: BTreeSet<(Moment, Seq)>,
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
        if MOST_EVENTS <= self.of.len() {
            return Ok(());
        }
        let said = before()?;
        let repeat = Repeat {
            name: name.to_owned(),
            times: said + 1,
            said,
        };
        self.of.insert(seq, repeat);
        self.by_time.insert((now + RIDE, seq));
        Ok(())
    }

    /// What is to be said at `now`.
    pub(super) fn due(&mut self, now: Moment) -> Vec<Repeated> {
        let mut due = Vec::new();
        while let Some((at, seq)) = self.by_time.first().copied()
            && at <= now
        {
            self.by_time.pop_first();
            let Some(repeat) = self.of.get_mut(&seq) else {
                continue;
            };
            if repeat.said == repeat.times {
                self.of.remove(&seq);
                continue;
            }
            repeat.said = repeat.times;
            due.push(Repeated {
                seq,
                name: repeat.name.clone(),
                times: repeat.times,
            });
            self.by_time.insert((now + SAY_EVERY, seq));
        }
        due
    }

    /// When something is to be looked at next, if anything is.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::at(Duration::from_secs(seconds))
    }

    fn count(repeats: &mut Repeats, seq: u64, seconds: u64) {
        let counted = repeats.count(Seq(seq), "e-1", at(seconds), || Ok::<_, ()>(1));
        assert_eq!(counted, Ok(()));
    }

    fn due(repeats: &mut Repeats, seconds: u64) -> Vec<u64> {
        let due = repeats.due(at(seconds));
        due.iter().map(|said| said.times).collect()
    }

    #[test]
    fn a_storm_is_said_within_a_second_and_then_once_a_minute() {
        let mut repeats = Repeats::default();
        count(&mut repeats, 7, 0);
        assert_eq!(repeats.next_due(), Some(Moment::START + RIDE));
        assert_eq!(due(&mut repeats, 1), [2]);
        for second in 2..61 {
            count(&mut repeats, 7, second);
            assert!(due(&mut repeats, second).is_empty(), "{second}");
        }
        assert_eq!(repeats.next_due(), Some(at(61)));
        assert_eq!(due(&mut repeats, 61), [61]);
    }

    #[test]
    fn what_was_said_is_forgotten_in_the_end() {
        let mut repeats = Repeats::default();
        count(&mut repeats, 7, 0);
        assert_eq!(due(&mut repeats, 1), [2]);
        assert_eq!(repeats.of.len(), 1);
        assert!(due(&mut repeats, 61).is_empty());
        assert!(repeats.of.is_empty() && repeats.by_time.is_empty());
    }

    #[test]
    fn any_number_of_repeated_events_takes_bounded_memory() {
        let mut repeats = Repeats::default();
        for seq in 0..2 * MOST_EVENTS as u64 {
            count(&mut repeats, seq, 0);
        }
        assert_eq!(repeats.of.len(), MOST_EVENTS);
    }
}
