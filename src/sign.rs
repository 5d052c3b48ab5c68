//! Standard Webhooks signatures: a destination can tell that a request is ours and unchanged.
//!
//! # Guarantees
//!
//! - Pure: secrets, id, time and body in, text out.
//! - Neither `Debug` nor an error ever shows a part of a secret.
//!
//! Source: Standard Webhooks 1.0.0, "Signature scheme" and "Symmetric"; `reference/lessons.md`,
//! "Standards".

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The secrets of one destination: one, or several while they are being changed.
pub struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// The most secrets a file may hold: the old, the new, and room for a mishap.
    pub const MOST: usize = 4;
    /// How many bytes a secret has, decoded.
    pub const LENGTH: std::ops::RangeInclusive<usize> = 24..=64;

    /// Reads a file of secrets: one a line, `whsec_` and base64. Empty lines are skipped.
    ///
    /// # Errors
    ///
    /// Says in which line what is wrong, and nothing of what is in it.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut secrets = Vec::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let encoded = line
                .strip_prefix(b"whsec_")
                .ok_or_else(|| format!("line {number} does not begin with whsec_"))?;
            let secret = BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| format!("line {number} is not base64 after whsec_"))?;
            if !Self::LENGTH.contains(&secret.len()) {
                let length = secret.len();
                return Err(format!(
                    "line {number} is a secret of {length} bytes; 24 to 64 are right"
                ));
            }
            secrets.push(secret);
        }
        match secrets.len() {
            0 => Err("there is no secret in it; one a line, whsec_ and base64".to_owned()),
            1..=Self::MOST => Ok(Self(secrets)),
            many => Err(format!(
                "there are {many} secrets in it; at most {} at once are right",
                Self::MOST
            )),
        }
    }

    /// The value of `webhook-signature`: one signature for each secret, in the order of the file.
    ///
    /// `id` must hold no full stop; `timestamp_s` is that of the attempt, in seconds since 1970.
    #[must_use]
    pub fn signatures(&self, id: &str, timestamp_s: i64, body: &[u8]) -> String {
        let sign = |secret: &Vec<u8>| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length is a key");
            mac.update(format!("{id}.{timestamp_s}.").as_bytes());
            mac.update(body);
            format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
        };
        let all: Vec<String> = self.0.iter().map(sign).collect();
        all.join(" ")
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn parsed(text: &str) -> Result<usize, String> {
        Secrets::parse(text.as_bytes()).map(|secrets| secrets.0.len())
    }

    /// Source: the example of the Standard Webhooks libraries.
    #[test]
    fn the_published_example_is_signed_as_published() {
        let secrets = Secrets::parse(SECRET.as_bytes()).expect("it is one");
        let signature = secrets.signatures(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn while_secrets_change_each_of_them_signs() {
        let other = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
        let both = Secrets::parse(format!("{SECRET}\n\n{other}\r\n").as_bytes()).expect("they are");
        let alone =
            |text: &str| Secrets::parse(text.as_bytes()).map(|one| one.signatures("a", 1, b"body"));
        let expected = format!(
            "{} {}",
            alone(SECRET).expect("one"),
            alone(other).expect("one")
        );
        assert_eq!(both.signatures("a", 1, b"body"), expected);
    }

    #[test]
    fn what_is_no_secret_is_named_by_its_line_and_never_shown() {
        let short = "line 1 is a secret of 3 bytes; 24 to 64 are right";
        let none = "there is no secret in it; one a line, whsec_ and base64";
        let five = format!("{SECRET}\n").repeat(5);
        let long = format!("whsec_{}", "A".repeat(88));
        let rows: &[(&str, Result<usize, &str>)] = &[
            (SECRET, Ok(1)),
            ("", Err(none)),
            (" \n\n", Err(none)),
            ("s3cret", Err("line 1 does not begin with whsec_")),
            ("whsec_s3cret", Err("line 1 is not base64 after whsec_")),
            ("whsec_AAEC", Err(short)),
            (
                &long,
                Err("line 1 is a secret of 66 bytes; 24 to 64 are right"),
            ),
            (
                &five,
                Err("there are 5 secrets in it; at most 4 at once are right"),
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(parsed(text), expected.map_err(str::to_owned), "{text}");
        }
        let secrets = Secrets::parse(SECRET.as_bytes()).expect("it is one");
        assert_eq!(format!("{secrets:?}"), "Secrets(1)");
    }
}
