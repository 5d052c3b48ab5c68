//! The log: the lines of an event's life, word for word, and how the journal wants them.

use crate::common::device::event;
use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::{Reply, Upstream};

/// What the life below leaves in the log, with the journal's priorities. Each `…` is a number of
/// milliseconds.
const LINES: [&str; 8] = [
    "<6>[event e-1042] received from cam-7 on door, 61 bytes",
    "<6>[event e-1042] attempt 1 to cloud: HTTP 503, retry in 0.1 s (… ms)",
    "<6>[event e-1042] delivered to cloud: HTTP 202, attempt 2 (… ms)",
    "<6>[event e-1043] received from cam-7 on door, 61 bytes",
    "<4>[event e-1043] dead letter for cloud: HTTP 422 (… ms)",
    "<6>[event e-1042] duplicate of seq 0, 2nd time",
    "<6>[event #2] received on door, 10 bytes",
    "<4>[event #2] quarantined: required event id missing: nothing at json:/eventId",
];

/// The life of the design's examples; all lines of the log between listening and stopping.
fn life(journal: Option<&str>) -> Vec<String> {
    let upstream = Upstream::start(|received| match (received.name(), received.attempt()) {
        ("e-1042", "1") => Reply::Status(503),
        ("e-1043", _) => Reply::Status(422),
        _ => Reply::Status(202),
    });
    let site = Site::new(&upstream, Plan::default());
    let mut command = site.gateway(&[]);
    if let Some(journal) = journal {
        command.env("JOURNAL_STREAM", journal);
    }
    let gateway = Gateway::start(&mut command);
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-1042");
    gateway.log.wait_for("[event e-1042] delivered");
    device.deliver("cam-7", "e-1043");
    gateway.log.wait_for("[event e-1043] dead letter");
    assert_eq!(device.send(&event("cam-7", "e-1042")).status, 200);
    gateway.log.wait_for("[event e-1042] duplicate");
    assert_eq!(device.send("{\"nope\":1}").status, 200);
    gateway.log.wait_for("] quarantined: ");
    let log = gateway.log.clone();
    gateway.stop();
    let lines = log.lines();
    let said = |what: &str| lines.iter().position(|line| line.contains(what));
    let listening = said("[config] listening on 127.0.0.1:").expect("it says so");
    let stopping = said("[config] stopping").expect("it says so");
    lines[listening + 1..stopping].to_vec()
}

/// `line` with `…` for the number in `(41 ms)` at its end.
fn without_time(line: &str) -> String {
    let begin = line.strip_suffix(" ms)").unwrap_or_default();
    let digits = begin.trim_end_matches(|character: char| character.is_ascii_digit());
    match digits.strip_suffix('(') {
        Some(begin) => format!("{begin}(… ms)"),
        None => line.to_owned(),
    }
}

#[test]
fn under_systemd_each_line_begins_with_its_priority() {
    let lines = life(Some("8:12345"));
    let plain: Vec<String> = lines.iter().map(|line| without_time(line)).collect();
    assert_eq!(plain, LINES);
}

#[test]
fn elsewhere_each_line_begins_with_time_and_level() {
    let lines = life(None);
    assert_eq!(lines.len(), LINES.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(LINES) {
        let (at, text) = line.split_once("Z ").unwrap_or_default();
        assert!(at.starts_with("20") && at.len() == 23, "{line}");
        let (priority, expected) = expected.split_at(3);
        let level = if priority == "<4>" {
            "WARN  "
        } else {
            "INFO  "
        };
        assert_eq!(without_time(text), format!("{level}{expected}"));
    }
}
