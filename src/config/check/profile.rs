//! Checks of a profile.

use std::path::Path;

use super::route::nowhere;
use super::{Check, Disk};
use crate::config::Problem;
use crate::config::file::ProfileFile;
use crate::config::profiles::{Profile, Profiles};
use crate::route::Pattern;

/// Everything that is wrong with the profile `name` in `text`, or what it says.
pub(in crate::config) fn profile(
    name: &str,
    file: &ProfileFile,
    text: &str,
) -> Result<Profile, Vec<Problem>> {
    let mut check = Check {
        text,
        folder: Path::new(""),
        disk: &Disk::NONE,
        profiles: &Profiles::default(),
        problems: Vec::new(),
    };
    let whose = format!("profile \"{name}\"");
    check.only_of_a_route(&whose, file);
    if file.paths.get_ref().is_empty() {
        let text = format!("{whose} paths: the list is empty; write what it usually posts to");
        check.wrong(file.paths.span(), text);
    }
    let mut paths = Vec::new();
    for written in file.paths.get_ref() {
        match Pattern::parse(written.get_ref()) {
            Ok(path) => paths.push(path),
            Err(why) => {
                let text = format!("{whose} paths: \"{}\": {why}", written.get_ref());
                check.wrong(written.span(), text);
            }
        }
    }
    let route = check.route(&whose, nowhere(name.to_owned()), &file.route, false);
    if !check.problems.is_empty() {
        check.problems.sort_by_key(|problem| problem.line);
        return Err(check.problems);
    }
    Ok(Profile {
        name: name.to_owned(),
        title: file.title.trim().to_owned(),
        about: file.about.trim().to_owned(),
        paths,
        retries_note: file.retries_note.trim().to_owned(),
        file: None,
        route,
    })
}

impl Check<'_> {
    /// A profile is for many routes: what differs between them is not its own to say.
    fn only_of_a_route(&mut self, whose: &str, file: &ProfileFile) {
        let table = &file.route;
        let keys = [
            ("name", table.name.as_ref()),
            ("profile", table.profile.as_ref()),
            ("path", table.path.as_ref()),
            ("schema", table.schema.as_ref()),
            ("to", table.to.first()),
        ];
        for (key, written) in keys {
            if let Some(written) = written {
                let text = format!("{whose}: {key} belongs to a [[route]], not to a profile");
                self.wrong(written.span(), text);
            }
        }
    }
}
