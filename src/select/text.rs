//! Bytes as text that an id can be.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What `bytes` are as an id: without blanks, NULs and a byte order mark around them; none if
/// nothing is left.
///
/// Bytes that are not UTF-8 (GB2312, Latin-1, chance) are kept as `hex:` and their digits, so that
/// whatever a device puts there still tells one event from another.
pub(super) fn of(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let start = bytes.iter().position(|byte| !is_blank(byte))?;
    let end = bytes.iter().rposition(|byte| !is_blank(byte))?;
    let bytes = &bytes[start..=end];
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(hex(bytes)),
    })
}

/// Likewise, of bytes that were decoded from something.
pub(super) fn owned(bytes: &[u8]) -> Option<String> {
    of(bytes).map(Cow::into_owned)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(4 + 2 * bytes.len());
    text.push_str("hex:");
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_or_their_digits() {
        let rows: &[(&[u8], Option<&str>)] = &[
            (b"e-1", Some("e-1")),
            (b" \0e-1\r\n\0", Some("e-1")),
            (b"\xef\xbb\xbfe-1", Some("e-1")),
            ("Größe".as_bytes(), Some("Größe")),
            (b"caf\xe9", Some("hex:636166e9")),
            (b"\xd5\xc5", Some("hex:d5c5")),
            (b" \0", None),
            (b"", None),
        ];
        for (bytes, expected) in rows {
            assert_eq!(of(bytes).as_deref(), *expected, "{bytes:?}");
        }
    }
}
