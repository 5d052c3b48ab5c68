//! What is made of requests, and what their senders hear.

mod auth;
mod samples;

use std::time::Duration;

use super::*;
use crate::commit::{DedupKey, Done};
use crate::event::{Oversize, Seq};
use crate::route::Pattern;
use crate::select::Selector;

fn routes() -> Routes {
    let selectors = |texts: &[&str]| {
        let parse = |text: &&str| Selector::parse(text).expect("a right selector");
        texts.iter().map(parse).collect()
    };
    let pattern = |text| Pattern::parse(text).expect("a right pattern");
    let mut door = Route::new("door", pattern("/ingest/{*}"));
    door.event_id = selectors(&["json:/eventId", "header:x-event-id"]);
    door.device = selectors(&["json:/deviceId"]);
    door.require.event_id = true;
    door.require.device = true;
    door.to = vec!["cloud".to_owned(), "archive".to_owned()];
    let mut test = door.clone();
    test.name = "test".to_owned();
    test.path = pattern("/test");
    test.status = Status::Verdict;
    let any = Route::new("any", pattern("/any"));
    let mut button = Route::new("button", pattern("/button"));
    button.event_id = selectors(&["json:/eventId"]);
    Routes::new(vec![door, test, any, button]).expect("different paths")
}

fn intake() -> Intake {
    let number = |name: &str, number| (name.to_owned(), DestinationNo(number));
    let numbers = [number("cloud", 1), number("archive", 2)];
    Intake::new(routes(), numbers.into_iter().collect(), 3)
}

fn request(method: &str, target: &str, body: &[u8]) -> Request {
    Request {
        peer: "10.0.0.7:5000".parse().expect("an address"),
        method: method.to_owned(),
        target: target.as_bytes().to_vec(),
        headers: Vec::new(),
        body: body.to_vec(),
        oversize: None,
    }
}

fn admit(request: Request) -> (Admission, Promise) {
    let admitted = admitted(&intake(), request, Reading::default());
    admitted.unwrap_or_else(|answer| unreachable!("it is an event, not {answer:?}"))
}

fn admitted(
    intake: &Intake,
    request: Request,
    received: Reading,
) -> Result<(Admission, Promise), Answer> {
    match intake.admit(request, received, Moment::START) {
        Admitted::Event(admission, promise) => Ok((*admission, promise)),
        Admitted::Answer(answer) => Err(answer),
    }
}

fn heard(promise: &Promise, done: Option<&Done>) -> (u16, String) {
    let answer = answer(promise, done);
    let body = String::from_utf8(answer.body).expect("an answer is text");
    (answer.status, body)
}

#[test]
fn a_well_formed_event_is_accepted_for_all_its_destinations() {
    let body = br#"{"deviceId":"cam-7","eventId":"e-1"}"#;
    let (admission, promise) = admit(request("POST", "/ingest/a/b?x=1", body));
    let lane = Lane::of_device("door", "cam-7");
    let to = [1, 2].map(|number| Address {
        destination: DestinationNo(number),
        lane,
    });
    assert_eq!(admission.event.to, to);
    assert_eq!(admission.body, body);
    let key = DedupKey::new("door", "cam-7", "e-1");
    assert_eq!(admission.key, Some(key));
    let stored = heard(&promise, Some(&Done::Stored(Seq(4))));
    let text = r#"{"received":true,"accepted":true,"id":"e-1"}"#;
    assert_eq!(stored, (202, text.to_owned()));
    let duplicate = heard(&promise, Some(&Done::Duplicate(Seq(4))));
    let text = r#"{"received":true,"accepted":true,"id":"e-1","duplicate":true}"#;
    assert_eq!(duplicate, (200, text.to_owned()));
}

