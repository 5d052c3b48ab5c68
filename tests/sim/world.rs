//! A life: a long series of small steps of everybody, in an order that the seed decides.

use std::collections::BTreeMap;
use std::time::Duration;

use gatepost::audit::Pause;
use gatepost::clock::Clock as _;
use gatepost::commit::{Done, Operation};
use gatepost::config::{Config, Destination, WhenFull};
use gatepost::event::DestinationNo;
use gatepost::rng::Rng;
use gatepost::store::{self, Room as _, Store};
use log::info;

use crate::sim::devices::Devices;
use crate::sim::disk::{self, Disk, Failure, Plan};
use crate::sim::inspect::{Inspection, ROOMY, Waiting};
use crate::sim::ledger::Ledger;
use crate::sim::network::Network;
use crate::sim::operators;
use crate::sim::process::{Happened, Process, Thread, Told};
use crate::sim::settings::{self, pick};
use crate::sim::time::Time;

/// How many steps a life has before it heals.
const STEPS: u64 = 320;

/// More steps than a gateway needs to get to rest when no time passes.
const MANY: u64 = 20_000;

/// How often each kind of thing has happened, so that lives which meet nothing are noticed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) stored: u64,
    pub(crate) duplicates: u64,
    pub(crate) refused: u64,
    pub(crate) arrivals: u64,
    pub(crate) starts: u64,
    pub(crate) power_cuts: u64,
    pub(crate) disk_errors: u64,
    pub(crate) stops: u64,
    pub(crate) operations: u64,
    pub(crate) settled_dead: u64,
    pub(crate) expired: u64,
    /// Events given up for others.
    pub(crate) shed: u64,
    pub(crate) damaged: u64,
}

/// How often chance does what in one life: shares of all that is not the gateway's own doing.
#[derive(Clone, Copy, Debug)]
struct Mix {
    device: u64,
    operator: u64,
    weather: u64,
    clock: u64,
    fault: u64,
    crash: u64,
    pause: u64,
}

impl Mix {
    /// Lives differ: in some nothing ever crashes, in others hardly anything else happens.
    fn draw(rng: &mut Rng) -> Self {
        let mut share = |choices: &[u64]| pick(rng, choices);
        Self {
            device: share(&[10, 30, 60]),
            operator: share(&[0, 3, 12]),
            weather: share(&[1, 4, 8]),
            clock: share(&[0, 2]),
            fault: share(&[0, 0, 3]),
            crash: share(&[0, 1, 2, 5]),
            pause: share(&[2, 6]),
        }
    }

    fn sum(self) -> u64 {
        self.device
            + self.operator
            + self.weather
            + self.clock
            + self.fault
            + self.crash
            + self.pause
    }
}

/// The gateway and all around it.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) time: Time,
    pub(crate) disk: Disk,
    pub(crate) networks: BTreeMap<String, Network>,
    pub(crate) devices: Devices,
    pub(crate) ledger: Ledger,
    pub(crate) config: Config,
    pub(crate) process: Option<Process>,
    /// What waited when the store was looked at last.
    pub(crate) waiting: Waiting,
    pub(crate) tally: Tally,
    mix: Mix,
}

impl World {
    /// A site with a new gateway. A disk that is not honest loses what it said was synced.
    pub(crate) fn new(seed: u64, honest: bool) -> Self {
        let mut rng = Rng::from_seed(seed);
        let config = settings::draw(&mut rng);
        let networks = config.destinations.iter().map(|to| {
            let network = Network::new(rng.below(u64::MAX), to);
            (to.name.clone(), network)
        });
        let networks = networks.collect();
        let time = Time::new(&mut rng);
        let mix = Mix::draw(&mut rng);
        let disk = give_birth(honest, &mut rng);
        Self {
            rng,
            time,
            disk,
            networks,
            devices: Devices::default(),
            ledger: Ledger::new(
                config.store.when_full == WhenFull::ShedLowestPriority
                    && config.store.max_size < ROOMY,
            ),
            config,
            process: None,
            waiting: Waiting::default(),
            tally: Tally::default(),
            mix,
        }
    }

    /// Lives, heals, and is held to every promise.
    pub(crate) fn live(mut self) -> Tally {
        for _ in 0..STEPS {
            self.step();
        }
        self.heal();
        self.tally
    }

