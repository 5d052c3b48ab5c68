//! More senders than there is room for: connections, descriptors, memory, turns.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use gatepost::event::Request;
use gatepost::http::{Limits, Ticket};

use crate::senders::limits;
use crate::wire::{
    PATIENCE, POST, Running, accepted, answer, closed, echo, is_silent, refused, say,
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn sixty_four_that_reconnect_together_are_all_answered() {
    let server = Running::echo(limits());
    let mut streams: Vec<TcpStream> = (0..64).map(|_| server.connect()).collect();
    for round in 0..20 {
        let body = format!("{round:0350}");
        let request = format!("POST /a HTTP/1.1\r\nContent-Length: 350\r\n\r\n{body}");
        for stream in &mut streams {
            say(stream, &request);
        }
        for stream in &mut streams {
            assert_eq!(accepted(stream), body.as_bytes());
        }
    }
    assert_eq!(server.answers.open_connections(), 64);
}

#[test]
fn senders_that_come_one_by_one_never_use_up_the_connections() {
    let server = Running::echo(Limits {
        connections: 3,
        ..limits()
    });
    for number in 0..20 {
        let mut sender = server.connect();
        say(
            &mut sender,
            "POST /a HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi",
        );
        assert_eq!(accepted(&mut sender), b"hi", "{number}");
    }
}

#[test]
fn a_fast_sender_starves_nobody() {
    let server = Running::echo(Limits {
        oversize_read: u64::MAX,
        ..limits()
    });
    let mut fast = server.send("POST /a HTTP/1.1\r\nContent-Length: 30000000000\r\n\r\n");
    let other_end = fast.try_clone().expect("a socket can be cloned");
    let sender = std::thread::spawn(move || while fast.write_all(&vec![b'x'; 65_536]).is_ok() {});
    let mut stream = server.connect();
    for _ in 0..200 {
        say(&mut stream, POST);
        accepted(&mut stream);
    }
    other_end.shutdown(Shutdown::Both).expect("it is open");
    sender.join().expect("it ends when its socket does");
}

#[test]
fn a_thousand_idle_connections_are_in_nobodys_way() {
    if !is_child() {
        // A process of its own, since its memory is measured.
        let output = child("crowd::a_thousand_idle", 8192).output();
        let output = output.expect("there is a shell");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    let server = Running::echo(Limits::default());
    let before = resident_kb();
    let idle: Vec<TcpStream> = (0..1000).map(|_| server.connect()).collect();
    server.wait_for_connections(1000);
    let grown = resident_kb() - before;
    assert!(grown < 1000, "1000 idle connections cost {grown} kB");
    let mut stream = server.connect();
    for _ in 0..100 {
        say(&mut stream, POST);
        accepted(&mut stream);
    }
    drop(idle);
    server.wait_for_connections(1);
}

#[test]
fn running_out_of_descriptors_makes_nobody_deaf() {
    if is_child() {
        let server = Running::echo(Limits::default());
        writeln!(std::io::stdout(), "\nport {}", server.address.port()).expect("we are heard");
        // Until the parent has seen enough.
        std::io::stdin()
            .read_to_end(&mut Vec::new())
            .expect("it can be read");
        return;
    }
    let mut child = child("crowd::running_out", 40)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    let lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
    let port: u16 = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("port ")?.parse().ok())
        .expect("the child says where it listens");
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a socket takes that");
        stream
    };
    let mut busy = connect();
    say(&mut busy, &POST[..20]);
    // All at once: nobody who comes later makes the server look again.
    let mut streams: Vec<TcpStream> = (0..200).map(|_| connect()).collect();
    for stream in &mut streams {
        // One that is idle for too long is closed to let the others in.
        _ = stream.write_all(POST.as_bytes());
    }
    let answered = streams.iter_mut().rev().take(20);
    for stream in answered {
        assert_eq!(accepted(stream), b"hi");
    }
    say(&mut busy, &POST[20..]);
    assert_eq!(accepted(&mut busy), b"hi");
    drop(child.stdin.take());
    let ended = child.wait().expect("it is our child");
    assert!(ended.success(), "{ended}");
}

