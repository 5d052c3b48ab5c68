//! Delivering one event: what the request upstream holds, and one attempt at it.
//!
//! # Guarantees
//!
//! - The body, its `Content-Type` and `Content-Encoding`, the sender's signature and trace headers
//!   leave as they came, byte for byte. None is made up.
//! - Each request of a delivery has the same `Idempotency-Key`, over retries, replays and restarts.
//! - Nothing that was meant for the gateway (credentials, cookies, the connection) leaves with it.
//! - Whatever happens, an [`Attempt`] comes of it.
//! - Where the destination asks for a proof, no 2xx without it is taken for an answer, whatever
//!   carried it.
//!
//! | header | value |
//! |---|---|
//! | `Idempotency-Key` | `"<gateway>-<seq>"`, a quoted string |
//! | `X-Gatepost-Event` | the event's name, as in the log |
//! | `X-Gatepost-Route`, `X-Gatepost-Device` | as in the log; absent if there is none |
//! | `X-Gatepost-Received` | RFC 3339, UTC, milliseconds |
//! | `X-Gatepost-Clock` | `uncertain` if the clock was not known to be right then |
//! | `X-Gatepost-Attempt` | 1 + the attempts so far that count against the event |
//! | `X-Gatepost-Replayed` | `true` if an operator sent it again |
//! | `ce-…` | with `format = "cloudevents"`, see [`cloudevent`] |
//! | `webhook-id` | with `sign`: the key without its quotes; [`crate::upstream`] adds the rest |
//!
//! Where we set `ce-` or `webhook-` headers, those that the sender had leave as `X-Orig-ce-…` and
//! `X-Orig-webhook-…`: they say what the sender said, and must not be taken for ours.
//!
//! What an outcome means is decided elsewhere ([`crate::retry`]), and when to try in `dispatch`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Clock;
use crate::config::{Destination, Format};
use crate::delivery::{self, Attempt, DeliveryId, GatewayId, Outcome, Progress, Verdict};
use crate::event::{self, Event, Header, Seq, printable};
use crate::schema::Schema;
use crate::upstream::{Outgoing, Transport};

mod cloudevent;

/// What one worker of a destination needs to make its attempts.
#[derive(Clone)]
pub struct Worker {
    /// This gateway.
    pub gateway: GatewayId,
    /// Where to.
    pub destination: Arc<Destination>,
    /// The way there.
    pub transport: Arc<dyn Transport>,
    /// What measures how long an attempt took.
    pub clock: Arc<dyn Clock>,
    /// What bodies must be like, by the name of the route.
    pub schemas: Arc<BTreeMap<String, Schema>>,
}

/// An event as the store gave it out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parcel {
    /// Its record.
    pub event: Event,
    /// Its body, whole.
    pub body: Vec<u8>,
}

impl Worker {
    /// Makes one attempt at `delivery`. Also returns what the event is called in the log.
    ///
    /// `parcel` is what the store has for it, or what is damaged there; then nothing is sent.
    #[must_use]
    pub fn attempt(
        &self,
        delivery: DeliveryId,
        progress: Progress,
        parcel: Result<Parcel, String>,
    ) -> (Attempt, String) {
        let seq = delivery.seq;
        let begun = self.clock.moment();
        let (outcome, name) = match parcel {
            Ok(parcel) => {
                let name = parcel.event.name(seq);
                let outcome = match self.check(&parcel) {
                    Ok(()) => self.send(parcel, seq, progress),
                    Err(how) => Outcome::Invalid(how),
                };
                (outcome, name)
            }
            Err(damage) => (Outcome::Damaged(damage), event::name(None, seq)),
        };
        let attempt = Attempt {
            delivery,
            progress,
            outcome,
            took: self.clock.moment().since(begun),
        };
        (attempt, name)
    }

    /// Whether the body is what its route says.
    fn check(&self, parcel: &Parcel) -> Result<(), String> {
        let route = parcel.event.route.as_ref();
        let schema = route.and_then(|route| self.schemas.get(route));
        schema.map_or(Ok(()), |schema| schema.check(&parcel.body))
    }

    fn send(&self, Parcel { event, body }: Parcel, seq: Seq, progress: Progress) -> Outcome {
        let to = &self.destination;
        let request = outgoing(&event, seq, body, self.gateway, progress, to);
        proven(self.transport.send(&request), to)
    }
}

/// The request that carries `event` to `destination`; see the head of this module.
///
/// A configured header replaces one of the same name that came from the sender.
///
/// Source: draft-ietf-httpapi-idempotency-key-header-07 section 2.1 (the quotes); RFC 9110 section
/// 7.6.1 (what `Connection` names is not passed on).
#[must_use]
pub fn outgoing(
    event: &Event,
    seq: Seq,
    body: Vec<u8>,
    gateway: GatewayId,
    progress: Progress,
    destination: &Destination,
) -> Outgoing {
    let configured = |name: &str| {
        let names = destination.headers.iter().map(|(name, _)| name);
        names
            .into_iter()
            .any(|other| other.eq_ignore_ascii_case(name))
    };
    let mut headers: Vec<(String, Vec<u8>)> = content_type(event)
        .chain(passing(event))
        .filter(|header| !configured(&header.name))
        .map(|header| (renamed(&header.name, destination), header.value.clone()))
        .collect();
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value.into_bytes()));
    let key = delivery::idempotency_key(gateway, seq);
    add("Idempotency-Key", format!("\"{key}\""));
    add("X-Gatepost-Event", event.name(seq));
    if let Some(route) = &event.route {
        add("X-Gatepost-Route", printable(route));
    }
    if let Some(device) = &event.device {
        add("X-Gatepost-Device", printable(device));
    }
    add("X-Gatepost-Received", event.received.wall.to_string());
    if !event.received.certain {
        add("X-Gatepost-Clock", "uncertain".to_owned());
    }
    add(
        "X-Gatepost-Attempt",
        progress.attempts.saturating_add(1).to_string(),
    );
    if progress.replayed {
        add("X-Gatepost-Replayed", "true".to_owned());
    }
    if destination.format == Format::CloudEvents {
        for (name, value) in cloudevent::attributes(event, &key, gateway) {
            add(name, value);
        }
    }
    if destination.sign.is_some() {
        add("webhook-id", key);
    }
    for (name, value) in &destination.headers {
        add(name, value.clone());
    }
    Outgoing { headers, body }
}

