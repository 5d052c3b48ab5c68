//! Arbitrary text as a configuration file and as a profile: what is wrong is said with a line that
//! the file has, and what is right can be printed. Only an operator writes such a file, so some
//! thousand routes may take the square of their number.

#![no_main]

use std::path::Path;

use gatepost::cli::fuzz as print;
use gatepost::config::{Config, Error, Problem, fuzz};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match Config::parse(&text, Path::new("gatepost.toml")) {
        Ok(config) => {
            config
                .warnings
                .iter()
                .for_each(|warning| is_of(warning, &text));
            if let Ok([text, json]) = print::check(&config) {
                assert!(!text.is_empty());
                let tree: Result<serde_json::Value, _> = serde_json::from_str(&json);
                assert!(tree.is_ok(), "{json}");
            }
        }
        Err(error) => is_right(&error, &text),
    }
    match fuzz::profile("own", &text) {
        Ok(profile) => assert!(!print::profile(&profile).is_empty()),
        Err(error) => is_right(&error, &text),
    }
});

fn is_right(error: &Error, text: &str) {
    if let Error::Wrong { problems, .. } = error {
        assert!(!problems.is_empty());
        problems.iter().for_each(|problem| is_of(problem, text));
        assert_eq!(error.to_string().lines().count(), problems.len(), "{error}");
    }
    assert!(!error.to_string().is_empty());
}

fn is_of(problem: &Problem, text: &str) {
    let Problem { line, text: why } = problem;
    let lines = text.split('\n').count();
    assert!((1..=lines).contains(line), "line {line} of {lines}: {why}");
    assert!(!why.is_empty());
}
