//! Asking the gateway.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Error, Place};
use crate::admin::client::Gateway;
use crate::admin::views::{Changed, EventHead, Found, Page, Problem, Selection};
use crate::admin::{MOST_LIMIT, encode};
use crate::event::Seq;

/// A gateway whose answers are read.
pub(super) struct Ask(Gateway);

impl Ask {
    /// Reaches the gateway at `place`.
    pub(super) fn at(place: &Place) -> Result<Self, Error> {
        Ok(Self(Gateway::reach(&place.store()?)?))
    }

    /// What lies at `target`.
    pub(super) fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, Error> {
        read(&self.bytes(target)?)
    }

    /// The bytes that lie at `target`.
    pub(super) fn bytes(&self, target: &str) -> Result<Vec<u8>, Error> {
        self.call("GET", target, b"")
    }

    /// Calls `each` with all rows of a list, a page at a time; at least once, so that an empty
    /// list can be said to be one.
    pub(super) fn pages<T: DeserializeOwned>(
        &self,
        list: &str,
        mut each: impl FnMut(&[T]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut after = None;
        loop {
            let list = format!("/api/{list}?limit={MOST_LIMIT}");
            let target = match &after {
                Some(after) => format!("{list}&after={after}"),
                None => list,
            };
            let page: Page<T> = self.get(&target)?;
            if after.is_none() || !page.items.is_empty() {
                each(&page.items)?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// All events that `id` may mean, at least one.
    pub(super) fn find(&self, id: &str) -> Result<Vec<EventHead>, Error> {
        let found: Found = self.get(&format!("/api/events?id={}", encode(id)))?;
        Ok(found.events)
    }

    /// The one event that `id` means. Several are refused, with what to type instead after
    /// `gatepost {command}`.
    pub(super) fn find_one(&self, id: &str, command: &str) -> Result<EventHead, Error> {
        let found = self.find(id)?;
        if let [only] = &found[..] {
            return Ok(only.clone());
        }
        let each = found.iter().map(|event| {
            let device = event.device.as_deref().map(crate::event::printable);
            format!(
                "#{} of {}",
                event.seq,
                device.as_deref().unwrap_or("no device")
            )
        });
        let each: Vec<String> = each.collect();
        let name = found.first().map_or("it", |event| event.name.as_str());
        let last = found.last().map_or(Seq(0), |event| event.seq);
        Err(Error::NotDone(format!(
            "{name} may mean {} events: {}; say which, for example: gatepost {command} '#{last}'",
            found.len(),
            each.join(", "),
        )))
    }

    /// Makes a change.
    pub(super) fn change(&self, what: &str, body: &impl Serialize) -> Result<Changed, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Answer(error.to_string()))?;
        read(&self.call("POST", &format!("/api/{what}"), &body)?)
    }

    /// Makes a change that may take several requests.
    pub(super) fn change_all(
        &self,
        what: &str,
        mut selection: Selection,
    ) -> Result<Changed, Error> {
        let mut all = Changed::default();
        loop {
            let part = self.change(what, &selection)?;
            all.done += part.done;
            all.refused_count += part.refused_count;
            let room = Changed::MOST_REFUSED.saturating_sub(all.refused.len());
            all.refused.extend(part.refused.into_iter().take(room));
            if part.next.is_none() {
                return Ok(all);
            }
            selection.after = part.next;
        }
    }

    fn call(&self, method: &str, target: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
        let (status, answer) = self.0.call(method, target, body)?;
        if status == 200 {
            return Ok(answer);
        }
        match serde_json::from_slice::<Problem>(&answer) {
            Ok(problem) => Err(Error::Refused(problem)),
            Err(error) => Err(Error::Answer(format!("HTTP {status}, {error}"))),
        }
    }
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|error| Error::Answer(error.to_string()))
}
