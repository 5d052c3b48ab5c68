//! The test data builder: a store in which events wait, made by the gateway's own intake and
//! committer, in steps larger than its own.

use std::net::SocketAddr;
use std::sync::Arc;

use gatepost::clock::{Clock, SystemClock};
use gatepost::commit::Work;
use gatepost::config::Config;
use gatepost::daemon::Ground;
use gatepost::event::{Header, Request};
use gatepost::ingest::{Admitted, Intake};
use gatepost::route::Routes;
use gatepost::store::{Disk, Store};

use crate::common::process::Site;

/// How many events are stored in one transaction.
const AT_ONCE: usize = 2_000;

/// Makes the store of `site`, with so many events from so many devices, who take turns.
pub(crate) fn build(site: &Site, events: usize, devices: usize) {
    let config = Config::load(&site.config()).expect("it is right");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let path = &config.store.path;
    let store = Store::open(path, 7).expect("there is room");
    let room = Arc::new(Disk::of(path));
    let ground = Ground::on(store, room, None, &config, &clock).expect("the store works");
    let Ground {
        store,
        boot,
        numbers,
        mut committer,
    } = ground;
    let routes = Routes::new(config.routes.clone()).expect("it is one route");
    let intake = Intake::new(routes, numbers, boot);
    let mut number = 0;
    while number < events {
        let mut work = Vec::with_capacity(AT_ONCE);
        while number < events && work.len() < AT_ONCE {
            let request = request(number, devices);
            match intake.admit(request, clock.reading(), clock.moment()) {
                Admitted::Event(admission, _) => work.push(Work::Admit(admission, ())),
                Admitted::Answer(answer) => unreachable!("{answer:?}"),
            }
            number += 1;
        }
        let step = committer.step(work);
        step.map_err(|failed| failed.error)
            .expect("the store works");
    }
    committer.finish().expect("the store works");
    drop(committer);
    let store = Arc::into_inner(store).expect("nobody else has it");
    store.close().expect("the store works");
}

/// What the event of this number is called.
pub(crate) fn name(number: usize) -> String {
    format!("e-{number}")
}

/// The number of the event of this name, if it is one of the backlog's.
pub(crate) fn number_of(name: &str) -> Option<usize> {
    name.strip_prefix("e-")?.parse().ok()
}

fn request(number: usize, devices: usize) -> Request {
    let device = format!("cam-{}", number % devices);
    let body = crate::body(&device, &name(number)).into_bytes();
    let length = body.len().to_string();
    let headers = [
        ("Host", "192.168.1.10:8080"),
        ("User-Agent", "terminal/2.4.1"),
        ("Content-Type", "application/json"),
        ("Content-Length", length.as_str()),
    ];
    let header = |(name, value): (&str, &str)| Header {
        name: name.to_owned(),
        value: value.as_bytes().to_vec(),
    };
    Request {
        peer: SocketAddr::from(([192, 168, 1, 20], 40_000)),
        method: "POST".to_owned(),
        target: b"/ingest/door".to_vec(),
        headers: headers.map(header).to_vec(),
        body,
        oversize: None,
    }
}
