//! Signatures: what a sender has made with a secret over the bytes that it sends.
//!
//! One file for each way that is not like the others; [`layout`] has those that are an HMAC in a
//! header.

mod adyen;
mod layout;
mod mac;
mod paypal;
mod standard;
mod stripe;

use std::fmt;
use std::time::Duration;

use super::secret::{Secret, lines};
use crate::clock::Reading;
use crate::event::Request;

pub use layout::{Layout, Signed};
pub use mac::{Algorithm, Encoding, KeyForm};

use mac::sign;
use paypal::PublicKey;

/// How a sender signs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Scheme {
    /// Stripe: time and signatures in one header.
    Stripe,
    /// Adyen: each item of a body has its own.
    Adyen,
    /// Standard Webhooks, and Svix before it.
    StandardWebhooks,
    /// `PayPal`: RSA over the CRC32 of the body. Needs the id of the webhook there.
    Paypal(String),
    /// An HMAC in a header.
    Hmac(Layout),
}

impl Scheme {
    /// All names that a configuration may give.
    pub const NAMES: [&str; 8] = [
        "adyen",
        "github",
        "hmac",
        "line",
        "paypal",
        "shopify",
        "standard-webhooks",
        "stripe",
    ];

    /// How old or new a signature may be if nobody says so: 5 minutes, as the libraries of Stripe
    /// and Standard Webhooks have it; none: at all, since it has no time, or (`PayPal`) since
    /// nobody says whether a repeated event has a new one.
    #[must_use]
    pub fn usual_tolerance(&self) -> Option<Duration> {
        const USUAL: Duration = Duration::from_secs(300);
        match self {
            Self::Paypal(_) => None,
            _ => self.has_time().then_some(USUAL),
        }
    }

    /// Whether its signatures say when they were made.
    #[must_use]
    pub fn has_time(&self) -> bool {
        match self {
            Self::Stripe | Self::StandardWebhooks | Self::Paypal(_) => true,
            Self::Adyen => false,
            Self::Hmac(layout) => layout.timestamp.is_some(),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stripe => f.write_str("stripe"),
            Self::Adyen => f.write_str("adyen"),
            Self::StandardWebhooks => f.write_str("standard-webhooks"),
            Self::Paypal(_) => f.write_str("paypal"),
            Self::Hmac(layout) => write!(f, "{layout}"),
        }
    }
}

/// How the senders of a route sign, and what they are checked with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signature {
    /// How.
    pub scheme: Scheme,
    /// How old or new it may be on arrival; none: that does not matter.
    pub tolerance: Option<Duration>,
    /// None: it is not checked.
    keys: Option<Keys>,
}

/// Any of them may have been used. Where there is none, nothing is right.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Keys {
    secrets: Vec<Secret>,
    public: Vec<PublicKey>,
}

/// `stripe, at most 300 s old`.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scheme.fmt(f)?;
        match self.tolerance {
            Some(tolerance) => write!(f, ", at most {} s old", tolerance.as_secs()),
            None => Ok(()),
        }
    }
}

/// What a request says of itself.
struct Claim<'r> {
    /// Any of them may be right.
    signatures: Vec<Vec<u8>>,
    /// What they were made over.
    signed: Vec<&'r [u8]>,
    /// When they were made, in seconds since 1970.
    sent: Option<i64>,
}

impl Signature {
    /// It is known how senders sign, and not checked.
    #[must_use]
    pub fn unchecked(scheme: Scheme) -> Self {
        Self {
            tolerance: scheme.usual_tolerance(),
            scheme,
            keys: None,
        }
    }

