//! Arbitrary bytes as records of the store: what is read is what was written, or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| gatepost::store::fuzz::records(data));
