//! Secrets: how they lie in files, and how they are compared.

use std::fmt;

use subtle::{Choice, ConstantTimeEq as _};

use crate::event::Digest;

/// A secret. Shows nobody what it is.
#[derive(Clone, Eq, PartialEq)]
pub(super) struct Secret(pub(super) Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

/// The lines of a file that are not blank, with their numbers, without their ends and a byte order
/// mark.
pub(super) fn lines(file: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let file = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    let lines = file.split(|byte| *byte == b'\n');
    let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let numbered = (1..).zip(lines);
    numbered.filter(|(_, line)| !line.trim_ascii().is_empty())
}

/// What can be sent as it is: tokens, users with their passwords. Only their hashes are kept.
#[derive(Clone, Default, Eq, PartialEq)]
pub(super) struct Known(Vec<Digest>);

impl Known {
    /// Adds one.
    pub(super) fn add(&mut self, secret: &[u8]) {
        self.0.push(Digest::of(secret));
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether what was sent is one of them. Takes as long whatever it is: hashes are compared,
    /// all of them and whole.
    pub(super) fn has(&self, sent: &[u8]) -> bool {
        let sent = Digest::of(sent);
        let found = self.0.iter().fold(Choice::from(0), |found, known| {
            found | known.0.ct_eq(&sent.0)
        });
        found.into()
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_secret_a_line() {
        let file = b"\xef\xbb\xbfone\r\n\n  \r\ntwo three \nlast";
        let found: Vec<_> = lines(file).collect();
        let expected: [(usize, &[u8]); 3] = [(1, b"one"), (4, b"two three "), (5, b"last")];
        assert_eq!(found, expected);
        assert_eq!(lines(b"\n \r\n").count(), 0);
    }

    #[test]
    fn only_a_whole_secret_is_known() {
        let mut known = Known::default();
        assert!(known.is_empty() && !known.has(b""));
        known.add(b"old");
        known.add(b"new");
        for (sent, expected) in [
            (&b"old"[..], true),
            (b"new", true),
            (b"ne", false),
            (b"neww", false),
            (b"New", false),
            (b"", false),
        ] {
            assert_eq!(known.has(sent), expected, "{sent:?}");
        }
        assert_eq!(
            format!("{known:?} {:?}", Secret(b"x".to_vec())),
            "2 secrets a secret"
        );
    }
}
