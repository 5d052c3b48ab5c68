//! What devices hear, and what the upstream gets of it.

use crate::common::device::{Device, event, post};
use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::{Reply, Upstream};

/// Whether `key` is a quoted string of 16 hexadecimal digits, a dash and `seq`.
fn is_key_of(key: &str, seq: u64) -> bool {
    let inner = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
    let parts = inner.and_then(|inner| inner.split_once('-'));
    parts.is_some_and(|(gateway, number)| {
        let hexadecimal = gateway.bytes().all(|byte| byte.is_ascii_hexdigit());
        gateway.len() == 16 && hexadecimal && number == seq.to_string()
    })
}

#[test]
fn the_upstream_gets_the_same_bytes_and_what_it_needs_to_know() {
    let upstream = Upstream::well();
    let destination = "headers = { X-Site = \"plant-7\" }\ntoken_file = \"token\"";
    let site = Site::new(
        &upstream,
        Plan {
            destination,
            ..Plan::default()
        },
    );
    std::fs::write(site.file("token"), "s3cret\n").expect("there is room");
    let gateway = site.start();
    let body =
        b"{ \"eventId\" :\"e-1\",\t\"deviceId\":\"cam-7\",\r\n\"name\":\"\\u00e9 \xc3\xa9\"} \n";
    let headers = "Content-Type: Application/JSON;charset=UTF-8\r\n\
                   Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
                   X-Camera-Signature: sha256=abc\r\n\
                   Authorization: Basic Z2F0ZTpwb3N0\r\n\
                   Cookie: a=b\r\n\
                   Connection: keep-alive, X-Hop-Signature\r\n\
                   X-Hop-Signature: mine\r\n";
    let mut device = gateway.connect();
    device
        .say(&post("/ingest/door", headers, body))
        .expect("the gateway reads");
    let answer = device.hear().expect("the gateway answers");
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(
        answer.body,
        "{\"received\":true,\"accepted\":true,\"id\":\"e-1\"}"
    );
    let received = &upstream.wait_for(1)[0];
    assert_eq!(received.body, body);
    assert_eq!(received.line, "POST /events HTTP/1.1");
    let key = received.key();
    let seq = site.json(&["show", "e-1"])[0]["seq"].as_u64();
    assert!(seq.is_some_and(|seq| is_key_of(key, seq)), "{key}");
    let rows = [
        ("content-type", Some("Application/JSON;charset=UTF-8")),
        ("x-gatepost-event", Some("e-1")),
        ("x-gatepost-route", Some("door")),
        ("x-gatepost-device", Some("cam-7")),
        ("x-gatepost-attempt", Some("1")),
        ("x-gatepost-replayed", None),
        (
            "traceparent",
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ),
        ("x-camera-signature", Some("sha256=abc")),
        ("x-site", Some("plant-7")),
        ("authorization", Some("Bearer s3cret")),
        ("cookie", None),
        ("x-hop-signature", None),
    ];
    for (name, value) in rows {
        assert_eq!(received.header(name), value, "{name}");
    }
    let at = received.header("x-gatepost-received").unwrap_or_default();
    assert!(at.starts_with("20") && at.ends_with('Z'), "{at}");
}

#[test]
fn a_duplicate_is_answered_200_and_goes_no_further_also_after_a_crash() {
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-1");
    upstream.wait_for(1);
    gateway.log.wait_for("[event e-1] delivered to cloud");
    let said = |device: &mut Device| {
        let answer = device.send(&event("cam-7", "e-1"));
        (answer.status, answer.body)
    };
    let duplicate = "{\"received\":true,\"accepted\":true,\"id\":\"e-1\",\"duplicate\":true}";
    assert_eq!(said(&mut device), (200, duplicate.to_owned()));
    gateway.kill();
    let gateway = site.start();
    let mut device = gateway.connect();
    assert_eq!(said(&mut device), (200, duplicate.to_owned()));
    // The same id with other bytes, or of another device or none of both, is another event.
    let revision = event("cam-7", "e-1").replace("opened", "closed");
    assert_eq!(device.send(&revision).status, 202);
    device.deliver("cam-8", "e-1");
    device.deliver("cam-7", "e-2");
    let received = upstream.wait_for(4);
    site.wait_until_empty();
    let bodies: Vec<&[u8]> = received.iter().map(|one| one.body.as_slice()).collect();
    for body in [event("cam-7", "e-1"), revision, event("cam-8", "e-1")] {
        let times = bodies.iter().filter(|other| **other == body.as_bytes());
        assert_eq!(times.count(), 1, "{body}");
    }
    assert_eq!(upstream.received().len(), 4);
}

#[test]
fn what_is_malformed_is_answered_200_and_kept_to_the_byte() {
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    let bodies: [&[u8]; 4] = [
        b"{\"nope\":1}",
        b"{\"deviceId\":\"cam-7\",\"eventId\":\"e-1\"",
        b"\x00\xff\r\n\r\nnot \xc3( UTF-8\n",
        b"",
    ];
    for body in bodies {
        device
            .say(&post("/ingest/door", "", body))
            .expect("the gateway reads");
        let answer = device.hear().expect("the gateway answers");
        assert_eq!(answer.status, 200, "{answer:?}");
        let begins = "{\"received\":true,\"accepted\":false,\"reason\":\"";
        assert!(answer.body.starts_with(begins), "{answer:?}");
    }
    let kept = site.json(&["quarantine"]);
    assert_eq!(kept.len(), bodies.len(), "{kept:?}");
    let bytes = |number: usize| site.body(&format!("#{}", kept[number]["seq"]));
    for (number, body) in bodies.iter().enumerate() {
        assert_eq!(bytes(number), *body, "{}", kept[number]);
    }
    gateway.stop();
    assert_eq!(bytes(1), bodies[1], "without a daemon");
    assert_eq!(upstream.received().len(), 0);
}

