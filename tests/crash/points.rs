//! Death at the points that `gatepost::fault` names. Release builds have none of them.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::atomic::Ordering;

use crate::common::process::Gateway;
use crate::life::Life;

/// How many events each device has for a process that dies by itself.
const FEW: usize = 10;

/// SIGKILL.
const KILL: i32 = 9;

/// A point, and at which passes of it the process dies, one start after the other.
const POINTS: [(&str, &[u64]); 6] = [
    ("birth-created", &[1]),
    ("birth-before-rename", &[1]),
    ("before-commit", &[1, 2, 3, 8]),
    ("after-commit", &[1, 2, 3, 8]),
    ("after-send", &[1, 20]),
    // The first is part of the birth, the others are idle.
    ("before-checkpoint", &[1, 1, 2]),
];

#[test]
fn what_was_acknowledged_survives_death_at_every_named_point() {
    for (point, passes) in POINTS {
        let mut life = Life::new(crate::seed());
        for pass in passes {
            life.dies_at(&format!("{point}:{pass}"));
        }
        life.ends_well();
    }
}

impl Life {
    /// A start that dies at a named point, `name:times`, under load or before.
    pub(crate) fn dies_at(&mut self, point: &str) {
        self.begin_run();
        let mut command = self.site.gateway(&[]);
        let gateway = Gateway::try_start(command.env("GATEPOST_FAULT", point));
        let status = if gateway.is_listening() {
            let mut status = None;
            self.fleet.send(gateway.address, 0, FEW, |is_dying| {
                is_dying.store(true, Ordering::SeqCst);
                status = Some(gateway.wait());
            });
            status.expect("it was waited for")
        } else {
            gateway.wait()
        };
        assert_eq!(status.signal(), Some(KILL), "{point}: {status}");
    }
}
