//! Reads the heads that httparse declines, since real senders send them.
//!
//! Forgiven: a bare LF, raw blanks or any bytes in the target, several blanks, a blank after the
//! version or before a colon, any minor version, a lower-case `http/1.1`, folded values (joined by
//! a space), lines without a colon (skipped), any bytes in a value. CR and NUL inside a value
//! become spaces: RFC 9110 section 5.5 demands that or a refusal, and whoever sends the value on
//! must not be made to send two.
//!
//! Nothing is forgiven about lengths: a line that mentions one and is not plainly a field makes the
//! head hopeless, since who stands in front of us may see a length there, or none, where we do
//! not. What a length means is decided in [`super::framing`].

use super::head::{Fault, Head, MOST_HEADERS, begins_with_a_method, is_token, position, trimmed};
use crate::event::Header;

/// Reads a head from its request line to its empty line.
///
/// A header field of its own is also what looks like a continuation but follows none.
pub(super) fn read(bytes: &[u8]) -> Result<Head, Fault> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let line = request_line(lines.next().unwrap_or_default())?;
    let mut headers: Vec<Header> = Vec::new();
    let mut may_continue = false;
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        if mentions_a_length(line) && !is_plain(line) {
            return Err(Fault::Hopeless);
        }
        if may_continue
            && matches!(line[0], b' ' | b'\t')
            && let Some(last) = headers.last_mut()
        {
            append(&mut last.value, &value(line));
            continue;
        }
        let header = field(line);
        may_continue = header.is_some();
        headers.extend(header);
        if headers.len() > MOST_HEADERS {
            return Err(Fault::Hopeless);
        }
    }
    Ok(Head {
        method: String::from_utf8_lossy(line.method).into_owned(),
        target: line.target.to_vec(),
        old: line.old,
        headers,
    })
}

/// A request line, taken apart.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct RequestLine<'a> {
    method: &'a [u8],
    target: &'a [u8],
    old: bool,
}

/// Takes a request line apart, without its LF: the method is what stands before the first blank,
/// the version what stands after the last one, the target all between.
pub(super) fn request_line(line: &[u8]) -> Result<RequestLine<'_>, Fault> {
    let line = trimmed(line.strip_suffix(b"\r").unwrap_or(line));
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(first) = line.iter().position(blank) else {
        return Err(Fault::NotHttp);
    };
    if !begins_with_a_method(line) {
        return Err(Fault::NotHttp);
    }
    let rest = trimmed(&line[first..]);
    let (target, version) = match rest.iter().rposition(blank) {
        Some(last) => (trimmed(&rest[..last]), &rest[last + 1..]),
        None => (&rest[..0], rest),
    };
    match version.split_at_checked(5) {
        Some((name, number)) if name.eq_ignore_ascii_case(b"HTTP/") => {
            let old = is_one_zero(number)?;
            if target.is_empty() {
                return Err(Fault::Hopeless);
            }
            Ok(RequestLine {
                method: &line[..first],
                target,
                old,
            })
        }
        _ => Err(Fault::NotHttp),
    }
}

/// Whether a version is 1.0 rather than a later 1.x.
///
/// Source: RFC 9110 section 2.5: a higher minor version than ours is to be read as ours.
fn is_one_zero(number: &[u8]) -> Result<bool, Fault> {
    match number {
        [b'1', b'.', minor @ ..] if (1..=3).contains(&minor.len()) => {
            if minor.iter().all(u8::is_ascii_digit) {
                Ok(minor.iter().all(|digit| *digit == b'0'))
            } else {
                Err(Fault::Hopeless)
            }
        }
        _ => Err(Fault::Hopeless),
    }
}

/// Whether nobody can read the line as anything but one field: a name, at most blanks before the
/// colon, and nothing in the value that some take for the end of the line.
fn is_plain(line: &[u8]) -> bool {
    let Some(colon) = position(line, b':') else {
        return false;
    };
    let end = line.iter().position(|byte| !is_token(*byte)).unwrap_or(0);
    end != 0
        && trimmed(&line[end..colon]).is_empty()
        && !line.iter().any(|byte| matches!(byte, b'\r' | 0))
}

fn mentions_a_length(line: &[u8]) -> bool {
    [&b"content-length"[..], b"transfer-encoding"]
        .iter()
        .any(|name| {
            let mut places = line.windows(name.len());
            places.any(|place| place.eq_ignore_ascii_case(name))
        })
}

/// A header field, if the line has a colon and a name before it.
fn field(line: &[u8]) -> Option<Header> {
    let colon = position(line, b':')?;
    let name = line[..colon].trim_ascii();
    if name.is_empty() {
        return None;
    }
    Some(Header {
        name: String::from_utf8_lossy(name).into_owned(),
        value: value(&line[colon + 1..]),
    })
}

fn value(bytes: &[u8]) -> Vec<u8> {
    let mut value: Vec<u8> = bytes
        .iter()
        .map(|byte| match byte {
            b'\r' | 0 => b' ',
            byte => *byte,
        })
        .collect();
    let kept = trimmed(&value);
    if kept.len() != value.len() {
        value = kept.to_vec();
    }
    value
}

