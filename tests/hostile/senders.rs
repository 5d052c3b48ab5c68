//! One sender at a time: slow, false, gone, or unusual.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use gatepost::clock::{Reading, Timestamp};
use gatepost::event::Digest;
use gatepost::http::{Answer, Limits};

use crate::wire::{
    POST, Running, accepted, answer, closed, echo, is_silent, read_all, refused, say,
};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn limits() -> Limits {
    Limits {
        head_bytes: 4096,
        max_body: 200_000,
        oversize_head: 100,
        oversize_read: 1_000_000,
        ..Limits::default()
    }
}

#[test]
fn a_slow_head_is_cut_off_however_steadily_it_drips() {
    let server = Running::false_time(limits());
    let mut slow = server.connect();
    for (second, byte) in POST.bytes().take(15).enumerate() {
        assert!(is_silent(&mut slow), "second {second}");
        say(&mut slow, [byte]);
        server.pass(SECOND);
    }
    closed(&mut slow, "15 s after its first byte");
    assert_eq!(server.unseen(), 0);
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let server = Running::false_time(limits());
    let mut silent = server.connect();
    let mut kept = server.send(POST);
    accepted(&mut kept);
    server.pass(74 * SECOND);
    say(&mut kept, POST);
    accepted(&mut kept);
    server.pass(SECOND);
    closed(&mut silent, "75 s without a byte");
    // Empty lines are no sign of life.
    server.pass(70 * SECOND);
    say(&mut kept, "\r\n");
    server.pass(5 * SECOND);
    closed(&mut kept, "75 s without a request");
}

#[test]
fn a_slow_body_is_cut_off_and_a_steady_one_is_not() {
    let server = Running::false_time(limits());
    let head = "POST /a HTTP/1.1\r\nContent-Length: 100000\r\n\r\n";
    let mut slow = server.send(head);
    let mut steady = server.send(head);
    for _ in 0..10 {
        // It may have been closed already.
        _ = slow.write_all(&[b'x'; 900]);
        say(&mut steady, [b'x'; 10_000]);
        server.pass(4 * SECOND);
    }
    assert_eq!(accepted(&mut steady).len(), 100_000);
    closed(&mut slow, "9000 bytes in 40 s");
    server.next();
    assert_eq!(server.unseen(), 0);
}

#[test]
fn a_short_body_is_never_acknowledged() {
    let server = Running::echo(limits());
    let rows = [
        "POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nhi",
        "POST /a HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nhi",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0",
        "POST /a HTTP/1.1\r\nContent-Length: 30000000000\r\n\r\nhi",
        "POST /a HTTP/1.1\r\nA: 1\r\n",
    ];
    for bytes in rows {
        let mut stream = server.send(bytes);
        stream.shutdown(Shutdown::Write).expect("it is open");
        closed(&mut stream, bytes);
    }
    assert_eq!(server.unseen(), 0);
}

#[test]
fn contradictory_lengths_are_refused_and_nothing_after_them_is_read() {
    let server = Running::echo(limits());
    let rows = [
        "Content-Length: 2\r\nContent-Length: 5",
        "Content-Length: 2, 5",
        "Content-Length: abc",
        "Content-Length: +2",
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Content-Length 2",
        "Content-Length: 2\r\nTransfer-Encoding\u{b}: chunked",
    ];
    for fields in rows {
        let mut stream = server.send(format!("POST /a HTTP/1.1\r\n{fields}\r\n\r\nhi{POST}"));
        refused(&mut stream, fields);
    }
    assert_eq!(server.unseen(), 0);
}

#[test]
fn a_refusal_reaches_a_sender_that_is_still_sending() {
    let server = Running::echo(limits());
    for _ in 0..20 {
        let mut stream = server.send("POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n");
        // More than the sockets' buffers hold, so that it is still being sent when it is refused.
        say(&mut stream, vec![b'x'; 1_000_000]);
        stream.shutdown(Shutdown::Write).expect("it is open");
        refused(&mut stream, "while sending");
    }
}

#[test]
fn what_is_not_http_is_closed_at_once() {
    let server = Running::false_time(limits());
    let rows: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x0f350000000000001",
        b"{\"event\":\"door\"}\r\n",
        b"\n\x00\x00",
        b"SSH-2.0-client\r\n",
    ];
    for bytes in rows {
        closed(&mut server.send(bytes), &String::from_utf8_lossy(bytes));
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(5000));
    refused(&mut server.send(long), "a head that is too long");
}

