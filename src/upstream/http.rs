//! HTTP/1.1 destinations, plain or over TLS.
//!
//! # Guarantees
//!
//! - `POST`, the body with its length, the given headers, `Host` and `User-Agent`. No `Accept`, no
//!   `Accept-Encoding`, no `Content-Type` of the client's own. Header names go out in lower case.
//! - Redirects are answers like any other; a status is never an error.
//! - No phase lasts longer than its share of the timeout, see [`Timeouts`].
//! - Of an answer at most [`Answer::LONGEST_HEAD`] bytes are kept and [`MOST_DRAINED`] read; a
//!   longer or slower one costs its connection and nothing else.
//! - Memory: [`BUFFER`] bytes each way for each connection, at most one connection for each worker.
//! - No proxy is taken from the environment. A gateway's way out is written in its configuration,
//!   or there is none; what a shell exported on the day of a restart must not change it.
//! - The token is read from its file at each attempt. When it can't be had, nothing is sent and the
//!   outcome is [`Outcome::Misconfigured`]: the event is not to blame.
//!
//! # A connection that the server closed meanwhile
//!
//! A pooled connection can end between two requests. What is closed already is noticed and not
//! used. What is closed while the request is on its way is sent once more, at once, on a new
//! connection and within the same timeout, as one attempt. The first copy may have arrived; RFC
//! 9110 section 9.2.2 allows the second because its `Idempotency-Key` is the same. A new connection
//! that ends before an answer is an outcome.
//!
//! # Limits
//!
//! Headers that HTTP/1.1 can't carry (control characters, names that are no token) or that are
//! longer than [`LONGEST_HEADER`] are left out rather than fail the delivery for ever.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use ureq::unversioned::transport::{ConnectionDetails, Connector, DefaultConnector};
use ureq::{Agent, Body};

use super::names::Names;
use super::outcome::{ended_early, outcome_of, retry_after};
use super::{Error, Outgoing, Transport};
use crate::clock::{Clock, SystemClock};
use crate::config::Destination;
use crate::delivery::{Answer, Outcome};
use crate::event::printable;

/// The size of each of the two buffers of a connection, in bytes. ureq's own default is 128 KiB.
const BUFFER: usize = 16 * 1024;

/// The longest header that is sent, name and value together, in bytes. Must fit into [`BUFFER`].
const LONGEST_HEADER: usize = 8 * 1024;

/// The most that is read of an answer's body so that its connection can be used again, in bytes.
const MOST_DRAINED: usize = 64 * 1024;

/// How long a connection may be idle and still be used. Shorter than what servers commonly allow,
/// and what a dead link may have swallowed meanwhile is not trusted with an event.
const LONGEST_IDLE: Duration = Duration::from_secs(15);

/// The longest token, in bytes.
const LONGEST_TOKEN: usize = 7 * 1024;

/// Headers that describe one message on one connection, which is the client's business.
///
/// Source: RFC 9110 section 7.6.1 and 10.1.1, RFC 9112 section 6.
const OURS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// How long each phase of an attempt may last, given how long it may last as a whole.
///
/// Sending and waiting for the answer's head have what the phases before them left of the whole.
/// Resolving and connecting together get less than the whole, so that running out of it always
/// means that the request was on its way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Timeouts {
    /// Name resolution: a quarter, at most 5 s.
    resolve: Duration,
    /// TCP and TLS handshakes: a third, at most 10 s.
    connect: Duration,
    /// Sending the head: a third, at most 10 s.
    head: Duration,
    /// The answer's body, which decides nothing: a quarter, at most 5 s.
    answer_body: Duration,
    /// All of it.
    whole: Duration,
}

impl Timeouts {
    fn within(whole: Duration) -> Self {
        Self {
            resolve: (whole / 4).min(Duration::from_secs(5)),
            connect: (whole / 3).min(Duration::from_secs(10)),
            head: (whole / 3).min(Duration::from_secs(10)),
            answer_body: (whole / 4).min(Duration::from_secs(5)),
            whole,
        }
    }
}

/// One HTTP destination. Its connections are pooled and shared by its workers.
pub struct Http {
    destination: String,
    uri: Uri,
    token_file: Option<PathBuf>,
    /// The header that proves whose answer it is.
    proof: Option<HeaderName>,
    timeout: Duration,
    agent: Agent,
    names: Names,
    clock: SystemClock,
}