    /// The same, checked from now on; until there is a file, none is right.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.keys = Some(self.keys.unwrap_or_default());
        self
    }

    /// The same, checked with the secrets of one more file.
    ///
    /// # Errors
    ///
    /// Says in words why they can't be taken; never what they are.
    pub fn with_file(self, file: &[u8]) -> Result<Self, String> {
        let mut signature = self.checked();
        let keys = signature.keys.get_or_insert_default();
        if let Scheme::Paypal(_) = signature.scheme {
            keys.public.push(PublicKey::of_file(file)?);
            return Ok(signature);
        }
        let form = match &signature.scheme {
            Scheme::Adyen => KeyForm::Hex,
            Scheme::StandardWebhooks => KeyForm::Base64,
            Scheme::Hmac(layout) => layout.key,
            Scheme::Stripe | Scheme::Paypal(_) => KeyForm::Text,
        };
        let before = keys.secrets.len();
        for (number, line) in lines(file) {
            let secret = form.read(line.trim_ascii());
            let secret = secret.map_err(|why| format!("line {number} {why}"))?;
            keys.secrets.push(Secret(secret));
        }
        if keys.secrets.len() == before {
            return Err("it is empty; write the secret into it, one a line".to_owned());
        }
        Ok(signature)
    }

    /// Whether it is checked.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        self.keys.is_some()
    }

    /// Whether a request that came at `received` is signed right; else what is wrong, to be read
    /// after `signature `.
    pub(super) fn check(&self, request: &Request, received: Reading) -> Result<(), String> {
        let nothing = Keys::default();
        let keys = self.keys.as_ref().unwrap_or(&nothing);
        let sent = match &self.scheme {
            Scheme::Stripe => {
                let claim = stripe::claim(request)?;
                claim.verify(Algorithm::Sha256, &keys.secrets)?
            }
            Scheme::StandardWebhooks => {
                let claim = standard::claim(request)?;
                claim.verify(Algorithm::Sha256, &keys.secrets)?
            }
            Scheme::Hmac(layout) => {
                let claim = layout.claim(request)?;
                claim.verify(layout.algorithm, &keys.secrets)?
            }
            Scheme::Adyen => {
                adyen::verify(&request.body, &keys.secrets)?;
                None
            }
            Scheme::Paypal(webhook) => paypal::verify(request, webhook, &keys.public)?,
        };
        match (sent, self.tolerance) {
            (Some(sent), Some(tolerance)) => judge_time(sent, received, tolerance),
            _ => Ok(()),
        }
    }
}

impl Claim<'_> {
    /// When it was made, if one of its signatures is right.
    fn verify(&self, algorithm: Algorithm, secrets: &[Secret]) -> Result<Option<i64>, String> {
        let is_right = secrets.iter().any(|secret| {
            let right = sign(algorithm, secret, &self.signed);
            let mut sent = self.signatures.iter();
            sent.any(|sent| mac::is_same(sent, &right))
        });
        if is_right {
            Ok(self.sent)
        } else {
            Err(wrong())
        }
    }
}

fn wrong() -> String {
    "wrong".to_owned()
}

fn no_header(name: &str) -> String {
    format!("missing: no header {name}")
}

/// The bytes of a header that must be there.
fn header<'r>(request: &'r Request, name: &str) -> Result<&'r [u8], String> {
    let value = request.header(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| no_header(name))
}

/// Seconds since 1970. 13 digits are milliseconds, as some senders have it.
fn seconds(text: &[u8]) -> Option<i64> {
    if text.is_empty() || 13 < text.len() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(if text.len() == 13 {
        number / 1000
    } else {
        number
    })
}

/// Whether what was made at `sent` may come at `received`. If nobody knows whether our clock is
/// right, it may.
fn judge_time(sent: i64, received: Reading, tolerance: Duration) -> Result<(), String> {
    let age = received.wall.as_ms().div_euclid(1000).saturating_sub(sent);
    let most = i64::try_from(tolerance.as_secs()).unwrap_or(i64::MAX);
    let ahead = age.saturating_neg();
    if !received.certain {
        Ok(())
    } else if most < age {
        Err(format!("is {age} s old, more than {most} s"))
    } else if most < ahead {
        Err(format!(
            "is {ahead} s ahead of our clock, more than {most} s"
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