#[test]
fn a_false_length_costs_nothing_and_blocks_nobody() {
    let server = Running::echo(limits());
    let head = "POST /a HTTP/1.1\r\nContent-Length: 30000000000\r\n\r\n";
    let streams: Vec<TcpStream> = (0..100).map(|_| server.send(head)).collect();
    assert_eq!(accepted(&mut server.send(POST)), b"hi");
    drop(streams);
    let mut long = server.send(head);
    let body = vec![b'x'; 1_000_000];
    say(&mut long, &body);
    assert_eq!(accepted(&mut long).len(), 100);
    let oversize = loop {
        if let Some(oversize) = server.next().1.oversize {
            break oversize;
        }
    };
    assert_eq!(oversize.length, 30_000_000_000);
    assert_eq!(oversize.digest, Digest::of(&body));
    closed(&mut long, "the rest is not waited for");
}

#[test]
fn a_body_that_is_too_long_is_answered_and_the_connection_kept() {
    let server = Running::echo(limits());
    let body = "x".repeat(300_000);
    let rows = [
        format!("Content-Length: 300000\r\n\r\n{body}"),
        format!("Transfer-Encoding: chunked\r\n\r\n493e0\r\n{body}\r\n0\r\n\r\n"),
    ];
    for rest in rows {
        let mut stream = server.send(format!("POST /a HTTP/1.1\r\n{rest}{POST}"));
        assert_eq!(accepted(&mut stream).len(), 100);
        assert_eq!(accepted(&mut stream), b"hi");
        let oversize = server.next().1.oversize.expect("it is too long");
        assert_eq!(oversize.length, 300_000);
        assert_eq!(oversize.digest, Digest::of(body.as_bytes()));
        server.next();
    }
}

#[test]
fn answers_leave_in_order_and_one_request_is_under_way_at_a_time() {
    let server = Running::by_hand(limits());
    let requests: String = (0..50)
        .map(|number| POST.replace("hi", &format!("{number:02}")))
        .collect();
    let mut stream = server.send(requests);
    for number in 0..50 {
        let (ticket, request) = server.next();
        assert_eq!(request.body, format!("{number:02}").as_bytes());
        assert_eq!(server.unseen(), 0, "the next one waits for this answer");
        // Twice: the second must not reach the next request.
        server
            .answers
            .send(vec![(ticket, echo(&request)), (ticket, Answer::refusal())]);
        assert_eq!(accepted(&mut stream), request.body);
        server.answers.send(vec![(ticket, Answer::refusal())]);
    }
    assert!(is_silent(&mut stream));
}

#[test]
fn a_late_answer_reaches_nobody_else() {
    let server = Running::by_hand(limits());
    let gone = server.send(POST.repeat(2));
    let (late, request) = server.next();
    // Bytes that the server will not read make this a reset.
    drop(gone);
    let mut other = server.send(POST);
    let (ticket, _) = server.next();
    server.answers.send(vec![(late, Answer::refusal())]);
    server.answers.send(vec![(ticket, echo(&request))]);
    accepted(&mut other);
    assert!(is_silent(&mut other));
}

#[test]
fn senders_that_reset_cost_nobody_else() {
    let server = Running::echo(limits());
    let mut kept = server.connect();
    for part in 1..POST.len() {
        drop(server.send(&POST[..part]));
        // An answer that nobody reads makes the sender's end a reset.
        let resets = server.send(POST.repeat(3));
        resets.peek(&mut [0]).expect("an answer comes");
        drop(resets);
        say(&mut kept, POST);
        accepted(&mut kept);
    }
}

