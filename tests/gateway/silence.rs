//! Devices that fall silent.

use crate::common::device::event;
use crate::common::process::{Plan, Site};
use crate::common::upstream::Upstream;

/// Ten seconds are the least that is taken.
const ROUTE: &str = "expect_every = \"10s\"\n";

#[test]
fn a_device_is_missed_also_if_it_is_silent_since_before_the_start() {
    let upstream = Upstream::well();
    let plan = Plan {
        route: ROUTE,
        ..Plan::default()
    };
    let site = Site::new(&upstream, plan);
    let gateway = site.start();
    let mut device = gateway.connect();
    device.deliver("cam-7", "e-1");
    device.deliver("cam-8", "e-2");
    gateway.stop();

    let gateway = site.start();
    let rows = || {
        let row = |row: &serde_json::Value| {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            (
                text("device"),
                row["last_seen"].is_object(),
                row["silent"] == true,
            )
        };
        let rows = site.json(&["devices"]);
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let (seven, eight) = ("cam-7".to_owned(), "cam-8".to_owned());
    let expected = [(seven.clone(), false, false), (eight, false, false)];
    assert_eq!(rows(), expected);
    site.succeed(&["devices", "--forget", "cam-8", "--route", "door"]);
    let alert = gateway.log.wait_for("[alert device-silent]");
    assert!(
        alert.contains("cam-7 on door: nothing was heard of it since the start, for 1"),
        "{alert}"
    );
    assert_eq!(rows(), [(seven.clone(), false, true)]);
    let status = site.succeed(&["status"]);
    let status = String::from_utf8_lossy(&status);
    assert!(status.contains("1 device is silent"), "{status}");

    let mut device = gateway.connect();
    let answer = device.send(&event("cam-7", "e-3"));
    assert_eq!(answer.status, 202);
    let over = gateway.log.wait_for("[alert device-silent] over:");
    assert!(over.contains("cam-7 on door is heard of again"), "{over}");
    assert_eq!(rows(), [(seven, true, false)]);
    let output = site.run(&["devices", "--forget", "cam-8"]);
    assert_eq!(output.status.code(), Some(1));
}
