//! The house rules: who may use whom, one crate one door, sizes, and what a file looks like.
//!
//! A rule that is broken says which line to change, here or in the code.

#[path = "tidy/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source::{code_of, functions, lines_with, roots, without_tests};

/// What each module may use, in reading order. A module can only use modules above it.
///
/// To add an arrow, add it here and be ready to explain it. An arrow that is not here fails, and
/// so does a permission that nobody uses. Unit tests are free.
const MAY_USE: &[(&str, &[&str])] = &[
    // Words: plain data, no I/O.
    ("clock", &[]),
    ("rng", &[]),
    ("event", &["clock"]),
    ("delivery", &["clock", "event"]),
    ("audit", &["clock", "event"]),
    // Rules: pure functions and state machines.
    ("retry", &["clock", "delivery", "rng"]),
    (
        "health",
        &["audit", "clock", "delivery", "event", "retry", "rng"],
    ),
    ("pace", &["clock"]),
    ("lanes", &["clock", "delivery", "event"]),
    ("select", &["event"]),
    ("schema", &[]),
    ("sign", &[]),
    ("profile", &["clock", "event", "select"]),
    ("proof", &["delivery", "profile"]),
    ("devices", &["audit", "clock", "event"]),
    ("auth", &["clock", "event", "select"]),
    ("route", &["auth", "event", "profile", "schema", "select"]),
    (
        "config",
        &[
            "auth", "delivery", "pace", "profile", "proof", "retry", "route", "schema", "select",
            "sign",
        ],
    ),
    // Edges: disk, device sockets, network, init system.
    ("fault", &[]),
    ("store", &["audit", "delivery", "event", "fault"]),
    ("http", &["clock", "event"]),
    (
        "upstream",
        &["clock", "config", "delivery", "event", "sign"],
    ),
    ("logger", &["clock"]),
    ("memory", &[]),
    // Flow: the life of an event.
    (
        "commit",
        &[
            "audit", "clock", "delivery", "devices", "event", "fault", "store",
        ],
    ),
    (
        "ingest",
        &[
            "clock", "commit", "devices", "event", "http", "profile", "route", "store",
        ],
    ),
    (
        "dispatch",
        &[
            "audit", "clock", "commit", "config", "delivery", "event", "health", "lanes", "pace",
            "retry", "rng", "store",
        ],
    ),
    (
        "deliver",
        &["clock", "config", "delivery", "event", "schema", "upstream"],
    ),
    // Process: what a person starts and talks to.
    (
        "admin",
        &[
            "audit", "clock", "commit", "delivery", "devices", "dispatch", "event", "health",
            "store",
        ],
    ),
    (
        "daemon",
        &[
            "admin", "clock", "commit", "config", "deliver", "delivery", "devices", "dispatch",
            "event", "fault", "http", "ingest", "logger", "memory", "rng", "route", "store",
            "upstream",
        ],
    ),
    (
        "demo",
        &["admin", "clock", "daemon", "event", "http", "rng"],
    ),
    (
        "cli",
        &[
            "admin", "audit", "clock", "config", "daemon", "delivery", "demo", "event", "profile",
            "rng", "store", "upstream",
        ],
    ),
    ("main", &["cli"]),
];

