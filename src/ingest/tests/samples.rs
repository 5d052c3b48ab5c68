//! What real senders send, to routes with their profiles: what is made of it, and what they hear.
//! The rows are the files of `tests/samples`, which say what a right receiver does.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::*;
use crate::clock::Timestamp;
use crate::commit::Done;
use crate::config::Config;
use crate::devices::Seen;
use crate::event::{Header, Seq};

/// A minute after the samples say that they were sent, plus a second.
const RECEIVED: Reading = Reading {
    wall: Timestamp::from_ms(1_772_590_562_000),
    certain: true,
    uptime_ms: 0,
};

/// The profile of each sample, and what its route says besides.
const PROFILES: &[(&str, &str)] = &[
    ("01", "profile = \"hikvision\"\npath = \"/api/hikvision\""),
    ("03", "profile = \"hikvision\"\npath = \"/hik\""),
    ("04", "profile = \"hikvision-acs\"\npath = \"/{*}\""),
    ("06", "profile = \"hikvision\"\npath = \"/hik\""),
    ("08", "profile = \"dahua\""),
    ("09", "profile = \"dahua-itsapi\""),
    ("10", "profile = \"dahua-itsapi\""),
    ("11", "profile = \"uniview\"\noptions = { TimeZone = 7 }"),
    (
        "13",
        "profile = \"zkteco\"\noptions = { TimeZone = 7, Delay = 10 }",
    ),
    ("14", "profile = \"zkteco\""),
    ("15", "profile = \"zkteco\""),
    ("17", "profile = \"zkteco\""),
    ("18", "profile = \"httpv2-face\""),
    ("20", "profile = \"uface\""),
    ("21", "profile = \"viewtron\""),
    ("23", "profile = \"milesight\"\npath = \"/api/events\""),
    ("24", "profile = \"raw\"\npath = \"/events/{*}\""),
    ("25", "profile = \"unifi-protect\""),
    ("26", "profile = \"shelly\""),
    ("27", "profile = \"esphome\"\npath = \"/hook\""),
    ("29", "profile = \"esphome\"\npath = \"/\""),
    ("30", "profile = \"esphome\"\npath = \"/spindel\""),
    (
        "31",
        "profile = \"json\"\npath = \"/sms\"\nevent_time = [\"json:/receivedStamp\"]",
    ),
    (
        "32",
        "profile = \"reolink-onvif\"\npath = \"/api/webhook/{device}\"",
    ),
    ("33", "profile = \"chirpstack\"\npath = \"/lora\""),
    ("35", "profile = \"stripe\"\npath = \"/pay/stripe\""),
    ("36", "profile = \"adyen\"\npath = \"/pay/adyen\""),
    ("37", "profile = \"omise\"\npath = \"/pay/omise\""),
    ("39", "profile = \"gbprimepay\"\npath = \"/pay/gbp\""),
    ("40", "profile = \"github\"\npath = \"/gh\""),
    ("41", "profile = \"shopify\"\npath = \"/shopify\""),
    ("43", "profile = \"paypal\"\npath = \"/pay/paypal\""),
    (
        "45",
        "profile = \"json\"\npath = \"/bom\"\ndevice = [\"json:/value/0/subscriptionId\"]",
    ),
    ("46", "profile = \"hikvision-acs\"\npath = \"/hik/acs\""),
    (
        "48",
        "profile = \"json\"\npath = \"/lf\"\nevent_id = [\"json:/id\"]",
    ),
    ("50", "profile = \"json\"\npath = \"/hook\""),
    (
        "52",
        "profile = \"json\"\npath = \"/hook/java\"\nevent_id = [\"json:/seq\"]",
    ),
];

/// Times that a sample gives with two readings of one event, or in another form than the sender's.
const TIMES: &[(&str, &str)] = &[
    ("08", "1772590561"),
    ("39", "04032026/091601"),
    ("41", "2026-03-04T02:16:01.204000000Z"),
];

