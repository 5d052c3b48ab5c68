//! Devices as they are: what real senders put on the wire, sent byte for byte to the real process,
//! and what is stored, forwarded, counted and answered.
//!
//! One configuration for all of it, with a route for each known kind of sender. Nothing here
//! sleeps: a test waits for an answer, for the end of a connection, or for an event upstream.

#[expect(
    dead_code,
    reason = "devices need only a part of what the gateway's tests need"
)]
#[path = "../common/mod.rs"]
mod common;

mod commits;
mod contents;
mod plant;
mod quirks;
mod sample;
mod samples;
mod sender;
