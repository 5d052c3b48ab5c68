//! The everyday promises, asked of the real process: devices, disk, upstream and operator are
//! real too, on loopback.

#[path = "../common/mod.rs"]
mod common;

mod answers;
mod calm;
mod destinations;
mod disk;
mod idle;
mod log;
mod outage;
mod requests;
mod room;
mod silence;
mod stop;
mod storm;
mod strangers;
mod verdicts;
