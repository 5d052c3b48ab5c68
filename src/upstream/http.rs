//! HTTP/1.1 destinations, plain or over TLS.
//!
//! # Guarantees
//!
//! - `POST`, the body with its length, the given headers, `Host` and `User-Agent`. No `Accept`, no
//!   `Accept-Encoding`, no `Content-Type` of the client's own. Header names go out in lower case.
//! - Redirects are answers like any other; a status is never an error.
//! - No phase lasts longer than its share of the timeout, see [`Timeouts`].
//! - Of an answer at most [`Answer::LONGEST_HEAD`] bytes are kept and
//!   [`super::answer::MOST_DRAINED`] read; a longer or slower one costs its connection and nothing
//!   else.
//! - Memory: [`BUFFER`] bytes each way for each connection, at most one connection for each worker.
//! - No proxy is taken from the environment. A gateway's way out is written in its configuration,
//!   or there is none; what a shell exported on the day of a restart must not change it.
//! - Token, secrets and certificates are those that their files hold at that moment. Where there
//!   never were any, nothing is sent and the outcome is [`Outcome::Misconfigured`]: the event is
//!   not to blame. When a token is answered with 401 and its file has changed meanwhile, the same
//!   attempt goes on with the new one.
//! - A signature is made anew for each request that leaves, over its `webhook-id` and the time.
//!   Nothing is signed by a clock that is not known to be right, unless the configuration says so.
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

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use ureq::unversioned::transport::Connector;
use ureq::{Agent, Body};

use super::answer::answer;
use super::files::Watched;
use super::names::Names;
use super::outcome::{ended_early, outcome_of};
use super::proxy::Through;
use super::tcp::{self, Dial};
use super::tls::Secure;
use super::{Error, Outgoing, Transport};
use crate::clock::{Clock, Reading, SystemClock};
use crate::config::Destination;
use crate::delivery::{Answer, Outcome};
use crate::event::printable;
use crate::sign::Secrets;

/// The size of each of the two buffers of a connection, in bytes. ureq's own default is 128 KiB.
const BUFFER: usize = 16 * 1024;

/// The longest header that is sent, name and value together, in bytes. Must fit into [`BUFFER`].
const LONGEST_HEADER: usize = 8 * 1024;

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
    /// The header that proves whose answer it is.
    proof: Option<HeaderName>,
    token: Option<Watched<HeaderValue>>,
    /// What requests are signed with, and whether that waits for a clock that is right.
    sign: Option<(Watched<Secrets>, bool)>,
    timeout: Duration,
    agent: Agent,
    names: Names,
    clock: Arc<SystemClock>,
    /// What time it is, for others to judge us by.
    wall: Arc<dyn Clock>,
}

impl Http {
    /// A client for `destination`. Connects to nothing yet.
    pub fn new(destination: &Destination) -> Result<Self, Error> {
        Self::by(destination, Arc::new(SystemClock::new()))
    }

    /// A client for `destination` that takes the time it tells others from `wall`, and whether that
    /// is right. How long things take it measures itself.
    pub fn by(destination: &Destination, wall: Arc<dyn Clock>) -> Result<Self, Error> {
        let uri = address(destination)?;
        check_headers(destination)?;
        let name = &destination.name;
        let token = destination.token_file.as_ref().map(|path| {
            let what = format!("[destination {name}] token_file");
            let shown = path.clone();
            Watched::new(what, vec![path.clone()], move |texts| {
                bearer(&texts[0], &shown)
            })
        });
        let sign = destination.sign.as_ref().map(|sign| {
            let what = format!("[destination {name}] sign.file");
            let make = |texts: &[Vec<u8>]| Secrets::parse(&texts[0]);
            let secrets = Watched::new(what, vec![sign.file.clone()], make);
            (secrets, sign.wait_for_clock)
        });
        let clock = Arc::new(SystemClock::new());
        let proxy = destination.way.proxy.clone();
        let names = Names::by(proxy.as_ref().map(|proxy| (proxy.host.clone(), proxy.port)));
        let secure = Secure::new(destination, Arc::clone(&clock));
        let secure = secure.map_err(|reason| Error::Certificates {
            destination: name.clone(),
            reason,
        })?;
        let dial = Dial {
            to_proxy: proxy.is_some(),
            clock: Arc::clone(&clock),
        };
        let connector = ().chain(dial).chain(Through(proxy)).chain(secure);
        Ok(Self {
            destination: name.clone(),
            uri,
            proof: proof_header(destination)?,
            token,
            sign,
            timeout: destination.timeout,
            agent: Agent::with_parts(settings(destination), connector, names.clone()),
            names,
            clock,
            wall,
        })
    }

