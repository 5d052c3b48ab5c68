//! Time as it is, and as the gateway's clocks say it is.
//!
//! The box has no battery: it boots in 1970 or at the time it was switched off, may jump to
//! anywhere while nobody has set its clock, and is right once it says so.

use std::sync::Arc;
use std::time::Duration;

use gatepost::clock::{ManualClock, Timestamp};
use gatepost::rng::Rng;

use crate::sim::settings::pick;

/// 2026-09-21, when each life begins, in milliseconds.
const BEGINNING_MS: i64 = 1_790_000_000_000;

pub(crate) struct Time {
    /// How long the life has lasted.
    pub(crate) age: Duration,
    /// The gateway's clock since the machine was started.
    pub(crate) clock: Arc<ManualClock>,
    /// The starts of the machine.
    boots: u64,
}

impl Time {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut time = Self {
            age: Duration::ZERO,
            clock: Arc::default(),
            boots: 0,
        };
        time.reboot(rng);
        time
    }

    /// The machine starts again, with a wrong clock unless somebody sets it before the gateway
    /// asks.
    pub(crate) fn reboot(&mut self, rng: &mut Rng) {
        self.clock = Arc::default();
        self.boots += 1;
        match rng.below(3) {
            0 => self.clock.set_wall(Timestamp::from_ms(0), false),
            1 => self
                .clock
                .set_wall(self.before(rng.below(1_000_000)), false),
            _ => self.synchronise(),
        }
    }

    /// What the kernel calls this start of the machine.
    pub(crate) fn boot_id(&self) -> String {
        format!("boot-{}", self.boots)
    }

    /// What time it really is.
    pub(crate) fn truth(&self) -> Timestamp {
        self.before(0)
    }

    pub(crate) fn pass(&mut self, by: Duration) {
        self.age += by;
        self.clock.advance(by);
    }

    /// Somebody sets the clock right.
    pub(crate) fn synchronise(&self) {
        self.clock.set_wall(self.truth(), true);
    }

    /// Nobody disciplines the clock any more, and it jumps years or seconds ahead or back.
    pub(crate) fn jump(&self, rng: &mut Rng) {
        let by_ms = pick(rng, &[3_000, 3_600_000, 100_000_000_000]);
        let now = self.truth().as_ms();
        let wall = if rng.below(2) == 0 {
            now - by_ms
        } else {
            now + by_ms
        };
        self.clock.set_wall(Timestamp::from_ms(wall), false);
    }

    fn before(&self, ms: u64) -> Timestamp {
        let age = u64::try_from(self.age.as_millis()).expect("a life is short");
        let now = BEGINNING_MS.saturating_add_unsigned(age);
        Timestamp::from_ms(now.saturating_sub_unsigned(ms))
    }
}
