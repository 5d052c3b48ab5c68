//! Sixty-four devices that send as fast as they can, until the gateway is killed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::device::Device;
use crate::common::note;
use crate::common::process::Gateway;

/// How many connections there are.
const CONNECTIONS: usize = 64;

/// How long they send before the gateway is killed.
const LENGTH: Duration = Duration::from_secs(4);

/// Sends, kills, and returns the names of the events that were acknowledged.
pub(crate) fn until_death(gateway: Gateway) -> Vec<String> {
    let address = gateway.address;
    let is_dying = AtomicBool::new(false);
    let acknowledged: Vec<String> = thread::scope(|scope| {
        let sending = (0..CONNECTIONS).map(|connection| {
            let is_dying = &is_dying;
            scope.spawn(move || {
                let mut names = Vec::new();
                let ended = send(connection, address, &mut names);
                assert!(
                    is_dying.load(Ordering::SeqCst),
                    "it was not killed: {ended:?}"
                );
                names
            })
        });
        let sending: Vec<_> = sending.collect();
        crate::pause(LENGTH);
        is_dying.store(true, Ordering::SeqCst);
        gateway.kill();
        let names = sending.into_iter().map(thread::ScopedJoinHandle::join);
        names
            .flat_map(|names| names.expect("it is killed"))
            .collect()
    });
    let count = acknowledged.len();
    note(&format!(
        "killed after {count} more events from {CONNECTIONS} connections"
    ));
    assert!(CONNECTIONS < count, "that is no burst: {count}");
    acknowledged
}

/// Sends until that fails.
fn send(
    connection: usize,
    address: std::net::SocketAddr,
    names: &mut Vec<String>,
) -> io::Result<()> {
    let mut device = Device::try_connect(address)?;
    loop {
        let name = format!("b-{connection}-{}", names.len());
        let answer = device.try_send(&crate::body(&format!("cam-{connection}"), &name))?;
        assert_eq!(answer.status, 202, "{name}: {answer:?}");
        names.push(name);
    }
}
