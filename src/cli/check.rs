//! `gatepost check`: is this configuration file right, and what does it mean?

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Error;
use super::text::json;
use crate::config::{Config, DEFAULT_PATH, Format};
use crate::daemon;
use crate::upstream::Http;

/// Check a configuration file and show where events would go.
///
/// Changes nothing and does not need the daemon. Exits with 78 if the file is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file to check. Default: /etc/gatepost/gatepost.toml.
    file: Option<PathBuf>,
    /// The file to check, said as the other commands say it.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Print one JSON object for programs instead of text for people.
    #[arg(long)]
    json: bool,
}

/// What the file means, for programs.
#[derive(Serialize)]
struct Meaning<'a> {
    file: String,
    listen: Vec<String>,
    store: String,
    admin: Option<String>,
    destinations: Vec<Destination<'a>>,
    routes: Vec<Route<'a>>,
}

#[derive(Serialize)]
struct Destination<'a> {
    name: &'a str,
    url: &'a str,
    format: &'static str,
    bearer_token: bool,
    signed: bool,
    client_certificate: bool,
    ca_file: Option<String>,
    proxy: Option<String>,
}

#[derive(Serialize)]
struct Route<'a> {
    name: &'a str,
    path: String,
    profile: Option<&'a str>,
    to: &'a [String],
}

/// Prints one line for each destination, and for each route.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let file = args.file.as_ref().or(args.config.as_ref());
    let file = file.map_or(Path::new(DEFAULT_PATH), PathBuf::as_path);
    let config = Config::load(file)?;
    // What the client of a destination would not take must not wait for the start to be said.
    for destination in &config.destinations {
        Http::new(destination).map_err(daemon::Error::from)?;
    }
    if args.json {
        return Ok(json(&meaning(file, &config), out)?);
    }
    let Meaning {
        file,
        listen,
        store,
        ..
    } = meaning(file, &config);
    writeln!(out, "{file} is right")?;
    writeln!(out, "listens on {}, stores in {store}", listen.join(", "))?;
    for destination in &config.destinations {
        writeln!(out, "{destination}")?;
    }
    writeln!(out, "{config}")?;
    Ok(())
}

fn meaning<'a>(file: &Path, config: &'a Config) -> Meaning<'a> {
    let destinations = config.destinations.iter();
    let routes = config.routes.iter();
    Meaning {
        file: file.display().to_string(),
        listen: config
            .ingest
            .listen
            .iter()
            .map(ToString::to_string)
            .collect(),
        store: config.store.path.display().to_string(),
        admin: config.admin.map(|address| address.to_string()),
        destinations: destinations
            .map(|to| Destination {
                name: &to.name,
                url: &to.url,
                format: match to.format {
                    Format::Raw => "raw",
                    Format::CloudEvents => "cloudevents",
                },
                bearer_token: to.token_file.is_some(),
                signed: to.sign.is_some(),
                client_certificate: to.way.client.is_some(),
                ca_file: to
                    .way
                    .ca_file
                    .as_ref()
                    .map(|file| file.display().to_string()),
                proxy: to.way.proxy.as_ref().map(ToString::to_string),
            })
            .collect(),
        routes: routes
            .map(|route| Route {
                name: &route.name,
                path: route.path.to_string(),
                profile: route.profile.as_deref(),
                to: &route.to,
            })
            .collect(),
    }
}
