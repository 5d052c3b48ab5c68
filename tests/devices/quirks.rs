//! Every quirk of `devices.md` sections 4 and 5a on the wire of the real process: what is kept of
//! it, to the byte, and what is said.
//!
//! The numbers are those of section 4; `5a` is its table of malformed heads, `B` the list of
//! `stack.md`.

use Then::{Answered, Closed, ClosedAtEnd, Kept, KeptAtEnd, Refused};

use crate::plant::Plant;

/// What becomes of what a sender sends on one connection.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Requests with these bodies are acknowledged and stored.
    Kept(&'static [&'static str]),
    /// The same, once the sender has closed its side.
    KeptAtEnd(&'static [&'static str]),
    /// So many requests are answered 200, and nothing is stored.
    Answered(usize),
    /// 503, and the connection ends: send it again.
    Refused,
    /// The connection ends without a word, though the sender stays.
    Closed,
    /// The connection ends without a word when the sender closes its side.
    ClosedAtEnd,
}

/// The number of a quirk, what is sent, and what becomes of it.
type Row = (&'static str, Vec<u8>, Then);

const HI: Then = Kept(&["hi"]);
const NONE: Then = Kept(&[""]);

/// A request with these header lines and what follows them.
fn framed(fields: &str, body: &str) -> Vec<u8> {
    format!("POST /raw/a HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}").into_bytes()
}

/// A request with a body of two bytes, and these header lines before its length.
fn with(fields: &str) -> Vec<u8> {
    framed(&format!("{fields}Content-Length: 2\r\n"), "hi")
}

/// Two usual requests with something between them.
fn between(bytes: &str) -> Vec<u8> {
    [with(""), bytes.as_bytes().to_vec(), with("")].concat()
}

/// Sends each row and asserts what it hears; then what is stored, in that order: for each request
/// its method, its target and its body.
fn assert_rows(rows: &[Row]) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let plant = Plant::start();
    let mut wanted = Vec::new();
    for (quirk, sent, then) in rows {
        let what = format!("{quirk}: {:.200}", String::from_utf8_lossy(sent));
        let mut sender = plant.connect();
        sender.say(sent);
        if matches!(then, KeptAtEnd(_) | ClosedAtEnd) {
            sender.end();
        }
        match then {
            Kept(bodies) | KeptAtEnd(bodies) => {
                for body in *bodies {
                    assert_eq!(sender.hear(&what).body, "OK", "{what}");
                    wanted.push((what.clone(), *body));
                }
            }
            Answered(count) => (0..*count).for_each(|_| {
                assert_eq!(sender.hear(&what).status, 200, "{what}");
            }),
            Refused => {
                assert_eq!(sender.hear(&what).status, 503, "{what}");
                sender.is_closed(&what);
            }
            Closed | ClosedAtEnd => sender.is_closed(&what),
        }
    }
    let stored = plant.end();
    for (found, (what, body)) in stored.iter().zip(&wanted) {
        assert_eq!(String::from_utf8_lossy(&found.body), *body, "{what}");
    }
    assert_eq!(stored.len(), wanted.len());
    let stored = stored.into_iter();
    stored
        .map(|one| (one.event.method, one.event.target, one.body))
        .collect()
}