    /// One small thing happens somewhere.
    fn step(&mut self) {
        if self.process.is_none() {
            match self.rng.below(4) {
                0 => self.pass(Duration::from_secs(1)),
                1 => self.change_room(),
                _ => self.boot(),
            }
            return;
        }
        if self.rng.below(5) != 0 {
            self.gateway_goes_on();
        } else {
            self.chance();
        }
    }

    /// A thread of the gateway makes a step, or time passes until one can.
    fn gateway_goes_on(&mut self) {
        if !self.run_one() {
            self.wait(Duration::from_secs(60));
        }
    }

    /// Something from outside.
    fn chance(&mut self) {
        let mix = self.mix;
        let mut left = self.rng.below(mix.sum());
        let mut is = |share: u64| {
            let is = left < share;
            left = left.wrapping_sub(share);
            is
        };
        if is(mix.device) {
            self.device_sends(true);
        } else if is(mix.operator) {
            self.operator_wishes();
        } else if is(mix.weather) {
            self.change_the_weather();
        } else if is(mix.clock) {
            self.change_the_clock();
        } else if is(mix.fault) {
            self.plan_a_fault();
        } else if is(mix.crash) {
            self.end_the_process();
        } else {
            let pauses = [200, 5_000, 60_000, 3_600_000, 86_400_000];
            let pause = Duration::from_millis(pick(&mut self.rng, &pauses));
            info!("[world] {} pass", Pause(pause));
            self.pass(pause);
        }
    }

    pub(crate) fn device_sends(&mut self, news: bool) {
        let Some(process) = &mut self.process else {
            return;
        };
        if let Some((number, request)) = self.devices.send(&mut self.rng, news) {
            process.receive(number, request);
        }
    }

    fn operator_wishes(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        if self.rng.below(8) == 0 {
            let names: Vec<String> = process.numbers.keys().cloned().collect();
            let name = &names[usize::from(self.rng.below(2) == 0).min(names.len() - 1)];
            info!("[world] an operator wants {name} tried now");
            process.flush(name);
            return;
        }
        let operation = operators::wish(&self.ledger, &process.numbers, &mut self.rng);
        self.operate(operation);
    }

    pub(crate) fn operate(&mut self, operation: Operation) {
        if let Some(process) = &mut self.process {
            info!("[world] an operator wants {operation:?}");
            self.ledger.wished(operation.clone());
            process.operate(operation);
        }
    }

    fn change_the_weather(&mut self) {
        let networks: Vec<&String> = self.networks.keys().collect();
        let name = pick(&mut self.rng, &networks);
        let weather = self.networks[name].change_the_weather(&mut self.rng);
        info!("[world] the way to {name} is {weather:?} now");
    }

    fn change_the_clock(&mut self) {
        if self.rng.below(2) == 0 {
            info!("[world] the clock is set right");
            self.time.synchronise();
        } else {
            self.time.jump(&mut self.rng);
            info!(
                "[world] the clock jumps to {}",
                self.time.clock.reading().wall
            );
        }
    }

    fn change_room(&mut self) {
        let room = match self.rng.below(3) {
            0 => Some(usize::try_from(self.rng.below(60)).expect("a small number")),
            _ => None,
        };
        info!("[world] the file system has room for {room:?} blocks");
        self.disk.leave_room(room);
    }

    fn plan_a_fault(&mut self) {
        if self.rng.below(5) == 0 {
            self.change_room();
            return;
        }
        let (on, longest) = pick(
            &mut self.rng,
            &[
                (disk::Operation::Write, 60),
                (disk::Operation::Sync, 6),
                (disk::Operation::Read, 60),
            ],
        );
        let failure = pick(&mut self.rng, &[Failure::Error, Failure::PowerCut]);
        let after = 1 + self.rng.below(longest);
        self.disk.plan(Some(Plan { on, after, failure }));
    }

