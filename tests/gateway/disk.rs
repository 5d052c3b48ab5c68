//! Acknowledged means on disk, as the kernel saw it.

use std::fs;
use std::path::Path;

use crate::common::PATIENCE;
use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::Upstream;

/// A system call as strace reports it: `sendto(9<socket:[1]>, "HTTP/1.1 202 …`. One that another
/// thread interrupted has two lines; they count where they end, or where they begin.
struct Call {
    text: String,
    begins: usize,
    ends: usize,
}

/// All calls that have ended, in the order in which they did.
fn calls(trace: &str) -> Vec<Call> {
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
fn wait_for_trace(path: &Path) -> String {
    let started = std::time::Instant::now();
    loop {
        let trace = fs::read_to_string(path).unwrap_or_default();
        if trace.trim_end().ends_with("+++ exited with 0 +++") && trace.contains("exit_group(") {
            return trace;
        }
        assert!(started.elapsed() < PATIENCE, "strace does not end: {trace}");
        std::thread::yield_now();
    }
}

#[test]
fn between_a_request_and_its_202_the_store_is_synced() {
    let upstream = Upstream::away(|_| unreachable!("it is away"));
    let site = Site::new(&upstream, Plan::default());
    let path = site.file("trace");
    let trace = path.to_string_lossy();
    let which = "trace=recvfrom,read,sendto,sendmsg,write,writev,fsync,fdatasync,exit_group";
    // With -D the tracer is the child and the gateway keeps its pid. -y names files.
    let options = [
        "-D", "-f", "-tt", "-y", "-s", "300", "-e", which, "-o", &trace,
    ];
    let gateway = Gateway::start(&mut site.gateway_behind("strace", &options));
    let mut device = gateway.connect();
    let ids: Vec<String> = (0..10).map(|number| format!("e-{number}")).collect();
    for id in &ids {
        device.deliver("cam-7", id);
    }
    gateway.stop();
    let calls = calls(&wait_for_trace(&path));
    for id in &ids {
        let asked = format!("\\\"eventId\\\":\\\"{id}\\\"");
        let told = format!("\\\"id\\\":\\\"{id}\\\"");
        let find = |what: &dyn Fn(&str) -> bool| calls.iter().find(|call| what(&call.text));
        let request = find(&|call| call.starts_with("re") && call.contains(&asked));
        let answer = find(&|call| call.contains("HTTP/1.1 202") && call.contains(&told));
        let read = request.expect("it was read").ends;
        let said = answer.expect("it was answered").begins;
        let synced = calls.iter().any(|call| {
            let is_sync = call.text.starts_with("fdatasync(") || call.text.starts_with("fsync(");
            let done = call.text.contains("events.redb>") && call.text.ends_with("= 0");
            is_sync && done && read < call.begins && call.ends < said
        });
        let story: Vec<&str> = calls
            .iter()
            .filter(|call| read <= call.ends && call.begins <= said)
            .map(|call| call.text.as_str())
            .collect();
        assert!(synced, "{id} was not synced:\n{}", story.join("\n"));
    }
}

#[test]
fn two_gateways_cannot_share_a_store() {
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let second = site.gateway(&[]).output().expect("the binary is there");
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(74), "{said}");
    assert!(said.contains("events.redb"), "{said}");
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-1");
    upstream.wait_for(1);
}
