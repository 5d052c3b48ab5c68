//! The configuration: what the file means.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::retry::RetryPolicy;
use crate::route::Route;

/// A configuration that cannot be wrong.
#[derive(Clone, Debug)]
pub struct Config {
    /// The device plane.
    pub ingest: Ingest,
    /// The store.
    pub store: StoreConfig,
    /// Where the admin server listens besides its Unix socket; none: only there.
    pub admin: Option<SocketAddr>,
    /// The upstreams, in the order of the file.
    pub destinations: Vec<Destination>,
    /// The routes, in the order of the file.
    pub routes: Vec<Route>,
}

/// The `[ingest]` table.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// Where devices connect. Default: 127.0.0.1:8080.
    pub listen: Vec<SocketAddr>,
    /// The longest body that is kept whole, in bytes. Default: 16 MiB.
    pub max_body: u64,
}

/// The `[store]` table.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The file. The Unix socket of the admin server lies beside it.
    pub path: PathBuf,
    /// How many bytes of events are kept before new ones are refused. Default: 2 GiB.
    pub max_size: u64,
    /// How long a delivered event is kept. Default: 24 h.
    pub keep_delivered: Duration,
    /// How long the audit trail of an ended event is kept. Default: 30 days.
    pub keep_audit: Duration,
}

/// A `[[destination]]`.
#[derive(Clone, Debug)]
pub struct Destination {
    /// Its name in logs, routes and commands.
    pub name: String,
    /// Where events are sent to: an `http` or `https` URL.
    pub url: String,
    /// The most deliveries in flight at once. Default: 8.
    pub workers: usize,
    /// How long one attempt may take as a whole. Default: 30 s.
    pub timeout: Duration,
    /// Further headers of each request.
    pub headers: Vec<(String, String)>,
    /// A file whose content is sent as a bearer token. Read at each attempt, so that a token can
    /// be renewed without a restart.
    pub token_file: Option<PathBuf>,
    /// When to try again.
    pub retry: RetryPolicy,
}
