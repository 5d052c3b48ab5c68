//! Acknowledged means on disk, as the kernel saw it.

use crate::common::process::{Plan, Site};
use crate::common::trace;
use crate::common::upstream::Upstream;

#[test]
fn between_a_request_and_its_202_the_store_is_synced() {
    let upstream = Upstream::away(|_| unreachable!("it is away"));
    let site = Site::new(&upstream, Plan::default());
    let gateway = trace::start(&site);
    let mut device = gateway.connect();
    let ids: Vec<String> = (0..10).map(|number| format!("e-{number}")).collect();
    for id in &ids {
        device.deliver("cam-7", id);
    }
    gateway.stop();
    let calls = trace::calls(&site);
    for id in &ids {
        let asked = format!("\\\"eventId\\\":\\\"{id}\\\"");
        let told = format!("\\\"id\\\":\\\"{id}\\\"");
        let find = |what: &dyn Fn(&str) -> bool| calls.iter().find(|call| what(&call.text));
        let request = find(&|call| call.starts_with("re") && call.contains(&asked));
        let answer = find(&|call| call.contains("HTTP/1.1 202") && call.contains(&told));
        let read = request.expect("it was read").ends;
        let said = answer.expect("it was answered").begins;
        let synced = calls
            .iter()
            .any(|call| call.is_sync() && read < call.begins && call.ends < said);
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