#[test]
fn events_that_came_before_there_was_a_destination_reach_it_after_a_restart() {
    let upstream = Upstream::start(|_| Reply::Status(200));
    let site = Site::bare();
    let gateway = site.start();
    let mut device = gateway.connect();
    let send = |device: &mut Device, id: &str| {
        let body = event("cam-7", id);
        device
            .say(&post("/ingest/any/where", "", body.as_bytes()))
            .expect("the gateway reads");
        device.hear().expect("the gateway answers").status
    };
    for number in 0..50 {
        assert_eq!(send(&mut device, &format!("e-{number:02}")), 202);
    }
    assert_eq!(send(&mut device, "e-00"), 200);
    gateway.kill();
    let url = upstream.url();
    let more = ["--forward-to", url.as_str()];
    let gateway = Gateway::start(&mut site.gateway(&more));
    let said = gateway.log.lines();
    let line = "[store] 50 events that were held have a destination now";
    assert!(said.iter().any(|said| said.contains(line)), "{said:?}");
    let mut device = gateway.connect();
    assert_eq!(send(&mut device, "e-00"), 200);
    assert_eq!(send(&mut device, "e-50"), 202);
    upstream.wait_for(51);
    site.wait_until_empty();
    let names = upstream.names();
    assert_eq!(names.len(), 51);
    assert!(names.is_sorted(), "{names:?}");
}

/// More than may be connected at once, as cameras come that open a connection for each event.
#[test]
fn senders_that_come_one_by_one_are_answered_for_ever() {
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start_quietly();
    for number in 0..1_500 {
        let body = event("cam-7", &format!("e-{number}"));
        let mut device = gateway.connect();
        let request = post("/ingest/door", "Connection: close\r\n", body.as_bytes());
        device.say(&request).expect("the gateway reads");
        let answer = device.hear().expect("the gateway answers");
        assert_eq!(answer.status, 202, "{number}: {answer:?}");
    }
    gateway.stop();
}

#[test]
fn heartbeats_are_answered_and_counted_but_neither_stored_nor_delivered() {
    let upstream = Upstream::well();
    let route = "[[route]]\nprofile = \"zkteco\"\nto = [\"cloud\"]\noptions = { TimeZone = 7 }\n";
    let plan = Plan {
        route,
        ..Plan::default()
    };
    let site = Site::new(&upstream, plan);
    let gateway = site.start();
    let mut device = gateway.connect();
    let mut heard = |request: &[u8]| {
        device.say(request).expect("the gateway reads");
        let answer = device.hear().expect("the gateway answers");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(
            answer.head.contains("Content-Type: text/plain"),
            "{answer:?}"
        );
        answer.body
    };
    let hello = heard(b"GET /iclock/cdata?SN=T1&options=all HTTP/1.1\r\nHost: site\r\n\r\n");
    assert!(hello.starts_with("GET OPTION FROM: T1\n"), "{hello}");
    assert!(hello.contains("\nTimeZone=7\n"), "{hello}");
    for _ in 0..20 {
        let poll = heard(b"GET /iclock/getrequest?SN=T1 HTTP/1.1\r\nHost: site\r\n\r\n");
        assert_eq!(poll, "OK");
    }
    let lines = b"1007\t2026-03-04 09:16:01\t0\n1008\t2026-03-04 09:16:05\t0\n";
    let upload = post("/iclock/cdata?SN=T1&table=ATTLOG&Stamp=1", "", lines);
    assert_eq!(heard(&upload), "OK:2");
    assert_eq!(upstream.wait_for(1)[0].body, lines);
    site.wait_until_empty();
    let status = &site.json(&["status"])[0];
    assert_eq!(status["totals"]["received"], 1, "{status}");
    assert_eq!(status["devices"], 1, "{status}");
    let devices = site.json(&["devices"]);
    let row = |key: &str| devices[0][key].clone();
    let found = (
        row("route"),
        row("device"),
        row("events"),
        row("heartbeats"),
        row("lost"),
    );
    let expected = ("zkteco".into(), "T1".into(), 1.into(), 21.into(), 0.into());
    assert_eq!(found, expected);
}

#[test]
fn an_event_is_shown_with_its_own_time_and_what_is_wrong_with_it() {
    let upstream = Upstream::well();
    let plan = Plan {
        route: "event_time = [\"json:/at\"]\nitems = \"json:/rows\"\n",
        ..Plan::default()
    };
    let site = Site::new(&upstream, plan);
    let gateway = site.start();
    let mut device = gateway.connect();
    let body = "{\"eventId\":\"e-1\",\"deviceId\":\"cam-7\",\
                \"at\":\"1970-01-01 00:00:07\",\"rows\":[1,2,3]}";
    assert_eq!(device.send(body).status, 202);
    let shown = site.succeed(&["show", "e-1"]);
    let shown = String::from_utf8_lossy(&shown);
    // The machine that runs the tests may not know its time.
    let is_certain = !shown.contains("not synchronised");
    let doubt = shown.contains(" days off: sent late, or its clock is wrong");
    assert_eq!(doubt, is_certain, "{shown}");
    assert!(shown.contains("happened  1970-01-01 00:00:07"), "{shown}");
    assert!(shown.contains("items     3"), "{shown}");
}
