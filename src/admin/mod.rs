//! What an operator can see and do: one API, for the command line and for whoever looks.
//!
//! # Guarantees
//!
//! - [`answer`] is the whole API: a function of a request and of what the store holds. It does
//!   not know what carries it; [`server`] does so with `tiny_http`, the command line calls it
//!   itself when no daemon runs.
//! - Changes are made by the [`Office`] alone, so that the committer stays the one writer.
//! - Over TCP nothing can be changed, and a page of a foreign web site can read nothing.
//! - Lists come in pages whose cursors are keys: what was there all the time is neither repeated
//!   nor left out while events come and go.
//! - A replay ends: what it sends again is fixed when it starts, and each letter is visited once.
//! - A damaged record is said where it lies and hides no other one.
//!
//! # What it does not do
//!
//! It asks for no token: whoever may open the Unix socket or the loopback port may look, and
//! whoever may open the socket may change things.
//!
//! | request | answer |
//! |---|---|
//! | `GET /api/status` | [`views::Status`] |
//! | `GET /api/devices` | [`views::Page`] of [`views::DeviceRow`] |
//! | `GET /api/queue?after=&limit=` | [`views::Page`] of [`views::QueueRow`] |
//! | `GET /api/dead?after=&limit=` | [`views::Page`] of [`views::DeadRow`] |
//! | `GET /api/quarantine?after=&limit=` | [`views::Page`] of [`views::QuarantineRow`] |
//! | `GET /api/events?id=` | [`views::Found`] |
//! | `GET /api/events/{seq}` | [`views::EventView`] |
//! | `GET /api/events/{seq}/body` | the bytes as sent |
//! | `POST /api/replay`, `/api/discard` with a [`views::Selection`] | [`views::Changed`] |
//! | `POST /api/hold`, `/api/release` with a [`views::Held`] | [`views::Changed`] |
//! | anything that cannot be done | [`views::Problem`] |

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::Serialize;

mod alone;
mod backfill;
mod change;
mod clear;
pub mod client;
mod event;
mod find;
mod lists;
mod names;
mod office;
mod plane;
mod problem;
mod query;
pub mod server;
pub mod views;

pub use alone::Alone;
pub use find::MOST_FOUND;
pub use names::NO_DESTINATION;
pub use office::{Office, Unavailable};
pub use problem::Kind;
pub use query::{MOST_LIMIT, USUAL_LIMIT, encode};

use crate::clock::{Clock, Reading};
use crate::event::{DestinationNo, Seq};
use crate::store::Store;
use query::Query;

/// A request as the API sees it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path, as sent.
    pub path: String,
    /// What follows the first `?`, as sent.
    pub query: String,
    /// The body, whole.
    pub body: Vec<u8>,
    /// How it came.
    pub via: Via,
}

/// How a request came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Via {
    /// Over the Unix socket, or from this process: it may change things.
    Socket,
    /// Over TCP: it may look.
    Tcp {
        /// Its `Host` header.
        host: Option<String>,
    },
}

/// An answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The methods that the path takes, if it does not take that of the request.
    pub allow: Option<&'static str>,
    /// The body.
    pub body: Vec<u8>,
}

