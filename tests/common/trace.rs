//! What the gateway asks of the kernel, as strace reports it.

use std::fs;
use std::time::Instant;

use super::PATIENCE;
use super::process::{Gateway, Site};

/// A system call: `sendto(9<socket:[1]>, "HTTP/1.1 202 …`. One that another thread interrupted has
/// two lines; they count where they end, or where they begin.
pub(crate) struct Call {
    pub(crate) text: String,
    pub(crate) begins: usize,
    pub(crate) ends: usize,
}

impl Call {
    /// Whether it has put the store on the disk.
    pub(crate) fn is_sync(&self) -> bool {
        let is_sync = self.text.starts_with("fdatasync(") || self.text.starts_with("fsync(");
        is_sync && self.text.contains("events.redb>") && self.text.ends_with("= 0")
    }
}

/// Starts the gateway of `site` and reports what it reads, writes and syncs.
pub(crate) fn start(site: &Site) -> Gateway {
    let path = site.file("trace");
    let path = path.to_string_lossy();
    let which = "trace=recvfrom,read,sendto,sendmsg,write,writev,fsync,fdatasync,exit_group";
    // With -D the tracer is the child and the gateway keeps its pid. -y names files.
    let options = [
        "-D", "-f", "-tt", "-y", "-s", "300", "-e", which, "-o", &path,
    ];
    Gateway::start(&mut site.gateway_behind("strace", &options))
}

/// All calls of the last gateway that was started so and has ended, in the order in which they
/// ended.
pub(crate) fn calls(site: &Site) -> Vec<Call> {
    let trace = wait_for_end(site);
    let mut open: Vec<(String, usize, String)> = Vec::new();
    let mut calls = Vec::new();
    for (number, line) in trace.lines().enumerate() {
        // The thread's id, the time of day, the call.
        let (thread, line) = line.split_once(' ').unwrap_or_default();
        let (_, line) = line.trim_start().split_once(' ').unwrap_or_default();
        let thread = thread.to_owned();
        if let Some(begin) = line.strip_suffix("<unfinished ...>") {
            open.push((thread, number, begin.to_owned()));
            continue;
        }
        let (mut text, mut begins) = (line.to_owned(), number);
        if line.starts_with("<... ")
            && let Some(at) = open.iter().position(|(whose, ..)| *whose == thread)
        {
            let (_, first, begin) = open.remove(at);
            let rest = line.split_once(" resumed>").unwrap_or_default().1;
            (text, begins) = (begin + rest, first);
        }
        let ends = number;
        calls.push(Call { text, begins, ends });
    }
    calls
}

/// Waits until strace has written that the process ended.
fn wait_for_end(site: &Site) -> String {
    let started = Instant::now();
    loop {
        let trace = fs::read_to_string(site.file("trace")).unwrap_or_default();
        if trace.trim_end().ends_with("+++ exited with 0 +++") && trace.contains("exit_group(") {
            return trace;
        }
        assert!(started.elapsed() < PATIENCE, "strace does not end: {trace}");
        std::thread::yield_now();
    }
}
