//! Ways through a proxy: small ones that really carry bytes, and ones that do not.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use gatepost::config::{Destination, Proxy, ProxyKind, Way};
use gatepost::delivery::Outcome;
use gatepost::upstream::{Http, Transport};

use crate::server::{PATIENCE, Server};
use crate::tls::{Secured, certificate};
use crate::{OK, answered, destination, request, unreachable};

/// What a proxy was asked for: where to, and with which login.
type Asked = (String, Option<String>);

struct Carrier {
    address: SocketAddr,
    asked: Receiver<Asked>,
}

impl Carrier {
    /// Carries `connections` to `target`, whatever the name that is asked for.
    fn start(kind: ProxyKind, target: SocketAddr, connections: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let (sender, asked) = channel();
        thread::spawn(move || {
            for _ in 0..connections {
                let Ok((client, _)) = listener.accept() else {
                    return;
                };
                let sender = sender.clone();
                thread::spawn(move || {
                    _ = client.set_read_timeout(Some(PATIENCE));
                    match kind {
                        ProxyKind::Http => http(client, target, &sender),
                        ProxyKind::Socks5 => socks(client, target, &sender),
                    }
                });
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).expect("it is asked")
    }
}

fn http(client: TcpStream, target: SocketAddr, asked: &Sender<Asked>) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    let (mut host, mut login) = (String::new(), None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(rest) = line.strip_prefix("CONNECT ") {
            rest.trim_end_matches(" HTTP/1.1\r\n").clone_into(&mut host);
        }
        if let Some(value) = line.strip_prefix("Proxy-Authorization: ") {
            login = Some(value.trim().to_owned());
        }
        if line.trim().is_empty() {
            break;
        }
    }
    asked.send((host, login)).map_err(io::Error::other)?;
    let mut client = reader.into_inner();
    client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")?;
    carry(client, target)
}

fn socks(mut client: TcpStream, target: SocketAddr, asked: &Sender<Asked>) -> io::Result<()> {
    let [_, count] = take::<2>(&mut client)?;
    let mut methods = vec![0; count.into()];
    client.read_exact(&mut methods)?;
    let mut login = None;
    if methods.contains(&2) {
        client.write_all(&[5, 2])?;
        take::<1>(&mut client)?;
        let (user, password) = (text(&mut client)?, text(&mut client)?);
        login = Some(format!("{user}:{password}"));
        client.write_all(&[1, 0])?;
    } else {
        client.write_all(&[5, 0])?;
    }
    let [_, _, _, kind] = take::<4>(&mut client)?;
    let host = if kind == 3 {
        text(&mut client)?
    } else {
        std::net::Ipv4Addr::from(take::<4>(&mut client)?).to_string()
    };
    let port = u16::from_be_bytes(take::<2>(&mut client)?);
    let asked_for = (format!("{host}:{port}"), login);
    asked.send(asked_for).map_err(io::Error::other)?;
    client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80])?;
    carry(client, target)
}

