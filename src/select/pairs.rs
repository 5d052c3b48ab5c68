//! `query:NAME` and `form:NAME`: a value of `name=value&…`.
//!
//! A body is taken for such a list whatever its Content-Type says. Forgiven: a raw blank in a
//! value, a `%` that is not followed by two digits, bytes that are not UTF-8.

use std::fmt;

use percent_encoding::percent_decode;

use super::text;

/// A name, decoded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Name(String);

impl Name {
    pub(super) fn parse(text: &str, kind: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(['&', '=']) {
            return Err(format!(
                "a name is needed, as it is when decoded and without \"&\" and \"=\", \
                 as in {kind}:id"
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The first value of that name that is not blank.
    ///
    /// Source: WHATWG URL, section 5.1 (`application/x-www-form-urlencoded`).
    pub(super) fn find_in(&self, pairs: &[u8]) -> Option<String> {
        pairs.split(|byte| *byte == b'&').find_map(|pair| {
            let value = value_at(&self.0, pair)?;
            text::owned(&decoded(&pair[value..]))
        })
    }
}

/// The pairs with `***` for each value of that name.
pub(super) fn conceal(name: &str, pairs: &[u8]) -> Vec<u8> {
    let pairs = pairs.split(|byte| *byte == b'&');
    let concealed = pairs.map(|pair| match value_at(name, pair) {
        Some(value) => [&pair[..value], b"***"].concat(),
        None => pair.to_vec(),
    });
    concealed.collect::<Vec<_>>().join(&b'&')
}

/// Where the value of a pair begins, if it has that name.
fn value_at(name: &str, pair: &[u8]) -> Option<usize> {
    // No encoded name is longer.
    let longest = 3 * name.len();
    let head = &pair[..pair.len().min(longest + 1)];
    let equals = head.iter().position(|byte| *byte == b'=')?;
    (decoded(&pair[..equals]) == name.as_bytes()).then_some(equals + 1)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    let blanks = bytes.iter().map(|byte| match byte {
        b'+' => b' ',
        other => *other,
    });
    let bytes: Vec<u8> = blanks.collect();
    percent_decode(&bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_name() {
        let rows: &[(&[u8], Option<&str>)] = &[
            (b"id=7", Some("7")),
            (b"a=1&id=7&id=8", Some("7")),
            (b"a=1&id=&id=8", Some("8")),
            (b"%69%64=7", Some("7")),
            (b"id=a%20b+c d", Some("a b c d")),
            (b"id=100%", Some("100%")),
            (b"id=%D5%C5", Some("hex:d5c5")),
            (b"id", None),
            (b"xid=7&ids=8", None),
            (b"", None),
        ];
        let name = Name::parse("id", "query").expect("it is one");
        for (pairs, expected) in rows {
            let shown = String::from_utf8_lossy(pairs);
            assert_eq!(name.find_in(pairs).as_deref(), *expected, "{shown}");
        }
        assert!(Name::parse("", "form").is_err());
        assert!(Name::parse("a=b", "form").is_err());
    }
}
