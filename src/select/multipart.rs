//! The parts of a multipart body, as forgiving as its senders are careless.
//!
//! # Forgiven
//!
//! A boundary that is printed twice, that the head does not name or names otherwise, or that ends
//! in LF or `\n\r`; an end that is missing; the length that a part says it has. A part without a
//! name has none.
//!
//! Source: `reference/devices.md`, quirks 1, 12 and 13; RFC 2046 section 5.1, RFC 7578 for what is
//! right.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::read::MultiGzDecoder;
use memchr::memmem;

use crate::event::Request;

/// The most that compressed parts are inflated to by one look, in bytes, and the most that is read
/// of them: an id is in its first kilobytes, and a bomb must not cost more, nor many bombs.
pub(super) const MOST_INFLATED: usize = 1 << 20;

/// The most parts that are looked at.
pub(super) const MOST_PARTS: usize = 256;

/// The longest line that is taken for a boundary. Source: RFC 2046 allows 70 characters.
const LONGEST_BOUNDARY: usize = 200;

/// One part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Part<'a> {
    head: &'a [u8],
    content: &'a [u8],
}

/// The parts of a request's body, in order; none if it has no boundary.
pub(super) fn parts(request: &Request) -> impl Iterator<Item = Part<'_>> {
    let body = &request.body;
    let named = request.header("content-type").and_then(boundary_of);
    let first = named.and_then(|boundary| next_line(body, boundary, 0));
    let boundary = match (named, first) {
        (Some(boundary), Some(_)) => Some(boundary),
        _ => first_line_of(body),
    };
    let mut at = boundary.and_then(|boundary| next_line(body, boundary, 0));
    std::iter::from_fn(move || {
        let boundary = boundary?;
        loop {
            let Line { rest, is_last, .. } = at?;
            if is_last {
                return None;
            }
            let next = next_line(body, boundary, rest);
            let end = next.map_or(body.len(), |line| line.start);
            at = next;
            // A boundary that is printed twice has nothing between.
            if let Some(part) = Part::of(&body[rest..end]) {
                return Some(part);
            }
        }
    })
    .take(MOST_PARTS)
}

impl<'a> Part<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (mut at, mut head_end) = (0, 0);
        while at < bytes.len() {
            let line_end = at + line_length(&bytes[at..]);
            let line = bytes[at..line_end].trim_ascii();
            at = line_end;
            if line.is_empty() {
                break;
            }
            head_end = line_end;
        }
        let content = without_line_end(&bytes[at..]);
        let head = &bytes[..head_end];
        (!head.is_empty() || !content.is_empty()).then_some(Self { head, content })
    }

    /// What its `Content-Disposition` calls it.
    pub(super) fn name(&self) -> Option<&'a [u8]> {
        parameter(self.header("content-disposition")?, "name")
    }

    /// The value of the first header called `name`, in any spelling.
    pub(super) fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.head.split(|byte| *byte == b'\n').find_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let is_it = line[..colon]
                .trim_ascii()
                .eq_ignore_ascii_case(name.as_bytes());
            is_it.then(|| line[colon + 1..].trim_ascii())
        })
    }

    /// Its content as it was sent.
    #[cfg(fuzzing)]
    pub(super) fn raw(&self) -> &'a [u8] {
        self.content
    }

    /// Its content, inflated if it says that it is compressed, and is. `left` is what may still be
    /// inflated, of [`MOST_INFLATED`].
    pub(super) fn content(&self, left: &mut usize) -> Cow<'a, [u8]> {
        let coding = self.header("content-encoding").unwrap_or_default();
        if !coding.eq_ignore_ascii_case(b"gzip") {
            return Cow::Borrowed(self.content);
        }
        if *left == 0 {
            return Cow::Borrowed(&[]);
        }
        let mut inflated = Vec::new();
        let packed = &self.content[..self.content.len().min(*left)];
        // A stream that is cut short gives what there is of it.
        _ = MultiGzDecoder::new(packed)
            .take(*left as u64)
            .read_to_end(&mut inflated);
        *left -= inflated.len().max(packed.len()).min(*left);
        if inflated.is_empty() {
            return Cow::Borrowed(self.content);
        }
        Cow::Owned(inflated)
    }
}

/// A line with the boundary.
#[derive(Clone, Copy)]
struct Line {
    /// Where it begins, and with it the line end that belongs to it.
    start: usize,
    /// Where what follows it begins.
    rest: usize,
    is_last: bool,
}

