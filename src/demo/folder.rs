//! A folder that is gone when the demo ends.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::Error;
use crate::rng::entropy;

/// A new folder below the system's one for temporary files, for this user only. Removed when it
/// is dropped, with all that is in it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Result<Self, Error> {
        let made = entropy().and_then(|number| {
            // Short: the path of the admin socket in it may have 107 bytes.
            let name = format!("gatepost-demo-{:08x}", number >> 32);
            let path = std::env::temp_dir().join(name);
            DirBuilder::new().mode(0o700).create(&path)?;
            Ok(path)
        });
        made.map(Self).map_err(|error: io::Error| {
            let place = std::env::temp_dir();
            let what = format!("cannot make a folder in {}", place.display());
            Error::System(what, error)
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody is left who could do something about a failure.
        _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_what_is_in_it() {
        let folder = Folder::new().expect("a folder can be made");
        let path = folder.path().to_owned();
        fs::write(path.join("file"), "text").expect("it can be written to");
        drop(folder);
        assert!(!path.exists());
    }
}
