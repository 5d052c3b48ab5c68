//! The head of a request: request line and header fields, gathered until they are complete.
//!
//! A head that is well-formed is read by httparse where it lies. What httparse declines goes to
//! [`forgiving`], which yields the same [`Head`] wherever both can read it.

use std::mem::MaybeUninit;

use super::forgiving;
use crate::event::Header;

/// A complete head.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Head {
    /// The method, spelt as sent.
    pub(super) method: String,
    /// The target as sent.
    pub(super) target: Vec<u8>,
    /// Whether the sender speaks HTTP/1.0, where a connection ends with its answer by default.
    pub(super) old: bool,
    /// All header fields in order, values without surrounding blanks.
    pub(super) headers: Vec<Header>,
}

/// Why bytes will never become a head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// TLS, a binary protocol, a line of JSON: an answer in HTTP would not be understood.
    NotHttp,
    /// HTTP, but too large, or of another major version, or without a target, or with a length
    /// in a line that is no field.
    Hopeless,
}

/// The longest method. The longest registered one has 17 characters (RFC 9110 section 16.1).
const LONGEST_METHOD: usize = 32;

/// The most header fields of a head. Bounds what 32 KiB of them can cost once they are taken
/// apart; browsers, proxies and all known senders stay below 50.
pub(super) const MOST_HEADERS: usize = 256;

/// How many header fields httparse is given room for; heads with more go the other way.
const USUAL_HEADERS: usize = 48;

/// What a header field costs beside its bytes: its place in the list, and what an allocator adds
/// to its two pieces.
const HEADER_COST: usize = size_of::<Header>() + 2 * 16;

impl Head {
    /// How many bytes of memory it takes, about.
    pub(super) fn cost(&self) -> usize {
        let fields = self.headers.iter().map(|header| {
            let Header { name, value } = header;
            HEADER_COST + name.len() + value.len()
        });
        self.method.len() + self.target.len() + fields.sum::<usize>()
    }

    /// The most that a head of so many bytes can cost.
    pub(super) const fn highest_cost(bytes: usize) -> usize {
        bytes + MOST_HEADERS * HEADER_COST
    }
}

/// The beginning of a head. Empty between requests, and then it owns no memory.
#[derive(Debug, Default)]
pub(super) struct Partial {
    bytes: Vec<u8>,
    /// No head ends before this.
    scanned: usize,
    line_is_right: bool,
}

impl Partial {
    /// One whose first bytes were read as something else; they hold one line at most.
    pub(super) fn of(mut bytes: Vec<u8>) -> Self {
        let begins = bytes.iter().position(|byte| !is_line_end(*byte));
        bytes.drain(..begins.unwrap_or(bytes.len()));
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Whether nothing of a head has come yet.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes bytes up to the end of the head. Returns how many, and the head if it is complete.
    ///
    /// Empty lines before a head are dropped: some senders end a body with one (iSpindel #103).
    /// Source: RFC 9112 section 2.2.
    pub(super) fn feed(
        &mut self,
        input: &[u8],
        most: usize,
    ) -> (usize, Result<Option<Head>, Fault>) {
        if !self.bytes.is_empty() {
            return self.gather(input, most);
        }
        let skipped = input
            .iter()
            .position(|byte| !is_line_end(*byte))
            .unwrap_or(input.len());
        let input = &input[skipped..];
        if input.is_empty() {
            return (skipped, Ok(None));
        }
        if !begins_with_a_method(input) {
            return (skipped, Err(Fault::NotHttp));
        }
        if let Some((head, length)) = read_well_formed(input)
            && length <= most
        {
            return (skipped + length, Ok(Some(head)));
        }
        let (used, result) = self.gather(input, most);
        (skipped + used, result)
    }

    fn gather(&mut self, input: &[u8], most: usize) -> (usize, Result<Option<Head>, Fault>) {
        let room = most.saturating_sub(self.bytes.len());
        let taken = input.len().min(room);
        self.bytes.extend_from_slice(&input[..taken]);
        if let Err(fault) = self.check_the_line() {
            return (taken, Err(fault));
        }
        if let Some(end) = end_of_head(&self.bytes, self.scanned) {
            let surplus = self.bytes.len() - end;
            let bytes = &self.bytes[..end];
            let result = match read_well_formed(bytes) {
                Some((head, length)) if length == end => Ok(head),
                _ => forgiving::read(bytes),
            };
            *self = Self::default();
            return (taken - surplus, result.map(Some));
        }
        if self.bytes.len() >= most {
            return (taken, Err(Fault::Hopeless));
        }
        self.scanned = self.bytes.len().saturating_sub(2);
        (taken, Ok(None))
    }

    /// What is not HTTP is known at the end of its first line at the latest.
    fn check_the_line(&mut self) -> Result<(), Fault> {
        if self.line_is_right {
            return Ok(());
        }
        if !begins_with_a_method(&self.bytes) {
            return Err(Fault::NotHttp);
        }
        if let Some(end) = position(&self.bytes[self.scanned..], b'\n') {
            forgiving::request_line(&self.bytes[..self.scanned + end])?;
            self.line_is_right = true;
        }
        Ok(())
    }
}

/// Whether `bytes`, which need not be all of it, can be the beginning of a request line.
///
/// Stricter than the grammar (RFC 9110 section 5.6.2) in that a method begins with a letter and is
/// not long, so that a tracker that sends its number in digits is recognised at its first byte.
pub(super) fn begins_with_a_method(bytes: &[u8]) -> bool {
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b' ' | b'\t' => return index != 0,
            _ if index >= LONGEST_METHOD => return false,
            b'a'..=b'z' | b'A'..=b'Z' => {}
            _ if index == 0 || !is_token(*byte) => return false,
            _ => {}
        }
    }
    true
}

