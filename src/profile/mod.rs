//! Profiles: what is known of a kind of sender, as far as the way of an event depends on it.
//!
//! # Guarantees
//!
//! - An answer has a body and a 2xx other than 204: anything else makes one sender or another
//!   crash, hang or come again for ever (`devices.md` sections 1 and 2).
//! - What a [`Case`] does not describe is an event. Nothing is taken for a heartbeat because it
//!   looks like none of the known events.
//! - A computed answer is a function of the request, the options of its route and the time.
//!
//! What is known of each kind of sender is data, in `src/profiles/`; `config` reads it.

mod glob;
mod uniview;
mod zkteco;

use std::collections::BTreeMap;
use std::fmt;

use crate::clock::Reading;
use crate::event::Request;
use crate::select::{self, Items, Selector, Subject};

pub use glob::Glob;

/// What a route tells its senders.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answers {
    /// When an event is stored, and when it was before; none: in gatepost's own words.
    pub accepted: Option<Wording>,
    /// When an event goes to quarantine; none: what accepted events are told if that has a body,
    /// since a sender that waits for certain words would send the same for ever.
    pub rejected: Option<Wording>,
    /// Requests that are told something else; the first that takes one wins.
    pub cases: Vec<Case>,
    /// What computed answers are made of, by its name.
    pub options: BTreeMap<String, String>,
}

impl Answers {
    /// Whether the options can be used.
    ///
    /// # Errors
    ///
    /// Says in words why not.
    pub fn check_options(&self) -> Result<(), String> {
        let of_cases = self.cases.iter().filter_map(|case| case.answer.as_ref());
        let wordings = self.accepted.iter().chain(&self.rejected).chain(of_cases);
        let mut computed = wordings.filter_map(|wording| match wording.text.as_ref()?.1 {
            Body::Computed(computed) => Some(computed),
            Body::Fixed(_) => None,
        });
        match computed.next() {
            None => Err("no answer of this route is made of them".to_owned()),
            Some(Computed::UniviewRecord | Computed::UniviewHeartbeat) => {
                uniview::check_options(&self.options)
            }
            Some(Computed::ZktecoUpload | Computed::ZktecoHandshake) => Ok(()),
        }
    }
}

/// A kind of request that is not an event like the others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Case {
    /// What it is.
    pub is: Kind,
    /// Its method, in any spelling; none: any.
    pub method: Option<String>,
    /// Whether it has neither query nor body.
    pub bare: bool,
    /// Whether it holds none of these, where it could; none: it does not matter.
    pub empty: Option<Items>,
    /// Where something is found that looks so; those that look into the body come last.
    pub conditions: Vec<(Selector, Glob)>,
    /// What its sender hears; none: what accepted events are told.
    pub answer: Option<Wording>,
}

/// What a request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// An event: kept.
    Event,
    /// "I am here": counted.
    Heartbeat,
    /// "Is there something for me, and are you there?": counted.
    Poll,
    /// "How shall I talk to you?": counted.
    Handshake,
}

impl Case {
    /// Whether it is the case of `request`, of which the holes of its path took `holes`.
    #[must_use]
    pub fn takes(&self, request: &Request, holes: &[(String, Vec<u8>)]) -> bool {
        let of_method = |method: &String| method.eq_ignore_ascii_case(&request.method);
        let is_bare = || {
            let (_, query) = request.path_and_query();
            query.is_none_or(<[u8]>::is_empty)
                && request.body.is_empty()
                && request.oversize.is_none()
        };
        if !self.method.as_ref().is_none_or(of_method) || self.bare && !is_bare() {
            return false;
        }
        let subject = Subject::new(request, holes);
        let is_met = |(selector, glob): &(Selector, Glob)| {
            glob.matches(select::find(&subject, selector).as_deref())
        };
        let count = |items: &Items| items.count(&request.body);
        self.conditions.iter().all(is_met)
            && self
                .empty
                .as_ref()
                .is_none_or(|items| count(items) == Some(0))
    }
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wording {
    /// Its status, 200 to 299 and not 204.
    pub status: u16,
    /// Its media type and body; none: in gatepost's own words.
    pub text: Option<(String, Body)>,
}

/// The body of an answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// Always the same.
    Fixed(String),
    /// Made for each request.
    Computed(Computed),
}

/// How a body is made from a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Computed {
    /// `ZKTeco`: how many lines of an upload were taken.
    ZktecoUpload,
    /// `ZKTeco`: how the terminal is to talk to us.
    ZktecoHandshake,
    /// Uniview: which record was taken, and what time it is.
    UniviewRecord,
    /// Uniview: what time it is.
    UniviewHeartbeat,
}

impl Computed {
    /// All of them, by the names that they have in a profile.
    pub const ALL: [(&str, Self); 4] = [
        ("zkteco-upload", Self::ZktecoUpload),
        ("zkteco-handshake", Self::ZktecoHandshake),
        ("uniview-record", Self::UniviewRecord),
        ("uniview-heartbeat", Self::UniviewHeartbeat),
    ];
}

/// What computed answers are made of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What is answered.
    pub request: &'a Request,
    /// When it was received.
    pub received: Reading,
    /// [`Answers::options`] of its route.
    pub options: &'a BTreeMap<String, String>,
}

