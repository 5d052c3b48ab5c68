//! Checks of a profile.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;

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
        warnings: Vec::new(),
        is_profile: true,
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
        let signature = table.signature.as_ref().map(Spanned::get_ref);
        let keys = [
            ("name", table.name.as_ref()),
            ("profile", table.profile.as_ref()),
            ("path", table.path.as_ref()),
            ("schema", table.schema.as_ref()),
            ("to", table.to.first()),
            (
                "signature.file",
                signature.and_then(|one| one.file.as_ref().or(one.files.first())),
            ),
            (
                "signature.webhook_id",
                signature.and_then(|one| one.webhook_id.as_ref()),
            ),
        ];
        for (key, written) in keys {
            if let Some(written) = written {
                self.belongs_to_a_route(whose, key, written.span());
            }
        }
        if let Some(written) = &table.allow {
            self.belongs_to_a_route(whose, "allow", written.span());
        }
        if let Some(written) = &table.token {
            self.belongs_to_a_route(whose, "token", written.span());
        }
        if let Some(written) = &table.basic {
            self.belongs_to_a_route(whose, "basic", written.span());
        }
    }

    fn belongs_to_a_route(&mut self, whose: &str, key: &str, at: Range<usize>) {
        let text = format!("{whose}: {key} belongs to a [[route]], not to a profile");
        self.wrong(at, text);
    }
}
