//! The `gatepost` command: arguments in, exit code out.

use std::env;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Not locked: the daemon's threads log to standard error meanwhile.
    let (mut out, mut err) = (io::stdout(), io::stderr());
    ExitCode::from(gatepost::cli::run(env::args_os(), &mut out, &mut err))
}
