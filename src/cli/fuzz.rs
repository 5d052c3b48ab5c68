//! The door of the fuzz target `config` in `tests/fuzz/`: what it asks of private functions.
//! Compiled by cargo-fuzz only.

use std::path::Path;

use super::{Error, check, profiles};
use crate::config::Config;
use crate::config::profiles::Profile;

/// What `gatepost check` prints about a configuration, for people and for programs.
pub fn check(config: &Config) -> Result<[String; 2], Error> {
    Ok([print(config, false)?, print(config, true)?])
}

fn print(config: &Config, as_json: bool) -> Result<String, Error> {
    let mut out = Vec::new();
    check::print(Path::new("gatepost.toml"), config, as_json, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// What `gatepost profiles NAME` prints, for people.
#[must_use]
pub fn profile(profile: &Profile) -> String {
    profiles::explain(profile)
}
