//! From the file as written to the configuration it means.
//!
//! Every check notes what is wrong and goes on with a default, so one run finds all mistakes; what
//! was made of a wrong file is thrown away.

mod answers;
mod auth;
mod destination;
mod manner;
mod profile;
mod route;
mod way;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::file::{AdminTable, File, IngestTable, StoreTable, WhenFullWord};
use super::profiles::Profiles;
use super::units::Figure;
use super::{Config, Ingest, Problem, StoreConfig, WhenFull};
use crate::schema::Schema;

pub(super) use destination::url;
pub(super) use profile::profile;

/// Reads a token: the only line of a file, sent as `Authorization: Bearer …`.
///
/// # Errors
///
/// Says in words why there is none. Never contains a part of the token.
pub fn read_token(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|why| format!("cannot read {shown}: {why}"))?;
    let token = text.trim();
    if token.is_empty() {
        Err(format!("{shown} is empty"))
    } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        Err(format!(
            "{shown} holds more than a token; one line of ASCII without blanks is right"
        ))
    } else {
        Ok(token.to_owned())
    }
}

/// What is in a file with secrets.
pub(super) struct SecretFile {
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// Whether every user of the machine may read it.
    pub(super) is_open: bool,
}

/// The longest file with secrets: thousands of passwords.
const LONGEST_SECRETS: u64 = 1 << 20;

fn read_secret(path: &Path) -> Result<SecretFile, String> {
    let unreadable = |why: io::Error| format!("cannot read {}: {why}", path.display());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(LONGEST_SECRETS + 1);
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    if LONGEST_SECRETS < bytes.len() as u64 {
        return Err(format!("{} is longer than 1 MiB", path.display()));
    }
    let is_open = about.is_file() && about.mode() & 0o004 != 0;
    Ok(SecretFile { bytes, is_open })
}

/// How the files that a configuration names are looked at.
pub(super) struct Disk {
    /// Whether a token can be read.
    pub(super) token: fn(&Path) -> Result<(), String>,
    /// Reads a file with secrets; none where the disk is not to be touched.
    pub(super) secret: fn(&Path) -> Result<Option<SecretFile>, String>,
    /// Reads a schema; none where the disk is not to be touched.
    pub(super) schema: fn(&Path) -> Result<Option<Schema>, String>,
    /// The names of the files in a folder; none if there is no such folder.
    pub(super) folder: fn(&Path) -> io::Result<Vec<String>>,
}

impl Disk {
    /// Reads them.
    pub(super) const REAL: Self = Self {
        token: |path| read_token(path).map(drop),
        secret: |path| read_secret(path).map(Some),
        schema: |path| {
            let text = std::fs::read(path).map_err(|why| format!("cannot read it: {why}"))?;
            Schema::parse(&text).map(Some)
        },
        folder: |path| {
            let entries = match std::fs::read_dir(path) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let name = |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name());
            let names: io::Result<Vec<_>> = entries.map(name).collect();
            let names = names?
                .into_iter()
                .map(|name| name.to_string_lossy().into_owned());
            Ok(names.collect())
        },
    };

    /// Touches none.
    pub(super) const NONE: Self = Self {
        token: |_| Ok(()),
        secret: |_| Ok(None),
        schema: |_| Ok(None),
        folder: |_| Ok(Vec::new()),
    };
}

/// Everything that is wrong with `file`, or what it means.
pub(super) fn check(
    file: File,
    text: &str,
    folder: &Path,
    disk: &Disk,
    profiles: &Profiles,
) -> Result<Config, Vec<Problem>> {
    let mut check = Check {
        text,
        folder,
        disk,
        profiles,
        problems: Vec::new(),
        warnings: Vec::new(),
        is_profile: false,
    };
    let ingest = check.ingest(file.ingest);
    let store = check.store(file.store, ingest.max_body);
    let admin = check.admin(file.admin, &ingest);
    let destinations = check.destinations(file.destination);
    let routes = check.routes(file.route, &destinations);
    check.warnings.sort_by_key(|warning| warning.line);
    if check.problems.is_empty() {
        Ok(Config {
            ingest,
            store,
            admin,
            destinations,
            routes,
            warnings: check.warnings,
        })
    } else {
        check.problems.sort_by_key(|problem| problem.line);
        Err(check.problems)
    }
}

