//! A full disk, and one that may not be written to.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use super::gateway::{Gateway, Upstream, gatepost, store_in, wait_for};
use super::place::Place;

/// The size of most events here: a picture.
const SIZE: usize = 250_000;

/// Sends events until one is refused, or `most` were taken. Those that were taken.
fn send_until_refused(gateway: &Gateway, prefix: &str, most: usize) -> Vec<String> {
    let mut taken = Vec::new();
    for number in 0..most {
        let id = format!("{prefix}-{number}");
        match gateway.send(&id, SIZE) {
            Some(202) => taken.push(id),
            Some(503) => break,
            other => unreachable!("{id}: only 202 and 503 are honest, not {other:?}"),
        }
    }
    taken
}

fn ballast_of(place: &Place) -> u64 {
    let ballast = place.path().join("events.redb.ballast");
    fs::metadata(ballast).map_or(0, |file| file.len())
}

/// What a command that may fail prints.
fn ask(place: &Place, command: &[&str]) -> String {
    let data = place.path();
    let data = ["--data", data.to_str().expect("our own folders are text")];
    let output = gatepost(&[command, &data].concat());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The disk is filled by the store itself while the upstream is down, then drained.
#[test]
fn a_store_that_fills_its_disk_refuses_drains_and_takes_again() {
    let Some(place) = Place::mount(128) else {
        return;
    };
    let upstream = Upstream::start(false);
    let mut gateway = Gateway::start(&place.path(), Some(upstream.address));
    assert!(
        wait_for(|| ballast_of(&place) == 8 << 20),
        "ballast, {}",
        place.kind
    );
    let mut taken = send_until_refused(&gateway, "a", 400);
    assert!(
        (50..400).contains(&taken.len()),
        "{} of 400 taken",
        taken.len()
    );
    assert!(place.free() > 16 << 20, "{} are left", place.free());
    assert!(
        gateway.says("[alert disk-low] only").is_some(),
        "{:?}",
        gateway.said()
    );
    upstream.up.store(true, Relaxed);
    assert!(
        wait_for(|| upstream.count() == taken.len()),
        "deliveries go on"
    );
    let mut again = false;
    let resumes = wait_for(|| {
        let id = "b-0".to_owned();
        again = gateway
            .send(&id, SIZE)
            .is_some_and(|status| status / 100 == 2);
        again
    });
    assert!(resumes, "{:?}", gateway.said());
    taken.push("b-0".to_owned());
    assert!(wait_for(|| taken.iter().all(|id| upstream.has(id, SIZE))));
    assert_eq!(gateway.stop(), Some(0));
}

/// Another program takes the last byte. What waits is delivered all the same, over an end and a
/// new start if it must, and taking goes on when there is room.
#[test]
fn another_program_may_take_all_room() {
    let Some(place) = Place::mount(112) else {
        return;
    };
    let upstream = Upstream::start(false);
    let mut gateway = Gateway::start(&place.path(), Some(upstream.address));
    assert!(wait_for(|| ballast_of(&place) == 8 << 20));
    let mut taken = send_until_refused(&gateway, "a", 20);
    assert_eq!(taken.len(), 20);
    // Compacted, the file has nothing left inside that could be written to.
    assert_eq!(gateway.stop(), Some(0));
    ask(&place, &["compact"]);
    place.fill("theirs");
    gateway = Gateway::start(&place.path(), Some(upstream.address));
    let mut refused = 0;
    let mut restarts = 0;
    upstream.up.store(true, Relaxed);
    let done = wait_for(|| {
        let id = format!("c-{refused}");
        match gateway.send(&id, 100) {
            Some(202) => taken.push(id),
            Some(503) => refused += 1,
            None => {
                // It was not acknowledged, so there is nothing to remember.
                if restarts < 5 && gateway.ends() == Some(74) {
                    restarts += 1;
                    gateway = Gateway::start(&place.path(), Some(upstream.address));
                }
            }
            other => unreachable!("only 202 and 503 are honest, not {other:?}"),
        }
        let settled = ask(&place, &["status", "--json"]).contains("\"pending\":0");
        settled && (0..20).all(|number| upstream.has(&format!("a-{number}"), SIZE))
    });
    let said = gateway.said();
    assert!(done, "{restarts} restarts, {refused} refused: {said:?}");
    assert!(0 < refused);
    assert_eq!(ballast_of(&place), 0, "it was needed");
    fs::remove_file(place.path().join("theirs")).expect("removed");
    let resumes = wait_for(|| gateway.send("d-0", SIZE) == Some(202));
    assert!(resumes, "{:?}", gateway.said());
    taken.push("d-0".to_owned());
    let size = |id: &str| if id.starts_with('c') { 100 } else { SIZE };
    assert!(wait_for(|| taken
        .iter()
        .all(|id| upstream.has(id, size(id)))));
    assert!(
        wait_for(|| ballast_of(&place) == 8 << 20),
        "ballast is built again"
    );
    assert_eq!(gateway.stop(), Some(0));
}

#[test]
fn a_disk_that_turns_read_only_ends_it_and_loses_nothing() {
    let Some(place) = Place::mount(112) else {
        return;
    };
    let upstream = Upstream::start(false);
    let mut gateway = Gateway::start(&place.path(), Some(upstream.address));
    assert_eq!(gateway.send("a", 100), Some(202));
    // A tmpfs with a file open for writing can't be remounted; then there is nothing to test.
    if !place.remount("ro") {
        return;
    }
    let answer = gateway.send("b", 100);
    assert!(matches!(answer, Some(503) | None), "{answer:?}");
    assert_eq!(gateway.ends(), Some(74), "{:?}", gateway.said());
    let (code, said) = Gateway::try_start(&place.path(), None)
        .err()
        .expect("it can't start");
    assert_eq!(code, Some(74));
    assert!(
        said.iter().any(|line| line.contains("for writing")),
        "{said:?}"
    );
    assert!(place.remount("rw"));
    upstream.up.store(true, Relaxed);
    let gateway = Gateway::start(&place.path(), Some(upstream.address));
    assert!(wait_for(|| upstream.has("a", 100)));
    assert_eq!(gateway.stop(), Some(0));
}

#[test]
fn a_folder_without_permission_is_said_with_its_remedy_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let gateway = Gateway::start(&data, None);
    assert_eq!(gateway.stop(), Some(0));
    // For root nothing is forbidden, so this runs as nobody.
    let nobody = 65_534;
    let may = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(folder.path(), may(0o755)).expect("ours");
    fs::set_permissions(store_in(&data), may(0o600)).expect("ours");
    let binary = folder.path().join("gatepost");
    fs::copy(env!("CARGO_BIN_EXE_gatepost"), &binary).expect("copied");
    let mut command = Command::new(&binary);
    command
        .args(["run", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    let output = command.uid(nobody).gid(nobody).output();
    let Ok(output) = output else {
        // Whoever may not become nobody is not root, so the permission can simply be taken away.
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(74), "{said}");
    assert!(said.contains("the user that gatepost runs as"), "{said}");
    assert!(!data.join("events.redb.damaged-1").exists());
    let _ = std::io::stdout().flush();
}