#[test]
fn a_body_without_a_length_ends_with_the_connection_or_in_silence() {
    let server = Running::false_time(limits());
    let close = "POST /a HTTP/1.1\r\nConnection: close\r\n\r\n";
    let vague = "POST /a HTTP/1.1\r\n\r\n";
    for (head, sent) in [(close, "hello"), (close, ""), (vague, "hello"), (vague, "")] {
        let wanted = if sent.is_empty() { "OK\n" } else { sent };
        let mut closing = server.send(format!("{head}{sent}"));
        closing.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(accepted(&mut closing), wanted.as_bytes(), "{head}{sent}");

        let mut waiting = server.send(format!("{head}{sent}"));
        server.pass(SECOND);
        assert!(is_silent(&mut waiting), "{head}{sent}");
        say(&mut waiting, sent);
        server.pass(if sent.is_empty() { 2 } else { 15 } * SECOND);
        let wanted = wanted.replace("hello", "hellohello");
        assert_eq!(accepted(&mut waiting), wanted.as_bytes(), "{head}{sent}");
        closed(
            &mut waiting,
            "it may say more, and nobody would know of what",
        );
    }
}

/// As firmware does that prints one line after the other and has never heard of a length.
#[test]
fn a_body_that_nobody_announced_may_come_later_than_its_head() {
    let server = Running::false_time(limits());
    let mut printing = server.connect();
    for line in ["POST /a HTTP/1.1\r\n", "Host: a\r\n", "\r\n"] {
        say(&mut printing, line);
        server.settle();
    }
    server.pass(SECOND);
    say(&mut printing, "{\"door\":");
    server.pass(10 * SECOND);
    assert!(is_silent(&mut printing));
    say(&mut printing, "1}\r\n");
    server.pass(15 * SECOND);
    assert_eq!(accepted(&mut printing), b"{\"door\":1}\r\n");
}

#[test]
fn a_body_until_close_that_has_begun_may_pause_but_not_for_ever() {
    let server = Running::false_time(limits());
    let head = "POST /a HTTP/1.0\r\n\r\n";
    let mut pausing = server.send(format!("{head}be"));
    let mut dripping = server.send(format!("{head}be"));
    for (pause, more) in [(10, "gi"), (10, "n "), (9, "end")] {
        server.pass(pause * SECOND);
        assert!(is_silent(&mut pausing), "{pause} s before {more:?}");
        say(&mut pausing, more);
        say(&mut dripping, more);
    }
    server.pass(14 * SECOND);
    assert!(is_silent(&mut pausing), "14 s are not too long either");
    say(&mut dripping, "less");
    server.pass(SECOND);
    assert_eq!(accepted(&mut pausing), b"begin end");
    closed(&mut dripping, "43 s at less than its rate");
    server.next();
    assert_eq!(server.unseen(), 0);
}

#[test]
fn a_sender_that_expects_it_is_told_to_continue() {
    let server = Running::echo(limits());
    let mut stream = server.send(POST.replace("\r\n\r\nhi", "\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(answer(&mut stream).0, "HTTP/1.1 100 Continue\r\n\r\n");
    say(&mut stream, "hi");
    assert_eq!(accepted(&mut stream), b"hi");
    let mut other = server.send(POST.replace("Con", "Expect: 200-ok\r\nCon"));
    assert_eq!(accepted(&mut other), b"hi");
}

#[test]
fn an_answer_suits_its_request() {
    let server = Running::false_time(limits());
    let mut stream = server.send("HEAD /a HTTP/1.1\r\n\r\nGET /a HTTP/1.0\r\n\r\n");
    let head = "HTTP/1.1 202 Accepted\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n";
    let wanted = format!("{head}\r\n{head}Connection: close\r\n\r\nOK\n");
    assert_eq!(read_all(&mut stream), wanted);
    server.clock.set_reading(Reading {
        wall: Timestamp::from_ms(784_111_777_000),
        certain: true,
        uptime_ms: 0,
    });
    server.pass(SECOND);
    let mut stream = server.send("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
    let found = answer(&mut stream).0;
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert_eq!(found, format!("{head}{date}Connection: keep-alive\r\n\r\n"));
}

#[test]
fn a_sender_that_does_not_read_its_answer_is_closed() {
    let server = Running::by_hand(limits());
    let mut stream = server.send(POST);
    let (ticket, _) = server.next();
    let large = Answer {
        body: vec![b'x'; 20_000_000],
        ..Answer::refusal()
    };
    server.answers.send(vec![(ticket, large)]);
    server.pass(29 * SECOND);
    server.wait_for_connections(1);
    server.pass(SECOND);
    server.wait_for_connections(0);
    assert!(read_all(&mut stream).len() < 20_000_000);
}