/// The next line of `body` from `from` on that is `boundary`.
fn next_line(body: &[u8], boundary: &[u8], from: usize) -> Option<Line> {
    let mut needle = b"--".to_vec();
    needle.extend_from_slice(boundary);
    for found in memmem::find_iter(&body[from..], &needle) {
        let start = from + found;
        let begins_a_line = start == 0 || matches!(body[start - 1], b'\n' | b'\r');
        if !begins_a_line {
            continue;
        }
        let after = start + needle.len();
        let tail = &body[after..];
        let is_last = tail.starts_with(b"--");
        if is_last || is_blank_line(tail) {
            return Some(Line {
                start,
                rest: after + line_length(tail),
                is_last,
            });
        }
    }
    None
}

/// Whether the first line of `bytes` is blank. Looks no further than to what is not: there may be
/// no other line in many MiB, and a boundary in each of them.
fn is_blank_line(bytes: &[u8]) -> bool {
    let mut blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace());
    let count = blanks.clone().count();
    blanks.any(|byte| *byte == b'\n') || count == bytes.len()
}

/// The length of the first line of `bytes`, its end included: LF, CRLF or LF CR.
fn line_length(bytes: &[u8]) -> usize {
    match memchr::memchr(b'\n', bytes) {
        Some(at) if bytes.get(at + 1) == Some(&b'\r') && bytes.get(at + 2) != Some(&b'\n') => {
            at + 2
        }
        Some(at) => at + 1,
        None => bytes.len(),
    }
}

/// The line end before a boundary belongs to the boundary.
fn without_line_end(content: &[u8]) -> &[u8] {
    let endings: [&[u8]; 3] = [b"\r\n", b"\n\r", b"\n"];
    let mut stripped = endings
        .iter()
        .filter_map(|ending| content.strip_suffix(*ending));
    stripped.next().unwrap_or(content)
}

fn boundary_of(content_type: &[u8]) -> Option<&[u8]> {
    let kind = content_type.get(..10)?;
    let is_multipart = kind.eq_ignore_ascii_case(b"multipart/");
    let boundary = parameter(content_type, "boundary").filter(|_| is_multipart)?;
    (!boundary.is_empty() && boundary.len() <= LONGEST_BOUNDARY).then_some(boundary)
}

/// The boundary that a body begins with, if it looks like one.
fn first_line_of(body: &[u8]) -> Option<&[u8]> {
    let start = body.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let body = &body[start..];
    let line = &body[..line_length(&body[..body.len().min(LONGEST_BOUNDARY + 4)])];
    let boundary = line.strip_prefix(b"--")?.trim_ascii();
    let is_token = |byte: &u8| byte.is_ascii_graphic();
    (!boundary.is_empty() && line.ends_with(b"\n") | line.ends_with(b"\r"))
        .then_some(boundary)
        .filter(|boundary| boundary.iter().all(is_token))
}

