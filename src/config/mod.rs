//! The configuration: what the file means.
//!
//! # Guarantees
//!
//! - A [`Config`] cannot be wrong: names are unique and what refers to one finds it, URLs and
//!   headers can be sent, numbers are within their bounds, no two routes take the same paths.
//! - Nothing unknown in a file is ignored. All mistakes that are ours to judge are reported at
//!   once, each with file, line, key and what would be right.
//! - An empty file is right, and so is none: gatepost then listens, stores and holds.
//! - Reading a configuration changes nothing.
//!
//! What is written and what it means are two things: [`mod@file`] has the one, this page the other,
//! [`check`] leads from the first to the second.

mod check;
mod file;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
pub mod profiles;
mod units;
mod way;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::pace;
use crate::proof::Proof;
use crate::retry::{Overrides, RetryPolicy};
use crate::route::{Pattern, Require, Route};
use crate::select::Selector;

pub use check::read_token;
pub use profiles::Profiles;
pub use way::{ClientFiles, Format, Proxy, ProxyKind, Sign, Way};

/// Where `gatepost run` looks for a file if it is not told.
pub const DEFAULT_PATH: &str = "/etc/gatepost/gatepost.toml";

/// A configuration that cannot be wrong.
#[derive(Clone, Debug)]
pub struct Config {
    /// The device plane.
    pub ingest: Ingest,
    /// The store.
    pub store: StoreConfig,
    /// Where the admin server listens besides its Unix socket; none, the default: only there.
    /// Always a loopback address.
    pub admin: Option<SocketAddr>,
    /// The upstreams, in the order of the file.
    pub destinations: Vec<Destination>,
    /// The routes, in the order of the file.
    pub routes: Vec<Route>,
    /// What is right, and should be otherwise.
    pub warnings: Vec<Problem>,
}

/// The `[ingest]` table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ingest {
    /// Where devices connect. Default: [`Ingest::LISTEN`].
    pub listen: Vec<SocketAddr>,
    /// The longest body that is kept whole, in bytes, 1 to [`Ingest::MOST_BODY`]. Default:
    /// [`Ingest::MAX_BODY`].
    pub max_body: u64,
}

/// The `[store]` table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreConfig {
    /// The file. The Unix socket of the admin server lies beside it. A relative path in a
    /// configuration file starts at that file's folder. Default: [`StoreConfig::PATH`].
    pub path: PathBuf,
    /// How many bytes of events are kept before new ones are refused; at least
    /// [`StoreConfig::LEAST_BODIES`] times `max_body`. Default: [`StoreConfig::MAX_SIZE`].
    pub max_size: u64,
    /// How long a delivered event is kept. Default: [`StoreConfig::KEEP_DELIVERED`].
    pub keep_delivered: Duration,
    /// How long the audit trail of an ended event is kept. Default: [`StoreConfig::KEEP_AUDIT`].
    pub keep_audit: Duration,
    /// What happens to a new event that there is no room for. Default: [`WhenFull::Refuse`].
    pub when_full: WhenFull,
}

/// What happens when the store is full and nothing that has ended is left to remove.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenFull {
    /// New events are refused: 503, and their senders come again.
    #[default]
    Refuse,
    /// Pending events of the lowest priority, the oldest first, are given up for new ones of a
    /// higher priority. Where there are none, new events are refused.
    ShedLowestPriority,
}

/// A `[[destination]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Its name in logs, routes and commands: letters, digits, `-` and `_`.
    pub name: String,
    /// Where events are sent to: an `http` or `https` URL without credentials.
    pub url: String,
    /// The most deliveries in flight at once, 1 to 256. Default: [`Destination::WORKERS`].
    pub workers: usize,
    /// How long one attempt may take as a whole. Default: [`Destination::TIMEOUT`].
    pub timeout: Duration,
    /// Further headers of each request, in order of their names. Never one that gatepost sets.
    pub headers: Vec<(String, String)>,
    /// A file whose content is sent as a bearer token. Read anew when it changes, so that a token
    /// can be renewed without a restart; see [`read_token`]. Relative as [`StoreConfig::path`].
    pub token_file: Option<PathBuf>,
    /// How an event becomes a request. Default: [`Format::Raw`].
    pub format: Format,
    /// What requests are signed with. Default: not at all.
    pub sign: Option<Sign>,
    /// Which way they take, and whom it leads to.
    pub way: Way,
    /// When to try again. Default:
    /// [`RetryPolicy::DEFAULT`].
    pub retry: RetryPolicy,
    /// What its answers mean where the table of [`crate::retry::classify`] is wrong for it.
    pub classify: Overrides,
    /// What an answer must show before its 2xx is believed; none: nothing.
    pub proof: Option<Proof>,
    /// How fast and in which hours it is sent to. Default: as fast as it takes events, always.
    pub pace: pace::Plan,
}

