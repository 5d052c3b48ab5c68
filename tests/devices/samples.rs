//! Every file of `tests/samples`, sent whole, in pieces, twice at once, and again on the same
//! connection: what is stored, forwarded, counted and answered is what its description says.

use std::collections::{BTreeMap, BTreeSet};

use gatepost::config::Profiles;
use gatepost::event::{Seq, name};
use gatepost::profile::{Body, Wording};
use serde_json::Value;

use crate::plant::{Plant, Stored};
use crate::sample::{Sample, Wanted, samples};
use crate::sender::{Heard, Sender};

/// Times for which the description has another form than the sender: two readings of one event,
/// where we take the one with a zone; and two fields, which a selector joins by a slash.
const TIMES: &[(&str, &str)] = &[
    ("08", "1772590561"),
    ("39", "04032026/091601"),
    ("41", "2026-03-04T02:16:01.204000000Z"),
];

/// Samples without an id that their profiles recognise by their bytes.
const BY_CONTENT: &[&str] = &["08", "09", "14", "15"];

/// Samples that are no events, and where each is counted: at which route, as whose.
const SIGNALS: &[(&str, &str, &str)] = &[
    ("06", "hik", "02:00:5e:10:00:31"),
    ("10", "dahua-itsapi", "b5f0c7de-0000-4000-8000-000000000042"),
    ("13", "zkteco", "TST7240100001"),
    ("17", "zkteco", "TST7240100001"),
    ("50", "hook", "peer:127.0.0.1"),
];

/// What senders were told, and so what must be there.
struct Ledger {
    profiles: Profiles,
    clock_certain: bool,
    /// What was acknowledged as new, in order.
    stored: Vec<(Sample, Wanted)>,
    /// The samples that were acknowledged.
    known: BTreeSet<String>,
    signals: BTreeMap<(String, String), u64>,
}

impl Sample {
    /// Whether it ends as nobody can acknowledge it: cut short, or not HTTP.
    fn is_hopeless(&self) -> bool {
        matches!(self.id.as_str(), "46" | "47")
    }

    /// Whether its body ends with the connection, or is absent for all that its head says.
    fn ends_by_closing(&self) -> bool {
        matches!(self.id.as_str(), "24" | "29" | "46")
    }

    fn clone(&self) -> Self {
        Self {
            id: self.id.clone(),
            wire: self.wire.clone(),
            says: self.says.clone(),
        }
    }
}

impl Ledger {
    fn new(plant: &Plant) -> Self {
        Self {
            profiles: Profiles::embedded().expect("they are right"),
            clock_certain: plant.clock_certain(),
            stored: Vec::new(),
            known: BTreeSet::new(),
            signals: BTreeMap::new(),
        }
    }

    /// Hears the answers to one copy of a sample. True if the connection is still good.
    fn hear(&mut self, sample: &Sample, sender: &mut Sender) -> bool {
        if sample.is_hopeless() {
            sender.is_closed(&sample.id);
            return false;
        }
        for request in sample.requests() {
            let heard = sender.hear(&sample.id);
            let is_known = !self.is_new(sample);
            self.note(sample, &request);
            self.check(sample, &heard, is_known);
            if request.closes {
                assert!(
                    heard.head.contains("\r\nConnection: close\r\n"),
                    "{heard:?}"
                );
                sender.is_closed(&sample.id);
                return false;
            }
        }
        true
    }

    /// Whether an event like this one must be taken as new.
    fn is_new(&self, sample: &Sample) -> bool {
        let is_known = self.known.contains(&sample.id);
        let by_content = BY_CONTENT.contains(&sample.id.as_str());
        !is_known || (sample.value("event_id").is_none() && !by_content)
    }

    /// Notes what was acknowledged.
    fn note(&mut self, sample: &Sample, request: &Wanted) {
        if !sample.is_event() {
            let signal = SIGNALS.iter().find(|(id, ..)| *id == sample.id);
            let (_, route, device) = signal.expect("each is listed");
            let who = ((*route).to_owned(), (*device).to_owned());
            *self.signals.entry(who).or_default() += 1;
        } else if self.is_new(sample) {
            self.known.insert(sample.id.clone());
            self.stored.push((sample.clone(), request.clone()));
        }
    }

    /// Asserts that an answer is what its description and its profile say.
    fn check(&self, sample: &Sample, heard: &Heard, is_known: bool) {
        let id = &sample.id;
        let wanted = &sample.says["expected_response"];
        assert_eq!(Some(u64::from(heard.status)), wanted["status"].as_u64());
        if let Some(content_type) = wanted["content_type"].as_str() {
            assert_eq!(heard.content_type, content_type, "{id}");
        }
        let body = wanted["body"].as_str().unwrap_or_default();
        match id.as_str() {
            "11" => self.check_time(body, &heard.body),
            _ if !body.is_empty() => assert_eq!(heard.body, body, "{id}"),
            _ => self.check_words(sample, heard, is_known),
        }
    }

    /// Two answers that are alike but for the time, which is there only while the clock is right.
    fn check_time(&self, wanted: &str, found: &str) {
        let without = |text: &str| match text.split_once(",\"Time\":\"") {
            Some((before, after)) => {
                let rest = after.split_once('"').expect("a text ends").1;
                (format!("{before}{rest}"), true)
            }
            None => (text.to_owned(), false),
        };
        assert_eq!(without(found), (without(wanted).0, self.clock_certain));
    }

