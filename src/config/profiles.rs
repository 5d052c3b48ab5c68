//! Profiles as data: the known kinds of senders, and what an operator says of others.
//!
//! # Guarantees
//!
//! - Every profile that is part of the program is right: a test reads them all.
//! - A file of an operator takes the place of the profile of its name. What is wrong with it is
//!   said with its own path and line.
//! - A profile says nothing that a route could not say; the route's own word counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Error;
use super::check::{self, Disk};
use super::file::ProfileFile;
use crate::route::{Pattern, Route};

/// The folder beside a configuration in which an operator's profiles lie, `NAME.toml` each.
pub const FOLDER: &str = "profiles";

/// A kind of sender.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name in a route.
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// What an installer must set on the device, and what to beware of, in a few sentences.
    pub about: String,
    /// What it usually posts to: the paths of a route that names none.
    pub paths: Vec<Pattern>,
    /// What more is known of how it tries again; may be empty.
    pub retries_note: String,
    /// The operator's file; none: it is part of the program.
    pub file: Option<PathBuf>,
    /// What a route with this profile says where it is silent. Its name and path mean nothing.
    pub route: Route,
}

/// All profiles by their names; or those that somebody needs.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    known: BTreeMap<String, Option<Profile>>,
}

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../profiles/", $name, ".toml")))),*]
    };
}

/// What is part of the program.
const EMBEDDED: &[(&str, &str)] = embedded![
    "2c2p",
    "adyen",
    "axis",
    "chirpstack",
    "controlid",
    "dahua",
    "dahua-itsapi",
    "esphome",
    "gbprimepay",
    "github",
    "hikvision",
    "hikvision-acs",
    "httpv2-face",
    "json",
    "line",
    "milesight",
    "omise",
    "paypal",
    "raw",
    "reolink-onvif",
    "shelly",
    "shopify",
    "standard-webhooks",
    "stripe",
    "tasmota",
    "thethingsstack",
    "uface",
    "unifi-protect",
    "uniview",
    "viewtron",
    "zkteco",
];

impl Profiles {
    /// All profiles: those of the program, and those beside the configuration file at `config`.
    pub fn beside(config: &Path) -> Result<Self, Error> {
        let folder = config.parent().unwrap_or(Path::new(""));
        let mut all = Self::list(folder, &Disk::REAL)?;
        let names: Vec<String> = all.known.keys().cloned().collect();
        all.read(names.iter().map(String::as_str), folder, &Disk::REAL)?;
        Ok(all)
    }

    /// Those of the program.
    pub fn embedded() -> Result<Self, Error> {
        let mut all = Self::list(Path::new(""), &Disk::NONE)?;
        let names = EMBEDDED.iter().map(|(name, _)| *name);
        all.read(names, Path::new(""), &Disk::NONE)?;
        Ok(all)
    }

    /// Those that are needed, and the names of all.
    pub(super) fn needed<'a>(
        names: impl Iterator<Item = &'a str>,
        folder: &Path,
        disk: &Disk,
    ) -> Result<Self, Error> {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return Ok(Self::default());
        }
        let mut profiles = Self::list(folder, disk)?;
        profiles.read(names, folder, disk)?;
        Ok(profiles)
    }

    /// The names, without reading any.
    fn list(folder: &Path, disk: &Disk) -> Result<Self, Error> {
        let path = folder.join(FOLDER);
        let files = (disk.folder)(&path).map_err(|source| Error::Unreadable { path, source })?;
        let own = files
            .iter()
            .filter_map(|file| file.strip_suffix(".toml"))
            .filter(|name| !name.starts_with('.'));
        let embedded = EMBEDDED.iter().map(|(name, _)| *name);
        let names = embedded.chain(own).map(|name| (name.to_owned(), None));
        Ok(Self {
            known: names.collect(),
        })
    }

    /// Reads those that there are of `names`.
    fn read<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        folder: &Path,
        disk: &Disk,
    ) -> Result<(), Error> {
        let path = folder.join(FOLDER);
        let files = (disk.folder)(&path).map_err(|source| Error::Unreadable {
            path: path.clone(),
            source,
        })?;
        for name in names {
            let Some(slot @ None) = self.known.get_mut(name) else {
                continue;
            };
            let file = format!("{name}.toml");
            let own = files.contains(&file).then(|| path.join(file));
            *slot = Some(read(name, own)?);
        }
        Ok(())
    }

    /// The profile of that name, if there is one and it was read.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.known.get(name)?.as_ref()
    }

    /// The names of all.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.known.keys().map(String::as_str).collect()
    }

    /// Those that were read, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.known.values().flatten()
    }
}

