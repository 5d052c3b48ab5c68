//! Death at the points that `gatepost::fault` names. Release builds have none of them.

use crate::common::note;
use crate::common::process::Gateway;
use crate::life::{Life, was_killed};
use crate::many;

/// How many events each device has for a process that dies by itself.
const FEW: usize = 10;

/// A point, and at which passes of it the process dies, one start after the other.
const POINTS: [(&str, &[u64]); 7] = [
    ("birth-created", &[1]),
    ("birth-before-rename", &[1]),
    ("before-commit", &[1, 2, 3, 8]),
    ("after-commit", &[1, 2, 3, 8]),
    ("after-send", &[1, 20]),
    // The first is part of the birth, the others are idle.
    ("before-checkpoint", &[1, 1, 2]),
    ("prune", &[1, 2, 5]),
];

#[test]
fn what_was_acknowledged_survives_death_at_every_named_point() {
    let (seed, times, points) = (crate::seed(), crate::times(), POINTS.len() as u64);
    note(&format!(
        "repeat with: SEED={seed} TIMES={times} cargo test --test crash named_point"
    ));
    many::live(times * points, "named points", |number| {
        let point = usize::try_from(number % points).expect("it is small");
        let (point, passes) = POINTS[point];
        let seed = seed + number / points;
        // Events expire at once only where there is little room.
        let expires = point == "prune";
        let mut life = if expires {
            Life::small(seed)
        } else {
            Life::new(seed)
        };
        let most = if expires { usize::MAX } else { FEW };
        for pass in passes {
            life.dies_at(&format!("{point}:{pass}"), most);
        }
        life.ends_well()
    });
}

impl Life {
    /// A start that dies at a named point, `name:times`, before it listens or under the load of
    /// at most so many events of each device.
    pub(crate) fn dies_at(&mut self, point: &str, most: usize) {
        self.begin_run();
        self.kills += 1;
        let mut command = self.site.gateway(&[]);
        command.env("RUST_LOG", "warn,gatepost::daemon=info");
        let gateway = Gateway::try_start(command.env("GATEPOST_FAULT", point));
        let status = if gateway.is_listening() {
            let mut status = None;
            let address = gateway.address;
            let wait = || status = Some(gateway.wait());
            self.fleet.send_until_death(address, most, wait);
            status.expect("it was waited for")
        } else {
            gateway.wait()
        };
        assert!(was_killed(status), "{point}: {status}");
    }
}
