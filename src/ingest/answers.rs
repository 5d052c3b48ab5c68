//! What senders hear.

use serde::Serialize;

use super::allowance::Paid;
use super::lost::OnlyOnce;
use crate::commit::Done;
use crate::event::{Quarantine, name};
use crate::http::Answer;
use crate::profile::Said;
use crate::route::Status;

/// What a sender hears once its event is on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Promise {
    pub(super) event_id: Option<String>,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) status: Status,
    /// What the profile says to accepted events.
    pub(super) accepted: Option<Box<Said>>,
    /// What the profile says to those in quarantine, if that is something else.
    pub(super) rejected: Option<Box<Said>>,
    /// Set if its sender does not send it again.
    pub(super) only_once: Option<Box<OnlyOnce>>,
    /// What it costs of what is kept of its sender in quarantine.
    pub(super) paid: Option<Paid>,
}

impl Promise {
    /// What it hears if its event is in quarantine: the words of the profile, since a sender that
    /// waits for them would send the same for ever.
    pub(super) fn rejection(&self, quarantine: &Quarantine) -> Answer {
        let status = match (self.status, quarantine) {
            (Status::Received, _) => {
                let said = self.rejected.as_ref().or(self.accepted.as_ref());
                if let Some(answer) = said.and_then(|said| speak(said)) {
                    return answer;
                }
                200
            }
            (Status::Verdict, quarantine) => return verdict(quarantine),
        };
        says(status, &Words::rejected(&quarantine.to_string()))
    }
}

/// What whoever may not call hears to what is not kept: nothing that a friend hears.
pub(super) fn turned_away(status: Status, why: &Quarantine) -> Answer {
    match status {
        Status::Received => says(200, &Words::rejected(&why.to_string())),
        Status::Verdict => verdict(why),
    }
}

/// A 4xx that says why. 401 only where a user and a password are asked for: it must say how to
/// send what is missing, and there is a scheme for nothing else here (RFC 9110 section 15.5.2).
fn verdict(quarantine: &Quarantine) -> Answer {
    let status = match quarantine {
        Quarantine::Password(_) => 401,
        Quarantine::Address(_) | Quarantine::Token(_) | Quarantine::Signature(_) => 403,
        Quarantine::TooLong => 413,
        Quarantine::NoRoute | Quarantine::NoEventId(_) | Quarantine::NoDevice(_) => 400,
    };
    Answer {
        asks_password: status == 401,
        ..says(status, &Words::rejected(&quarantine.to_string()))
    }
}

/// What the sender of an event hears. `done` is none if the store failed.
#[must_use]
pub fn answer(promise: &Promise, done: Option<&Done>) -> Answer {
    let (seq, duplicate) = match done {
        Some(Done::Stored(seq)) => (*seq, None),
        Some(Done::Duplicate(seq)) => (*seq, Some(true)),
        Some(Done::Full | Done::Operated(_)) | None => return Answer::refusal(),
    };
    if let Some(quarantine) = &promise.quarantine {
        return promise.rejection(quarantine);
    }
    if let Some(answer) = promise.accepted.as_ref().and_then(|said| speak(said)) {
        return answer;
    }
    let words = Words {
        accepted: true,
        id: Some(name(promise.event_id.as_deref(), seq)),
        duplicate,
        ..Words::default()
    };
    let status = match &promise.accepted {
        Some(said) => said.status,
        None if duplicate.is_some() => 200,
        None => 202,
    };
    says(status, &words)
}

/// An answer in the words of a profile; none if it has none.
pub(super) fn speak(said: &Said) -> Option<Answer> {
    let (content_type, body) = said.text.clone()?;
    Some(Answer {
        status: said.status,
        content_type: content_type.into(),
        body: body.into_bytes(),
        ..Answer::ok()
    })
}

/// The body of an answer in our own words.
#[derive(Serialize)]
pub(super) struct Words<'a> {
    received: bool,
    accepted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Default for Words<'_> {
    fn default() -> Self {
        Self {
            received: true,
            accepted: false,
            id: None,
            duplicate: None,
            reason: None,
        }
    }
}

impl<'a> Words<'a> {
    /// Received, and no more than that.
    pub(super) fn rejected(reason: &'a str) -> Self {
        Self {
            reason: Some(reason),
            ..Self::default()
        }
    }
}

/// An answer in our own words.
pub(super) fn says(status: u16, words: &Words<'_>) -> Answer {
    Answer {
        status,
        content_type: "application/json".into(),
        body: serde_json::to_vec(words).expect("words are plain text"),
        retry_after: None,
        asks_password: false,
        close: false,
    }
}
