//! The real HTTP client against small servers that do what real ones do.
//!
//! Each server is a thread on loopback that answers a fixed list of connections and then ends.
//! Nothing here sleeps to let something happen: what must take time waits until the client gives
//! up.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use gatepost::clock::Timestamp;
use gatepost::config::Destination;
use gatepost::delivery::{Answer, Outcome, RetryAfter};
use gatepost::upstream::{Http, Outgoing, Transport};

use server::{PATIENCE, Script, Seen, Server};

mod proxy;
mod secrets;
mod server;
mod tls;
mod trouble;

fn destination(url: &str, timeout_ms: u64) -> Destination {
    Destination {
        workers: 2,
        timeout: Duration::from_millis(timeout_ms),
        ..Destination::new("cloud".to_owned(), url.to_owned())
    }
}

fn client(url: &str, timeout_ms: u64) -> Http {
    Http::new(&destination(url, timeout_ms)).expect("the address is right")
}

fn client_of(server: &Server) -> Http {
    client(&format!("http://{}/events?site=7", server.address), 2_000)
}

fn request(headers: &[(&str, &[u8])], body: &[u8]) -> Outgoing {
    Outgoing {
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_vec()))
            .collect(),
        body: body.to_vec(),
    }
}

fn answered(status: u16, head: &[u8]) -> Outcome {
    Outcome::Answered(Answer {
        status,
        retry_after: None,
        head: head.to_vec(),
        headers: Vec::new(),
    })
}

fn unreachable(why: &str) -> Outcome {
    Outcome::Unreachable(why.to_owned())
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn bytes_and_headers_arrive_as_given_and_nothing_is_added() {
    let server = Server::start(1, |peer, _| peer.answer(OK));
    let body: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let given = request(
        &[
            ("Content-Type", b"multipart/form-data; boundary=\"caf\xe9\""),
            ("Idempotency-Key", b"\"2a-1\""),
            ("X-Twice", b"1"),
            ("X-Twice", b"2"),
        ],
        &body,
    );
    assert_eq!(client_of(&server).send(&given), answered(200, b"ok"));
    let seen = server.next();
    assert_eq!(seen.body, body);
    let mut expected = vec![
        b"POST /events?site=7 HTTP/1.1".to_vec(),
        format!("host: {}", server.address).into_bytes(),
        b"content-type: multipart/form-data; boundary=\"caf\xe9\"".to_vec(),
        b"idempotency-key: \"2a-1\"".to_vec(),
        b"x-twice: 1".to_vec(),
        b"x-twice: 2".to_vec(),
        b"content-length: 300000".to_vec(),
        concat!("user-agent: gatepost/", env!("CARGO_PKG_VERSION")).into(),
    ];
    let mut head = seen.head;
    assert_eq!(head[0], expected[0]);
    head.sort();
    expected.sort();
    assert_eq!(head, expected);
}

#[test]
fn an_event_without_a_body_is_sent_with_length_zero() {
    let server = Server::start(1, |peer, _| peer.answer(OK));
    assert_eq!(
        client_of(&server).send(&request(&[], b"")),
        answered(200, b"ok")
    );
    let seen = server.next();
    assert_eq!(seen.value("content-length"), Some(&b"0"[..]));
    assert_eq!(seen.value("content-type"), None);
}

#[test]
fn what_http_cannot_carry_is_left_out_and_the_event_still_goes() {
    let server = Server::start(1, |peer, _| peer.answer(OK));
    let long = vec![b'x'; 20_000];
    let given = request(
        &[
            ("X-Tab", b"a\tb"),
            ("X-Latin", b"\xff\x80"),
            ("X-Line", b"a\r\nX-Evil: 1"),
            ("X-Zero", b"a\0b"),
            ("X-Delete", b"\x7f"),
            ("X Space", b"1"),
            ("", b"1"),
            ("X-Long", &long),
        ],
        b"body",
    );
    assert_eq!(client_of(&server).send(&given), answered(200, b"ok"));
    let seen = server.next();
    assert_eq!(seen.value("x-tab"), Some(&b"a\tb"[..]));
    assert_eq!(seen.value("x-latin"), Some(&b"\xff\x80"[..]));
    assert_eq!(seen.body, b"body");
    assert_eq!(seen.head.len(), 1 + 2 + 3, "{:?}", seen.head);
}

#[test]
fn a_head_larger_than_the_buffer_arrives() {
    let server = Server::start(1, |peer, _| peer.answer(OK));
    let value = vec![b'x'; 8_000];
    let names: Vec<String> = (0..5)
        .map(|number| format!("x-signature-{number}"))
        .collect();
    let headers: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), &value[..]))
        .collect();
    assert_eq!(
        client_of(&server).send(&request(&headers, b"1")),
        answered(200, b"ok")
    );
    let seen = server.next();
    for name in &names {
        assert_eq!(seen.value(name), Some(&value[..]), "{name}");
    }
}

