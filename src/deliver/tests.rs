//! What a request upstream holds, and one attempt.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use super::*;
use crate::clock::{Moment, Reading, Timestamp};
use crate::delivery::Answer;
use crate::event::{DestinationNo, Digest, Lane};
use crate::profile::Glob;
use crate::proof::Proof;

pub(super) fn event(headers: &[(&str, &[u8])]) -> Event {
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
        event_time: None,
        items: None,
        revision_of: None,
        priority: event::USUAL_PRIORITY,
        quarantine: None,
        to: Vec::new(),
    }
}

fn destination(headers: &[(&str, &str)]) -> Destination {
    Destination {
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Destination::new("cloud".to_owned(), "http://127.0.0.1:1/".to_owned())
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
fn a_cloud_event_has_our_attributes_and_keeps_the_senders_under_another_name() {
    let event = event(&[
        ("content-type", b"application/json"),
        ("Ce-Id", b"theirs"),
        ("webhook-id", b"theirs"),
    ]);
    let to = Destination {
        format: Format::CloudEvents,
        ..destination(&[])
    };
    let request = sent(&event, Progress::default(), &to);
    let all = lines(&request);
    for line in [
        "content-type: application/json",
        "X-Orig-Ce-Id: theirs",
        "webhook-id: theirs",
        "ce-specversion: 1.0",
        "ce-id: 000000000000002a-7",
        "ce-source: 000000000000002a/door/cam-7",
        "ce-type: gatepost.door",
        "ce-time: 1994-11-06T08:49:37.123Z",
    ] {
        assert!(all.iter().any(|other| other == line), "{line}: {all:#?}");
    }
    assert_eq!(request.body, b"body");
    assert_eq!(all.iter().filter(|line| line.starts_with("ce-")).count(), 5);
}

#[test]
fn a_signed_request_has_the_same_id_in_each_attempt_and_none_of_the_senders() {
    let event = event(&[("Webhook-Id", b"theirs"), ("webhook-signature", b"v1,x")]);
    let to = Destination {
        sign: Some(crate::config::Sign {
            file: "/etc/gatepost/cloud.secret".into(),
            wait_for_clock: true,
        }),
        ..destination(&[])
    };
    for (attempts, replayed) in [(0, false), (3, false), (0, true)] {
        let progress = Progress { attempts, replayed };
        let request = sent(&event, progress, &to);
        let expected = Some(&b"000000000000002a-7"[..]);
        assert_eq!(request.header("webhook-id"), expected, "{progress:?}");
        assert_eq!(request.header("webhook-signature"), None);
        assert_eq!(request.header("x-orig-webhook-id"), Some(&b"theirs"[..]));
    }
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
        let mut headers: Vec<(&str, &[u8])> = vec![("TraceState", b"a=1"), ("tracestate", b"b=2")];
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
fn a_2xx_without_the_proof_that_is_asked_for_is_no_answer() {
    let proof = Proof {
        header: Some(("X-Ack".to_owned(), Glob::new("*"))),
        ..Proof::default()
    };
    let asks = Destination {
        proof: Some(proof),
        ..destination(&[])
    };
    let mut knows_better = asks.clone();
    for (key, word) in [("202", "retry"), ("409", "delivered")] {
        knows_better.classify.add(key, word).expect("a constant");
    }
    let answer = |status, ack: bool| {
        let ack = ack.then(|| ("x-ack".to_owned(), b"1".to_vec()));
        Outcome::Answered(Answer {
            status,
            retry_after: None,
            head: b"<html>".to_vec(),
            headers: ack.into_iter().collect(),
        })
    };
    let unproven = Outcome::Unproven("HTTP 200 without the proof in header X-Ack".to_owned());
    let rows = [
        (&asks, answer(200, false), unproven.clone()),
        (&asks, answer(200, true), answer(200, true)),
        // What settles nothing anyway is what it is.
        (&asks, answer(302, false), answer(302, false)),
        (&asks, answer(503, false), answer(503, false)),
        (&asks, Outcome::TimedOut, Outcome::TimedOut),
        (&knows_better, answer(202, false), answer(202, false)),
        (&knows_better, answer(409, false), answer(409, false)),
        (&knows_better, answer(200, false), unproven),
        (&destination(&[]), answer(200, false), answer(200, false)),
    ];
    for (to, outcome, expected) in rows {
        assert_eq!(proven(outcome.clone(), to), expected, "{outcome:?}");
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
            headers: Vec::new(),
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
        schemas: Arc::default(),
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

#[cfg(feature = "json-schema")]
#[test]
fn a_body_that_breaks_its_schema_is_not_sent() {
    let schema = Schema::parse(br#"{"required": ["eventId"]}"#).expect("it is one");
    let world = Arc::new(World::default());
    let worker = Worker {
        gateway: GatewayId(1),
        destination: Arc::new(destination(&[])),
        transport: Arc::clone(&world) as Arc<dyn Transport>,
        clock: Arc::clone(&world) as Arc<dyn Clock>,
        schemas: Arc::new([("door".to_owned(), schema)].into()),
    };
    let delivery = DeliveryId {
        destination: DestinationNo(1),
        lane: Lane(1),
        seq: Seq(7),
    };
    for (body, route, is_sent) in [
        ("{\"eventId\":1}", "door", true),
        ("{}", "door", false),
        ("{}", "gate", true),
    ] {
        let mut event = event(&[]);
        event.route = Some(route.to_owned());
        let body = body.as_bytes().to_vec();
        let parcel = Parcel { event, body };
        let (attempt, _) = worker.attempt(delivery, Progress::default(), Ok(parcel));
        let sent = std::mem::take(&mut *world.sent.lock().expect("not poisoned"));
        assert_eq!(sent.len() == 1, is_sent, "{route}");
        let invalid = matches!(attempt.outcome, Outcome::Invalid(_));
        assert_ne!(invalid, is_sent, "{route}: {}", attempt.outcome);
    }
}