#[test]
fn a_body_is_as_long_as_its_sender_means_or_not_acknowledged() {
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    let length = |value: &str| framed(&format!("Content-Length: {value}\r\n"), "hi");
    let lengths = |one, other| length(&format!("{one}\r\nContent-Length: {other}"));
    let trailer = "1;ext=\"a\"\r\nh\r\n1\r\ni\r\n0\r\nX-Trailer: 1\r\n\r\n";
    let old = |fields: &str| format!("POST /raw/a HTTP/1.0\r\n{fields}\r\nhi").into_bytes();
    let rows: &[Row] = &[
        ("1", length("5"), ClosedAtEnd),
        ("1", framed(CHUNKED, "5\r\nhi"), ClosedAtEnd),
        ("2", length("1000000000000"), ClosedAtEnd),
        ("2", length("18446744073709551616"), Refused),
        (
            "3",
            framed("Connection: close\r\n", "hi"),
            KeptAtEnd(&["hi"]),
        ),
        ("3", framed("", "{\"a\": 1}"), KeptAtEnd(&["{\"a\": 1}"])),
        ("4", length("abc"), Refused),
        ("4", length("2, 2"), HI),
        ("4", length("2, 5"), Refused),
        ("5", framed(CHUNKED, "2\r\nhi\r\n0\r\n\r\n"), HI),
        ("5", framed(CHUNKED, trailer), HI),
        ("5", framed(CHUNKED, "2\r\nhi\r\n"), ClosedAtEnd),
        ("5", framed(CHUNKED, "2\r\nhi\r\n0"), ClosedAtEnd),
        ("5a", lengths(2, 5), Refused),
        ("5a", lengths(5, 2), Refused),
        ("5a", length("2\r\n 2"), Refused),
        ("5a", length("2\r\nTransfer-Encoding: chunked"), Refused),
        ("5a", length("2\r\nTransfer-Encoding: identity"), HI),
        ("B 14", length("+2"), Refused),
        ("6", between("\r\n"), Kept(&["hi", "hi"])),
        ("6", between("\n\r\n\n"), Kept(&["hi", "hi"])),
        ("17", framed("Content-Length: 0\r\n", ""), NONE),
        ("17", framed("Connection: close\r\n", ""), KeptAtEnd(&[""])),
        ("17", framed("", ""), KeptAtEnd(&[""])),
        (
            "24",
            [between(""), with("")].concat(),
            Kept(&["hi", "hi", "hi"]),
        ),
        ("24", [framed("", ""), with("")].concat(), Kept(&["", "hi"])),
        ("26", old(""), KeptAtEnd(&["hi"])),
        ("26", old("Content-Length: 2\r\n"), HI),
    ];
    assert_rows(rows);
}

#[test]
fn a_head_is_read_whatever_its_form() {
    let upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
                   HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA\r\n";
    let chunked = upgrade.to_owned() + "Transfer-Encoding: chunked\r\n";
    let line_feeds = with("X-Dev: 1\r\n")
        .into_iter()
        .filter(|byte| *byte != b'\r');
    let rows: &[Row] = &[
        ("9", with("X-Dev : 1\r\n"), HI),
        (
            "12",
            with("Content-Type: application/x-www-form-urlencoded\r\n"),
            HI,
        ),
        ("12", with("Content-Type: multipart/form-data\r\n"), HI),
        ("12", with("Content-Type: \r\n"), HI),
        ("20", with("Expect: 100-continue\r\n"), HI),
        ("20", with("Expect: 200-ok\r\n"), HI),
        ("21", line_feeds.collect(), HI),
        ("21", with("X-Dev: 1\n"), HI),
        ("25", with("Connection: starting\r\n"), HI),
        ("36", with(upgrade), HI),
        ("36", framed(&chunked, "2\r\nhi\r\n0\r\n\r\n"), HI),
        ("5a", between("\r\n"), Kept(&["hi", "hi"])),
        ("5a", with("X-A: 1\r\n 2\r\n"), HI),
        ("5a", with("no field at all\r\n"), HI),
    ];
    assert_rows(rows);
}

