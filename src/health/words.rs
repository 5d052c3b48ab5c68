//! How states and their changes are called, in the log and on every screen.

use std::fmt;

use super::{Change, State};
use crate::audit::Pause;

/// What comes next in a state.
pub(super) fn next_words(state: State) -> &'static str {
    match state {
        State::Up | State::Paused => "next attempt",
        State::Down | State::Held => "next probe",
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Held => "held",
            Self::Paused => "paused",
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up { after } => write!(f, "up after {}", Pause(*after)),
            Self::Not {
                state,
                reason,
                next_in,
            } => {
                let next = next_words(*state);
                write!(f, "{state}: {reason}, {next} in {}", Pause(*next_in))
            }
            Self::HeldByOperator => f.write_str("held by operator"),
            Self::ReleasedByOperator => f.write_str("released by operator"),
            Self::FlushedByOperator => f.write_str("flushed by operator: tried now"),
        }
    }
}