/// Reads an operator's file, or else what is part of the program.
fn read(name: &str, own: Option<PathBuf>) -> Result<Profile, Error> {
    let embedded = EMBEDDED.iter().find(|(known, _)| *known == name);
    let embedded = embedded.map_or("", |(_, text)| *text);
    let (text, path) = match &own {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
                path: path.clone(),
                source,
            })?;
            (Cow::Owned(text), path.clone())
        }
        None => (
            Cow::Borrowed(embedded),
            PathBuf::from(format!("{name}.toml")),
        ),
    };
    let profile = parse(name, &text, path)?;
    Ok(Profile {
        file: own,
        ..profile
    })
}

/// Reads the text of the file at `path`.
pub(super) fn parse(name: &str, text: &str, path: PathBuf) -> Result<Profile, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file: ProfileFile = toml::from_str(text).map_err(|source| Error::Syntax {
        path: path.clone(),
        source: Box::new(source),
    })?;
    let checked = check::profile(name, &file, text);
    checked.map_err(|problems| Error::Wrong { path, problems })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::Config;
    use crate::profile::{Retries, Wording};
    use crate::select::Selector;

    #[test]
    fn every_profile_of_the_program_is_right_and_says_what_a_person_needs() {
        let profiles = Profiles::embedded().unwrap_or_else(|why| unreachable!("{why}"));
        assert_eq!(profiles.iter().count(), EMBEDDED.len());
        for profile in profiles.iter() {
            let name = &profile.name;
            let sentences = profile.about.matches(['.', ':', ';']).count();
            assert!(1 < sentences && profile.about.len() < 700, "{name}");
            assert!(!profile.about.contains('\n'), "{name}: {}", profile.about);
            assert!(!profile.title.ends_with('.'), "{name}");
            assert!(profile.route.answers.accepted.is_some(), "{name}");
            // With any usual path of its own, and beside all others, it makes a route.
            let text = format!("[[route]]\nprofile = \"{name}\"\n");
            let config = Config::parse(&text, Path::new("gatepost.toml"));
            let config = config.unwrap_or_else(|why| unreachable!("{why}"));
            assert_eq!(config.routes.len(), profile.paths.len(), "{name}");
        }
        let routes = profiles.iter();
        let routes = routes.map(|profile| format!("[[route]]\nprofile = \"{}\"", profile.name));
        let text = routes.collect::<Vec<_>>().join("\n");
        let together = Config::parse(&text, Path::new("gatepost.toml"));
        together.unwrap_or_else(|why| unreachable!("usual paths differ: {why}"));
    }

    #[test]
    fn every_file_beside_them_is_part_of_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/profiles");
        let mut files: Vec<String> = fs::read_dir(folder)
            .expect("it is there")
            .map(|entry| entry.expect("it can be read").file_name())
            .filter_map(|name| Some(name.to_str()?.strip_suffix(".toml")?.to_owned()))
            .collect();
        files.sort();
        let names: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, names);
    }

    /// A folder with a configuration and a profile of the operator.
    fn site(name: &str, profile: &str, route: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join(FOLDER);
        fs::create_dir(&own).expect("made");
        fs::write(own.join(format!("{name}.toml")), profile).expect("written");
        let config = folder.path().join("gatepost.toml");
        fs::write(&config, route).expect("written");
        (folder, config)
    }

    const OWN: &str = "title = \"Own\"\nabout = \"Mine.\"\npaths = [\"/own\"]\n[route]\n\
                       device = [\"header:X-Own\"]\nretries = \"never\"\n\
                       answer = { body = \"YES\" }\n";

    #[test]
    fn an_operators_profile_is_new_or_takes_the_place_of_ours() {
        for name in ["own", "zkteco"] {
            let route = format!("[[route]]\nprofile = \"{name}\"\n");
            let (_folder, config) = site(name, OWN, &route);
            let all = Profiles::beside(&config).unwrap_or_else(|why| unreachable!("{why}"));
            let own = all.get(name).expect("it was read");
            assert_eq!((own.title.as_str(), own.file.is_some()), ("Own", true));
            assert!(all.get("stripe").is_some_and(|ours| ours.file.is_none()));
            let config = Config::load(&config).unwrap_or_else(|why| unreachable!("{why}"));
            let [route] = config.routes.as_slice() else {
                unreachable!("{:?}", config.routes)
            };
            assert_eq!(
                route.to_string(),
                format!("{name}: /own ({name}) -> held (no destination)")
            );
            assert_eq!(route.answers.accepted, Some(Wording::plain("YES")));
            assert_eq!(route.retries, Retries::Never);
            assert!(route.answers.cases.is_empty());
        }
    }

    #[test]
    fn what_is_wrong_with_an_operators_profile_is_said_with_its_file_and_line() {
        let rows = [
            (
                OWN.replace("header:", "head:"),
                "line 5: profile \"own\" device: selector \"head:X",
            ),
            (
                OWN.replace("[route]", "[rout]"),
                "TOML parse error at line 4",
            ),
            (
                OWN.replace("[\"/own\"]", "[\"own\"]"),
                "line 3: profile \"own\" paths: \"own\": a path begins with \"/\"",
            ),
            (
                OWN.replace("[\"/own\"]", "[]"),
                "line 3: profile \"own\" paths: the list is empty",
            ),
            (
                OWN.replace("\"never\"", "\"nie\""),
                "line 6: profile \"own\" retries: \"nie\" is none of: until-answered, limited",
            ),
            (
                format!("{OWN}name = \"x\"\n"),
                "line 8: profile \"own\": name belongs to a [[route]], not to a profile",
            ),
        ];
        for (profile, expected) in rows {
            let (_folder, config) = site("own", &profile, "[[route]]\nprofile = \"own\"\n");
            let why = Config::load(&config).expect_err(expected).to_string();
            assert!(why.contains("profiles/own.toml: "), "{why}");
            assert!(why.contains(expected), "{why}");
            assert!(Profiles::beside(&config).is_err(), "{expected}");
        }
        let (_folder, config) = site("own", "what is this", "");
        Config::load(&config).expect("nobody names it");
    }

    fn route(text: &str) -> Route {
        let config = Config::parse(&format!("[[route]]\n{text}"), Path::new("gatepost.toml"));
        let mut config = config.unwrap_or_else(|why| unreachable!("{why}"));
        config.routes.remove(0)
    }

    #[test]
    fn what_a_route_says_counts_and_what_it_leaves_out_its_profile_says() {
        let plain = route("profile = \"hikvision-acs\"");
        assert_eq!(
            (plain.name.as_str(), plain.path.to_string().as_str()),
            ("hikvision-acs", "/hikvision-acs")
        );
        let own = route(
            "profile = \"hikvision-acs\"\nname = \"cam\"\npath = \"/cam/{device}\"\n\
             event_id = [\"header:X-Id\"]\nanswer = { status = 201, body = \"YES\" }\n\
             order = \"route\"\nstatus = \"verdict\"\nretries = \"never\"\ncase = []",
        );
        let selector = |text| Selector::parse(text).expect("a right one");
        assert_eq!(
            (own.name.as_str(), own.profile.as_deref()),
            ("cam", Some("hikvision-acs"))
        );
        assert_eq!(own.event_id, [selector("header:X-Id")]);
        assert_eq!(own.event_time, plain.event_time);
        assert_eq!(own.device[0], selector("path:device"));
        assert_eq!(own.device[1..], plain.device[..]);
        let wording = own.answers.accepted.expect("it has one");
        assert_eq!(wording.to_string(), "201 text/plain: YES");
        assert_eq!(own.retries, Retries::Never);
        let own = route("profile = \"zkteco\"\noptions = { TimeZone = 7, Delay = 60 }");
        let option = |name: &str| own.answers.options.get(name).map(String::as_str);
        assert_eq!(
            (option("TimeZone"), option("Delay"), option("ErrorDelay")),
            (Some("7"), Some("60"), Some("30"))
        );
        let own = route("profile = \"zkteco\"\ncase = []");
        assert!(own.answers.cases.is_empty());
    }
}
