//! What becomes of those who may not send, and what they hear.

use std::fs;

use super::*;
use crate::clock::Timestamp;
use crate::config::Config;
use crate::event::Header;

/// When the samples say that they were sent.
const SENT: Reading = Reading {
    wall: Timestamp::from_ms(1_772_590_561_000),
    certain: true,
    uptime_ms: 0,
};

fn site(routes: &str) -> Intake {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("gatepost.toml");
    for (name, secret) in [
        ("t", "old-1\nt0ken-2\n"),
        ("u", "u:pa55\n"),
        ("s", "test-secret\n"),
    ] {
        fs::write(folder.path().join(name), secret).expect("written");
    }
    fs::write(&config, routes).expect("written");
    let config = Config::load(&config).unwrap_or_else(|why| unreachable!("{why}"));
    let routes = Routes::new(config.routes).expect("different paths");
    Intake::new(routes, BTreeMap::new(), 1)
}

fn ask(target: &str, headers: &[(&str, &str)], body: &[u8]) -> Request {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: value.as_bytes().to_vec(),
    };
    let method = if body.is_empty() { "GET" } else { "POST" };
    Request {
        headers: headers.iter().map(header).collect(),
        ..request(method, target, body)
    }
}

const ROUTES: &str = r#"
[[route]]
name = "near"
path = "/near"
allow = ["10.0.1.0/24", "fe80::/10"]
event_id = ["json:/id"]
[[route]]
name = "query"
path = "/query"
token = { query = "key", file = "t" }
event_id = ["json:/id"]
[[route]]
name = "path"
path = "/hook/{key}/{device}"
token = { path = "key", file = "t" }
event_id = ["json:/id"]
[[route]]
name = "header"
path = "/header"
token = { header = "X-Github-Key", file = "t" }
event_id = ["json:/id"]
status = "verdict"
[[route]]
name = "basic"
path = "/basic"
basic = { file = "u" }
event_id = ["json:/id"]
status = "verdict"
[[route]]
profile = "github"
signature = { file = "s" }
status = "verdict"
"#;

const ID: &[u8] = br#"{"id":"e-1"}"#;

/// Of `test-secret`, over [`ID`].
const SIGNATURE: &str = "sha256=c49651be4c777cf736e6e987041c96fa30fe219afa7663f73c3300700a085fc9";

/// Target and headers of friends.
const FRIENDS: [(&str, &str, &str); 5] = [
    ("/query?key=t0ken-2&x=1", "X-Other", "1"),
    ("/hook/t0ken-2/cam-7", "X-Other", "1"),
    ("/header", "X-GitHub-Key", "old-1"),
    ("/basic", "Authorization", "Basic dTpwYTU1"),
    ("/github", "X-Hub-Signature-256", SIGNATURE),
];

/// Target and header of strangers, and what they hear.
const STRANGERS: [(&str, &str, &str, u16, &str); 10] = [
    ("/near", "X", "", 200, "address 10.0.0.7 not allowed"),
    (
        "/query?x=1",
        "key",
        "t0ken-2",
        200,
        "token missing: no key in the query",
    ),
    ("/query?key=t0ken-3", "X", "", 200, "token wrong"),
    ("/hook/t0ken-3/cam-7", "X", "", 200, "token wrong"),
    (
        "/header",
        "X",
        "",
        403,
        "token missing: no header X-Github-Key",
    ),
    ("/header", "X-Github-Key", "t0ken-3", 403, "token wrong"),
    (
        "/basic",
        "X",
        "",
        401,
        "password missing: no Basic in header Authorization",
    ),
    (
        "/basic",
        "Authorization",
        "Basic dTpwYTU2",
        401,
        "password or user wrong",
    ),
    (
        "/github",
        "X",
        "",
        403,
        "signature missing: no header X-Hub-Signature-256",
    ),
    (
        "/github",
        "X-Hub-Signature-256",
        "sha256=00",
        403,
        "signature wrong",
    ),
];

