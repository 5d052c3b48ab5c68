//! The device plane against senders that are slow, false, gone, greedy or many, and against what
//! real ones put on the wire.

mod crowd;
mod orders;
mod samples;
mod senders;
mod wire;
