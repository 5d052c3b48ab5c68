//! Who may send: what a forger can do, and what it can't.

use crate::common::device::{Device, post};
use crate::common::process::{Plan, Site};
use crate::common::upstream::Upstream;

const BODY: &[u8] = br#"{"deviceId":"cam-7","eventId":"e-1","paid":100}"#;

/// Of `test-secret`, over [`BODY`]; checked with the hmac of Python.
const SIGNATURE: &str = "f90030c918da9641a4e86f108e11ea4d0844863cc2550f61ff3be91caec6585a";

fn send(device: &mut Device, target: &str, signature: &str, body: &[u8]) -> (u16, String) {
    let headers = format!("X-Hub-Signature-256: sha256={signature}\r\n");
    device.say(&post(target, &headers, body)).expect("it reads");
    let answer = device.hear().expect("it answers");
    (answer.status, answer.body)
}

/// What was forged is kept to the byte, and shown without the token it came with.
fn assert_quarantined(site: &Site, forged: &[u8]) {
    let quarantine = site.json(&["quarantine"]);
    let why: Vec<&str> = quarantine
        .iter()
        .filter_map(|row| row["why"].as_str())
        .collect();
    let wrong = "signature wrong";
    // The forged one came twice, with the same bytes.
    assert_eq!(why, [wrong, wrong, "token wrong"]);
    let seq = format!("#{}", quarantine[0]["seq"]);
    assert_eq!(site.body(&seq), forged);
    for row in &quarantine {
        let shown = site.succeed(&["show", &format!("#{}", row["seq"])]);
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(shown.contains("POST /ingest/door?key=***"), "{shown}");
    }
}

#[test]
fn a_forged_event_is_kept_and_not_sent_and_the_true_one_of_its_id_still_is() {
    let upstream = Upstream::well();
    let site = Site::bare();
    std::fs::write(site.file("secret"), "older\ntest-secret\n").expect("there is room");
    std::fs::write(site.file("token"), "t0ken\n").expect("there is room");
    let route = "signature = { scheme = \"github\", file = \"secret\" }\n\
                 token = { query = \"key\", file = \"token\" }\n";
    site.configure(
        &upstream,
        Plan {
            route,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    let forged = String::from_utf8_lossy(BODY).replace("100", "999");
    let door = "/ingest/door?key=t0ken";
    let refused = |why: &str| {
        let said = format!("{{\"received\":true,\"accepted\":false,\"reason\":\"{why}\"}}");
        (200, said)
    };
    let before = send(&mut device, door, SIGNATURE, forged.as_bytes());
    assert_eq!(before, refused("signature wrong"));
    let true_one = send(&mut device, door, SIGNATURE, BODY);
    let accepted = "{\"received\":true,\"accepted\":true,\"id\":\"e-1\"}".to_owned();
    assert_eq!(true_one, (202, accepted));
    // Now there is an event of that id, and a forger does not learn it.
    assert_eq!(
        send(&mut device, door, SIGNATURE, forged.as_bytes()),
        before
    );
    assert_eq!(send(&mut device, door, "00", BODY), before);
    let stranger = send(&mut device, "/ingest/door?key=t1ken", SIGNATURE, BODY);
    assert_eq!(stranger, refused("token wrong"));
    let again = send(&mut device, door, SIGNATURE, BODY);
    assert!(again.1.contains("\"duplicate\":true"), "{again:?}");
    let received = upstream.wait_for(1);
    site.wait_until_empty();
    assert_eq!(received[0].body, BODY);
    assert_eq!(upstream.received().len(), 1);

    assert_quarantined(&site, forged.as_bytes());
    let lines = gateway.log.lines().join("\n");
    for secret in ["t0ken", "t1ken", "test-secret", SIGNATURE] {
        assert!(!lines.contains(secret), "{lines}");
    }
    gateway.stop();
}

#[test]
fn a_route_for_testers_asks_for_the_password_that_is_missing() {
    let upstream = Upstream::well();
    let site = Site::bare();
    std::fs::write(site.file("users"), "u:pa55\n").expect("there is room");
    let route = "basic = { file = \"users\" }\nstatus = \"verdict\"\n";
    site.configure(
        &upstream,
        Plan {
            route,
            ..Plan::default()
        },
    );
    let gateway = site.start();
    let mut device = gateway.connect();
    let mut ask = |headers: &str| {
        let request = post("/ingest/door", headers, BODY);
        device.say(&request).expect("it reads");
        device.hear().expect("it answers")
    };
    let challenge = "\r\nWWW-Authenticate: Basic realm=\"gatepost\", charset=\"UTF-8\"\r\n";
    let answer = ask("");
    assert_eq!(answer.status, 401);
    assert!(answer.head.contains(challenge), "{}", answer.head);
    let answer = ask("Authorization: Basic dTpwYTU1\r\n");
    assert_eq!(answer.status, 202, "{answer:?}");
    assert!(!answer.head.contains("WWW-Authenticate"), "{}", answer.head);
    assert_eq!(upstream.wait_for(1)[0].body, BODY);
    assert_eq!(site.json(&["quarantine"]).len(), 1);
    gateway.stop();
}
