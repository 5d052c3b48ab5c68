//! Routes: whose events come in on which path, how to read them, and where they go.

use crate::select::Selector;

/// One `[[route]]` of the configuration.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name in logs and headers.
    pub name: String,
    /// The paths it takes.
    pub path: Pattern,
    /// Where the event id is; the first selector that finds one wins.
    pub event_id: Vec<Selector>,
    /// Where the device id is; likewise.
    pub device: Vec<Selector>,
    /// What an event must have, or it goes to quarantine.
    pub require: Require,
    /// Which of its deliveries wait for each other.
    pub order: Order,
    /// The names of the destinations it leads to; none: its events are held.
    pub to: Vec<String>,
}

/// What an event must have to be delivered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Require {
    /// An event id.
    pub event_id: bool,
    /// A device id.
    pub device: bool,
}

/// Which deliveries of a route wait for each other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// Those of one device.
    #[default]
    Device,
    /// All of the route.
    Route,
    /// None.
    None,
}

/// A path with holes: `/ingest/{*}`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern(String);
