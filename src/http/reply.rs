//! Writes answers.

use std::io::Write as _;

use super::Answer;
use crate::clock::{Clock, Moment};

/// How the request was made, as far as its answer depends on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Manner {
    /// Only the head of the answer is wanted: it answers a HEAD.
    pub(super) head_only: bool,
    /// The connection ends with this answer.
    pub(super) close: bool,
    /// The sender speaks HTTP/1.0, where keeping the connection must be said.
    pub(super) old: bool,
}

/// The interim answer to `Expect: 100-continue`. Source: RFC 9110 section 15.2.1.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends `answer` as it goes over the wire. See [`Answer`] for what is never sent.
pub(super) fn write(out: &mut Vec<u8>, answer: &Answer, date: Option<&str>, manner: Manner) {
    let (body, content_type) = match answer.body.as_slice() {
        [] => (&b"OK\n"[..], "text/plain"),
        body => (body, answer.content_type.as_ref()),
    };
    let status = match answer.status {
        204 | 0..200 => 200,
        status => status,
    };
    push(out, "HTTP/1.1 ");
    number(out, usize::from(status));
    push(out, " ");
    push(out, reason(status));
    if !content_type.bytes().any(|byte| byte.is_ascii_control()) {
        push(out, "\r\nContent-Type: ");
        push(out, content_type);
    }
    push(out, "\r\nContent-Length: ");
    number(out, body.len());
    if let Some(date) = date {
        push(out, "\r\nDate: ");
        push(out, date);
    }
    if let Some(pause) = answer.retry_after {
        push(out, "\r\nRetry-After: ");
        number(
            out,
            usize::try_from(pause.as_secs())
                .unwrap_or(usize::MAX)
                .max(1),
        );
    }
    if answer.asks_password {
        push(
            out,
            "\r\nWWW-Authenticate: Basic realm=\"gatepost\", charset=\"UTF-8\"",
        );
    }
    if manner.close {
        push(out, "\r\nConnection: close");
    } else if manner.old {
        push(out, "\r\nConnection: keep-alive");
    }
    push(out, "\r\n\r\n");
    if !manner.head_only {
        out.extend_from_slice(body);
    }
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn number(out: &mut Vec<u8>, number: usize) {
    // Writing to memory cannot fail.
    _ = write!(out, "{number}");
}

/// What the status is called; senders do not read it. Source: RFC 9110 section 15.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        503 => "Service Unavailable",
        _ => "Answer",
    }
}

/// The value of the `Date` header, made anew about once a second.
///
/// There is none while the clock is not known to be right: terminals set theirs by it (`ZKTeco`
/// push SDK 2.0.1). Source: RFC 9110 section 6.6.1, which forbids it to servers without a clock.
#[derive(Debug, Default)]
pub(super) struct Date {
    text: Option<String>,
    made: Option<Moment>,
}

impl Date {
    /// A second as a cache counts it.
    const AGE: std::time::Duration = std::time::Duration::from_secs(1);

    pub(super) fn at(&mut self, now: Moment, clock: &dyn Clock) -> Option<&str> {
        if self.made.is_none_or(|made| now.since(made) >= Self::AGE) {
            let reading = clock.reading();
            self.text = reading.certain.then(|| reading.wall.http_date());
            self.made = Some(now);
        }
        self.text.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::clock::{Reading, Timestamp};

    const KEEP: Manner = Manner {
        head_only: false,
        close: false,
        old: false,
    };

    fn written(answer: &Answer, date: Option<&str>, manner: Manner) -> String {
        let mut out = Vec::new();
        write(&mut out, answer, date, manner);
        String::from_utf8(out).expect("answers here are ASCII")
    }

    fn accepted() -> Answer {
        Answer {
            status: 202,
            content_type: Cow::Borrowed("application/json"),
            body: b"{}".to_vec(),
            retry_after: None,
            asks_password: false,
            close: false,
        }
    }

    #[test]
    fn an_answer_says_how_long_it_is_and_what_becomes_of_the_connection() {
        let start = "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n\
                     Content-Length: 2\r\n";
        let close = Manner {
            close: true,
            ..KEEP
        };
        let old = Manner { old: true, ..KEEP };
        let head_only = Manner {
            head_only: true,
            ..KEEP
        };
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        let rows = [
            (None, KEEP, "\r\n{}"),
            (None, close, "Connection: close\r\n\r\n{}"),
            (None, old, "Connection: keep-alive\r\n\r\n{}"),
            (None, head_only, "\r\n"),
            (date, KEEP, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n{}"),
        ];
        for (date, manner, end) in rows {
            let found = written(&accepted(), date, manner);
            assert_eq!(found, format!("{start}{end}"), "{manner:?}");
        }
    }

    #[test]
    fn a_refusal_says_when_to_try_again() {
        let found = written(&Answer::refusal(), None, KEEP);
        assert!(
            found.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{found}"
        );
        assert!(found.contains("\r\nRetry-After: 5\r\n"), "{found}");
        let soon = Answer {
            retry_after: Some(Duration::from_millis(10)),
            ..Answer::refusal()
        };
        let found = written(&soon, None, KEEP);
        assert!(found.contains("\r\nRetry-After: 1\r\n"), "{found}");
    }

    #[test]
    fn what_senders_stumble_over_is_never_sent() {
        let empty = Answer {
            status: 204,
            content_type: Cow::Borrowed("text/html\r\nX: 1"),
            body: Vec::new(),
            ..accepted()
        };
        let found = written(&empty, None, KEEP);
        let wanted = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nOK\n";
        assert_eq!(found, wanted);
        let split = Answer {
            body: b"x".to_vec(),
            ..empty
        };
        let found = written(&split, None, KEEP);
        assert_eq!(found, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    }

    struct FalseClock(Mutex<Reading>);

    impl Clock for FalseClock {
        fn moment(&self) -> Moment {
            Moment::START
        }

        fn reading(&self) -> Reading {
            *self.0.lock().expect("no test thread panics with it")
        }
    }

    #[test]
    fn there_is_a_date_only_while_the_clock_is_right() {
        let clock = FalseClock(Mutex::default());
        let mut date = Date::default();
        let at = |tenths: u64| Moment::at(Duration::from_millis(100 * tenths));
        assert_eq!(date.at(at(0), &clock), None);
        *clock.0.lock().expect("nobody panics with it") = Reading {
            wall: Timestamp::from_ms(784_111_777_000),
            certain: true,
            uptime_ms: 0,
        };
        assert_eq!(date.at(at(9), &clock), None, "asked once a second");
        let wanted = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date.at(at(10), &clock), wanted);
        *clock.0.lock().expect("nobody panics with it") = Reading::default();
        assert_eq!(date.at(at(19), &clock), wanted);
        assert_eq!(date.at(at(20), &clock), None);
    }
}