/// The numbers are those of the quirks; then what is sent, and as what method and target it must
/// be stored.
#[test]
fn a_request_line_is_read_whatever_its_form() {
    let rows: &[(&str, &[u8], &str, &[u8])] = &[
        (
            "7",
            b"POST /raw/a?v=wet soil (26%) HTTP/1.1",
            "POST",
            b"/raw/a?v=wet soil (26%)",
        ),
        ("8", b"POST /raw/a HTTP/1.1 ", "POST", b"/raw/a"),
        (
            "11",
            b"POST http://10.20.0.9:5002/raw/a HTTP/1.1",
            "POST",
            b"http://10.20.0.9:5002/raw/a",
        ),
        (
            "14",
            "POST /raw/ประตู?ชื่อ=ก HTTP/1.1".as_bytes(),
            "POST",
            "/raw/ประตู?ชื่อ=ก".as_bytes(),
        ),
        (
            "14",
            b"POST /raw/\xd5\xc5\xc8\xfd HTTP/1.1",
            "POST",
            b"/raw/\xd5\xc5\xc8\xfd",
        ),
        ("19", b"post /raw/a HTTP/1.1", "post", b"/raw/a"),
        ("19", b"PUT /raw/a HTTP/1.1", "PUT", b"/raw/a"),
        ("19", b"PATCH /raw/a HTTP/1.1", "PATCH", b"/raw/a"),
        ("19", b"DELETE /raw/a HTTP/1.1", "DELETE", b"/raw/a"),
        ("5a", b"POST /raw/a HTTP/1.2", "POST", b"/raw/a"),
        ("5a", b"POST /raw/a http/1.1", "POST", b"/raw/a"),
        ("5a", b"POST  /raw/a HTTP/1.1", "POST", b"/raw/a"),
    ];
    let sent = rows.iter().map(|(quirk, line, ..)| {
        let sent = [line, &b"\r\nContent-Length: 2\r\n\r\nhi"[..]].concat();
        (*quirk, sent, HI)
    });
    let stored = assert_rows(&sent.collect::<Vec<Row>>());
    for ((quirk, _, method, target), found) in rows.iter().zip(stored) {
        let wanted = ((*method).to_owned(), target.to_vec(), b"hi".to_vec());
        assert_eq!(found, wanted, "{quirk}");
    }
}

#[test]
fn what_is_not_http_is_closed_at_once_and_nothing_of_it_kept() {
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
    let rows: &[Row] = &[
        ("22", hello, Closed),
        ("22", b"\x00\x0f350000000000001".to_vec(), Closed),
        ("22", b"SSH-2.0-client\r\n".to_vec(), Closed),
        ("22", b"\x10\x1e\x00\x04MQTT\x04\x02".to_vec(), Closed),
        ("5a", b"{\"event\":\"door\"}\r\n".to_vec(), Closed),
        (
            "5a",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n".to_vec(),
            Closed,
        ),
        ("B 8", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), Refused),
        ("B 8", b"POST /raw/a HTTP/2.0\r\n\r\n".to_vec(), Refused),
        (
            "B 9",
            [b"POST /", vec![b'x'; 40_000].as_slice()].concat(),
            Refused,
        ),
    ];
    assert_rows(rows);
}

/// `HEAD` has a test of its own: its answers have no body.
#[test]
fn a_look_whether_anybody_is_there_is_answered_and_not_kept() {
    let line = |line: &str| format!("{line}\r\nHost: a\r\n\r\n").into_bytes();
    let rows: &[Row] = &[
        ("19", line("OPTIONS * HTTP/1.1"), Answered(1)),
        ("19", line("OPTIONS /raw/a HTTP/1.1"), Answered(1)),
        ("19", line("GET /favicon.ico HTTP/1.1"), Answered(1)),
        (
            "19",
            line("GET /pay/stripe HTTP/1.1").repeat(2),
            Answered(2),
        ),
        ("18", line("GET /shelly/door?state=open HTTP/1.1"), NONE),
        (
            "18",
            line("GET /raw/a?v=1 HTTP/1.1\r\nContent-Length: 0"),
            NONE,
        ),
    ];
    assert_rows(rows);
}

#[test]
fn the_answer_to_a_head_is_a_head() {
    let plant = Plant::start();
    let mut sender = plant.connect();
    for target in ["/", "/raw/a", "/nowhere?x=1"] {
        sender.say(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(sender.hear_head(target).status, 200, "{target}");
    }
    sender.say(with(""));
    assert_eq!(sender.hear("the next one").body, "OK");
    assert_eq!(plant.end().len(), 1);
}

#[test]
fn who_waits_for_it_is_told_to_continue() {
    let plant = Plant::start();
    let mut sender = plant.connect();
    let sent = with("Expect: 100-continue\r\n");
    let (head, body) = sent.split_at(sent.len() - 2);
    sender.say(head);
    assert_eq!(sender.head("a head"), "HTTP/1.1 100 Continue\r\n\r\n");
    sender.say(body);
    assert_eq!(sender.hear("and a body").body, "OK");
    assert_eq!(plant.end()[0].body, b"hi");
}
