//! The end of a life: everything around the gateway is well again, and nothing may be left over.

use std::time::Duration;

use gatepost::commit::{Operation, RIDE};
use gatepost::delivery::DeliveryId;
use gatepost::health::HELD_PROBE;
use log::info;

use crate::sim::devices::mark;
use crate::sim::inspect::ROOMY;
use crate::sim::network::{Network, Weather};
use crate::sim::operators;
use crate::sim::settings::pick;
use crate::sim::world::World;

/// The longest pause that a destination asks for, with the jitter on it.
const LONGEST_ASKED: Duration = Duration::from_secs(144);

/// What all that waits takes once nothing stands in its way: a few hundred deliveries of at most
/// 100 ms one by one, and a second for the last settlement.
const DRAIN: Duration = Duration::from_secs(60);

/// How much longer it takes at the slowest rate. A backlog that does not fit into its hours goes on
/// the next day, and by then the rates have let it all through.
const PACED: Duration = Duration::from_secs(1_800);

const DAY: Duration = Duration::from_secs(86_400);

/// A gateway that has ended so often in a healed world won't ever go on.
const MOST_DEATHS: u32 = 20;

impl World {
    /// Heals the world, then holds the gateway to what it promised.
    pub(crate) fn heal(&mut self) {
        info!("[world] everything heals");
        self.disk.plan(None);
        // What was set aside must be enough to go on with deliveries on a full disk.
        // A full disk is asked each second whether it still is: too dear until tomorrow.
        let has_hours = self.drain() >= DAY;
        let stays_full = self.rng.below(4) == 0 && self.disk.has_ballast() && !has_hours;
        self.disk.leave_room(stays_full.then_some(0));
        let rots = self.rng.below(6) == 0 && !self.disk.is_small();
        if rots {
            self.let_something_rot();
        }
        self.wake_up();
        for network in self.networks.values() {
            network.set_weather(Weather::Fine);
        }
        // What is never taken is tried until it is given up, which takes weeks of short hours.
        let is_cured = self.rng.below(4) != 0 || has_hours;
        if is_cured {
            self.networks.values().for_each(Network::cure_poison);
        }
        if self.rng.below(2) == 0 {
            self.time.synchronise();
        }
        self.release_all();
        self.go_on_for(self.patience(is_cured));
        self.check_that_nothing_is_left();
        if !rots {
            info!("[world] the power goes a last time");
            self.cut_power();
            self.go_on_for(self.drain());
            self.check_that_nothing_is_left();
        }
        self.replay_what_is_dead();
    }

    /// Nobody holds anything any more.
    fn release_all(&mut self) {
        let names: Vec<String> = self.networks.keys().cloned().collect();
        for name in names {
            self.operate(Operation::Release(name));
        }
    }

    /// Starts the gateway. On a full disk a start or two may fail.
    fn wake_up(&mut self) {
        for _ in 0..5 {
            if self.process.is_none() {
                self.boot();
            }
        }
    }

    /// How long it may take until nothing is left that can be delivered.
    fn patience(&self, is_cured: bool) -> Duration {
        let policies = self.config.destinations.iter().map(|to| to.retry);
        let pause = |policy: gatepost::retry::RetryPolicy| policy.max.mul_f64(1.0 + policy.jitter);
        let longest = policies.clone().map(pause).max().unwrap_or_default();
        let probe = HELD_PROBE.mul_f64(1.2);
        let once = longest.max(probe).max(LONGEST_ASKED) + self.drain();
        if is_cured {
            return once;
        }
        // An event that is never taken holds up its own lane until it is given up. There are few,
        // and each is tried so often at most, with a probe between.
        let attempts = policies.map(|policy| policy.max_attempts).max();
        once + (once + longest * attempts.unwrap_or_default()) * 8
    }

    /// What all that waits takes once nothing stands in its way.
    fn drain(&self) -> Duration {
        let paces = self.config.destinations.iter().map(|to| &to.pace);
        let is_slow = paces
            .clone()
            .any(|pace| pace.events.is_some() || pace.bytes.is_some());
        let hours = paces.map(|pace| pace.hours).any(|hours| hours.is_some());
        let day = if hours { DAY } else { Duration::ZERO };
        if is_slow {
            DRAIN + PACED + day
        } else {
            DRAIN + day
        }
    }

