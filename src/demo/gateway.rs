//! The gateway of the demo: this same program as a process of its own, and its configuration.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::Sender;

use super::Error;
use super::stage::News;

/// A running gateway. Killed when it is dropped.
pub(super) struct Gateway {
    child: Child,
    killed: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
}

/// What stands in its configuration file: it listens on `listen` and delivers to `upstream`.
pub(super) fn config(listen: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        r#"[ingest]
listen = ["{listen}"]                 # port 0: any that is free

[store]
path = "events.redb"

[[destination]]
name = "cloud"
url = "http://{upstream}/events"
workers = 4
timeout = "10s"
retry = {{ first = "300ms", max = "1s" }}

[[route]]                                # devices that send JSON
name = "site"
path = "/ingest/{{*}}"
event_id = ["json:/eventId"]
device = ["json:/deviceId"]
require = ["event_id", "device"]
to = ["cloud"]

[[route]]
name = "payments"
path = "/webhook/payments"
event_id = ["json:/id"]
to = ["cloud"]

[[route]]                                # face terminals: multipart, with pictures
name = "terminal"
path = "/hik/acs"
to = ["cloud"]
"#
    )
}

/// Where a gateway listens that logged `line`, if the line says so.
pub(super) fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("listening on ")?;
    rest.split(',').next()?.parse().ok()
}

impl Gateway {
    /// Starts this program with `config` as the file at `path`. What it logs is told to `news`.
    pub(super) fn start(path: &Path, config: &str, news: Sender<News>) -> Result<Self, Error> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error| Error::System(what, error)
        };
        fs::write(path, config).map_err(failed("cannot write the configuration file"))?;
        let program = std::env::current_exe().map_err(failed("cannot find this program"))?;
        let mut child = Command::new(program)
            .arg("run")
            .arg("--config")
            .arg(path)
            // After a power cut redb says at length that it repairs its file.
            .env("RUST_LOG", "info,redb=error")
            .env_remove("JOURNAL_STREAM")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed("cannot start the gateway"))?;
        let log = child.stderr.take();
        let killed = Arc::new(AtomicBool::new(false));
        // Made before anything else can fail: it kills the child when it is dropped.
        let mut gateway = Self {
            child,
            killed: Arc::clone(&killed),
            listener: None,
        };
        let listen = move || {
            if let Some(log) = log {
                tell(log, &news);
            }
            if !killed.load(Ordering::SeqCst) {
                // The story is over when nobody listens.
                _ = news.send(News::GatewayEnded);
            }
        };
        let listener = thread::Builder::new().name("log".to_owned()).spawn(listen);
        gateway.listener = Some(listener.map_err(failed("cannot start a thread"))?);
        Ok(gateway)
    }

    /// Ends it with SIGKILL: it can do nothing about it. All that it logged is told.
    pub(super) fn kill(&mut self) {
        self.killed.store(true, Ordering::SeqCst);
        // Both fail only when it has ended and was waited for.
        _ = self.child.kill();
        _ = self.child.wait();
        if let Some(listener) = self.listener.take() {
            _ = listener.join();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Tells each line of `log` until it ends.
fn tell(log: impl Read, news: &Sender<News>) {
    for line in BufReader::new(log).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        // Nobody listens at the end of the story, but the gateway must not wait for a reader.
        _ = news.send(News::Logged(words(&line).to_owned()));
    }
}

/// A line of the log without its time, and without its level if nobody must do anything.
fn words(line: &str) -> &str {
    let mut fields = line.splitn(2, ' ');
    let (Some(time), Some(rest)) = (fields.next(), fields.next()) else {
        return line;
    };
    if !time.ends_with('Z') {
        return line;
    }
    let usual = ["INFO ", "WARN "];
    let text = usual.iter().find_map(|level| rest.strip_prefix(level));
    text.unwrap_or(rest).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_configuration_is_right() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = config(address(0), address(4000));
        let config = Config::parse(&text, Path::new("/tmp/gatepost.toml"));
        let config = config.expect("the demo's own file is right");
        assert_eq!(config.routes.len(), 3);
        assert_eq!(config.destinations[0].url, "http://127.0.0.1:4000/events");
    }

    #[test]
    fn the_log_says_where_it_listens() {
        let rows = [
            (
                "[config] listening on 127.0.0.1:80, storing in /x",
                Some(SocketAddr::from(([127, 0, 0, 1], 80))),
            ),
            ("[event e-1] received from cam-7 on site, 57 bytes", None),
        ];
        for (line, address) in rows {
            assert_eq!(address_in(line), address, "{line}");
        }
    }

    #[test]
    fn time_and_level_are_no_part_of_the_story() {
        let rows = [
            (
                "2026-01-01T00:00:00.000Z INFO  [store] opened",
                "[store] opened",
            ),
            (
                "2026-01-01T00:00:00.000Z WARN  [store] full",
                "[store] full",
            ),
            (
                "2026-01-01T00:00:00.000Z ERROR [store] bad",
                "ERROR [store] bad",
            ),
            ("gatepost: it failed", "gatepost: it failed"),
            ("", ""),
        ];
        for (line, text) in rows {
            assert_eq!(words(line), text, "{line}");
        }
    }
}
