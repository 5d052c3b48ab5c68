//! The slow start: how many deliveries may be in flight at once.
//!
//! It begins at 1. A success doubles it up to the number of workers, a counted failure halves it.
//! Attempts that began before it changed last do not double it again, so each step takes a round
//! trip.
//!
//! After an outage each step also waits for up to a hundredth of the outage, half of that on
//! average and [`LONGEST_STEP`] at most. So a hiccup costs nothing, and what the gateways of a
//! region have saved up for a day is upon their upstream after a quarter of a minute, each in its
//! own time, and not all at once.

use std::time::Duration;

use super::LONGEST_STEP;
use crate::clock::Moment;
use crate::retry::RetryPolicy;
use crate::rng::Rng;

/// A step waits for up to that part of the outage.
const PARTS_OF_OUTAGE: u32 = 100;

#[derive(Clone, Debug)]
pub(super) struct Ramp {
    workers: usize,
    /// How many may be in flight, before it widens.
    window: usize,
    /// When it doubles, if a success has said so.
    widens: Option<Moment>,
    /// When it changed last.
    changed: Moment,
    /// How long each step waits on average.
    step: Duration,
}

impl Ramp {
    /// Up to `workers`, at least 1, with steps that do not wait.
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            window: 1,
            widens: None,
            changed: Moment::START,
            step: Duration::ZERO,
        }
    }

    /// How many may be in flight at `now`.
    pub(super) fn width(&self, now: Moment) -> usize {
        match self.widens {
            Some(widens) if widens <= now => self.workers.min(self.window.saturating_mul(2)),
            _ => self.window,
        }
    }

    /// When it widens by time alone; may be over.
    pub(super) fn next(&self) -> Option<Moment> {
        self.widens
    }

    /// An attempt that began at `began` was taken.
    pub(super) fn widen(
        &mut self,
        began: Moment,
        now: Moment,
        policy: &RetryPolicy,
        rng: &mut Rng,
    ) {
        if let Some(widens) = self.widens.filter(|widens| *widens <= now) {
            (self.window, self.changed) = (self.width(now), widens);
            self.widens = None;
        }
        if self.window < self.workers && self.widens.is_none() && self.changed <= began {
            self.widens = Some(now + policy.apart(self.step, rng));
        }
    }

    /// An attempt failed and counts.
    pub(super) fn halve(&mut self, now: Moment) {
        self.set((self.width(now) / 2).max(1), now);
    }

    /// It begins again.
    pub(super) fn begin(&mut self, now: Moment) {
        self.set(1, now);
    }

    /// It begins again after an outage of that length.
    pub(super) fn begin_after(&mut self, outage: Duration, now: Moment) {
        self.step = (outage / PARTS_OF_OUTAGE).min(LONGEST_STEP) / 2;
        self.begin(now);
    }

    fn set(&mut self, window: usize, now: Moment) {
        self.window = window;
        self.widens = None;
        self.changed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: RetryPolicy = RetryPolicy {
        jitter: 0.0,
        ..RetryPolicy::DEFAULT
    };

    fn at(ms: u64) -> Moment {
        Moment::at(Duration::from_millis(ms))
    }

    #[test]
    fn a_success_doubles_it_and_a_failure_halves_it() {
        let mut rng = Rng::from_seed(1);
        for (workers, widths) in [
            (8, &[1, 2, 4, 8, 8][..]),
            (10, &[1, 2, 4, 8, 10, 10]),
            (1, &[1, 1]),
            (0, &[1, 1]),
        ] {
            let mut ramp = Ramp::new(workers);
            for (step, width) in (0..).zip(widths) {
                assert_eq!(ramp.width(at(step)), *width, "{workers}, step {step}");
                ramp.widen(at(step), at(step), &STEADY, &mut rng);
            }
        }
        let mut ramp = Ramp::new(8);
        (0..4).for_each(|step| ramp.widen(at(step), at(step), &STEADY, &mut rng));
        for width in [4, 2, 1, 1] {
            ramp.halve(at(9));
            assert_eq!(ramp.width(at(9)), width);
        }
    }

    #[test]
    fn those_that_began_together_are_one_step() {
        let mut rng = Rng::from_seed(1);
        let mut ramp = Ramp::new(64);
        ramp.widen(at(0), at(100), &STEADY, &mut rng);
        for round in 1..5 {
            let width = ramp.width(at(100 * round));
            assert_eq!(width, 1 << round);
            for _ in 0..width {
                ramp.widen(at(100 * round), at(100 * round + 100), &STEADY, &mut rng);
            }
        }
        // One that hung since before a failure says nothing of what came after.
        ramp.halve(at(600));
        let width = ramp.width(at(600));
        ramp.widen(at(500), at(700), &STEADY, &mut rng);
        assert_eq!(ramp.width(at(700)), width);
    }

    #[test]
    fn after_an_outage_each_step_waits_for_its_share_of_it() {
        let mut rng = Rng::from_seed(1);
        let rows = [(0, 0), (1_000, 5), (60_000, 300), (86_400_000, 2_500)];
        for (outage_ms, step_ms) in rows {
            let mut ramp = Ramp::new(8);
            ramp.begin_after(Duration::from_millis(outage_ms), at(0));
            ramp.widen(at(0), at(10), &STEADY, &mut rng);
            // Others do not make it quicker.
            ramp.widen(at(5), at(11), &STEADY, &mut rng);
            assert_eq!(ramp.width(at(10 + step_ms)), 2, "{outage_ms}");
            assert!(
                step_ms == 0 || ramp.width(at(9 + step_ms)) == 1,
                "{outage_ms}"
            );
        }
    }

    #[test]
    fn a_fleet_does_not_widen_in_step() {
        let widths = |seed| {
            let mut rng = Rng::from_seed(seed);
            let mut ramp = Ramp::new(8);
            ramp.begin_after(Duration::from_secs(86_400), at(0));
            let mut now = at(0);
            while ramp.width(now) < 8 {
                ramp.widen(now, now, &RetryPolicy::DEFAULT, &mut rng);
                now = now.max(ramp.next().unwrap_or(now));
            }
            now.since(at(0)).as_millis()
        };
        let mut when: Vec<u128> = (0..1_000).map(widths).collect();
        when.sort_unstable();
        let (first, last) = (when[0], when[999]);
        assert!(when[250] + 2_000 < when[750], "{} {}", when[250], when[750]);
        assert!(last <= 3 * LONGEST_STEP.as_millis(), "{first} to {last}");
    }
}
