//! Who can change things.

use std::fmt;

use crate::commit::{Operation, Report};
use crate::devices::Devices;
use crate::dispatch::DestinationState;
use crate::store;

/// Who can change things: the running daemon's committer, or, when none runs, this process.
pub trait Office: Send + Sync {
    /// Does what an operator wants and returns once it is on disk.
    fn operate(&self, operation: Operation) -> Result<Report, Unavailable>;

    /// What the dispatcher knows; none when no daemon runs.
    fn destinations(&self) -> Option<Vec<DestinationState>>;

    /// Who was heard of; none when no daemon runs.
    fn devices(&self) -> Option<&Devices> {
        None
    }

    /// Tells a running dispatcher that a destination is held or released. The store has been told
    /// before, with [`Operation::Hold`] or [`Operation::Release`].
    fn hold(&self, name: &str, held: bool) -> Result<(), Unavailable>;

    /// Has a running dispatcher try now what waits for its pause at a destination.
    fn flush(&self, _name: &str) -> Result<Flush, Unavailable> {
        Ok(Flush::NoDaemon)
    }
}

/// What came of [`Office::flush`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flush {
    /// Everything is due.
    Done,
    /// An operator holds the destination.
    Held,
    /// The dispatcher has no such destination.
    Unknown,
    /// There is no dispatcher, and so no pause.
    NoDaemon,
}

/// Why nothing can be changed.
#[derive(Debug)]
pub enum Unavailable {
    /// The daemon stops.
    Stopping,
    /// The store failed. Whether the change was made is not known.
    Store(store::Error),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopping => f.write_str("the daemon is stopping; try again once it has started"),
            Self::Store(_) => f.write_str("the store failed; look again whether it was done"),
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stopping => None,
            Self::Store(error) => Some(error),
        }
    }
}
