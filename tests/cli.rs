//! The real binary on a store that it opens itself: what it prints, and its exit codes.

use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use gatepost::audit::{Action, Entry, Then};
use gatepost::clock::{Clock, Reading, SystemClock, Timestamp};
use gatepost::commit::{Admission, Change, Committer, DedupKey, Retention, Settlement, Work};
use gatepost::delivery::{DeadLetter, DeadReason, DeliveryId};
use gatepost::event::{Address, DestinationNo, Digest, Event, Header, Lane, Quarantine, Seq};
use gatepost::store::{Store, Sync};
use serde_json::Value;

const CLOUD: DestinationNo = DestinationNo(1);

/// A gateway's data directory, with events in its store.
struct Gateway {
    folder: tempfile::TempDir,
}

impl Gateway {
    /// With nothing in it.
    fn empty() -> Self {
        let gateway = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        gateway.change(|_| ());
        gateway
    }

    /// - `#0` `e-1` of cam-7: a dead letter
    /// - `#1` `e-2` of cam-7: pending, not text
    /// - `#2` `e-1` of cam-8: pending
    /// - `#3` without an id: in quarantine
    fn lived_in() -> Self {
        let gateway = Self::empty();
        gateway.change(|committer| {
            let mut odd = event(None, "cam-9", b"{\"nope\":1}");
            odd.to.clear();
            odd.quarantine = Some(Quarantine::NoRoute);
            let odd = Admission {
                event: odd,
                body: b"{\"nope\":1}".to_vec(),
                key: None,
                within: None,
            };
            let work = vec![
                admit("e-1", "cam-7", b"{\"deviceId\":\"cam-7\"}"),
                admit("e-2", "cam-7", b"\x1b[2J\xff\xd8 picture"),
                admit("e-1", "cam-8", b"text"),
                Work::Admit(Box::new(odd), ()),
            ];
            committer.step(work).expect("the store works");
            let death: Work<()> = Work::Settle(Box::new(death(Seq(0), "cam-7")));
            committer.step(vec![death]).expect("the store works");
        });
        gateway
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("events.redb")
    }

    fn change(&self, change: impl FnOnce(&mut Committer)) {
        let store = Store::open(&self.store(), 42).expect("a store");
        let named = store.write(Sync::Usual, |tables| {
            tables.put_meta("destination/cloud", &CLOUD)
        });
        named.expect("the store works");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let committer = Committer::new(Arc::new(store), clock, 1 << 30, Retention::DEFAULT);
        let mut committer = committer.expect("a committer");
        change(&mut committer);
        committer.finish().expect("the store works");
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.raw(arguments);
        let code = output.status.code().expect("it exits");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (code, text(output.stdout), text(output.stderr))
    }

    fn raw(&self, arguments: &[&str]) -> Output {
        let command = self.command(arguments).output();
        command.expect("the binary runs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
        command
            .args(arguments)
            .arg("--data")
            .arg(self.folder.path());
        command
    }

    /// What a command that must succeed prints.
    fn prints(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}");
        out
    }

    /// The objects, one a line, that a command prints.
    fn objects(&self, arguments: &[&str]) -> Vec<Value> {
        let out = self.prints(&[arguments, &["--json"]].concat());
        let lines = out.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON on each line")
    }
}

fn event(id: Option<&str>, device: &str, body: &[u8]) -> Event {
    let address = Address {
        destination: CLOUD,
        lane: Lane::of_device("door", device),
    };
    Event {
        event_id: id.map(str::to_owned),
        device: Some(device.to_owned()),
        route: Some("door".to_owned()),
        peer: "127.0.0.1:9".parse().expect("an address"),
        method: "POST".to_owned(),
        target: b"/ingest/\x07".to_vec(),
        headers: vec![Header {
            name: "X-Odd".to_owned(),
            value: b"\x1b]0;owned\x07".to_vec(),
        }],
        received: Reading {
            wall: Timestamp::from_ms(1_767_323_045_000),
            certain: true,
            uptime_ms: 1,
        },
        boot: 1,
        length: body.len() as u64,
        kept: body.len() as u64,
        digest: Digest::of(body),
        event_time: None,
        items: None,
        revision_of: None,
        priority: gatepost::event::USUAL_PRIORITY,
        quarantine: None,
        to: vec![address],
    }
}

