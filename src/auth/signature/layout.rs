//! An HMAC in a header: GitHub, Shopify, LINE, and whatever an operator describes.

use std::fmt;

use super::{Algorithm, Claim, Encoding, KeyForm, header, seconds};
use crate::event::Request;

/// Where such a signature is, and what it is made over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Layout {
    /// What it is called.
    pub name: &'static str,
    /// The header that it is in.
    pub header: String,
    /// What stands before it there.
    pub prefix: String,
    /// What it is made with.
    pub algorithm: Algorithm,
    /// How it is written.
    pub encoding: Encoding,
    /// The header with the time in seconds since 1970; none: it has none.
    pub timestamp: Option<String>,
    /// What it is made over.
    pub signed: Signed,
    /// How the secret is written in its file.
    pub key: KeyForm,
}

impl Layout {
    /// The usual one: in hexadecimal digits, made with SHA-256 over the body.
    #[must_use]
    pub fn new(header: &str) -> Self {
        Self {
            name: "hmac",
            header: header.to_owned(),
            prefix: String::new(),
            algorithm: Algorithm::Sha256,
            encoding: Encoding::Hex,
            timestamp: None,
            signed: Signed::body(),
            key: KeyForm::Text,
        }
    }

    /// Source: GitHub, "Validating webhook deliveries". The older `X-Hub-Signature`, made with
    /// SHA-1, is not looked at: GitHub sends both.
    #[must_use]
    pub fn github() -> Self {
        Self {
            name: "github",
            prefix: "sha256=".to_owned(),
            ..Self::new("X-Hub-Signature-256")
        }
    }

    /// Source: Shopify, "Verify webhook deliveries".
    #[must_use]
    pub fn shopify() -> Self {
        Self {
            name: "shopify",
            encoding: Encoding::Base64,
            ..Self::new("X-Shopify-Hmac-Sha256")
        }
    }

    /// Source: LINE Messaging API, "Verify webhook signature".
    #[must_use]
    pub fn line() -> Self {
        Self {
            name: "line",
            encoding: Encoding::Base64,
            ..Self::new("X-Line-Signature")
        }
    }

    pub(super) fn claim<'r>(&'r self, request: &'r Request) -> Result<Claim<'r>, String> {
        let value = header(request, &self.header)?;
        let text = value.strip_prefix(self.prefix.as_bytes()).ok_or_else(|| {
            let Self { header, prefix, .. } = self;
            format!("missing: header {header} does not begin with \"{prefix}\"")
        })?;
        let signature = self.encoding.read(text);
        let signature = signature.ok_or_else(|| format!("wrong: header {} is odd", self.header))?;
        let (time, sent) = match &self.timestamp {
            Some(name) => {
                let time = header(request, name)?;
                let sent = seconds(time);
                let sent = sent.ok_or_else(|| format!("wrong: header {name} is no time"))?;
                (time, Some(sent))
            }
            None => (&b""[..], None),
        };
        Ok(Claim {
            signatures: vec![signature],
            signed: self.signed.pieces(time, &request.body),
            sent,
        })
    }
}

/// `github`, `hmac in X-Signature`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.name == "hmac" {
            write!(f, " in {}", self.header)?;
        }
        Ok(())
    }
}

/// What a signature is made over: `{body}`, `v0:{timestamp}:{body}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signed(Vec<Piece>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    Timestamp,
    Body,
}

impl Signed {
    const BODY: &str = "{body}";
    const TIMESTAMP: &str = "{timestamp}";

    /// The body alone.
    #[must_use]
    pub fn body() -> Self {
        Self(vec![Piece::Body])
    }

    /// The time, a dot, and the body: what most senders with a time sign.
    #[must_use]
    pub fn time_and_body() -> Self {
        Self(vec![
            Piece::Timestamp,
            Piece::Text(".".to_owned()),
            Piece::Body,
        ])
    }

    /// Reads what an operator wrote. `has_time`: whether it is known where the time is.
    ///
    /// # Errors
    ///
    /// Says in words what is wrong and what would be right.
    pub fn parse(text: &str, has_time: bool) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, hole) = rest.split_at(at);
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            rest = if let Some(rest) = hole.strip_prefix(Self::BODY) {
                pieces.push(Piece::Body);
                rest
            } else if let Some(rest) = hole.strip_prefix(Self::TIMESTAMP) {
                pieces.push(Piece::Timestamp);
                rest
            } else {
                return Err(format!(
                    "\"{text}\" has something in braces that is neither {{timestamp}} nor {{body}}"
                ));
            };
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        let count = |piece: &Piece| pieces.iter().filter(|one| *one == piece).count();
        match (count(&Piece::Body), count(&Piece::Timestamp), has_time) {
            (1, 0, false) | (1, 1, true) => Ok(Self(pieces)),
            (1, _, true) => Err(format!(
                "\"{text}\" does not have {{timestamp}} once: a time that is not signed proves \
                 nothing"
            )),
            (1, _, false) => Err(format!(
                "\"{text}\" has {{timestamp}}, but timestamp does not say in which header that is"
            )),
            _ => Err(format!(
                "\"{text}\" does not have {{body}} once, as \"{{timestamp}}.{{body}}\" does"
            )),
        }
    }

    fn pieces<'r>(&'r self, time: &'r [u8], body: &'r [u8]) -> Vec<&'r [u8]> {
        let piece = |piece: &'r Piece| match piece {
            Piece::Text(text) => text.as_bytes(),
            Piece::Timestamp => time,
            Piece::Body => body,
        };
        self.0.iter().map(piece).collect()
    }
}