#[test]
fn a_strangers_event_is_quarantined_whatever_its_id_and_is_nobodys() {
    let intake = site(ROUTES);
    let mut of_friends = Vec::new();
    for (target, name, value) in FRIENDS {
        let friend = ask(target, &[(name, value), ("X-GitHub-Delivery", "e-1")], ID);
        let (admission, _) = admitted(&intake, friend, SENT).expect(target);
        assert_eq!(admission.event.quarantine, None, "{target}");
        assert!(admission.key.is_some(), "{target}");
        of_friends.push(admission.key);
    }
    let known = intake.devices().list();
    assert_eq!(known.len(), FRIENDS.len());
    for (target, name, value, status, reason) in STRANGERS {
        let stranger = ask(target, &[(name, value), ("X-GitHub-Delivery", "e-1")], ID);
        let (admission, promise) = admitted(&intake, stranger, SENT).expect(target);
        let why = admission.event.quarantine.as_ref().map(ToString::to_string);
        assert_eq!(why.as_deref(), Some(reason), "{target}");
        assert_eq!(admission.event.to, [], "{target}");
        assert!(!of_friends.contains(&admission.key), "{target}");
        assert_eq!(admission.body, ID, "{target}: kept whole");
        let answer = answer(&promise, Some(&Done::Stored(Seq(4))));
        let body = String::from_utf8_lossy(&answer.body);
        let expected = format!(r#"{{"received":true,"accepted":false,"reason":"{reason}"}}"#);
        assert_eq!((answer.status, &*body), (status, &*expected), "{target}");
        assert_eq!(answer.asks_password, status == 401, "{target}");
    }
    assert_eq!(intake.devices().list(), known, "strangers are no devices");
}

#[test]
fn an_address_counts_without_its_port_and_mapped_as_what_it_is() {
    let intake = site(ROUTES);
    let rows = [
        ("10.0.1.9:4000", true),
        ("[::ffff:10.0.1.9]:4000", true),
        ("[fe80::9]:4000", true),
        ("10.0.2.9:4000", false),
        ("[::ffff:10.0.2.9]:4000", false),
        ("[::1]:4000", false),
    ];
    for (peer, expected) in rows {
        let peer = peer.parse().expect("an address");
        let request = Request {
            peer,
            ..ask("/near", &[], ID)
        };
        let (admission, _) = admitted(&intake, request, SENT).expect("an event");
        assert_eq!(admission.event.quarantine.is_none(), expected, "{peer}");
    }
}

#[test]
fn what_is_kept_of_a_request_holds_no_token_and_no_password() {
    let intake = site(ROUTES);
    let rows = [
        ("/query?key=t0ken-2&x=1", "X", "", "/query?key=***&x=1"),
        ("/query?key=t0ken-3&x=1", "X", "", "/query?key=***&x=1"),
        (
            "http://b//hook/t0ken-2/cam-7?y",
            "X",
            "",
            "http://b//hook/***/cam-7?y",
        ),
        ("/hook//%740ken-3/cam-7", "X", "", "/hook//***/cam-7"),
        ("/header", "x-github-key", "old-1", "/header"),
        ("/basic", "authorization", "Basic dTpwYTU1", "/basic"),
        // Nobody's path: the token of any route may be in it.
        (
            "/qery?key=t0ken-2",
            "X-Github-Key",
            "old-1",
            "/qery?key=***",
        ),
        ("/", "Authorization", "Basic dTpwYTU1", "/"),
    ];
    for (target, name, value, expected) in rows {
        let (admission, _) = admitted(&intake, ask(target, &[(name, value)], ID), SENT)
            .unwrap_or_else(|answer| unreachable!("{target}: {answer:?}"));
        let kept = String::from_utf8_lossy(&admission.event.target).into_owned();
        assert_eq!(kept, expected);
        let kept = format!("{:?}", serde_json::to_string(&admission.event));
        for secret in ["t0ken", "%740ken", "old-1", "dTpwYTU1"] {
            assert!(!kept.contains(secret), "{target}: {kept}");
        }
    }
}

#[test]
fn a_strangers_heartbeat_is_not_answered_as_a_friends_is() {
    let routes = "[[route]]\nprofile = \"zkteco\"\noptions = { TimeZone = 7 }\n\
                  token = { query = \"key\", file = \"t\" }\n";
    let said = |more: &str, target: &str| {
        let intake = site(&format!("{routes}{more}"));
        match intake.admit(ask(target, &[], b""), SENT, Moment::START) {
            Admitted::Answer(answer) => {
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                (answer.status, body, intake.devices().list().len())
            }
            Admitted::Event(..) => unreachable!("{target}"),
        }
    };
    let handshake = "/iclock/cdata?SN=T1&options=all";
    let (status, body, devices) = said("", &format!("{handshake}&key=t0ken-2"));
    assert!(body.contains("TimeZone=7"), "{body}");
    assert_eq!((status, devices), (200, 1));
    for target in [handshake, "/iclock/getrequest?SN=T1&key=t0ken-3"] {
        let (status, body, devices) = said("", target);
        assert!(
            body.contains("\"accepted\":false,\"reason\":\"token "),
            "{body}"
        );
        assert_eq!((status, devices), (200, 0));
        let (status, body, devices) = said("status = \"verdict\"\n", target);
        assert!(!body.contains("TimeZone") && !body.contains("OK"), "{body}");
        assert_eq!((status, devices), (403, 0));
    }
}

#[test]
fn a_poll_without_its_signature_is_answered_in_fixed_words_and_counts_as_nobody() {
    let line = "[[route]]\nprofile = \"line\"\nsignature = { file = \"s\" }\n";
    let verify = br#"{"destination":"U0","events":[]}"#;
    let right = "AQQTPDN0VEjXZIlgGdat3T+SL3wHGAG+cHc684p/XqU=";
    for (signature, devices) in [("", 0), ("AAAA", 0), (right, 1)] {
        let intake = site(line);
        let request = ask("/line", &[("X-Line-Signature", signature)], verify);
        let Admitted::Answer(answer) = intake.admit(request, SENT, Moment::START) else {
            unreachable!("it is a poll")
        };
        assert_eq!((answer.status, &answer.body[..]), (200, &b"OK"[..]));
        assert_eq!(intake.devices().list().len(), devices, "{signature}");
    }
    let computed = "[[route]]\nprofile = \"zkteco\"\noptions = { TimeZone = 7 }\n\
                    signature = { scheme = \"github\", file = \"s\" }\n";
    let request = ask("/iclock/cdata?SN=T1&options=all", &[], b"");
    let Admitted::Answer(answer) = site(computed).admit(request, SENT, Moment::START) else {
        unreachable!("it is a handshake")
    };
    assert_eq!(answer, Answer::ok());
}

#[test]
fn what_is_too_long_to_be_judged_is_quarantined_for_that_and_is_nobodys() {
    let intake = site(ROUTES);
    let mut long = ask("/github", &[("X-Hub-Signature-256", SIGNATURE)], ID);
    long.oversize = Some(Oversize {
        length: 99,
        digest: Digest::of(b"all of it"),
    });
    let (admission, promise) = admitted(&intake, long.clone(), SENT).expect("an event");
    assert_eq!(admission.event.quarantine, Some(Quarantine::TooLong));
    assert_eq!(
        (intake.devices().list().len(), promise.only_once),
        (0, None)
    );
    long.target = b"/query".to_vec();
    let (admission, _) = admitted(&intake, long, SENT).expect("an event");
    let why = admission.event.quarantine.map(|why| why.to_string());
    assert_eq!(why.as_deref(), Some("token missing: no key in the query"));
}

#[test]
fn all_strangers_together_fill_no_more_than_a_share_of_the_store() {
    let held = Quarantined::default();
    let intake = site(ROUTES).with_quarantine(held.clone(), 8 << 20);
    let kept = |number: u32, bytes| {
        held.set(bytes);
        let request = Request {
            peer: (number.to_be_bytes(), 1).into(),
            ..ask("/query", &[], &[b'x'; 2000])
        };
        match intake.admit(request, SENT, Moment::START) {
            Admitted::Event(admission, _) => Some(admission.event.kept),
            Admitted::Answer(answer) => {
                assert_eq!(answer.status, 200);
                None
            }
        }
    };
    for (number, bytes, expected) in [
        (1, 0, Some(2000)),
        (2, (1 << 20) - 4_000, Some(2000)),
        (3, 1 << 20, Some(0)),
        (4, 5 << 18, None),
        (5, 0, Some(2000)),
    ] {
        assert_eq!(kept(number, bytes), expected, "{bytes} bytes are held");
    }
}
