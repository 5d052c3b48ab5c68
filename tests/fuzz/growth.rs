//! How the time that reading takes grows with what is read: twice the bytes, twice the time.
//!
//! libFuzzer's inputs are short, and what is quadratic shows in long ones only. So a piece of an
//! input is repeated until it is long.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// One of so many inputs is looked at: it takes as long as many others.
const ONE_OF: u64 = 8;

/// How long a short and a long one are, in bytes.
const SHORT: usize = 16 << 10;
const LONG: usize = 8 * SHORT;

/// What takes less is not measured.
const NOTHING: Duration = Duration::from_millis(20);

/// How many times longer the long one may take: eight times, and three times that by chance.
const MOST: u32 = 24;

/// Holds `run` to time that grows as its input does. `chance` chooses what is repeated.
pub fn is_linear(data: &[u8], chance: u64, run: impl Fn(&[u8])) {
    if chance % ONE_OF != 0 || data.is_empty() {
        return;
    }
    let (start, end) = piece(data, chance);
    let piece = &data[start..end];
    let repeated = |length: usize| {
        let many = piece.repeat(length / piece.len() + 1);
        [&data[..start], &many, &data[end..]].concat()
    };
    let (short, long) = (repeated(SHORT), repeated(LONG));
    if time(|| run(&long)) < NOTHING {
        return;
    }
    let best = |bytes: &[u8]| {
        (0..3)
            .map(|_| time(|| run(bytes)))
            .min()
            .unwrap_or_default()
    };
    let (of_short, of_long) = (best(&short), best(&long));
    assert!(
        of_long < of_short * MOST + NOTHING,
        "{} bytes take {of_short:?}, {} bytes {of_long:?}: {:?} repeated",
        short.len(),
        long.len(),
        String::from_utf8_lossy(&piece[..piece.len().min(200)]),
    );
}

/// Where a piece of an input begins and ends. Mostly it is short, and often it begins a line.
fn piece(data: &[u8], chance: u64) -> (usize, usize) {
    let below = |shift: u32, limit: usize| ((chance >> shift) % limit as u64) as usize;
    let mut start = below(20, data.len());
    if below(8, 2) == 0 {
        let feed = data[start..].iter().position(|byte| *byte == b'\n');
        start = feed.map_or(start, |feed| (start + feed + 1).min(data.len() - 1));
    }
    let length = 1 + below(40, 1 << below(12, 9));
    (start, data.len().min(start + length))
}

/// A number that an input stands for, so that it decides by itself what is done with it.
pub fn chance(data: &[u8]) -> u64 {
    // FNV-1a, and a last stir for its low bits.
    let hash = data.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// The time of the processor, since the machine has other things to do.
fn time(run: impl FnOnce()) -> Duration {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let start = now();
    run();
    now() - start
}
