//! How gatepost reaches its destinations: the only place that talks to the network upstream.
//!
//! # Guarantees
//!
//! - [`Transport::send`] makes one attempt and always comes back, at the latest after the
//!   destination's timeout. Whatever goes wrong is an [`Outcome`], never an error or a panic.
//! - What goes out is [`Outgoing`], body byte for byte, and nothing that depends on the client
//!   that carries it.
//! - Another kind of destination is another implementation of [`Transport`], in a file of its own.
//!
//! It does not know what an outcome means ([`crate::retry`]) nor what a request must hold
//! ([`crate::deliver`]).

use std::fmt;

use crate::delivery::Outcome;

mod answer;
mod files;
mod http;
mod names;
mod outcome;
mod proxy;
mod tcp;
mod tls;

pub use http::Http;

/// A way to reach a destination. Simulations have their own.
pub trait Transport: Send + Sync {
    /// Makes one attempt and waits for it to end, at most for the destination's timeout.
    ///
    /// Cannot fail: whatever goes wrong is an outcome.
    fn send(&self, request: &Outgoing) -> Outcome;
}

/// What goes out in one attempt, whatever carries it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outgoing {
    /// Names and values, in order. What a transport can't carry it leaves out.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, as received.
    pub body: Vec<u8>,
}

impl Outgoing {
    /// The value of the first header called `name`, in any spelling.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self
            .headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        Some(&found.1)
    }
}

/// Why a destination can't be used as it is configured.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Its address is not one.
    Url {
        /// The destination's name.
        destination: String,
        /// What is wrong with it.
        reason: String,
    },
    /// One of its configured headers can't be sent.
    Header {
        /// The destination's name.
        destination: String,
        /// The header's name.
        header: String,
        /// Why not.
        reason: &'static str,
    },
    /// The files that say whom it trusts or who we are can't be used together.
    Certificates {
        /// The destination's name.
        destination: String,
        /// What is wrong, beginning with the key.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url {
                destination,
                reason,
            } => write!(
                f,
                "url of destination \"{destination}\": {reason}; it must begin with http:// or \
                 https:// and name a host"
            ),
            Self::Header {
                destination,
                header,
                reason,
            } => write!(
                f,
                "header \"{header}\" of destination \"{destination}\" {reason}"
            ),
            Self::Certificates {
                destination,
                reason,
            } => write!(f, "destination \"{destination}\": {reason}"),
        }
    }
}

impl std::error::Error for Error {}