impl Ingest {
    /// 127.0.0.1:8080: nobody is served who was not meant to be.
    pub const LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));
    /// 16 MiB: the largest picture of a face terminal, with room.
    pub const MAX_BODY: u64 = 16 << 20;
    /// 64 MiB: what all connections together may hold in memory.
    pub const MOST_BODY: u64 = 64 << 20;
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            listen: vec![Self::LISTEN],
            max_body: Self::MAX_BODY,
        }
    }
}

impl StoreConfig {
    /// The state directory of the systemd unit.
    pub const PATH: &str = "/var/lib/gatepost/events.redb";
    /// The store's file in a data directory that is named by `--data`.
    pub const FILE_NAME: &str = "events.redb";
    /// 2 GiB.
    pub const MAX_SIZE: u64 = 2 << 30;
    /// 24 hours.
    pub const KEEP_DELIVERED: Duration = Duration::from_secs(24 * 60 * 60);
    /// 30 days.
    pub const KEEP_AUDIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    /// A store that fits fewer bodies than this refuses more than it takes.
    pub const LEAST_BODIES: u64 = 4;
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::from(Self::PATH),
            max_size: Self::MAX_SIZE,
            keep_delivered: Self::KEEP_DELIVERED,
            keep_audit: Self::KEEP_AUDIT,
            when_full: WhenFull::Refuse,
        }
    }
}

impl Destination {
    /// 8.
    pub const WORKERS: usize = 8;
    /// 30 s.
    pub const TIMEOUT: Duration = Duration::from_secs(30);

    /// The destination of that name and `url`, all else as if nothing were written. The caller
    /// sees to it that both are right.
    #[must_use]
    pub fn new(name: String, url: String) -> Self {
        Self {
            name,
            url,
            workers: Self::WORKERS,
            timeout: Self::TIMEOUT,
            headers: Vec::new(),
            token_file: None,
            format: Format::default(),
            sign: None,
            way: Way::default(),
            retry: RetryPolicy::DEFAULT,
            classify: Overrides::default(),
            proof: None,
            pace: pace::Plan::default(),
        }
    }
}