    /// The headers of a request that leaves now, or why it does not.
    fn headers(
        &self,
        request: &Outgoing,
        token: Option<&HeaderValue>,
        now: Reading,
    ) -> Result<HeaderMap, Outcome> {
        let mut headers = HeaderMap::with_capacity(request.headers.len() + 8);
        for (name, value) in &request.headers {
            let added = carried(name, value)
                .is_some_and(|(name, value)| headers.try_append(name, value).is_ok());
            if !added {
                let destination = &self.destination;
                let name = printable(name);
                log::debug!("[destination {destination}] header \"{name}\" left out: not HTTP");
            }
        }
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        if let Some((secrets, waits)) = &self.sign {
            if *waits && !now.certain {
                let why =
                    "not sent: the clock of this box is not set, and a signature has its time";
                return Err(Outcome::Unreachable(why.to_owned()));
            }
            let secrets = secrets
                .current(now.wall)
                .map_err(|why| Outcome::Misconfigured(format!("sign.file can't be used: {why}")))?;
            sign(&mut headers, request, &secrets, now).map_err(Outcome::Misconfigured)?;
        }
        Ok(headers)
    }

    fn token(&self, now: Reading) -> Result<Option<Arc<HeaderValue>>, Outcome> {
        let token = self.token.as_ref().map(|token| token.current(now.wall));
        token.transpose().map_err(Outcome::Misconfigured)
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
        let sent = self.token(self.wall.reading()).and_then(|token| {
            let begun = self.clock.moment();
            let outcome = self.try_with(request, token.as_deref(), None)?;
            let newer = self.newer(token.as_ref(), &outcome);
            let Some(newer) = newer else {
                return Ok(outcome);
            };
            let spent = self.clock.moment().since(begun);
            self.try_with(request, Some(&newer), Some(spent))
        });
        sent.unwrap_or_else(|outcome| outcome)
    }
}

impl Http {
    /// The token that has taken the place of the one that was refused.
    fn newer(
        &self,
        refused: Option<&Arc<HeaderValue>>,
        outcome: &Outcome,
    ) -> Option<Arc<HeaderValue>> {
        let refused = refused?;
        let Outcome::Answered(Answer { status: 401, .. }) = outcome else {
            return None;
        };
        let newer = self.token(self.wall.reading()).ok()??;
        (*newer != **refused).then_some(newer)
    }

    /// One request, and a second one where the first met a connection that had ended.
    fn try_with(
        &self,
        request: &Outgoing,
        token: Option<&HeaderValue>,
        renewed: Option<Duration>,
    ) -> Result<Outcome, Outcome> {
        let headers = self.headers(request, token, self.wall.reading())?;
        let begun = self.clock.moment();
        tcp::watch();
        let mut result = self.exchange(headers.clone(), &request.body, renewed);
        if let Err(error) = &result
            && ended_early(error)
            && !tcp::has_connected()
        {
            let spent = self.clock.moment().since(begun);
            result = self.exchange(headers, &request.body, Some(spent));
        }
        Ok(match result {
            Ok(response) => Outcome::Answered(answer(response, self.proof.as_ref())),
            Err(error) => {
                self.names.forget();
                outcome_of(&error, self.wall.reading().certain)
            }
        })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

fn settings(destination: &Destination) -> ureq::config::Config {
    let timeouts = Timeouts::within(destination.timeout);
    let workers = destination.workers.max(1);
    Agent::config_builder()
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
        .build()
}

/// Adds time and signatures. Source: Standard Webhooks 1.0.0, "Webhook headers".
fn sign(
    headers: &mut HeaderMap,
    request: &Outgoing,
    secrets: &Secrets,
    now: Reading,
) -> Result<(), String> {
    let id = request
        .header("webhook-id")
        .and_then(|id| std::str::from_utf8(id).ok())
        .ok_or("there is no webhook-id to sign")?;
    let seconds = now.wall.as_ms().div_euclid(1_000);
    let signatures = secrets.signatures(id, seconds, &request.body);
    let signatures = HeaderValue::try_from(signatures).map_err(|why| why.to_string())?;
    headers.insert(HeaderName::from_static("webhook-timestamp"), seconds.into());
    headers.insert(HeaderName::from_static("webhook-signature"), signatures);
    Ok(())
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

fn bearer(text: &[u8], path: &Path) -> Result<HeaderValue, String> {
    let path_shown = path.display();
    let token = text.trim_ascii();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(url: &str, header: Option<(&str, &str)>, token: bool) -> Destination {
        Destination {
            headers: header
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            token_file: token.then(|| "/etc/gatepost/cloud.token".into()),
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
        type Row<'a> = (&'a [u8], Result<&'a str, &'a str>);
        let path = Path::new("/etc/token");
        let long = vec![b'x'; LONGEST_TOKEN + 1];
        let rows: &[Row<'_>] = &[
            (b"", Err("is empty")),
            (b" \n\n", Err("is empty")),
            (b" s3cret\r\n", Ok("Bearer s3cret")),
            (b"two\nlines", Err("must hold one line of printable text")),
            (&long, Err("is longer than a token")),
        ];
        for (text, expected) in rows {
            match (bearer(text, path), expected) {
                (Ok(value), Ok(expected)) => {
                    assert_eq!(value.as_bytes(), expected.as_bytes());
                    assert!(value.is_sensitive());
                }
                (Err(error), Err(reason)) => {
                    assert_eq!(error, format!("token_file /etc/token {reason}"));
                }
                (value, expected) => assert_eq!(format!("{value:?}"), format!("{expected:?}")),
            }
        }
    }
}
