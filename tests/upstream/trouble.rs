//! Destinations that answer too early, too slowly, too much, or instead of somebody else.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use gatepost::delivery::{Answer, Outcome};
use gatepost::upstream::Transport;

use crate::server::{PATIENCE, Script, Server};
use crate::{OK, answered, client, client_of, request};

const TOO_LARGE: &[u8] = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";

/// Were it taken for a broken link, it would be sent for ever and hold up all that come after it.
#[test]
fn an_answer_before_the_body_has_arrived_is_heard() {
    let rows: &[(&str, Script)] = &[
        ("and closes the door", |peer, _| {
            _ = peer.reader.get_mut().read(&mut [0; 1_000])?;
            // Closing with bytes that were not read resets the connection.
            peer.write(TOO_LARGE)
        }),
        ("and reads no more", |peer, _| {
            _ = peer.reader.get_mut().read(&mut [0; 1_000])?;
            peer.write(TOO_LARGE)?;
            peer.wait()
        }),
        ("and reads on", |peer, _| {
            _ = peer.reader.get_mut().read(&mut [0; 1_000])?;
            peer.write(TOO_LARGE)?;
            peer.outlast()
        }),
    ];
    let body = vec![b'x'; 32 << 20];
    for (what, script) in rows {
        let server = Server::start(1, *script);
        let client = client(&format!("http://{}/", server.address), 10_000);
        let begun = Instant::now();
        let outcome = client.send(&request(&[], &body));
        assert_eq!(outcome, answered(413, b"no"), "{what}");
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_connection_over_which_a_body_went_only_half_is_not_used_again() {
    let server = Server::start(2, |peer, number| {
        if number == 1 {
            return peer.answer(OK);
        }
        _ = peer.reader.get_mut().read(&mut [0; 1_000])?;
        peer.write(TOO_LARGE)?;
        peer.wait()?;
        peer.outlast()
    });
    let client = client(&format!("http://{}/", server.address), 3_000);
    let body = vec![b'x'; 32 << 20];
    assert_eq!(client.send(&request(&[], &body)), answered(413, b"no"));
    server.go_on();
    // Sooner than the server loses patience with what it is not sent.
    assert_eq!(client.send(&request(&[], b"x")), answered(200, b"ok"));
    assert_eq!(server.next().connection, 1);
}

#[test]
fn a_100_in_the_middle_of_a_slow_upload_is_no_answer() {
    let server = Server::start(1, |peer, _| {
        _ = peer.reader.get_mut().peek(&mut [0])?;
        peer.write(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        // Longer than the client waits before it looks whether there is an answer.
        _ = peer.wait_for(Duration::from_millis(1_200));
        peer.answer(b"HTTP/1.1 202 Yes\r\nContent-Length: 0\r\n\r\n")
    });
    let client = client(&format!("http://{}/", server.address), 10_000);
    let body = vec![b'x'; 32 << 20];
    assert_eq!(client.send(&request(&[], &body)), answered(202, b""));
    assert_eq!(server.next().body.len(), body.len());
}

#[test]
fn a_page_of_a_portal_is_an_answer_that_shows_what_it_is() {
    let server = Server::start(1, |peer, _| {
        peer.answer(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 39\r\n\r\n\
              <html><title>Hotel Wi-Fi</title></html>",
        )?;
        peer.answer(
            b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\nContent-Length: 0\r\n\r\n",
        )?;
        peer.answer(b"HTTP/1.1 511 Network Authentication Required\r\nContent-Length: 0\r\n\r\n")
    });
    let client = client_of(&server);
    for expected in [
        answered(200, b"<html><title>Hotel Wi-Fi</title></html>"),
        answered(302, b""),
        answered(511, b""),
    ] {
        assert_eq!(client.send(&request(&[], b"x")), expected);
    }
}

#[test]
fn what_breaks_off_after_the_status_does_not_take_it_back() {
    let rows: &[(&str, Script)] = &[
        ("reset", |peer, _| {
            peer.read()?;
            peer.write(b"HTTP/1.1 202 Yes\r\nContent-Length: 100\r\n\r\nhalf")?;
            peer.wait()?;
            // The client has sent on, which nobody reads: this resets.
            Ok(())
        }),
        ("closed", |peer, _| {
            peer.answer(b"HTTP/1.1 202 Yes\r\nContent-Length: 100\r\n\r\nhalf")?;
            peer.reader.get_mut().shutdown(Shutdown::Both)
        }),
        ("broken chunks", |peer, _| {
            peer.answer(b"HTTP/1.1 202 Yes\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz")
        }),
    ];
    for (what, script) in rows {
        let server = Server::start(1, *script);
        server.go_on();
        let outcome = client_of(&server).send(&request(&[], b"x"));
        assert_eq!(outcome, answered(202, b"half"), "{what}");
    }
}

#[test]
fn an_answer_that_drips_is_heard_within_the_timeout_and_not_after() {
    fn drip(peer: &mut crate::server::Peer, bytes: &[u8]) -> std::io::Result<()> {
        for byte in bytes {
            peer.write(&[*byte])?;
            peer.reader.get_mut().flush()?;
            _ = peer.wait_for(Duration::from_millis(5));
        }
        Ok(())
    }
    let server = Server::start(1, |peer, _| {
        peer.read()?;
        drip(peer, b"HTTP/1.1 202 Yes\r\nContent-Length: 2\r\n\r\nok")
    });
    let outcome = client_of(&server).send(&request(&[], b"x"));
    assert_eq!(outcome, answered(202, b"ok"));

    let server = Server::start(1, |peer, _| {
        peer.read()?;
        peer.write(b"HTTP/1.1 202 Yes\r\n")?;
        drip(peer, &b"X: y\r\n".repeat(1_000))
    });
    let client = client(&format!("http://{}/", server.address), 300);
    let begun = Instant::now();
    assert_eq!(client.send(&request(&[], b"x")), Outcome::TimedOut);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn no_answer_is_kept_or_read_beyond_its_bounds() {
    let server = Server::start(1, |peer, _| {
        peer.read()?;
        peer.write(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            peer.write(b"1000\r\n")?;
            peer.write(&[b'x'; 0x1000])?;
            peer.write(b"\r\n")?;
        }
    });
    let outcome = client_of(&server).send(&request(&[], b"x"));
    assert_eq!(outcome, answered(500, &[b'x'; Answer::LONGEST_HEAD]));
}