fn take<const LENGTH: usize>(from: &mut impl Read) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn text(from: &mut impl Read) -> io::Result<String> {
    let [length] = take::<1>(from)?;
    let mut text = vec![0; length.into()];
    from.read_exact(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

fn carry(client: TcpStream, target: SocketAddr) -> io::Result<()> {
    let server = TcpStream::connect(target)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        _ = io::copy(&mut from_client, &mut to_server);
        _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    _ = io::copy(&mut from_server, &mut to_client);
    to_client.shutdown(Shutdown::Both)
}

fn by(kind: ProxyKind, address: SocketAddr) -> Proxy {
    Proxy {
        kind,
        host: address.ip().to_string(),
        port: address.port(),
        login_file: None,
    }
}

fn client(url: &str, proxy: Proxy) -> Http {
    let to = Destination {
        way: Way {
            ca_file: Some(certificate("ca.pem")),
            proxy: Some(proxy),
            ..Way::default()
        },
        ..destination(url, 2_000)
    };
    Http::new(&to).expect("the address is right")
}

const KINDS: [ProxyKind; 2] = [ProxyKind::Http, ProxyKind::Socks5];

#[test]
fn a_proxy_is_asked_for_a_name_that_only_it_knows_and_once_for_several_events() {
    for kind in KINDS {
        let server = Server::start(1, |peer, _| {
            peer.answer(OK)?;
            peer.answer(OK)
        });
        let carrier = Carrier::start(kind, server.address, 1);
        let client = client("http://upstream.invalid/events", by(kind, carrier.address));
        for body in [b"1", b"2"] {
            let outcome = client.send(&request(&[], body));
            assert_eq!(outcome, answered(200, b"ok"), "{kind:?}");
            let seen = server.next();
            assert_eq!(seen.head[0], b"POST /events HTTP/1.1");
            assert_eq!(seen.value("host"), Some(&b"upstream.invalid"[..]));
            assert_eq!((seen.connection, &seen.body[..]), (0, &body[..]));
        }
        assert_eq!(carrier.asked(), ("upstream.invalid:80".to_owned(), None));
        assert!(carrier.asked.try_recv().is_err(), "{kind:?}: asked twice");
    }
}

#[test]
fn tls_goes_through_a_proxy_to_the_destination_itself() {
    for kind in KINDS {
        let server = Secured::start("server.pem", false, 1);
        let carrier = Carrier::start(kind, server.address, 1);
        let client = client("https://localhost/", by(kind, carrier.address));
        let outcome = client.send(&request(&[], b"x"));
        assert_eq!(outcome, answered(200, b"ok"), "{kind:?}");
        assert_eq!(carrier.asked(), ("localhost:443".to_owned(), None));
    }
}

#[test]
fn a_login_is_for_the_proxy_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("login");
    fs::write(&file, "me:s3cret\n").expect("it can be written");
    for (kind, login) in [
        (ProxyKind::Http, "Basic bWU6czNjcmV0"),
        (ProxyKind::Socks5, "me:s3cret"),
    ] {
        let server = Server::start(1, |peer, _| peer.answer(OK));
        let carrier = Carrier::start(kind, server.address, 1);
        let proxy = Proxy {
            login_file: Some(file.clone()),
            ..by(kind, carrier.address)
        };
        let client = client("http://10.0.0.9:8080/", proxy);
        assert_eq!(client.send(&request(&[], b"x")), answered(200, b"ok"));
        let expected = ("10.0.0.9:8080".to_owned(), Some(login.to_owned()));
        assert_eq!(carrier.asked(), expected);
        assert_eq!(server.next().value("proxy-authorization"), None);
    }
}

#[test]
fn a_proxy_that_does_not_lead_through_is_to_blame_by_name() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let nobody = nobody.expect("loopback is there");
    for kind in KINDS {
        let outcome = client("http://a.example/", by(kind, nobody)).send(&request(&[], b"x"));
        let expected = unreachable("proxy can't be reached: connection refused");
        assert_eq!(outcome, expected, "{kind:?}");
    }
    let silent = Server::start(2, |peer, _| peer.outlast());
    for kind in KINDS {
        let to = Destination {
            way: Way {
                proxy: Some(by(kind, silent.address)),
                ..Way::default()
            },
            ..destination("http://a.example/", 600)
        };
        let client = Http::new(&to).expect("the address is right");
        let expected = unreachable("proxy did not answer in time");
        assert_eq!(client.send(&request(&[], b"x")), expected, "{kind:?}");
        drop(client);
    }
    let rows: [(&'static [u8], ProxyKind, &str); 3] = [
        (
            b"HTTP/1.1 403 Forbidden\r\n\r\n",
            ProxyKind::Http,
            "proxy refused: HTTP 403",
        ),
        (
            b"\x05\x00\x05\x02\x00\x01",
            ProxyKind::Socks5,
            "proxy refused: its rules forbid it",
        ),
        (
            b"\x05\xff",
            ProxyKind::Socks5,
            "proxy refused: it wants a proxy_login_file",
        ),
    ];
    for (says, kind, why) in rows {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept()?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(says)?;
                io::copy(&mut stream, &mut io::sink())
            });
            client("http://a.example/", by(kind, address)).send(&request(&[], b"x"))
        });
        assert_eq!(outcome, unreachable(why));
    }
}

#[test]
fn a_proxy_whose_name_leads_nowhere_is_named() {
    let proxy = Proxy {
        host: "gatepost.invalid".to_owned(),
        ..by(ProxyKind::Http, SocketAddr::from(([127, 0, 0, 1], 1)))
    };
    let outcome = client("http://127.0.0.1:1/", proxy).send(&request(&[], b"x"));
    let Outcome::Unreachable(why) = &outcome else {
        unreachable!("{outcome:?}");
    };
    assert!(
        why.starts_with("proxy has a name that leads nowhere: "),
        "{why}"
    );
}