/// Whether `bytes`, which hold one line at most beside empty ones, begin another request; none: it
/// can't be known yet.
pub(super) fn begins_a_request(bytes: &[u8]) -> Option<bool> {
    let begins = bytes.iter().position(|byte| !is_line_end(*byte))?;
    let bytes = &bytes[begins..];
    if !begins_with_a_method(bytes) {
        return Some(false);
    }
    let line = bytes.strip_suffix(b"\n")?;
    Some(forgiving::request_line(line) != Err(Fault::NotHttp))
}

/// Reads a head that httparse takes, and says how long it is.
fn read_well_formed(bytes: &[u8]) -> Option<(Head, usize)> {
    let mut room = [const { MaybeUninit::uninit() }; USUAL_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let status = request.parse_with_uninit_headers(bytes, &mut room).ok()?;
    let httparse::Status::Complete(length) = status else {
        return None;
    };
    let headers = request.headers.iter().map(|header| Header {
        name: header.name.to_owned(),
        value: trimmed(header.value).to_vec(),
    });
    let head = Head {
        method: request.method?.to_owned(),
        target: request.path?.as_bytes().to_vec(),
        old: request.version? == 0,
        headers: headers.collect(),
    };
    Some((head, length))
}

/// Where the body begins: after the first empty line. No head ends before `from`.
fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(feed) = position(&bytes[at..], b'\n') {
        at += feed + 1;
        match bytes[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// `bytes` without spaces and tabs at either end. Source: RFC 9110 section 5.6.3.
pub(super) fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

pub(super) fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

pub(super) fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed_in_pieces(bytes: &[u8], size: usize) -> (usize, Result<Option<Head>, Fault>) {
        let mut partial = Partial::default();
        let mut used = 0;
        for piece in bytes.chunks(size) {
            let (taken, result) = partial.feed(piece, 1000);
            used += taken;
            if !matches!(result, Ok(None)) {
                return (used, result);
            }
            assert_eq!(taken, piece.len(), "an unfinished head takes everything");
        }
        (used, Ok(None))
    }

    #[test]
    fn a_head_ends_where_its_empty_line_ends_however_it_arrives() {
        let rows: &[&[u8]] = &[
            b"POST /a HTTP/1.1\r\nA: 1\r\n\r\n",
            b"POST /a HTTP/1.1\nA: 1\n\n",
            b"POST /a HTTP/1.1 \r\nA: 1\r\n\r\n",
            b"\r\n\n\r\nPOST /a HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.0\n\r\n",
        ];
        for head in rows {
            let shown = String::from_utf8_lossy(head);
            let bytes = [head, &b"\r\nGET"[..]].concat();
            for size in 1..bytes.len() {
                let (used, result) = feed_in_pieces(&bytes, size);
                assert!(
                    matches!(result, Ok(Some(_))),
                    "{shown} by {size}: {result:?}"
                );
                assert_eq!(used, head.len(), "{shown} by {size}");
            }
        }
    }

    #[test]
    fn what_is_not_http_is_known_at_once() {
        let not_http: &[&[u8]] = &[
            b"\x16\x03\x01\x02\x00",
            b"{\"event\":1}",
            b"<xml/>",
            b"\x00\x0f350000000000001",
            b"350000000000001",
            b"##,imei:1,A;",
            b"hello\n",
            b"hello there\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
            b" GET / HTTP/1.1\r\n",
            b"abcdefghijklmnopqrstuvwxyzabcdefg",
        ];
        for bytes in not_http {
            let shown = String::from_utf8_lossy(bytes);
            for size in [1, bytes.len()] {
                let (_, result) = feed_in_pieces(bytes, size);
                assert_eq!(result, Err(Fault::NotHttp), "{shown} by {size}");
            }
        }
        let hopeless: &[&[u8]] = &[
            b"PRI * HTTP/2.0\r\n",
            b"GET HTTP/1.1\r\n",
            b"GET / HTTP/1\n",
        ];
        for bytes in hopeless {
            let shown = String::from_utf8_lossy(bytes);
            let (_, result) = feed_in_pieces(bytes, 3);
            assert_eq!(result, Err(Fault::Hopeless), "{shown}");
        }
    }

    #[test]
    fn a_head_may_be_as_long_as_the_limit_and_not_longer() {
        let line = b"GET / HTTP/1.1\r\nA: ";
        for (length, fits) in [(1000, true), (1001, false), (5000, false)] {
            let mut bytes = line.to_vec();
            bytes.resize(length - 4, b'x');
            bytes.extend_from_slice(b"\r\n\r\n");
            for size in [7, 2000] {
                let (_, result) = feed_in_pieces(&bytes, size);
                assert_eq!(result.is_ok(), fits, "{length} by {size}");
            }
        }
    }

    fn line_end() -> impl Strategy<Value = &'static str> {
        prop_oneof![4 => Just("\r\n"), 1 => Just("\n")]
    }

    proptest! {
        #[test]
        fn the_forgiving_reader_agrees_with_httparse(
            method in "[A-Za-z][A-Z!#-]{0,6}",
            gap in "( | | | |[ \t]{2})",
            target in "[!-~\u{e0}-\u{e9} ]{1,12}",
            version in "HTTP/1\\.[01]( |)|HTTP/1.2|http/1.1",
            headers in prop::collection::vec(
                ("[A-Za-z0-9_!-]{1,9}[ ]?", "[ \t]?[ -~\u{e0}\t\r\u{0}]{0,12}[ \t]?", line_end()),
                0..6,
            ),
            end in line_end(),
        ) {
            let mut text = format!("{method}{gap}{target} {version}{end}");
            for (name, value, end) in headers {
                text.extend([name.as_str(), ":", value.as_str(), end]);
            }
            text += end;
            if let Some((head, length)) = read_well_formed(text.as_bytes()) {
                prop_assert_eq!(length, text.len());
                prop_assert_eq!(forgiving::read(text.as_bytes()), Ok(head));
            }
        }

        #[test]
        fn any_bytes_after_a_request_line_are_read_alike_in_one_piece_and_in_many(
            bytes in prop::collection::vec(
                prop_oneof![4 => prop::sample::select(&b"\r\n: a"[..]), 1 => any::<u8>()],
                0..60,
            ),
            size in 1_usize..9,
        ) {
            let mut head = b"GET / HTTP/1.1\r\n".to_vec();
            head.extend(bytes);
            head.extend(b"\r\n\r\n");
            prop_assert_eq!(feed_in_pieces(&head, size), feed_in_pieces(&head, 1000));
        }
    }
}