#[test]
fn the_longest_idle_makes_room_and_who_is_busy_stays() {
    let server = Running::false_time(Limits {
        connections: 3,
        ..limits()
    });
    let mut busy = server.send(&POST[..20]);
    server.pass(SECOND);
    server.wait_for_connections(1);
    let mut first = server.send(POST);
    accepted(&mut first);
    server.pass(SECOND);
    server.wait_for_connections(2);
    let mut second = server.send(POST);
    accepted(&mut second);

    let mut fourth = server.send(POST);
    accepted(&mut fourth);
    closed(&mut first, "idle for longest");
    assert!(is_silent(&mut second));
    say(&mut busy, &POST[20..]);
    accepted(&mut busy);
    server.wait_for_connections(3);
}

#[test]
fn with_everybody_busy_a_new_sender_waits_until_there_is_room() {
    let server = Running::by_hand(Limits {
        connections: 2,
        ..limits()
    });
    let mut one = server.send(POST);
    let (ticket, request) = server.next();
    let _two = server.send(POST);
    server.next();
    let mut third = server.send(POST);
    server.answers.send(Vec::new());
    assert!(is_silent(&mut third));
    assert_eq!(server.unseen(), 0);
    server.answers.send(vec![(ticket, echo(&request))]);
    assert_eq!(accepted(&mut one), b"hi");
    let (ticket, request) = server.next();
    server.answers.send(vec![(ticket, echo(&request))]);
    assert_eq!(accepted(&mut third), b"hi");
    closed(&mut one, "it made room");
}

/// Two large bodies fit into the memory for bodies.
fn narrow() -> Limits {
    Limits {
        body_memory: 465_536,
        ..limits()
    }
}

fn large(length: usize) -> String {
    format!("POST /a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n")
}

/// The most of a large body, so that it holds the memory for all of it.
fn most() -> String {
    large(150_000) + &"x".repeat(140_000)
}

#[test]
fn large_uploads_wait_for_memory_and_small_events_do_not() {
    let server = Running::by_hand(narrow());
    let mut slow: Vec<TcpStream> = (0..2).map(|_| server.send(most())).collect();
    let_read(&server);
    let mut third = server.send(large(150_000));
    third
        .write_all(&vec![b'x'; 150_000])
        .expect("the kernel takes it");
    let_read(&server);
    server.pass(9 * SECOND);
    assert_eq!(server.unseen(), 0);
    for _ in 0..3 {
        let mut small = server.send(POST);
        let (ticket, request) = server.next();
        server.answers.send(vec![(ticket, echo(&request))]);
        accepted(&mut small);
    }
    // A sender that leaves gives its memory back.
    drop(slow.pop());
    let (ticket, request) = server.next();
    assert_eq!(request.body.len(), 150_000);
    server.answers.send(vec![(ticket, echo(&request))]);
    assert_eq!(accepted(&mut third).len(), 150_000);
}

#[test]
fn who_waits_for_memory_too_long_is_refused() {
    let server = Running::by_hand(narrow());
    let mut slow: Vec<TcpStream> = (0..2).map(|_| server.send(most())).collect();
    let_read(&server);
    let mut third = server.send(most());
    let_read(&server);
    for second in 0..10 {
        assert!(is_silent(&mut third), "{second}");
        for slow in &mut slow {
            say(slow, "x");
        }
        server.pass(SECOND);
    }
    third.shutdown(Shutdown::Write).expect("it is open");
    refused(&mut third, "10 s without memory");
    assert!(slow.iter_mut().all(is_silent));
}

