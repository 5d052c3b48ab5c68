//! The device plane against senders that are slow, false, gone, greedy or many, and against what
//! real ones put on the wire.
//!
//! Most of it runs on a false clock, in this process. The siege is of the real process: there
//! devices that behave must be answered while others attack.

#[expect(
    dead_code,
    reason = "a siege needs only a part of what the gateway's tests need"
)]
#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod crowd;
mod orders;
mod samples;
mod senders;
mod siege;
mod wire;
