//! The real `gatepost` process and the world around it: devices that send, an upstream that
//! records, an operator who asks.

pub(crate) mod device;
mod log;
mod operator;
pub(crate) mod process;
pub(crate) mod trace;
pub(crate) mod upstream;

use std::process::Command;
use std::time::Duration;

/// No wait in a test lasts longer, so that no test hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Says what was measured.
#[expect(
    clippy::print_stdout,
    reason = "it is shown with --nocapture, and when a test fails"
)]
pub(crate) fn note(text: &str) {
    println!("{text}");
}

/// Runs the rest of the test of that name in a process of its own, which may have so many
/// descriptors, and so may what it starts. Many systems begin with 1,024.
pub(crate) fn with_descriptors(count: u32, name: &str, test: impl FnOnce()) {
    const INSIDE: &str = "GATEPOST_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return test();
    }
    let binary = std::env::current_exe().expect("a test knows its binary");
    let script = format!("ulimit -n {count} && exec \"$0\" --exact --nocapture \"$1\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .args([binary.as_os_str(), name.as_ref()])
        .env(INSIDE, "1")
        .output()
        .expect("there is a shell");
    let printed = String::from_utf8_lossy(&output.stdout);
    note(&printed);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(printed.contains("1 passed"), "{name} is not its name");
}