fn samples() -> Vec<(String, Value, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("it is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    let read = |path: PathBuf| {
        let text = fs::read(&path).expect("it can be read");
        let says: Value = serde_json::from_slice(&text).expect("it is JSON");
        let id = says["id"].as_str().expect("it has an id").to_owned();
        let sent = fs::read(path.with_extension("http")).expect("there is one beside it");
        (id, says, sent)
    };
    files.into_iter().map(read).collect()
}

/// The first request of a sample, read by hand: what http makes of it has tests of its own.
fn request(sent: &[u8]) -> Request {
    let text: String = sent.iter().copied().map(char::from).collect();
    let end = ["\r\n\r\n", "\n\n"]
        .iter()
        .find_map(|end| Some((text.find(end)?, end.len())));
    let (head_ends, blank) = end.expect("a head ends");
    let mut lines = text[..head_ends].lines();
    let first = lines.next().expect("a first line");
    let (method, rest) = first.split_once(' ').expect("a method");
    let target = rest
        .trim_end()
        .rsplit_once(' ')
        .map_or(rest, |(target, _)| target);
    let headers: Vec<Header> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| Header {
            name: name.to_owned(),
            value: value.trim().as_bytes().to_vec(),
        })
        .collect();
    let length = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(&header.value).ok()?.parse().ok());
    let body = &sent[head_ends + blank..];
    let chunked = || body.windows(2).any(|end| end == b"\r\n") && text.contains("chunked");
    let body = match length {
        Some(length) => body[..body.len().min(length)].to_vec(),
        None if chunked() => unchunked(body),
        None if method == "GET" => Vec::new(),
        None => body.to_vec(),
    };
    Request {
        peer: ([10, 0, 0, 7], 5000).into(),
        method: method.to_owned(),
        target: target.bytes().collect(),
        headers,
        body,
        oversize: None,
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
        let size = String::from_utf8_lossy(&rest[..end]);
        let size = size.split(';').next().unwrap_or_default().to_owned();
        let size = usize::from_str_radix(&size, 16).expect("a size");
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    body
}

fn intake(route: &str) -> Intake {
    let config = Config::parse(&format!("[[route]]\n{route}\n"), Path::new("gatepost.toml"));
    let config = config.unwrap_or_else(|why| unreachable!("{route}: {why}"));
    let routes = Routes::new(config.routes).expect("different paths");
    Intake::new(routes, BTreeMap::new(), 1)
}

#[test]
fn every_sample_has_its_profile() {
    let listed: Vec<&str> = PROFILES.iter().map(|(id, _)| *id).collect();
    let samples = samples();
    // What is no HTTP meets no route.
    let ids = samples.iter().map(|(id, ..)| id.as_str());
    let ids: Vec<&str> = ids.filter(|id| *id != "47").collect();
    assert_eq!(ids, listed);
}

#[test]
fn a_route_with_nothing_but_a_profile_reads_what_its_senders_send() {
    for (id, says, sent) in samples() {
        let Some((_, route)) = PROFILES.iter().find(|(of, _)| *of == id) else {
            continue;
        };
        let admitted = admitted(&intake(route), request(&sent), RECEIVED);
        let is_event = says["is_event"].as_bool().expect("it says so");
        let Some((admission, _)) = admitted.ok() else {
            assert!(!is_event, "{id} is an event");
            continue;
        };
        assert!(is_event, "{id} is none");
        let event = &admission.event;
        let value = |what: &str| says[what]["value"].as_str().map(str::to_owned);
        assert_eq!(event.event_id, value("event_id"), "{id}");
        if value("device_id").is_some() {
            assert_eq!(event.device, value("device_id"), "{id}");
        }
        let time = TIMES.iter().find(|(of, _)| *of == id);
        let time = time
            .map(|(_, time)| (*time).to_owned())
            .or_else(|| value("event_time"));
        assert_eq!(event.event_time, time, "{id}");
        let items = says["events_in_request"]
            .as_u64()
            .filter(|items| *items != 1);
        assert!(
            items.is_none() || event.items == items,
            "{id} {:?}",
            event.items
        );
        assert_eq!(event.quarantine, None, "{id}");
    }
}

