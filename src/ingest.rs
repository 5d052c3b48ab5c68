//! Ingest: what a request is, what is kept of it, and what its sender hears.
//!
//! # Guarantees
//!
//! - An answer other than 2xx is given only when nothing was kept: 503, or, on a route that says
//!   so, a 4xx for an event that went to quarantine.
//! - [`Intake::admit`] changes nothing and keeps nothing. The event is this gateway's
//!   responsibility once the committer has answered [`Done::Stored`], and [`answer`] says so then
//!   and at no other time.
//! - The body is stored as it came. Ids are a view of it.
//! - Heartbeats, polls and handshakes of a known profile are answered at once: no commit.
//! - Who may send ([`crate::auth`]) is decided before anything else is: a stranger's event goes to
//!   quarantine and is compared with no other; its heartbeat is not kept, not answered in the words
//!   of the profile, and counts as no device. Its event hears what any in quarantine does, since a
//!   friend with a wrong token would else send the same for ever. What is kept holds neither token
//!   nor password.
//!
//! [`Done::Stored`]: crate::commit::Done::Stored

use std::collections::BTreeMap;
use std::sync::Arc;

use log::warn;

use crate::clock::{Moment, Reading};
use crate::commit::{Admission, Done, HELD, Quarantined};
use crate::devices::{Devices, Heard};
use crate::event::{
    Address, DestinationNo, Digest, Event, Lane, Quarantine, Request, USUAL_PRIORITY,
};
use crate::http::Answer;
use crate::profile::{Body, Case, Facts, Kind, Retries, Wording};
use crate::route::{Identity, Route, Routes, Status, sender};
use crate::store::footprint;

mod allowance;
mod answers;
mod lost;
mod recognised;

pub use answers::{Promise, answer};
pub use lost::Lost;

use allowance::{Allowance, Keep, Paid, Total};
use answers::{Words, says, speak, turned_away};
use lost::OnlyOnce;
use recognised::recognised;

/// Turns requests into events, by the routes of the configuration.
#[derive(Debug)]
pub struct Intake {
    routes: Routes,
    numbers: BTreeMap<String, DestinationNo>,
    boot: u64,
    allowance: Allowance,
    total: Total,
    devices: Arc<Devices>,
}

/// What is to be done with a request.
#[derive(Debug)]
pub enum Admitted {
    /// Nothing is kept of it: its sender hears this at once.
    Answer(Answer),
    /// An event to be stored, and what its sender hears then.
    Event(Box<Admission>, Promise),
}

impl Intake {
    /// Events come in by `routes` and go to destinations with these `numbers`. `boot` counts the
    /// starts of the machine.
    #[must_use]
    pub fn new(routes: Routes, numbers: BTreeMap<String, DestinationNo>, boot: u64) -> Self {
        let every = |route: &Route| Some((route.name.clone(), route.expect_every?));
        let every = routes.iter().filter_map(every).collect();
        Self {
            routes,
            numbers,
            boot,
            allowance: Allowance::default(),
            total: Total::default(),
            devices: Arc::new(Devices::new(every)),
        }
    }

    /// From now on bounds what all senders together have in quarantine, of which so much is
    /// `held`, by a share of `max_size`.
    #[must_use]
    pub fn with_quarantine(mut self, held: Quarantined, max_size: u64) -> Self {
        self.total = Total::new(held, max_size);
        self
    }

