//! Devices: each sends one message at a time and again until it hears 2xx, as real ones do.
//!
//! Some of what they send has the ids of something they sent before, none at all, or no form; some
//! send again what was received.

use std::net::SocketAddr;

use gatepost::event::{Header, Request};
use gatepost::rng::Rng;

use crate::sim::settings::{ATTIC, pick};

/// Half of what is kept whole of what one sender sends and can't be delivered.
const ALLOWANCE_BYTES: u64 = 6 << 20;

/// How many there are.
const DEVICES: usize = 5;

/// One message, as it is sent each time.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) request: Request,
    /// The route it is meant for, if that exists.
    pub(crate) route: Option<&'static str>,
    pub(crate) event_id: Option<String>,
    pub(crate) device: Option<String>,
    /// Whether it lacks what its route requires.
    pub(crate) is_odd: bool,
    /// How often it was sent.
    pub(crate) tries: u64,
}

impl Message {
    /// Whether its sender may have used up what is kept of what can't be delivered. Being refused
    /// costs too.
    pub(crate) fn may_be_cut(&self) -> bool {
        self.is_odd && ALLOWANCE_BYTES <= self.tries * self.request.body.len() as u64
    }

    /// Whether it is recognised by an id.
    pub(crate) fn has_id(&self) -> bool {
        self.event_id.is_some() && !self.is_odd
    }

    /// Whether the upstream can't read it.
    pub(crate) fn is_poison(&self) -> bool {
        poison(&self.request.body).is_some()
    }

    /// What must arrive in the order it was sent in, as the configuration says; none: nothing.
    pub(crate) fn line_up_with(&self) -> Option<String> {
        let route = self.route?;
        let device = self.device.as_deref().unwrap_or("without an id");
        match route {
            "gate" => None,
            "line" => Some(route.to_owned()),
            _ => Some(format!("{route} {device} {}", self.request.peer)),
        }
    }
}

/// Which message: its place in [`Devices::sent`].
pub(crate) type MessageNo = usize;