impl Config {
    /// Reads the file at `path`, the profiles and schemas it names, and whether its token files can
    /// be read.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::read(&text, path, &check::Disk::REAL)
    }

    /// Reads `text` as the file at `path`, without touching the disk.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        Self::read(text, path, &check::Disk::NONE)
    }

    fn read(text: &str, path: &Path, disk: &check::Disk) -> Result<Self, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file: file::File = toml::from_str(text).map_err(|source| Error::Syntax {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let tables = file.route.iter().map(toml::Spanned::get_ref);
        let named = tables.filter_map(|table| Some(table.profile.as_ref()?.get_ref().as_str()));
        let profiles = Profiles::needed(named, folder, disk)?;
        check::check(file, text, folder, disk, &profiles).map_err(|problems| Error::Wrong {
            path: path.to_owned(),
            problems,
        })
    }

    /// What an operator may have forgotten, a sentence each.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for route in &self.routes {
            let signature = route.auth.signature.as_ref();
            let Some(signature) = signature.filter(|signature| !signature.is_checked()) else {
                continue;
            };
            let (name, scheme) = (&route.name, &signature.scheme);
            let hint = format!(
                "route \"{name}\": its senders sign ({scheme}), and nobody checks that; with \
                 signature = {{ file = \"…\" }}, a file with the secret, gatepost does"
            );
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }

    /// What the flags of `gatepost run` mean where there is no file.
    ///
    /// - `listen`: default [`Ingest::LISTEN`].
    /// - `data`: the folder of the store; default `./gatepost-data`.
    /// - `forward_to`: the URL of the one destination, `upstream`; without it events are held.
    ///
    /// There is one route, `ingest`, for any path under `/ingest`. It requires both ids.
    pub fn from_flags(
        listen: Option<&str>,
        data: Option<&Path>,
        forward_to: Option<&str>,
    ) -> Result<Self, Error> {
        let mut route = default_route();
        route.require = Require {
            event_id: true,
            device: true,
        };
        let config = Self {
            ingest: Ingest::default(),
            store: StoreConfig::default(),
            admin: None,
            destinations: Vec::new(),
            routes: vec![route],
            warnings: Vec::new(),
        };
        let data = data.unwrap_or(Path::new("gatepost-data"));
        config.with_overrides(listen, Some(data), forward_to)
    }

    /// This configuration with what the flags of `gatepost run` say beside a file.
    ///
    /// - `listen` takes the place of all addresses of the file.
    /// - `data` takes the place of the store's folder; the file there is `events.redb`.
    /// - `forward_to` takes the place of the URL of the only destination, whose other settings
    ///   stay, its token too. If there is none, it makes one, `upstream`, and all routes that
    ///   lead nowhere lead there. If there are several, it is an error.
    pub fn with_overrides(
        mut self,
        listen: Option<&str>,
        data: Option<&Path>,
        forward_to: Option<&str>,
    ) -> Result<Self, Error> {
        let mut problems = Vec::new();
        if let Some(listen) = listen {
            match check::address(listen) {
                Ok(address) => self.ingest.listen = vec![address],
                Err(why) => problems.push(format!("--listen: {why}")),
            }
            if let Err(why) = check::apart(&self.ingest.listen, self.admin) {
                problems.push(format!("--listen: {why}"));
            }
        }
        if let Some(data) = data {
            self.store.path = data.join(StoreConfig::FILE_NAME);
        }
        if let Some(url) = forward_to
            && let Err(why) = check::url(url).and_then(|()| self.forward_to(url))
        {
            problems.push(format!("--forward-to: {why}"));
        }
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(Error::Flags(problems))
        }
    }

    fn forward_to(&mut self, url: &str) -> Result<(), String> {
        match self.destinations.as_mut_slice() {
            [] => {
                let upstream = Destination::new("upstream".to_owned(), url.to_owned());
                self.destinations.push(upstream);
                for route in self.routes.iter_mut().filter(|route| route.to.is_empty()) {
                    route.to.push("upstream".to_owned());
                }
            }
            [only] => url.clone_into(&mut only.url),
            several => {
                let names: Vec<&str> = several.iter().map(|one| one.name.as_str()).collect();
                return Err(format!(
                    "the file has several destinations, {}; change the url there",
                    names.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// One line per route: `door: /ingest/device-event -> cloud`.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.routes.iter().map(Route::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The route of a configuration that has none: any path under `/ingest`, ids where most senders
/// have them, nothing required, no destination.
fn default_route() -> Route {
    let list = |texts: [&str; 2]| {
        texts
            .map(|text| Selector::parse(text).expect("a constant, and a test reads it"))
            .to_vec()
    };
    let path = Pattern::parse("/ingest/{*}").expect("a constant, and a test reads it");
    let mut route = Route::new("ingest", path);
    route.event_id = list(["json:/eventId", "header:x-event-id"]);
    route.device = list(["json:/deviceId", "header:x-device-id"]);
    route
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum Error {
    /// The file can't be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not TOML, or has a key or a type of value that is unknown.
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong with it: line, column and what was expected.
        source: Box<toml::de::Error>,
    },
    /// The file can be read but is wrong.
    Wrong {
        /// The file.
        path: PathBuf,
        /// All that is wrong with it, never empty.
        problems: Vec<Problem>,
    },
    /// The flags are wrong. Says for each what is.
    Flags(Vec<String>),
}

/// Something that is wrong with a file, or could be better.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub text: String,
}

impl std::error::Error for Error {}

/// The whole message, the cause included: one line for each problem, the file first.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => {
                write!(f, "cannot read {}: {source}", path.display())
            }
            Self::Syntax { path, source } => {
                write!(f, "{}: {}", path.display(), source.to_string().trim_end())
            }
            Self::Wrong { path, problems } => {
                let line = |Problem { line, text }: &Problem| {
                    format!("{}: line {line}: {text}", path.display())
                };
                let lines: Vec<String> = problems.iter().map(line).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Flags(problems) => f.write_str(&problems.join("\n")),
        }
    }
}

#[cfg(test)]
mod tests;