#[test]
fn who_has_been_silent_longest_makes_room_for_who_waits() {
    let server = Running::by_hand(narrow());
    let mut first = server.send(most());
    let_read(&server);
    server.pass(SECOND);
    let mut second = server.send(most());
    let_read(&server);
    server.pass(SECOND);
    say(&mut first, "x");
    let body = "x".repeat(150_000);
    let mut third = server.send(large(150_000) + &body);
    let_read(&server);
    server.pass(9 * SECOND);
    assert!(is_silent(&mut first) && is_silent(&mut second));
    server.pass(SECOND);
    let (ticket, request) = server.next();
    server.answers.send(vec![(ticket, echo(&request))]);
    assert_eq!(accepted(&mut third), body.as_bytes());
    second.shutdown(Shutdown::Write).expect("it is open");
    refused(&mut second, "11 s of silence");
    say(&mut first, &body[140_001..]);
    let (_, request) = server.next();
    assert_eq!(request.body, body.as_bytes());
}

#[test]
fn what_is_declared_and_does_not_come_costs_nothing() {
    let server = Running::by_hand(narrow());
    let chunked = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n30d40\r\nx";
    let mut boasting: Vec<TcpStream> = (0..20).map(|_| server.send(large(200_000) + "x")).collect();
    boasting.extend((0..20).map(|_| server.send(chunked)));
    let_read(&server);
    for _ in 0..3 {
        let body = "x".repeat(150_000);
        let mut honest = server.send(large(150_000) + &body);
        let (ticket, request) = server.next();
        server.answers.send(vec![(ticket, echo(&request))]);
        assert_eq!(accepted(&mut honest), body.as_bytes());
    }
    assert!(boasting.iter_mut().all(is_silent));
}

#[test]
fn large_bodies_that_each_wait_for_more_do_not_block_each_other() {
    let server = Running::by_hand(narrow());
    let half = "x".repeat(70_000);
    let mut streams: Vec<TcpStream> = (0..4)
        .map(|_| server.send(large(150_000) + &half))
        .collect();
    let_read(&server);
    for stream in &mut streams {
        say(stream, "x".repeat(80_000));
    }
    let_read(&server);
    let mut whole = 0;
    for _ in 0..4 {
        server.pass(10 * SECOND);
        for batch in server.batches.try_iter() {
            whole += batch.len();
            let echoes = batch
                .iter()
                .map(|(ticket, request)| (*ticket, echo(request)));
            server.answers.send(echoes.collect());
        }
    }
    assert!(1 < whole, "{whole} of 4");
    for stream in &mut streams {
        let (head, _) = answer(stream);
        let is_accepted = head.starts_with("HTTP/1.1 202 ");
        assert!(is_accepted || head.starts_with("HTTP/1.1 503 "), "{head}");
    }
}

#[test]
fn the_time_of_a_body_stands_still_while_it_waits_for_memory() {
    let server = Running::by_hand(narrow());
    let mut slow: Vec<TcpStream> = (0..2).map(|_| server.send(most())).collect();
    let_read(&server);
    let mut third = server.send(large(150_000) + &"x".repeat(70_000));
    let_read(&server);
    server.pass(9 * SECOND);
    drop(slow.pop());
    let_read(&server);
    server.pass(67 * SECOND);
    assert!(is_silent(&mut third), "67 of 76 s count");
    server.pass(SECOND);
    closed(&mut third, "70 000 bytes in 68 s");
}

#[test]
fn the_memory_of_a_body_is_free_once_it_is_answered_even_if_its_sender_has_left() {
    let server = Running::by_hand(narrow());
    let body = "x".repeat(150_000);
    let mut gone = Vec::new();
    for _ in 0..2 {
        let stream = server.send(POST.to_owned() + &large(150_000) + &body);
        let (ticket, request) = server.next();
        server.answers.send(vec![(ticket, echo(&request))]);
        gone.push(server.next());
        // An answer that nobody has read makes this a reset.
        drop(stream);
    }
    server.wait_for_connections(0);
    let mut third = server.send(large(150_000) + &body);
    let_read(&server);
    assert_eq!(server.unseen(), 0, "both bodies are still in memory");
    for (ticket, request) in gone {
        server.answers.send(vec![(ticket, echo(&request))]);
    }
    let (ticket, request) = server.next();
    server.answers.send(vec![(ticket, echo(&request))]);
    assert_eq!(accepted(&mut third).len(), 150_000);
}

