//! Routes: whose events come in on which path, how to read them, and where they go.
//!
//! # Guarantees
//!
//! - Which route a path belongs to depends on the patterns only, not on their order in the file.
//! - Nothing a device sends can fail here: an unreadable event has a reason, not an error.
//!
//! # How paths compare
//!
//! Segment by segment, byte for byte and with case, after percent-decoding both sides. Empty
//! segments don't count, so `//ingest/` is `/ingest`: devices that join a base URL and a path add
//! slashes. An encoded slash (`%2F`) belongs to its segment and separates nothing. `.` and `..`
//! are names like any other; there are no files behind a route.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use percent_encoding::percent_decode;

use crate::event::{Lane, Quarantine, Request, USUAL_PRIORITY};
use crate::profile::{Answers, Case, Retries};
use crate::schema::Schema;
use crate::select::{self, Items, Selector, Subject};

/// One `[[route]]` of the configuration.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name in logs and headers. Routes of one name differ in their paths only.
    pub name: String,
    /// The profile that said what the route does not; none: there is none.
    pub profile: Option<String>,
    /// The paths it takes.
    pub path: Pattern,
    /// Where the event id is; the first selector that finds one wins.
    pub event_id: Vec<Selector>,
    /// Where the device id is; likewise.
    pub device: Vec<Selector>,
    /// Where the time is at which it happened, as the device has it; likewise.
    pub event_time: Vec<Selector>,
    /// What is counted where one request holds several events.
    pub items: Option<Items>,
    /// What an event must have, or it goes to quarantine.
    pub require: Require,
    /// Which of its deliveries wait for each other.
    pub order: Order,
    /// How much its events matter, 0 to 9, 9 the most. Default: [`USUAL_PRIORITY`].
    pub priority: u8,
    /// What a sender hears when its event goes to quarantine.
    pub status: Status,
    /// What its senders hear.
    pub answers: Answers,
    /// Whether its senders send again what was refused.
    pub retries: Retries,
    /// How often each of its devices is expected to be heard of; none: it may be silent.
    pub expect_every: Option<Duration>,
    /// What bodies must be like to be sent on; none: like anything.
    pub schema: Option<Schema>,
    /// The names of the destinations it leads to; none: its events are held.
    pub to: Vec<String>,
}

impl Route {
    /// A route that takes every event on `path`, requires nothing of it and leads nowhere.
    #[must_use]
    pub fn new(name: impl Into<String>, path: Pattern) -> Self {
        Self {
            name: name.into(),
            profile: None,
            path,
            event_id: Vec::new(),
            device: Vec::new(),
            event_time: Vec::new(),
            items: None,
            require: Require::default(),
            order: Order::default(),
            priority: USUAL_PRIORITY,
            status: Status::default(),
            answers: Answers::default(),
            retries: Retries::default(),
            expect_every: None,
            schema: None,
            to: Vec::new(),
        }
    }

    /// Reads whose event it is, and which. Never changes the request.
    #[must_use]
    pub fn identify(&self, request: &Request) -> Identity {
        let lists = [&self.event_id, &self.device, &self.event_time];
        let mut selectors = lists.into_iter().flatten();
        let holes = if selectors.any(|selector| selector.holes().next().is_some()) {
            self.path.holes(request.path_and_query().0)
        } else {
            Vec::new()
        };
        let subject = Subject::new(request, &holes);
        let values = select::read(&subject, lists.map(Vec::as_slice));
        let [event_id, device, _] = values.found();
        let quarantine = if self.require.event_id && event_id.is_none() {
            Some(Quarantine::NoEventId(values.why_not(0)))
        } else if self.require.device && device.is_none() {
            Some(Quarantine::NoDevice(values.why_not(1)))
        } else {
            None
        };
        let [event_id, device, event_time] = values.into_found();
        Identity {
            event_id,
            device,
            event_time,
            items: self
                .items
                .as_ref()
                .and_then(|items| items.count(&request.body)),
            quarantine,
        }
    }

