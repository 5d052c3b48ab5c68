//! Quirks of what is inside a request, and senders of which there is no sample: what is read from
//! them, and that not a byte of them is changed.
//!
//! The numbers are those of `devices.md` section 4.

use gatepost::event::Event;

use crate::plant::Plant;

/// The number of a quirk, where it is posted to, its body; and what is found in it: the event id,
/// the device, the time, how many events it holds.
type Row<'a> = (&'a str, &'a str, &'a [u8], [&'a str; 3], Option<u64>);

/// A request with a media type that goes by the first byte of its body, as hand-written ones have.
fn post(target: &str, body: &[u8]) -> Vec<u8> {
    let media = match body.first() {
        Some(b'-' | b'\r' | b'\n') => "multipart/form-data; boundary=b",
        Some(b'<') => "application/xml",
        Some(b'{') => "application/json",
        _ => "application/x-www-form-urlencoded",
    };
    let length = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: {media}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Sends each row on one connection, and asserts what is stored of it.
fn assert_rows(rows: &[Row<'_>]) -> Vec<Event> {
    let plant = Plant::start();
    let mut sender = plant.connect();
    for (quirk, target, body, ..) in rows {
        sender.say(post(target, body));
        let status = sender.hear(quirk).status;
        assert!((200..300).contains(&status), "{quirk}: {status}");
    }
    let stored = plant.end();
    assert_eq!(stored.len(), rows.len());
    for ((quirk, _, body, found, items), stored) in rows.iter().zip(&stored) {
        let shown = String::from_utf8_lossy(body);
        let event = &stored.event;
        let ids = [&event.event_id, &event.device, &event.event_time];
        let ids = ids.map(|id| id.as_deref().unwrap_or_default());
        assert_eq!((ids, event.items), (*found, *items), "{quirk}: {shown}");
        assert_eq!(event.quarantine, None, "{quirk}: {shown}");
        assert_eq!(stored.body, *body, "{quirk}: {shown}");
    }
    stored.into_iter().map(|stored| stored.event).collect()
}

#[test]
fn bodies_that_break_receivers_are_read() {
    let alert = "<EventNotificationAlert><macAddress>m1</macAddress><dateTime>t1</dateTime>\
                 </EventNotificationAlert>";
    let part = "Content-Disposition: form-data; name=\"MoveDetection.xml\"\r\n\r\n";
    let doubled = format!("--b\r\n--b\r\n{part}{alert}\r\n--b--\r\n");
    let turned = format!("--b\r\n{part}{alert}\r\n--b\r\n\r\n\u{0}\u{1}\r\n--b\n\r");
    let long = format!("--b\r\nContent-Length: 99999\r\n{part}{alert}\r\n--b--\r\n");
    let feeds = format!("--b\n{}{alert}\n--b--", part.replace('\r', ""));
    let alarm = ["", "m1", "t1"];
    let bom = b"\xef\xbb\xbf{\"eventId\":\"e1\",\"deviceId\":\"d1\"}";
    let nul = b"{\"eventId\":\"e2\",\"deviceId\":\"d1\",\"text\":\"a\\u0000b\"}\0";
    let blank = b" \r\n{\"eventId\":\"e3\",\"deviceId\":\"d1\"}";
    let latin = b"{\"eventId\":\"e4\",\"deviceId\":\"d1\",\"name\":\"J\xf6rg\"}";
    let photo = b"PIN=1.jpg\nSN=T1\nsize=4\nCMD=uploadphoto\0\xff\xd8\n\xff\xd9";
    let rows: &[Row<'_>] = &[
        ("13", "/hik", doubled.as_bytes(), alarm, None),
        ("13", "/hik", turned.as_bytes(), alarm, None),
        ("13", "/hik", long.as_bytes(), alarm, None),
        ("13", "/hik", feeds.as_bytes(), alarm, None),
        ("15", "/json/a", bom, ["e1", "d1", ""], None),
        ("16", "/json/a", nul, ["e2", "d1", ""], None),
        ("36 of section 7", "/json/a", blank, ["e3", "d1", ""], None),
        ("14", "/json/a", latin, ["e4", "d1", ""], None),
        (
            "14",
            "/uface",
            b"deviceKey=%D5%C5&time=1",
            ["", "hex:d5c5", "1"],
            None,
        ),
        (
            "16",
            "/iclock/cdata?SN=T1&table=ATTPHOTO",
            photo,
            ["", "T1", ""],
            None,
        ),
        ("17", "/iclock/cdata?SN=T1", b"", ["", "T1", ""], Some(0)),
    ];
    assert_rows(rows);
}

#[test]
fn clocks_that_are_wrong_and_of_any_form_are_kept_as_they_are() {
    let times = [
        "1970-01-01T00:00:03Z",
        "0",
        "04-03-2026 09:16:01",
        "1772590561",
        "1772590561604",
        "1772590561604000",
        "17725905616040000000",
    ];
    for target in ["/API", "/json/a"] {
        let bodies = times.map(|time| match target {
            "/API" => format!("<config><currentTime>{time}</currentTime></config>"),
            _ => format!("{{\"time\":\"{time}\"}}"),
        });
        let rows = bodies.iter().zip(times);
        let rows = rows.map(|(body, time)| ("32", target, body.as_bytes(), ["", "", time], None));
        assert_rows(&rows.collect::<Vec<Row<'_>>>());
    }
}

/// A counter that two devices share, one that begins again, and a row that is changed.
#[test]
fn ids_that_come_again_lose_no_event() {
    let seq = |device: &str, seq: u32, time: u32| {
        format!("{{\"DeviceCode\":\"{device}\",\"Seq\":{seq},\"Timestamp\":{time}}}")
    };
    let (one, other, again) = (seq("A", 318, 1), seq("B", 318, 1), seq("A", 318, 9));
    let alarm = |name: &str| {
        format!(
            "{{\"alarm\":{{\"name\":\"{name}\",\"triggers\":[{{\
                                      \"eventId\":\"u1\",\"device\":\"c\",\"timestamp\":5}}]}}}}"
        )
    };
    let (seen, seen_again) = (alarm("yard"), alarm("gate"));
    let change = |kind: &str| {
        format!(
            "{{\"device_id\":7,\"object_changes\":[{{\"object\":\
                                       \"access_logs\",\"type\":\"{kind}\",\"values\":{{\"id\":\
                                       \"1\",\"time\":\"5\"}}}}]}}"
        )
    };
    let (insert, delete) = (change("inserted"), change("deleted"));
    let lapi = "/LAPI/V1.0/System/Event/Notification/PersonVerification";
    let monitor = "/api/notifications/dao";
    let rows: &[Row<'_>] = &[
        ("28", lapi, one.as_bytes(), ["318", "A", "1"], None),
        ("28", lapi, other.as_bytes(), ["318", "B", "1"], None),
        ("28", lapi, again.as_bytes(), ["318", "A", "9"], None),
        ("29", "/unifi", seen.as_bytes(), ["u1", "c", "5"], Some(1)),
        (
            "29",
            "/unifi",
            seen_again.as_bytes(),
            ["u1", "c", "5"],
            Some(1),
        ),
        (
            "29",
            monitor,
            insert.as_bytes(),
            ["access_logs/inserted/1", "7", "5"],
            Some(1),
        ),
        (
            "29",
            monitor,
            delete.as_bytes(),
            ["access_logs/deleted/1", "7", "5"],
            Some(1),
        ),
    ];
    let events = assert_rows(rows);
    let revised: Vec<Option<u64>> = events
        .iter()
        .map(|event| event.revision_of.map(|seq| seq.0))
        .collect();
    let expected = [None, None, Some(0), None, Some(3), None, None];
    assert_eq!(revised, expected);
}

#[test]
fn senders_without_a_sample_are_read_by_their_profiles() {
    let line = b"{\"destination\":\"U1\",\"events\":[{\"webhookEventId\":\"w1\",\"timestamp\":1},\
                 {\"webhookEventId\":\"w2\",\"timestamp\":2}]}";
    let uplink = b"{\"end_device_ids\":{\"dev_eui\":\"70B3\"},\"uplink_message\":{\"f_cnt\":7,\
                   \"session_key_id\":\"AX==\",\"received_at\":\"t\"}}";
    let old_omise =
        b"{\"object\":\"event\",\"id\":\"evnt_1\",\"created\":\"2015-02-02T10:11:45Z\"}";
    let picture = b"<EventNotificationAlert><macAddress>m</macAddress><dateTime>t</dateTime>\
                    <bkgUrl>http://10.0.0.7/picture/1</bkgUrl></EventNotificationAlert>";
    let system = b"{\"SN\":\"FC1\",\"Records\":[{\"RecordID\":1},{\"RecordID\":2}]}";
    let rows: &[Row<'_>] = &[
        ("30", "/line", line, ["w1", "U1", "1"], Some(2)),
        (
            "30",
            "/Record/UploadSystemRecord",
            system,
            ["", "FC1", ""],
            None,
        ),
        ("28", "/tts/up", uplink, ["AX==/7", "70B3", "t"], None),
        (
            "",
            "/pay/omise",
            old_omise,
            ["evnt_1", "", "2015-02-02T10:11:45Z"],
            None,
        ),
        ("35", "/hik", picture, ["", "m", "t"], None),
        (
            "36 of section 7",
            "/tasmota/pow",
            b"{\"power\":1}",
            ["", "pow", ""],
            None,
        ),
        ("", "/2c2p", b"{\"payload\":\"a.b.c\"}", ["", "", ""], None),
        (
            "",
            "/axis/gate",
            b"time=5&device=axis-1",
            ["", "axis-1", "5"],
            None,
        ),
        (
            "",
            "/pay/adyen",
            b"pspReference=p&eventCode=REFUND&success=true&merchantAccountCode=m",
            ["p/REFUND/true", "m", ""],
            None,
        ),
    ];
    assert_rows(rows);
}

#[test]
fn large_bodies_are_taken_whole_and_what_is_too_large_is_not_taken_for_whole() {
    const MIB: usize = 1024 * 1024;
    let plant = Plant::start();
    let mut sender = plant.connect();
    let pattern: Vec<u8> = (0..251).collect();
    let picture = |length: usize| pattern.repeat(length / 251 + 1)[..length].to_vec();
    // The largest found in devices.md, the most that is kept, and one byte more.
    let sizes = [1_700_000, 16 * MIB, 16 * MIB + 1];
    for size in sizes {
        sender.say(post("/pay/stripe", &picture(size)));
        let heard = sender.hear("a picture");
        let wanted = if size == 16 * MIB + 1 {
            "{\"received\":true,\"accepted\":false,\"reason\":\"body longer than max_body\"}"
                .to_owned()
        } else {
            let number = sizes.iter().position(|other| *other == size);
            let number = number.expect("it is one of them");
            format!("{{\"received\":true,\"accepted\":true,\"id\":\"#{number}\"}}")
        };
        assert_eq!(heard.body, wanted, "{size}");
    }
    let stored = plant.end();
    for (stored, size) in stored.iter().zip(sizes) {
        let kept = if size == 16 * MIB + 1 { 4096 } else { size };
        assert!(stored.body == picture(size)[..kept], "{size}");
        assert_eq!(stored.event.length, size as u64, "{size}");
        let digest = gatepost::event::Digest::of(&picture(size));
        assert_eq!(stored.event.digest, digest, "{size}");
    }
    assert_eq!(stored.len(), sizes.len());
}

/// All that a terminal could not send for a day, at once.
#[test]
fn a_backlog_that_comes_in_one_burst_is_kept_in_its_order() {
    const EVENTS: usize = 300;
    let plant = Plant::start();
    let mut sender = plant.connect();
    let body = |number| format!("{{\"eventId\":\"e{number}\",\"deviceId\":\"d\"}}");
    let all = (0..EVENTS).flat_map(|number| post("/json/a", body(number).as_bytes()));
    sender.say(all.collect::<Vec<u8>>());
    for _ in 0..EVENTS {
        assert_eq!(sender.hear("one of many").status, 200);
    }
    let received = plant.upstream.wait_for(EVENTS);
    let names: Vec<String> = received.iter().map(|one| one.name().to_owned()).collect();
    let expected: Vec<String> = (0..EVENTS).map(|number| format!("e{number}")).collect();
    assert_eq!(names, expected);
    assert_eq!(plant.end().len(), EVENTS);
}
