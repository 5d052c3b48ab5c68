//! `gatepost salvage`: get events back out of a damaged store.

use std::fs;
use std::io::{self, Write};
use std::panic;
use std::path::{Path, PathBuf};

use super::Error;
use super::check_store::print;
use super::text::json;
use crate::config::StoreConfig;
use crate::rng::entropy;
use crate::store::{self, Salvaged, TableCount, is_unfinished, salvage};

/// Recover from a damaged store what proves whole, into a new data directory.
///
/// The damaged file is not changed, and no copy of it is made. A salvage that was cut short can be
/// repeated: it begins anew. Events keep their numbers and
/// idempotency keys. To deliver what was recovered: gatepost run --data DIR, with the same
/// configuration and another --listen, until gatepost queue --data DIR is empty. Exits with 1 if
/// something was lost, and says what. With --json: one object.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The damaged file.
    damaged: PathBuf,
    /// The new data directory: one that is not there yet, or an empty one.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Print JSON for programs instead of text for people.
    #[arg(long)]
    json: bool,
}

/// Prints what was recovered and what was not; progress goes to `err`.
pub(super) fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Error> {
    let store = args.into.join(StoreConfig::FILE_NAME);
    if is_begun(&args.into, &store)? {
        // Whoever does not read the progress still wants the events.
        _ = writeln!(err, "an earlier salvage was cut short: begin anew");
    }
    let entropy = entropy().map_err(|error| {
        Error::NotDone(format!(
            "there is no randomness to name a store by: {error}"
        ))
    })?;
    // A panic for each damaged place would bury the report.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let mut progress = |done: u64, of: Option<u64>| {
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        // Whoever does not read the progress still wants the events.
        _ = writeln!(err, "{done}{of} events");
    };
    let salvaged = salvage(&args.damaged, &store, entropy, &mut progress);
    panic::set_hook(hook);
    report(&salvaged?, args, out)
}

fn report(salvaged: &Salvaged, args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    if args.json {
        json(salvaged, out)?;
    } else {
        print_text(salvaged, &args.into, out)?;
    }
    if salvaged.is_whole() {
        return Ok(());
    }
    let (damaged, into) = (args.damaged.display(), args.into.display());
    Err(Error::NotDone(format!(
        "not everything was recovered into {into}; keep {damaged}"
    )))
}

fn print_text(salvaged: &Salvaged, into: &Path, out: &mut dyn Write) -> Result<(), Error> {
    for TableCount {
        table,
        rows,
        recovered,
    } in &salvaged.tables
    {
        let of = rows.map_or("an unknown number".to_owned(), |rows| rows.to_string());
        writeln!(out, "{table}: {recovered} of {of} recovered")?;
    }
    print(&salvaged.lost, out)?;
    if salvaged.forced {
        writeln!(
            out,
            "the file opened only by force: events of its last moments may be missing"
        )?;
    }
    if salvaged.sifted {
        writeln!(
            out,
            "parts were found page by page: some events that were done may be delivered once more, \
             under the same idempotency key; see gatepost status which destinations are held"
        )?;
    }
    if !salvaged.same_gateway {
        writeln!(
            out,
            "the gateway's id is lost: what was delivered before gets a new idempotency key"
        )?;
    }
    let into = into.display();
    writeln!(out, "next: gatepost run --data {into}")?;
    Ok(())
}

/// Whether an earlier salvage was cut short there. Refuses a directory with anything else in it.
fn is_begun(into: &Path, store: &Path) -> Result<bool, Error> {
    let failed = |error| {
        Error::Store(store::Error::File {
            path: into.to_owned(),
            error,
        })
    };
    let entries = match fs::read_dir(into) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(failed)?,
    };
    let mut is_begun = false;
    for entry in entries {
        if !is_unfinished(&entry.map_err(failed)?.path(), store) {
            return Err(Error::NotDone(format!(
                "{} is not empty; name a directory that is, or one that is not there yet",
                into.display()
            )));
        }
        is_begun = true;
    }
    Ok(is_begun)
}
