//! What the reader makes of bytes, however they are cut.

mod pieces;

use proptest::prelude::*;

use super::*;
use crate::event::Digest;
use crate::http::fuzz::{self, Last, limits};

/// As the door of the fuzz targets does it.
fn read(bytes: &[u8], sizes: &[usize], patient: bool) -> (Vec<Request>, Last) {
    let (requests, last) = fuzz::read(bytes, sizes, patient);
    let requests = requests.into_iter().map(|complete| complete.request);
    (requests.collect(), last)
}

fn bodies(bytes: &[u8]) -> (Vec<Vec<u8>>, Last) {
    let (requests, last) = read(bytes, &[bytes.len()], false);
    let bodies = requests.into_iter().map(|request| request.body);
    (bodies.collect(), last)
}

/// A sender that does not say whether there is a body.
const VAGUE: &str = "POST /a HTTP/1.1\r\n\r\n";

const OK: &str = "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn requests_come_out_with_their_bodies() {
    let chunked = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let close = "POST /a HTTP/1.1\r\nConnection: close\r\n\r\n";
    let rows: &[(String, &[&str])] = &[
        (OK.to_owned(), &["hi"]),
        (format!("{OK}{OK}"), &["hi", "hi"]),
        (format!("{OK}\r\n{OK}\n\r\n"), &["hi", "hi"]),
        (format!("GET /b HTTP/1.1\r\n\r\n{OK}"), &["", "hi"]),
        (
            format!("{chunked}1\r\nh\r\n1\r\ni\r\n0\r\nA: 1\r\n\r\n{OK}"),
            &["hi", "hi"],
        ),
        (format!("{chunked}2\r\nhi\r\n0\r\n"), &["hi"]),
        (format!("{close}hi"), &["hi"]),
        (close.to_owned(), &[""]),
        ("post /a HTTP/1.0\n\nhi".to_owned(), &["hi"]),
        (OK.replace("Con", "Expect: 100-continue\r\nCon"), &["hi"]),
        (
            OK.replace("Con", "Upgrade: h2c\r\nConnection: upgrade\r\nCon"),
            &["hi"],
        ),
    ];
    for (bytes, wanted) in rows {
        let wanted: Vec<Vec<u8>> = wanted.iter().map(|body| body.as_bytes().to_vec()).collect();
        assert_eq!(bodies(bytes.as_bytes()), (wanted, Last::More), "{bytes:?}");
    }
}

#[test]
fn what_nobody_announced_is_the_next_request_if_it_begins_like_one_and_a_body_if_not() {
    let form = format!("a=1&b=2\r\n{OK}");
    let parts = format!("\r\n--b\r\n\r\n{OK}");
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1000));
    let rows: &[(String, &[&str])] = &[
        (VAGUE.to_owned(), &[""]),
        (format!("{VAGUE}\r\n"), &[""]),
        (format!("{VAGUE}{OK}"), &["", "hi"]),
        (format!("{VAGUE}{VAGUE}\n{OK}"), &["", "", "hi"]),
        (format!("{VAGUE}GET /b HTTP/1.1\n\n{OK}"), &["", "", "hi"]),
        (format!("{VAGUE}{{\"a\":1}}"), &["{\"a\":1}"]),
        (format!("{VAGUE}{form}"), &[&form]),
        (format!("{VAGUE}{parts}"), &[&parts]),
        (format!("{VAGUE}door open"), &["door open"]),
        (
            format!("{VAGUE}door open\n{OK}"),
            &[&format!("door open\n{OK}")],
        ),
        (format!("{VAGUE}{long}"), &[&long]),
    ];
    for (bytes, wanted) in rows {
        let wanted: Vec<Vec<u8>> = wanted.iter().map(|body| body.as_bytes().to_vec()).collect();
        for size in 1..bytes.len().min(99) {
            let (requests, last) = read(bytes.as_bytes(), &[size], size % 2 == 0);
            let bodies = requests.into_iter().map(|request| request.body);
            let found = (bodies.collect::<Vec<_>>(), last);
            assert_eq!(
                found,
                (wanted.clone(), Last::More),
                "{bytes:.99?} by {size}"
            );
        }
    }
}

