//! What ureq's errors and an answer's `Retry-After` mean, in our words. Pure functions.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use ureq::{Error, Timeout};

use crate::clock::Timestamp;
use crate::delivery::{Answer, Outcome, RetryAfter};

/// The outcome of an attempt that ended with `error`.
///
/// - Whatever ends a connection before an answer is [`Outcome::Unreachable`], also when the request
///   had been sent: the event is not to blame for the link.
/// - Running out of time is [`Outcome::TimedOut`] once the request was on its way.
/// - An answer that is not HTTP is [`Outcome::Failed`], and so counts: a destination that breaks
///   over one event must not be asked for ever.
/// - What can only come from our own settings is [`Outcome::Misconfigured`].
///
/// `clock_is_set` is whether our clock is known to be right: a certificate is judged by it.
pub(super) fn outcome_of(error: &Error, clock_is_set: bool) -> Outcome {
    let unreachable = |why: &str| Outcome::Unreachable(why.to_owned());
    match error {
        Error::StatusCode(status) => Outcome::Answered(Answer {
            status: *status,
            retry_after: None,
            head: Vec::new(),
            headers: Vec::new(),
        }),
        Error::HostNotFound => unreachable("no such host"),
        Error::Timeout(Timeout::Resolve) => unreachable("no name server answered in time"),
        Error::Timeout(Timeout::Connect) => unreachable("no connection in time"),
        Error::Timeout(_) => Outcome::TimedOut,
        Error::ConnectionFailed => unreachable("no connection"),
        Error::ConnectProxyFailed(why) => Outcome::Unreachable(format!("proxy {why}")),
        Error::Io(error) => Outcome::Unreachable(match within(error) {
            Some(error) => insecure(error, clock_is_set),
            None => broken(error),
        }),
        Error::Tls(why) => Outcome::Misconfigured(format!("no TLS with this host: {why}")),
        Error::TlsRequired | Error::RequireHttpsOnly(_) => {
            Outcome::Misconfigured("https was asked for and there is no TLS".to_owned())
        }
        Error::BadUri(_) | Error::InvalidProxyUrl | Error::Http(_) => {
            Outcome::Misconfigured(error.to_string())
        }
        Error::Protocol(why) => Outcome::Failed(format!("not HTTP: {why}")),
        Error::LargeResponseHeader(_, most) => {
            Outcome::Failed(format!("head of the answer longer than {most} bytes"))
        }
        _ => Outcome::Failed(error.to_string()),
    }
}

/// Whether the other side ended the connection before it answered, as one that idled too long.
pub(super) fn ended_early(error: &Error) -> bool {
    matches!(error, Error::Io(error) if matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    ))
}

/// Reads a `Retry-After`. Seconds beyond [`u32::MAX`] are that many.
///
/// Source: RFC 9110 section 10.2.3: `HTTP-date / 1*DIGIT`; no sign, no fraction.
pub(super) fn retry_after(value: &[u8]) -> Option<RetryAfter> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(u32::MAX);
        return Some(RetryAfter::Delay(Duration::from_secs(seconds.into())));
    }
    Timestamp::from_http_date(text).map(RetryAfter::Date)
}