    /// Where nothing in particular must be heard, it is what the profile says, or our own words.
    fn check_words(&self, sample: &Sample, heard: &Heard, is_known: bool) {
        let id = &sample.id;
        let profile = profile_of(sample);
        let profile = self.profiles.iter().find(|one| one.name == profile);
        let says = &profile.expect("there is one").route.answers.accepted;
        if let Some(Wording {
            text: Some((content_type, Body::Fixed(body))),
            ..
        }) = says
        {
            let found = (&heard.content_type, &heard.body);
            return assert_eq!(found, (content_type, body), "{id}");
        }
        let body: Value = serde_json::from_str(&heard.body).expect("it is JSON");
        let seq = Seq(self.stored.len() as u64 - 1);
        let mut wanted = serde_json::json!({
            "received": true, "accepted": true, "id": name(sample.value("event_id"), seq),
        });
        if is_known {
            wanted["duplicate"] = Value::Bool(true);
        }
        assert_eq!(body, wanted, "{id}");
    }

    /// Asserts that the gateway has what was acknowledged, and nothing else.
    fn settle(self, plant: Plant) {
        assert_eq!(plant.signals(), self.signals);
        let stored = plant.end();
        assert_eq!(stored.len(), self.stored.len());
        for (found, (sample, request)) in stored.iter().zip(&self.stored) {
            found.assert_is(request, &sample.id);
            assert_read(found, sample);
        }
    }
}

/// The profile of a sample, by where it is sent to.
fn profile_of(sample: &Sample) -> &'static str {
    match sample.id.as_str() {
        "01" | "03" | "06" => "hikvision",
        "04" => "hikvision-acs",
        "08" => "dahua",
        "21" => "viewtron",
        "23" => "milesight",
        "24" => "raw",
        "25" => "unifi-protect",
        "26" => "shelly",
        "29" | "30" => "esphome",
        "32" => "reolink-onvif",
        "33" => "chirpstack",
        "35" => "stripe",
        "37" => "omise",
        "39" => "gbprimepay",
        "40" => "github",
        "41" => "shopify",
        "43" => "paypal",
        _ => "json",
    }
}

/// Asserts that the ids of an event are those of its description.
fn assert_read(found: &Stored, sample: &Sample) {
    let (id, event) = (&sample.id, &found.event);
    assert_eq!(event.event_id.as_deref(), sample.value("event_id"), "{id}");
    if sample.value("device_id").is_some() {
        assert_eq!(event.device.as_deref(), sample.value("device_id"), "{id}");
    }
    let time = TIMES.iter().find(|(of, _)| of == id).map(|(_, time)| *time);
    let time = time.or(sample.value("event_time"));
    assert_eq!(event.event_time.as_deref(), time, "{id}");
    let items = sample.says["events_in_request"].as_u64();
    let items = items.filter(|items| *items != 1);
    assert!(items.is_none() || event.items == items, "{id} {event:?}");
    assert_eq!(
        (&event.quarantine, event.revision_of),
        (&None, None),
        "{id}"
    );
}

/// Asserts that an operator is shown the same.
fn assert_shown(plant: &Plant, seq: usize, sample: &Sample, request: &Wanted) {
    let id = format!("#{seq}");
    let shown = &plant.site.json(&["show", &id])[0];
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = request.headers.iter();
    let headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.clone(), text(value)))
        .collect();
    let wanted = serde_json::json!({
        "method": request.method,
        "target": text(&request.target),
        "headers": headers,
        "bytes": request.body.len(),
        "event_id": sample.value("event_id"),
        "quarantine": null,
    });
    for (key, value) in wanted.as_object().expect("it is one") {
        assert_eq!(shown[key], *value, "{} {key}", sample.id);
    }
}

#[test]
fn every_sample_is_taken_whole_and_its_repetition_recognised() {
    let plant = Plant::start();
    let mut ledger = Ledger::new(&plant);
    for sample in samples() {
        for repeated in [false, true] {
            let mut sender = plant.connect();
            sender.say(&sample.wire);
            // That an empty one is empty is also found out by waiting.
            if sample.ends_by_closing() && (repeated || sample.id != "24") {
                sender.end();
            }
            ledger.hear(&sample, &mut sender);
        }
    }
    // A process for each takes its time, and the store is looked at below.
    for (index, (sample, request)) in ledger.stored.iter().enumerate().step_by(3) {
        assert_shown(&plant, index, sample, request);
    }
    ledger.settle(plant);
}

#[test]
fn every_sample_is_taken_in_pieces_of_one_to_seven_bytes() {
    let plant = Plant::start();
    let mut ledger = Ledger::new(&plant);
    for (number, sample) in samples().into_iter().enumerate() {
        // One by one, then one to seven.
        for most in [1, 7] {
            let mut sender = plant.connect();
            sender.drip(&sample.wire, (1..=most).cycle().skip(number));
            if sample.ends_by_closing() {
                sender.end();
            }
            ledger.hear(&sample, &mut sender);
        }
    }
    ledger.settle(plant);
}

/// A sender that wants its connection closed after the first gets no answer to the second, and
/// nothing is kept of it.
#[test]
fn two_copies_of_a_sample_that_come_at_once_are_two_requests() {
    let plant = Plant::start();
    let mut ledger = Ledger::new(&plant);
    for sample in samples() {
        if sample.is_hopeless() || sample.ends_by_closing() {
            continue;
        }
        let mut sender = plant.connect();
        sender.say(sample.wire.repeat(2));
        if ledger.hear(&sample, &mut sender) {
            ledger.hear(&sample, &mut sender);
        }
    }
    ledger.settle(plant);
}

#[test]
fn a_connection_that_stays_open_is_used_again_and_again() {
    let plant = Plant::start();
    let mut ledger = Ledger::new(&plant);
    let mut sender = plant.connect();
    for _ in 0..3 {
        for sample in samples() {
            if sample.is_hopeless() || sample.ends_by_closing() {
                continue;
            }
            sender.say(&sample.wire);
            if !ledger.hear(&sample, &mut sender) {
                sender = plant.connect();
            }
        }
    }
    ledger.settle(plant);
}