impl Http {
    /// A client for `destination`. Connects to nothing yet.
    pub fn new(destination: &Destination) -> Result<Self, Error> {
        let uri = address(destination)?;
        check_headers(destination)?;
        let names = Names::default();
        let timeouts = Timeouts::within(destination.timeout);
        let workers = destination.workers.max(1);
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("gatepost/", env!("CARGO_PKG_VERSION")))
            .accept("")
            .accept_encoding("")
            .input_buffer_size(BUFFER)
            .output_buffer_size(BUFFER)
            // One less than the buffer: ureq takes a full buffer for a closed connection.
            .max_response_header_size(BUFFER - 1)
            .max_idle_connections(workers)
            .max_idle_connections_per_host(workers)
            .max_idle_age(LONGEST_IDLE)
            .timeout_resolve(Some(timeouts.resolve))
            .timeout_connect(Some(timeouts.connect))
            .timeout_send_request(Some(timeouts.head))
            .timeout_recv_body(Some(timeouts.answer_body))
            .timeout_global(Some(timeouts.whole))
            .build();
        let connector = Witness.chain(DefaultConnector::default());
        Ok(Self {
            destination: destination.name.clone(),
            uri,
            token_file: destination.token_file.clone(),
            proof: proof_header(destination)?,
            timeout: destination.timeout,
            agent: Agent::with_parts(config, connector, names.clone()),
            names,
            clock: SystemClock::new(),
        })
    }

    fn headers(&self, request: &Outgoing) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 4);
        for (name, value) in &request.headers {
            let added = carried(name, value)
                .is_some_and(|(name, value)| headers.try_append(name, value).is_ok());
            if !added {
                let destination = &self.destination;
                let name = printable(name);
                log::debug!("[destination {destination}] header \"{name}\" left out: not HTTP");
            }
        }
        if let Some(path) = &self.token_file {
            headers.insert(header::AUTHORIZATION, bearer(path)?);
        }
        Ok(headers)
    }

    /// One request over the wire; `renewed` after so long, on a new connection.
    fn exchange(
        &self,
        headers: HeaderMap,
        body: &[u8],
        renewed: Option<Duration>,
    ) -> Result<Response<Body>, ureq::Error> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        if let Some(spent) = renewed {
            let timeouts = Timeouts::within(self.timeout.saturating_sub(spent));
            request = self
                .agent
                .configure_request(request)
                .max_idle_age(Duration::ZERO)
                .timeout_resolve(Some(timeouts.resolve))
                .timeout_connect(Some(timeouts.connect))
                .timeout_send_request(Some(timeouts.head))
                .timeout_recv_body(Some(timeouts.answer_body))
                .timeout_global(Some(timeouts.whole))
                .build();
        }
        self.agent.run(request)
    }
}

impl Transport for Http {
    fn send(&self, request: &Outgoing) -> Outcome {
        let headers = match self.headers(request) {
            Ok(headers) => headers,
            Err(reason) => return Outcome::Misconfigured(reason),
        };
        let begun = self.clock.moment();
        CONNECTED.set(false);
        let mut result = self.exchange(headers.clone(), &request.body, None);
        if let Err(error) = &result
            && ended_early(error)
            && !CONNECTED.get()
        {
            let spent = self.clock.moment().since(begun);
            result = self.exchange(headers, &request.body, Some(spent));
        }
        match result {
            Ok(response) => Outcome::Answered(answer(response, self.proof.as_ref())),
            Err(error) => {
                self.names.forget();
                outcome_of(&error)
            }
        }
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

fn address(destination: &Destination) -> Result<Uri, Error> {
    let wrong = |reason: String| Error::Url {
        destination: destination.name.clone(),
        reason,
    };
    let uri: Uri = destination
        .url
        .parse()
        .map_err(|error: ureq::http::uri::InvalidUri| wrong(error.to_string()))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        (Some("http" | "https"), _) => Err(wrong("there is no host in it".to_owned())),
        (Some(other), _) => Err(wrong(format!("it begins with {other}://"))),
        (None, _) => Err(wrong("it has no scheme".to_owned())),
    }
}

fn check_headers(destination: &Destination) -> Result<(), Error> {
    for (name, value) in &destination.headers {
        let lower = name.to_ascii_lowercase();
        let reason = if OURS.contains(&lower.as_str()) {
            "is set by gatepost for each connection"
        } else if lower == "idempotency-key" || lower.starts_with("x-gatepost-") {
            "is set by gatepost for each event"
        } else if lower == "authorization" && destination.token_file.is_some() {
            "and token_file exclude each other"
        } else if name.len() + value.len() > LONGEST_HEADER {
            "is longer than 8 KiB"
        } else if HeaderName::from_bytes(name.as_bytes()).is_err() {
            "has a name that HTTP does not allow"
        } else if HeaderValue::from_str(value).is_err() {
            "has a value that HTTP does not allow"
        } else {
            continue;
        };
        return Err(Error::Header {
            destination: destination.name.clone(),
            header: printable(name),
            reason,
        });
    }
    Ok(())
}

fn proof_header(destination: &Destination) -> Result<Option<HeaderName>, Error> {
    let proof = destination.proof.as_ref();
    let Some((name, _)) = proof.and_then(|proof| proof.header.as_ref()) else {
        return Ok(None);
    };
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::Header {
        destination: destination.name.clone(),
        header: printable(name),
        reason: "has a name that HTTP does not allow",
    })?;
    Ok(Some(name))
}

