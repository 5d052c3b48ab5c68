//! Which part of the process's file descriptors devices may have.
//!
//! Devices can open as many connections as they like. If they could take the last descriptor,
//! nothing could be delivered and no operator could look, for as long as they stay.

use std::fs;

use log::warn;

use crate::config::Config;

/// What the process needs beside deliveries and devices: the store's files, sockets that listen,
/// pipes, the log, and 2 for each of some connections of operators (`tiny_http` takes 2). 13 are
/// open when nobody is connected.
const OWN: usize = 40;

/// What one attempt needs: a connection, and what looks up its name meanwhile.
const ATTEMPT: usize = 2;

/// However few descriptors there are, so many devices are served.
const LEAST: usize = 8;

/// Below that it is worth a warning: a site may have so many devices.
const FEW: usize = 256;

/// How many of `most` connections devices may have.
pub(super) fn for_devices(config: &Config, most: usize) -> usize {
    let Some(limit) = limit() else {
        return most;
    };
    let attempts = config.destinations.iter().map(|to| to.workers).sum();
    let share = share(limit, attempts).min(most);
    if share < FEW.min(most) {
        warn!(
            "[config] at most {share} devices can be connected at once, since this process may \
             open {limit} files only: raise that (ulimit -n, LimitNOFILE=)"
        );
    }
    share
}

/// What is left for devices of `limit` descriptors, with so many attempts at once.
fn share(limit: usize, attempts: usize) -> usize {
    limit.saturating_sub(OWN + ATTEMPT * attempts).max(LEAST)
}

/// How many descriptors this process may have; none: it is not known, or there is no limit.
///
/// Source: proc(5), `/proc/self/limits`; the first number is the soft limit, which counts.
fn limit() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_get_what_everything_else_leaves() {
        let rows = [
            (1024, 5, 974),
            (8192, 5, 8142),
            (64, 5, 14),
            (64, 50, LEAST),
            (20, 0, LEAST),
        ];
        for (limit, attempts, expected) in rows {
            assert_eq!(share(limit, attempts), expected, "{limit} {attempts}");
        }
    }

    #[test]
    fn the_limit_of_this_process_is_known() {
        assert!(limit().is_none_or(|limit| 2 < limit));
    }
}