    /// The case that `request` is; none: an event like the others. Where the path takes
    /// no rest, `path:*` is all of it.
    #[must_use]
    pub fn case(&self, request: &Request) -> Option<&Case> {
        let cases = &self.answers.cases;
        if cases.is_empty() {
            return None;
        }
        let (path, _) = request.path_and_query();
        let mut holes = self.path.holes(path);
        if self.path.hole_names().all(|name| name != "*") {
            let whole: Vec<&[u8]> = parts(path).collect();
            let whole = percent_decode(&whole.join(&b'/')).collect();
            holes.push(("*".to_owned(), whole));
        }
        cases.iter().find(|case| case.takes(request, &holes))
    }

    /// The device id in `request`, without a look for anything else.
    #[must_use]
    pub fn device(&self, request: &Request) -> Option<String> {
        let (path, _) = request.path_and_query();
        let holes = self.path.holes(path);
        let subject = Subject::new(request, &holes);
        let [device] = select::read(&subject, [&self.device]).into_found();
        device
    }

    /// The lane in which an event of this [`sender`] keeps its place.
    #[must_use]
    pub fn lane(&self, sender: &str) -> Lane {
        match self.order {
            Order::Device => Lane::of_device(&self.name, sender),
            Order::Route => Lane::of_route(&self.name),
            Order::None => Lane::unordered(&self.name),
        }
    }
}

/// What stands for whoever sent an event: the device's id or, if it has none, its address. So
/// what one sender sends stays in order, and senders neither wait for each other nor share ids.
#[must_use]
pub fn sender(device: Option<&str>, peer: IpAddr) -> Cow<'_, str> {
    match device {
        Some(device) => Cow::Borrowed(device),
        None => Cow::Owned(format!("peer:{}", peer.to_canonical())),
    }
}

/// One line, as `gatepost check` prints it: `door: /ingest/device-event -> cloud`, with its profile
/// if it has one: `cam: /cam/{device} (hikvision) -> cloud`.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.path)?;
        if let Some(profile) = &self.profile {
            write!(f, " ({profile})")?;
        }
        f.write_str(" -> ")?;
        if self.to.is_empty() {
            f.write_str("held (no destination)")
        } else {
            f.write_str(&self.to.join(", "))
        }
    }
}

/// Whose event, and which: what a route's selectors found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The sender's id for the event.
    pub event_id: Option<String>,
    /// The sender's id for itself.
    pub device: Option<String>,
    /// When it happened, in the sender's words.
    pub event_time: Option<String>,
    /// How many events the request holds, if the route counts them.
    pub items: Option<u64>,
    /// Set if the route requires one that is missing. What was found is there all the same.
    pub quarantine: Option<Quarantine>,
}

/// What an event must have to be delivered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Require {
    /// An event id.
    pub event_id: bool,
    /// A device id.
    pub device: bool,
}

/// Which deliveries of a route wait for each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// Those of one device.
    #[default]
    Device,
    /// All of the route.
    Route,
    /// None.
    None,
}

/// What a sender hears when its event goes to quarantine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Status {
    /// 200, accepted false: a device would send the same bytes for ever.
    #[default]
    Received,
    /// 4xx, for a sender that you do control and whose author should notice: 413 if the body is
    /// too long, 400 otherwise. The event is kept as ever; 503 stays the only answer that means
    /// "send it again".
    Verdict,
}

/// A path with holes: `/ingest/{*}`, `/hook/{device}/event`. Displays as it was written.
///
/// `{name}` takes one segment, `{*}` at the end takes the rest, none included.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
}

/// Ordered from the most to the least specific.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Segment {
    Literal(Vec<u8>),
    Hole(String),
    Rest,
}