/// An answer, made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Said {
    /// Its status.
    pub status: u16,
    /// Its media type and body; none: in gatepost's own words.
    pub text: Option<(String, String)>,
}

impl Wording {
    /// 200 and these words.
    #[must_use]
    pub fn plain(body: &str) -> Self {
        Self {
            status: 200,
            text: Some(("text/plain".to_owned(), Body::Fixed(body.to_owned()))),
        }
    }

    /// The answer to one request.
    #[must_use]
    pub fn say(&self, facts: &Facts<'_>) -> Said {
        let text = self.text.as_ref().map(|(content_type, body)| {
            let body = match body {
                Body::Fixed(text) => text.clone(),
                Body::Computed(Computed::ZktecoUpload) => zkteco::upload(facts),
                Body::Computed(Computed::ZktecoHandshake) => zkteco::handshake(facts),
                Body::Computed(Computed::UniviewRecord) => uniview::record(facts),
                Body::Computed(Computed::UniviewHeartbeat) => uniview::heartbeat(facts),
            };
            (content_type.clone(), body)
        });
        Said {
            status: self.status,
            text,
        }
    }
}

/// Whether a sender sends again what was refused.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Retries {
    /// Until it hears what it waits for.
    UntilAnswered,
    /// A few times, or for some days.
    Limited,
    /// Never: what was refused is lost.
    Never,
    /// Nobody has said so.
    #[default]
    Unknown,
}

impl Retries {
    /// All of them, by the names that they have in a profile.
    pub const ALL: [(&str, Self); 4] = [
        ("until-answered", Self::UntilAnswered),
        ("limited", Self::Limited),
        ("never", Self::Never),
        ("unknown", Self::Unknown),
    ];
}

impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(_, retries)| retries == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Event => "event",
            Self::Heartbeat => "heartbeat",
            Self::Poll => "poll",
            Self::Handshake => "handshake",
        })
    }
}

/// On one line: `200 text/plain: OK`.
impl fmt::Display for Wording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        match &self.text {
            None => f.write_str(", in gatepost's own words"),
            Some((content_type, Body::Fixed(text))) => write!(f, " {content_type}: {text}"),
            Some((content_type, Body::Computed(computed))) => {
                let named = Computed::ALL.iter().find(|(_, one)| one == computed);
                let name = named.map_or("", |(name, _)| name);
                write!(f, " {content_type}: computed ({name})")
            }
        }
    }
}

/// `poll: GET, path:* = "*ping*"`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.is)?;
        let method = self.method.clone();
        let bare = self.bare.then(|| "no query, no body".to_owned());
        let empty = self.empty.as_ref().map(|items| format!("{items} is empty"));
        let conditions = self.conditions.iter();
        let conditions = conditions.map(|(selector, glob)| format!("{selector} = \"{glob}\""));
        let all = method
            .into_iter()
            .chain(bare)
            .chain(empty)
            .chain(conditions);
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, target: &str, body: &str) -> Request {
        Request {
            peer: ([10, 0, 0, 7], 1).into(),
            method: method.to_owned(),
            target: target.as_bytes().to_vec(),
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
            oversize: None,
        }
    }

    fn case(method: Option<&str>, bare: bool, conditions: &[(&str, &str)]) -> Case {
        let condition = |(selector, glob): &(&str, &str)| {
            let selector = Selector::parse(selector).expect("the test writes it right");
            (selector, Glob::new(glob))
        };
        Case {
            is: Kind::Poll,
            method: method.map(str::to_owned),
            bare,
            empty: None,
            conditions: conditions.iter().map(condition).collect(),
            answer: None,
        }
    }

    #[test]
    fn a_case_takes_only_what_it_describes() {
        let poll = case(Some("GET"), false, &[("query:SN", "*"), ("query:x", "")]);
        let empty = Case {
            empty: Items::parse("json:/events").ok(),
            ..case(None, false, &[("json:/destination", "*")])
        };
        let probe = case(Some("get"), true, &[]);
        let rows = [
            (&poll, request("GET", "/?SN=1", ""), true),
            (&poll, request("get", "/?SN=1", ""), true),
            (&poll, request("POST", "/?SN=1", ""), false),
            (&poll, request("GET", "/?SN=", ""), false),
            (&poll, request("GET", "/?SN=1&x=2", ""), false),
            (
                &empty,
                request("POST", "/", r#"{"destination":"u","events":[]}"#),
                true,
            ),
            (
                &empty,
                request("POST", "/", r#"{"destination":"u","events":[{}]}"#),
                false,
            ),
            (&empty, request("POST", "/", r#"{"events":[]}"#), false),
            (&empty, request("POST", "/", "{"), false),
            (&probe, request("GET", "/hook", ""), true),
            (&probe, request("GET", "/hook?", ""), true),
            (&probe, request("GET", "/hook?a", ""), false),
            (&probe, request("GET", "/hook", "x"), false),
        ];
        for (case, request, expected) in &rows {
            assert_eq!(case.takes(request, &[]), *expected, "{case} {request:?}");
        }
    }
}