#[test]
fn blank_lines_are_looked_at_once_however_many_there_are() {
    let limits = Limits {
        head_bytes: 1 << 21,
        ..Limits::default()
    };
    let bytes = [VAGUE.as_bytes(), &b"\n".repeat(1 << 20), b"a=1"].concat();
    for size in [bytes.len(), 7] {
        let mut reader = Reader::new(SocketAddr::from(([127, 0, 0, 1], 1)));
        for piece in bytes.chunks(size) {
            let (used, step) = reader.feed(piece, &limits, &mut |_| true);
            assert!(matches!(step, Step::More), "{step:?}");
            assert_eq!(used, piece.len());
            reader.stage();
        }
        let end = reader.end();
        assert!(
            matches!(&end, Step::Complete(whole) if whole.request.body.len() == (1 << 20) + 3),
            "by {size}"
        );
    }
}

#[test]
fn what_is_cut_short_never_comes_out() {
    let whole = [
        OK.to_owned(),
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n".to_owned(),
        format!(
            "POST / HTTP/1.1\r\nContent-Length: 4000\r\n\r\n{}",
            "x".repeat(4000)
        ),
        format!(
            "POST / HTTP/1.1\r\nContent-Length: 9000\r\n\r\n{}",
            "x".repeat(6000)
        ),
    ];
    for bytes in &whole {
        assert_eq!(bodies(bytes.as_bytes()).0.len(), 1);
        for length in 1..bytes.len() {
            let found = bodies(&bytes.as_bytes()[..length]);
            assert_eq!(found, (Vec::new(), Last::Closed), "{length} of {bytes:.60}");
        }
    }
}

#[test]
fn what_cannot_be_understood_ends_the_connection() {
    let rows = [
        (OK.replace("2\r", "2\r\nContent-Length: 3\r"), Last::Refused),
        (OK.replace("2\r", "x\r"), Last::Refused),
        (
            OK.replace("Content-Length: 2", "Transfer-Encoding: gzip"),
            Last::Refused,
        ),
        (
            OK.replace("Content-Length: 2", "Transfer-Encoding: chunked"),
            Last::Refused,
        ),
        (OK.replace("1.1", "2.0"), Last::Refused),
        (OK.replace("/a", &"/a".repeat(600)), Last::Refused),
        ("\u{16}\u{3}\u{1}".to_owned(), Last::Closed),
        ("{\"event\":\"door\"}\r\n".to_owned(), Last::Closed),
    ];
    for (bytes, wanted) in rows {
        assert_eq!(
            bodies(bytes.as_bytes()),
            (Vec::new(), wanted),
            "{bytes:.99?}"
        );
        let after = format!("{OK}{bytes}{OK}");
        assert_eq!(
            bodies(after.as_bytes()),
            (vec![b"hi".to_vec()], wanted),
            "{after:.99?}"
        );
    }
}

#[test]
fn a_sender_that_waits_is_told_to_continue_once() {
    let mut reader = Reader::new(SocketAddr::from(([127, 0, 0, 1], 1)));
    let head = OK.replace("Con", "Expect: 100-continue\r\nCon");
    let head = head.strip_suffix("hi").expect("that is the body");
    let (_, step) = reader.feed(head.as_bytes(), &limits(), &mut |_| false);
    assert!(matches!(step, Step::Room), "{step:?}");
    reader.grant(2);
    let (_, step) = reader.feed(b"", &limits(), &mut |_| true);
    assert!(matches!(step, Step::Continue), "{step:?}");
    let (_, step) = reader.feed(b"h", &limits(), &mut |_| true);
    assert!(matches!(step, Step::More), "{step:?}");
    let (_, step) = reader.feed(b"i", &limits(), &mut |_| true);
    assert!(matches!(step, Step::Complete(_)), "{step:?}");
}