fn admit(id: &str, device: &str, body: &[u8]) -> Work<()> {
    let admission = Admission {
        event: event(Some(id), device, body),
        body: body.to_vec(),
        key: Some(DedupKey::new("door", device, id)),
        within: None,
    };
    Work::Admit(Box::new(admission), ())
}

fn death(seq: Seq, device: &str) -> Settlement {
    let lane = Lane::of_device("door", device);
    let letter = DeadLetter {
        reason: DeadReason::Rejected,
        at: Timestamp::from_ms(1_767_323_046_000),
        lane,
        attempts: 1,
        outcome: "HTTP 422".to_owned(),
        answer: "no such\ndoor \x1b[31m".to_owned(),
    };
    Settlement {
        id: DeliveryId {
            destination: CLOUD,
            lane,
            seq,
        },
        name: "e-1".to_owned(),
        change: Change::Dead(letter),
        entry: Entry {
            at: Timestamp::from_ms(1_767_323_046_000),
            uncertain: false,
            action: Action::Attempted {
                destination: "cloud".to_owned(),
                number: 1,
                outcome: "HTTP 422".to_owned(),
                took_ms: 12,
                then: Then::Dead,
            },
        },
    }
}

/// The words of each line of a table.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}

#[test]
fn an_empty_gateway_says_so_in_sentences() {
    let gateway = Gateway::empty();
    let rows = [
        ("queue", "nothing waits to be delivered\n"),
        ("dead", "there are no dead letters\n"),
        ("quarantine", "nothing is in quarantine\n"),
    ];
    for (command, sentence) in rows {
        assert_eq!(gateway.prints(&[command]), sentence);
        assert_eq!(gateway.prints(&[command, "--json"]), "", "{command}");
    }
    let status = gateway.prints(&["status"]);
    assert!(status.contains("the daemon does not run"), "{status}");
    let replayed = gateway.prints(&["replay", "--all"]);
    assert_eq!(replayed, "there are no dead letters to replay\n");
}

#[test]
fn the_lists_show_what_waits() {
    let gateway = Gateway::lived_in();
    let queue = gateway.prints(&["queue"]);
    let rows = words(&queue);
    assert_eq!(
        rows[0][..4],
        ["SEQ", "EVENT", "DEVICE", "DESTINATION"],
        "{queue}"
    );
    let mut queued: Vec<&[&str]> = rows[1..].iter().map(|row| &row[..4]).collect();
    queued.sort_unstable();
    let expected = [
        ["#1", "e-2", "cam-7", "cloud"],
        ["#2", "e-1", "cam-8", "cloud"],
    ];
    assert_eq!(queued, expected, "{queue}");
    let dead = gateway.prints(&["dead"]);
    assert!(dead.contains("rejected: HTTP 422"), "{dead}");
    assert_eq!(words(&dead)[1][..4], ["#0", "e-1", "cam-7", "cloud"]);
    let quarantine = gateway.prints(&["quarantine"]);
    assert_eq!(words(&quarantine)[1][..3], ["#3", "#3", "cam-9"]);
    assert_eq!(gateway.objects(&["queue"]).len(), 2);
    assert_eq!(gateway.objects(&["dead"])[0]["outcome"], "HTTP 422");
    assert_eq!(
        gateway.objects(&["quarantine"])[0]["why"],
        "no route has this path"
    );
    let status = &gateway.objects(&["status"])[0];
    assert_eq!(status["destinations"][0]["pending"], 2);
    assert_eq!(status["running"], false);
}