#[test]
fn a_connection_is_used_again_after_any_short_answer() {
    let server = Server::start(1, |peer, _| {
        peer.answer(OK)?;
        peer.answer(b"HTTP/1.1 204 No Content\r\n\r\n")?;
        peer.answer(b"HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n")?;
        let mut page = b"HTTP/1.1 500 Oh\r\nContent-Length: 50000\r\n\r\n".to_vec();
        page.resize(page.len() + 50_000, b'x');
        peer.answer(&page)?;
        peer.answer(OK)
    });
    let client = client_of(&server);
    let head = [b'x'; Answer::LONGEST_HEAD];
    for expected in [
        answered(200, b"ok"),
        answered(204, b""),
        answered(422, b"no"),
        answered(500, &head),
        answered(200, b"ok"),
    ] {
        assert_eq!(client.send(&request(&[], b"x")), expected);
        assert_eq!(server.next().connection, 0);
    }
}

#[test]
fn redirects_and_odd_statuses_are_answers() {
    let server = Server::start(1, |peer, _| {
        peer.answer(b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")?;
        peer.answer(
            b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        )?;
        peer.answer(
            b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 202 Yes\r\nContent-Length: 0\r\n\r\n",
        )?;
        peer.answer(b"HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n")
    });
    let client = client_of(&server);
    for status in [302, 307, 202, 799] {
        assert_eq!(client.send(&request(&[], b"x")), answered(status, b""));
        server.next();
    }
    assert!(server.seen.try_recv().is_err(), "nothing was followed");
}

#[test]
fn an_answer_says_when_to_come_back() {
    let server = Server::start(1, |peer, _| {
        peer.answer(b"HTTP/1.1 503 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n")?;
        peer.answer(
            b"HTTP/1.1 429 Slow\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
              Content-Length: 0\r\n\r\n",
        )?;
        peer.answer(b"HTTP/1.1 503 Busy\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n")
    });
    let client = client_of(&server);
    for (status, retry_after) in [
        (503, Some(RetryAfter::Delay(Duration::from_secs(120)))),
        (
            429,
            Some(RetryAfter::Date(Timestamp::from_ms(784_111_777_000))),
        ),
        (503, None),
    ] {
        let expected = Outcome::Answered(Answer {
            status,
            retry_after,
            head: Vec::new(),
            headers: Vec::new(),
        });
        assert_eq!(client.send(&request(&[], b"x")), expected);
    }
}

#[test]
fn an_endless_answer_costs_its_connection_and_nothing_else() {
    let server = Server::start(2, |peer, number| {
        if number == 1 {
            return peer.answer(OK);
        }
        peer.answer(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            peer.write(&[b'x'; 8_192])?;
        }
    });
    let client = client_of(&server);
    let head = [b'x'; Answer::LONGEST_HEAD];
    assert_eq!(client.send(&request(&[], b"1")), answered(200, &head));
    assert_eq!(client.send(&request(&[], b"2")), answered(200, b"ok"));
    assert_eq!(server.next().connection, 0);
    assert_eq!(server.next().connection, 1);
}

#[test]
fn a_body_that_never_ends_neither_takes_back_the_status_nor_holds_the_worker() {
    let server = Server::start(1, |peer, _| {
        peer.answer(b"HTTP/1.1 202 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
        peer.outlast()
    });
    let client = client(&format!("http://{}/", server.address), 4_000);
    let begun = Instant::now();
    assert_eq!(client.send(&request(&[], b"1")), answered(202, b"half"));
    // A quarter of the timeout, with room for a busy machine.
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(3_500), "{took:?}");
}

#[test]
fn a_destination_that_does_not_answer_times_out() {
    let rows: &[(&str, Script)] = &[
        ("silent", |peer, _| {
            peer.read()?;
            peer.outlast()
        }),
        ("half a head", |peer, _| {
            peer.answer(b"HTTP/1.1 200 OK\r\nContent-Le")?;
            peer.outlast()
        }),
        ("for ever 100", |peer, _| {
            peer.read()?;
            let mut gone = [0];
            _ = peer
                .reader
                .get_mut()
                .set_read_timeout(Some(Duration::from_millis(20)));
            while !matches!(peer.reader.read(&mut gone), Ok(0)) {
                peer.write(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            Ok(())
        }),
        ("does not read", |peer, _| {
            let mut first = [0];
            peer.reader.get_mut().peek(&mut first)?;
            thread::park_timeout(Duration::from_secs(1));
            Ok(())
        }),
    ];
    for (what, script) in rows {
        let server = Server::start(1, *script);
        let client = client(&format!("http://{}/", server.address), 300);
        let begun = Instant::now();
        let big = vec![0; 16 << 20];
        let body = if *what == "does not read" {
            &big[..]
        } else {
            b"x"
        };
        assert_eq!(
            client.send(&request(&[], body)),
            Outcome::TimedOut,
            "{what}"
        );
        // Generous: what matters is that it is bounded, on a busy machine too.
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", begun.elapsed());
    }
}

#[test]
fn nobody_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let refused = unreachable("connection refused");
    for host in ["127.0.0.1", "localhost"] {
        let client = client(&format!("http://{host}:{}/", address.port()), 2_000);
        assert_eq!(client.send(&request(&[], b"x")), refused, "{host}");
    }
}

#[test]
fn a_name_that_does_not_exist_is_unreachable() {
    // RFC 6761: `.invalid` never exists. Without a network its name server is silent instead.
    let outcome = client("http://gatepost.invalid/", 2_000).send(&request(&[], b"x"));
    let Outcome::Unreachable(why) = &outcome else {
        unreachable!("{outcome:?}");
    };
    let expected = [
        "no such host",
        "no name server answers",
        "no name server answered in time",
    ];
    assert!(expected.contains(&why.as_str()), "{why}");
}

#[test]
fn a_connection_that_ends_before_an_answer_is_unreachable_and_is_not_sent_twice() {
    let closed = unreachable("connection closed before an answer");
    let reset = unreachable("connection reset before an answer");
    let rows: &[(&str, &Outcome, Script)] = &[
        ("closed after the request", &closed, |peer, _| peer.read()),
        ("closed in the head", &closed, |peer, _| {
            peer.answer(b"HTTP/1.1 200 OK\r\nConte")
        }),
        ("reset", &reset, |peer, _| {
            // Closing with unread bytes in the buffer resets.
            peer.reader.get_mut().peek(&mut [0]).map(|_| ())
        }),
    ];
    for (what, expected, script) in rows {
        let server = Server::start(2, *script);
        assert_eq!(
            &client_of(&server).send(&request(&[], b"x")),
            *expected,
            "{what}"
        );
        let requests = server.seen.try_iter().count();
        assert!(requests <= 1, "{what}: {requests}");
    }
}

#[test]
fn a_pooled_connection_that_was_closed_meanwhile_is_not_noticed() {
    let rows: &[(&str, usize, Script)] = &[
        ("while idle", 2, |peer, _| {
            peer.answer(OK)?;
            peer.reader.get_mut().shutdown(Shutdown::Both)
        }),
        ("when the next request comes", 3, |peer, number| {
            peer.answer(OK)?;
            if number == 0 {
                peer.read()
            } else {
                peer.outlast()
            }
        }),
    ];
    for (what, requests, script) in rows {
        let server = Server::start(2, *script);
        let client = client_of(&server);
        let key: &[(&str, &[u8])] = &[("Idempotency-Key", b"\"1\"")];
        assert_eq!(
            client.send(&request(key, b"1")),
            answered(200, b"ok"),
            "{what}"
        );
        assert_eq!(
            client.send(&request(key, b"2")),
            answered(200, b"ok"),
            "{what}"
        );
        let seen: Vec<Seen> = server.seen.try_iter().collect();
        assert_eq!(seen.len(), *requests, "{what}");
        let last = seen.last().expect("there are some");
        assert_eq!((last.connection, &last.body[..]), (1, &b"2"[..]), "{what}");
        assert_eq!(last.value("idempotency-key"), Some(&b"\"1\""[..]), "{what}");
    }
}

#[test]
fn sending_again_does_not_trust_the_rest_of_the_pool() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let client = client(&format!("http://{address}/"), 2_000);
    thread::scope(|scope| {
        let two: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| client.send(&request(&[], b""))))
            .collect();
        // Both are answered once, and closed when the next request comes.
        let mut streams: Vec<TcpStream> = (0..2).map(|_| accepted(&listener)).collect();
        for stream in &mut streams {
            answer_one(stream);
        }
        for outcome in two {
            assert_eq!(outcome.join().expect("no panic"), answered(200, b"ok"));
        }
        for mut stream in streams {
            scope.spawn(move || read_one(&mut stream));
        }
        scope.spawn(|| answer_one(&mut accepted(&listener)));
        let outcome = client.send(&request(&[], b""));
        // If the client never came again, this ends the wait for it.
        drop(TcpStream::connect(address));
        assert_eq!(outcome, answered(200, b"ok"));
    });
}