/// Everything the API works on.
pub struct State {
    /// What is read.
    pub store: Arc<Store>,
    /// The destinations of the configuration that runs; empty if no daemon does.
    pub destinations: Vec<(DestinationNo, String)>,
    /// Its routes, and the names of the destinations that each leads to.
    pub routes: Vec<(String, Vec<String>)>,
    /// Who changes things.
    pub office: Box<dyn Office>,
    /// When this process started.
    pub started: Reading,
    /// The version of this program.
    pub version: &'static str,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

/// Why something cannot be done.
#[derive(Debug)]
struct Refusal {
    kind: Kind,
    detail: String,
}

impl Response {
    fn json(status: u16, view: &impl Serialize) -> Self {
        let mut body =
            serde_json::to_vec(view).expect("our views have string keys and no failing serializer");
        body.push(b'\n');
        Self {
            status,
            content_type: "application/json",
            allow: None,
            body,
        }
    }
}

/// Answers a request.
///
/// Source of the check of the `Host` header: DNS rebinding, by which a web site makes its own
/// name stand for 127.0.0.1 and so may read what a browser on this machine gets from there.
#[must_use]
pub fn answer(request: &Request, state: &State) -> Response {
    if let Err(refusal) = admit(request) {
        return refusal.response();
    }
    let wrong_method = |allow| Response {
        allow: Some(allow),
        ..Refusal::new(Kind::Method, format!("it takes {allow}")).response()
    };
    let path = request.path.strip_prefix("/api/").unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    let looks = matches!(request.method.as_str(), "GET" | "HEAD");
    let result = match parts[..] {
        ["replay" | "discard" | "hold" | "release" | "forget"] if request.method != "POST" => {
            return wrong_method("POST");
        }
        ["replay" | "discard" | "hold" | "release" | "forget"] => {
            change::answer(parts[0], request, state)
        }
        ["status" | "devices" | "queue" | "dead" | "quarantine" | "events"]
        | ["events", _]
        | ["events", _, "body"]
            if !looks =>
        {
            return wrong_method("GET, HEAD");
        }
        _ => look(&parts, &request.query, state),
    };
    result.unwrap_or_else(Refusal::response)
}

fn look(parts: &[&str], query: &str, state: &State) -> Result<Response, Refusal> {
    let none = || Query::read(query, &[]);
    let page = || Query::read(query, &["after", "limit"]);
    Ok(match *parts {
        ["status"] => none().and_then(|_| Ok(Response::json(200, &lists::status(state)?)))?,
        ["devices"] => {
            // The pages of the other lists; here the first is the last.
            Query::read(query, &["after", "limit"])?;
            Response::json(200, &lists::devices(state)?)
        }
        ["queue"] => Response::json(200, &lists::queue(state, &page()?)?),
        ["dead"] => Response::json(200, &lists::dead(state, &page()?)?),
        ["quarantine"] => Response::json(200, &lists::quarantine(state, &page()?)?),
        ["events"] => {
            let query = Query::read(query, &["id"])?;
            let id = query
                .get("id")
                .ok_or_else(|| Refusal::bad("say which event: ?id=ID"))?;
            Response::json(200, &find::by_id(state, id)?)
        }
        ["events", seq] => {
            none()?;
            Response::json(200, &event::view(state, self::seq(seq)?)?)
        }
        ["events", seq, "body"] => {
            none()?;
            Response {
                status: 200,
                content_type: "application/octet-stream",
                allow: None,
                body: event::body(state, self::seq(seq)?)?,
            }
        }
        _ => {
            let detail = "the API lies under /api/: status, devices, queue, dead, quarantine, \
                          events, replay, discard, hold, release, forget";
            return Err(Refusal::new(Kind::NotFound, detail));
        }
    })
}

/// Whether a request may be made at all on the way it came.
fn admit(request: &Request) -> Result<(), Refusal> {
    let Via::Tcp { host } = &request.via else {
        return Ok(());
    };
    if !host.as_deref().is_some_and(is_loopback) {
        return Err(Refusal::new(
            Kind::OtherHost,
            "the Host header must be localhost or a loopback address, with or without port",
        ));
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        return Err(Refusal::new(
            Kind::ReadOnly,
            "changes go through the command line on this machine: gatepost replay, discard, \
             hold, release",
        ));
    }
    Ok(())
}

/// Whether a `Host` header names this machine by a name that nobody else can give.
fn is_loopback(host: &str) -> bool {
    let named = |name: &str| name.eq_ignore_ascii_case("localhost");
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
        return address.is_loopback();
    }
    match host.split_once(':') {
        Some((name, port)) => named(name) && port.parse::<u16>().is_ok(),
        None => named(host),
    }
}

/// The number of an event in a path.
fn seq(text: &str) -> Result<Seq, Refusal> {
    let number = text.parse().map(Seq);
    number.map_err(|_| Refusal::bad("an event's path is /api/events/ and its seq, a number"))
}

#[cfg(test)]
mod bench;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod tests;
