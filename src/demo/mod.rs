//! `gatepost demo`: the whole life of events in half a minute, on a machine that has nothing else.
//!
//! A gateway (this same program, as a process of its own), an upstream and some devices tell
//! their story as it happens: the upstream is down, the gateway's power is cut in the middle of an
//! upload, the upstream comes back slow, and once it refuses an event for good. In the end every
//! event that was acknowledged is looked for.
//!
//! # Guarantees
//!
//! - `Ok` means that nothing was lost: each acknowledged body was found upstream or in quarantine,
//!   byte for byte, the events of each device arrived in order, and every event had one
//!   `Idempotency-Key` of its own.
//! - Nothing is waited for longer than [`PATIENCE`], and nothing depends on the clock: each step
//!   begins when the one before has had its effect. The pauses between are for the reader.
//! - No process and no folder is left behind, whatever happens, SIGTERM and SIGINT included. Only
//!   a SIGKILL of the demo itself leaves both.
//!
//! # What it does not show
//!
//! SIGKILL ends a process, not a machine: what the kernel had not written yet would survive it.
//! That the bytes are on disk before the answer is for the tests to show, not for this.

mod count;
mod device;
mod folder;
mod gateway;
mod message;
mod operator;
mod stage;
mod story;
mod upstream;

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use crate::admin::client;
use crate::{daemon, http};
pub use count::Count;
use stage::Stage;

/// How long one step may take before the demo gives up: ten times what the longest takes, which is
/// the wait for a slow upstream.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Tells the story on `out`, and returns what it comes to.
///
/// When it does not go as it should, what the gateway said last is printed too.
pub fn run(out: &mut dyn Write) -> Result<Count, Error> {
    let mut stage = Stage::new(out);
    let told = stage.heed_signals().and_then(|()| story::tell(&mut stage));
    if told.is_err() {
        stage.last_words();
    }
    told
}

/// Why the story did not end well.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Something did not happen within [`PATIENCE`]. Says what was waited for.
    Awaited(String),
    /// Something happened otherwise than promised. Says what.
    Wrong(String),
    /// The gateway ended by itself.
    GatewayEnded,
    /// Somebody wants the demo to stop.
    Interrupted,
    /// The gateway cannot be asked how it is.
    Admin(client::Error),
    /// The upstream cannot listen.
    Upstream(http::Error),
    /// Signals cannot be watched for.
    Signals(daemon::Error),
    /// The operating system refused something; says what.
    System(String, io::Error),
    /// The story cannot be printed.
    Output(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Awaited(what) => {
                write!(f, "waited {} s in vain for {what}", PATIENCE.as_secs())
            }
            Self::GatewayEnded => f.write_str("the gateway ended by itself"),
            Self::Interrupted => f.write_str("stopped by a signal"),
            Self::Admin(error) => error.fmt(f),
            Self::Upstream(error) => error.fmt(f),
            Self::Signals(error) => error.fmt(f),
            Self::Wrong(what) | Self::System(what, _) => f.write_str(what),
            Self::Output(_) => f.write_str("cannot print the story"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Awaited(_) | Self::Wrong(_) | Self::GatewayEnded | Self::Interrupted => None,
            // Their texts are these ones'.
            Self::Admin(error) => error.source(),
            Self::Upstream(error) => error.source(),
            Self::Signals(error) => error.source(),
            Self::System(_, error) | Self::Output(error) => Some(error),
        }
    }
}