/// Reads an address and a port, in numbers.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "\"{text}\" is not an address with a port; \
             write numbers, as in \"0.0.0.0:8080\" or \"[::1]:8080\", no host names"
        )
    })
}

/// Checks that the admin server does not want an address where devices connect.
pub(super) fn apart(listen: &[SocketAddr], admin: Option<SocketAddr>) -> Result<(), String> {
    let Some(admin) = admin else { return Ok(()) };
    let meets = |ingest: &&SocketAddr| {
        ingest.port() == admin.port()
            && admin.port() != 0
            && (ingest.ip() == admin.ip() || ingest.ip().is_unspecified())
    };
    match listen.iter().find(meets) {
        Some(ingest) => Err(format!(
            "{ingest} for devices and {admin} for the admin server are the same port; \
             choose another"
        )),
        None => Ok(()),
    }
}

/// What is needed to judge one file.
struct Check<'a> {
    text: &'a str,
    folder: &'a Path,
    disk: &'a Disk,
    profiles: &'a Profiles,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// It is a profile's: what differs between routes is not to be said there.
    is_profile: bool,
}

impl Check<'_> {
    /// Notes what is wrong at that place of the file.
    fn wrong(&mut self, at: Range<usize>, text: String) {
        let line = self.line(at);
        self.problems.push(Problem { line, text });
    }

    fn line(&self, at: Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        before.split(|byte| *byte == b'\n').count()
    }

    /// The value of a key that `read` understands, within the bounds that `read` knows; else the
    /// default. `whose` is the table, in words.
    fn value<T, U>(
        &mut self,
        whose: &str,
        key: &str,
        written: Option<&Spanned<T>>,
        default: U,
        read: impl Fn(&T) -> Result<U, String>,
    ) -> U {
        let Some(written) = written else {
            return default;
        };
        read(written.get_ref()).unwrap_or_else(|why| {
            self.wrong(written.span(), format!("{whose} {key}: {why}"));
            default
        })
    }

    /// A path of the file; a relative one starts at the file's folder.
    fn path(&self, written: &str) -> Result<PathBuf, String> {
        if written.is_empty() {
            return Err("the path is empty".to_owned());
        }
        Ok(self.folder.join(written))
    }

    fn ingest(&mut self, table: IngestTable) -> Ingest {
        let max_body = self.value(
            "[ingest]",
            "max_body",
            table.max_body.as_ref(),
            Ingest::MAX_BODY,
            |figure| match figure.bytes()? {
                1..=Ingest::MOST_BODY => figure.bytes(),
                _ => Err(format!("{figure} is not between 1 B and 64 MiB")),
            },
        );
        let Some(written) = table.listen else {
            let listen = Ingest::default().listen;
            return Ingest { listen, max_body };
        };
        if written.get_ref().is_empty() {
            let text = format!(
                "[ingest] listen: the list is empty; write [\"{}\"]",
                Ingest::LISTEN
            );
            self.wrong(written.span(), text);
        }
        let mut listen = Vec::new();
        for entry in written.into_inner() {
            match address(entry.get_ref()) {
                Ok(address) if address.port() != 0 && listen.contains(&address) => {
                    let text = format!("[ingest] listen: {address} is there twice");
                    self.wrong(entry.span(), text);
                }
                Ok(address) => listen.push(address),
                Err(why) => self.wrong(entry.span(), format!("[ingest] listen: {why}")),
            }
        }
        Ingest { listen, max_body }
    }

    fn store(&mut self, table: StoreTable, max_body: u64) -> StoreConfig {
        let default = StoreConfig::default();
        let least = StoreConfig::LEAST_BODIES * max_body;
        let max_size = table.max_size.as_ref();
        let max_size = self.value(
            "[store]",
            "max_size",
            max_size,
            default.max_size,
            |figure| {
                let bytes = figure.bytes()?;
                if bytes < least {
                    return Err(format!(
                        "{figure} is too small; it must be at least {} times max_body, {least} B",
                        StoreConfig::LEAST_BODIES
                    ));
                }
                Ok(bytes)
            },
        );
        let mut keep = |key, written: Option<Spanned<Figure>>, default| {
            self.value("[store]", key, written.as_ref(), default, Figure::duration)
        };
        let keep_delivered = keep(
            "keep_delivered",
            table.keep_delivered,
            default.keep_delivered,
        );
        let keep_audit = keep("keep_audit", table.keep_audit, default.keep_audit);
        let mut path = default.path;
        if let Some(written) = table.path {
            match self.path(written.get_ref()) {
                Ok(_) if written.get_ref().ends_with('/') => self.wrong(
                    written.span(),
                    format!(
                        "[store] path: \"{0}\" is a folder; write \"{0}{1}\"",
                        written.get_ref(),
                        StoreConfig::FILE_NAME
                    ),
                ),
                Ok(written) => path = written,
                Err(why) => self.wrong(written.span(), format!("[store] path: {why}")),
            }
        }
        StoreConfig {
            path,
            max_size,
            keep_delivered,
            keep_audit,
            when_full: match table.when_full {
                WhenFullWord::Refuse => WhenFull::Refuse,
                WhenFullWord::ShedLowestPriority => WhenFull::ShedLowestPriority,
            },
        }
    }

    fn admin(&mut self, table: AdminTable, ingest: &Ingest) -> Option<SocketAddr> {
        let written = table.listen?;
        let judged = address(written.get_ref()).and_then(|address| {
            if address.ip().is_loopback() {
                return apart(&ingest.listen, Some(address)).map(|()| address);
            }
            let port = address.port();
            Err(format!(
                "{address} is not a loopback address, and this server must not meet strangers; \
                 write \"127.0.0.1:{port}\" and reach it from elsewhere with \
                 `ssh -L {port}:127.0.0.1:{port} box`"
            ))
        });
        match judged {
            Ok(address) => Some(address),
            Err(why) => {
                self.wrong(written.span(), format!("[admin] listen: {why}"));
                None
            }
        }
    }

    /// The name of a table, checked and noted among those of its kind, and what messages call the
    /// table. Without a name it is called by its place in the file, counted from 1.
    fn name(
        &mut self,
        kind: &str,
        written: Option<Spanned<String>>,
        table: Range<usize>,
        earlier: &mut Vec<Option<Spanned<String>>>,
    ) -> (String, String) {
        let Some(name) = written else {
            earlier.push(None);
            let whose = format!("{kind} {}", earlier.len());
            let text = format!("{whose}: name is missing; the log and the commands need one");
            self.wrong(table, text);
            return (String::new(), whose);
        };
        let text = name.get_ref();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if text.is_empty() || 64 < text.len() || !text.bytes().all(is_plain) {
            let text =
                format!("{kind} name: \"{text}\" is not 1 to 64 letters, digits, \"-\" and \"_\"");
            self.wrong(name.span(), text);
        }
        let same = |other: &&Spanned<String>| other.get_ref() == text;
        if let Some(first) = earlier.iter().flatten().find(same) {
            let first = self.line(first.span());
            let text = format!("{kind} name: \"{text}\" is taken, see line {first}");
            self.wrong(name.span(), text);
        }
        let whose = format!("{kind} \"{text}\"");
        earlier.push(Some(name.clone()));
        (name.into_inner(), whose)
    }
}
