//! The table of profiles in `src/profiles/README.md` says what the files beside it say.
//!
//! After a change: `UPDATE_PROFILES=1 cargo test --test profiles` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use gatepost::config::Profiles;
use gatepost::config::profiles::Profile;

const HEAD: &str = "# Profiles

What is known of each kind of sender: how to read it, what it must hear, whether it sends again.
`gatepost profiles NAME` explains one. A file `NAME.toml` in the folder `profiles` beside the
configuration is a profile too, and takes the place of one of these that has its name.

A profile has a `title`, an `about` for whoever installs the device, the `paths` that it usually
posts to, and under `[route]` what a `[[route]]` that names it says where it is silent. Sources and
what could not be verified are in comments.

Made from the files by tests/profiles.rs; do not edit.

| profile | sender | usual path | event id | hears | sends again |
|---|---|---|---|---|---|
";

fn list(values: &[impl ToString]) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("`{}`", value.to_string()))
        .collect();
    values.join(" ")
}

fn row(profile: &Profile) -> String {
    let route = &profile.route;
    // The others are for other forms of the same thing.
    let id = list(&route.event_id[..route.event_id.len().min(1)]);
    let answer = route.answers.accepted.as_ref().map(ToString::to_string);
    let mut hears = answer.unwrap_or_default();
    let cases = route.answers.cases.iter().filter(|case| !case.bare);
    let cases: BTreeSet<String> = cases.map(|case| case.is.to_string()).collect();
    for case in cases {
        // Writing to memory cannot fail.
        _ = write!(hears, "; {case} apart");
    }
    let (name, title) = (&profile.name, &profile.title);
    let (paths, retries) = (list(&profile.paths), &route.retries);
    format!("| `{name}` | {title} | {paths} | {id} | {hears} | {retries} |\n")
}

#[test]
fn the_table_of_profiles_says_what_the_files_say() {
    let profiles = Profiles::embedded().expect("they are right");
    let table: String = profiles.iter().map(row).collect();
    let expected = format!("{HEAD}{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/profiles/README.md");
    if env::var_os("UPDATE_PROFILES").is_some() {
        fs::write(&path, &expected).expect("it can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        found, expected,
        "UPDATE_PROFILES=1 cargo test --test profiles writes it anew"
    );
}

#[test]
fn the_readme_names_every_profile() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(path).expect("it is there");
    for name in Profiles::embedded().expect("they are right").names() {
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}
