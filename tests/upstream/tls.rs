//! TLS that does not come about.

use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use gatepost::delivery::Outcome;
use gatepost::upstream::Transport;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::server::{PATIENCE, Script, Server};
use crate::{client, request, unreachable};

/// What an HTTPS client says of a server that has `certificate`.
fn over_tls(certificate: &[u8]) -> Outcome {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/key.pem")).expect("a key");
    let certificate = CertificateDer::from_pem_slice(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring knows them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is the certificate's");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut server =
                rustls::ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
            server.complete_io(&mut stream)
        });
        client(&format!("https://localhost:{}/", address.port()), 2_000)
            .send(&request(&[], b"secret"))
    })
}

#[test]
fn a_certificate_that_does_not_hold_is_named_and_nothing_is_sent() {
    let rows: [(&str, &[u8], &str); 3] = [
        (
            "self-made",
            include_bytes!("certificates/untrusted.pem"),
            "certificate from an issuer that is not trusted",
        ),
        (
            "of the future, as every one is to a clock that is behind",
            include_bytes!("certificates/not-yet-valid.pem"),
            "certificate not valid yet: is the clock right?",
        ),
        (
            "of the past",
            include_bytes!("certificates/expired.pem"),
            "certificate expired, or the clock is ahead",
        ),
    ];
    for (what, certificate, why) in rows {
        assert_eq!(over_tls(certificate), unreachable(why), "{what}");
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
        ("stalls", "no connection in time", |peer, _| peer.outlast()),
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
