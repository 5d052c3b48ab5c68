//! What a head says about the body and the connection.
//!
//! Strict, because here a mistake loses an event or takes a part of a body for another request.

use super::head::{Head, trimmed};

/// How long the body is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Length {
    /// There is no body.
    None,
    /// So many bytes; at least one.
    Bytes(u64),
    /// The chunks say.
    Chunked,
    /// Until the sender closes, or says nothing for a while.
    UntilClose,
    /// Nobody has said that there is one. What follows is the next request if it begins like one,
    /// and otherwise a body until the sender closes or says nothing for a while.
    Unannounced,
}

/// What follows from a head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Framing {
    /// How long the body is.
    pub(super) length: Length,
    /// Whether the sender keeps the connection for another request.
    pub(super) keep_alive: bool,
    /// Whether the sender holds the body back until it hears that it is wanted.
    pub(super) wants_continue: bool,
}

/// The head contradicts itself about the length of the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Contradiction;

impl Framing {
    /// Decides what `head` means.
    ///
    /// - Several lengths are one if all are the same, in one field or in several.
    /// - A length together with `chunked` is a contradiction, and so is a transfer coding that is
    ///   neither `chunked` nor `identity`.
    /// - A POST, PUT or PATCH without either whose connection will end has a body until it ends:
    ///   such senders exist (esphome #3539), and their body is all they have to say. One that does
    ///   not speak of the end may be of the same firmware and have a body all the same: to take it
    ///   for none, as RFC 9112 section 6.3 says, would be to acknowledge what is then thrown away.
    /// - `Upgrade` and expectations other than `100-continue` are ignored.
    ///
    /// Source: RFC 9112 sections 6.1, 6.3 and 9.3, RFC 9110 section 10.1.1.
    pub(super) fn of(head: &Head) -> Result<Self, Contradiction> {
        let mut length = None;
        let mut chunked = false;
        let (mut close, mut keep, mut wants_continue) = (false, false, false);
        for header in &head.headers {
            let name = header.name.as_str();
            // Most names differ in length, which is quicker to compare.
            if name.len() == 14 && name.eq_ignore_ascii_case("content-length") {
                for element in elements(&header.value) {
                    let number = digits(element)?;
                    if length.is_some_and(|earlier| earlier != number) {
                        return Err(Contradiction);
                    }
                    length = Some(number);
                }
            } else if name.len() == 17 && name.eq_ignore_ascii_case("transfer-encoding") {
                for element in elements(&header.value) {
                    match element {
                        _ if chunked => return Err(Contradiction),
                        coding if coding.eq_ignore_ascii_case(b"chunked") => chunked = true,
                        coding if coding.eq_ignore_ascii_case(b"identity") => {}
                        _ => return Err(Contradiction),
                    }
                }
            } else if name.len() == 10 && name.eq_ignore_ascii_case("connection") {
                close |= has(&header.value, b"close");
                keep |= has(&header.value, b"keep-alive");
            } else if name.len() == 6 && name.eq_ignore_ascii_case("expect") {
                wants_continue |= has(&header.value, b"100-continue");
            }
        }
        let keep_alive = !close && (keep || !head.old);
        let length = match (length, chunked) {
            (Some(_), true) => return Err(Contradiction),
            (Some(0), false) => Length::None,
            (Some(bytes), false) => Length::Bytes(bytes),
            (None, true) => Length::Chunked,
            (None, false) if !brings_a_body(&head.method) => Length::None,
            (None, false) if keep_alive => Length::Unannounced,
            (None, false) => Length::UntilClose,
        };
        Ok(Self {
            length,
            // An old sender that chunks does not know what it does. Source: RFC 9112 section 6.1.
            keep_alive: keep_alive && !(head.old && chunked),
            wants_continue: wants_continue && !head.old,
        })
    }
}

fn brings_a_body(method: &str) -> bool {
    ["POST", "PUT", "PATCH"]
        .iter()
        .any(|known| method.eq_ignore_ascii_case(known))
}

/// The elements of a list, without blanks around them.
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trimmed)
}

fn has(value: &[u8], token: &[u8]) -> bool {
    elements(value).any(|element| element.eq_ignore_ascii_case(token))
}

fn digits(text: &[u8]) -> Result<u64, Contradiction> {
    if text.is_empty() {
        return Err(Contradiction);
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => u64::from(byte - b'0'),
            _ => return Err(Contradiction),
        };
        number
            .checked_mul(10)
            .and_then(|number| number.checked_add(digit))
            .ok_or(Contradiction)
    })
}

