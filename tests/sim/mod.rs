//! Whole lives of a gateway: the real rooms of an event's way, in a world that is false.
//!
//! - [`disk`], [`network`], [`devices`], [`operators`] and [`time`] are that world.
//! - [`process`] is one run of the gateway, from its start until it stops or dies.
//! - [`ledger`] knows what was promised and what arrived, [`inspect`] asks the store.
//! - [`world`] lets them meet, and [`healing`] is how each life ends.
//! - [`compaction`] is a life of the store alone.
//! - [`settings`] is the configuration, [`pace`] holds the gateway to its rates and hours, and
//!   [`story`] prints what happens.
//!
//! One thread and one seed: a life repeats exactly.

pub(crate) mod compaction;
pub(crate) mod devices;
pub(crate) mod disk;
pub(crate) mod healing;
pub(crate) mod inspect;
pub(crate) mod ledger;
pub(crate) mod network;
pub(crate) mod operators;
pub(crate) mod pace;
pub(crate) mod process;
pub(crate) mod repeats;
pub(crate) mod settings;
pub(crate) mod story;
pub(crate) mod time;
pub(crate) mod world;
