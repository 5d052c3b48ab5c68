//! TLS: whom the client trusts, who it is, and what it says when that does not hold.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use gatepost::clock::{ManualClock, Timestamp};
use gatepost::config::{ClientFiles, Destination, Way};
use gatepost::delivery::Outcome;
use gatepost::upstream::{Http, Transport};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;

use crate::server::{PATIENCE, Script, Server};
use crate::{OK, answered, client, destination, request, unreachable};

/// A file of the tests' certificates: all by `ca.pem` or themselves, with `key.pem`, from 2000 to
/// 2125 except those whose name says otherwise; `client.pem` has a key of its own.
pub(crate) fn certificate(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/certificates");
    folder.join(name)
}

/// A server that answers each request it can decrypt.
pub(crate) struct Secured {
    pub(crate) address: SocketAddr,
    /// For each request: over which connection, from 0.
    seen: Receiver<usize>,
}

impl Secured {
    /// Serves `connections` and shows `name`; `asks` for a certificate by `ca.pem`.
    pub(crate) fn start(name: &str, asks: bool, connections: usize) -> Self {
        let config = Arc::new(server_config(name, asks));
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let (sender, seen) = channel();
        thread::spawn(move || {
            for number in 0..connections {
                let Ok((mut stream, _)) = listener.accept() else {
                    return;
                };
                _ = stream.set_read_timeout(Some(PATIENCE));
                let Ok(mut tls) = rustls::ServerConnection::new(Arc::clone(&config)) else {
                    return;
                };
                let mut secure = rustls::Stream::new(&mut tls, &mut stream);
                while let Ok(true) = answer_one(&mut secure) {
                    _ = sender.send(number);
                }
                // What the client still sends must not reset the alert that it is to hear.
                _ = io::copy(&mut stream, &mut io::sink());
            }
        });
        Self { address, seen }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/", self.address.port())
    }
}

/// Answers a request with a body of one byte; false at the end.
fn answer_one(stream: &mut (impl Read + Write)) -> io::Result<bool> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            return Ok(false);
        }
        head.push(byte[0]);
    }
    stream.read_exact(&mut byte)?;
    stream.write_all(OK)?;
    stream.flush()?;
    Ok(true)
}

fn server_config(name: &str, asks: bool) -> rustls::ServerConfig {
    let read = |name: &str| CertificateDer::from_pem_file(certificate(name));
    let key = PrivateKeyDer::from_pem_file(certificate("key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows them");
    let builder = if asks {
        let mut roots = rustls::RootCertStore::empty();
        let ca = read("ca.pem").expect("a certificate");
        roots.add(ca).expect("it is an issuer's");
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        builder.with_client_cert_verifier(verifier.build().expect("there is an issuer"))
    } else {
        builder.with_no_client_auth()
    };
    let chain = vec![read(name).expect("a certificate")];
    builder
        .with_single_cert(chain, key)
        .expect("the key is the certificate's")
}

/// A client that trusts `ca.pem` only, if at all.
fn trusting(url: &str, trusts: bool, client: Option<ClientFiles>) -> Destination {
    Destination {
        way: Way {
            ca_file: trusts.then(|| certificate("ca.pem")),
            client,
            ..Way::default()
        },
        ..destination(url, 2_000)
    }
}

/// What a client says of a server that shows `name`, with a clock that is set or not.
fn over_tls(name: &str, trusts: bool, clock_is_set: bool) -> Outcome {
    let server = Secured::start(name, false, 1);
    let clock = ManualClock::default();
    clock.set_wall(Timestamp::from_ms(0), clock_is_set);
    let to = trusting(&server.url(), trusts, None);
    let client = Http::by(&to, Arc::new(clock)).expect("the address is right");
    let outcome = client.send(&request(&[], b"s"));
    let was_sent = server.seen.try_recv().is_ok();
    assert_eq!(was_sent, matches!(outcome, Outcome::Answered(_)), "{name}");
    outcome
}

#[test]
fn a_certificate_that_does_not_hold_is_named_and_nothing_is_sent() {
    let rows = [
        (
            "untrusted.pem",
            true,
            "certificate from an issuer that is not trusted",
        ),
        // The public issuers are trusted, and this is none of them.
        (
            "server.pem",
            false,
            "certificate from an issuer that is not trusted",
        ),
        ("elsewhere.pem", true, "certificate is for another host"),
    ];
    for (name, trusts, why) in rows {
        for clock_is_set in [true, false] {
            let outcome = over_tls(name, trusts, clock_is_set);
            assert_eq!(outcome, unreachable(why), "{name}");
        }
    }
    // To a clock that is behind, as that of a box without a battery, each one is of the future.
    let rows = [
        (
            "not-yet-valid.pem",
            "certificate not valid yet, by a clock that is set",
            "certificate not valid yet: the clock of this box is not set",
        ),
        (
            "expired.pem",
            "certificate expired",
            "certificate expired, or the clock of this box, which is not set, is ahead",
        ),
    ];
    for (name, when_set, when_not) in rows {
        assert_eq!(over_tls(name, false, true), unreachable(when_set));
        assert_eq!(over_tls(name, false, false), unreachable(when_not));
    }
}

#[test]
fn an_issuer_of_ones_own_is_trusted_in_place_of_the_public_ones() {
    assert_eq!(over_tls("server.pem", true, true), answered(200, b"ok"));
}

#[test]
fn a_connection_with_tls_is_used_again() {
    let server = Secured::start("server.pem", false, 2);
    let client = Http::new(&trusting(&server.url(), true, None)).expect("all is right");
    for _ in 0..3 {
        assert_eq!(client.send(&request(&[], b"s")), answered(200, b"ok"));
        assert_eq!(server.seen.recv_timeout(PATIENCE), Ok(0));
    }
}

#[test]
fn who_is_asked_for_a_certificate_shows_the_one_of_the_moment() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = ClientFiles {
        cert: folder.path().join("client.pem"),
        key: folder.path().join("client-key.pem"),
    };
    let put = |cert: &str, key: &str| {
        for (from, to) in [(cert, &files.cert), (key, &files.key)] {
            let new = folder.path().join("new");
            fs::copy(certificate(from), &new).expect("it can be written");
            fs::rename(new, to).expect("it can be renamed");
        }
    };
    let server = Secured::start("server.pem", true, 3);
    let without = Http::new(&trusting(&server.url(), true, None)).expect("all is right");
    let why = unreachable("the other side wants to see a client_cert");
    assert_eq!(without.send(&request(&[], b"s")), why);
    put("untrusted.pem", "key.pem");
    let to = trusting(&server.url(), true, Some(files.clone()));
    let client = Http::new(&to).expect("all is right");
    let outcome = client.send(&request(&[], b"s"));
    assert_eq!(
        outcome,
        unreachable("TLS refused by the other side: UnknownCA")
    );
    put("client.pem", "client-key.pem");
    assert_eq!(client.send(&request(&[], b"s")), answered(200, b"ok"));
}

