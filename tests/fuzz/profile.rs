//! Arbitrary requests to all known kinds of senders: whatever comes, whoever sent it hears 2xx and
//! some words, and what is computed for it is what its kind can read.

#![no_main]

mod growth;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use gatepost::clock::{Moment, Reading, Timestamp};
use gatepost::commit::Done;
use gatepost::config::{Config, Profiles};
use gatepost::event::{Request, Seq};
use gatepost::http::Answer;
use gatepost::ingest::{Admitted, Intake, answer};
use gatepost::profile::{Computed, Facts, Wording};
use gatepost::route::Routes;
use libfuzzer_sys::fuzz_target;

/// One intake for all profiles on their usual paths, and one for each on any path.
static INTAKES: LazyLock<Vec<Intake>> = LazyLock::new(|| {
    let profiles = Profiles::embedded().expect("a test reads them");
    let names: Vec<&str> = profiles
        .iter()
        .map(|profile| profile.name.as_str())
        .collect();
    let usual = names
        .iter()
        .map(|name| format!("[[route]]\nprofile = \"{name}\"\n"));
    let any = |name: &&str| format!("[[route]]\nprofile = \"{name}\"\npath = \"/{{*}}\"\n");
    let texts = std::iter::once(usual.collect()).chain(names.iter().map(any));
    texts.map(|text: String| intake(&text)).collect()
});

fn intake(text: &str) -> Intake {
    let config = Config::parse(text, Path::new("gatepost.toml")).expect("it is right");
    let routes = Routes::new(config.routes).expect("the paths differ");
    Intake::new(routes, BTreeMap::new(), 1)
}

fuzz_target!(|data: &[u8]| {
    let chance = growth::chance(data);
    let Some(request) = gatepost::http::fuzz::request(data) else {
        return;
    };
    let received = Reading {
        wall: Timestamp::from_ms(chance.cast_signed() >> (chance % 32)),
        certain: chance & 1 == 0,
        uptime_ms: 0,
    };
    let one = 1 + (chance >> 8) as usize % (INTAKES.len() - 1);
    for intake in [&INTAKES[0], &INTAKES[one]] {
        ask(intake, &request, received);
    }
    compute(&request, received, &chance.to_string());
    growth::is_linear(&request.body, chance, |body| {
        let request = Request {
            body: body.to_vec(),
            ..request.clone()
        };
        ask(&INTAKES[one], &request, received);
    });
});

fn ask(intake: &Intake, request: &Request, received: Reading) {
    match intake.admit(request.clone(), received, Moment::START) {
        Admitted::Answer(answer) => is_an_answer(&answer),
        Admitted::Event(admission, promise) => {
            assert!(request.body.starts_with(&admission.body));
            for done in [Done::Stored(Seq(7)), Done::Duplicate(Seq(7))] {
                is_an_answer(&answer(&promise, Some(&done)));
            }
            assert_eq!(answer(&promise, Some(&Done::Full)).status, 503);
        }
    }
}

fn is_an_answer(answer: &Answer) {
    assert!(
        (200..300).contains(&answer.status) && answer.status != 204,
        "{answer:?}"
    );
    assert!(!answer.body.is_empty(), "{answer:?}");
    assert!(
        answer
            .content_type
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte))
    );
    if answer.content_type.contains("json") {
        let tree: Result<serde_json::Value, _> = serde_json::from_slice(&answer.body);
        assert!(tree.is_ok(), "{}", String::from_utf8_lossy(&answer.body));
    }
}

/// Each computed answer to any request, and with any time zone.
fn compute(request: &Request, received: Reading, number: &str) {
    let zones = ["7", "-3:30", "+14:59", "x", number];
    for (zone, (name, computed)) in zones.iter().zip(Computed::ALL.into_iter().cycle()) {
        let options = BTreeMap::from([("TimeZone".to_owned(), (*zone).to_owned())]);
        let facts = Facts {
            request,
            received,
            options: &options,
        };
        let body = gatepost::profile::Body::Computed(computed);
        let wording = Wording {
            status: 200,
            text: Some(("text/plain".to_owned(), body)),
        };
        let (_, said) = wording.say(&facts).text.expect("it has a body");
        assert!(!said.is_empty(), "{name}");
        if name.starts_with("uniview") {
            let tree: Result<serde_json::Value, _> = serde_json::from_str(&said);
            assert!(tree.is_ok(), "{name}: {said}");
        }
    }
}