/// The error of TLS that `error` brings.
fn within(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// What the network did, in words.
pub(super) fn broken(error: &io::Error) -> String {
    let words = match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::HostUnreachable => "host unreachable",
        ErrorKind::NetworkUnreachable => "network unreachable",
        ErrorKind::NetworkDown => "network down",
        ErrorKind::AddrNotAvailable => "no local address to connect from",
        ErrorKind::PermissionDenied => "connecting is forbidden here: a firewall or the sandbox",
        ErrorKind::TimedOut => "the other side acknowledges nothing any more",
        ErrorKind::UnexpectedEof => "connection closed before an answer",
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected => "connection reset before an answer",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// In words that say what to look at, and without anything the other side sent.
fn insecure(error: &rustls::Error, clock_is_set: bool) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    let words = match error {
        InvalidCertificate(why) => match why {
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                if clock_is_set {
                    "certificate not valid yet, by a clock that is set"
                } else {
                    "certificate not valid yet: the clock of this box is not set"
                }
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                if clock_is_set {
                    "certificate expired"
                } else {
                    "certificate expired, or the clock of this box, which is not set, is ahead"
                }
            }
            CertificateError::UnknownIssuer => "certificate from an issuer that is not trusted",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "certificate is for another host"
            }
            CertificateError::Revoked => "certificate revoked",
            other => return format!("certificate not accepted: {other:?}"),
        },
        InvalidMessage(_) => "TLS failed: the other side does not speak it on this port",
        AlertReceived(AlertDescription::CertificateRequired) => {
            "the other side wants to see a client_cert"
        }
        AlertReceived(alert) => return format!("TLS refused by the other side: {alert:?}"),
        other => return format!("TLS failed: {other}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    fn unreachable(why: &str) -> Outcome {
        Outcome::Unreachable(why.to_owned())
    }

    fn failed(why: &str) -> Outcome {
        Outcome::Failed(why.to_owned())
    }

    fn check(rows: Vec<(Error, Outcome)>) {
        for (error, outcome) in rows {
            assert_eq!(outcome_of(&error, true), outcome, "{error:?}");
        }
    }

    #[test]
    fn what_ends_before_an_answer_never_blames_the_event() {
        let closed = "connection closed before an answer";
        let reset = "connection reset before an answer";
        let forbidden = "connecting is forbidden here: a firewall or the sandbox";
        let kinds = [
            (ErrorKind::ConnectionRefused, "connection refused"),
            (ErrorKind::HostUnreachable, "host unreachable"),
            (ErrorKind::NetworkUnreachable, "network unreachable"),
            (ErrorKind::NetworkDown, "network down"),
            (
                ErrorKind::AddrNotAvailable,
                "no local address to connect from",
            ),
            (ErrorKind::PermissionDenied, forbidden),
            (
                ErrorKind::TimedOut,
                "the other side acknowledges nothing any more",
            ),
            (ErrorKind::UnexpectedEof, closed),
            (ErrorKind::ConnectionReset, reset),
            (ErrorKind::ConnectionAborted, reset),
            (ErrorKind::BrokenPipe, reset),
            (ErrorKind::NotConnected, reset),
        ];
        for (kind, why) in kinds {
            assert_eq!(
                outcome_of(&Error::Io(kind.into()), true),
                unreachable(why),
                "{kind}"
            );
        }
        check(vec![
            (
                Error::Io(io::Error::other("no such host")),
                unreachable("no such host"),
            ),
            (Error::HostNotFound, unreachable("no such host")),
            (Error::ConnectionFailed, unreachable("no connection")),
            (
                Error::ConnectProxyFailed("refused: HTTP 407".to_owned()),
                unreachable("proxy refused: HTTP 407"),
            ),
            (
                Error::Timeout(Timeout::Resolve),
                unreachable("no name server answered in time"),
            ),
            (
                Error::Timeout(Timeout::Connect),
                unreachable("no connection in time"),
            ),
        ]);
    }

    #[test]
    fn running_out_of_time_counts_once_the_request_was_on_its_way() {
        for phase in [
            Timeout::SendRequest,
            Timeout::SendBody,
            Timeout::RecvResponse,
            Timeout::RecvBody,
            Timeout::Global,
            Timeout::PerCall,
            Timeout::PerRead,
            Timeout::PerWrite,
        ] {
            assert_eq!(
                outcome_of(&Error::Timeout(phase), true),
                Outcome::TimedOut,
                "{phase}"
            );
        }
    }

    #[test]
    fn a_bad_answer_counts_and_bad_settings_do_not() {
        let settings = |why: &str| Outcome::Misconfigured(why.to_owned());
        let no_tls = "https was asked for and there is no TLS";
        check(vec![
            (
                Error::LargeResponseHeader(20_000, 16_383),
                failed("head of the answer longer than 16383 bytes"),
            ),
            (Error::BodyStalled, failed("body data reading stalled")),
            (Error::TooManyRedirects, failed("too many redirects")),
            (Error::RedirectFailed, failed("redirect failed")),
            (Error::Other("what".into()), failed("other: what")),
            (Error::TlsRequired, settings(no_tls)),
            (
                Error::RequireHttpsOnly("http://a".to_owned()),
                settings(no_tls),
            ),
            (Error::BadUri("x".to_owned()), settings("bad uri: x")),
            (Error::InvalidProxyUrl, settings("invalid proxy url")),
            (
                Error::Tls("bad name"),
                settings("no TLS with this host: bad name"),
            ),
        ]);
        let answered = outcome_of(&Error::StatusCode(503), true);
        assert!(matches!(answered, Outcome::Answered(answer) if answer.status == 503));
    }

    /// What is said of `error` with a clock that is set, and with one that is not.
    fn said(error: &rustls::Error) -> [Outcome; 2] {
        [true, false].map(|clock_is_set| {
            let in_io = io::Error::new(ErrorKind::InvalidData, error.clone());
            outcome_of(&Error::Io(in_io), clock_is_set)
        })
    }

    #[test]
    fn tls_says_what_to_look_at() {
        let mut rows: Vec<_> = bad_certificates()
            .into_iter()
            .map(|(why, words)| (rustls::Error::InvalidCertificate(why), words))
            .collect();
        rows.push((
            rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
            "TLS failed: the other side does not speak it on this port",
        ));
        rows.push((
            rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
            "TLS refused by the other side: HandshakeFailure",
        ));
        rows.push((
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
            "the other side wants to see a client_cert",
        ));
        rows.push((
            rustls::Error::DecryptError,
            "TLS failed: cannot decrypt peer's message",
        ));
        for (error, words) in rows {
            let words = unreachable(words);
            assert_eq!(said(&error), [words.clone(), words], "{error:?}");
        }
    }

    #[test]
    fn a_time_that_is_wrong_is_blamed_on_a_clock_that_is_not_set() {
        use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
        let time = UnixTime::since_unix_epoch(Duration::from_secs(1));
        let early = [
            "certificate not valid yet, by a clock that is set",
            "certificate not valid yet: the clock of this box is not set",
        ];
        let late = [
            "certificate expired",
            "certificate expired, or the clock of this box, which is not set, is ahead",
        ];
        let not_before = time;
        let not_after = time;
        for (why, words) in [
            (NotValidYet, early),
            (NotValidYetContext { time, not_before }, early),
            (Expired, late),
            (ExpiredContext { time, not_after }, late),
        ] {
            let error = rustls::Error::InvalidCertificate(why);
            assert_eq!(said(&error), words.map(unreachable), "{error:?}");
        }
    }

    fn bad_certificates() -> Vec<(CertificateError, &'static str)> {
        let name = ServerName::try_from("a.example").expect("it is a name");
        vec![
            (
                CertificateError::UnknownIssuer,
                "certificate from an issuer that is not trusted",
            ),
            (
                CertificateError::NotValidForName,
                "certificate is for another host",
            ),
            (
                CertificateError::NotValidForNameContext {
                    expected: name,
                    presented: vec!["evil\n".to_owned()],
                },
                "certificate is for another host",
            ),
            (CertificateError::Revoked, "certificate revoked"),
            (
                CertificateError::BadEncoding,
                "certificate not accepted: BadEncoding",
            ),
        ]
    }

    #[test]
    fn retry_after_is_whole_seconds_or_a_date() {
        let seconds = |seconds| Some(RetryAfter::Delay(Duration::from_secs(seconds)));
        let rows: &[(&[u8], Option<RetryAfter>)] = &[
            (b"0", seconds(0)),
            (b"120", seconds(120)),
            (b" 7\t", seconds(7)),
            (b"99999999999999999999999", seconds(u32::MAX.into())),
            (b"", None),
            (b"-1", None),
            (b"+1", None),
            (b"1.5", None),
            (b"1 s", None),
            (b"soon", None),
            (b"\xff", None),
            (
                b"Sun, 06 Nov 1994 08:49:37 GMT",
                Some(RetryAfter::Date(Timestamp::from_ms(784_111_777_000))),
            ),
        ];
        for (value, expected) in rows {
            assert_eq!(retry_after(value), *expected, "{}", value.escape_ascii());
        }
    }
}