    /// The process is killed, the power goes at some write, or somebody stops the gateway.
    fn end_the_process(&mut self) {
        match self.rng.below(6) {
            0 => {
                info!("[world] the process is killed");
                self.process_is_gone();
            }
            1 => {
                info!("[world] the power goes");
                self.cut_power();
            }
            2 => {
                info!("[world] somebody stops the gateway");
                self.stop();
                if self.rng.below(2) == 0 {
                    settings::open_the_attic(&mut self.config);
                }
            }
            _ => {
                let after = 1 + self.rng.below(40);
                let on = disk::Operation::Write;
                let failure = Failure::PowerCut;
                self.disk.plan(Some(Plan { on, after, failure }));
            }
        }
    }

    /// Lets the gateway work for so long; if much is to do in a long time, it is late with it.
    pub(crate) fn pass(&mut self, how_long: Duration) {
        let end = self.time.age + how_long;
        for _ in 0..40 {
            self.run_all();
            let left = end.saturating_sub(self.time.age);
            if left.is_zero() || self.process.is_none() {
                break;
            }
            self.wait(left);
        }
        self.let_pass(end.saturating_sub(self.time.age));
    }

    /// Time passes until something is due, but not longer than `most`.
    pub(crate) fn wait(&mut self, most: Duration) {
        let now = self.time.clock.moment();
        let due = self.process.as_ref().and_then(Process::next_due);
        let pause = due.map_or(most, |due| due.since(now));
        // What is due and could not be done will be in a moment.
        self.let_pass(pause.max(Duration::from_millis(1)).min(most));
    }

    fn let_pass(&mut self, by: Duration) {
        self.time.pass(by);
        for network in self.networks.values() {
            network.set_time(self.time.truth());
        }
        if let Some(process) = &mut self.process {
            process.wake();
        }
    }

    /// Lets the gateway do what it can do without time passing.
    pub(crate) fn run_all(&mut self) {
        let mut steps = 0;
        while self.run_one() {
            steps += 1;
            assert!(steps < MANY, "the gateway never rests");
        }
    }

