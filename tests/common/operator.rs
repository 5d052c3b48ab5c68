//! An operator at the command line.

use std::process::Output;
use std::time::Instant;

use serde_json::Value;

use super::PATIENCE;
use super::process::Site;

impl Site {
    /// Runs a command of `gatepost` about this site.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Self::command();
        command.args(arguments).arg("--data").arg(self.data());
        command.output().expect("the binary is there")
    }

    /// The same, where it must succeed. What it printed.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        output.stdout
    }

    /// What a command prints with `--json`: an object a line.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = self.succeed(&[arguments, &["--json"]].concat());
        let lines = printed.split(|byte| *byte == b'\n');
        let objects = lines.filter(|line| !line.is_empty());
        objects
            .map(|line| serde_json::from_slice(line).expect("each line is an object"))
            .collect()
    }

    /// The bytes of an event's body.
    pub(crate) fn body(&self, id: &str) -> Vec<u8> {
        self.succeed(&["show", id, "--body"])
    }

    /// The one destination's status.
    pub(crate) fn destination(&self) -> Value {
        self.json(&["status"])[0]["destinations"][0].clone()
    }

    /// Waits until nothing is left to deliver.
    pub(crate) fn wait_until_empty(&self) {
        let started = Instant::now();
        loop {
            let destination = self.destination();
            if destination["pending"] == 0 {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{destination}");
        }
    }
}
