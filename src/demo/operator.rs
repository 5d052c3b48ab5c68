//! The operator of the demo: asks the running gateway as the command line does.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use crate::admin::client::Gateway;
use crate::admin::views::{Changed, DeadRow, Page, QuarantineRow, Selection, Status};
use crate::event::{Digest, Seq};

/// Somebody with access to the admin socket.
pub(super) struct Operator(Gateway);

impl Operator {
    /// Goes to the gateway whose store is the file `store`.
    pub(super) fn at(store: &Path) -> Result<Self, Error> {
        Gateway::reach(store).map(Self).map_err(Error::Admin)
    }

    /// `gatepost status`
    pub(super) fn status(&self) -> Result<Status, Error> {
        self.ask("GET", "/api/status", b"")
    }

    /// `gatepost dead`; the first page, which is more than the demo has.
    pub(super) fn dead(&self) -> Result<Vec<DeadRow>, Error> {
        let page: Page<DeadRow> = self.ask("GET", "/api/dead", b"")?;
        Ok(page.items)
    }

    /// `gatepost quarantine`; the first page.
    pub(super) fn quarantine(&self) -> Result<Vec<QuarantineRow>, Error> {
        let page: Page<QuarantineRow> = self.ask("GET", "/api/quarantine", b"")?;
        Ok(page.items)
    }

    /// Of the bytes that are kept of an event.
    pub(super) fn digest_of(&self, seq: Seq) -> Result<Digest, Error> {
        let target = format!("/api/events/{seq}/body");
        self.call("GET", &target, b"").map(|body| Digest::of(&body))
    }

    /// `gatepost replay --all`
    pub(super) fn replay_all(&self) -> Result<Changed, Error> {
        let selection = Selection {
            all: true,
            ..Selection::default()
        };
        self.ask("POST", "/api/replay", &json(&selection))
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        target: &str,
        body: &[u8],
    ) -> Result<T, Error> {
        let answer = self.call(method, target, body)?;
        serde_json::from_slice(&answer).map_err(|error| {
            Error::Wrong(format!("the answer to {method} {target} is odd: {error}"))
        })
    }

    fn call(&self, method: &str, target: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
        match self.0.call(method, target, body).map_err(Error::Admin)? {
            (200, answer) => Ok(answer),
            (status, answer) => {
                let answer = String::from_utf8_lossy(&answer);
                let what = format!("the answer to {method} {target} is {status}: {answer}");
                Err(Error::Wrong(what))
            }
        }
    }
}

fn json(view: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(view).expect("our views have string keys and no failing serializer")
}