    /// One step of a thread that has something to do; whether there was one.
    pub(crate) fn run_one(&mut self) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let runnable = process.runnable();
        if runnable.is_empty() {
            return false;
        }
        let thread = pick(&mut self.rng, &runnable);
        self.run(thread);
        true
    }

    fn run(&mut self, thread: Thread) {
        let Some(process) = &mut self.process else {
            return;
        };
        match process.run(thread, &mut self.rng) {
            Ok(happened) => self.note(happened),
            Err(error) => self.store_failed(&error),
        }
        if !self.disk.is_powered() {
            self.cut_power();
        }
    }

    fn note(&mut self, happened: Happened) {
        let now = self.time.age;
        match happened {
            Happened::Inside => {}
            Happened::Sent(job, request) => {
                self.tally.arrivals += u64::from(request.arrived);
                let to = self.destination(job.delivery.destination);
                let job = (&job, to.name.as_str());
                self.ledger.sent(job, &request, &self.devices.sent, now);
            }
            Happened::Concluded(attempt, settlement) => {
                let to = self.destination(attempt.delivery.destination);
                self.ledger.concluded(&attempt, settlement.as_deref(), &to);
            }
            Happened::Committed(told, notices) => {
                let sent = &self.devices.sent;
                self.ledger.committed(&told, &notices, sent, now);
            }
            Happened::Told(told) => self.told(told),
        }
    }

    /// The destination with this number.
    fn destination(&self, number: DestinationNo) -> Destination {
        let mut numbers = self.process.iter().flat_map(|process| &process.numbers);
        let name = numbers.find_map(|(name, other)| (*other == number).then_some(name));
        let mut all = self.config.destinations.iter();
        all.find(|to| Some(&to.name) == name)
            .expect("it is in the configuration")
            .clone()
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Device(number, status, done) => {
                match done {
                    Some(Done::Stored(_)) => self.tally.stored += 1,
                    Some(Done::Duplicate(_)) => self.tally.duplicates += 1,
                    _ => self.tally.refused += 1,
                }
                let message = &self.devices.sent[number];
                self.ledger.heard(message, status, done.as_ref());
                // Now and then the answer is lost on its way.
                let status = (self.rng.below(20) != 0).then_some(status);
                self.devices.hear(number, status);
            }
            Told::Operator(_, report) => self.tally.operations += report.done,
        }
    }

    /// A step failed: the process ends, as the daemon does, and nobody of that step hears more
    /// than 503.
    fn store_failed(&mut self, error: &store::Error) {
        info!("[world] the store failed: {error:?}");
        assert!(self.disk.is_hurt(), "a sound disk failed: {error:?}");
        self.tally.disk_errors += 1;
        if error.is_disk_full() {
            // The daemon's last deed, if the committer has not done it.
            self.disk.give_up_ballast();
        }
        self.process_is_gone();
    }

    fn process_is_gone(&mut self) {
        self.disk.kill_process();
        self.process = None;
        self.ledger.process_ended(false, self.time.age);
        self.devices.hang_up();
    }

    pub(crate) fn cut_power(&mut self) {
        self.process_is_gone();
        let percent = pick(&mut self.rng, &[0, 10, 50, 90, 100]);
        info!("[world] {percent} % of what was not synced survives");
        self.disk.cut_power(&mut self.rng, percent);
        self.tally.power_cuts += 1;
        self.let_pass(Duration::from_secs(20));
        self.time.reboot(&mut self.rng);
    }

    /// An orderly stop: what was received is answered, what was settled is written.
    pub(crate) fn stop(&mut self) {
        loop {
            let Some(process) = &self.process else {
                return;
            };
            let runnable = process.runnable().into_iter();
            let begins = |thread: &Thread| matches!(thread, Thread::Claim | Thread::Begin);
            let Some(thread) = runnable.into_iter().find(|thread| !begins(thread)) else {
                break;
            };
            self.run(thread);
        }
        let Some(process) = self.process.take() else {
            return;
        };
        match process.stop() {
            Ok(()) => {
                self.tally.stops += 1;
                self.ledger.process_ended(true, self.time.age);
                self.devices.hang_up();
                self.disk.kill_process();
            }
            Err(error) => self.store_failed(&error),
        }
        if !self.disk.is_powered() {
            self.cut_power();
        }
    }

    /// Starts the gateway, if the disk lets it, and compares what is there with what was promised.
    pub(crate) fn boot(&mut self) {
        info!(
            "[world] the gateway starts at {}",
            self.time.clock.reading().wall
        );
        self.tally.starts += 1;
        let entropy = self.rng.below(u64::MAX);
        let rng = Rng::from_seed(self.rng.below(u64::MAX));
        let opened = Store::open_on(self.disk.open(), entropy);
        let boot = self.time.boot_id();
        let clock = self.time.clock.clone();
        let started = opened.and_then(|store| {
            Process::start(
                store,
                &self.disk,
                &boot,
                &self.config,
                clock,
                &self.networks,
                rng,
            )
        });
        match started {
            Ok(process) => {
                self.process = Some(process);
                self.ledger.process_started();
                self.inspect();
            }
            Err(error) => self.store_failed(&error),
        }
        if !self.disk.is_powered() {
            self.cut_power();
        }
    }

    /// Compares what is there with what was promised.
    pub(crate) fn inspect(&mut self) {
        let Some(process) = &self.process else {
            return;
        };
        let inspection = Inspection {
            store: &process.store,
            ledger: &mut self.ledger,
            sent: &self.devices.sent,
            numbers: &process.numbers,
            config: &self.config,
            disk: &self.disk,
            now: self.time.age,
        };
        match inspection.run() {
            Ok(waiting) => self.waiting = waiting,
            Err(error) => self.store_failed(&error),
        }
    }
}

/// A new store, as it is made: under another name, which it changes once it is closed. If the
/// power goes before, the next start begins again.
fn give_birth(honest: bool, rng: &mut Rng) -> Disk {
    loop {
        let disk = Disk::new(honest);
        if rng.below(4) == 0 {
            let failure = Failure::PowerCut;
            let after = 1 + rng.below(40);
            let on = disk::Operation::Write;
            disk.plan(Some(Plan { on, after, failure }));
        }
        let born = Store::open_on(disk.open(), rng.below(u64::MAX)).and_then(Store::close);
        let is_hurt = disk.is_hurt();
        disk.plan(None);
        match born {
            Ok(()) if disk.is_powered() => return disk,
            Ok(()) => {}
            Err(error) => assert!(is_hurt, "no store on a sound disk: {error:?}"),
        }
    }
}
