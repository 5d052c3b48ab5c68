//! Exit codes: part of the interface, for scripts and for the unit file.
//!
//! From 64 on they are those of sysexits(3) as far as it has one.

/// It was done.
pub const FINE: u8 = 0;

/// It could not be done as things are: there is no such event, several are called so, nothing of
/// it waits, an address is taken.
pub const NOT_DONE: u8 = 1;

/// The arguments are wrong.
pub const USAGE: u8 = 64;

/// The daemon runs but cannot be reached, or it is starting or stopping.
pub const UNREACHABLE: u8 = 69;

/// A mistake of the program. The daemon ends with it after a panic.
pub const INTERNAL: u8 = 70;

/// The store cannot be opened, read or written, there is none, or a record is damaged; also if
/// the output cannot be written.
pub const STORE: u8 = 74;

/// The configuration is wrong. Trying again does not make it right.
pub const CONFIG: u8 = 78;
