//! The command line.
//!
//! # Guarantees
//!
//! - Exit codes are those of [`exit`], and errors are said on standard error in one form.
//! - A command prints to the writer it is given, progress on standard error, and nothing that a
//!   device sent moves a cursor.
//! - The same commands work with and without a running daemon; see [`crate::admin::client`].
//!
//! Each subcommand is a file; its doc comments are its help.

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;

mod ask;
mod check;
mod check_store;
mod compact;
mod dead;
mod demo;
mod devices;
mod discard;
mod error;
pub mod exit;
mod flush;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod hold;
mod place;
mod profiles;
mod quarantine;
mod queue;
mod release;
mod replay;
mod run;
mod salvage;
mod show;
mod status;
mod text;

pub use error::Error;
pub use place::Place;

/// An on-site event gateway: on disk before the answer, delivered until it succeeds.
///
/// Exit codes: 0 fine, 1 it could not be done, 64 wrong arguments, 69 the daemon cannot be
/// reached, 70 a mistake of the program, 74 the store, 78 the configuration.
#[derive(Debug, Parser)]
#[command(name = "gatepost", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(run::Args),
    Check(check::Args),
    Profiles(profiles::Args),
    Demo(demo::Args),
    Status(status::Args),
    Devices(devices::Args),
    Queue(queue::Args),
    Show(show::Args),
    Dead(dead::Args),
    Quarantine(quarantine::Args),
    Replay(replay::Args),
    Discard(discard::Args),
    Hold(hold::Args),
    Release(release::Args),
    Flush(flush::Args),
    CheckStore(check_store::Args),
    Salvage(salvage::Args),
    Compact(compact::Args),
}

/// Does what `arguments` say, the first of which is the program's name. Prints to `out` and says
/// errors on `err`. Returns the exit code.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(usage) if usage.use_stderr() => {
            // If even that cannot be written, the exit code is all that is left.
            let usage = usage.to_string();
            let usage = usage.strip_prefix("error: ").unwrap_or(&usage);
            _ = write!(err, "gatepost: {usage}");
            return exit::USAGE;
        }
        Err(help) => return finish(write!(out, "{help}").map_err(Error::Output), out, err),
    };
    finish(arguments.command.run(out, err), out, err)
}

impl Command {
    fn run(&self, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), Error> {
        match self {
            Self::Run(args) => run::run(args),
            Self::Check(args) => check::run(args, out),
            Self::Profiles(args) => profiles::run(args, out),
            Self::Demo(args) => demo::run(args, out),
            Self::Status(args) => status::run(args, out),
            Self::Devices(args) => devices::run(args, out),
            Self::Queue(args) => queue::run(args, out),
            Self::Show(args) => show::run(args, out),
            Self::Dead(args) => dead::run(args, out),
            Self::Quarantine(args) => quarantine::run(args, out),
            Self::Replay(args) => replay::run(args, out),
            Self::Discard(args) => discard::run(args, out),
            Self::Hold(args) => hold::run(args, out),
            Self::Release(args) => release::run(args, out),
            Self::Flush(args) => flush::run(args, out),
            Self::CheckStore(args) => check_store::run(args, out),
            Self::Salvage(args) => salvage::run(args, out, err),
            Self::Compact(args) => compact::run(args, out, err),
        }
    }
}

fn finish(result: Result<(), Error>, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let flushed = out.flush().map_err(Error::Output);
    let Err(error) = result.and(flushed) else {
        return exit::FINE;
    };
    if let Some(message) = error.message() {
        _ = writeln!(err, "{message}");
    }
    error.exit_code()
}

#[cfg(test)]
mod tests;
