//! Delivering one event: what the request upstream holds, and one attempt at it.
//!
//! # Guarantees
//!
//! - The body, its `Content-Type` and `Content-Encoding`, the sender's signature and trace headers
//!   leave as they came, byte for byte. None is made up.
//! - Each request of a delivery has the same `Idempotency-Key`, over retries, replays and restarts.
//! - Nothing that was meant for the gateway (credentials, cookies, the connection) leaves with it.
//! - Whatever happens, an [`Attempt`] comes of it.
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
//!
//! What an outcome means is decided elsewhere ([`crate::retry`]), and when to try in `dispatch`.

use std::sync::Arc;

use crate::clock::Clock;
use crate::config::Destination;
use crate::delivery::{self, Attempt, DeliveryId, GatewayId, Outcome, Progress};
use crate::event::{self, Event, Header, Seq, printable};
use crate::upstream::{Outgoing, Transport};

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
            Ok(Parcel { event, body }) => {
                let to = &self.destination;
                let request = outgoing(&event, seq, body, self.gateway, progress, to);
                (self.transport.send(&request), event.name(seq))
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
        .map(|header| (header.name.clone(), header.value.clone()))
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
    for (name, value) in &destination.headers {
        add(name, value.clone());
    }
    Outgoing { headers, body }
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
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::clock::{Moment, Reading, Timestamp};
    use crate::delivery::Answer;
    use crate::event::{DestinationNo, Digest, Lane};
    use crate::retry::RetryPolicy;

    fn event(headers: &[(&str, &[u8])]) -> Event {
        Event {
            event_id: Some("e-1042".to_owned()),
            device: Some("cam-7".to_owned()),
            route: Some("door".to_owned()),
            peer: SocketAddr::from(([10, 0, 0, 9], 4242)),
            method: "POST".to_owned(),
            target: b"/ingest/door".to_vec(),
            headers: headers
                .iter()
                .map(|(name, value)| Header {
                    name: (*name).to_owned(),
                    value: value.to_vec(),
                })
                .collect(),
            received: Reading {
                wall: Timestamp::from_ms(784_111_777_123),
                certain: true,
                uptime_ms: 1,
            },
            boot: 1,
            length: 4,
            kept: 4,
            digest: Digest::of(b"body"),
            revision_of: None,
            priority: event::USUAL_PRIORITY,
            quarantine: None,
            to: Vec::new(),
        }
    }

    fn destination(headers: &[(&str, &str)]) -> Destination {
        Destination {
            name: "cloud".to_owned(),
            url: "http://127.0.0.1:1/".to_owned(),
            workers: 1,
            timeout: Duration::from_secs(1),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            token_file: None,
            retry: RetryPolicy {
                first: Duration::from_secs(1),
                max: Duration::from_secs(300),
                jitter: 0.2,
                max_attempts: 10,
            },
        }
    }

    fn sent(event: &Event, progress: Progress, destination: &Destination) -> Outgoing {
        let gateway = GatewayId(0x2a);
        outgoing(
            event,
            Seq(7),
            b"body".to_vec(),
            gateway,
            progress,
            destination,
        )
    }

    /// Name and value of each header as one line.
    fn lines(request: &Outgoing) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, value) in &request.headers {
            lines.push(format!("{name}: {}", value.escape_ascii()));
        }
        lines
    }

    #[test]
    fn a_request_says_what_it_carries() {
        let event = event(&[("content-type", b"text/plain; x=\xe9"), ("X-Secret", b"1")]);
        let request = sent(&event, Progress::default(), &destination(&[]));
        assert_eq!(request.body, b"body");
        assert_eq!(
            lines(&request),
            [
                "content-type: text/plain; x=\\xe9",
                "Idempotency-Key: \\\"000000000000002a-7\\\"",
                "X-Gatepost-Event: e-1042",
                "X-Gatepost-Route: door",
                "X-Gatepost-Device: cam-7",
                "X-Gatepost-Received: 1994-11-06T08:49:37.123Z",
                "X-Gatepost-Attempt: 1",
            ]
        );
    }

    #[test]
    fn a_request_says_what_is_not_as_usual() {
        let mut event = event(&[]);
        event.event_id = None;
        event.device = Some("caf\u{e9}\n".to_owned());
        event.route = None;
        event.received.certain = false;
        let progress = Progress {
            attempts: 3,
            replayed: true,
        };
        assert_eq!(
            lines(&sent(&event, progress, &destination(&[]))),
            [
                "Idempotency-Key: \\\"000000000000002a-7\\\"",
                "X-Gatepost-Event: #7",
                "X-Gatepost-Device: caf\\\\u{e9}\\\\u{a}",
                "X-Gatepost-Received: 1994-11-06T08:49:37.123Z",
                "X-Gatepost-Clock: uncertain",
                "X-Gatepost-Attempt: 4",
                "X-Gatepost-Replayed: true",
            ]
        );
    }

    #[test]
    fn a_configured_header_replaces_the_senders() {
        let event = event(&[
            ("Content-Type", b"text/plain"),
            ("X-Hub-Signature", b"a"),
            ("x-hub-signature", b"b"),
        ]);
        let configured = [
            ("X-HUB-Signature", "c"),
            ("content-type", "d"),
            ("X-Site", "e"),
        ];
        let request = sent(&event, Progress::default(), &destination(&configured));
        let ours = lines(&request);
        let ours: Vec<_> = ours
            .iter()
            .filter(|line| !line.contains("X-Gatepost"))
            .collect();
        assert_eq!(
            ours[1..],
            ["X-HUB-Signature: c", "content-type: d", "X-Site: e"]
        );
    }

    #[test]
    fn headers_pass_by_name() {
        let rows = [
            ("traceparent", true),
            ("TraceState", true),
            ("Stripe-Signature", true),
            ("Omise-Signature", true),
            ("Signature-Input", true),
            ("HMACSignature", true),
            ("X-Acme-Hmac-Sha256", true),
            ("X-Slack-Request-Timestamp", true),
            ("X-Hub-Signature-256", true),
            ("X-GitHub-Delivery", true),
            ("X-Shopify-Webhook-Id", true),
            ("X-Line-Signature", true),
            ("PAYPAL-TRANSMISSION-ID", true),
            ("webhook-id", true),
            ("svix-id", true),
            ("ce-specversion", true),
            ("Content-Encoding", true),
            ("Content-Digest", true),
            ("Content-Type", false),
            ("Content-Length", false),
            ("Transfer-Encoding", false),
            ("Host", false),
            ("Connection", false),
            ("Keep-Alive", false),
            ("TE", false),
            ("Upgrade", false),
            ("Expect", false),
            ("Authorization", false),
            ("Proxy-Authorization", false),
            ("Proxy-Signature", false),
            ("Cookie", false),
            ("Idempotency-Key", false),
            ("X-Gatepost-Signature", false),
            ("x-gatepost-event", false),
            ("User-Agent", false),
            ("Accept-Encoding", false),
            ("X-Forwarded-For", false),
            ("X-Anything", false),
            ("", false),
        ];
        for (name, passes) in rows {
            assert_eq!(passes_through(name), passes, "{name}");
        }
    }

    #[test]
    fn a_trace_passes_whole_or_not_at_all() {
        const GOOD: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let rows: &[(&[&[u8]], bool)] = &[
            (&[GOOD], true),
            (
                &[b"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"],
                true,
            ),
            (&[], false),
            (&[GOOD, GOOD], false),
            (
                &[b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"],
                false,
            ),
            (
                &[b"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
                false,
            ),
            (
                &[b"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01"],
                false,
            ),
            (
                &[b"00-00000000000000000000000000000000-b7ad6b7169203331-01"],
                false,
            ),
            (
                &[b"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"],
                false,
            ),
            (
                &[b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"],
                false,
            ),
            (
                &[b"00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01"],
                false,
            ),
            (&[b""], false),
        ];
        for (parents, passes) in rows {
            let mut headers: Vec<(&str, &[u8])> =
                vec![("TraceState", b"a=1"), ("tracestate", b"b=2")];
            headers.extend(parents.iter().map(|parent| ("Traceparent", *parent)));
            let request = sent(&event(&headers), Progress::default(), &destination(&[]));
            let shown: Vec<_> = parents
                .iter()
                .map(|parent| parent.escape_ascii().to_string())
                .collect();
            let expected = if *passes { Some(parents[0]) } else { None };
            assert_eq!(request.header("traceparent"), expected, "{shown:?}");
            let states = lines(&request);
            let states = states
                .iter()
                .filter(|line| line.to_lowercase().starts_with("tracestate"));
            assert_eq!(states.count(), if *passes { 2 } else { 0 }, "{shown:?}");
        }
    }

    #[test]
    fn what_connection_names_stays_here() {
        let event = event(&[
            ("Connection", b"keep-alive, X-Hub-Signature"),
            ("x-hub-signature", b"1"),
            ("x-hub-other", b"2"),
        ]);
        let request = sent(&event, Progress::default(), &destination(&[]));
        assert_eq!(request.header("x-hub-signature"), None);
        assert_eq!(request.header("x-hub-other"), Some(&b"2"[..]));
    }

    /// Answers 202, and lets 41 ms pass by each look at the clock.
    #[derive(Default)]
    struct World {
        sent: Mutex<Vec<Outgoing>>,
        looks: Mutex<u32>,
    }

    impl Transport for World {
        fn send(&self, request: &Outgoing) -> Outcome {
            let mut sent = self.sent.lock().expect("no test panics with it locked");
            sent.push(request.clone());
            Outcome::Answered(Answer {
                status: 202,
                retry_after: None,
                head: Vec::new(),
            })
        }
    }

    impl Clock for World {
        fn moment(&self) -> Moment {
            let mut looks = self.looks.lock().expect("no test panics with it locked");
            *looks += 1;
            Moment::at(Duration::from_millis(41) * *looks)
        }

        fn reading(&self) -> Reading {
            Reading::default()
        }
    }

    #[test]
    fn an_attempt_is_measured_and_a_damaged_event_is_not_sent() {
        let world = Arc::new(World::default());
        let worker = Worker {
            gateway: GatewayId(1),
            destination: Arc::new(destination(&[])),
            transport: Arc::clone(&world) as Arc<dyn Transport>,
            clock: Arc::clone(&world) as Arc<dyn Clock>,
        };
        let delivery = DeliveryId {
            destination: DestinationNo(1),
            lane: Lane(1),
            seq: Seq(7),
        };
        let parcel = Parcel {
            event: event(&[]),
            body: b"body".to_vec(),
        };
        let (attempt, name) = worker.attempt(delivery, Progress::default(), Ok(parcel));
        assert_eq!(name, "e-1042");
        assert_eq!(attempt.delivery, delivery);
        assert_eq!(attempt.took, Duration::from_millis(41));
        assert!(matches!(attempt.outcome, Outcome::Answered(answer) if answer.status == 202));
        let damage = "body failed its checksum".to_owned();
        let (attempt, name) = worker.attempt(delivery, Progress::default(), Err(damage.clone()));
        assert_eq!(name, "#7");
        assert_eq!(attempt.outcome, Outcome::Damaged(damage));
        let sent = world.sent.lock().expect("no test panics with it locked");
        assert_eq!(sent.len(), 1);
    }
}
