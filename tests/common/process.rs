//! The real process: started, watched, asked to stop, killed, and always reaped.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use tempfile::TempDir;

use super::device::Device;
use super::log::Log;
use super::upstream::Upstream;

/// What a site's configuration says beside what every test wants: lines of TOML.
#[derive(Clone, Copy, Default)]
pub(crate) struct Plan<'a> {
    /// For `[ingest]`.
    pub(crate) ingest: &'a str,
    /// For `[store]`.
    pub(crate) store: &'a str,
    /// For the one `[[destination]]`.
    pub(crate) destination: &'a str,
    /// For its `retry`.
    pub(crate) retry: &'a str,
    /// For the one `[[route]]`.
    pub(crate) route: &'a str,
}

/// The usual patience of a test: every pause is between 80 ms and 1.2 s.
const RETRY: &str = "first = \"100ms\", max = \"1s\", jitter = 0.2, max_attempts = 10";

/// A folder with a configuration, a store, and one process at a time that works on it.
pub(crate) struct Site {
    folder: TempDir,
}

impl Site {
    /// A site without a configuration file.
    pub(crate) fn bare() -> Self {
        let folder = TempDir::with_prefix("gatepost-").expect("there is room");
        Self { folder }
    }

    /// A site that forwards what comes to `/ingest/door`, by the route `door`, to `upstream`,
    /// which is called `cloud`.
    pub(crate) fn new(upstream: &Upstream, plan: Plan<'_>) -> Self {
        let site = Self::bare();
        site.configure(upstream, plan);
        site
    }

    /// Writes the configuration anew, for the next start.
    pub(crate) fn configure(&self, upstream: &Upstream, plan: Plan<'_>) {
        self.configure_url(&upstream.url(), plan);
    }

    /// The same, for an upstream of the test's own.
    pub(crate) fn configure_url(&self, url: &str, plan: Plan<'_>) {
        let Plan {
            ingest,
            store,
            destination,
            retry,
            route,
        } = plan;
        let retry = if retry.is_empty() { RETRY } else { retry };
        let mut text = format!("[ingest]\nlisten = [\"127.0.0.1:0\"]\n{ingest}\n");
        let to_text = "a string takes everything";
        write!(text, "[store]\npath = \"data/events.redb\"\n{store}\n").expect(to_text);
        write!(text, "[[destination]]\nname = \"cloud\"\nurl = \"{url}\"\n").expect(to_text);
        write!(text, "{destination}\nretry = {{ {retry} }}\n").expect(to_text);
        text += "[[route]]\nname = \"door\"\npath = \"/ingest/door\"\nto = [\"cloud\"]\n";
        text += "event_id = [\"json:/eventId\"]\ndevice = [\"json:/deviceId\"]\n";
        text += "require = [\"event_id\", \"device\"]\n";
        text += route;
        fs::write(self.config(), text).expect("there is room");
    }

    /// The configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.path().join("gatepost.toml")
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A path for something of the test's own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary, in an environment that says nothing about logging.
    pub(crate) fn command() -> Command {
        Self::command_of(env!("CARGO_BIN_EXE_gatepost"))
    }

    fn command_of(program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_remove("RUST_LOG").env_remove("JOURNAL_STREAM");
        command
    }

    /// The arguments of `gatepost run` for this site.
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut arguments = vec!["run".to_owned()];
        if self.config().exists() {
            arguments.extend(["--config".to_owned(), path(self.config())]);
        } else {
            arguments.extend(["--listen", "127.0.0.1:0", "--data"].map(str::to_owned));
            arguments.push(path(self.data()));
        }
        arguments.extend(more.iter().map(|&more| more.to_owned()));
        arguments
    }

    /// `gatepost run` for this site, not started yet.
    pub(crate) fn gateway(&self, more: &[&str]) -> Command {
        let mut command = Self::command();
        command.args(self.arguments(more));
        command
    }

    /// The same behind another program, which must become it.
    pub(crate) fn gateway_behind(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Self::command_of(program);
        let binary = env!("CARGO_BIN_EXE_gatepost");
        command
            .args(arguments)
            .arg(binary)
            .args(self.arguments(&[]));
        command
    }

    /// Starts the gateway and waits until it listens.
    pub(crate) fn start(&self) -> Gateway {
        Gateway::start(&mut self.gateway(&[]))
    }

    /// The same, quieter: events leave no lines.
    pub(crate) fn start_quietly(&self) -> Gateway {
        let mut command = self.gateway(&[]);
        Gateway::start(command.env("RUST_LOG", "warn,gatepost::daemon=info"))
    }
}

/// A running gateway. It is killed when it is dropped.
pub(crate) struct Gateway {
    child: Child,
    /// Where devices connect.
    pub(crate) address: SocketAddr,
    pub(crate) log: Log,
}

impl Gateway {
    /// Starts `command` and waits until it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        let gateway = Self::try_start(command);
        assert!(gateway.is_listening(), "it ended");
        gateway
    }

    /// Starts `command` and waits until it listens or has ended.
    pub(crate) fn try_start(command: &mut Command) -> Self {
        let mut gateway = Self::spawn(command);
        if let Some(line) = gateway.log.find("] listening on ") {
            let address = line.split("listening on ").nth(1).unwrap_or_default();
            let address = address.split(',').next().unwrap_or_default();
            gateway.address = address.parse().expect("it says where it listens");
        }
        gateway
    }

    /// Whether it has ever said that it listens.
    pub(crate) fn is_listening(&self) -> bool {
        self.address.port() != 0
    }

    /// Starts `command` and waits for nothing; it has no address yet.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("the program is there; tests/run installs what is missing");
        let stderr = child.stderr.take().expect("it is piped");
        Self {
            child,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            log: Log::follow(stderr),
        }
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Device {
        Device::connect(self.address)
    }

    /// The power goes.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &pid])
            .status();
        assert!(sent.expect("there is a shell").success());
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.log.wait_for_end();
        self.child.wait().expect("it is our child")
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(self) {
        self.ask_to_stop();
        let status = self.wait();
        assert!(status.success(), "{status}");
    }

    /// How much memory it takes. Source: proc(5), `/proc/pid/status`.
    pub(crate) fn resident_kb(&self) -> u64 {
        self.status_kb("VmRSS:")
    }

    /// One of the amounts in `/proc/pid/status`, by its name there.
    pub(crate) fn status_kb(&self, name: &str) -> u64 {
        let number = self.status(name);
        let number = number.strip_suffix(" kB").and_then(|kb| kb.parse().ok());
        number.expect("a number of kB")
    }

    /// A line of `/proc/pid/status`, by its name there.
    pub(crate) fn status(&self, name: &str) -> String {
        let status = fs::read_to_string(self.proc().join("status")).expect("this is Linux");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect("there is such a line").trim().to_owned()
    }

    /// What the kernel says about it. Source: proc(5).
    pub(crate) fn proc(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.child.id()))
    }

    /// How much processor time it has taken, in hundredths of a second. Source: proc(5),
    /// `/proc/pid/stat`, fields 14 and 15.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(self.proc().join("stat")).expect("this is Linux");
        let (_, fields) = stat.rsplit_once(") ").expect("the name is in brackets");
        let field = |at: usize| {
            fields
                .split(' ')
                .nth(at)
                .and_then(|field| field.parse().ok())
        };
        let (user, system): (Option<u64>, Option<u64>) = (field(11), field(12));
        user.zip(system)
            .map(|(user, system)| user + system)
            .expect("two numbers")
    }

    fn end(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            self.log.show();
        }
    }
}