#[cfg(test)]
mod tests {
    use super::super::forgiving;
    use super::*;

    fn framing(line: &str, fields: &str) -> Result<Framing, Contradiction> {
        let head = forgiving::read(format!("{line}\r\n{fields}\r\n").as_bytes());
        Framing::of(&head.expect("the request line is right"))
    }

    #[test]
    fn a_body_is_as_long_as_the_head_says() {
        use Length::{Bytes, Chunked, None, Unannounced, UntilClose};
        let rows = [
            ("POST / HTTP/1.1", "Content-Length: 5\r\n", Bytes(5)),
            ("GET / HTTP/1.1", "content-length:5\r\n", Bytes(5)),
            ("POST / HTTP/1.1", "Content-Length: 0\r\n", None),
            ("POST / HTTP/1.1", "Content-Length: 2, 2\r\n", Bytes(2)),
            (
                "POST / HTTP/1.1",
                "Content-Length: 2\r\nContent-Length: 02\r\n",
                Bytes(2),
            ),
            (
                "POST / HTTP/1.1",
                "Content-Length: 30000000000\r\n",
                Bytes(30_000_000_000),
            ),
            ("POST / HTTP/1.1", "Transfer-Encoding: Chunked\r\n", Chunked),
            (
                "POST / HTTP/1.1",
                "Transfer-Encoding:\r\n chunked\r\n",
                Chunked,
            ),
            (
                "POST / HTTP/1.1",
                "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
                Bytes(5),
            ),
            (
                "POST / HTTP/1.1",
                "Upgrade: h2c\r\nConnection: Upgrade\r\n",
                Unannounced,
            ),
            ("POST / HTTP/1.1", "", Unannounced),
            ("GET / HTTP/1.1", "", None),
            ("DELETE / HTTP/1.1", "", None),
            ("POST / HTTP/1.1", "Connection: close\r\n", UntilClose),
            ("put / HTTP/1.1", "Connection: close\r\n", UntilClose),
            ("POST / HTTP/1.0", "", UntilClose),
            ("POST / HTTP/1.0", "Connection: keep-alive\r\n", Unannounced),
            ("POST / HTTP/1.0", "Content-Length: 5\r\n", Bytes(5)),
            ("GET / HTTP/1.1", "Connection: close\r\n", None),
            ("GET / HTTP/1.0", "", None),
        ];
        for (line, fields, wanted) in rows {
            let found = framing(line, fields).map(|framing| framing.length);
            assert_eq!(found, Ok(wanted), "{line} {fields:?}");
        }
    }

    #[test]
    fn a_head_that_contradicts_itself_is_refused() {
        let rows = [
            "Content-Length: 2\r\nContent-Length: 5\r\n",
            "Content-Length: 2, 5\r\n",
            "Content-Length: 2,\r\n",
            "Content-Length: abc\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length: 1\r\n 2\r\n",
            "Content-Length:\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length : 2\r\ncontent-length: 3\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: chunked;q=1\r\n",
        ];
        for fields in rows {
            assert_eq!(
                framing("POST / HTTP/1.1", fields),
                Err(Contradiction),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_connection_is_kept_as_the_sender_asks() {
        let rows = [
            ("HTTP/1.1", "", true),
            ("HTTP/1.1", "Connection: starting\r\n", true),
            ("HTTP/1.1", "Connection: keep-alive, Close\r\n", false),
            ("HTTP/1.1", "Connection: Upgrade, HTTP2-Settings\r\n", true),
            ("HTTP/1.0", "", false),
            ("HTTP/1.0", "Connection: Keep-Alive\r\n", true),
            (
                "HTTP/1.0",
                "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n",
                false,
            ),
            ("HTTP/1.7", "", true),
        ];
        for (version, fields, wanted) in rows {
            let found = framing(&format!("GET / {version}"), fields);
            let found = found.expect("there is no contradiction").keep_alive;
            assert_eq!(found, wanted, "{version} {fields:?}");
        }
    }

    #[test]
    fn only_a_sender_that_knows_of_it_is_told_to_continue() {
        let rows = [
            ("HTTP/1.1", "Expect: 100-Continue\r\n", true),
            ("HTTP/1.1", "Expect: 200-ok\r\n", false),
            ("HTTP/1.0", "Expect: 100-continue\r\n", false),
        ];
        for (version, fields, wanted) in rows {
            let found = framing(&format!("POST / {version}"), fields);
            let found = found.expect("there is no contradiction").wants_continue;
            assert_eq!(found, wanted, "{version} {fields:?}");
        }
    }
}
