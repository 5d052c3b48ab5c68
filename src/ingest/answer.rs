//! What senders hear.

use serde::Serialize;

use crate::commit::Done;
use crate::event::{Quarantine, name};
use crate::http::Answer;
use crate::route::Status;

/// What a sender hears once its event is on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Promise {
    pub(super) event_id: Option<String>,
    pub(super) quarantine: Option<Quarantine>,
    pub(super) status: Status,
}

impl Promise {
    /// What it hears if its event is in quarantine.
    pub(super) fn rejection(&self, quarantine: &Quarantine) -> Answer {
        let status = match (self.status, quarantine) {
            (Status::Received, _) => 200,
            (Status::Verdict, Quarantine::TooLong) => 413,
            (Status::Verdict, _) => 400,
        };
        says(status, &Words::rejected(&quarantine.to_string()))
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
    let words = Words {
        accepted: true,
        id: Some(name(promise.event_id.as_deref(), seq)),
        duplicate,
        ..Words::default()
    };
    says(if duplicate.is_some() { 200 } else { 202 }, &words)
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
        close: false,
    }
}
