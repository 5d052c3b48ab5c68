//! The command line as a whole: its grammar, and the exit codes of its errors.

use std::io::{self, Write};

use clap::CommandFactory as _;

use super::*;
use crate::admin::client;
use crate::admin::views::Problem;
use crate::store;

/// Runs a command line; its exit code and what it printed.
fn gatepost(arguments: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["gatepost"].iter().chain(arguments).map(OsString::from);
    let code = run(arguments, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (code, text(out), text(err))
}

#[test]
fn the_grammar_is_sound() {
    Arguments::command().debug_assert();
}

#[test]
fn wrong_arguments_are_said_on_standard_error_and_exit_with_64() {
    let rows: [&[&str]; 12] = [
        &[],
        &["fly"],
        &["status", "--colour"],
        &["show"],
        &["show", "1", "2"],
        &["show", "1", "--body", "--json"],
        &["replay"],
        &["replay", "1", "--all"],
        &["replay", "--all", "--destination", "cloud"],
        &["discard", "--all"],
        &["hold"],
        &["run", "--data"],
    ];
    for arguments in rows {
        let (code, out, err) = gatepost(arguments);
        assert_eq!((code, out.as_str()), (exit::USAGE, ""), "{arguments:?}");
        assert!(err.starts_with("gatepost: "), "{arguments:?}: {err}");
        assert!(err.contains("--help"), "{arguments:?}: {err}");
    }
}

#[test]
fn help_is_no_error_and_names_all_commands() {
    let (code, out, err) = gatepost(&["--help"]);
    assert_eq!((code, err.as_str()), (exit::FINE, ""));
    let commands = [
        "run",
        "check",
        "demo",
        "status",
        "queue",
        "show",
        "dead",
        "quarantine",
        "replay",
        "discard",
        "hold",
        "release",
        "flush",
        "check-store",
        "salvage",
        "compact",
    ];
    for command in commands {
        assert!(
            out.contains(&format!("\n  {command} ")),
            "{command} in {out}"
        );
        let (code, help, _) = gatepost(&[command, "--help"]);
        assert_eq!(code, exit::FINE, "{command}");
        let json = help.contains("--json") || command == "run";
        assert!(json, "{help}");
    }
    let (code, out, _) = gatepost(&["--version"]);
    assert_eq!(
        (code, out),
        (0, format!("gatepost {}\n", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn each_error_has_its_exit_code_and_names_its_cause() {
    let refused = |kind: &str| {
        Error::Refused(Problem {
            kind: format!("urn:gatepost:problem:{kind}"),
            detail: "why".to_owned(),
            ..Problem::default()
        })
    };
    let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
    let file = || store::Error::File {
        path: "/x".into(),
        error: denied(),
    };
    let rows = [
        (Error::NotDone("why".to_owned()), 1, "why"),
        (refused("no-such-event"), 1, "why"),
        (refused("no-such-destination"), 1, "why"),
        (refused("conflict"), 1, "why"),
        (refused("unavailable"), 69, "why"),
        (refused("store"), 74, "why"),
        (refused("bad-request"), 70, "why"),
        (refused("of-tomorrow"), 70, "why"),
        (
            Error::Gateway(client::Error::Store(file())),
            74,
            "cannot open /x; give it and its folder to the user that gatepost runs as: permission \
             denied",
        ),
        (
            Error::Gateway(client::Error::Silent("/x".into())),
            69,
            "the store is in use, but no daemon answers at /x: it is starting or stopping, try \
             again",
        ),
        (
            Error::Daemon(crate::daemon::Error::Store(file())),
            74,
            "cannot open /x; give it and its folder to the user that gatepost runs as: permission \
             denied",
        ),
        (
            Error::Output(denied()),
            74,
            "cannot write the output: permission denied",
        ),
    ];
    for (error, code, message) in rows {
        assert_eq!(error.exit_code(), code, "{error:?}");
        assert_eq!(error.message(), Some(format!("gatepost: {message}")));
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut err = Vec::new();
    let arguments = ["gatepost", "--help"].map(OsString::from);
    assert_eq!(run(arguments, &mut Closed, &mut err), exit::FINE);
    assert_eq!(err, b"");
}
