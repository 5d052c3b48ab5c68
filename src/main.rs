//! The `gatepost` command: arguments in, exit code out.

fn main() {}
