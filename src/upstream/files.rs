//! Small files that an operator or a renewal replaces while we run: tokens, secrets, certificates.
//!
//! # Guarantees
//!
//! - A change is seen at the next look, which costs one `stat` for each file.
//! - What is read was whole: a file that changed while it was read, or that was written to within
//!   [`AT_REST`] and does not end with a line end, is not taken yet; the old content goes on.
//! - What can't be read, or is not what it should be, changes nothing while there is an old
//!   content. It is warned of once for each way in which it is wrong.
//! - The content is in no message.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use crate::clock::Timestamp;

/// A file that nobody wrote to for so long is whole. File systems give times in steps of up to
/// 10 ms, and what a writer writes in several pieces it writes within less than this.
const AT_REST: Duration = Duration::from_secs(1);

/// The largest file that is read, in bytes: a chain of certificates, with room.
const LARGEST: u64 = 256 * 1024;

/// Makes what is needed of the contents of the files, in their order.
type Make<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// Files that are watched, and what was made of them.
pub(super) struct Watched<T> {
    /// What they are, for the log: `[destination cloud] token_file`.
    what: String,
    paths: Vec<PathBuf>,
    make: Make<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// How the files looked when they were read, once they were at rest.
    seen: Option<Vec<Stamp>>,
    made: Option<(Arc<T>, Vec<Vec<u8>>)>,
    /// What is wrong with them now.
    wrong: Option<String>,
}

/// What differs once a file was written to or replaced; `None` if it can't be looked at.
type Stamp = Option<[i64; 7]>;

impl<T> Watched<T> {
    pub(super) fn new(
        what: String,
        paths: Vec<PathBuf>,
        make: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            what,
            paths,
            make: Box::new(make),
            state: Mutex::new(State {
                seen: None,
                made: None,
                wrong: None,
            }),
        }
    }

    /// What the files hold at `wall`, or held last.
    ///
    /// # Errors
    ///
    /// Says why there has never been anything of use in them.
    pub(super) fn current(&self, wall: Timestamp) -> Result<Arc<T>, String> {
        let mut state = self.state();
        let stamps = self.stamps();
        if state.seen.as_ref() != Some(&stamps) {
            self.read_anew(&mut state, stamps, wall);
        }
        let State { made, wrong, .. } = &*state;
        match made {
            Some((made, _)) => Ok(Arc::clone(made)),
            None => Err(wrong.clone().unwrap_or_default()),
        }
    }

    fn read_anew(&self, state: &mut State<T>, stamps: Vec<Stamp>, wall: Timestamp) {
        let read = self.read(state.made.is_some(), wall);
        let (contents, is_at_rest) = match read {
            Ok(read) => read,
            Err(Trouble::NotYet) => return,
            Err(Trouble::Wrong(why)) => return self.blame(state, why, stamps),
        };
        let stamps = is_at_rest.then_some(stamps);
        let is_same = |(_, old): &(Arc<T>, Vec<Vec<u8>>)| *old == contents;
        if state.made.as_ref().is_some_and(is_same) {
            (state.seen, state.wrong) = (stamps, None);
            return;
        }
        match (self.make)(&contents) {
            Ok(made) => {
                if state.made.is_some() {
                    log::info!("{} was replaced and is used anew", self.what);
                }
                (state.seen, state.wrong) = (stamps, None);
                state.made = Some((Arc::new(made), contents));
            }
            Err(why) => {
                self.blame(state, why, Vec::new());
                state.seen = stamps;
            }
        }
    }

    fn blame(&self, state: &mut State<T>, why: String, stamps: Vec<Stamp>) {
        if state.made.is_some() && state.wrong.as_ref() != Some(&why) {
            log::warn!("{}: {why}; what it held before is still used", self.what);
        }
        state.seen = Some(stamps);
        state.wrong = Some(why);
    }

    /// The contents, and whether none of them is so new that a change could look the same.
    fn read(&self, has_old: bool, wall: Timestamp) -> Result<(Vec<Vec<u8>>, bool), Trouble> {
        let mut contents = Vec::new();
        let mut all_at_rest = true;
        for path in &self.paths {
            let shown = path.display();
            let (content, changed) = read_whole(path)
                .map_err(|why| Trouble::Wrong(format!("cannot read {shown}: {why}")))?
                .ok_or(Trouble::NotYet)?;
            let is_at_rest = wall < changed || AT_REST <= wall.since(changed);
            if has_old && !is_at_rest && !content.ends_with(b"\n") {
                return Err(Trouble::NotYet);
            }
            all_at_rest &= is_at_rest;
            contents.push(content);
        }
        Ok((contents, all_at_rest))
    }

    fn stamps(&self) -> Vec<Stamp> {
        let look = |path: &PathBuf| fs::metadata(path).ok().as_ref().map(stamp);
        self.paths.iter().map(look).collect()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state
            .lock()
            .expect("no thread survives a panic, so none can have left this lock behind")
    }
}

impl<T> fmt::Debug for Watched<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.paths).finish()
    }
}

