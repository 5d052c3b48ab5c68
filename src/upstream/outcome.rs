//! What ureq's errors and an answer's `Retry-After` mean, in our words. Pure functions.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustls::CertificateError;
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
pub(super) fn outcome_of(error: &Error) -> Outcome {
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
        Error::ConnectProxyFailed(why) => Outcome::Unreachable(format!("proxy refused: {why}")),
        Error::Io(error) => Outcome::Unreachable(broken(error)),
        Error::Rustls(error) => Outcome::Unreachable(insecure(error)),
        Error::Tls(why) => Outcome::Misconfigured(format!("no TLS with this host: {why}")),
        Error::TlsRequired | Error::RequireHttpsOnly(_) => {
            Outcome::Misconfigured("https was asked for and there is no TLS".to_owned())
        }
        Error::BadUri(_) | Error::InvalidProxyUrl | Error::Http(_) | Error::Pem(_) => {
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

fn broken(error: &io::Error) -> String {
    let inner = error.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return insecure(error);
    }
    let words = match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused",
        ErrorKind::HostUnreachable => "host unreachable",
        ErrorKind::NetworkUnreachable => "network unreachable",
        ErrorKind::NetworkDown => "network down",
        ErrorKind::AddrNotAvailable => "no local address to connect from",
        ErrorKind::PermissionDenied => "connecting is forbidden here: a firewall or the sandbox",
        ErrorKind::TimedOut => "no connection in time",
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
fn insecure(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    let words = match error {
        InvalidCertificate(why) => match why {
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "certificate not valid yet: is the clock right?"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "certificate expired, or the clock is ahead"
            }
            CertificateError::UnknownIssuer => "certificate from an issuer that is not trusted",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "certificate is for another host"
            }
            CertificateError::Revoked => "certificate revoked",
            other => return format!("certificate not accepted: {other:?}"),
        },
        InvalidMessage(_) => "TLS failed: the other side does not speak it on this port",
        AlertReceived(alert) => return format!("TLS refused by the other side: {alert:?}"),
        other => return format!("TLS failed: {other}"),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use rustls::AlertDescription;
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
            assert_eq!(outcome_of(&error), outcome, "{error:?}");
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
            (ErrorKind::TimedOut, "no connection in time"),
            (ErrorKind::UnexpectedEof, closed),
            (ErrorKind::ConnectionReset, reset),
            (ErrorKind::ConnectionAborted, reset),
            (ErrorKind::BrokenPipe, reset),
            (ErrorKind::NotConnected, reset),
        ];
        for (kind, why) in kinds {
            assert_eq!(
                outcome_of(&Error::Io(kind.into())),
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
                Error::ConnectProxyFailed("HTTP 407".to_owned()),
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
                outcome_of(&Error::Timeout(phase)),
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
        let answered = outcome_of(&Error::StatusCode(503));
        assert!(matches!(answered, Outcome::Answered(answer) if answer.status == 503));
    }

    #[test]
    fn tls_says_what_to_look_at_however_the_error_arrives() {
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
            rustls::Error::DecryptError,
            "TLS failed: cannot decrypt peer's message",
        ));
        for (error, words) in rows {
            let in_io = io::Error::new(ErrorKind::InvalidData, error.clone());
            assert_eq!(
                outcome_of(&Error::Io(in_io)),
                unreachable(words),
                "{error:?}"
            );
            assert_eq!(outcome_of(&Error::Rustls(error)), unreachable(words));
        }
    }

    fn bad_certificates() -> Vec<(CertificateError, &'static str)> {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(1));
        let name = ServerName::try_from("a.example").expect("it is a name");
        let clock = "certificate not valid yet: is the clock right?";
        let late = "certificate expired, or the clock is ahead";
        vec![
            (CertificateError::NotValidYet, clock),
            (
                CertificateError::NotValidYetContext {
                    time,
                    not_before: time,
                },
                clock,
            ),
            (CertificateError::Expired, late),
            (
                CertificateError::ExpiredContext {
                    time,
                    not_after: time,
                },
                late,
            ),
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
