//! The configuration of a life: real TOML, with figures drawn by chance.

use std::path::Path;
use std::time::Duration;

use gatepost::config::{Config, Destination, WhenFull};
use gatepost::event::USUAL_PRIORITY;
use gatepost::pace::{Hours, Rate};
use gatepost::profile::Glob;
use gatepost::proof::Proof;
use gatepost::retry::RetryPolicy;
use gatepost::rng::Rng;

use crate::sim::inspect::ROOMY;

/// A route for each order of lanes, one that leads nowhere at first, and one for testers.
const TEXT: &str = r#"
[[destination]]
name = "cloud"
url = "http://cloud.test/"

[[destination]]
name = "archive"
url = "http://archive.test/"

[[route]]
name = "door"
path = "/door"
event_id = ["json:/eventId"]
device = ["json:/deviceId"]
require = ["event_id", "device"]
priority = 3
to = ["cloud", "archive"]

[[route]]
name = "gate"
path = "/gate/{*}"
event_id = ["header:x-event-id"]
device = ["header:x-device-id"]
order = "none"
priority = 2
to = ["cloud"]

[[route]]
name = "line"
path = "/line"
event_id = ["json:/eventId"]
device = ["json:/deviceId"]
order = "route"
dedup = "content"
dedup_window = "40s"
to = ["archive"]

[[route]]
name = "attic"
path = "/attic"
event_id = ["json:/eventId"]
device = ["json:/deviceId"]
priority = 1

[[route]]
name = "test"
path = "/test"
event_id = ["json:/eventId"]
device = ["json:/deviceId"]
require = ["event_id", "device"]
status = "verdict"
to = ["cloud"]
"#;

/// The name of the route that leads nowhere until [`open_the_attic`].
pub(crate) const ATTIC: &str = "attic";

/// Where it leads from then on.
pub(crate) const ATTIC_TO: &str = "archive";

/// The header by which a destination can be told from a portal.
pub(crate) const ACK: &str = "X-Ack";

/// What destinations say of their answers. Never of those by which a poison event is known: it
/// would not be one any more.
const SAYINGS: &[&[(&str, &str)]] = &[
    &[],
    &[],
    &[("409", "delivered")],
    &[("503", "hold"), ("504", "down"), ("502", "retry")],
    &[("5xx", "retry"), ("404", "dead"), ("3xx", "down")],
    &[("425", "pause"), ("408", "dead"), ("409", "delivered")],
    &[
        ("401", "pause"),
        ("403", "down"),
        ("413", "retry"),
        ("400", "hold"),
    ],
];

/// The configuration for one life.
pub(crate) fn draw(rng: &mut Rng) -> Config {
    let mut config = Config::parse(TEXT, Path::new("gatepost.toml"))
        .expect("a constant, and every life reads it");
    let quotas = [60_000, 200_000, 1 << 30, 1 << 30, 1 << 30];
    config.store.max_size = pick(rng, &quotas);
    config.store.keep_delivered = Duration::from_secs(pick(rng, &[600, 7_200, 86_400]));
    config.store.keep_audit = config.store.keep_delivered * 3;
    if rng.below(2) == 0 {
        config.store.when_full = WhenFull::ShedLowestPriority;
    }
    for destination in &mut config.destinations {
        destination.workers = pick(rng, &[1, 2, 8]);
        destination.retry = RetryPolicy {
            first: Duration::from_millis(pick(rng, &[200, 1_000])),
            max: Duration::from_secs(pick(rng, &[5, 60, 300])),
            jitter: 0.2,
            max_attempts: pick(rng, &[1, 2, 4, 10]),
        };
        draw_manner(destination, rng);
        // A store that is short of room asks every few seconds for what has expired: too dear for
        // a life that waits for tomorrow.
        if config.store.max_size < ROOMY {
            destination.pace.hours = None;
        }
    }
    config
}

/// How long after a message without an id the same is a duplicate of it; none: never.
pub(crate) fn same_content(route: Option<&str>) -> Option<Duration> {
    (route == Some("line")).then_some(Duration::from_secs(40))
}

/// How one destination wants to be spoken to and understood; most want nothing.
fn draw_manner(destination: &mut Destination, rng: &mut Rng) {
    let second = Duration::from_secs(1);
    if let Some(rate) = pick(rng, &[None, None, Some(1), Some(20)]) {
        let rate = Rate::new(rate, second, format!("{rate}/s"));
        destination.pace.events = Some(rate);
    }
    if let Some(rate) = pick(rng, &[None, None, None, Some(2_000), Some(50_000)]) {
        let rate = Rate::new(rate, second, format!("{rate} B/s"));
        destination.pace.bytes = Some(rate);
    }
    let hours = ["22:00-06:00", "11:30-12:15"];
    if rng.below(4) == 0 {
        destination.pace.hours = Hours::parse(pick(rng, &hours)).ok();
    }
    for (key, word) in pick(rng, SAYINGS) {
        destination.classify.add(key, word).expect("a constant");
    }
    if rng.below(3) == 0 {
        destination.proof = Some(Proof {
            header: Some((ACK.to_owned(), Glob::new("*"))),
            ..Proof::default()
        });
    }
}

/// How much the events of a route matter.
pub(crate) fn priority(route: Option<&str>) -> u8 {
    match route {
        Some("door") => 3,
        Some("gate") => 2,
        Some(ATTIC) => 1,
        _ => USUAL_PRIORITY,
    }
}

/// The operator gives the route a destination that had none.
pub(crate) fn open_the_attic(config: &mut Config) {
    for route in &mut config.routes {
        if route.name == ATTIC {
            route.to = vec![ATTIC_TO.to_owned()];
        }
    }
}

/// One of `choices`.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    let index = rng.below(choices.len() as u64);
    choices[usize::try_from(index).expect("a small number")]
}