impl Pattern {
    /// Reads what an operator wrote.
    ///
    /// # Errors
    ///
    /// Says in words what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err(format!(
                "a path begins with \"/\", as in \"/{}\"",
                text.trim_start_matches(['.', ' '])
            ));
        }
        if text.contains(['?', '#']) || text.contains(char::is_whitespace) {
            return Err("a path has no \"?\", \"#\" or blanks; \
                        write %3F, %23 or %20 if the sender does"
                .to_owned());
        }
        let segments = parts(text.as_bytes()).map(Segment::parse);
        let segments = segments.collect::<Result<Vec<_>, _>>()?;
        for (index, segment) in segments.iter().enumerate() {
            if *segment == Segment::Rest && index + 1 < segments.len() {
                return Err("{*} takes the rest of a path, so nothing can follow it".to_owned());
            }
            if let Segment::Hole(name) = segment
                && segments[..index].contains(segment)
            {
                return Err(format!(
                    "{{{name}}} is there twice; each hole needs its own name"
                ));
            }
        }
        let text = text.to_owned();
        Ok(Self { text, segments })
    }

    /// Whether `path`, as sent and without its query, is one of these.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut parts = parts(path);
        for segment in &self.segments {
            let takes = match segment {
                Segment::Literal(name) => parts
                    .next()
                    .is_some_and(|part| percent_decode(part).eq(name.iter().copied())),
                Segment::Hole(_) => parts.next().is_some(),
                Segment::Rest => return true,
            };
            if !takes {
                return false;
            }
        }
        parts.next().is_none()
    }

    /// What the holes take of a path that this matches, decoded, by their names; `*` is the rest.
    #[must_use]
    pub fn holes(&self, path: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut parts = parts(path);
        let mut holes = Vec::new();
        for segment in &self.segments {
            match segment {
                Segment::Literal(_) => _ = parts.next(),
                Segment::Hole(name) => {
                    let part = parts.next().unwrap_or_default();
                    holes.push((name.clone(), percent_decode(part).collect()));
                }
                Segment::Rest => {
                    let rest: Vec<&[u8]> = parts.by_ref().collect();
                    let rest = percent_decode(&rest.join(&b'/')).collect();
                    holes.push(("*".to_owned(), rest));
                }
            }
        }
        holes
    }

    /// The names of its holes; `*` for the rest.
    pub fn hole_names(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Hole(name) => Some(name.as_str()),
            Segment::Rest => Some("*"),
        })
    }

    /// Whether both take exactly the same paths: the names of holes make no difference.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.shape() == other.shape()
    }

    /// The pattern without what makes no difference to the paths it takes.
    fn shape(&self) -> Vec<Segment> {
        let unnamed = |segment: &Segment| match segment {
            Segment::Hole(_) => Segment::Hole(String::new()),
            other => other.clone(),
        };
        self.segments.iter().map(unnamed).collect()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Segment {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let shown = String::from_utf8_lossy(text);
        let hole = shown
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let is_name = |name: &str| {
            let first = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            name.bytes().next().is_some_and(first)
                && name
                    .bytes()
                    .all(|byte| first(byte) || byte.is_ascii_digit())
        };
        match hole {
            Some("*") => Ok(Self::Rest),
            Some(name) if is_name(name) => Ok(Self::Hole(name.to_owned())),
            None if !shown.contains(['{', '}']) => {
                Ok(Self::Literal(percent_decode(text).collect()))
            }
            _ => Err(format!(
                "a hole is a whole segment, {{name}} in small letters or {{*}}, not \"{shown}\""
            )),
        }
    }
}

/// The segments of a path, still encoded; empty ones don't count.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
}

/// All routes, and which of them a path belongs to.
#[derive(Clone, Debug)]
pub struct Routes {
    /// The most specific first.
    routes: Vec<Route>,
}

impl Routes {
    /// A table of these.
    pub fn new(mut routes: Vec<Route>) -> Result<Self, SamePath> {
        let mut seen = BTreeMap::new();
        for route in &routes {
            if let Some(first) = seen.insert(route.path.shape(), &route.name) {
                return Err(SamePath {
                    first: first.clone(),
                    second: route.name.clone(),
                });
            }
        }
        routes.sort_by_cached_key(|route| route.path.shape());
        Ok(Self { routes })
    }

    /// The route of `path`, as sent and without its query.
    ///
    /// If several take it, the most specific one: of the first segments that differ, a literal
    /// comes before a hole, a hole before `{*}`.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<&Route> {
        self.routes.iter().find(|route| route.path.matches(path))
    }

    /// The route of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.name == name)
    }

    /// All of them, the most specific first.
    pub fn iter(&self) -> std::slice::Iter<'_, Route> {
        self.routes.iter()
    }
}

impl<'a> IntoIterator for &'a Routes {
    type Item = &'a Route;
    type IntoIter = std::slice::Iter<'a, Route>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Two routes that take exactly the same paths.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SamePath {
    /// The name of one.
    pub first: String,
    /// The name of the other.
    pub second: String,
}

impl std::error::Error for SamePath {}

impl fmt::Display for SamePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "routes \"{}\" and \"{}\" take the same paths",
            self.first, self.second
        )
    }
}

#[cfg(test)]
mod tests;