enum Trouble {
    /// Somebody is writing to it.
    NotYet,
    Wrong(String),
}

/// Content and time of the last change; none if it changed meanwhile.
fn read_whole(path: &PathBuf) -> io::Result<Option<(Vec<u8>, Timestamp)>> {
    let file = File::open(path)?;
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    (&file).take(LARGEST + 1).read_to_end(&mut content)?;
    if LARGEST < content.len() as u64 {
        return Err(io::Error::other("it is larger than 256 KiB"));
    }
    let after = file.metadata()?;
    let is_whole = stamp(&before) == stamp(&after) && after.len() == content.len() as u64;
    let changed = after.modified()?.duration_since(UNIX_EPOCH);
    let ms = i64::try_from(changed.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
    Ok(is_whole.then_some((content, Timestamp::from_ms(ms))))
}

/// The time of change also tells what a change of rights does.
fn stamp(of: &Metadata) -> [i64; 7] {
    [
        of.dev().cast_signed(),
        of.ino().cast_signed(),
        of.size().cast_signed(),
        of.mtime(),
        of.mtime_nsec(),
        of.ctime(),
        of.ctime_nsec(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long after anything that these tests write.
    const LATER: Timestamp = Timestamp::from_ms(i64::MAX);

    struct Place {
        folder: tempfile::TempDir,
        watched: Watched<String>,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = folder.path().join("token");
            let watched = Watched::new("token".to_owned(), vec![path], |contents| {
                let text = String::from_utf8_lossy(&contents[0]);
                match text.trim() {
                    "bad" => Err("it is bad".to_owned()),
                    text => Ok(text.to_owned()),
                }
            });
            Self { folder, watched }
        }

        fn write(&self, text: &str) {
            fs::write(self.folder.path().join("token"), text).expect("it can be written");
        }

        fn replace(&self, text: &str) {
            let new = self.folder.path().join("new");
            fs::write(&new, text).expect("it can be written");
            fs::rename(new, self.folder.path().join("token")).expect("it can be renamed");
        }

        fn held(&self, wall: Timestamp) -> Result<String, String> {
            self.watched.current(wall).map(|made| made.as_ref().clone())
        }

        /// When the file was last written to.
        fn written(&self) -> Timestamp {
            let path = self.folder.path().join("token");
            let read = read_whole(&path).expect("it can be read");
            read.expect("nobody writes").1
        }
    }

    #[test]
    fn a_change_is_seen_at_the_next_look() {
        let place = Place::new();
        place.write("one\n");
        assert_eq!(place.held(LATER), Ok("one".to_owned()));
        place.replace("two\n");
        assert_eq!(place.held(LATER), Ok("two".to_owned()));
        place.write("three\n");
        assert_eq!(place.held(LATER), Ok("three".to_owned()));
    }

    #[test]
    fn what_is_half_written_is_not_taken() {
        let place = Place::new();
        place.write("one\n");
        assert_eq!(place.held(LATER), Ok("one".to_owned()));
        place.write("tw");
        let written = place.written();
        assert_eq!(place.held(written), Ok("one".to_owned()));
        place.write("two");
        let written = place.written();
        assert_eq!(place.held(written), Ok("one".to_owned()));
        let at_rest = Timestamp::from_ms(written.as_ms() + 1_000);
        assert_eq!(place.held(at_rest), Ok("two".to_owned()));
        place.write("three\n");
        assert_eq!(place.held(place.written()), Ok("three".to_owned()));
    }

    #[test]
    fn what_is_so_new_that_a_change_could_look_the_same_is_read_again() {
        let place = Place::new();
        place.write("one\n");
        let written = place.written();
        assert_eq!(place.held(written), Ok("one".to_owned()));
        assert_eq!(place.watched.state().seen, None);
        assert_eq!(place.held(LATER), Ok("one".to_owned()));
        assert!(place.watched.state().seen.is_some());
    }

    #[test]
    fn what_cannot_be_used_leaves_the_old_in_place() {
        let place = Place::new();
        let path = place.folder.path().join("token");
        let missing = format!(
            "cannot read {}: No such file or directory (os error 2)",
            path.display()
        );
        assert_eq!(place.held(LATER), Err(missing.clone()));
        place.write("bad\n");
        assert_eq!(place.held(LATER), Err("it is bad".to_owned()));
        place.write("one\n");
        assert_eq!(place.held(LATER), Ok("one".to_owned()));
        for content in [Some("bad\n"), None] {
            match content {
                Some(text) => place.replace(text),
                None => fs::remove_file(&path).expect("it is there"),
            }
            assert_eq!(place.held(LATER), Ok("one".to_owned()), "{content:?}");
        }
        assert_eq!(place.watched.state().wrong, Some(missing));
        place.write(&"x".repeat(300_000));
        assert_eq!(place.held(LATER), Ok("one".to_owned()));
        place.write("two\n");
        assert_eq!(place.held(LATER), Ok("two".to_owned()));
        assert_eq!(place.watched.state().wrong, None);
    }
}
