//! The upstream of the demo: takes events, if it is there and well, and says what it got.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, never, unbounded};

use super::Error;
use super::count::Arrival;
use super::message::UNKNOWN_BADGE;
use super::stage::News;
use crate::clock::SystemClock;
use crate::event::{Digest, Request};
use crate::http::{self, Answer, Answers, Limits, Server, Ticket};
use crate::rng::{Rng, entropy};

/// Ports that Linux gives to nobody who does not ask for one of them: it chooses from 32768 on.
/// Source: ip(7), `ip_local_port_range`.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How many of them are tried before it is given up.
const TRIES: usize = 20;

/// How it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mood {
    /// How long it takes for each request; it takes one at a time.
    pub(super) pause: Duration,
    /// Whether it knows all badges.
    pub(super) mended: bool,
}

/// An upstream that takes events. Gone when it is dropped.
pub(super) struct Upstream {
    mood: Arc<Mutex<Mood>>,
    answers: Answers,
    threads: Vec<JoinHandle<()>>,
}

/// An address where nobody listens now and nobody else will.
pub(super) fn vacant_address() -> Result<SocketAddr, Error> {
    let seed = entropy();
    let seed = seed.map_err(|error| Error::System("there is no randomness".to_owned(), error))?;
    let mut rng = Rng::from_seed(seed);
    let mut tries = TRIES;
    loop {
        let width = u64::from(PORTS.end - PORTS.start);
        let offset = u16::try_from(rng.below(width)).expect("it is below the width");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.start + offset));
        tries -= 1;
        match bind(address) {
            Ok(_) => return Ok(address),
            Err(error) if tries == 0 => return Err(Error::Upstream(error)),
            Err(_) => {}
        }
    }
}

type Bound = (Server, Receiver<Vec<(Ticket, Request)>>);

fn bind(address: SocketAddr) -> Result<Bound, http::Error> {
    let (sender, requests) = unbounded();
    let clock = Arc::new(SystemClock::new());
    let server = Server::bind(&[address], Limits::default(), clock, sender)?;
    Ok((server, requests))
}

impl Upstream {
    /// Takes events at `address` from now on.
    pub(super) fn start(
        address: SocketAddr,
        mood: Mood,
        news: Sender<News>,
    ) -> Result<Self, Error> {
        let (server, requests) = bind(address).map_err(Error::Upstream)?;
        let answers = server.answers();
        let mood = Arc::new(Mutex::new(mood));
        let mut upstream = Self {
            mood: Arc::clone(&mood),
            answers: answers.clone(),
            threads: Vec::new(),
        };
        upstream.spawn(move || {
            // That it has ended is noticed by what does not arrive.
            _ = server.run();
        })?;
        upstream.spawn(move || {
            for (ticket, request) in requests.into_iter().flatten() {
                let mood = *lock(&mood);
                _ = never::<()>().recv_timeout(mood.pause);
                let (status, text) = judge(&request, mood);
                let arrival = arrival(&request, status);
                let said = said(&arrival, text, mood);
                // Nobody listens at the end of the story.
                _ = news.send(News::Arrived(arrival, said));
                answers.send(vec![(ticket, answer(status, text))]);
            }
        })?;
        Ok(upstream)
    }

    /// How it is from the next request on.
    pub(super) fn be(&self, mood: Mood) {
        *lock(&self.mood) = mood;
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        let spawned = thread::Builder::new()
            .name("upstream".to_owned())
            .spawn(work);
        let thread =
            spawned.map_err(|error| Error::System("cannot start a thread".to_owned(), error))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.answers.stop();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            _ = thread.join();
        }
    }
}

fn lock(mood: &Mutex<Mood>) -> MutexGuard<'_, Mood> {
    mood.lock()
        .expect("nothing panics while it holds this lock")
}

/// What it answers: status and body.
fn judge(request: &Request, mood: Mood) -> (u16, &'static str) {
    let badge = format!("\"badge\":\"{UNKNOWN_BADGE}\"");
    let mut windows = request.body.windows(badge.len());
    if !mood.mended && windows.any(|window| window == badge.as_bytes()) {
        (422, "{\"error\":\"nobody has badge 4711\"}")
    } else {
        (202, "{\"ok\":true}")
    }
}

fn answer(status: u16, text: &'static str) -> Answer {
    Answer {
        status,
        content_type: "application/json".into(),
        body: text.as_bytes().to_vec(),
        retry_after: None,
        asks_password: false,
        close: false,
    }
}

fn arrival(request: &Request, status: u16) -> Arrival {
    let header = |name: &str| {
        let value = request.header(name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    Arrival {
        event: header("X-Gatepost-Event").unwrap_or_default(),
        digest: Digest::of(&request.body),
        key: header("Idempotency-Key").unwrap_or_default(),
        signature: header("Webhook-Signature"),
        replayed: header("X-Gatepost-Replayed").is_some(),
        status,
    }
}

/// What is worth telling: the gateway's log says the rest.
fn said(arrival: &Arrival, text: &str, mood: Mood) -> Option<String> {
    let Arrival {
        event, key, status, ..
    } = arrival;
    if !arrival.is_taken() {
        Some(format!("{event} -> {status} {text}"))
    } else if arrival.replayed {
        Some(format!("{event} -> {status}, with the key {key}"))
    } else if !mood.pause.is_zero() {
        let pause = mood.pause.as_millis();
        Some(format!("{event} -> {status}, after {pause} ms"))
    } else {
        None
    }
}