    /// Lets the gateway work until nothing is to be done but by retention, at most for so long.
    fn go_on_for(&mut self, patience: Duration) {
        let end = self.time.age + patience;
        let mut deaths = 0;
        let mut sends = self.time.age;
        while self.time.age < end && deaths < MOST_DEATHS {
            if sends <= self.time.age {
                self.device_sends(false);
                // Not all the time while only the hours of a destination are waited for.
                if self.time.age + DRAIN + PACED < end && DAY <= patience {
                    sends = self.time.age + Duration::from_secs(600);
                }
            }
            self.run_all();
            let Some(process) = &self.process else {
                deaths += 1;
                self.boot();
                self.release_all();
                self.wait(Duration::from_secs(1));
                continue;
            };
            let is_heard = self.devices.are_content() || !self.is_roomy();
            if process.is_idle() && is_heard && !self.devices.are_waiting() {
                // The last settlements wait until they have found a commit to share.
                self.pass(RIDE);
                if self.process.is_some() {
                    return;
                }
                continue;
            }
            self.wait(end.saturating_sub(self.time.age));
        }
        self.pass(RIDE);
    }

    /// Everything that can be delivered is, everybody was heard.
    fn check_that_nothing_is_left(&mut self) {
        assert!(self.process.is_some(), "the gateway can't go on");
        self.inspect();
        let poisoned = self.networks.values().any(Network::is_poisoned);
        for id in &self.waiting.pending {
            let message = &self.devices.sent[self.ledger.events[&id.seq]];
            let excused = poisoned && (message.is_poison() || self.is_behind_poison(*id));
            let words = String::from_utf8_lossy(&message.request.body);
            assert!(excused, "{id:?} still waits: {words}");
        }
        let is_heard = self.devices.are_content() || !self.is_roomy();
        assert!(is_heard, "somebody was not heard");
    }

    /// Whether two events that are never taken wait before this one in its lane. Where nothing else
    /// is delivered, nobody can tell them from an outage, so they hold up their lane.
    fn is_behind_poison(&self, id: DeliveryId) -> bool {
        let before = self.waiting.pending.iter().filter(|other| {
            let message = &self.devices.sent[self.ledger.events[&other.seq]];
            let is_in_lane = (other.destination, other.lane) == (id.destination, id.lane);
            is_in_lane && other.seq < id.seq && message.is_poison()
        });
        2 <= before.count()
    }

    /// Whether neither the quota nor the disk is a reason to refuse anything.
    fn is_roomy(&self) -> bool {
        ROOMY <= self.config.store.max_size && !self.disk.is_small()
    }

    /// A bit flips in the body of an event that waits. The gateway notices before it sends it.
    fn let_something_rot(&mut self) {
        self.wake_up();
        self.inspect();
        self.stop();
        let waiting: Vec<_> = self.waiting.pending.iter().map(|id| id.seq).collect();
        if waiting.is_empty() {
            return;
        }
        let seq = pick(&mut self.rng, &waiting);
        let number = self.ledger.events[&seq];
        let copies = self.disk.rot(mark(number).as_bytes());
        info!("[world] a bit flips in {copies} copies of seq {seq}");
        self.ledger.damaged.insert(number);
        self.tally.damaged += 1;
    }

    /// A dead letter is whole: once the upstream can read it, it arrives like any other.
    fn replay_what_is_dead(&mut self) {
        self.networks.values().for_each(Network::cure_poison);
        self.disk.leave_room(None);
        let process = self.process.as_ref().expect("it goes on");
        let replays = operators::replay_all(&self.waiting, &process.numbers);
        self.tally.settled_dead += replays.len() as u64;
        for replay in replays {
            self.operate(replay);
        }
        self.go_on_for(self.patience(true));
        self.check_that_nothing_is_left();
        for (destination, seq) in &self.waiting.dead {
            let number = self.ledger.events[seq];
            let is_damaged = self.ledger.damaged.contains(&number);
            assert!(is_damaged, "seq {seq} is still dead for {destination:?}");
        }
        self.tally.expired += self.ledger.expired.len() as u64;
        self.tally.shed += self.ledger.shed.len() as u64;
    }
}
