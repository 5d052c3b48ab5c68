//! The way through a proxy: `CONNECT` or SOCKS 5, for plain and TLS destinations alike.
//!
//! # Guarantees
//!
//! - The proxy looks up the destination's name, we look up the proxy's only.
//! - Getting through takes no longer than connecting may, and reads at most [`LONGEST_HEAD`].
//! - Whatever the proxy does, the error says that it was the proxy, and nothing that it sent.
//!
//! # Limits
//!
//! An `http` destination is reached by `CONNECT` too, to its port. A proxy that allows that only to
//! 443, as Squid does unless told otherwise, refuses it.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ureq::Error;
use ureq::http::Uri;
use ureq::unversioned::transport::{ConnectionDetails, Connector, TransportAdapter};

use super::outcome::broken;
use super::tcp::Tcp;
use crate::config::{Proxy, ProxyKind};

/// The longest answer to a `CONNECT`, in bytes.
const LONGEST_HEAD: usize = 8 * 1024;

/// Leads connections to the proxy on to the destination; without a proxy leaves them as they are.
#[derive(Debug)]
pub(super) struct Through(pub(super) Option<Proxy>);

impl Connector<Tcp> for Through {
    type Out = Tcp;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<Tcp>,
    ) -> Result<Option<Tcp>, Error> {
        let Some(proxy) = &self.0 else {
            return Ok(chained);
        };
        let Some(tcp) = chained else { return Ok(None) };
        let left = tcp.left(details);
        let mut wire = TransportAdapter::new(tcp, Arc::clone(&details.current_time));
        wire.set_timeout(left);
        lead_on(proxy, details.uri, &mut wire).map_err(Error::ConnectProxyFailed)?;
        Ok(Some(wire.into_inner()))
    }
}

/// Asks `proxy` at the other end of `wire` to connect it with the host of `target`.
fn lead_on(proxy: &Proxy, target: &Uri, wire: &mut (impl Read + Write)) -> Result<(), String> {
    let host = target.host().unwrap_or_default();
    let is_tls = target.scheme_str() == Some("https");
    let port = target.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let login = proxy.login_file.as_deref().map(login).transpose()?;
    match proxy.kind {
        ProxyKind::Http => connect(wire, host, port, login.as_deref()),
        ProxyKind::Socks5 => socks(wire, host, port, login.as_deref()),
    }
}

/// `user:password`.
fn login(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|why| format!("was not asked: cannot read proxy_login_file {shown}: {why}"))?;
    let line = text.trim();
    if !line.contains(':') || line.contains(['\n', '\r']) {
        return Err(format!(
            "was not asked: proxy_login_file {shown} must hold one line, user:password"
        ));
    }
    Ok(line.to_owned())
}

/// Source: RFC 9110 section 9.3.6 (any 2xx), RFC 7617.
fn connect(
    wire: &mut (impl Read + Write),
    host: &str,
    port: u16,
    login: Option<&str>,
) -> Result<(), String> {
    let login_line = login.map_or_else(String::new, |login| {
        let login = BASE64_STANDARD.encode(login);
        format!("Proxy-Authorization: Basic {login}\r\n")
    });
    let line = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    let request = format!("{line}{login_line}\r\n");
    wire.write_all(request.as_bytes()).map_err(lost)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == LONGEST_HEAD {
            return Err("answers without end".to_owned());
        }
        head.push(one::<1>(wire)?[0]);
    }
    let status = head
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse::<u16>().ok());
    match status {
        Some(200..=299) => Ok(()),
        Some(407) if login.is_some() => Err("refused: HTTP 407, the login is wrong".to_owned()),
        Some(407) => Err("refused: HTTP 407, it wants a proxy_login_file".to_owned()),
        Some(status) => Err(format!("refused: HTTP {status}")),
        None => Err("does not speak HTTP".to_owned()),
    }
}

/// Source: RFC 1928, RFC 1929.
fn socks(
    wire: &mut (impl Read + Write),
    host: &str,
    port: u16,
    login: Option<&str>,
) -> Result<(), String> {
    let methods: &[u8] = if login.is_some() { &[0, 2] } else { &[0] };
    let mut greeting = vec![5, if login.is_some() { 2 } else { 1 }];
    greeting.extend_from_slice(methods);
    wire.write_all(&greeting).map_err(lost)?;
    match (one::<2>(wire)?, login) {
        ([5, 0], _) => {}
        ([5, 2], Some(login)) => log_in(wire, login)?,
        ([5, 0xff], Some(_)) => return Err("refused: it takes no login of this kind".to_owned()),
        ([5, 0xff], None) => return Err("refused: it wants a proxy_login_file".to_owned()),
        _ => return Err("does not speak SOCKS 5".to_owned()),
    }
    let mut request = vec![5, 1, 0];
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => {
            request.push(1);
            request.extend_from_slice(&address.octets());
        }
        Ok(std::net::IpAddr::V6(address)) => {
            request.push(4);
            request.extend_from_slice(&address.octets());
        }
        Err(_) => request.extend(named(bare)?),
    }
    request.extend_from_slice(&port.to_be_bytes());
    wire.write_all(&request).map_err(lost)?;
    let [version, reply, _, kind] = one::<4>(wire)?;
    if version != 5 {
        return Err("does not speak SOCKS 5".to_owned());
    }
    if reply != 0 {
        return Err(format!("refused: {}", in_words(reply)));
    }
    // The address it connected from, which tells us nothing.
    let length = match kind {
        1 => 4,
        4 => 16,
        3 => one::<1>(wire)?[0].into(),
        _ => return Err("does not speak SOCKS 5".to_owned()),
    };
    let mut address = vec![0; length + 2];
    wire.read_exact(&mut address).map_err(lost)
}