    /// Who was heard of.
    #[must_use]
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// Reads a request that was received at `received`.
    #[must_use]
    pub fn admit(&self, mut request: Request, received: Reading, now: Moment) -> Admitted {
        let (path, query) = request.path_and_query();
        let route = self.routes.find(path);
        if is_probe(&request, path, query, route) {
            return Admitted::Answer(says(200, &Words::rejected("nothing to keep")));
        }
        let stranger = route.and_then(|route| route.turns_away(&request));
        let case = route.and_then(|route| Some((route, route.case(&request)?)));
        if let Some((route, case)) = case.filter(|(_, case)| case.is != Kind::Event) {
            return Admitted::Answer(match stranger {
                Some(why) => turn_away(route, &request, &why),
                None => self.signal(route, case, &request, received, now),
            });
        }
        let signed = route.map_or(Ok(()), |route| judge_signature(route, &request, received));
        let is_known = stranger.is_none() && signed == Ok(());
        let mut identity = match route {
            Some(route) => route.identify(&request),
            None => Identity {
                event_id: None,
                device: None,
                event_time: None,
                items: None,
                quarantine: Some(Quarantine::NoRoute),
            },
        };
        if request.oversize.is_some() {
            identity.quarantine = Some(Quarantine::TooLong);
        }
        let refused = stranger.or(signed.err().filter(|_| request.oversize.is_none()));
        identity.quarantine = refused.or(identity.quarantine);
        let case = case.map(|(_, case)| case);
        let mut promise = promise(&request, route, case, &identity, received);
        match route {
            Some(route) if is_known => {
                let device = identity.device.as_deref();
                self.hear(route, device, &request, Heard::Event, received, now);
            }
            _ => promise.only_once = None,
        }
        self.conceal(route, &mut request);
        let mut admission = self.admission(request, route, identity, received);
        if let Some(quarantine) = &admission.event.quarantine {
            match self.keep(&admission, now) {
                Keep::Whole => {}
                Keep::Head => admission.forget_body(),
                Keep::Nothing => return Admitted::Answer(promise.rejection(quarantine)),
            }
            promise.paid = Some(Paid {
                sender: admission.event.peer.ip(),
                bytes: footprint(&admission.event, &admission.body),
            });
        }
        Admitted::Event(Box::new(admission), promise)
    }

    /// Hears how the store has dealt with an event, as [`answer`] does. What is not stored, or was
    /// before, costs its sender nothing.
    pub fn refund(&self, promise: &Promise, done: Option<&Done>, now: Moment) {
        if let (Some(paid), None | Some(Done::Full | Done::Duplicate(_))) = (promise.paid, done) {
            self.allowance.give_back(paid, now);
        }
    }

    /// Counts what is not an event, and says what its sender hears.
    fn signal(
        &self,
        route: &Route,
        case: &Case,
        request: &Request,
        received: Reading,
        now: Moment,
    ) -> Answer {
        let is_known = judge_signature(route, request, received).is_ok();
        if is_known {
            let device = route.device(request);
            let heard = Heard::Signal;
            self.hear(route, device.as_deref(), request, heard, received, now);
        }
        let facts = Facts {
            request,
            received,
            options: &route.answers.options,
        };
        let wording = case.answer.as_ref().or(route.answers.accepted.as_ref());
        let is_fixed = |wording: &&Wording| {
            let text = wording.text.as_ref();
            text.is_none_or(|(_, body)| matches!(body, Body::Fixed(_)))
        };
        let wording = wording.filter(|wording| is_known || is_fixed(wording));
        let said = wording.map(|wording| wording.say(&facts));
        said.as_ref().and_then(speak).unwrap_or_else(Answer::ok)
    }

    /// Notes that a device was heard of.
    fn hear(
        &self,
        route: &Route,
        device: Option<&str>,
        request: &Request,
        heard: Heard,
        received: Reading,
        now: Moment,
    ) {
        let sender = sender(device, request.peer.ip());
        self.devices
            .hear(&route.name, &sender, heard, now, received);
    }

    /// Takes out of a request what is secret in it. One without a route may have missed one.
    fn conceal(&self, route: Option<&Route>, request: &mut Request) {
        match route {
            Some(route) => route.conceal(request),
            None => self
                .routes
                .iter()
                .for_each(|route| route.auth.conceal(request)),
        }
    }

    /// How much of an event in quarantine its sender is allowed to have kept.
    fn keep(&self, admission: &Admission, now: Moment) -> Keep {
        let Admission { event, body, .. } = admission;
        let sender = event.peer.ip();
        let (whole, head) = (footprint(event, body), footprint(event, &[]));
        let most = self.total.allows(whole, head);
        let keep = self.allowance.take(sender, (whole, head), most, now);
        if most < Keep::Whole {
            warn!(
                "[store] quarantine is full, {} MiB: of what can't be delivered only heads are \
                 kept, then nothing; see gatepost quarantine, and gatepost discard",
                self.total.most_mib()
            );
        } else if keep == Keep::Nothing {
            warn!(
                "[device {sender}] sends what can't be delivered, more than is kept for a day: \
                 counted only"
            );
        }
        keep
    }

