//! Changing things while no daemon runs.

use std::sync::{Mutex, PoisonError};

use super::{Office, Unavailable};
use crate::commit::{Committer, Done, Operation, Report, Work};
use crate::dispatch::DestinationState;

/// The office of a process that has opened the store itself.
pub struct Alone {
    committer: Mutex<Committer>,
}

impl Alone {
    /// Changes things through `committer`.
    #[must_use]
    pub fn new(committer: Committer) -> Self {
        let committer = Mutex::new(committer);
        Self { committer }
    }
}

impl Office for Alone {
    fn operate(&self, operation: Operation) -> Result<Report, Unavailable> {
        let mut committer = self
            .committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let step = committer
            .step(vec![Work::Operate(operation, ())])
            .map_err(|failed| Unavailable::Store(failed.error))?;
        committer.finish().map_err(Unavailable::Store)?;
        let report = step.answers.into_iter().find_map(|((), done)| match done {
            Done::Operated(report) => Some(report),
            Done::Stored(_) | Done::Duplicate(_) | Done::Full => None,
        });
        Ok(report.expect("a step that did not fail answers all its work"))
    }

    fn destinations(&self) -> Option<Vec<DestinationState>> {
        None
    }

    fn hold(&self, _name: &str, _held: bool) -> Result<(), Unavailable> {
        Ok(())
    }
}
