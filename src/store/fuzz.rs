//! The door of the fuzz targets in `tests/fuzz/`: what they ask of private functions. Compiled by
//! cargo-fuzz only.
//!
//! A broken promise is a panic.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::schema::{SealedBy, seal, unseal};
use super::{Counters, footprint, read};
use crate::audit::{Entry, Line};
use crate::delivery::{DeadLetter, Progress};
use crate::event::{DestinationNo, Event, Seq};

/// Reads `data` as every kind of record, sealed and not.
pub fn records(data: &[u8]) {
    let (head, content) = data.split_at_checked(8).unwrap_or((&[], data));
    let number = u64::from_le_bytes(head.try_into().unwrap_or_default());
    let [a, b, ..] = number.to_le_bytes();
    let short = u16::from_le_bytes([a, b]);

    seals("bodies", &(number, u32::from(short)), content, number);
    seals("pending", &(short, number, number), content, number);
    seals("dead", &(short, number), content, number);
    seals("recent", &number, content, number);
    seals("meta", &"boot", content, number);

    decodes("events", &number, content, |event: &Event| {
        let name = event.name(Seq(number));
        is_one_line(&name);
        assert!(footprint(event, &[]) <= footprint(event, content));
    });
    decodes("audit", &(number, number), content, |entry: &Entry| {
        let line = Line {
            name: "e-1",
            seq: Seq(number),
            action: &entry.action,
        };
        is_one_line(&line.to_string());
    });
    decodes("dead", &(short, number), content, |_: &DeadLetter| ());
    decodes("meta", &"counters", content, |_: &Counters| ());
    decodes("meta", &"destination/x", content, |_: &DestinationNo| ());
    decodes("meta", &"boot", content, |_: &(Option<String>, u64)| ());
    pending(short, number, content);
}

/// What goes into the log stays on its line.
fn is_one_line(text: &str) {
    assert!(text.chars().all(|c| !c.is_control()), "{text:?}");
}

/// A record opens under its own key and as it was sealed, and in no other way.
fn seals(table: &'static str, key: &impl SealedBy, content: &[u8], number: u64) {
    let mut record = seal(key, content);
    let opened = unseal(table, key, &record);
    assert_eq!(opened.ok(), Some(content), "{table}");
    // Arbitrary bytes are a record only if they are what sealing them again makes of them.
    if let Ok(inside) = unseal(table, key, content) {
        assert_eq!(seal(key, inside), content, "{table}");
    }
    let bits = record.len() as u64 * 8;
    let bit = usize::try_from(number % bits).unwrap_or(0);
    record[bit / 8] ^= 1 << (bit % 8);
    assert!(unseal(table, key, &record).is_err(), "{table}, bit {bit}");
    record[bit / 8] ^= 1 << (bit % 8);
    record.truncate(bit / 8);
    assert!(unseal(table, key, &record).is_err(), "{table}, cut");
}

/// What can be read is written and read again as the same.
fn decodes<T: DeserializeOwned + Serialize + PartialEq + Debug>(
    table: &'static str,
    key: &impl SealedBy,
    content: &[u8],
    check: impl FnOnce(&T),
) {
    let Ok(value) = read::json::<T>(table, key, &seal(key, content)) else {
        return;
    };
    let written = serde_json::to_vec(&value).expect("what was read can be written");
    let again = read::json::<T>(table, key, &seal(key, &written));
    assert_eq!(again.expect("what was written can be read"), value);
    check(&value);
}

fn pending(short: u16, number: u64, content: &[u8]) {
    let key = (short, number, number);
    if let Ok(progress) = read::progress(&key, &seal(&key, content)) {
        assert_eq!(read::encode_progress(progress), content);
    }
    let progress = Progress {
        attempts: u32::from(short),
        replayed: number % 2 == 1,
    };
    let record = seal(&key, &read::encode_progress(progress));
    assert_eq!(read::progress(&key, &record).ok(), Some(progress));
}
