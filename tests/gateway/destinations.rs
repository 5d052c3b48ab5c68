//! Destinations that are renamed or removed while something waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::process::{Plan, Site};
use crate::common::upstream::{Reply, Upstream};

/// What `status` says of a destination: its state, and how many wait or are dead.
fn waiting(site: &Site, name: &str) -> (bool, u64, u64) {
    let status = &site.json(&["status"])[0];
    let destinations = status["destinations"].as_array().expect("a list");
    let one = destinations.iter().find(|one| one["name"] == name);
    let one = one.expect("it is listed while something waits for it");
    let number = |key: &str| one[key].as_u64().expect("a number");
    (one["configured"] == true, number("pending"), number("dead"))
}

/// A site of which three events wait for `cloud`, one of them as a dead letter, and that knows it
/// as `crm` from its next start on.
fn renamed(upstream: &Upstream) -> Site {
    let site = Site::new(upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "bad");
    gateway.log.wait_for("[event bad] dead letter for cloud");
    site.succeed(&["hold", "cloud"]);
    for (camera, id) in [("cam-7", "e-1"), ("cam-8", "e-2"), ("cam-7", "e-3")] {
        device.deliver(camera, id);
    }
    let refused = site.run(&["discard", "--destination", "cloud", "--move-to", "cloud"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{why}");
    site.succeed(&["release", "cloud"]);
    let refused = site.run(&["discard", "--destination", "cloud"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(why.contains("hold it first: gatepost hold cloud"), "{why}");
    gateway.kill();
    let config = std::fs::read_to_string(site.config()).expect("it was written");
    std::fs::write(site.config(), config.replace("\"cloud\"", "\"crm\"")).expect("there is room");
    site
}

/// An upstream that blames `bad` until it is mended, and takes nothing else before.
fn upstream() -> (Upstream, Arc<AtomicBool>) {
    let is_mended = Arc::new(AtomicBool::new(false));
    let mended = Arc::clone(&is_mended);
    let upstream = Upstream::start(move |received| {
        Reply::Status(match (mended.load(Ordering::SeqCst), received.name()) {
            (true, _) => 200,
            (false, "bad") => 422,
            (false, _) => 401,
        })
    });
    (upstream, is_mended)
}

#[test]
fn what_waits_for_a_renamed_destination_is_kept_and_can_be_moved_to_the_new_one() {
    let (upstream, is_mended) = upstream();
    let site = renamed(&upstream);
    let before = upstream.received().len();
    is_mended.store(true, Ordering::SeqCst);
    let gateway = site.start();
    assert_eq!(waiting(&site, "cloud"), (false, 3, 1));
    assert_eq!(waiting(&site, "crm"), (true, 0, 0));
    let moved = site.succeed(&["discard", "--destination", "cloud", "--move-to", "crm"]);
    assert_eq!(moved, b"4 deliveries are moved to crm\n");
    upstream.wait_for(before + 4);
    gateway
        .log
        .wait_for("[event e-3] delivered to crm: HTTP 200");
    let names = upstream.names().split_off(before);
    let of_seven: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| *name != "e-2")
        .collect();
    assert_eq!(of_seven, ["bad", "e-1", "e-3"], "{names:?}");
    let trail = site.json(&["show", "e-1"])[0]["trail"].to_string();
    assert!(trail.contains("discarded for cloud by operator"), "{trail}");
    assert!(trail.contains("assigned to crm"), "{trail}");
    let again = site.succeed(&["discard", "--destination", "cloud", "--move-to", "crm"]);
    assert_eq!(again, b"0 deliveries are moved to crm\n");
}

#[test]
fn what_waits_for_a_removed_destination_can_be_given_up() {
    let (upstream, _) = upstream();
    let site = renamed(&upstream);
    let before = upstream.received().len();
    let _gateway = site.start();
    let discarded = site.succeed(&["discard", "--destination", "cloud"]);
    assert_eq!(discarded, b"4 deliveries are discarded\n");
    let status = &site.json(&["status"])[0];
    assert_eq!(status["destinations"].as_array().map(Vec::len), Some(1));
    let state = &site.json(&["show", "bad"])[0]["deliveries"][0]["state"];
    assert_eq!(state, "discarded");
    assert_eq!(upstream.received().len(), before);
}

#[test]
fn a_new_destination_gets_what_was_stored_before_it_was_there_if_an_operator_says_so() {
    let upstream = Upstream::well();
    let site = Site::new(&upstream, Plan::default());
    let gateway = site.start();
    let mut device = gateway.connect();
    for id in ["e-1", "e-2", "e-3"] {
        device.deliver("cam-7", id);
    }
    gateway.log.wait_for("[event e-3] delivered to cloud");
    gateway.stop();
    let added = Upstream::well();
    let config = std::fs::read_to_string(site.config()).expect("it was written");
    let config = config.replace("to = [\"cloud\"]", "to = [\"cloud\", \"crm\"]");
    let crm = format!(
        "[[destination]]\nname = \"crm\"\nurl = \"{}\"\n",
        added.url()
    );
    std::fs::write(site.config(), format!("{config}{crm}")).expect("there is room");
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-4");
    gateway.log.wait_for("[event e-4] delivered to crm");
    assert_eq!(added.names(), ["e-4"]);
    let filled = site.succeed(&["replay", "--backfill", "crm"]);
    assert_eq!(filled, b"3 deliveries are to be made\n");
    added.wait_for(4);
    site.wait_until_empty();
    assert_eq!(added.names(), ["e-4", "e-1", "e-2", "e-3"]);
    assert_eq!(upstream.names(), ["e-1", "e-2", "e-3", "e-4"]);
    let keys = |upstream: &Upstream| {
        let mut keys: Vec<String> = upstream
            .received()
            .iter()
            .map(|one| one.key().to_owned())
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&added), keys(&upstream));
    let nothing = site.succeed(&["replay", "--backfill", "crm"]);
    assert!(nothing.starts_with(b"there is nothing"), "{nothing:?}");
}
