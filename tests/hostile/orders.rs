//! What the rest of the gateway tells the device plane: drain, stop, refuse.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use gatepost::clock::SystemClock;
use gatepost::http::{Answer, Limits};

use crate::senders::limits;
use crate::wire::{POST, Running, accepted, answer, closed, echo, is_silent, read_all, say};

#[test]
fn draining_finishes_what_was_begun_and_lets_nobody_in() {
    let server = Running::by_hand(limits());
    let mut idle = server.connect();
    let mut waiting = server.send(POST);
    let (ticket, request) = server.next();
    let mut half = server.send(&POST[..20]);
    server.pass(Duration::ZERO);

    server.answers.drain();
    closed(&mut idle, "nothing was begun");
    assert!(TcpStream::connect(server.address).is_err());
    assert!(is_silent(&mut waiting) && is_silent(&mut half));

    server.answers.send(vec![(ticket, echo(&request))]);
    assert!(read_all(&mut waiting).contains("\r\nConnection: close\r\n"));
    say(&mut half, &POST[20..]);
    let (ticket, request) = server.next();
    server.answers.send(vec![(ticket, echo(&request))]);
    assert!(read_all(&mut half).starts_with("HTTP/1.1 202 "));
    server.join();
}

#[test]
fn draining_waits_no_longer_than_a_sender_may_take() {
    let server = Running::by_hand(limits());
    let mut half = server.send(&POST[..20]);
    server.pass(Duration::ZERO);
    server.answers.drain();
    let clock = server.clock.clone();
    clock.pass(limits().head_time);
    server.answers.send(Vec::new());
    closed(&mut half, "its time was up");
    server.join();
}

#[test]
fn stopping_ends_at_once_with_the_answers_that_were_given() {
    let server = Running::by_hand(limits());
    let mut answered = server.send(POST);
    let (ticket, request) = server.next();
    let mut waiting = server.send(POST);
    server.next();
    server.answers.send(vec![(ticket, echo(&request))]);
    server.answers.stop();
    assert_eq!(accepted(&mut answered), b"hi");
    closed(&mut waiting, "its answer was not given");
    let answers = server.answers.clone();
    server.join();
    answers.send(vec![(ticket, Answer::refusal())]);
}

#[test]
fn refusing_all_answers_who_waits_and_who_comes() {
    let server = Running::by_hand(limits());
    let mut waiting = server.send(POST);
    let (ticket, request) = server.next();
    server.answers.refuse_all();
    // A request that comes later is refused too, on an old connection and on a new one.
    for stream in [&mut waiting, &mut server.connect()] {
        say(stream, POST);
        let (head, body) = answer(stream);
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        assert!(head.contains("\r\nRetry-After: 5\r\n"), "{head}");
        assert!(!body.is_empty());
    }
    assert!(answer(&mut waiting).0.starts_with("HTTP/1.1 503 "));
    server.answers.send(vec![(ticket, echo(&request))]);
    say(&mut waiting, POST);
    assert!(answer(&mut waiting).0.starts_with("HTTP/1.1 503 "));
    assert_eq!(server.unseen(), 0);
}

#[test]
fn a_request_that_nobody_takes_is_refused() {
    let mut server = Running::by_hand(limits());
    server.batches = crossbeam_channel::never();
    let mut stream = server.send(POST.repeat(2));
    for _ in 0..2 {
        assert!(answer(&mut stream).0.starts_with("HTTP/1.1 503 "));
    }
    say(&mut stream, POST);
    assert!(answer(&mut stream).0.starts_with("HTTP/1.1 503 "));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let server = Running::by_hand(Limits::default());
    let (requests, _batches) = crossbeam_channel::bounded(1);
    let error = gatepost::http::Server::bind(
        &[server.address],
        Limits::default(),
        server.clock.clone(),
        requests,
    )
    .expect_err("it is in use");
    let wanted = format!("cannot listen on {}", server.address);
    assert_eq!(error.to_string(), wanted);
}

/// More than the 128 that libraries ask for; Linux before 5.4 has no room for more.
#[test]
fn hundreds_may_wait_to_be_let_in() {
    const WAITING: usize = 500;
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("this is Linux");
    let most: usize = most.trim().parse().expect("a number");
    let (requests, _batches) = crossbeam_channel::bounded(1);
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let clock = Arc::new(SystemClock::new());
    // It does not run, so nobody is let in.
    let server = gatepost::http::Server::bind(&[loopback], Limits::default(), clock, requests);
    let server = server.expect("port 0 is free");
    let address = server.addresses()[0];
    // One that is not heard tries again after a second.
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900));
    let waiting: Result<Vec<TcpStream>, _> = (0..WAITING.min(most)).map(connect).collect();
    assert!(waiting.is_ok(), "{waiting:?}");
}
