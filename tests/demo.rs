//! The demo of the real binary: what it promises at its end, and what it leaves behind, which is
//! nothing, however it ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// What the issue promises.
const LONGEST: Duration = Duration::from_secs(30);

/// A demo whose temporary folder is a folder of its own.
struct Demo {
    child: Child,
    out: BufReader<ChildStdout>,
    place: TempDir,
}

impl Demo {
    fn start(below: &str, arguments: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join(below);
        fs::create_dir_all(&folder).expect("a folder below it");
        let mut child = Command::new(env!("CARGO_BIN_EXE_gatepost"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary can be started");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, out, place }
    }

    /// Reads the story up to the line that begins with `words`.
    fn read_to(&mut self, words: &str) {
        let mut line = String::new();
        while !line.starts_with(words) {
            line.clear();
            let length = self.out.read_line(&mut line).expect("the story is text");
            assert_ne!(length, 0, "the story ends before it says {words:?}");
        }
    }

    /// Its exit code, what it still printed, and what it said on standard error.
    fn end(&mut self) -> (Option<i32>, String, String) {
        let (mut story, mut said) = (String::new(), String::new());
        self.out.read_to_string(&mut story).expect("it is text");
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        stderr.read_to_string(&mut said).expect("it is text");
        let status = self.child.wait().expect("it is our child");
        (status.code(), story, said)
    }

    /// The folders and processes of this demo that are there.
    fn traces(&self) -> Vec<String> {
        let mut traces = processes_with(self.place.path());
        let mut folders = vec![self.place.path().to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder).expect("it can be read");
            let entries: Vec<PathBuf> = entries
                .map(|entry| entry.expect("it can be read").path())
                .collect();
            let is_ours = |path: &&PathBuf| path.to_string_lossy().contains("gatepost-demo");
            traces.extend(
                entries
                    .iter()
                    .filter(is_ours)
                    .map(|path| path.display().to_string()),
            );
            folders.extend(entries.into_iter().filter(|path| path.is_dir()));
        }
        traces
    }
}

/// The command lines of all processes that name `folder`: those of gateways do.
fn processes_with(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy();
    let entries = fs::read_dir("/proc").expect("this is Linux");
    entries
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&*folder))
        .collect()
}

/// The number in the row of the count that begins with `name`.
fn row(story: &str, name: &str) -> usize {
    let rows = story.lines().map(str::trim_start);
    let number = rows
        .filter_map(|line| line.strip_prefix(name))
        .find_map(|rest| rest.trim_start().split(',').next()?.parse().ok());
    number.unwrap_or_else(|| unreachable!("no row {name:?} in:\n{story}"))
}

#[test]
fn it_loses_nothing_takes_less_than_half_a_minute_and_leaves_nothing_behind() {
    let begun = Instant::now();
    let mut demo = Demo::start("", &[]);
    let (code, story, said) = demo.end();
    assert_eq!((code, said.as_str()), (Some(0), ""), "{story}");
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    assert_eq!(row(&story, "lost ="), 0);
    let events = row(&story, "events acknowledged");
    let (delivered, quarantined) = (row(&story, "delivered"), row(&story, "in quarantine"));
    assert_eq!(events, delivered + quarantined, "{story}");
    assert_eq!((delivered, quarantined), (14, 2), "{story}");
    assert!(1 <= row(&story, "duplicates recognised"), "{story}");
    assert!(
        story.contains("dead letters              1, replayed 1\n"),
        "{story}"
    );
    assert!(story.contains("nobody there, trying again\n"), "{story}");
    assert_eq!(demo.traces(), Vec::<String>::new());
}

#[test]
fn a_signal_ends_it_without_leaving_anything_behind() {
    let mut demo = Demo::start("", &[]);
    demo.read_to("2. Devices");
    assert_eq!(processes_with(demo.place.path()).len(), 1, "its gateway");
    assert!(1 < demo.traces().len(), "its folder");
    let kill = format!("kill -TERM {}", demo.child.id());
    let killed = Command::new("sh").args(["-c", &kill]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let (code, _, said) = demo.end();
    assert_eq!(code, Some(1));
    assert_eq!(said, "gatepost: stopped by a signal\n");
    assert_eq!(demo.traces(), Vec::<String>::new());
}

#[test]
fn a_gateway_that_cannot_go_on_is_explained() {
    let long = "a-folder-whose-name-is-long/".repeat(4);
    let mut demo = Demo::start(&long, &["--json"]);
    let (code, story, said) = demo.end();
    assert_eq!((code, story.as_str()), (Some(1), ""));
    assert_eq!(said, "gatepost: the gateway ended by itself\n");
    assert_eq!(demo.traces(), Vec::<String>::new());
    let mut demo = Demo::start(&long, &[]);
    let (code, story, _) = demo.end();
    let (_, last) = story
        .split_once("what the gateway said last:\n")
        .expect("it shows why");
    assert!(last.contains("the path of the admin socket has"), "{last}");
    assert_eq!(code, Some(1));
    assert_eq!(demo.traces(), Vec::<String>::new());
}
