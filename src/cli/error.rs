//! Why a command failed, and the exit code that says so.

use std::error::Error as _;
use std::fmt;
use std::io;

use super::exit;
use crate::admin::Kind;
use crate::admin::client;
use crate::admin::server::Error::{LongPath, NotLoopback};
use crate::admin::views::Problem;
use crate::{config, daemon, demo, store};

/// Why a command failed.
#[derive(Debug)]
pub enum Error {
    /// The arguments do not go together; says what would be right.
    Usage(String),
    /// It could not be done; says why.
    NotDone(String),
    /// The store could not be opened, read or written by this process.
    Store(store::Error),
    /// The gateway could not be asked.
    Gateway(client::Error),
    /// The gateway refused.
    Refused(Problem),
    /// The gateway's answer is not one that this version knows; says what is wrong with it.
    Answer(String),
    /// The configuration is wrong.
    Config(config::Error),
    /// The daemon could not start or go on.
    Daemon(daemon::Error),
    /// The demo did not end well.
    Demo(demo::Error),
    /// The output could not be written.
    Output(io::Error),
}

impl Error {
    /// The code that the process exits with.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::NotDone(_) | Self::Demo(_) => exit::NOT_DONE,
            Self::Store(_) | Self::Gateway(client::Error::Store(_)) => exit::STORE,
            Self::Gateway(_) => exit::UNREACHABLE,
            Self::Refused(problem) => match Kind::of(problem) {
                Some(
                    Kind::NoEvent
                    | Kind::Expired
                    | Kind::NoDestination
                    | Kind::NoDevice
                    | Kind::Conflict,
                ) => exit::NOT_DONE,
                Some(Kind::Unavailable) => exit::UNREACHABLE,
                Some(Kind::Store) => exit::STORE,
                _ => exit::INTERNAL,
            },
            Self::Answer(_) => exit::INTERNAL,
            Self::Config(_) => exit::CONFIG,
            Self::Daemon(error) => match error {
                daemon::Error::Store(_) => exit::STORE,
                daemon::Error::Upstream(_)
                | daemon::Error::Routes(_)
                | daemon::Error::Admin(LongPath(..) | NotLoopback(_)) => exit::CONFIG,
                // Whoever has the address may let go of it, so trying again may help.
                daemon::Error::Http(_) | daemon::Error::Admin(_) => exit::NOT_DONE,
                _ => exit::INTERNAL,
            },
            // Whoever closes the pipe has seen enough: `gatepost queue | head`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::FINE,
            Self::Output(_) => exit::STORE,
        }
    }

    /// What is said on standard error: the text and those of what caused it; nothing if there is
    /// nothing to say.
    #[must_use]
    pub fn message(&self) -> Option<String> {
        if self.exit_code() == exit::FINE {
            return None;
        }
        let mut message = format!("gatepost: {self}");
        let mut source = self.source();
        while let Some(error) = source {
            message.push_str(": ");
            message.push_str(&error.to_string());
            source = error.source();
        }
        Some(message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::NotDone(text) => f.write_str(text),
            Self::Store(error) => error.fmt(f),
            Self::Gateway(error) => error.fmt(f),
            Self::Refused(problem) => f.write_str(&problem.detail),
            Self::Answer(why) => write!(f, "the answer is not understood: {why}"),
            Self::Config(error) => error.fmt(f),
            Self::Daemon(error) => error.fmt(f),
            Self::Demo(error) => error.fmt(f),
            Self::Output(_) => f.write_str("cannot write the output"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Their texts are these ones', so what caused them comes next.
            Self::Store(error) => error.source(),
            Self::Gateway(error) => error.source(),
            Self::Config(error) => error.source(),
            Self::Daemon(error) => error.source(),
            Self::Demo(error) => error.source(),
            Self::Output(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<client::Error> for Error {
    fn from(error: client::Error) -> Self {
        Self::Gateway(error)
    }
}

impl From<config::Error> for Error {
    fn from(error: config::Error) -> Self {
        Self::Config(error)
    }
}

impl From<demo::Error> for Error {
    fn from(error: demo::Error) -> Self {
        match error {
            demo::Error::Output(error) => Self::Output(error),
            error => Self::Demo(error),
        }
    }
}

impl From<daemon::Error> for Error {
    fn from(error: daemon::Error) -> Self {
        Self::Daemon(error)
    }
}