#[test]
fn certificates_that_do_not_belong_together_are_found_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let broken = folder.path().join("broken.pem");
    let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&broken, text).expect("it can be written");
    let client = |cert: &str, key: &str| {
        Some(ClientFiles {
            cert: certificate(cert),
            key: certificate(key),
        })
    };
    let rows = [
        (
            None,
            client("client.pem", "key.pem"),
            "client_key is not the key of the certificate in client_cert, which comes first in its \
             file",
        ),
        (
            None,
            client("key.pem", "key.pem"),
            "client_cert holds no PEM certificate",
        ),
        (
            None,
            client("client.pem", "ca.pem"),
            "client_key holds no PEM key that is not encrypted",
        ),
        (
            Some(broken),
            None,
            "ca_file holds what is no issuer's certificate: ",
        ),
    ];
    for (ca_file, client, why) in rows {
        let to = Destination {
            way: Way {
                ca_file,
                client,
                proxy: None,
            },
            ..destination("https://localhost/", 2_000)
        };
        let error = Http::new(&to).err().map(|error| error.to_string());
        let expected = format!("destination \"cloud\": {why}");
        assert!(
            error
                .as_ref()
                .is_some_and(|error| error.starts_with(&expected)),
            "{error:?}"
        );
    }
}

#[test]
fn a_port_without_tls_is_named() {
    let server = Server::start(1, |peer, _| {
        peer.reader.get_mut().peek(&mut [0])?;
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        peer.outlast()
    });
    let client = client(&format!("https://{}/", server.address), 2_000);
    assert_eq!(
        client.send(&request(&[], b"x")),
        unreachable("TLS failed: the other side does not speak it on this port")
    );
}

#[test]
fn a_tls_handshake_that_stalls_or_breaks_off_is_unreachable() {
    let rows: &[(&str, &str, Script)] = &[
        ("stalls", "no TLS handshake in time", |peer, _| {
            peer.outlast()
        }),
        ("closes", "connection closed before an answer", |peer, _| {
            _ = peer.reader.read(&mut [0; 16_384])?;
            Ok(())
        }),
    ];
    for (what, why, script) in rows {
        let server = Server::start(1, *script);
        let client = client(&format!("https://{}/", server.address), 300);
        assert_eq!(client.send(&request(&[], b"x")), unreachable(why), "{what}");
    }
}