#[test]
fn sending_again_ends_with_the_first_timeout() {
    let server = Server::start(2, |peer, number| {
        if number == 0 {
            peer.answer(OK)?;
            peer.read()?;
            // As slow as a server that thinks before it hangs up.
            thread::park_timeout(Duration::from_millis(1_500));
            return Ok(());
        }
        peer.read()?;
        peer.outlast()
    });
    let client = client_of(&server);
    assert_eq!(client.send(&request(&[], b"1")), answered(200, b"ok"));
    let begun = Instant::now();
    assert_eq!(client.send(&request(&[], b"2")), Outcome::TimedOut);
    // 2 s; with a timeout of its own it would be 3.5 s.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(server.seen.try_iter().count(), 3);
}

#[test]
fn what_is_not_http_failed() {
    let mut long = b"HTTP/1.1 200 OK\r\n".to_vec();
    long.resize(40_000, b'x');
    let rows: &[(&[u8], &str)] = &[
        (b"\x15\x03\x01\x00\x02\x02\x46", "not HTTP: "),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "not HTTP: "),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "not HTTP: ",
        ),
        (&long, "head of the answer longer than 16383 bytes"),
    ];
    for (bytes, why) in rows {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept()?;
                stream.set_read_timeout(Some(PATIENCE))?;
                _ = stream.read(&mut [0; 4096])?;
                stream.write_all(bytes)?;
                io::copy(&mut stream, &mut io::sink())
            });
            client(&format!("http://{address}/"), 2_000).send(&request(&[], b"x"))
        });
        let Outcome::Failed(words) = &outcome else {
            unreachable!("{}: {outcome:?}", bytes[..7].escape_ascii());
        };
        assert!(
            words.starts_with(why),
            "{}: {words}",
            bytes[..7].escape_ascii()
        );
    }
}

