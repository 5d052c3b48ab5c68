//! The way upstream, and who is there: each destination has a weather of its own.
//!
//! What arrived is what the upstream has taken over, whether or not the gateway heard of it.
//!
//! A captive portal is among the weathers only of those that can be told from one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gatepost::clock::Timestamp;
use gatepost::config::Destination;
use gatepost::delivery::{Answer, Outcome, RetryAfter, Verdict};
use gatepost::rng::Rng;
use gatepost::upstream::{Outgoing, Transport};

use crate::sim::devices::poison;
use crate::sim::settings::{ACK, pick};

/// How a destination is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Weather {
    /// It takes events.
    Fine,
    /// It takes them after a while.
    Slow,
    /// Nobody is there.
    Down,
    /// It takes events, and its answers are lost.
    Deaf,
    /// It fails whatever is sent.
    Failing,
    /// It asks for a pause.
    Limiting,
    /// It does not know us.
    Forbidding,
    /// A bad deployment: it refuses whatever is sent.
    Refusing,
    /// Somebody else is there, and answers 200 to everything.
    Portal,
    /// All of these by turns.
    Changing,
}

/// Every weather but [`Weather::Fine`].
const BAD: &[Weather] = &[
    Weather::Slow,
    Weather::Down,
    Weather::Down,
    Weather::Deaf,
    Weather::Failing,
    Weather::Limiting,
    Weather::Forbidding,
    Weather::Refusing,
    Weather::Refusing,
    Weather::Portal,
    Weather::Changing,
];

/// One request that reached the network.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) sent: Outgoing,
    /// Whether the upstream has taken it over.
    pub(crate) arrived: bool,
    /// Whether the gateway hears what became of it.
    pub(crate) is_heard: bool,
    /// How long it takes until the gateway hears that, or gives up.
    pub(crate) takes: Duration,
}

/// The way to one destination. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    rng: Rng,
    weather: Weather,
    poison: bool,
    /// Whether it can be told from a portal.
    proves: bool,
    /// Whether it answers 409 to what it has.
    knows_again: bool,
    /// The keys of what it has.
    taken: BTreeSet<Vec<u8>>,
    now: Timestamp,
    last: Option<Request>,
}

impl Network {
    pub(crate) fn new(seed: u64, to: &Destination) -> Self {
        let taken = Outcome::Answered(Answer {
            status: 409,
            retry_after: None,
            head: Vec::new(),
            headers: Vec::new(),
        });
        Self(Arc::new(Mutex::new(Inner {
            rng: Rng::from_seed(seed),
            weather: Weather::Fine,
            poison: true,
            proves: to.proof.is_some(),
            knows_again: to.classify.classify(&taken) == Verdict::Delivered,
            taken: BTreeSet::new(),
            now: Timestamp::default(),
            last: None,
        })))
    }

    /// The weather changes. Good weather stays longer than bad.
    pub(crate) fn change_the_weather(&self, rng: &mut Rng) -> Weather {
        let weather = if rng.below(2) == 0 {
            Weather::Fine
        } else {
            pick(rng, BAD)
        };
        self.set_weather(weather);
        weather
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.lock().weather = weather;
    }

    /// From now on the upstream takes the events too that it could not read.
    pub(crate) fn cure_poison(&self) {
        self.lock().poison = false;
    }