/// What an outcome is worth: a 2xx that would count as delivered is no answer of the destination
/// if it lacks the proof that is asked for.
fn proven(outcome: Outcome, destination: &Destination) -> Outcome {
    let (Some(proof), Outcome::Answered(answer)) = (&destination.proof, &outcome) else {
        return outcome;
    };
    let counts = (200..=299).contains(&answer.status)
        && destination.classify.classify(&outcome) == Verdict::Delivered;
    match proof.lacks(answer).filter(|_| counts) {
        Some(why) => Outcome::Unproven(why),
        None => outcome,
    }
}

/// What a sender's header is called where one of that kind is ours.
fn renamed(name: &str, destination: &Destination) -> String {
    let begins = |prefix: &str| {
        let start = name.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let is_taken = (destination.format == Format::CloudEvents && begins("ce-"))
        || (destination.sign.is_some() && begins("webhook-"));
    if is_taken {
        format!("X-Orig-{name}")
    } else {
        name.to_owned()
    }
}

/// Whether a sender's header goes on to the destination, going by its name alone.
///
/// These are what a destination needs to check or follow an event itself: signatures with what
/// they are made over, ids and timestamps of known webhook senders, trace context, the coding of
/// the body. All else stays with the event in the store. `Content-Type` is not among them because
/// only one of it may go; see [`outgoing`].
///
/// Source: `reference/devices.md` sections 2 and 2a (senders), RFC 9421 (`Signature`,
/// `Content-Digest`), W3C Trace Context, `CloudEvents` HTTP binding (`ce-`), Standard Webhooks
/// (`webhook-`).
#[must_use]
pub fn passes_through(name: &str) -> bool {
    const NEVER: &[&str] = &[
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    const NEVER_WITH: &[&str] = &["proxy-", "x-gatepost-"];
    const NAMED: &[&str] = &[
        "content-digest",
        "content-encoding",
        "digest",
        TRACEPARENT,
        TRACESTATE,
    ];
    const WITH: &[&str] = &[
        "ce-",
        "paypal-",
        "stripe-",
        "svix-",
        "webhook-",
        "x-github-",
        "x-hub-",
        "x-line-",
        "x-shopify-",
    ];
    const HOLDING: &[&str] = &["hmac", "signature", "timestamp"];
    let name = name.to_ascii_lowercase();
    let is = |names: &[&str]| names.contains(&name.as_str());
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let holds = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    !is(NEVER) && !begins(NEVER_WITH) && (is(NAMED) || begins(WITH) || holds(HOLDING))
}

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

fn content_type(event: &Event) -> impl Iterator<Item = &Header> {
    let mut all = event.headers.iter();
    all.find(|header| header.name.eq_ignore_ascii_case("content-type"))
        .into_iter()
}

fn passing(event: &Event) -> impl Iterator<Item = &Header> {
    let traced = is_traced(&event.headers);
    event.headers.iter().filter(move |header| {
        let of_trace = [TRACEPARENT, TRACESTATE]
            .iter()
            .any(|name| header.name.eq_ignore_ascii_case(name));
        passes_through(&header.name)
            && (traced || !of_trace)
            && !is_of_the_connection(&event.headers, &header.name)
    })
}

/// Whether there is exactly one `traceparent`, and a valid one. If not, none of the trace is sent.
///
/// Source: W3C Trace Context, sections 3.2.2 and 4.3.
fn is_traced(headers: &[Header]) -> bool {
    let mut parents = headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case(TRACEPARENT));
    parents
        .next()
        .is_some_and(|header| is_traceparent(&header.value))
        && parents.next().is_none()
}

/// `00-<32 hex>-<16 hex>-<2 hex>` in lower case, ids not all zero. A later version may have more.
fn is_traceparent(value: &[u8]) -> bool {
    let mut fields = value.split(|byte| *byte == b'-');
    let mut field = |length: usize| {
        fields.next().filter(|field| {
            field.len() == length
                && field
                    .iter()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    let is_set = |id: &[u8]| id.iter().any(|byte| *byte != b'0');
    let (Some(version), Some(trace), Some(parent), Some(_)) =
        (field(2), field(32), field(16), field(2))
    else {
        return false;
    };
    let more = fields.next().is_some();
    version != b"ff" && is_set(trace) && is_set(parent) && (version != b"00" || !more)
}

/// Whether the sender's `Connection` header says that `name` is meant for the next hop only.
fn is_of_the_connection(headers: &[Header], name: &str) -> bool {
    headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("connection"))
        .flat_map(|header| header.value.split(|byte| *byte == b','))
        .any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

#[cfg(test)]
mod tests;