/// A parameter of a header's value, quoted or not.
fn parameter<'a>(value: &'a [u8], name: &str) -> Option<&'a [u8]> {
    value.split(|byte| *byte == b';').skip(1).find_map(|one| {
        let equals = one.iter().position(|byte| *byte == b'=')?;
        let is_it = one[..equals]
            .trim_ascii()
            .eq_ignore_ascii_case(name.as_bytes());
        let value = one[equals + 1..].trim_ascii();
        let unquoted = value.strip_prefix(b"\"").unwrap_or(value);
        let unquoted = unquoted.strip_suffix(b"\"").unwrap_or(unquoted);
        is_it.then_some(unquoted)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::GzEncoder;

    use super::*;
    use crate::event::Header;

    fn request(content_type: &str, body: &[u8]) -> Request {
        Request {
            peer: ([127, 0, 0, 1], 1).into(),
            method: "POST".to_owned(),
            target: b"/".to_vec(),
            headers: vec![Header {
                name: "Content-Type".to_owned(),
                value: content_type.as_bytes().to_vec(),
            }],
            body: body.to_vec(),
            oversize: None,
        }
    }

    /// The names and contents of the parts.
    fn found(content_type: &str, body: &[u8]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut left = MOST_INFLATED;
        parts(&request(content_type, body))
            .map(|part| {
                let name = part.name().unwrap_or_default();
                (text(name), text(&part.content(&mut left)))
            })
            .collect()
    }

    const FORM: &str = "multipart/form-data; boundary=\"b\"";

    #[test]
    fn parts_are_found_however_they_are_written() {
        let rows: &[(&str, &[u8])] = &[
            (
                FORM,
                b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b\r\n\
                content-disposition: x; name=c\r\n\r\n2\r\n--b--\r\n",
            ),
            // LF only, and the end is missing.
            (
                FORM,
                b"--b\nContent-Disposition: form-data; name=\"a\"\n\n1\n--b\n\
                Content-Disposition:form-data;name=c\n\n2\n",
            ),
            // The boundary twice, a preamble, a blank after it, LF CR.
            (
                FORM,
                b"hello\r\n--b\r\n--b \r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\
                1\n\r--b\n\rContent-Disposition: form-data; name=\"c\"\n\r\n\r2\n\r--b--",
            ),
            // The head names another boundary, or none.
            (
                "multipart/form-data; boundary=other",
                b"--b\r\nContent-Disposition: form-data; \
                name=\"a\"\r\n\r\n1\r\n--b\r\nContent-Disposition: x; name=c\r\n\r\n2\r\n--b--",
            ),
            (
                "text/plain",
                b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b\r\n\
                Content-Length: 9999\r\nContent-Disposition: x; name=c\r\n\r\n2\r\n--b--",
            ),
        ];
        let expected =
            [("a", "1"), ("c", "2")].map(|(name, content)| (name.into(), content.into()));
        for (content_type, body) in rows {
            let shown = String::from_utf8_lossy(body);
            assert_eq!(found(content_type, body), expected, "{shown}");
        }
    }

    #[test]
    fn bytes_of_a_picture_are_not_taken_for_a_boundary() {
        let body = b"--b\r\nContent-Disposition: x; name=a\r\n\r\n\xff\xd8--b\r\n--bx\r\n--b--";
        let request = request(FORM, body);
        let all: Vec<Part<'_>> = parts(&request).collect();
        let contents: Vec<&[u8]> = all.iter().map(|part| part.content).collect();
        assert_eq!(contents, [b"\xff\xd8--b\r\n--bx"]);
    }

    #[test]
    fn a_compressed_part_is_inflated_and_bombs_are_not() {
        let packed = |bytes: &[u8]| {
            let mut packer = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(bytes).expect("memory");
            packer.finish().expect("memory")
        };
        let body = |packed: &[u8], count: usize| {
            let head = b"--b\r\nContent-Disposition: x; name=a\r\nContent-Encoding: gzip\r\n\r\n";
            let part = [head, packed, b"\r\n"].concat();
            [part.repeat(count).as_slice(), b"--b--\r\n"].concat()
        };
        let lengths = |body: &[u8]| -> Vec<usize> {
            let found = found(FORM, body).into_iter();
            found.map(|(_, content)| content.len()).collect()
        };
        let small = body(&packed(b"{\"id\":7}"), 1);
        assert_eq!(found(FORM, &small), [("a".into(), "{\"id\":7}".into())]);
        let bomb = packed(&vec![b'x'; 64 << 20]);
        assert_eq!(lengths(&body(&bomb, 3)), [MOST_INFLATED, 0, 0]);
        // What is read counts, though nothing comes of it.
        assert_eq!(lengths(&body(&vec![b'x'; 2 << 20], 2)), [2 << 20, 0]);
        let no_gzip = body(b"plain", 1);
        assert_eq!(found(FORM, &no_gzip), [("a".into(), "plain".into())]);
    }

    #[test]
    fn a_body_of_one_line_is_read_once_however_often_its_boundary_is_there() {
        let body = b"--b\rx\r".repeat(1 << 20);
        assert_eq!(found(FORM, &body), []);
        let blank = [&b"--b\r\n"[..], &body, b"\n--b \t\r \n\n1\r\n--b"].concat();
        let contents: Vec<usize> = found(FORM, &blank).iter().map(|one| one.1.len()).collect();
        assert_eq!(contents, [0, 1]);
    }

    #[test]
    fn what_has_no_boundary_has_no_parts() {
        for body in [&b""[..], b"--", b"--\r\n", b"{}", b"-- b --", b"\r\n\r\n"] {
            assert_eq!(found("text/plain", body), [], "{body:?}");
            assert_eq!(found(FORM, body), [], "{body:?}");
        }
    }
}
