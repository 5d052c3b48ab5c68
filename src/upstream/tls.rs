//! TLS over a connection: whom we trust and who we are, as the files say at that moment.
//!
//! # Guarantees
//!
//! - TLS 1.2 or 1.3, with a certificate that is valid for the host of the URL, now, by a trusted
//!   issuer. There is no way to turn that off.
//! - Trusted are the public issuers, or those of `ca_file` and nobody else: who names issuers of
//!   their own does not want that any other can speak for their host.
//! - The files are looked at for each new connection, so certificates can be renewed while we run.
//! - The handshake gets what connecting left of its time.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};
use ureq::{Error, Timeout};

use super::files::Watched;
use super::tcp::Tcp;
use crate::clock::{Clock, SystemClock};
use crate::config::{Destination, Way};

/// Makes connections to `https` URLs secure, and leaves others as they are.
#[derive(Debug)]
pub(super) struct Secure {
    settings: Watched<Arc<ClientConfig>>,
    clock: Arc<SystemClock>,
}

impl Secure {
    /// # Errors
    ///
    /// Says what is wrong with the files of `destination`.
    pub(super) fn new(destination: &Destination, clock: Arc<SystemClock>) -> Result<Self, String> {
        let Way {
            ca_file, client, ..
        } = &destination.way;
        let (has_ca, has_client) = (ca_file.is_some(), client.is_some());
        let mut paths: Vec<_> = ca_file.iter().cloned().collect();
        if let Some(client) = client {
            paths.extend([client.cert.clone(), client.key.clone()]);
        }
        let name = &destination.name;
        let what = format!("[destination {name}] ca_file, client_cert or client_key");
        let settings = Watched::new(what, paths, move |contents| {
            settings(contents, has_ca, has_client).map(Arc::new)
        });
        settings.current(clock.reading().wall)?;
        Ok(Self { settings, clock })
    }
}

/// What the files mean: the issuers if there are some, then certificate and key if there are.
fn settings(contents: &[Vec<u8>], has_ca: bool, has_client: bool) -> Result<ClientConfig, String> {
    let mut contents = contents.iter();
    let ca_file = has_ca.then(|| contents.next()).flatten();
    let roots = roots(ca_file.map(Vec::as_slice))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots);
    if !has_client {
        return Ok(builder.with_no_client_auth());
    }
    let cert = contents.next().ok_or("client_cert was not read")?;
    let key = contents.next().ok_or("client_key was not read")?;
    let chain = certificates("client_cert", cert)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "client_key holds no PEM key that is not encrypted".to_owned())?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|why| match why {
            rustls::Error::InconsistentKeys(_) => {
                "client_key is not the key of the certificate in client_cert, which comes first in \
                 its file"
                    .to_owned()
            }
            other => format!("client_cert and client_key can't be used: {other}"),
        })
}

/// Whom we trust: the issuers of `ca_file` and nobody else, or the public ones.
fn roots(ca_file: Option<&[u8]>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(text) = ca_file else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    for certificate in certificates("ca_file", text)? {
        roots
            .add(certificate)
            .map_err(|why| format!("ca_file holds what is no issuer's certificate: {why}"))?;
    }
    Ok(roots)
}

fn certificates(key: &str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("{key} holds no PEM certificate")),
        Err(_) => Err(format!("{key} is damaged: it is not PEM all through")),
    }
}

impl Connector<Tcp> for Secure {
    type Out = Either<Tcp, Encrypted>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<Tcp>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(tcp) = chained else { return Ok(None) };
        if !details.needs_tls() {
            return Ok(Some(Either::A(tcp)));
        }
        let settings = self.settings.current(self.clock.reading().wall);
        let settings = settings.map_err(|_| Error::Tls("the files of its certificates"))?;
        let host = details.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| Error::Tls("no certificate can be for it"))?;
        let connection = ClientConnection::new(Arc::clone(&settings), name).map_err(in_io)?;
        let left = tcp.left(details);
        let mut socket = TransportAdapter::new(tcp, Arc::clone(&details.current_time));
        socket.set_timeout(left);
        let mut stream = StreamOwned::new(connection, socket);
        match stream
            .conn
            .complete_io(&mut stream.sock)
            .map_err(Error::from)
        {
            Err(Error::Timeout(Timeout::Connect)) => Err(in_io("no TLS handshake in time")),
            Err(error) => Err(error),
            Ok(_) => Ok(Some(Either::B(Encrypted {
                stream,
                buffers: LazyBuffers::new(
                    details.config.input_buffer_size(),
                    details.config.output_buffer_size(),
                ),
            }))),
        }
    }
}

fn in_io(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Io(std::io::Error::other(error))
}

/// A connection with TLS.
pub(super) struct Encrypted {
    stream: StreamOwned<ClientConnection, TransportAdapter<Tcp>>,
    buffers: LazyBuffers,
}

impl Transport for Encrypted {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count != 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Encrypted")
            .field(self.stream.sock.inner())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_of_ones_own_take_the_place_of_the_public_ones() {
        let ours = include_bytes!("../../tests/upstream/certificates/ca.pem");
        let count = |ca_file: Option<&[u8]>| roots(ca_file).map(|roots| roots.len());
        assert_eq!(count(Some(ours)), Ok(1));
        assert!(count(None).is_ok_and(|public| 50 < public));
        let none = "ca_file holds no PEM certificate".to_owned();
        assert_eq!(count(Some(b"s3cret")), Err(none));
    }
}
