//! Requests that are signed and are `CloudEvents`, and the secrets that make them so.

use gatepost::sign::Secrets;

use crate::common::process::{Gateway, Plan, Site};
use crate::common::upstream::{Received, Reply, Upstream};

const OLD: &str = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

#[test]
fn a_signed_cloud_event_keeps_its_id_and_no_secret_is_ever_told() {
    let upstream = Upstream::start(|received| {
        let is_first = received.name() == "e-1" && received.attempt() == "1";
        let is_bad = received.name() == "bad" && received.header("x-gatepost-replayed").is_none();
        Reply::Status(match (is_first, is_bad) {
            (true, _) => 503,
            (_, true) => 422,
            _ => 202,
        })
    });
    let destination = "format = \"cloudevents\"\ntoken_file = \"token\"\n\
                       sign = { file = \"secret\", wait_for_clock = false }";
    let plan = Plan {
        destination,
        ..Plan::default()
    };
    let site = Site::new(&upstream, plan);
    let write = |name: &str, text: &str| {
        let new = site.file("new");
        std::fs::write(&new, text).expect("there is room");
        std::fs::rename(new, site.file(name)).expect("it is the same disk");
    };
    write("token", "t0ken-one\n");
    write("secret", &format!("whsec_{OLD}\n"));
    let gateway = Gateway::start(site.gateway(&[]).env("RUST_LOG", "trace"));
    let mut device = gateway.connect();
    device.deliver("cam 7", "e-1");
    upstream.wait_for(2);
    device.deliver("cam 7", "bad");
    gateway
        .log
        .wait_for("[event bad] dead letter for cloud: HTTP 422");
    write("token", "t0ken-two\n");
    let both = format!("whsec_{NEW}\nwhsec_{OLD}\n");
    write("secret", &both);
    site.succeed(&["replay", "bad"]);
    let received = upstream.wait_for(4);
    site.wait_until_empty();
    for one in &received[..3] {
        assert_whole(one, "t0ken-one", &format!("whsec_{OLD}\n"));
    }
    assert_whole(&received[3], "t0ken-two", &both);
    assert_eq!(received[0].key(), received[1].key());
    assert_eq!(received[2].key(), received[3].key());
    assert_ne!(received[0].key(), received[2].key());
    gateway
        .log
        .wait_for("[destination cloud] sign.file was replaced");
    assert_nothing_is_told(&site, &gateway.log.lines().join("\n"));
}

/// A `CloudEvent` of the device "cam 7", with that token and signed with those secrets.
fn assert_whole(one: &Received, token: &str, secrets: &str) {
    let secrets = Secrets::parse(secrets.as_bytes()).expect("they are");
    let id = one.header("webhook-id").unwrap_or_default();
    assert_eq!(format!("\"{id}\""), one.key());
    let time = one.header("webhook-timestamp").unwrap_or_default();
    let signed = secrets.signatures(id, time.parse().expect("seconds"), &one.body);
    let token = format!("Bearer {token}");
    let gateway = id.split('-').next().unwrap_or_default();
    let source = format!("{gateway}/door/cam%25207");
    for (name, value) in [
        ("webhook-signature", signed.as_str()),
        ("authorization", &token),
        ("ce-id", id),
        ("ce-specversion", "1.0"),
        ("ce-type", "gatepost.door"),
        ("ce-source", &source),
    ] {
        assert_eq!(one.header(name), Some(value), "{name}");
    }
}

/// Neither in the log nor by what an operator can ask.
fn assert_nothing_is_told(site: &Site, log: &str) {
    let mut told = log.to_owned();
    let config = site.config();
    let check = ["check", config.to_str().expect("text")];
    let checked = Site::command().args(check).output().expect("it runs");
    for text in [&checked.stdout, &checked.stderr] {
        told.push_str(&String::from_utf8_lossy(text));
    }
    assert!(told.contains(", as CloudEvents, with a bearer token, signed\n"));
    for command in ["status", "queue", "dead"] {
        told.push_str(&String::from_utf8_lossy(
            &site.succeed(&[command, "--json"]),
        ));
    }
    for secret in ["t0ken", OLD, NEW, "whsec_"] {
        assert!(!told.contains(secret), "{secret} is told");
    }
}
