//! Limits: of the store, of connections, of memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::device::{Device, event, post};
use crate::common::process::{Plan, Site};
use crate::common::upstream::{Reply, Upstream};
use crate::common::{note, with_descriptors};

/// What the process may take in memory, in kB, while 64 connections send: the promise. The code of
/// a build with debug assertions alone takes half of it.
const MOST_RESIDENT_KB: u64 = if cfg!(debug_assertions) {
    40_000
} else {
    30_000
};

/// What of it may be its own rather than code (10 MB measured, in any build).
const MOST_OWN_KB: u64 = 16_000;

#[test]
fn a_refusal_to_a_sender_that_never_sends_again_raises_an_alert() {
    let upstream = Upstream::start(move |_| Reply::Status(401));
    let plan = Plan {
        ingest: "max_body = \"64 KiB\"",
        store: "max_size = \"1 MiB\"",
        route: "[[route]]\nprofile = \"shelly\"\nto = [\"cloud\"]\n",
        ..Plan::default()
    };
    let site = Site::new(&upstream, plan);
    let gateway = site.start();
    let mut device = gateway.connect();
    let picture = vec![b'x'; 40_000];
    let mut status = 200;
    for _ in 0..60 {
        let request = post("/shelly/gate?id=s-1", "", &picture);
        device.say(&request).expect("the gateway reads");
        status = device.hear().expect("the gateway answers").status;
        if status != 200 {
            break;
        }
    }
    assert_eq!(status, 503);
    let alert = gateway.log.wait_for("[alert refused]");
    assert!(
        alert.contains("an event of s-1 on shelly was refused (503)"),
        "{alert}"
    );
    let seen = &site.json(&["devices"])[0];
    assert_eq!((&seen["device"], &seen["lost"]), (&"s-1".into(), &1.into()));
    gateway.kill();
    let output = site.run(&["devices"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(
        said.contains("only the running daemon knows who was heard of"),
        "{said}"
    );
}

#[test]
fn a_full_store_refuses_new_events_loses_none_and_goes_on_delivering() {
    let is_open = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&is_open);
    let upstream = Upstream::start(move |_| {
        if open.load(Ordering::SeqCst) {
            Reply::Status(200)
        } else {
            Reply::Status(401)
        }
    });
    let plan = Plan {
        ingest: "max_body = \"64 KiB\"",
        store: "max_size = \"1 MiB\"",
        ..Plan::default()
    };
    let site = Site::new(&upstream, plan);
    let gateway = site.start();
    let mut device = gateway.connect();
    let pad = "x".repeat(20_000);
    let body = |number: usize| {
        let event = event("cam-7", &format!("e-{number:03}"));
        event.replace("door opened", &pad)
    };
    let mut taken = 0;
    let refusal = loop {
        let answer = device.send(&body(taken));
        if answer.status != 202 {
            break answer;
        }
        taken += 1;
        assert!(taken < 60, "1 MiB holds no more than 52 of 20 kB");
    };
    assert!(30 < taken, "a tenth is kept free, not more: {taken}");
    assert_eq!(refusal.status, 503, "{refusal:?}");
    assert!(refusal.head.contains("Retry-After: "), "{refusal:?}");
    assert_eq!(refusal.body, "{\"received\":false}\n");
    gateway.log.wait_for("[store] full");
    // What is known already needs no room.
    assert_eq!(device.send(&body(0)).status, 200);
    gateway.kill();
    let gateway = site.start();
    let mut device = gateway.connect();
    assert_eq!(device.send(&body(taken)).status, 503);
    is_open.store(true, Ordering::SeqCst);
    site.succeed(&["release", "cloud"]);
    site.wait_until_empty();
    let received = upstream.received();
    for number in 0..taken {
        let body = body(number);
        let came = received.iter().any(|one| one.body == body.as_bytes());
        assert!(came, "e-{number:03} was acknowledged");
    }
}

#[test]
fn sixty_four_connections_are_all_served_in_little_memory() {
    const SENDERS: usize = 64;
    const LOAD: Duration = Duration::from_secs(4);
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start_quietly();
    let mut devices: Vec<Device> = (0..SENDERS).map(|_| gateway.connect()).collect();
    // All at once, all are answered.
    for (sender, device) in devices.iter_mut().enumerate() {
        let body = event("burst", &format!("burst-{sender}"));
        let request = post("/ingest/door", "", body.as_bytes());
        device.say(&request).expect("the gateway reads");
    }
    for device in &mut devices {
        assert_eq!(device.hear().expect("each is answered").status, 202);
    }
    // Then as fast as they can.
    let began = Instant::now();
    let served: Vec<usize> = thread::scope(|scope| {
        let sending = devices.into_iter().enumerate().map(|(sender, mut device)| {
            scope.spawn(move || {
                let name = format!("cam-{sender}");
                let mut count = 0;
                while began.elapsed() < LOAD {
                    device.deliver(&name, &format!("{name}-{count}"));
                    count += 1;
                }
                count
            })
        });
        let sending: Vec<_> = sending.collect();
        let served = sending.into_iter().map(thread::ScopedJoinHandle::join);
        served
            .map(|count| count.expect("each is answered"))
            .collect()
    });
    let resident = gateway.resident_kb();
    let (least, most) = (served.iter().min(), served.iter().max());
    let total: usize = served.iter().sum();
    note(&format!(
        "{total} events, {least:?} to {most:?} for one, {resident} kB"
    ));
    assert!(most.map(|most| most / 3) < least.copied(), "{served:?}");
    assert!(resident < MOST_RESIDENT_KB, "{resident} kB");
    let own = gateway.status_kb("RssAnon:");
    note(&format!("{own} kB of its own"));
    assert!(own < MOST_OWN_KB, "{own} kB of its own");
}

#[test]
fn slow_idle_and_lying_senders_are_in_nobodys_way() {
    let name = "room::slow_idle_and_lying_senders_are_in_nobodys_way";
    with_descriptors(4096, name, serve_beside_a_thousand);
}

fn serve_beside_a_thousand() {
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start_quietly();
    let say = |bytes: &[u8]| {
        let mut device = gateway.connect();
        device.say(bytes).expect("the gateway reads");
        device
    };
    let head = "POST /ingest/door HTTP/1.1\r\nContent-Length: ";
    let mut slow: Vec<Device> = (0..10).map(|_| say(&head.as_bytes()[..20])).collect();
    slow.extend((0..10).map(|_| say(format!("{head}100\r\n\r\n{{\"").as_bytes())));
    let lie = format!("{head}30000000000\r\n\r\n{}", "x".repeat(100_000));
    slow.extend((0..10).map(|_| say(lie.as_bytes())));
    let idle: Vec<Device> = (0..970).map(|_| gateway.connect()).collect();
    let mut device = gateway.connect();
    for number in 0..200 {
        device.deliver("cam-7", &format!("e-{number}"));
        // Each of the slow ones moves on by a byte now and then.
        if let Some(slow) = slow.get_mut(number % 20) {
            slow.say(b"x").expect("it is not closed yet");
        }
    }
    upstream.wait_for(200);
    let resident = gateway.resident_kb();
    note(&format!("{} idle connections, {resident} kB", idle.len()));
    assert!(resident < MOST_RESIDENT_KB, "{resident} kB");
    drop((slow, idle));
    gateway.connect().deliver("cam-7", "after");
    gateway.stop();
}
