//! Tokens and signatures whose files are replaced while the client runs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gatepost::clock::{ManualClock, Timestamp};
use gatepost::config::{Destination, Sign};
use gatepost::delivery::Outcome;
use gatepost::sign::Secrets;
use gatepost::upstream::{Http, Outgoing, Transport};

use crate::server::Server;
use crate::{OK, answered, destination, request};

const REFUSED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";

#[test]
fn a_token_is_read_at_each_attempt_and_its_lack_holds_the_destination() {
    let server = Server::start(1, |peer, _| {
        peer.answer(OK)?;
        peer.answer(OK)
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("token");
    let mut to = destination(&format!("http://{}/", server.address), 2_000);
    to.token_file = Some(file.clone());
    let client = Http::new(&to).expect("the address is right");
    let missing = client.send(&request(&[], b"x"));
    assert!(matches!(missing, Outcome::Misconfigured(_)), "{missing:?}");
    for token in ["one", "two"] {
        fs::write(&file, format!("{token}\n")).expect("it can be written");
        assert_eq!(client.send(&request(&[], b"x")), answered(200, b"ok"));
        let expected = format!("Bearer {token}");
        assert_eq!(
            server.next().value("authorization"),
            Some(expected.as_bytes())
        );
    }
}

/// A client with a token file that holds "one".
fn with_token(server: &Server) -> (Http, PathBuf, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("token");
    fs::write(&file, "one\n").expect("it can be written");
    let mut to = destination(&format!("http://{}/", server.address), 2_000);
    to.token_file = Some(file.clone());
    (Http::new(&to).expect("the address is right"), file, folder)
}

#[test]
fn a_token_that_is_gone_or_no_token_leaves_the_old_one_in_use() {
    let server = Server::start(1, |peer, _| {
        peer.answer(OK)?;
        peer.answer(OK)?;
        peer.answer(OK)
    });
    let (client, file, _folder) = with_token(&server);
    for step in 0..3 {
        match step {
            0 => {}
            1 => fs::write(&file, "two\nlines\n").expect("it can be written"),
            _ => fs::remove_file(&file).expect("it is there"),
        }
        assert_eq!(client.send(&request(&[], b"x")), answered(200, b"ok"));
        let seen = server.next();
        assert_eq!(
            seen.value("authorization"),
            Some(&b"Bearer one"[..]),
            "{step}"
        );
    }
}

#[test]
fn a_refused_token_that_was_replaced_meanwhile_is_not_what_counts() {
    let server = Server::start(3, |peer, number| {
        if number < 2 {
            // The renewal comes while the request is on its way.
            peer.read()?;
            peer.wait()?;
            return peer.write(REFUSED);
        }
        peer.answer(OK)
    });
    let (client, file, _folder) = with_token(&server);
    let send = || client.send(&request(&[], b"x"));
    std::thread::scope(|scope| {
        // Without a renewal a refusal is the outcome, at once.
        let outcome = scope.spawn(send);
        server.next();
        server.go_on();
        let outcome = outcome.join().expect("no panic");
        assert!(matches!(outcome, Outcome::Answered(answer) if answer.status == 401));
    });
    assert!(server.seen.try_recv().is_err(), "it was sent once");
    std::thread::scope(|scope| {
        let outcome = scope.spawn(send);
        let seen = server.next();
        assert_eq!(seen.value("authorization"), Some(&b"Bearer one"[..]));
        fs::write(&file, "two\n").expect("it can be written");
        server.go_on();
        let outcome = outcome.join().expect("no panic");
        assert_eq!(outcome, answered(200, b"ok"));
    });
    let seen = server.next();
    assert_eq!(seen.value("authorization"), Some(&b"Bearer two"[..]));
}

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

struct Signing {
    client: Http,
    clock: Arc<ManualClock>,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

fn signing(server: &Server, wait_for_clock: bool) -> Signing {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("secret");
    fs::write(&file, format!("{OLD}\n")).expect("it can be written");
    let to = Destination {
        sign: Some(Sign {
            file: file.clone(),
            wait_for_clock,
        }),
        ..destination(&format!("http://{}/", server.address), 2_000)
    };
    let clock = Arc::new(ManualClock::default());
    clock.set_wall(Timestamp::from_ms(1_614_265_330_999), true);
    let wall = Arc::clone(&clock);
    Signing {
        client: Http::by(&to, wall).expect("the address is right"),
        clock,
        file,
        _folder: folder,
    }
}

fn signed() -> Outgoing {
    request(&[("webhook-id", b"2a-7")], br#"{"test": 2432232314}"#)
}

#[test]
fn each_attempt_is_signed_anew_with_all_secrets_of_the_moment() {
    let server = Server::start(1, |peer, _| {
        peer.answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")?;
        peer.answer(OK)?;
        peer.answer(OK)
    });
    let signing = signing(&server, true);
    let mut at_s = 1_614_265_330;
    for secrets in [OLD.to_owned(), format!("{NEW}\n{OLD}"), NEW.to_owned()] {
        fs::write(&signing.file, format!("{secrets}\n")).expect("it can be written");
        signing.client.send(&signed());
        let seen = server.next();
        assert_eq!(seen.value("webhook-id"), Some(&b"2a-7"[..]));
        let time = at_s.to_string();
        assert_eq!(seen.value("webhook-timestamp"), Some(time.as_bytes()));
        let secrets = Secrets::parse(secrets.as_bytes()).expect("they are");
        let expected = secrets.signatures("2a-7", at_s, &seen.body);
        assert_eq!(seen.value("webhook-signature"), Some(expected.as_bytes()));
        signing.clock.advance(Duration::from_secs(7));
        at_s += 7;
    }
}

#[test]
fn nothing_is_signed_by_a_clock_that_is_not_set_unless_told_to() {
    let server = Server::start(1, |peer, _| peer.answer(OK));
    let waits = signing(&server, true);
    waits.clock.set_wall(Timestamp::from_ms(0), false);
    let why = "not sent: the clock of this box is not set, and a signature has its time";
    let outcome = waits.client.send(&signed());
    assert_eq!(outcome, Outcome::Unreachable(why.to_owned()));
    assert!(server.seen.try_recv().is_err(), "nothing was sent");
    let goes_on = signing(&server, false);
    goes_on.clock.set_wall(Timestamp::from_ms(5_000), false);
    assert_eq!(goes_on.client.send(&signed()), answered(200, b"ok"));
    assert_eq!(server.next().value("webhook-timestamp"), Some(&b"5"[..]));
}

#[test]
fn without_a_secret_nothing_leaves_unsigned() {
    let server = Server::start(1, |peer, _| peer.answer(OK));
    let signing = signing(&server, true);
    fs::write(&signing.file, "s3cret\n").expect("it can be written");
    let outcome = signing.client.send(&signed());
    let Outcome::Misconfigured(why) = &outcome else {
        unreachable!("{outcome:?}");
    };
    assert!(why.starts_with("sign.file can't be used: "), "{why}");
    assert!(!why.contains("s3cret"), "{why}");
    assert!(server.seen.try_recv().is_err(), "nothing was sent");
}
