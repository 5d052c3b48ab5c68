//! How a request to a destination is shaped, and which way it takes.

use std::fmt;
use std::path::PathBuf;

use super::Destination;

/// `format`: how an event becomes a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Format {
    /// The body as it came, and gatepost's own headers.
    #[default]
    Raw,
    /// That, and `CloudEvents` 1.0 attributes as `ce-` headers (binary mode).
    CloudEvents,
}

/// `sign`: Standard Webhooks signatures.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sign {
    /// A file of secrets, one a line; see [`crate::sign::Secrets::parse`]. Read anew when it
    /// changes. Relative as [`super::StoreConfig::path`].
    pub file: PathBuf,
    /// Whether nothing is sent while the clock is not known to be right: a receiver refuses a
    /// signature whose time is minutes off, and such a refusal would blame the event. Default: yes.
    pub wait_for_clock: bool,
}

/// The way to a destination. The default is the direct one, and to trust whom browsers trust.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Way {
    /// PEM certificates of the only issuers that are trusted, in place of the public ones.
    pub ca_file: Option<PathBuf>,
    /// What we prove with who we are, if the destination asks.
    pub client: Option<ClientFiles>,
    /// Through what. Nothing is taken from the environment.
    pub proxy: Option<Proxy>,
}

/// `client_cert` and `client_key`: PEM files, read anew when they change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientFiles {
    /// The certificate, and those between it and its root, in this order.
    pub cert: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
}

/// `proxy`: what carries connections for us, plain and TLS ones alike.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Proxy {
    /// How to speak to it.
    pub kind: ProxyKind,
    /// Its name or address; an IPv6 address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A file whose only line is `user:password` for it. Read at each connection.
    pub login_file: Option<PathBuf>,
}

/// How to speak to a proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProxyKind {
    /// `CONNECT`. Source: RFC 9110 section 9.3.6.
    Http,
    /// SOCKS 5; the proxy looks up the names. Source: RFC 1928, RFC 1929.
    Socks5,
}

impl Proxy {
    /// Reads `http://host:port` or `socks5://host:port`. Never repeats a password.
    ///
    /// # Errors
    ///
    /// Says in words what would be right.
    pub fn parse(url: &str) -> Result<Self, String> {
        const RIGHT: &str = "write \"http://host:port\" or \"socks5://host:port\"";
        let (kind, rest) = if let Some(rest) = url.strip_prefix("http://") {
            (ProxyKind::Http, rest)
        } else if let Some(rest) = url.strip_prefix("socks5://") {
            (ProxyKind::Socks5, rest)
        } else {
            return Err(format!(
                "it begins with neither http:// nor socks5://; {RIGHT}"
            ));
        };
        if rest.contains('@') {
            return Err(
                "it has a user or a password in it; put user:password into a file and \
                        name that in proxy_login_file"
                    .to_owned(),
            );
        }
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| format!("it has no port; {RIGHT}"))?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_host = match bare {
            Some(bare) => bare.parse::<std::net::Ipv6Addr>().is_ok(),
            None => (1..=255).contains(&host.len()) && host.bytes().all(is_plain),
        };
        if !is_host {
            return Err(format!("there is no host in it; {RIGHT}"));
        }
        let port = port.parse().ok().filter(|port| *port != 0);
        Ok(Self {
            kind,
            host: host.to_owned(),
            port: port.ok_or_else(|| format!("its port is not 1 to 65535; {RIGHT}"))?,
            login_file: None,
        })
    }
}

/// As in the file: `socks5://host:port`.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Http => "http",
            ProxyKind::Socks5 => "socks5",
        };
        let (host, port) = (&self.host, self.port);
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

/// One line: `cloud: POST https://api.example.com/events, signed, by proxy socks5://proxy:1080`.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: POST {}", self.name, self.url)?;
        match self.format {
            Format::Raw => {}
            Format::CloudEvents => f.write_str(", as CloudEvents")?,
        }
        if self.token_file.is_some() {
            f.write_str(", with a bearer token")?;
        }
        match &self.sign {
            Some(sign) if sign.wait_for_clock => f.write_str(", signed once the clock is set")?,
            Some(_) => f.write_str(", signed")?,
            None => {}
        }
        if self.way.client.is_some() {
            f.write_str(", with a client certificate")?;
        }
        if let Some(ca_file) = &self.way.ca_file {
            write!(f, ", trusting {} only", ca_file.display())?;
        }
        if let Some(proxy) = &self.way.proxy {
            write!(f, ", by proxy {proxy}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_kind_a_host_and_a_port() {
        let right = "write \"http://host:port\" or \"socks5://host:port\"";
        let rows: &[(&str, Result<&str, String>)] = &[
            ("http://proxy:3128", Ok("http://proxy:3128")),
            ("http://10.0.0.1:3128/", Ok("http://10.0.0.1:3128")),
            ("socks5://[::1]:1080", Ok("socks5://[::1]:1080")),
            ("http://proxy", Err(format!("it has no port; {right}"))),
            (
                "http://proxy:0",
                Err(format!("its port is not 1 to 65535; {right}")),
            ),
            (
                "http://:3128",
                Err(format!("there is no host in it; {right}")),
            ),
            (
                "http://a b:3128",
                Err(format!("there is no host in it; {right}")),
            ),
            (
                "http://proxy:3128/path",
                Err(format!("its port is not 1 to 65535; {right}")),
            ),
            (
                "https://proxy:3128",
                Err(format!(
                    "it begins with neither http:// nor socks5://; {right}"
                )),
            ),
            (
                "proxy:3128",
                Err(format!(
                    "it begins with neither http:// nor socks5://; {right}"
                )),
            ),
            (
                "http://user:s3cret@proxy:3128",
                Err(
                    "it has a user or a password in it; put user:password into a file \
                     and name that in proxy_login_file"
                        .to_owned(),
                ),
            ),
        ];
        for (url, expected) in rows {
            let proxy = Proxy::parse(url).map(|proxy| proxy.to_string());
            assert_eq!(
                proxy.as_deref().map_err(Clone::clone),
                expected.clone(),
                "{url}"
            );
        }
    }
}
