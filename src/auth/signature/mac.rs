//! HMACs, how they are written, and how secrets are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use crate::auth::secret::Secret;

/// What an HMAC is made with. Source: RFC 2104, FIPS 180-4.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Algorithm {
    /// For senders that know nothing better. As an HMAC nobody has forged it yet.
    Sha1,
    /// The usual one.
    #[default]
    Sha256,
    /// Longer.
    Sha512,
}

impl Algorithm {
    /// All of them, by the names that they have in a configuration.
    pub const ALL: [(&str, Self); 3] = [
        ("sha1", Self::Sha1),
        ("sha256", Self::Sha256),
        ("sha512", Self::Sha512),
    ];
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Encoding {
    /// Hexadecimal digits, in capitals or not.
    #[default]
    Hex,
    /// Base64, with its padding or without.
    Base64,
}

impl Encoding {
    /// All of them, by the names that they have in a configuration.
    pub const ALL: [(&str, Self); 2] = [("hex", Self::Hex), ("base64", Self::Base64)];

    /// The bytes that were written so.
    pub(super) fn read(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Hex => hex(text),
            Self::Base64 => base64(text),
        }
    }
}

/// How a secret is written in its file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyForm {
    /// As it is.
    #[default]
    Text,
    /// In hexadecimal digits.
    Hex,
    /// In Base64, perhaps behind `whsec_`.
    Base64,
}

impl KeyForm {
    /// All of them, by the names that they have in a configuration.
    pub const ALL: [(&str, Self); 3] = [
        ("text", Self::Text),
        ("hex", Self::Hex),
        ("base64", Self::Base64),
    ];

    /// The secret of a line.
    pub(super) fn read(self, line: &[u8]) -> Result<Vec<u8>, String> {
        let read = match self {
            Self::Text => Some(line.to_vec()),
            Self::Hex => hex(line),
            Self::Base64 => base64(line.strip_prefix(b"whsec_").unwrap_or(line)),
        };
        let why = match self {
            Self::Text => "is empty",
            Self::Hex => "is no secret in hexadecimal digits",
            Self::Base64 => "is no secret in Base64, as \"whsec_…\" is",
        };
        read.filter(|key| !key.is_empty())
            .ok_or_else(|| why.to_owned())
    }
}

/// The HMAC over all `pieces`, one after the other.
pub(super) fn sign(algorithm: Algorithm, secret: &Secret, pieces: &[&[u8]]) -> Vec<u8> {
    const ANY_LENGTH: &str = "an HMAC takes a key of any length";
    macro_rules! with {
        ($hash:ty) => {{
            let mut mac = <Hmac<$hash>>::new_from_slice(&secret.0).expect(ANY_LENGTH);
            for piece in pieces {
                mac.update(piece);
            }
            mac.finalize().into_bytes().to_vec()
        }};
    }
    match algorithm {
        Algorithm::Sha1 => with!(Sha1),
        Algorithm::Sha256 => with!(Sha256),
        Algorithm::Sha512 => with!(Sha512),
    }
}

/// Whether they are the same; takes as long wherever they differ.
pub(super) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

pub(super) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

fn hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    text.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How it is written, what stands there, and what it means.
    type Row<'a> = (Encoding, &'a [u8], Option<&'a [u8]>);

    /// Of RFC 2202 and RFC 4231: "Jefe" and what he wants.
    #[test]
    fn hmacs_are_those_of_the_rfcs() {
        let rows = [
            (Algorithm::Sha1, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            (
                Algorithm::Sha256,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                Algorithm::Sha512,
                "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a\
                 6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
            ),
        ];
        let secret = Secret(b"Jefe".to_vec());
        for (algorithm, expected) in rows {
            let made = sign(algorithm, &secret, &[b"what do ya want ", b"for nothing?"]);
            assert_eq!(Some(made), hex(expected.as_bytes()), "{algorithm:?}");
        }
    }

    #[test]
    fn what_is_written_wrong_is_no_signature_and_no_secret() {
        let rows: [Row<'_>; 8] = [
            (Encoding::Hex, b"00fFa0", Some(b"\x00\xff\xa0")),
            (Encoding::Hex, b"00f", None),
            (Encoding::Hex, b"0x00", None),
            (Encoding::Hex, b"", Some(b"")),
            (Encoding::Base64, b"AP+g", Some(b"\x00\xff\xa0")),
            (Encoding::Base64, b"AP8=", Some(b"\x00\xff")),
            (Encoding::Base64, b"AP8", Some(b"\x00\xff")),
            (Encoding::Base64, b"AP-g", None),
        ];
        for (encoding, text, expected) in rows {
            assert_eq!(encoding.read(text).as_deref(), expected, "{text:?}");
        }
        for (form, line) in [
            (KeyForm::Hex, &b"12 34"[..]),
            (KeyForm::Base64, b"whsec_"),
            (KeyForm::Base64, b"whsec_!"),
            (KeyForm::Text, b""),
        ] {
            assert!(form.read(line).is_err(), "{form:?}");
        }
        assert!(is_same(b"ab", b"ab") && !is_same(b"ab", b"ac") && !is_same(b"ab", b"abc"));
        assert!(!is_same(b"", b"a"));
    }
}
