//! The real process under attack: devices that behave are answered meanwhile, and afterwards it is
//! as it was before.

use std::fs;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::attacks::{ATTACKS, Attack};
use crate::common::device::{Device, event};
use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::Upstream;
use crate::common::{PATIENCE, note, with_descriptors};

/// How many events of others are answered during each attack.
const MEANWHILE: usize = 40;

/// How much more memory it may take under attack, beside the 64 MiB for bodies, in kB.
const MORE_KB: u64 = 16 * 1024;

/// A gateway and what it has acknowledged.
struct Besieged {
    site: Site,
    upstream: Upstream,
    gateway: Gateway,
    acknowledged: usize,
    /// Connections and files that it has open, and threads, when nobody attacks.
    calm: (usize, u64),
    resident_kb: u64,
}

impl Besieged {
    fn begin(start: fn(&Site) -> Gateway) -> Self {
        let upstream = Upstream::well();
        let site = Site::new(&upstream, Plan::default());
        let gateway = start(&site);
        let mut besieged = Self {
            calm: (0, 0),
            resident_kb: 0,
            acknowledged: 0,
            gateway,
            site,
            upstream,
        };
        besieged.serve();
        besieged.site.wait_until_empty();
        besieged.calm = besieged.held();
        besieged.resident_kb = besieged.gateway.resident_kb();
        besieged
    }

    /// Others are served: one that stays connected and one that connects for each event.
    fn serve(&mut self) {
        let mut staying = self.gateway.connect();
        for _ in 0..MEANWHILE / 2 {
            for device in [&mut staying, &mut self.gateway.connect()] {
                device.deliver("cam-7", &format!("e-{}", self.acknowledged));
                self.acknowledged += 1;
            }
        }
    }

    /// Does something while attacks go on.
    fn under(&mut self, attacks: &[(&str, Attack)], then: impl FnOnce(&mut Self) + Send) {
        let stop = AtomicBool::new(false);
        let address = self.gateway.address;
        thread::scope(|scope| {
            for (_, attack) in attacks {
                let stop = &stop;
                scope.spawn(move || attack(address, stop));
            }
            // Attackers must end though it fails, or nobody would hear of it.
            let ended = scope.spawn(|| then(self)).join();
            stop.store(true, Ordering::SeqCst);
            let names: Vec<&str> = attacks.iter().map(|(name, _)| *name).collect();
            assert!(ended.is_ok(), "under {names:?}");
        });
    }

    /// Open descriptors and threads.
    fn held(&self) -> (usize, u64) {
        let open = fs::read_dir(self.gateway.proc().join("fd")).expect("this is Linux");
        let threads = self.gateway.status("Threads:").parse();
        (open.count(), threads.expect("a number"))
    }

    /// Asserts that it is as before, and that nothing it has acknowledged is missing upstream.
    fn end(mut self) {
        let started = Instant::now();
        while self.held().0 > self.calm.0 || self.held().1 > self.calm.1 {
            let (held, calm) = (self.held(), self.calm);
            assert!(started.elapsed() < PATIENCE, "{held:?}, {calm:?} before");
            thread::yield_now();
        }
        let most = self.resident_kb + 64 * 1024 + MORE_KB;
        let peak = self.gateway.status_kb("VmHWM:");
        note(&format!(
            "{} kB before, {peak} kB at most",
            self.resident_kb
        ));
        assert!(peak < most, "{peak} kB, and {} before", self.resident_kb);
        self.serve();
        self.site.wait_until_empty();
        let names = self.upstream.names();
        for number in 0..self.acknowledged {
            let name = format!("e-{number}");
            assert!(names.contains(&name), "{name} is missing");
        }
        assert!(
            self.gateway
                .log
                .lines()
                .iter()
                .all(|line| !line.contains("panicked"))
        );
        self.gateway.stop();
    }
}

