//! A site with a route for every known kind of sender, and what its gateway made of what it got.

use std::collections::BTreeMap;
use std::fs;

use gatepost::config::Profiles;
use gatepost::event::{Event, Seq};
use gatepost::store::Store;
use serde_json::Value;

use crate::common::process::{Gateway, Site};
use crate::common::trace::{self, Call};
use crate::common::upstream::Upstream;
use crate::sample::Wanted;
use crate::sender::Sender;

/// What the route of a profile with its usual paths says besides.
const USUAL: &[(&str, &str)] = &[
    ("uniview", "options = { TimeZone = 7 }"),
    ("zkteco", "options = { TimeZone = 7, Delay = 10 }"),
];

/// Where samples go that do not use the usual paths: a name, a profile, a path, and what the route
/// says besides.
const OTHERS: &[[&str; 4]] = &[
    ["alarms", "hikvision", "/api/hikvision", ""],
    ["hik", "hikvision", "/hik", ""],
    ["acs", "hikvision-acs", "/hik/acs", ""],
    ["lpr", "milesight", "/api/events", ""],
    ["linecross", "raw", "/events/{*}", ""],
    ["hook", "json", "/hook", ""],
    ["esp", "esphome", "/", ""],
    ["spindel", "esphome", "/spindel", ""],
    [
        "sms",
        "json",
        "/sms",
        "event_time = [\"json:/receivedStamp\"]",
    ],
    ["onvif", "reolink-onvif", "/api/webhook/{device}", ""],
    ["lora", "chirpstack", "/lora", ""],
    ["pay1", "stripe", "/pay/stripe", ""],
    ["pay2", "adyen", "/pay/adyen", ""],
    ["pay3", "omise", "/pay/omise", ""],
    ["pay4", "gbprimepay", "/pay/gbp", ""],
    ["pay5", "paypal", "/pay/paypal", ""],
    ["gh", "github", "/gh", ""],
    [
        "bom",
        "json",
        "/bom",
        "device = [\"json:/value/0/subscriptionId\"]",
    ],
    ["lf", "json", "/lf", "event_id = [\"json:/id\"]"],
    ["java", "json", "/hook/java", "event_id = [\"json:/seq\"]"],
];

/// A running gateway, its folder, and where it delivers to.
pub(crate) struct Plant {
    pub(crate) site: Site,
    pub(crate) gateway: Gateway,
    pub(crate) upstream: Upstream,
    clock_certain: bool,
}

/// An event as it lies in the store.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) seq: Seq,
    pub(crate) event: Event,
    pub(crate) body: Vec<u8>,
}

impl Plant {
    /// Starts one.
    pub(crate) fn start() -> Self {
        Self::begin(Site::start_quietly)
    }

    /// Starts one of which [`trace`] reports.
    pub(crate) fn start_traced() -> Self {
        Self::begin(trace::start)
    }

    fn begin(start: fn(&Site) -> Gateway) -> Self {
        let upstream = Upstream::well();
        let site = Site::bare();
        fs::write(site.config(), configuration(&upstream.url())).expect("there is room");
        let gateway = start(&site);
        let clock_certain = site.json(&["status"])[0]["clock_certain"] == true;
        Self {
            site,
            gateway,
            upstream,
            clock_certain,
        }
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Sender {
        Sender::connect(self.gateway.address, self.clock_certain)
    }

    /// Whether the machine says that its clock is right.
    pub(crate) fn clock_certain(&self) -> bool {
        self.clock_certain
    }

    /// How many heartbeats, polls and handshakes were heard from each device, by route and device.
    pub(crate) fn signals(&self) -> BTreeMap<(String, String), u64> {
        let rows = self.site.json(&["devices"]);
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let all = rows.iter().map(|row| {
            let who = (text(row, "route"), text(row, "device"));
            (who, row["heartbeats"].as_u64().expect("a number"))
        });
        all.filter(|(_, count)| *count != 0).collect()
    }

    /// Stops the gateway, of which [`trace`] reports: what it asked of the kernel.
    pub(crate) fn end_traced(self) -> Vec<Call> {
        self.gateway.stop();
        trace::calls(&self.site)
    }

    /// Waits until the upstream has everything, stops the gateway, and reads what it has stored.
    /// Asserts that the upstream got each event once, with its bytes.
    pub(crate) fn end(self) -> Vec<Stored> {
        self.site.wait_until_empty();
        let received = self.upstream.received();
        self.gateway.stop();
        let stored = stored(&self.site);
        let deliverable = stored.iter().filter(|one| one.event.quarantine.is_none());
        let mut count = 0;
        for Stored { seq, event, body } in deliverable {
            let name = event.name(*seq);
            let end = format!("-{seq}\"");
            let of_it = received.iter().filter(|one| one.key().ends_with(&end));
            let of_it: Vec<_> = of_it.collect();
            assert_eq!(of_it.len(), 1, "{name}");
            assert_eq!(of_it[0].body, *body, "{name}");
            assert_eq!(of_it[0].name(), name);
            let content_type = event.header("content-type");
            let content_type = content_type.map(|text| String::from_utf8_lossy(text).into_owned());
            if content_type.is_some() {
                assert_eq!(
                    of_it[0].header("content-type"),
                    content_type.as_deref(),
                    "{name}"
                );
            }
            count += 1;
        }
        assert_eq!(received.len(), count, "nothing else was delivered");
        stored
    }
}

impl Stored {
    /// Asserts that it holds what was sent, to the byte.
    pub(crate) fn assert_is(&self, wanted: &Wanted, what: &str) {
        let Self { event, body, .. } = self;
        let headers = event.headers.iter();
        let found = Wanted {
            method: event.method.clone(),
            target: event.target.clone(),
            headers: headers
                .map(|header| (header.name.clone(), header.value.clone()))
                .collect(),
            body: body.clone(),
            closes: wanted.closes,
        };
        assert_eq!(found, *wanted, "{what}");
    }
}

/// All events of a store that nobody has open.
pub(crate) fn stored(site: &Site) -> Vec<Stored> {
    let path = site.data().join("events.redb");
    let store = Store::open_existing(&path).expect("nobody else has it open");
    let mut stored = Vec::new();
    loop {
        let next = stored.last().map_or(0, |last: &Stored| last.seq.0 + 1);
        let events = store.events_from(Seq(next), 100).expect("it can be read");
        if events.is_empty() {
            return stored;
        }
        for (seq, event) in events {
            let event = event.expect("it is whole");
            let body = store.body(seq, &event).expect("it can be read");
            let body = body.expect("it has not expired");
            stored.push(Stored { seq, event, body });
        }
    }
}

fn configuration(url: &str) -> String {
    let mut text = format!(
        "[ingest]\nlisten = [\"127.0.0.1:0\"]\n[store]\npath = \"data/events.redb\"\n\
         [[destination]]\nname = \"cloud\"\nurl = \"{url}\"\n"
    );
    let mut add = |profile: &str, says: &str| {
        let route = format!("[[route]]\nprofile = \"{profile}\"\nto = [\"cloud\"]\n{says}\n");
        text.push_str(&route);
    };
    for profile in Profiles::embedded().expect("they are right").names() {
        let says = USUAL.iter().find(|(name, _)| *name == profile);
        add(profile, says.map_or("", |(_, says)| says));
    }
    for [name, profile, path, says] in OTHERS {
        add(
            profile,
            &format!("name = \"{name}\"\npath = \"{path}\"\n{says}"),
        );
    }
    text
}