#[test]
fn an_event_is_shown_whole_and_moves_no_cursor() {
    let gateway = Gateway::lived_in();
    let shown = gateway.prints(&["show", "#0"]);
    let lines = [
        "event e-1, seq 0",
        "  device    cam-7, at 127.0.0.1:9",
        "  request   POST /ingest/\\u{7}",
        "  key       000000000000002a-0",
        "    | door \\u{1b}[31m",
        "  2026-01-02T03:04:05.000Z  [event e-1] received from cam-7 on door, 20 bytes",
        "  2026-01-02T03:04:06.000Z  [event e-1] dead letter for cloud: HTTP 422 (12 ms)",
        "  X-Odd: \\u{1b}]0;owned\\u{7}",
        "{\"deviceId\":\"cam-7\"}",
    ];
    for line in lines {
        assert!(
            shown.lines().any(|shown| shown == line),
            "{line}\nin\n{shown}"
        );
    }
    let shown = gateway.prints(&["show", "e-2"]);
    let hex = "00000000  1b 5b 32 4a ff d8 20 70 69 63 74 75 72 65        .[2J.. picture";
    assert!(shown.lines().any(|line| line == hex), "{shown}");
    for seq in 0..4 {
        let shown = gateway.prints(&["show", &format!("#{seq}")]);
        let moves = |character: char| character.is_control() && character != '\n';
        assert!(!shown.contains(moves), "{shown:?}");
    }
    let body = gateway.raw(&["show", "--body", "e-2"]);
    assert_eq!(body.stdout, b"\x1b[2J\xff\xd8 picture");
    assert_eq!((body.status.code(), body.stderr.len()), (Some(0), 0));
    let odd = gateway.prints(&["show", "#3"]);
    assert!(
        odd.contains("it waits until gatepost discard '#3'"),
        "{odd}"
    );
    assert!(odd.ends_with("\nbody\n{\"nope\":1}\n"), "{odd}");
}

#[test]
fn an_id_that_means_several_events_is_listed_and_never_guessed_at() {
    let gateway = Gateway::lived_in();
    let shown = gateway.prints(&["show", "e-1"]);
    let rows = words(&shown);
    assert_eq!(rows[3][..3], ["#0", "e-1", "cam-7"], "{shown}");
    assert_eq!(rows[4][..3], ["#2", "e-1", "cam-8"], "{shown}");
    assert_eq!(gateway.objects(&["show", "e-1"]).len(), 2);
    for command in ["replay", "discard", "show --body"] {
        let arguments: Vec<&str> = command.split(' ').chain(["e-1"]).collect();
        let (code, out, err) = gateway.run(&arguments);
        let expected = format!(
            "gatepost: e-1 may mean 2 events: #0 of cam-7, #2 of cam-8; say which, for example: \
             gatepost {command} '#2'\n"
        );
        assert_eq!((code, out.as_str(), err), (1, "", expected));
    }
}

#[test]
fn a_decision_about_an_event_is_kept() {
    let gateway = Gateway::lived_in();
    assert_eq!(
        gateway.prints(&["replay", "#0"]),
        "1 delivery is sent again\n"
    );
    assert_eq!(gateway.prints(&["dead"]), "there are no dead letters\n");
    let (code, _, err) = gateway.run(&["replay", "#0"]);
    assert_eq!(
        (code, err.as_str()),
        (1, "gatepost: e-1 still waits for cloud\n")
    );
    assert_eq!(gateway.prints(&["discard", "#0"]), "e-1 is discarded\n");
    assert_eq!(gateway.prints(&["discard", "#3"]), "#3 is discarded\n");
    assert_eq!(
        gateway.prints(&["quarantine"]),
        "nothing is in quarantine\n"
    );
    let shown = gateway.prints(&["show", "#0"]);
    assert!(
        shown.contains("[event e-1] replayed to cloud by operator\n"),
        "{shown}"
    );
    assert!(
        shown.contains("[event e-1] discarded for cloud by operator\n"),
        "{shown}"
    );
    let (code, _, err) = gateway.run(&["discard", "#0"]);
    assert_eq!(code, 1, "{err}");
}

