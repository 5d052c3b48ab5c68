//! What destinations are called.

use std::collections::BTreeMap;

use super::{Kind, Refusal, State};
use crate::commit::DestinationRef;
use crate::commit::HELD;
use crate::event::{DestinationNo, printable};
use crate::store;

/// What is said where an event has no destination yet. No destination can be called so.
pub const NO_DESTINATION: &str = "(none)";

/// All destinations that are configured or ever were, as far as the store knows.
pub(super) struct Names(BTreeMap<DestinationNo, String>);

impl Names {
    /// Those that `state` knows of.
    pub(super) fn read(state: &State) -> Result<Self, store::Error> {
        let known: Vec<(String, DestinationNo)> = state.store.metas("destination/")?;
        let known = known.into_iter().map(|(name, number)| (number, name));
        Ok(Self(
            known.chain(state.destinations.iter().cloned()).collect(),
        ))
    }

    /// The name of a destination, [`NO_DESTINATION`], or `#<number>` if nobody knows it.
    pub(super) fn of(&self, number: DestinationNo) -> String {
        if number == HELD {
            return NO_DESTINATION.to_owned();
        }
        let name = self.0.get(&number).cloned();
        name.unwrap_or_else(|| format!("#{}", number.0))
    }

    /// Whether it has a name.
    pub(super) fn has(&self, number: DestinationNo) -> bool {
        self.0.contains_key(&number)
    }

    /// All of them, in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = DestinationRef> {
        let all = self.0.iter();
        all.map(|(number, name)| DestinationRef {
            number: *number,
            name: name.clone(),
        })
    }

    /// The destination called `name`.
    pub(super) fn find(&self, name: &str) -> Result<DestinationRef, Refusal> {
        if let Some(found) = self.all().find(|known| known.name == name) {
            return Ok(found);
        }
        let name = printable(name);
        let known: Vec<&str> = self.0.values().map(String::as_str).collect();
        let detail = if known.is_empty() {
            format!("there is no destination \"{name}\"; there are none at all")
        } else {
            let known = known.join(", ");
            format!("there is no destination \"{name}\"; there are: {known}")
        };
        Err(Refusal::new(Kind::NoDestination, detail))
    }
}