/// All devices of the site.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// Everything that was ever sent.
    pub(crate) sent: Vec<Message>,
    of: [Device; DEVICES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Device {
    /// What it has not heard 2xx for.
    unheard: Option<MessageNo>,
    /// Whether it waits for an answer to that.
    is_waiting: bool,
}

impl Devices {
    /// A device that waits for nothing sends something. With `news`, that may be a new message.
    pub(crate) fn send(&mut self, rng: &mut Rng, news: bool) -> Option<(MessageNo, Request)> {
        let free: Vec<usize> = (0..DEVICES)
            .filter(|device| !self.of[*device].is_waiting)
            .filter(|device| news || self.of[*device].unheard.is_some())
            .collect();
        if free.is_empty() {
            return None;
        }
        let device = pick(rng, &free);
        let number = match self.of[device].unheard {
            Some(number) => number,
            None => self.choose(device, rng),
        };
        self.of[device] = Device {
            unheard: Some(number),
            is_waiting: true,
        };
        self.sent[number].tries += 1;
        Some((number, self.sent[number].request.clone()))
    }

    /// Whoever sent this hears `status`, or none if its connection broke.
    pub(crate) fn hear(&mut self, number: MessageNo, status: Option<u16>) {
        for device in &mut self.of {
            if device.unheard == Some(number) {
                device.is_waiting = false;
                if status.is_some_and(|status| status != 503) {
                    device.unheard = None;
                }
            }
        }
    }

    /// The gateway is gone, and with it all connections.
    pub(crate) fn hang_up(&mut self) {
        for device in &mut self.of {
            device.is_waiting = false;
        }
    }

    /// Whether everything that was sent was received.
    pub(crate) fn are_content(&self) -> bool {
        self.of.iter().all(|device| device.unheard.is_none())
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn are_waiting(&self) -> bool {
        self.of.iter().any(|device| device.is_waiting)
    }

    /// Something that was sent before, or something new.
    fn choose(&mut self, device: usize, rng: &mut Rng) -> MessageNo {
        let mine = |message: &Message| message.request.peer == address(device);
        let before: Vec<MessageNo> = (0..self.sent.len())
            .filter(|number| mine(&self.sent[*number]))
            .collect();
        if !before.is_empty() && rng.below(12) == 0 {
            return pick(rng, &before);
        }
        let number = self.sent.len();
        // The ids of something older, with other bytes.
        let twin = (!before.is_empty() && rng.below(15) == 0).then(|| pick(rng, &before));
        let event_id = match twin {
            Some(twin) => self.sent[twin].event_id.clone(),
            None => (rng.below(6) != 0).then(|| format!("e-{number}")),
        };
        self.sent.push(compose(device, number, event_id, rng));
        number
    }
}

fn address(device: usize) -> SocketAddr {
    let number = u8::try_from(device).expect("there are few devices");
    SocketAddr::from(([10, 0, 0, number], 4_000))
}

/// What every body begins with; no two messages have the same. The byte behind it is within the
/// body too.
pub(crate) fn mark(number: MessageNo) -> String {
    format!("{{\"mark\":\"<{number:06}>")
}

/// What the upstream answers to a body that it can't read; none if it can. It says so behind the
/// mark.
pub(crate) fn poison(body: &[u8]) -> Option<u16> {
    let behind = body.get(mark(0).len()..)?;
    if behind.starts_with(b"<422>") {
        Some(422)
    } else if behind.starts_with(b"<500>") {
        Some(500)
    } else {
        None
    }
}

fn compose(device: usize, number: MessageNo, event_id: Option<String>, rng: &mut Rng) -> Message {
    let name = format!("cam-{device}");
    let routes = ["door", "door", "gate", "line", "line", ATTIC, "test"];
    let route = pick(rng, &routes);
    let strange = rng.below(25) == 0;
    let broken = rng.below(25) == 0 && route != "gate";
    let mut body = mark(number);
    match rng.below(40) {
        0 | 1 => body.push_str("<422>"),
        2 => body.push_str("<500>"),
        _ => {}
    }
    body.push_str(&"-".repeat(length(rng)));
    let mut headers = vec![header("Content-Type", "application/json")];
    if route == "gate" {
        headers.push(header("X-Device-Id", &name));
        headers.extend(event_id.iter().map(|id| header("X-Event-Id", id)));
    } else {
        body = format!("{body}\",\"deviceId\":\"{name}");
        if let Some(id) = &event_id {
            body = format!("{body}\",\"eventId\":\"{id}");
        }
    }
    body.push_str(if broken { "" } else { "\"}" });
    let path = if strange { "/elsewhere" } else { path(route) };
    let requires = matches!(route, "door" | "test");
    let is_read = !strange && !broken;
    Message {
        request: Request {
            peer: address(device),
            method: "POST".to_owned(),
            target: path.into(),
            headers,
            body: body.into_bytes(),
            oversize: None,
        },
        route: (!strange).then_some(route),
        tries: 0,
        is_odd: strange || (requires && (broken || event_id.is_none())),
        event_id: event_id.filter(|_| is_read),
        device: is_read.then_some(name),
    }
}

/// Mostly short, now and then one that takes several pages.
fn length(rng: &mut Rng) -> usize {
    let longest = pick(rng, &[30, 30, 30, 30, 300, 300, 5_000, 20_000]);
    usize::try_from(rng.below(longest)).expect("a small number")
}

fn path(route: &str) -> &str {
    match route {
        "door" => "/door",
        "gate" => "/gate/7/open",
        "line" => "/line",
        "test" => "/test",
        _ => "/attic",
    }
}

fn header(name: &str, value: &str) -> Header {
    Header {
        name: name.to_owned(),
        value: value.into(),
    }
}