#[test]
fn whoever_is_not_told_that_it_is_kept_hears_503() {
    let body = br#"{"deviceId":"cam-7","eventId":"e-1"}"#;
    let malformed = admit(request("POST", "/ingest", b"{")).1;
    let well_formed = admit(request("POST", "/ingest", body)).1;
    for promise in [malformed, well_formed] {
        for done in [None, Some(&Done::Full)] {
            assert_eq!(
                answer(&promise, done),
                Answer::refusal(),
                "{promise:?} {done:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_delivered_is_received_all_the_same() {
    let nope: &[u8] = br#"{"nope":1}"#;
    let rows = [
        (
            "/ingest",
            nope,
            "required event id missing: nothing at json:/eventId",
        ),
        (
            "/ingest",
            br#"{"eventId":"1""#,
            "required event id missing: body is not JSON",
        ),
        (
            "/ingest",
            br#"{"eventId":"1"}"#,
            "required device id missing: nothing at",
        ),
        ("/elsewhere", nope, "no route has this path"),
    ];
    for (path, body, reason) in rows {
        let (admission, promise) = admit(request("POST", path, body));
        assert_eq!(admission.body, body, "{path}");
        assert_eq!(admission.event.to, [], "{path}");
        // Recognised by its bytes, so that a storm of it costs one event.
        assert!(
            admission.key.is_some() && admission.within.is_none(),
            "{path}"
        );
        assert!(admission.event.quarantine.is_some(), "{path}");
        let (status, text) = heard(&promise, Some(&Done::Stored(Seq(4))));
        assert_eq!(status, 200, "{path}");
        let start = format!(r#"{{"received":true,"accepted":false,"reason":"{reason}"#);
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn a_route_for_testers_says_so_by_its_status() {
    let (_, promise) = admit(request("POST", "/test", b"{}"));
    assert_eq!(heard(&promise, Some(&Done::Stored(Seq(4)))).0, 400);
    let mut long = request("POST", "/test", b"{}");
    long.oversize = Some(Oversize {
        length: 99,
        digest: Digest::of(b"all of it"),
    });
    let (admission, promise) = admit(long);
    assert_eq!(heard(&promise, Some(&Done::Stored(Seq(4)))).0, 413);
    assert_eq!((admission.event.length, admission.event.kept), (99, 2));
    assert_eq!(admission.event.digest, Digest::of(b"all of it"));
}

#[test]
fn without_an_id_an_event_is_recognised_by_its_bytes_only_if_its_route_says_so() {
    let window = Duration::from_secs(60);
    let mut line = Route::new("line", Pattern::parse("/line/{device}").expect("a path"));
    line.event_id = vec![Selector::parse("json:/eventId").expect("a selector")];
    line.device = vec![Selector::parse("path:device").expect("a selector")];
    line.same_content = Some(window);
    let routes = Routes::new(vec![line]).expect("one path");
    let intake = Intake::new(routes, BTreeMap::new(), 3);
    let key = |method: &str, target: &str, body: &[u8]| {
        let request = request(method, target, body);
        let admitted = admitted(&intake, request, Reading::default());
        let (admission, _) = admitted.unwrap_or_else(|answer| unreachable!("{answer:?}"));
        (admission.key, admission.within)
    };
    let first = key("POST", "/line/a", b"x");
    assert_eq!(first.1, Some(window));
    assert_eq!(key("POST", "/line/a", b"x"), first);
    let others = [
        key("PUT", "/line/a", b"x"),
        key("POST", "/line/b", b"x"),
        key("POST", "/line/a", b"y"),
        key("POST", "/line/a?x", b"x"),
    ];
    for other in others {
        assert_ne!(other.0, first.0);
    }
    // Nothing to tell two of them apart by: a door that opens twice.
    assert_eq!(key("GET", "/line/a?open", b""), (None, None));
    let known = DedupKey::new("line", "a", "7");
    assert_eq!(
        key("POST", "/line/a", b"{\"eventId\":7}"),
        (Some(known), None)
    );
}

#[test]
fn an_event_without_ids_or_destination_is_held_under_its_number() {
    let (admission, promise) = admit(request("GET", "/any", b""));
    assert_eq!(
        admission.key, None,
        "two events without an id never collide"
    );
    assert_eq!(admission.event.to.len(), 1);
    assert_eq!(admission.event.to[0].destination, HELD);
    let (status, text) = heard(&promise, Some(&Done::Stored(Seq(4))));
    let expected = r##"{"received":true,"accepted":true,"id":"#4"}"##;
    assert_eq!((status, text.as_str()), (202, expected));
}

#[test]
fn a_look_whether_anybody_is_there_is_not_an_event() {
    let rows = [
        ("GET", "/", true),
        ("HEAD", "/ingest", true),
        ("OPTIONS", "*", true),
        ("GET", "/?door=open", false),
        ("GET", "/any", false),
        ("GET", "/elsewhere", false),
        ("POST", "/", false),
    ];
    for (method, target, probe) in rows {
        let admitted = intake().admit(
            request(method, target, b""),
            Reading::default(),
            Moment::START,
        );
        assert_eq!(
            matches!(admitted, Admitted::Answer(_)),
            probe,
            "{method} {target}"
        );
    }
}

#[test]
fn past_its_allowance_a_sender_of_rubbish_is_kept_by_head_and_then_only_counted() {
    let intake = intake();
    let rubbish = || request("POST", "/elsewhere", &[b'x'; 4096]);
    let mut kept = Vec::new();
    let answer = loop {
        match intake.admit(rubbish(), Reading::default(), Moment::START) {
            Admitted::Answer(answer) => break answer,
            Admitted::Event(admission, _) => {
                assert_eq!(admission.event.length, 4096);
                assert_eq!(admission.event.kept, admission.body.len() as u64);
                kept.push(admission.event.kept);
            }
        }
    };
    let whole = kept.iter().take_while(|kept| **kept != 0).count();
    assert!((2_000..3_000).contains(&whole), "{whole}");
    assert!(kept[whole..].iter().all(|kept| *kept == 0));
    let heads = kept.len() - whole;
    assert!((3_000..6_000).contains(&heads), "{heads}");
    assert_eq!(answer.status, 200);
    let good = request("POST", "/any", b"x");
    let admitted = intake.admit(good, Reading::default(), Moment::START);
    assert!(
        matches!(admitted, Admitted::Event(..)),
        "good events are not concerned"
    );
}

#[test]
fn a_sender_without_a_device_id_is_known_by_its_address() {
    let mut keys = Vec::new();
    for peer in ["10.0.0.7:1", "10.0.0.7:2", "10.0.0.8:1"] {
        let mut request = request("POST", "/button", br#"{"eventId":"1"}"#);
        request.peer = peer.parse().expect("an address");
        keys.push(admit(request).0.key);
    }
    assert!(keys[0].is_some());
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2], "two buttons, two events");
}