fn append(value: &mut Vec<u8>, more: &[u8]) {
    if !value.is_empty() && !more.is_empty() {
        value.push(b' ');
    }
    value.extend_from_slice(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_read_whatever_their_form() {
        type Row<'a> = (&'a [u8], &'a [u8], &'a [u8], bool);
        let rows: &[Row<'_>] = &[
            (b"POST /a HTTP/1.1\r", b"POST", b"/a", false),
            (b"post /a http/1.1", b"post", b"/a", false),
            (
                b"GET /a?v=wet soil (26%) HTTP/1.1",
                b"GET",
                b"/a?v=wet soil (26%)",
                false,
            ),
            (b"GET /a  b\t HTTP/1.0 \r", b"GET", b"/a  b", true),
            (b"GET  \t /a HTTP/1.2", b"GET", b"/a", false),
            (
                b"GET /\xe0\xb8\xa1\xff HTTP/1.1",
                b"GET",
                b"/\xe0\xb8\xa1\xff",
                false,
            ),
            (
                b"POST http://h:1/API HTTP/1.1",
                b"POST",
                b"http://h:1/API",
                false,
            ),
            (b"GET /a HTTP/1.1 HTTP/1.1", b"GET", b"/a HTTP/1.1", false),
            (b"GET a HTTP/1.10", b"GET", b"a", false),
        ];
        for (line, method, target, old) in rows {
            let shown = String::from_utf8_lossy(line);
            let wanted = RequestLine {
                method,
                target,
                old: *old,
            };
            assert_eq!(request_line(line), Ok(wanted), "{shown}");
        }
    }

    #[test]
    fn header_fields_are_read_whatever_their_form() {
        let rows: &[(&str, &[(&str, &str)])] = &[
            ("A: 1\r\n", &[("A", "1")]),
            ("X-Dev : 1 \t\r\n", &[("X-Dev", "1")]),
            ("A:1\nB:\t2\n", &[("A", "1"), ("B", "2")]),
            ("no colon here\r\nB: 2\r\n", &[("B", "2")]),
            (": nameless\r\nB: 2\r\n", &[("B", "2")]),
            (
                "A: 1\r\n 2\r\n\t3\r\nB: 4\r\n",
                &[("A", "1 2 3"), ("B", "4")],
            ),
            ("A:\r\n 2\r\n", &[("A", "2")]),
            (" A: 1\r\n", &[("A", "1")]),
            ("no colon\r\n A: 5\r\n", &[("A", "5")]),
            ("A: 1\rB: 2\0\r\n", &[("A", "1 B: 2")]),
            ("A: \u{e44}\u{7f}\r\n", &[("A", "\u{e44}\u{7f}")]),
            ("A: 1\r\n\r\nB: 2\r\n", &[("A", "1")]),
        ];
        for (fields, wanted) in rows {
            let head = read(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes());
            let head = head.expect("the request line is right");
            let found: Vec<(String, Vec<u8>)> = head
                .headers
                .into_iter()
                .map(|header| (header.name, header.value))
                .collect();
            let wanted: Vec<(String, Vec<u8>)> = wanted
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
                .collect();
            assert_eq!(found, wanted, "{fields:?}");
        }
    }

    #[test]
    fn a_length_that_cannot_be_read_is_not_read_over() {
        let rows: &[&[u8]] = &[
            b"Content-Length 2\r\n",
            b"CONTENT-LENGTH\r\n",
            b": Content-Length: 2\r\n",
            b"Transfer-Encoding\x0b: chunked\r\n",
            b"\x0ctransfer-encoding: chunked\r\n",
            b"Content-Length\0: 2\r\n",
            b"\rContent-Length: 2\r\n",
            b"\xc2\xa0Content-Length: 2\r\n",
            b"A Content-Length: 2\r\n",
            b" Content-Length: 2\r\n",
            b"A: 1\r\n Content-Length: 2\r\n",
            b"A: 1\rContent-Length: 2\r\n",
            b"A: 1\0Transfer-Encoding: chunked\r\n",
        ];
        for line in rows {
            let shown = String::from_utf8_lossy(line);
            let head = [b"POST / HTTP/1.1\r\n", *line, b"\r\n"].concat();
            assert_eq!(read(&head), Err(Fault::Hopeless), "{shown:?}");
        }
        let right: &[&[u8]] = &[
            b"Content-Length : 2\r\n",
            b"Vary: Content-Length\r\n",
            b"X-Content-Length: 2 b\xff\r\n",
            b"A\x0b: 1\r\nlength 2\r\n",
        ];
        for line in right {
            let shown = String::from_utf8_lossy(line);
            let head = [b"POST / HTTP/1.1\r\n", *line, b"\r\n"].concat();
            assert!(read(&head).is_ok(), "{shown:?}");
        }
    }

    #[test]
    fn header_fields_are_counted() {
        let head = |count| format!("GET / HTTP/1.1\r\n{}\r\n", "a:\n".repeat(count));
        assert!(read(head(MOST_HEADERS).as_bytes()).is_ok());
        assert_eq!(
            read(head(MOST_HEADERS + 1).as_bytes()),
            Err(Fault::Hopeless)
        );
    }
}
