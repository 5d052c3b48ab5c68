//! The door of the fuzz target `config` in `tests/fuzz/`: what it asks of private functions.
//! Compiled by cargo-fuzz only.

use super::Error;
use super::profiles::{Profile, parse};

/// Reads `text` as an operator's profile.
pub fn profile(name: &str, text: &str) -> Result<Profile, Error> {
    parse(name, text, format!("{name}.toml").into())
}