#[test]
fn a_body_that_is_too_long_is_known_by_its_hash() {
    use Last::{Closed, More};
    let long = "x".repeat(4000);
    let very_long = "x".repeat(7000);
    let chunk = format!("fa0\r\n{long}\r\n0\r\n\r\n");
    let and_more = format!("{long}{OK}");
    let (declared, close) = ("Content-Length: 4000", "Connection: close");
    let (chunked, lie) = ("Transfer-Encoding: chunked", "Content-Length: 30000000000");
    // The field, the body, what is read of it, how long it is said to be, and how reading ends.
    let rows: [(&str, &str, &str, u64, usize, Last); 5] = [
        (declared, &long, &long, 4000, 2, More),
        (chunked, &chunk, &long, 4000, 2, More),
        (close, &long, &and_more, and_more.len() as u64, 1, More),
        (
            lie,
            &very_long,
            &very_long[..6000],
            30_000_000_000,
            1,
            Closed,
        ),
        (close, &very_long, &very_long[..6000], 6000, 1, Closed),
    ];
    for (field, body, is_read, length, count, last) in rows {
        let bytes = format!("POST / HTTP/1.1\r\n{field}\r\n\r\n{body}{OK}");
        for size in [bytes.len(), 1, 1000] {
            let (requests, end) = read(bytes.as_bytes(), &[size], false);
            assert_eq!((requests.len(), &end), (count, &last), "{field} by {size}");
            assert_known_by_hash(&requests[0], length, is_read, field);
        }
    }
}

fn assert_known_by_hash(request: &Request, length: u64, all: &str, field: &str) {
    let oversize = request.oversize.clone().expect("it is too long");
    assert_eq!(request.body, b"xxxxxxxxxx", "{field}");
    assert_eq!(oversize.length, length, "{field}");
    assert_eq!(oversize.digest, Digest::of(all.as_bytes()), "{field}");
}

/// One request, or something like it.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        4 => Just("Content-Length: 5".to_owned()),
        2 => Just("Transfer-Encoding: chunked".to_owned()),
        1 => Just("Connection: close".to_owned()),
        1 => Just("Expect: 100-continue".to_owned()),
        1 => Just("Content-Length: 4000".to_owned()),
        1 => "[A-Z]{1,3} ?: ?[ -~]{0,5}",
    ];
    let body = prop_oneof![
        4 => Just("hello".to_owned()),
        2 => Just("3\r\nhel\r\n2;x\nlo\r\n0\r\n\r\n".to_owned()),
        1 => Just("x".repeat(4000)),
        1 => Just(format!("fa0\n{}\n0\n\n", "x".repeat(4000))),
        1 => "[\r\n -~]{0,9}",
    ];
    let end = prop_oneof![Just("\r\n"), Just("\n")];
    (
        prop_oneof![3 => Just("POST /a b HTTP/1.1"), 1 => Just("GET / HTTP/1.0")],
        prop::collection::vec(field, 0..3),
        end,
        body,
    )
        .prop_map(|(line, fields, end, body)| {
            let mut text = format!("{line}{end}");
            for field in fields {
                text.extend([field.as_str(), end]);
            }
            (text + end + &body).into_bytes()
        })
}

proptest! {
    #[test]
    fn the_same_requests_come_out_however_the_bytes_are_cut(
        parts in prop::collection::vec(request_like(), 1..4),
        sizes in prop::collection::vec(1_usize..700, 1..5),
        patient in any::<bool>(),
    ) {
        let bytes = parts.concat();
        let whole = read(&bytes, &[bytes.len()], false);
        prop_assert_eq!(&read(&bytes, &[1], patient), &whole);
        prop_assert_eq!(&read(&bytes, &sizes, patient), &whole);
    }

    #[test]
    fn no_bytes_bring_it_down(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        start in 0_usize..60,
    ) {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nA: 1\r\n\r\n";
        let mut all = head[..head.len().min(start)].to_vec();
        all.extend(bytes);
        let whole = read(&all, &[all.len().max(1)], false);
        prop_assert_eq!(read(&all, &[1], false), whole);
    }
}
