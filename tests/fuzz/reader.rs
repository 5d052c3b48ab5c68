//! Arbitrary bytes on a connection: whatever comes, and however it is cut, the same requests are
//! read, none is shorter than its sender said, and nothing is held beyond the limits.

#![no_main]

mod growth;
mod memory;

use libfuzzer_sys::fuzz_target;

/// What a gateway may hold of one short connection: a head of up to 32 KiB, taken apart and not,
/// and the first room of a body.
const MOST_HELD: usize = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let chance = growth::chance(data);
    let size = |shift: u32| 1 + (chance >> shift) as usize % (2 << (shift % 13));
    let sizes = [size(0), size(11), size(23), size(35)];
    gatepost::http::fuzz::cut(data, &sizes, &memory::held);
    // On the way to a larger vector the smaller one is still there.
    let most = memory::most(|| gatepost::http::fuzz::read_on(data, sizes[0]));
    assert!(most <= MOST_HELD, "{most} bytes are held");
    growth::is_linear(data, chance, |bytes| {
        let size = if chance >> 61 == 0 { 7 } else { 16 << 10 };
        gatepost::http::fuzz::read_on(bytes, size);
    });
});