#[test]
fn every_sender_hears_what_it_must() {
    for (id, says, sent) in samples() {
        let Some((_, route)) = PROFILES.iter().find(|(of, _)| *of == id) else {
            continue;
        };
        let answers = match admitted(&intake(route), request(&sent), RECEIVED) {
            Err(answer) => vec![answer],
            Ok((_, promise)) => [Done::Stored(Seq(1)), Done::Duplicate(Seq(1))]
                .map(|done| answer(&promise, Some(&done)))
                .to_vec(),
        };
        let wanted = &says["expected_response"];
        for answer in answers {
            assert_eq!(
                Some(u64::from(answer.status)),
                wanted["status"].as_u64(),
                "{id}"
            );
            let body = String::from_utf8_lossy(&answer.body);
            let wanted_body = wanted["body"].as_str().unwrap_or_default();
            assert!(!body.is_empty(), "{id}");
            assert!(
                wanted_body.is_empty() || body == wanted_body,
                "{id}: {body}"
            );
            if let Some(content_type) = wanted["content_type"].as_str() {
                assert_eq!(answer.content_type, content_type, "{id}");
            }
        }
    }
}

#[test]
fn what_is_in_quarantine_is_told_what_its_sender_waits_for() {
    let rows = [
        (
            "profile = \"httpv2-face\"\nrequire = [\"event_id\"]",
            "/Record/x",
            "{\"Success\":1}",
        ),
        (
            "profile = \"uface\"\nrequire = [\"device\"]",
            "/uface",
            "{\"result\":1,\"success\":true}",
        ),
        (
            "profile = \"uface\"\nrequire = [\"device\"]\nrejected = { body = \"NO\" }",
            "/uface",
            "NO",
        ),
        (
            "profile = \"stripe\"\nrequire = [\"event_id\"]",
            "/stripe",
            "{\"received\":true,\"accepted\":false,\"reason\":\"required event id missing: \
             body is not JSON: expected value at line 1 column 1\"}",
        ),
    ];
    for (route, target, expected) in rows {
        let sent = format!("POST {target} HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
        let kept = admitted(&intake(route), request(sent.as_bytes()), RECEIVED);
        let (admission, promise) = kept.expect("it is kept");
        assert!(admission.event.quarantine.is_some(), "{route}");
        let found = heard(&promise, Some(&Done::Stored(Seq(1))));
        assert_eq!(found, (200, expected.to_owned()), "{route}");
        let verdict = format!("{route}\nstatus = \"verdict\"");
        let kept = admitted(&intake(&verdict), request(sent.as_bytes()), RECEIVED);
        let (_, promise) = kept.expect("it is kept");
        assert_eq!(
            heard(&promise, Some(&Done::Stored(Seq(1)))).0,
            400,
            "{route}"
        );
    }
}

#[test]
fn what_is_no_event_is_counted_and_what_is_unknown_is_one() {
    let uses = [
        ("GET /iclock/getrequest.aspx?SN=T1 HTTP/1.1\r\n\r\n", false),
        ("get /iclock//ping?SN=T1 HTTP/1.1\r\n\r\n", false),
        (
            "GET /iclock/cdata?SN=T1&options=all HTTP/1.1\r\n\r\n",
            false,
        ),
        ("GET /iclock/cdata?SN=T1&type=time HTTP/1.1\r\n\r\n", true),
        (
            "POST /iclock/getrequest?SN=T1 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
            true,
        ),
        (
            "POST /iclock/devicecmd?SN=T1 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
            true,
        ),
        (
            "POST /iclock/new?SN=T1 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
            true,
        ),
    ];
    let intake = intake("profile = \"zkteco\"");
    for (sent, is_event) in uses {
        let admitted = admitted(&intake, request(sent.as_bytes()), RECEIVED);
        assert_eq!(admitted.is_ok(), is_event, "{sent}");
    }
    let list = intake.devices().list();
    let [
        (
            route,
            sender,
            Seen {
                events, signals, ..
            },
        ),
    ] = list.as_slice()
    else {
        unreachable!("{list:?}")
    };
    assert_eq!((route.as_str(), sender.as_str()), ("zkteco", "T1"));
    assert_eq!((*events, *signals), (4, 3));
}

#[test]
fn a_poll_is_one_on_whatever_path_the_operator_gives_it() {
    for path in [
        "/{*}",
        "/iclock/{*}",
        "/iclock/{what}",
        "/{a}/{b}",
        "/iclock/ping",
    ] {
        let intake = intake(&format!("profile = \"zkteco\"\npath = \"{path}\""));
        let sent = b"GET /iclock/ping?SN=T1 HTTP/1.1\r\n\r\n";
        assert!(
            admitted(&intake, request(sent), RECEIVED).is_err(),
            "{path}"
        );
    }
}

#[test]
fn a_heartbeat_hears_what_its_sender_waits_for_whatever_is_in_it() {
    let part = "--b\r\nContent-Disposition: form-data; name=\"videoloss.xml\"\r\n\r\n\
                <EventNotificationAlert><eventType>videoloss</eventType>\
                <eventState>inactive</eventState></EventNotificationAlert>\r\n--b--\r\n";
    let uniview = "profile = \"uniview\"\noptions = { TimeZone = 7 }";
    let rows = [
        ("profile = \"hikvision\"", "/hikvision", part, "OK"),
        (
            "profile = \"httpv2-face\"",
            "/Device/Keepalive",
            "{\"SN\":\"a\",}",
            "{\"Success\":1}",
        ),
        (
            "profile = \"controlid\"",
            "/api/notifications/device_is_alive",
            "{}",
            "{}",
        ),
        (
            uniview,
            "/LAPI/V1.0/PACS/Controller/HeartReportInfo",
            "{\"DeviceCode\":\"d\"}",
            "{\"ResponseURL\":\"/LAPI/V1.0/PACS/Controller/HeartReportInfo\",\"Code\":0,\
             \"Data\":{\"Time\":\"2026-03-04 09:16:02\"}}",
        ),
    ];
    for (route, target, body, expected) in rows {
        let length = body.len();
        let sent = format!(
            "POST {target} HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=b\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        let admitted = admitted(&intake(route), request(sent.as_bytes()), RECEIVED);
        let answer = admitted.expect_err(route);
        let found = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!((answer.status, found.as_str()), (200, expected), "{route}");
    }
}

#[test]
fn the_button_of_a_service_is_no_event_and_its_events_are() {
    let rows = [
        ("line", "{\"destination\":\"U1\",\"events\":[]}", false),
        (
            "line",
            "{\"destination\":\"U1\",\"events\":[{\"webhookEventId\":\"e\"}]}",
            true,
        ),
        ("line", "{\"destination\":\"U1\"}", true),
        (
            "viewtron",
            "<DeviceInfo><macAddress>a</macAddress></DeviceInfo>",
            false,
        ),
        (
            "viewtron",
            "<config><messageType>keepalive</messageType></config>",
            false,
        ),
        (
            "viewtron",
            "<config><messageType>alarmStatus</messageType></config>",
            true,
        ),
        ("hikvision", "", true),
    ];
    for (profile, body, is_event) in rows {
        let route = format!("profile = \"{profile}\"\npath = \"/x\"");
        let length = body.len();
        let sent = format!("POST /x HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        let admitted = admitted(&intake(&route), request(sent.as_bytes()), RECEIVED);
        assert_eq!(admitted.is_ok(), is_event, "{profile} {body}");
    }
}