fn carried(name: &str, value: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let fits = name.len() + value.len() <= LONGEST_HEADER;
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let value = HeaderValue::from_bytes(value).ok()?;
    fits.then_some((name, value))
}

fn bearer(path: &Path) -> Result<HeaderValue, String> {
    let path_shown = path.display();
    let mut token = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_TOKEN as u64 + 1).read_to_end(&mut token))
        .map_err(|error| format!("cannot read token_file {path_shown}: {error}"))?;
    let token = token.trim_ascii();
    if token.is_empty() {
        return Err(format!("token_file {path_shown} is empty"));
    }
    if token.len() > LONGEST_TOKEN {
        return Err(format!("token_file {path_shown} is longer than a token"));
    }
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .map_err(|_| format!("token_file {path_shown} must hold one line of printable text"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// `proof`: the header that proves whose answer it is.
fn answer(response: Response<Body>, proof: Option<&HeaderName>) -> Answer {
    let (parts, body) = response.into_parts();
    let proofs = proof.map(|name| {
        let values = parts.headers.get_all(name).iter();
        values.map(|value| (name.to_string(), value.as_bytes().to_vec()))
    });
    let retry_after = parts
        .headers
        .get(header::RETRY_AFTER)
        .and_then(|value| retry_after(value.as_bytes()));
    Answer {
        status: parts.status.as_u16(),
        retry_after,
        head: head_of(body.into_reader()),
        headers: proofs.into_iter().flatten().collect(),
    }
}

/// The first bytes of a body; reads a little further, so that the connection can be used again.
///
/// Whatever goes wrong here is not told: the status is the answer.
fn head_of(mut body: impl Read) -> Vec<u8> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    let mut total = 0;
    while total < MOST_DRAINED {
        match body.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                total += count;
                let room = Answer::LONGEST_HEAD - head.len();
                head.extend_from_slice(&piece[..count.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    head
}

thread_local! {
    /// Whether this thread's exchange set out to make a new connection.
    static CONNECTED: Cell<bool> = const { Cell::new(false) };
}

/// The first link of ureq's chain of connectors: notes that the pool had no connection to give.
///
/// Source: ureq 3.5, `ConnectionPool::connect`: connectors run on the calling thread, and only
/// when the pool has nothing.
#[derive(Debug)]
struct Witness;

impl Connector for Witness {
    type Out = ();

    fn connect(&self, _: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<()>, ureq::Error> {
        CONNECTED.set(true);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(url: &str, header: Option<(&str, &str)>, token: bool) -> Destination {
        Destination {
            workers: 1,
            headers: header
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            token_file: token.then(|| PathBuf::from("/etc/gatepost/cloud.token")),
            ..Destination::new("cloud".to_owned(), url.to_owned())
        }
    }

    #[test]
    fn running_out_of_the_whole_means_that_the_request_was_on_its_way() {
        for ms in [0, 1, 10, 500, 1_000, 30_000, 600_000] {
            let whole = Duration::from_millis(ms);
            let timeouts = Timeouts::within(whole);
            assert_eq!(timeouts.whole, whole);
            let before = timeouts.resolve + timeouts.connect;
            assert!(before < whole || ms == 0, "{timeouts:?}");
        }
        let usual = Timeouts::within(Duration::from_secs(30));
        assert_eq!(usual.resolve, Duration::from_secs(5));
        assert_eq!(usual.connect, Duration::from_secs(10));
        let long = Timeouts::within(Duration::from_secs(600));
        assert_eq!((long.resolve, long.connect), (usual.resolve, usual.connect));
    }

    #[test]
    fn an_address_is_a_web_address() {
        let end = "; it must begin with http:// or https:// and name a host";
        let rows = [
            ("http://a", None),
            ("https://a.example:8443/x?y=1", None),
            ("http://[::1]:80/", None),
            ("ftp://a/", Some("it begins with ftp://")),
            ("/events", Some("it has no scheme")),
            ("a.example", Some("it has no scheme")),
            ("http://", Some("empty string")),
            ("http://a b/", Some("invalid uri character")),
        ];
        for (url, reason) in rows {
            let error = Http::new(&destination(url, None, false)).err();
            let expected =
                reason.map(|reason| format!("url of destination \"cloud\": {reason}{end}"));
            assert_eq!(error.map(|error| error.to_string()), expected, "{url}");
        }
    }

    #[test]
    fn a_configured_header_that_cannot_be_sent_is_found_at_once() {
        let long = "x".repeat(LONGEST_HEADER);
        let rows = [
            ("X-Site", "plant 7", None),
            (
                "Authorization",
                "Basic x",
                Some("and token_file exclude each other"),
            ),
            (
                "Content-Length",
                "1",
                Some("is set by gatepost for each connection"),
            ),
            (
                "Connection",
                "close",
                Some("is set by gatepost for each connection"),
            ),
            (
                "IDEMPOTENCY-KEY",
                "1",
                Some("is set by gatepost for each event"),
            ),
            (
                "X-Gatepost-Event",
                "1",
                Some("is set by gatepost for each event"),
            ),
            ("X Site", "1", Some("has a name that HTTP does not allow")),
            (
                "X-Site",
                "1\r\nX-Evil: 1",
                Some("has a value that HTTP does not allow"),
            ),
            ("X-Site", &long, Some("is longer than 8 KiB")),
        ];
        for (name, value, reason) in rows {
            let error = Http::new(&destination("http://a", Some((name, value)), true)).err();
            let expected =
                reason.map(|reason| format!("header \"{name}\" of destination \"cloud\" {reason}"));
            assert_eq!(error.map(|error| error.to_string()), expected, "{name}");
        }
        let without_token = destination("http://a", Some(("Authorization", "Basic x")), false);
        assert!(Http::new(&without_token).is_ok());
    }

    #[test]
    fn a_token_is_one_line_of_text() {
        type Row<'a> = (Option<&'a [u8]>, Result<&'a str, &'a str>);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("token");
        let shown = path.display();
        let long = vec![b'x'; LONGEST_TOKEN + 1];
        let rows: &[Row<'_>] = &[
            (None, Err("No such file or directory (os error 2)")),
            (Some(b""), Err("is empty")),
            (Some(b" \n\n"), Err("is empty")),
            (Some(b" s3cret\r\n"), Ok("Bearer s3cret")),
            (
                Some(b"two\nlines"),
                Err("must hold one line of printable text"),
            ),
            (Some(&long), Err("is longer than a token")),
        ];
        for (text, expected) in rows {
            if let Some(text) = text {
                std::fs::write(&path, text).expect("it can be written");
            }
            match (bearer(&path), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value.as_bytes(), expected.as_bytes()),
                (Err(error), Err(reason)) => {
                    assert!(error.contains(&format!("token_file {shown}")), "{error}");
                    assert!(error.ends_with(reason), "{error}");
                }
                (value, expected) => assert_eq!(format!("{value:?}"), format!("{expected:?}")),
            }
        }
    }

    #[test]
    fn the_head_of_a_body_is_kept_and_little_more_is_read() {
        struct Endless(usize);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(b'x');
                self.0 += buffer.len();
                Ok(buffer.len())
            }
        }
        let mut body = Endless(0);
        assert_eq!(head_of(&mut body), [b'x'; Answer::LONGEST_HEAD]);
        assert!(
            (MOST_DRAINED..=MOST_DRAINED + 2048).contains(&body.0),
            "{}",
            body.0
        );
        assert_eq!(head_of(&b"short"[..]), b"short");
    }
}