/// A request whose sender resets the connection once it was handed on.
fn leave_behind(server: &Running, request: &str) -> (Ticket, Request) {
    let stream = server.send(POST.to_owned() + request);
    let (ticket, first) = server.next();
    server.answers.send(vec![(ticket, echo(&first))]);
    let left = server.next();
    // An answer that nobody has read makes this a reset.
    drop(stream);
    server.wait_for_connections(0);
    left
}

#[test]
fn heads_are_counted_until_they_are_answered_even_if_their_senders_have_left() {
    let server = Running::by_hand(Limits {
        head_bytes: 32 * 1024,
        max_body: 1000,
        body_memory: 0,
        ..limits()
    });
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(30_000));
    // Two fit into the part for small ones, one or two into the rest.
    let mut left = vec![leave_behind(&server, &long), leave_behind(&server, &long)];
    let mut streams: Vec<TcpStream> = (0..3).map(|_| server.send(&long)).collect();
    let_read(&server);
    let under_way = server.unseen();
    assert!(under_way < 3, "{under_way} of 3");
    for (ticket, request) in left.drain(..) {
        server.answers.send(vec![(ticket, echo(&request))]);
    }
    let_read(&server);
    assert_eq!(server.unseen(), 3 - under_way);
    server.answers.refuse_all();
    for stream in &mut streams {
        assert!(answer(stream).0.starts_with("HTTP/1.1 503 "));
    }
}

#[test]
fn who_waits_for_memory_for_a_head_too_long_is_refused() {
    let server = Running::by_hand(Limits {
        head_bytes: 32 * 1024,
        max_body: 1000,
        body_memory: 0,
        ..limits()
    });
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(30_000));
    let mut streams: Vec<TcpStream> = (0..5).map(|_| server.send(&long)).collect();
    let_read(&server);
    let under_way = server.unseen();
    assert!(under_way < 5, "{under_way} of 5");
    server.pass(10 * SECOND);
    assert_eq!(server.unseen(), 0);
    let silent = streams.iter_mut().map(is_silent);
    let silent = silent.filter(|silent| *silent).count();
    assert_eq!(silent, under_way, "the others were answered");
}

#[test]
fn requests_whose_senders_have_left_count_as_connections() {
    let server = Running::by_hand(Limits {
        connections: 2,
        ..limits()
    });
    let mut left = vec![leave_behind(&server, POST), leave_behind(&server, POST)];
    let mut third = server.connect();
    say(&mut third, POST);
    for _ in 0..3 {
        server.answers.send(Vec::new());
        assert!(is_silent(&mut third));
    }
    assert_eq!(server.answers.open_connections(), 0);
    let (ticket, request) = left.remove(0);
    server.answers.send(vec![(ticket, echo(&request))]);
    let (ticket, request) = server.next();
    server.answers.send(vec![(ticket, echo(&request))]);
    assert_eq!(accepted(&mut third), b"hi");
}

/// Gives the server the turns that it needs to read some 100 kB of everybody.
fn let_read(server: &Running) {
    for _ in 0..10 {
        server.pass(Duration::ZERO);
    }
}

const INSIDE: &str = "GATEPOST_TEST_INSIDE";

fn is_child() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// The test of that name again, in a process of its own with so many descriptors.
fn child(name: &str, descriptors: u32) -> Command {
    let binary = std::env::current_exe().expect("a test knows its binary");
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!(
            "ulimit -n {descriptors} && exec \"$0\" --nocapture \"$1\""
        ))
        .arg(binary)
        .arg(name)
        .env(INSIDE, "1");
    command
}

/// Source: proc(5), `/proc/pid/status`.
fn resident_kb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number
        .and_then(|number| number.parse().ok())
        .expect("a number of kB")
}