#[test]
fn all_dead_letters_are_replayed_at_once() {
    let gateway = Gateway::lived_in();
    let replayed = &gateway.objects(&["replay", "--destination", "cloud"])[0];
    assert_eq!(replayed["done"], 1);
    assert_eq!(gateway.objects(&["replay", "--all"])[0]["done"], 0);
    let (code, _, err) = gateway.run(&["replay", "--destination", "clod"]);
    let expected = "gatepost: there is no destination \"clod\"; there are: cloud\n";
    assert_eq!((code, err.as_str()), (1, expected));
}

#[test]
fn a_destination_stays_held_until_it_is_released() {
    let gateway = Gateway::lived_in();
    gateway.prints(&["hold", "cloud"]);
    assert_eq!(
        gateway.objects(&["status"])[0]["destinations"][0]["held"],
        true
    );
    assert_eq!(gateway.prints(&["release", "cloud"]), "cloud is released\n");
    assert_eq!(
        gateway.objects(&["status"])[0]["destinations"][0]["held"],
        false
    );
    let (code, _, err) = gateway.run(&["hold", "\u{1b}[2J"]);
    assert_eq!(code, 1);
    assert!(!err.contains('\u{1b}'), "{err:?}");
}

#[test]
fn what_is_not_there_has_its_exit_code() {
    let gateway = Gateway::lived_in();
    let (code, out, err) = gateway.run(&["show", "e-9"]);
    let expected = (1, "", "gatepost: there is no event e-9\n");
    assert_eq!((code, out.as_str(), err.as_str()), expected);
    let nowhere = Gateway {
        folder: tempfile::tempdir().expect("a folder"),
    };
    let (code, _, err) = nowhere.run(&["status"]);
    assert_eq!(code, 74);
    assert!(err.starts_with("gatepost: there is no store at "), "{err}");
    assert!(!nowhere.store().exists(), "looking creates nothing");
}

#[test]
fn a_daemon_that_does_not_answer_exits_with_69() {
    let gateway = Gateway::lived_in();
    let _open = Store::open(&gateway.store(), 42).expect("a store");
    let (code, _, err) = gateway.run(&["status"]);
    assert_eq!(code, 69);
    assert!(err.contains("no daemon answers at"), "{err}");
    // One that hangs up.
    let socket = UnixListener::bind(gateway.folder.path().join("admin.sock")).expect("bound");
    let hangs_up = std::thread::spawn(move || {
        for _ in 0..2 {
            drop(socket.accept().expect("a client"));
        }
    });
    let (code, _, err) = gateway.run(&["status"]);
    assert_eq!(code, 69, "{err}");
    hangs_up.join().expect("no panic");
}

#[test]
fn a_damaged_record_is_said_and_hides_no_other_one() {
    let gateway = Gateway::lived_in();
    let mut file = std::fs::read(gateway.store()).expect("readable");
    let needle = b"\x1b[2J\xff\xd8 picture";
    let places: Vec<usize> = (0..file.len() - needle.len())
        .filter(|at| file[*at..].starts_with(needle))
        .collect();
    assert!(!places.is_empty());
    for at in places {
        file[at + needle.len() - 1] ^= 1;
    }
    std::fs::write(gateway.store(), file).expect("written");
    let (code, out, err) = gateway.run(&["show", "e-2"]);
    assert_eq!(code, 74);
    assert!(err.contains("damaged record in `bodies`"), "{err}");
    assert!(
        out.contains("[event e-2] received"),
        "the rest is shown: {out}"
    );
    assert_eq!(words(&gateway.prints(&["queue"])).len(), 3);
}

#[test]
fn a_wrong_file_exits_with_78_and_one_line_of_explanation() {
    let check = |file: &str, json: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
        let output = command.arg("check").arg(file).args(json).output();
        output.expect("the binary runs")
    };
    let output = check("/nonexistent", &[]);
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "gatepost: cannot read /nonexistent: No such file or directory (os error 2)\n"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gatepost.toml");
    let text = "[store]\npath = \"data/events.redb\"\n[[destination]]\nname = \"cloud\"\n\
                url = \"https://api.example.com/\"\n[[route]]\nname = \"door\"\n\
                path = \"/ingest/door\"\nto = [\"cloud\"]\n";
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("text");
    let output = check(file, &[]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(out.starts_with(&format!("{file} is right\n")), "{out}");
    assert!(
        out.contains("\ncloud: POST https://api.example.com/\n"),
        "{out}"
    );
    assert!(out.contains("\ndoor: /ingest/door -> cloud\n"), "{out}");
    let meaning: Value = serde_json::from_slice(&check(file, &["--json"]).stdout).expect("JSON");
    assert_eq!(meaning["routes"][0]["to"][0], "cloud");
    assert_eq!(meaning["destinations"][0]["format"], "raw");
    // The file also says where the store is: there is none yet.
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
    let output = command
        .args(["status", "--config", file])
        .output()
        .expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(74));
    assert!(err.contains("data/events.redb"), "{err}");
}

