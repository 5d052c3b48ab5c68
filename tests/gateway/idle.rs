//! What a gateway does when there is nothing to do: nothing.

use std::sync::mpsc;
use std::time::Duration;

use crate::common::process::Plan;
use crate::common::process::Site;
use crate::common::upstream::Upstream;

/// Without a destination, and with one, in the quiet after an event.
#[test]
fn an_idle_gateway_takes_no_processor_time() {
    let upstream = Upstream::well();
    for site in [Site::bare(), Site::new(&upstream, Plan::default())] {
        let gateway = site.start();
        let mut device = gateway.connect();
        device.deliver("cam-7", "e-1");
        // The settlement and the idle checkpoint are still to come.
        pause(3);
        let before = gateway.ticks();
        pause(2);
        let took = gateway.ticks() - before;
        assert!(took < 40, "{took} hundredths of a second in two seconds");
        gateway.stop();
    }
}

fn pause(seconds: u64) {
    let (_sender, never) = mpsc::channel::<()>();
    _ = never.recv_timeout(Duration::from_secs(seconds));
}