fn log_in(wire: &mut (impl Read + Write), login: &str) -> Result<(), String> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut request = vec![1];
    for part in [user, password] {
        let length = u8::try_from(part.len())
            .map_err(|_| "was not asked: its login is longer than 255 bytes".to_owned())?;
        request.push(length);
        request.extend_from_slice(part.as_bytes());
    }
    wire.write_all(&request).map_err(lost)?;
    match one::<2>(wire)? {
        [_, 0] => Ok(()),
        _ => Err("refused: the login is wrong".to_owned()),
    }
}

fn named(host: &str) -> Result<Vec<u8>, String> {
    let length = u8::try_from(host.len())
        .map_err(|_| "was not asked: the host's name is longer than 255 bytes".to_owned())?;
    Ok([&[3, length], host.as_bytes()].concat())
}

/// Source: RFC 1928 section 6.
fn in_words(reply: u8) -> String {
    let words = match reply {
        2 => "its rules forbid it",
        3 => "network unreachable",
        4 => "host unreachable, or no such host",
        5 => "connection refused",
        6 => "no connection in time",
        other => return format!("SOCKS reply {other}"),
    };
    words.to_owned()
}

fn one<const LENGTH: usize>(wire: &mut impl Read) -> Result<[u8; LENGTH], String> {
    let mut bytes = [0; LENGTH];
    wire.read_exact(&mut bytes).map_err(lost)?;
    Ok(bytes)
}

fn lost(error: io::Error) -> String {
    match Error::from(error) {
        Error::Timeout(_) => "did not answer in time".to_owned(),
        Error::Io(error) => format!("was lost: {}", broken(&error)),
        _ => "was lost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hears what it was given beforehand, and keeps what it is told.
    struct Wire(&'static [u8], Vec<u8>);

    impl Read for Wire {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type Row = (
        &'static [u8],
        Option<&'static str>,
        Result<(), &'static str>,
    );

    #[test]
    fn only_a_2xx_leads_through_an_http_proxy() {
        let rows: &[Row] = &[
            (b"HTTP/1.1 200 Connection established\r\n\r\n", None, Ok(())),
            (b"HTTP/1.0 204 x\r\nVia: y\r\n\r\n", None, Ok(())),
            (
                b"HTTP/1.1 403 Forbidden\r\n\r\n",
                None,
                Err("refused: HTTP 403"),
            ),
            (
                b"HTTP/1.1 407 No\r\n\r\n",
                None,
                Err("refused: HTTP 407, it wants a proxy_login_file"),
            ),
            (
                b"HTTP/1.1 407 No\r\n\r\n",
                Some("a:b"),
                Err("refused: HTTP 407, the login is wrong"),
            ),
            (b"\x05\x00\r\n\r\n", None, Err("does not speak HTTP")),
            (
                b"HTTP/1.1 200",
                None,
                Err("was lost: connection closed before an answer"),
            ),
        ];
        for (heard, login, expected) in rows {
            let mut wire = Wire(heard, Vec::new());
            let result = connect(&mut wire, "a.example", 443, *login);
            let what = heard.escape_ascii();
            assert_eq!(result, expected.map_err(str::to_owned), "{what}");
        }
        let mut wire = Wire(rows[0].0, Vec::new());
        connect(&mut wire, "a.example", 443, Some("me:s3cret")).expect("it lets us through");
        let told = "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\
                    Proxy-Authorization: Basic bWU6czNjcmV0\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&wire.1), told);
    }

    #[test]
    fn the_refusals_of_socks_are_told_in_words() {
        let through = b"\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";
        let rows: &[Row] = &[
            (through, None, Ok(())),
            (b"\x05\x00\x05\x00\x00\x03\x01a\x00\x50", None, Ok(())),
            (
                b"\x05\x02\x01\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50",
                Some("a:b"),
                Ok(()),
            ),
            (
                b"\x05\x02\x01\x01",
                Some("a:b"),
                Err("refused: the login is wrong"),
            ),
            (
                b"\x05\xff",
                None,
                Err("refused: it wants a proxy_login_file"),
            ),
            (b"\x05\x02", None, Err("does not speak SOCKS 5")),
            (
                b"\x05\x00\x05\x05\x00\x01",
                None,
                Err("refused: connection refused"),
            ),
            (
                b"\x05\x00\x05\x09\x00\x01",
                None,
                Err("refused: SOCKS reply 9"),
            ),
            (b"HTTP/1.1 400", None, Err("does not speak SOCKS 5")),
            (
                b"\x05",
                None,
                Err("was lost: connection closed before an answer"),
            ),
        ];
        for (heard, login, expected) in rows {
            let mut wire = Wire(heard, Vec::new());
            let result = socks(&mut wire, "a", 80, *login);
            let what = heard.escape_ascii();
            assert_eq!(result, expected.map_err(str::to_owned), "{what}");
        }
    }

    #[test]
    fn socks_is_told_names_as_names_and_addresses_as_addresses() {
        let through = b"\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";
        let addresses: &[(&str, &[u8])] = &[
            ("a.b", b"\x05\x01\x00\x05\x01\x00\x03\x03a.b\x00\x50"),
            (
                "10.0.0.9",
                b"\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x09\x00\x50",
            ),
            (
                "[::1]",
                b"\x05\x01\x00\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50",
            ),
        ];
        for (host, told) in addresses {
            let mut wire = Wire(through, Vec::new());
            socks(&mut wire, host, 80, None).expect("it lets us through");
            assert_eq!(wire.1, *told, "{host}");
        }
    }
}