#[test]
fn no_proxy_is_taken_from_the_environment() {
    // Only a process of its own can have another environment.
    let mut other = Command::new(std::env::current_exe().expect("this test has a file"));
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        other.env(name, "http://127.0.0.1:1/");
    }
    other.env_remove("NO_PROXY").env_remove("no_proxy");
    let test = "bytes_and_headers_arrive_as_given_and_nothing_is_added";
    let output = other
        .args(["--exact", test])
        .output()
        .expect("it can be run again");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("1 passed"), "{told}");
}

#[test]
fn workers_do_not_wait_for_each_other() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let client = client(&format!("http://{address}/"), 2_000);
    thread::scope(|scope| {
        let outcomes: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| client.send(&request(&[], b""))))
            .collect();
        // Neither is answered before both are here.
        let mut streams: Vec<TcpStream> = (0..2).map(|_| accepted(&listener)).collect();
        for stream in &mut streams {
            answer_one(stream);
        }
        for outcome in outcomes {
            assert_eq!(outcome.join().expect("no panic"), answered(200, b"ok"));
        }
    });
}

fn accepted(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("the client connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

fn answer_one(stream: &mut TcpStream) {
    read_one(stream);
    _ = stream.write_all(OK);
}

/// Reads one request without a body, or until the client goes.
fn read_one(stream: &mut TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
    }
}