/// Crates and calls that stay behind one door, so that there is one place to change them. The
/// doors are modules; a crate may be named before its module is there.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("base64", &["auth", "sign", "upstream"]),
    ("clap", &["cli", "main"]),
    ("crc32fast", &["auth", "store"]),
    ("env_logger", &["logger"]),
    ("fastrand", &["rng"]),
    ("flate2", &["select"]),
    ("getrandom", &["rng"]),
    ("hmac", &["auth", "sign"]),
    ("httparse", &["http"]),
    ("jiff", &["clock"]),
    ("jsonschema", &["schema"]),
    ("libc", &["clock", "memory"]),
    ("memchr", &["select"]),
    ("mio", &["http"]),
    ("percent_encoding", &["deliver", "route", "select"]),
    ("quick_xml", &["select"]),
    ("redb", &["store"]),
    ("rustix", &["store"]),
    ("rustls", &["auth", "upstream"]),
    ("rustls_webpki", &["auth"]),
    ("sha1", &["auth"]),
    ("sha2", &["auth", "event", "sign"]),
    ("signal_hook", &["daemon", "fault"]),
    ("socket2", &["admin", "http", "upstream"]),
    ("subtle", &["auth"]),
    ("tiny_http", &["admin"]),
    ("toml", &["config"]),
    ("ureq", &["upstream"]),
    ("webpki", &["auth"]),
    ("webpki_roots", &["upstream"]),
    // Not crates.
    ("SystemTime::now", &["clock"]),
    ("Instant::now", &["clock"]),
    ("thread::sleep", &[]),
    ("unsafe", &["clock", "memory"]),
    ("print!", &[]),
    ("println!", &[]),
    ("eprint!", &[]),
    ("eprintln!", &["main"]),
    ("todo!", &[]),
    ("unimplemented!", &[]),
    ("process::exit", &["daemon", "main"]),
];

/// Crates that any module may name.
const EVERYWHERE: &[&str] = &["crossbeam_channel", "log", "serde", "serde_json"];

/// What may lie at the top of the repository; what git ignores is named here too.
const TOP: &[&str] = &[
    ".ci",
    ".git",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "cross.toml",
    "fuzz",
    "gatepost-data",
    "profiles",
    "proptest-regressions",
    "src",
    "systemd",
    "target",
    "tests",
];

const LONGEST_LINE: usize = 100;
const LONGEST_FILE: usize = 600;
const LONGEST_FUNCTION: usize = 60;

/// Marks of unfinished work. Spelt so that this file does not contain them.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
];

struct Source {
    /// Relative to the repository, with slashes.
    path: String,
    text: String,
    code: String,
}

