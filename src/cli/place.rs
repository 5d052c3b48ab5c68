//! Which gateway a command is about.

use std::path::{Path, PathBuf};

use super::Error;
use crate::config::{Config, DEFAULT_PATH, StoreConfig};

/// The data directory where nothing says otherwise.
const DATA: &str = "gatepost-data";

/// Which gateway, and in which form the answer is wanted.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// The gateway's data directory. Takes precedence over --config.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The gateway's configuration file, which names its data directory. Without --data and
    /// --config: /etc/gatepost/gatepost.toml if there is one, otherwise ./gatepost-data is the
    /// data directory.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON for programs instead of text for people.
    #[arg(long)]
    pub json: bool,
}

impl Place {
    /// The file of the gateway's store.
    pub fn store(&self) -> Result<PathBuf, Error> {
        let in_folder = |folder: &Path| folder.join(StoreConfig::FILE_NAME);
        if let Some(data) = &self.data {
            return Ok(in_folder(data));
        }
        match config_file(self.config.as_deref()) {
            Some(file) => Ok(Config::load(&file)?.store.path),
            None => Ok(in_folder(Path::new(DATA))),
        }
    }

    /// Likewise, for commands that work on the file itself: --data may name it.
    pub(super) fn store_file(&self) -> Result<PathBuf, Error> {
        match &self.data {
            Some(file) if file.is_file() => Ok(file.clone()),
            _ => self.store(),
        }
    }
}

/// The configuration file that counts: the one that was named, or else the usual one if there is
/// one. One that may be there but cannot be looked at counts too, so that it is not passed over
/// in silence.
#[must_use]
pub(super) fn config_file(named: Option<&Path>) -> Option<PathBuf> {
    let usual = Path::new(DEFAULT_PATH);
    let there = || usual.try_exists().unwrap_or(true).then_some(usual);
    named.or_else(there).map(Path::to_owned)
}