    /// Whether the upstream still refuses some events.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.lock().poison
    }

    /// What the upstream's clock says.
    pub(crate) fn set_time(&self, now: Timestamp) {
        self.lock().now = now;
    }

    /// The last request, if there was one since this was asked.
    pub(crate) fn take_last(&self) -> Option<Request> {
        self.lock().last.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Network {
    fn send(&self, request: &Outgoing) -> Outcome {
        let mut inner = self.lock();
        let reply = inner.reply(request);
        inner.last = Some(Request {
            sent: request.clone(),
            arrived: reply.arrived,
            is_heard: reply.is_heard,
            takes: reply.takes,
        });
        reply.outcome
    }
}

struct Reply {
    outcome: Outcome,
    arrived: bool,
    is_heard: bool,
    takes: Duration,
}

impl Reply {
    fn answered(outcome: Outcome, takes_ms: u64) -> Self {
        Self {
            outcome,
            arrived: false,
            is_heard: true,
            takes: Duration::from_millis(takes_ms),
        }
    }
}

/// How long an attempt may take.
const TIMEOUT_MS: u64 = 30_000;

impl Inner {
    fn reply(&mut self, request: &Outgoing) -> Reply {
        let weather = match self.weather {
            Weather::Changing if self.rng.below(2) == 0 => Weather::Fine,
            Weather::Changing => pick(&mut self.rng, &BAD[..BAD.len() - 1]),
            weather => weather,
        };
        let weather = match weather {
            Weather::Portal if !self.proves => Weather::Down,
            weather => weather,
        };
        let soon = 1 + self.rng.below(100);
        match weather {
            Weather::Fine | Weather::Changing => self.take(request, soon),
            Weather::Slow => {
                let takes = self.rng.below(TIMEOUT_MS);
                self.take(request, takes)
            }
            Weather::Down => self.down(),
            Weather::Deaf => self.deaf(request),
            Weather::Failing => {
                let status = pick(&mut self.rng, &[500, 502, 503, 504, 507, 408, 425]);
                Reply::answered(answer(status, None), soon)
            }
            Weather::Limiting => {
                let status = pick(&mut self.rng, &[429, 503]);
                let seconds = self.rng.below(120);
                let pause = if self.rng.below(3) == 0 {
                    let at = self.now.as_ms().saturating_add_unsigned(1_000 * seconds);
                    RetryAfter::Date(Timestamp::from_ms(at))
                } else {
                    RetryAfter::Delay(Duration::from_secs(seconds))
                };
                Reply::answered(answer(status, Some(pause)), soon)
            }
            Weather::Forbidding => {
                let status = pick(&mut self.rng, &[401, 403, 404, 302, 407]);
                Reply::answered(answer(status, None), soon)
            }
            Weather::Portal => Reply::answered(answer(200, None), soon),
            Weather::Refusing => {
                let status = pick(&mut self.rng, &[422, 400, 413]);
                Reply::answered(answer(status, None), soon)
            }
        }
    }

    /// The upstream takes the event over, unless it can't read it.
    fn take(&mut self, request: &Outgoing, takes: u64) -> Reply {
        if let Some(status) = poison(&request.body).filter(|_| self.poison) {
            return Reply::answered(answer(status, None), takes);
        }
        let status = pick(&mut self.rng, &[200, 202, 204]);
        let key = request.header("Idempotency-Key").unwrap_or_default();
        let is_new = self.taken.insert(key.to_vec());
        if !is_new && self.knows_again {
            return Reply {
                arrived: true,
                ..Reply::answered(answer(409, None), takes)
            };
        }
        let mut outcome = answer(status, None);
        if let Outcome::Answered(answer) = &mut outcome {
            answer.headers.push((ACK.to_owned(), b"1".to_vec()));
        }
        Reply {
            arrived: true,
            ..Reply::answered(outcome, takes)
        }
    }

    /// The event arrives, and the answer does not.
    fn deaf(&mut self, request: &Outgoing) -> Reply {
        let taken = self.take(request, TIMEOUT_MS);
        let outcome = match self.rng.below(3) {
            0 => Outcome::Unreachable("the connection ended before an answer".to_owned()),
            _ => Outcome::TimedOut,
        };
        Reply {
            outcome,
            is_heard: false,
            ..taken
        }
    }

    fn down(&mut self) -> Reply {
        let (why, takes) = pick(
            &mut self.rng,
            &[
                ("connection refused", 1),
                ("no such name", 50),
                ("the certificate is not yet valid", 20),
                ("no connection in time", 10_000),
            ],
        );
        Reply::answered(Outcome::Unreachable(why.to_owned()), takes)
    }
}

fn answer(status: u16, retry_after: Option<RetryAfter>) -> Outcome {
    Outcome::Answered(Answer {
        status,
        retry_after,
        head: Vec::new(),
        headers: Vec::new(),
    })
}