impl Source {
    /// The module path of a file in `src/`: `["store", "schema"]`.
    fn place(&self) -> Vec<&str> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        let mut place: Vec<&str> = path.split('/').collect();
        if matches!(place.last(), Some(&("mod" | "lib"))) {
            place.pop();
        }
        place
    }

    fn is_test(&self) -> bool {
        self.place().contains(&"tests")
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `folder`, in order of their paths.
fn sources(folder: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("the repository can be read");
        for entry in entries {
            let path: PathBuf = entry.expect("the repository can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("the repository can be read");
                let relative = path.strip_prefix(root()).expect("it is below the root");
                sources.push(Source {
                    path: relative.to_string_lossy().replace('\\', "/"),
                    code: code_of(&text),
                    text,
                });
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}

/// Fails with all complaints, one a line.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Each module with those it uses, and where it does so first.
fn arrows() -> BTreeMap<String, BTreeMap<String, String>> {
    let sources = sources("src");
    let module = |source: &Source| source.place().first().map(|name| (*name).to_owned());
    let modules: BTreeSet<String> = sources.iter().filter_map(module).collect();
    let mut arrows: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for source in &sources {
        let place = source.place();
        let Some(from) = place.first() else { continue };
        let uses = arrows.entry((*from).to_owned()).or_default();
        if source.is_test() {
            continue;
        }
        let crate_name = if *from == "main" { "gatepost" } else { "crate" };
        for (to, line) in roots(without_tests(&source.code), &place, crate_name) {
            if to != *from && modules.contains(&to) {
                let place = format!("{}:{line}", source.path);
                uses.entry(to).or_insert(place);
            }
        }
    }
    arrows.retain(|from, uses| from != "main" || !uses.is_empty());
    arrows
}

/// The line of the table for `module`, in the order of the table.
fn line_for<'a>(module: &str, uses: impl Iterator<Item = &'a String>) -> String {
    let uses: Vec<String> = uses.map(|name| format!("\"{name}\"")).collect();
    format!("(\"{module}\", &[{}]),", uses.join(", "))
}

#[test]
fn a_module_uses_only_what_the_table_allows() {
    let arrows = arrows();
    let position = |module: &str| MAY_USE.iter().position(|(name, _)| *name == module);
    let mut complaints = Vec::new();
    for (module, uses) in &arrows {
        let right = line_for(module, uses.keys());
        let Some(at) = position(module) else {
            let lowest = uses.keys().max_by_key(|name| position(name));
            let below = lowest.map_or("anywhere".to_owned(), |name| format!("below \"{name}\""));
            complaints.push(format!("{module} is new: add to MAY_USE, {below}: {right}"));
            continue;
        };
        for (used, place) in uses {
            if !MAY_USE[at].1.contains(&used.as_str()) {
                complaints.push(format!(
                    "{place} uses {used}, and {module} may not; \
                     if it must, its line in MAY_USE is: {right}"
                ));
            } else if position(used).is_none_or(|used| at < used) {
                complaints.push(format!(
                    "{place} uses {used}, which does not stand above {module} in MAY_USE"
                ));
            }
        }
        for allowed in MAY_USE[at].1 {
            if !uses.contains_key(*allowed) {
                complaints.push(format!(
                    "{module} does not use {allowed}; its line in MAY_USE is: {right}"
                ));
            }
        }
    }
    for (index, (module, _)) in MAY_USE.iter().enumerate() {
        if !arrows.contains_key(*module) {
            complaints.push(format!(
                "there is no module {module}: remove its line in MAY_USE"
            ));
        }
        if position(module) != Some(index) {
            complaints.push(format!("{module} is in MAY_USE twice"));
        }
    }
    assert_none(&complaints);
}

#[test]
fn a_crate_has_one_door() {
    let mut complaints = Vec::new();
    for source in sources("src") {
        let place = source.place();
        let module = place.first().copied().unwrap_or("lib");
        for (name, doors) in ONLY_IN.iter().filter(|(_, doors)| !doors.contains(&module)) {
            let is_crate = name.chars().all(source::is_ident) && *name != "unsafe";
            let needles = if is_crate {
                vec![
                    format!("{name}::"),
                    format!("use {name};"),
                    format!("use {name} as"),
                ]
            } else {
                vec![(*name).to_owned()]
            };
            for line in needles
                .iter()
                .flat_map(|needle| lines_with(&source.code, needle))
            {
                complaints.push(format!(
                    "{}:{line} names {name}, which belongs in {doors:?}; \
                     if it must, add \"{module}\" to the line of \"{name}\" in ONLY_IN",
                    source.path
                ));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn every_dependency_has_a_reason_and_a_door() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    let mut section = "";
    let mut complaints = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            section = line.split(']').next().unwrap_or_default();
        }
        let Some((name, rest)) = line.split_once('=') else {
            continue;
        };
        if !section.ends_with("dependencies") {
            continue;
        }
        let place = format!("Cargo.toml:{}", index + 1);
        let reason = rest
            .rsplit_once('#')
            .map_or("", |(_, reason)| reason.trim());
        if reason.len() < 10 {
            complaints.push(format!("{place}: say beside {name} why it is needed: # …"));
        }
        let name = name.trim().replace('-', "_");
        let has_door = ONLY_IN.iter().any(|(krate, _)| *krate == name);
        if section == "[dependencies" && !has_door && !EVERYWHERE.contains(&name.as_str()) {
            complaints.push(format!(
                "{place}: add to ONLY_IN: (\"{name}\", &[\"its module\"]),"
            ));
        }
    }
    assert_none(&complaints);
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut complaints = Vec::new();
    for source in sources("src").into_iter().chain(sources("tests")) {
        let Source { path, text, code } = source;
        let lines = text.lines().count();
        if LONGEST_FILE < lines {
            complaints.push(format!(
                "{path} has {lines} lines; {LONGEST_FILE} are enough"
            ));
        }
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if LONGEST_LINE < columns {
                let place = index + 1;
                complaints.push(format!(
                    "{path}:{place} has {columns} columns; {LONGEST_LINE} are enough"
                ));
            }
        }
        for (name, line, lines) in functions(&code) {
            if LONGEST_FUNCTION < lines {
                complaints.push(format!(
                    "{path}:{line} {name} has {lines} lines; {LONGEST_FUNCTION} are enough"
                ));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn a_file_begins_with_what_it_is_for_and_is_finished() {
    let mut complaints = Vec::new();
    for source in sources("src").into_iter().chain(sources("tests")) {
        let path = &source.path;
        if !source.text.starts_with("//! ") {
            complaints.push(format!(
                "{path}:1 does not begin with `//! ` and what it is for"
            ));
        }
        for mark in MARKS {
            for (index, line) in source.text.lines().enumerate() {
                if line.contains(mark) {
                    let line = index + 1;
                    complaints.push(format!(
                        "{path}:{line} says {mark}: do it, or file an issue"
                    ));
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn the_top_of_the_repository_is_tidy() {
    let entries = fs::read_dir(root()).expect("the repository can be read");
    let mut complaints = Vec::new();
    for entry in entries {
        let name = entry.expect("the repository can be read").file_name();
        let name = name.to_string_lossy();
        if !TOP.contains(&&*name) {
            complaints.push(format!("{name}: move it, or add \"{name}\" to TOP"));
        }
    }
    assert_none(&complaints);
}

#[test]
fn comments_strings_and_characters_are_not_code() {
    let rows = [
        ("a // crate::b\nc", "a            \nc"),
        ("/* a /* b */ c */ d", "                  d"),
        ("\"a \\\" b\" c", "         c"),
        ("r#\"a \" b\"# c", "           c"),
        ("br\"a\\\" c", "b      c"),
        ("'\"' + '\\'' + 'a'", "    +      +    "),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("\"a\n// b\" c", "  \n      c"),
    ];
    for (text, code) in rows {
        assert_eq!(code_of(text), code, "{text}");
    }
}

#[test]
fn every_way_to_name_another_module_is_seen() {
    type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        ("use crate::event::Event;", &["route"], &["event"]),
        (
            "use crate::{clock::{Clock, Moment}, rng};",
            &["route"],
            &["clock", "rng"],
        ),
        ("fn f() -> crate::store::Error {}", &["route"], &["store"]),
        ("use super::store::Error;", &["route"], &["store"]),
        ("use super::schema;", &["store", "read"], &[]),
        (
            "use super::super::{event, rng::Rng};",
            &["store", "read"],
            &["event", "rng"],
        ),
        (
            "mod m { use super::*; use super::super::rng; }",
            &["route"],
            &["rng"],
        ),
        ("pub(super) fn f() {} pub(crate) struct S;", &["route"], &[]),
        ("mod tests { } use super::audit;", &["route"], &["audit"]),
    ];
    for (code, place, expected) in rows {
        let found: Vec<String> = roots(code, place, "crate").into_keys().collect();
        assert_eq!(found, *expected, "{code}");
    }
    let main = roots("fn main() { gatepost::cli::run() }", &["main"], "gatepost");
    assert_eq!(main.into_keys().collect::<Vec<_>>(), ["cli"]);
}

#[test]
fn functions_and_names_are_measured() {
    let code = "trait T { fn a(x: [u8; 2]); }\nfn b()\n{\n if x { }\n}\nlet f: fn(u8);";
    assert_eq!(functions(code), [("b".to_owned(), 2, 4)]);
    assert_eq!(lines_with("println!()\nprint!()", "print!"), [2]);
    assert_eq!(lines_with("use toml_edit;\ntoml::x", "toml::"), [2]);
    assert_eq!(lines_with("unsafe_code\nunsafe {}", "unsafe"), [2]);
    let code = "#[cfg(test)]\nfn helper() {}\n#[cfg(test)]\nmod tests {}";
    assert!(without_tests(code).ends_with("helper() {}\n"));
}