    fn admission(
        &self,
        request: Request,
        route: Option<&Route>,
        identity: Identity,
        received: Reading,
    ) -> Admission {
        let Identity {
            event_id,
            device,
            event_time,
            items,
            quarantine,
        } = identity;
        let (length, digest) = match &request.oversize {
            Some(oversize) => (oversize.length, oversize.digest),
            None => (request.body.len() as u64, Digest::of(&request.body)),
        };
        let body = request.body;
        let to = match (route, &quarantine) {
            (Some(route), None) => {
                let sender = sender(device.as_deref(), request.peer.ip());
                self.addresses(route, route.lane(&sender))
            }
            _ => Vec::new(),
        };
        let event = Event {
            event_id,
            device,
            event_time,
            items,
            route: route.map(|route| route.name.clone()),
            peer: request.peer,
            method: request.method,
            target: request.target,
            headers: request.headers,
            received,
            boot: self.boot,
            length,
            kept: body.len() as u64,
            digest,
            revision_of: None,
            quarantine,
            to,
            priority: route.map_or(USUAL_PRIORITY, |route| route.priority),
        };
        let (key, within) = recognised(&event, route);
        Admission {
            event,
            body,
            key,
            within,
        }
    }

    /// Where an event of `route` goes. Without a destination it waits under [`HELD`].
    fn addresses(&self, route: &Route, lane: Lane) -> Vec<Address> {
        let numbers = route
            .to
            .iter()
            .filter_map(|name| self.numbers.get(name).copied());
        let address = |destination| Address { destination, lane };
        let to: Vec<Address> = numbers.map(address).collect();
        if to.is_empty() {
            return vec![address(HELD)];
        }
        to
    }
}

/// What the sender of an event will hear.
fn promise(
    request: &Request,
    route: Option<&Route>,
    case: Option<&Case>,
    identity: &Identity,
    received: Reading,
) -> Promise {
    let mut promise = Promise {
        event_id: identity.event_id.clone(),
        quarantine: identity.quarantine.clone(),
        status: Status::Received,
        accepted: None,
        rejected: None,
        only_once: None,
        paid: None,
    };
    let Some(route) = route else {
        return promise;
    };
    let sender = sender(identity.device.as_deref(), request.peer.ip());
    let facts = Facts {
        request,
        received,
        options: &route.answers.options,
    };
    let say = |wording: &Wording| Box::new(wording.say(&facts));
    let answers = &route.answers;
    let of_case = case.and_then(|case| case.answer.as_ref());
    promise.accepted = of_case.or(answers.accepted.as_ref()).map(say);
    if promise.quarantine.is_some() {
        promise.rejected = answers.rejected.as_ref().map(say);
    }
    promise.status = route.status;
    promise.only_once = (route.retries == Retries::Never).then(|| {
        Box::new(OnlyOnce {
            route: route.name.clone(),
            sender: sender.into_owned(),
        })
    });
    promise
}

/// Whether an event is signed right, if it must be. One that was too long can't be judged, so it
/// is not.
fn judge_signature(route: &Route, request: &Request, received: Reading) -> Result<(), Quarantine> {
    if route.auth.wants_signature() && request.oversize.is_some() {
        return Err(Quarantine::TooLong);
    }
    route.auth.check_signature(request, received)
}

/// What a stranger hears to a heartbeat or a poll. Nothing is kept of it.
fn turn_away(route: &Route, request: &Request, why: &Quarantine) -> Answer {
    let (sender, name) = (request.peer.ip().to_canonical(), &route.name);
    warn!("[device {sender}] a heartbeat or poll on {name} is not taken: {why}");
    turned_away(route.status, why)
}

/// Requests that carry nothing: a look whether anybody is there. Not a GET on a route, which may
/// be all that a simple sender can say.
fn is_probe(request: &Request, path: &[u8], query: Option<&[u8]>, route: Option<&Route>) -> bool {
    let is = |method: &str| request.method.eq_ignore_ascii_case(method);
    let empty = request.body.is_empty() && request.oversize.is_none();
    let nowhere = route.is_none() && query.is_none();
    let root = nowhere && matches!(path, b"/" | b"/favicon.ico" | b"");
    empty && (is("HEAD") || is("OPTIONS") || (is("GET") && root))
}

#[cfg(test)]
mod tests;