#[test]
fn a_check_says_who_may_send_and_what_may_be_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s3cr3t\n").expect("written");
    std::fs::set_permissions(&secret, Permissions::from_mode(0o604)).expect("it is ours");
    let file = folder.path().join("gatepost.toml");
    let text = "[[route]]\nprofile = \"stripe\"\n[[route]]\nprofile = \"github\"\n\
                allow = [\"10.0.0.0/8\"]\nsignature = { file = \"secret\" }\n";
    std::fs::write(&file, text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
    let output = command.arg("check").arg(&file).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let out = String::from_utf8_lossy(&output.stdout);
    let secret = secret.display();
    let expected = format!(
        "stripe: /stripe (stripe) -> held (no destination)\n\
         github: /github (github) -> held (no destination)\n\
         \x20 only with address in 10.0.0.0/8\n\
         \x20 only with signature github\n\
         warning: line 6: route \"github\" signature file: every user of this machine can read \
         {secret}; chmod o= {secret}\n\
         hint: route \"stripe\": its senders sign (stripe), and nobody checks that; with \
         signature = {{ file = \"…\" }}, a file with the secret, gatepost does\n"
    );
    assert!(out.ends_with(&expected), "{out}");
    assert!(!out.contains("s3cr3t"), "{out}");
}

#[test]
fn check_says_what_a_destination_is_asked_and_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gatepost.toml");
    let text = "[[destination]]\nname = \"cloud\"\nurl = \"https://api.example.com/\"\n\
                classify = { 404 = \"dead\", 5xx = \"hold\" }\n\
                proof = { status = [200], header = { name = \"X-Ack\", value = \"*\" } }\n\
                rate = { events = \"50/s\" }\nwindow = \"22:00-06:00\"\n";
    std::fs::write(&file, text).expect("written");
    let check = |json: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatepost"));
        command.env("TZ", "Asia/Bangkok");
        let output = command.arg("check").arg(&file).args(json).output();
        String::from_utf8(output.expect("the binary runs").stdout).expect("text")
    };
    let out = check(&[]);
    for line in [
        "cloud: of its answers 404 is dead, 5xx is hold",
        "cloud: a 2xx is believed with status 200 and header X-Ack = \"*\"",
        "cloud: sent to at most 50/s, only 22:00-06:00 by local time, which is Asia/Bangkok, \
         while the clock is synchronised",
    ] {
        assert!(out.lines().any(|other| other == line), "{out}");
    }
    let meaning: Value = serde_json::from_str(&check(&["--json"])).expect("JSON");
    let cloud = &meaning["destinations"][0];
    assert_eq!(cloud["classify"], "404 is dead, 5xx is hold");
    assert_eq!(cloud["proof"], "status 200 and header X-Ack = \"*\"");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let gateway = Gateway::empty();
    gateway.change(|committer| {
        for number in 0..4 {
            let ids = (0..500).map(|at| format!("a-rather-long-id-{number}-{at}"));
            let work = ids.map(|id| admit(&id, "cam-7", b"x"));
            committer.step(work.collect()).expect("the store works");
        }
    });
    let mut command = gateway.command(&["queue"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut seen = [0; 10];
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut seen).expect("a little");
    drop(out);
    let output = child.wait_with_output().expect("it exits");
    assert_eq!(
        (output.status.code(), output.stderr.len()),
        (Some(0), 0),
        "{output:?}"
    );
}
