//! `gatepost compact`: give free room inside the store back to the disk.

use std::io::Write;

use serde::Serialize;

use super::text::{bytes, json};
use super::{Error, Place};
use crate::store::{Disk, Room, Store};

/// The most rounds. Each gains less than the one before.
const MOST_ROUNDS: u32 = 16;

/// Move what is stored together, and give the rest of the file back to the disk.
///
/// Only while no daemon runs, and hardly ever needed: free room inside the file is used again.
/// Needs some room on the disk meanwhile. With --json: one object.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

/// What it came to, in bytes on the disk.
#[derive(Serialize)]
struct Compacted {
    before: u64,
    after: u64,
}

/// Prints the sizes before and after; progress goes to `err`.
pub(super) fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Error> {
    let path = args.place.store_file()?;
    let disk = Disk::of(&path);
    let size = || disk.file_bytes().unwrap_or(0);
    let mut store = Store::open_existing(&path)?;
    let before = size();
    for round in 1..=MOST_ROUNDS {
        let again = store.compact()?;
        // Whoever does not read the progress still wants the room.
        _ = writeln!(err, "round {round}: {}", bytes(size()));
        if !again {
            break;
        }
    }
    store.close()?;
    let after = size();
    if args.place.json {
        return Ok(json(&Compacted { before, after }, out)?);
    }
    let path = path.display();
    writeln!(
        out,
        "{path} took {} and takes {} now",
        bytes(before),
        bytes(after)
    )?;
    Ok(())
}
