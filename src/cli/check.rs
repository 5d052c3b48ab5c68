//! `gatepost check`: is this configuration file right, and what does it mean?

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Error;
use super::text::json;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Config, DEFAULT_PATH, Format, Problem};
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
    warnings: Vec<String>,
    hints: Vec<String>,
}

#[derive(Serialize)]
struct Destination<'a> {
    name: &'a str,
    url: &'a str,
    /// What its answers mean beside the usual, in words; none if nothing is said.
    classify: Option<String>,
    /// What a 2xx must show, in words; none if nothing.
    proof: Option<String>,
    /// How fast and when it is sent to, in words; none if there is no limit.
    pace: Option<String>,
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
    checks: Vec<String>,
    to: &'a [String],
}

/// Prints lines for each destination and each route, what is asked of senders, and what may be
/// forgotten.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let file = args.file.as_ref().or(args.config.as_ref());
    let file = file.map_or(Path::new(DEFAULT_PATH), PathBuf::as_path);
    let config = Config::load(file)?;
    print(file, &config, args.json, out)
}

/// What [`run`] prints about a configuration.
pub(super) fn print(
    file: &Path,
    config: &Config,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Error> {
    // What the client of a destination would not take must not wait for the start to be said.
    for destination in &config.destinations {
        Http::new(destination).map_err(daemon::Error::from)?;
    }
    if as_json {
        return Ok(json(&meaning(file, config), out)?);
    }
    let Meaning {
        file,
        listen,
        store,
        routes,
        warnings,
        hints,
        destinations,
        ..
    } = meaning(file, config);
    writeln!(out, "{file} is right")?;
    writeln!(out, "listens on {}, stores in {store}", listen.join(", "))?;
    for destination in &config.destinations {
        writeln!(out, "{destination}")?;
    }
    print_destinations(&destinations, out)?;
    for (route, line) in routes.iter().zip(&config.routes) {
        writeln!(out, "{line}")?;
        for check in &route.checks {
            writeln!(out, "  only with {check}")?;
        }
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for hint in &hints {
        writeln!(out, "hint: {hint}")?;
    }
    Ok(())
}

fn print_destinations(destinations: &[Destination<'_>], out: &mut dyn Write) -> Result<(), Error> {
    for to in destinations {
        let name = to.name;
        if let Some(classify) = &to.classify {
            writeln!(out, "{name}: of its answers {classify}")?;
        }
        if let Some(proof) = &to.proof {
            writeln!(out, "{name}: a 2xx is believed with {proof}")?;
        }
        if let Some(pace) = &to.pace {
            writeln!(out, "{name}: sent to {pace}")?;
        }
    }
    Ok(())
}

/// How fast and when a destination is sent to, and by which clocks.
fn pace(to: &config::Destination) -> String {
    let pace = to.pace.to_string();
    if to.pace.hours.is_none() {
        return pace;
    }
    let zone = SystemClock::new().zone();
    format!("{pace} by local time, which is {zone}, while the clock is synchronised")
}

fn said(words: String) -> Option<String> {
    (!words.is_empty()).then_some(words)
}

fn meaning<'a>(file: &Path, config: &'a Config) -> Meaning<'a> {
    let destinations = config.destinations.iter();
    let routes = config.routes.iter();
    let warnings = config.warnings.iter();
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
                classify: said(to.classify.to_string()),
                proof: to.proof.as_ref().map(ToString::to_string),
                pace: said(pace(to)),
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
                checks: route.auth.checks(),
                to: &route.to,
            })
            .collect(),
        warnings: warnings
            .map(|Problem { line, text }| format!("line {line}: {text}"))
            .collect(),
        hints: config.hints(),
    }
}
