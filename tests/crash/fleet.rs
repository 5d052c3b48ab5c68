//! Sixty-four devices that send as real ones do: one event after the other, the same again until
//! it is acknowledged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gatepost::rng::Rng;

use crate::common::PATIENCE;
use crate::common::device::{Answer, Device};

/// How many devices there are, each with a connection of its own.
const DEVICES: usize = 64;

/// How long a device that was refused waits before it sends again.
const PAUSE: Duration = Duration::from_millis(20);

/// One event of so many is one that the upstream refuses.
const POISON: usize = 50;

/// All devices, and what they remember.
pub(crate) struct Fleet {
    pub(crate) devices: Vec<Memory>,
}

/// What a device remembers.
pub(crate) struct Memory {
    pub(crate) name: String,
    seed: u64,
    /// For each event that was sent, by its number: whether it was acknowledged.
    pub(crate) acknowledged: Vec<bool>,
    /// Whether it gives up an event whose answer did not come. Firmware without a queue does so.
    forgetful: bool,
    /// Whether it first asks after its last event, as if its answer had been lost.
    doubtful: bool,
    /// Whether it may be refused, which it is where the store is small.
    patient: bool,
}

/// Whether an event is one that the upstream refuses, by its name. Another one of each device: if
/// all refused theirs at once, the destination would be held, and rightly.
pub(crate) fn is_poison(name: &str) -> bool {
    number_in(name).is_some_and(|(device, number)| {
        let digits = device.trim_start_matches(|byte: char| !byte.is_ascii_digit());
        let device: usize = digits.parse().unwrap_or(0);
        (device + number) % POISON == POISON / 2
    })
}

/// The device and the number in the name of an event.
pub(crate) fn number_in(name: &str) -> Option<(&str, usize)> {
    let (device, number) = name.split_once('-')?;
    Some((device, number.parse().ok()?))
}

impl Fleet {
    /// Devices that send what follows from `seed`. Only patient ones may be refused.
    pub(crate) fn new(seed: u64, patient: bool) -> Self {
        let devices = (0..DEVICES).map(|device| Memory {
            name: format!("cam{device}"),
            seed: seed.wrapping_mul(1000) + device as u64,
            acknowledged: Vec::new(),
            forgetful: device % 4 == 0,
            doubtful: device % 2 == 1,
            patient,
        });
        Self {
            devices: devices.collect(),
        }
    }

    /// All send until `enough` events were acknowledged and `kill` has ended the gateway. It must
    /// set what it is given just before.
    pub(crate) fn send_until_killed(
        &mut self,
        address: SocketAddr,
        enough: u64,
        kill: impl FnOnce(&AtomicBool),
    ) {
        let is_dying = AtomicBool::new(false);
        self.send(address, enough, usize::MAX, &is_dying, || kill(&is_dying));
    }

    /// All send at most `most` events each to a gateway that dies by itself, which `wait` waits
    /// for. It may do so before the last of them has begun.
    pub(crate) fn send_until_death(
        &mut self,
        address: SocketAddr,
        most: usize,
        wait: impl FnOnce(),
    ) {
        self.send(address, 0, most, &AtomicBool::new(true), wait);
    }

    fn send(
        &mut self,
        address: SocketAddr,
        enough: u64,
        most: usize,
        is_dying: &AtomicBool,
        then: impl FnOnce(),
    ) {
        let (tell, told) = channel();
        thread::scope(|scope| {
            for device in &mut self.devices {
                let tell = tell.clone();
                scope.spawn(move || device.send_until_death(address, most, &tell, is_dying));
            }
            for _ in 0..enough {
                told.recv_timeout(PATIENCE)
                    .expect("events are acknowledged");
            }
            then();
        });
    }

    /// All send so many events each, and all of those are acknowledged.
    pub(crate) fn send_some(&mut self, address: SocketAddr, each: usize) {
        let all = (self.devices.len() * each) as u64;
        self.send(address, all, each, &AtomicBool::new(false), || ());
    }

    /// All send what is not acknowledged yet, and one more event.
    pub(crate) fn finish(&mut self, address: SocketAddr) {
        thread::scope(|scope| {
            for memory in &mut self.devices {
                scope.spawn(|| {
                    let mut device = Device::connect(address);
                    memory.ask_again(&mut device).expect("it is answered");
                    memory.resume();
                    for _ in 0..2 {
                        memory.send_one(&mut device).expect("it is answered");
                    }
                });
            }
        });
    }
}

impl Memory {
    /// The bytes of its event of that number: always the same, and like no other's.
    pub(crate) fn body(&self, number: usize) -> String {
        let mut rng = Rng::from_seed(self.seed.wrapping_mul(1_000_003) + number as u64);
        let length = match rng.below(200) {
            0 => 20_000 + rng.below(60_000),
            1..20 => rng.below(5_000),
            _ => rng.below(300),
        };
        let digits = (0..length / 10).map(|_| format!("{:010}", rng.below(10_000_000_000)));
        let (name, picture) = (&self.name, digits.collect::<String>());
        format!(
            "{{\"deviceId\":\"{name}\",\"eventId\":\"{name}-{number}\",\"picture\":\"{picture}\"}}"
        )
    }

    fn send_until_death(
        &mut self,
        address: SocketAddr,
        most: usize,
        tell: &Sender<()>,
        is_dying: &AtomicBool,
    ) {
        let mut send_all = || {
            let mut device = Device::try_connect(address)?;
            self.ask_again(&mut device)?;
            self.resume();
            for _ in 0..most {
                self.send_one(&mut device)?;
                // Once the test has seen enough, nobody listens.
                _ = tell.send(());
            }
            Ok(())
        };
        let ended: std::io::Result<()> = send_all();
        let is_right = ended.is_ok() || is_dying.load(Ordering::SeqCst);
        assert!(is_right, "it ended and was not killed: {ended:?}");
    }

    /// Sends an event again that was acknowledged before the gateway was killed. It must be known.
    fn ask_again(&self, device: &mut Device) -> std::io::Result<()> {
        let mut numbers = self.acknowledged.iter();
        let last = numbers.rposition(|acknowledged| *acknowledged);
        if let Some(last) = last.filter(|_| self.doubtful) {
            let answer = device.try_send(&self.body(last))?;
            let name = &self.name;
            assert_eq!(answer.status, 200, "{name}-{last} is not known: {answer:?}");
        }
        Ok(())
    }

    /// A forgetful device goes on with its next event.
    fn resume(&mut self) {
        let is_open = self.acknowledged.last() == Some(&false);
        if self.forgetful && is_open {
            self.acknowledged.push(false);
        }
    }

    /// Sends its last event if that is not acknowledged, otherwise the next.
    fn send_one(&mut self, device: &mut Device) -> std::io::Result<()> {
        let is_new = self.acknowledged.last() != Some(&false);
        if is_new {
            self.acknowledged.push(false);
        }
        let number = self.acknowledged.len() - 1;
        let answer = self.send_patiently(device, &self.body(number))?;
        let is_right = answer.status == 202 || (answer.status == 200 && !is_new);
        let name = &self.name;
        assert!(is_right, "{name}-{number}: {answer:?}");
        self.acknowledged[number] = true;
        Ok(())
    }

    /// Sends a body again while it is refused, if this device is patient.
    fn send_patiently(&self, device: &mut Device, body: &str) -> std::io::Result<Answer> {
        let began = Instant::now();
        loop {
            let answer = device.try_send(body)?;
            let again = self.patient && answer.status == 503;
            if !again || PATIENCE < began.elapsed() {
                return Ok(answer);
            }
            thread::park_timeout(PAUSE);
        }
    }
}
