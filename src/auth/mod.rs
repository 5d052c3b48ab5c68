//! Who may send, for each route: by address, token, password and signature.
//!
//! # Guarantees
//!
//! - Decisions only: secrets come in as bytes, the request and the time as arguments.
//! - Secrets are compared in a time that does not depend on them. Neither they nor what was sent
//!   in their place is ever part of a reason, and `Debug` shows none.
//! - What is to be checked and has no secrets lets nobody in.
//! - A signature is made over the bytes as they came, and judged by the time of arrival. While
//!   nobody knows whether our clock is right, it is never found too old or too new.
//!
//! # When what is checked
//!
//! Address, token and password say who calls ([`Auth::check_caller`]): they are checked before
//! anything is made of a request, so a stranger's heartbeat or poll is not answered as a friend's
//! is and does not count as a device. A signature says who wrote an event
//! ([`Auth::check_signature`]): senders that sign do not sign a look by hand, so a poll without
//! one is answered, in the fixed words of the profile only, and counts as nobody.
//!
//! All of it comes before an event is compared with earlier ones: a forger can neither suppress a
//! true event by its id nor learn whether one exists.
//!
//! # What it does not do
//!
//! What a signature does not cover can be altered by whoever has seen a true event: with GitHub,
//! Shopify and LINE the ids in headers and the time, with Adyen all fields but eight, with
//! `PayPal` bytes of the body that leave its CRC32 as it is.

mod allow;
mod basic;
mod secret;
mod signature;
mod token;

use crate::clock::Reading;
use crate::event::{Quarantine, Request};
use crate::select::Subject;

pub use allow::Net;
pub use basic::Basic;
pub use signature::{Algorithm, Encoding, KeyForm, Layout, Scheme, Signature, Signed};
pub use token::{Place, Token};

/// What stands in a record in place of a token or a password.
pub(crate) const CONCEALED: &[u8] = b"***";

/// What is asked of the senders of a route. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// The networks they may be in; none: anywhere.
    pub allow: Vec<Net>,
    /// The token they must send.
    pub token: Option<Token>,
    /// The user and password they must send.
    pub basic: Option<Basic>,
    /// How they sign, whether or not it is checked.
    pub signature: Option<Signature>,
}

impl Auth {
    /// Whether whoever calls may do so: the address, the token, the password.
    ///
    /// # Errors
    ///
    /// The first of them that is missing or wrong.
    pub fn check_caller(&self, request: &Request, subject: &Subject<'_>) -> Result<(), Quarantine> {
        let address = request.peer.ip().to_canonical();
        if !self.allow.is_empty() && !self.allow.iter().any(|net| net.contains(address)) {
            return Err(Quarantine::Address(address));
        }
        if let Some(token) = &self.token {
            token.check(subject).map_err(Quarantine::Token)?;
        }
        if let Some(basic) = &self.basic {
            basic.check(request).map_err(Quarantine::Password)?;
        }
        Ok(())
    }

    /// Whether an event is signed by who it should be from. `received`: when it came.
    ///
    /// # Errors
    ///
    /// What is missing or wrong.
    pub fn check_signature(&self, request: &Request, received: Reading) -> Result<(), Quarantine> {
        let checked = self.signature.as_ref().filter(|one| one.is_checked());
        checked.map_or(Ok(()), |signature| {
            let judged = signature.check(request, received);
            judged.map_err(Quarantine::Signature)
        })
    }

    /// Whether events must be signed.
    #[must_use]
    pub fn wants_signature(&self) -> bool {
        self.signature.as_ref().is_some_and(Signature::is_checked)
    }

    /// Puts [`CONCEALED`] in place of the token and the password of a request, as far as they are
    /// in its headers or its query: what is kept of it is shown to people.
    pub fn conceal(&self, request: &mut Request) {
        if let Some(token) = &self.token {
            token.conceal(request);
        }
        if self.basic.is_some() {
            basic::conceal(request);
        }
    }

    /// What is checked, in words, one for each.
    #[must_use]
    pub fn checks(&self) -> Vec<String> {
        let nets: Vec<String> = self.allow.iter().map(Net::to_string).collect();
        let allow = (!nets.is_empty()).then(|| format!("address in {}", nets.join(", ")));
        let token = self.token.as_ref().map(|token| token.place().to_string());
        let token = token.map(|place| format!("token in {place}"));
        let basic = self.basic.as_ref().map(|_| "user and password".to_owned());
        let signature = self.signature.as_ref().filter(|one| one.is_checked());
        let signature = signature.map(|signature| format!("signature {signature}"));
        let all = [allow, token, basic, signature];
        all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