/// The slowest of all are ended by the real clock, as the real process is set: 15 s for a head, and
/// as long for the rest of a body whose length nobody knows.
#[test]
fn an_attack_keeps_nobody_else_from_being_served() {
    let mut besieged = Besieged::begin(Site::start_quietly);
    let mut head = besieged.gateway.connect();
    head.say(b"POST /ingest/door HTTP/1.1\r\nX: ")
        .expect("it is read");
    let mut vague = besieged.gateway.connect();
    let body = event("cam-8", "vague");
    for line in [
        "POST /ingest/door HTTP/1.1\r\n",
        "Host: a\r\n",
        "\r\n",
        &body,
    ] {
        vague.say(line.as_bytes()).expect("it is read");
    }
    for attack in ATTACKS {
        let started = Instant::now();
        besieged.under(&[*attack], Besieged::serve);
        let (open, took) = (besieged.held(), started.elapsed());
        note(&format!("{}: {open:?}, {took:?}", attack.0));
    }
    assert!(head.hear().is_err(), "it is closed without an answer");
    let answer = vague.hear().expect("its body is whole");
    assert_eq!(answer.status, 202, "{answer:?}");
    drop((head, vague));
    besieged.end();
}

#[test]
fn all_attacks_at_once_keep_nobody_else_from_being_served() {
    let mut besieged = Besieged::begin(Site::start_quietly);
    besieged.under(ATTACKS, Besieged::serve);
    besieged.end();
}

/// What others need to be served is kept from the attackers; whether there is a connection left for
/// another device is up to them, until they go.
#[test]
fn few_descriptors_make_it_neither_deaf_nor_dumb() {
    let few = |site: &Site| {
        let script = "ulimit -n 64 && exec \"$0\" \"$@\"";
        let mut command = site.gateway_behind("sh", &["-c", script]);
        Gateway::start(command.env("RUST_LOG", "warn,gatepost::daemon=info"))
    };
    let mut besieged = Besieged::begin(few);
    let idle: Vec<Device> = (0..200).map(|_| besieged.gateway.connect()).collect();
    besieged.serve();
    drop(idle);
    besieged.under(ATTACKS, |besieged| {
        // The command line is heard and the upstream reached.
        for _ in 0..20 {
            besieged.site.wait_until_empty();
        }
    });
    besieged.end();
}

#[test]
fn more_idle_connections_than_it_may_have_are_in_nobodys_way() {
    let name = "siege::more_idle_connections_than_it_may_have_are_in_nobodys_way";
    with_descriptors(4096, name, || {
        let mut besieged = Besieged::begin(Site::start_quietly);
        let idle: Vec<Device> = (0..1100).map(|_| besieged.gateway.connect()).collect();
        besieged.serve();
        let (descriptors, threads) = besieged.held();
        assert!(1000 < descriptors, "{descriptors}");
        assert!(descriptors <= besieged.calm.0 + 1024, "{descriptors}");
        assert_eq!(threads, besieged.calm.1);
        let grown = besieged.gateway.resident_kb();
        let grown = grown.saturating_sub(besieged.resident_kb);
        assert!(grown < 4096, "1024 connections cost {grown} kB");
        drop(idle);
        besieged.end();
    });
}

/// After a power cut all terminals reconnect together.
#[test]
fn sixty_four_that_come_at_once_after_a_power_cut_are_all_answered() {
    const DEVICES: usize = 64;
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start_quietly();
    let together = Barrier::new(DEVICES);
    let all_send = |address: SocketAddr, round: usize| {
        thread::scope(|scope| {
            for number in 0..DEVICES {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    let mut device = Device::connect(address);
                    for event in 0..5 {
                        device.deliver(&format!("cam-{number}"), &format!("e-{round}-{event}"));
                    }
                });
            }
        });
    };
    all_send(gateway.address, 0);
    gateway.kill();
    let gateway = site.start_quietly();
    all_send(gateway.address, 1);
    site.wait_until_empty();
    let keys: std::collections::BTreeSet<String> = upstream
        .received()
        .iter()
        .map(|received| received.key().to_owned())
        .collect();
    assert_eq!(keys.len(), 2 * 5 * DEVICES);
    gateway.stop();
}
