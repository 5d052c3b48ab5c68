//! Takes the chunked transfer coding apart.
//!
//! Extensions and trailers are read over. A bare LF ends a line, and blanks after a size are
//! forgiven; a size that is not one, or data that runs on past its chunk, is not.
//!
//! Source: RFC 9112 section 7.1.

/// The longest line that is not data. The longest known extension is a signature of 85 bytes.
const LONGEST_LINE: usize = 4096;

/// The most bytes of trailers.
const LONGEST_TRAILERS: usize = 16 * 1024;

/// Where in the coding the next byte stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// In the digits of a size.
    Size { digits: u8 },
    /// After the digits, before the end of their line.
    SizeEnd { extension: bool, cr: bool },
    /// In the data.
    Data,
    /// After the data, before the end of their line.
    DataEnd { cr: bool },
    /// In the trailers; whether the line is empty so far.
    Trailers { empty: bool },
}

/// What comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// That many bytes are data.
    Data(usize),
    /// More input is needed.
    More,
    /// The body is complete.
    End,
}

/// The sender does not speak this coding.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Broken;

/// The state of one body's decoding.
#[derive(Debug)]
pub(super) struct Chunked {
    at: At,
    /// What is left of the chunk; while its size is read, what was read of it.
    left: u64,
    /// Bytes of the line, or of all trailers.
    line: usize,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self {
            at: At::Size { digits: 0 },
            left: 0,
            line: 0,
        }
    }

    /// Whether the last chunk was read and nothing of the trailers is half read: if nothing more
    /// comes the body is complete all the same. Source: RFC 9112 section 8.
    pub(super) fn is_whole(&self) -> bool {
        self.at == At::Trailers { empty: true }
    }

    /// Reads over what is not data. Returns how much that was, and what comes next.
    pub(super) fn next(&mut self, input: &[u8]) -> Result<(usize, Part), Broken> {
        let mut used = 0;
        while let Some(byte) = input.get(used) {
            if self.at == At::Data {
                let here = u64::try_from(input.len() - used).unwrap_or(u64::MAX);
                let data = usize::try_from(self.left.min(here)).unwrap_or(usize::MAX);
                return Ok((used, Part::Data(data)));
            }
            used += 1;
            if self.step(*byte)? {
                return Ok((used, Part::End));
            }
        }
        Ok((used, Part::More))
    }

    /// That many bytes of data were taken from the input.
    pub(super) fn took(&mut self, data: usize) {
        self.left -= u64::try_from(data).unwrap_or(self.left).min(self.left);
        if self.left == 0 {
            self.go(At::DataEnd { cr: false });
        }
    }

    /// Reads one byte outside of data. True at the end of the body.
    fn step(&mut self, byte: u8) -> Result<bool, Broken> {
        self.line += 1;
        let longest = match self.at {
            At::Trailers { .. } => LONGEST_TRAILERS,
            _ => LONGEST_LINE,
        };
        if self.line > longest {
            return Err(Broken);
        }
        match (self.at, byte) {
            (At::Size { digits }, _) if byte.is_ascii_hexdigit() => self.digit(digits, byte)?,
            (At::Size { digits: 0 }, _) => return Err(Broken),
            (At::Size { .. }, _) => {
                let (extension, cr) = (false, false);
                self.at = At::SizeEnd { extension, cr };
                return self.step(byte);
            }
            (At::SizeEnd { .. }, b'\n') if self.left == 0 => self.go(At::Trailers { empty: true }),
            (At::SizeEnd { .. }, b'\n') => self.go(At::Data),
            (
                At::SizeEnd {
                    extension: true, ..
                },
                _,
            )
            | (At::SizeEnd { cr: false, .. }, b' ' | b'\t')
            | (At::Trailers { .. }, b'\r') => {}
            (At::SizeEnd { cr, .. }, b';') if !cr => {
                self.at = At::SizeEnd {
                    extension: true,
                    cr,
                };
            }
            (
                At::SizeEnd {
                    cr: false,
                    extension,
                },
                b'\r',
            ) => {
                self.at = At::SizeEnd {
                    extension,
                    cr: true,
                };
            }
            (At::DataEnd { .. }, b'\n') => self.go(At::Size { digits: 0 }),
            (At::DataEnd { cr: false }, b'\r') => self.at = At::DataEnd { cr: true },
            (At::Trailers { empty: true }, b'\n') => return Ok(true),
            (At::Trailers { .. }, b'\n') => self.at = At::Trailers { empty: true },
            (At::Trailers { .. }, _) => self.at = At::Trailers { empty: false },
            _ => return Err(Broken),
        }
        Ok(false)
    }

    fn digit(&mut self, digits: u8, byte: u8) -> Result<(), Broken> {
        let digit = char::from(byte).to_digit(16).ok_or(Broken)?;
        self.left = self.left.checked_mul(16).ok_or(Broken)? + u64::from(digit);
        self.at = At::Size {
            digits: digits.saturating_add(1),
        };
        Ok(())
    }

    fn go(&mut self, to: At) {
        self.at = to;
        self.line = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data, how many bytes the body took, and whether it ended.
    fn decode(bytes: &[u8], size: usize) -> Result<(Vec<u8>, usize, bool), Broken> {
        let mut chunked = Chunked::new();
        let mut data = Vec::new();
        let mut total = 0;
        for piece in bytes.chunks(size) {
            let mut rest = piece;
            loop {
                let (used, part) = chunked.next(rest)?;
                rest = &rest[used..];
                total += used;
                match part {
                    Part::Data(count) => {
                        data.extend_from_slice(&rest[..count]);
                        rest = &rest[count..];
                        total += count;
                        chunked.took(count);
                    }
                    Part::More => break,
                    Part::End => return Ok((data, total, true)),
                }
            }
        }
        Ok((data, total, chunked.is_whole()))
    }

    #[test]
    fn chunks_become_data_however_they_arrive() {
        let rows: &[(&[u8], &[u8])] = &[
            (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
            (b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello"),
            (b"5\nhello\n0\n\n", b"hello"),
            (b"5;ext=1\r\nhello\r\n0;last\r\n\r\n", b"hello"),
            (b"5 \t\r\nhello\r\n0\r\n\r\n", b"hello"),
            (b"005\r\nhello\r\n000\r\nA: 1\r\nB: 2\r\n\r\n", b"hello"),
            (b"0\r\n\r\n", b""),
            (b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
            (b"7\r\n0\r\n\r\nab\r\n0\r\n\r\n", b"0\r\n\r\nab"),
        ];
        for (bytes, wanted) in rows {
            let shown = String::from_utf8_lossy(bytes);
            for size in 1..=bytes.len() {
                let mut followed = bytes.to_vec();
                if size == bytes.len() {
                    followed.extend_from_slice(b"GET /");
                }
                let found = decode(&followed, followed.len().min(size));
                assert_eq!(
                    found,
                    Ok((wanted.to_vec(), bytes.len(), true)),
                    "{shown} by {size}"
                );
            }
        }
    }

    #[test]
    fn what_is_not_chunked_is_broken() {
        let long = [b"5;".as_slice(), &[b'x'; LONGEST_LINE]].concat();
        let trailers = [
            b"0\r\n".as_slice(),
            &b"a: 1\r\n".repeat(LONGEST_TRAILERS / 5),
        ]
        .concat();
        let rows: &[&[u8]] = &[
            b"\r\n",
            b"hello",
            b"-5\r\nhello",
            b"0x5\r\nhello",
            b"5 5\r\nhello",
            b"5\rhello",
            b"5\r\r\nhello",
            b"5\r;\nhello",
            b"5\r\nhello!",
            b"5\r\nhello\r\r\n",
            b"10000000000000000\r\n",
            b"ffffffffffffffffffff\r\n",
            &long,
            &trailers,
        ];
        for bytes in rows {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert_eq!(decode(bytes, 3), Err(Broken), "{shown}");
        }
    }

    #[test]
    fn a_body_is_whole_once_its_last_chunk_was_read() {
        let rows: &[(&[u8], bool)] = &[
            (b"5\r\nhello\r\n0\r\n", true),
            (b"5\r\nhello\r\n0\r\n\r", true),
            (b"5\r\nhello\r\n0\r\nA: 1\r\n", true),
            (b"5\r\nhello\r\n0\r\nA: 1", false),
            (b"5\r\nhello\r\n0\r", false),
            (b"5\r\nhello\r\n0", false),
            (b"5\r\nhello\r\n", false),
            (b"5\r\nhel", false),
            (b"", false),
        ];
        for (bytes, wanted) in rows {
            let shown = String::from_utf8_lossy(bytes);
            let whole = decode(bytes, 1).map(|(_, _, whole)| whole);
            assert_eq!(whole, Ok(*wanted), "{shown}");
        }
    }
}
