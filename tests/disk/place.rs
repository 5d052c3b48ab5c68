//! A small disk of one's own: ext4 on a loop device, or a tmpfs; none where neither is allowed.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A mounted file system in a folder of its own, unmounted when dropped.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// What it is.
    pub(crate) kind: &'static str,
}

impl Place {
    /// Mounts one of so many MiB. None, said on standard output, if this user may not mount.
    pub(crate) fn mount(mib: u64) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let point = folder.path().join("disk");
        fs::create_dir(&point).expect("a folder");
        for (kind, mount) in [
            ("ext4", ext4 as fn(&Path, &Path, u64) -> bool),
            ("tmpfs", tmpfs),
        ] {
            if mount(folder.path(), &point, mib) {
                return Some(Self { folder, kind });
            }
        }
        assert!(
            std::env::var_os("GATEPOST_MUST_MOUNT").is_none(),
            "neither a loop ext4 nor a tmpfs can be mounted"
        );
        None
    }

    /// The root of the file system.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    /// Makes it read-only, or writable again.
    pub(crate) fn remount(&self, how: &str) -> bool {
        let options = format!("remount,{how}");
        run("mount", &["-o", &options, text(&self.path())])
    }

    /// Another program takes all room, to the last block. What a file system sets aside while it
    /// has not decided where to write comes free with a sync, so it takes several rounds.
    pub(crate) fn fill(&self, name: &str) {
        let mut file = File::create(self.path().join(name)).expect("a file");
        for length in [1 << 18, 1 << 12, 1 << 12, 1 << 12] {
            let piece = vec![0xa5; length];
            while file.write_all(&piece).is_ok() {}
            // It may say that there was no room for all of it.
            let _ = file.sync_all();
        }
        assert!(self.free() < 1 << 16, "{} are free still", self.free());
    }

    /// Bytes that anybody may still write.
    pub(crate) fn free(&self) -> u64 {
        let output = Command::new("df")
            .args(["--output=avail", "-B1"])
            .arg(self.path())
            .output()
            .expect("df runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().nth(1).expect("two lines");
        line.trim().parse().expect("a number")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let unmounted = run("umount", &[text(&self.path())]);
        assert!(unmounted, "{} stays mounted", self.path().display());
    }
}

fn ext4(folder: &Path, point: &Path, mib: u64) -> bool {
    let image = folder.join("image");
    let made = File::create(&image).and_then(|file| file.set_len(mib << 20));
    made.is_ok()
        && run("mkfs.ext4", &["-q", "-m", "0", text(&image)])
        && run("mount", &["-o", "loop", text(&image), text(point)])
}

fn tmpfs(_: &Path, point: &Path, mib: u64) -> bool {
    let size = format!("size={mib}m");
    run("mount", &["-t", "tmpfs", "-o", &size, "tmpfs", text(point)])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our own folders are text")
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
