//! What files and flags mean.

mod auth;
mod messages;
mod way;

use super::*;
use crate::route::{Order, Status};

const EXAMPLE: &str = r#"
[ingest]
listen = ["0.0.0.0:8080"]
max_body = "16 MiB"
[store]
path = "/var/lib/gatepost/events.redb"
max_size = "2 GiB"
keep_delivered = "24h"
keep_audit = "30d"
[admin]
listen = "127.0.0.1:8081"
[[destination]]
name = "cloud"
url = "https://api.example.com/events"
workers = 8
timeout = "30s"
headers = { X-Site = "plant-7" }
token_file = "/etc/gatepost/cloud.token"     # sent as a bearer token
retry = { first = "1s", max = "5m", jitter = 0.2, max_attempts = 10 }
[[route]]
name = "door"
path = "/ingest/device-event"
event_id = ["json:/eventId"]
device = ["json:/deviceId"]
require = ["event_id", "device"]
order = "device"
to = ["cloud"]
"#;

fn parse(text: &str) -> Result<Config, Error> {
    Config::parse(text, Path::new("/etc/gatepost/gatepost.toml"))
}

#[test]
fn the_example_means_what_it_says_and_so_do_the_defaults() {
    let config = parse(EXAMPLE).expect("the example is right");
    let listen: SocketAddr = "0.0.0.0:8080".parse().expect("it is an address");
    assert_eq!(config.ingest.listen, [listen]);
    assert_eq!(config.ingest.max_body, Ingest::default().max_body);
    assert_eq!(config.store, StoreConfig::default());
    assert_eq!(config.admin, "127.0.0.1:8081".parse().ok());
    let url = "https://api.example.com/events".to_owned();
    let mut cloud = Destination::new("cloud".to_owned(), url);
    cloud.headers = vec![("X-Site".to_owned(), "plant-7".to_owned())];
    cloud.token_file = Some("/etc/gatepost/cloud.token".into());
    assert_eq!(config.destinations, [cloud]);
    let [route] = config.routes.as_slice() else {
        unreachable!("{:?}", config.routes)
    };
    assert_eq!(route.name, "door");
    assert_eq!(
        route.event_id,
        [Selector::parse("json:/eventId").expect("is one")]
    );
    assert_eq!(
        route.device,
        [Selector::parse("json:/deviceId").expect("is one")]
    );
    assert!(route.require.event_id && route.require.device);
    assert_eq!(
        (route.order, route.status),
        (Order::Device, Status::Received)
    );
    assert_eq!(config.to_string(), "door: /ingest/device-event -> cloud");
}

#[test]
fn an_empty_file_listens_stores_and_holds() {
    for text in ["", "\u{feff}", "[ingest]\n[store]\n[admin]\n"] {
        let config = parse(text).expect("it is right");
        assert_eq!(config.ingest, Ingest::default(), "{text}");
        assert_eq!(config.store, StoreConfig::default(), "{text}");
        assert_eq!(config.admin, None, "{text}");
        assert_eq!(
            config.to_string(),
            "ingest: /ingest/{*} -> held (no destination)",
            "{text}"
        );
        assert_eq!(config.routes[0].require, Require::default(), "{text}");
    }
}

#[test]
fn a_file_without_routes_leads_to_all_its_destinations() {
    let config = parse(
        "[[destination]]\nname = \"a\"\nurl = \"http://a\"\n\
         [[destination]]\nname = \"b\"\nurl = \"http://b\"\n",
    )
    .expect("it is right");
    assert_eq!(config.to_string(), "ingest: /ingest/{*} -> a, b");
}

const EVERY_KEY: &str = r#"
[ingest]
listen = ["127.0.0.1:0", "[::1]:0"]
max_body = 1000
[store]
path = "data/e.redb"
max_size = "4 kB"
keep_delivered = "0s"
keep_audit = "250ms"
when_full = "shed-lowest-priority"
[[destination]]
name = "a"
url = "http://a"
workers = 256
timeout = "5m"
headers = { Authorization = "Basic eA==" }
retry = { first = "2s", max = "2s", jitter = 0, max_attempts = 1 }
classify = { 404 = "dead", 5xx = "hold" }
proof = { status = [200], header = { name = "X-Ack", value = "*" }, body = "ok" }
rate = { events = "50/s", bytes = "200 KiB/s" }
window = "22:00-06:00"
[[destination]]
name = "b"
url = "http://b"
token_file = "b.token"
[[route]]
name = "r"
path = "/r/{device}"
require = []
order = "none"
status = "verdict"
to = ["b", "a"]
[[route]]
name = "s"
path = "/r/{*}"
order = "route"
priority = 9
schema = "s.json"
"#;

#[test]
fn every_key_is_heard() {
    let config = parse(EVERY_KEY).expect("it is right");
    assert_eq!(config.ingest.listen.len(), 2);
    assert_eq!(config.ingest.max_body, 1_000);
    let store = StoreConfig {
        path: "/etc/gatepost/data/e.redb".into(),
        max_size: 4_000,
        keep_delivered: Duration::ZERO,
        keep_audit: Duration::from_millis(250),
        when_full: WhenFull::ShedLowestPriority,
    };
    assert_eq!(config.store, store);
    let [a, b] = config.destinations.as_slice() else {
        unreachable!("{:?}", config.destinations)
    };
    assert_eq!((a.workers, a.timeout), (256, Duration::from_secs(300)));
    let retry = RetryPolicy {
        first: Duration::from_secs(2),
        max: Duration::from_secs(2),
        jitter: 0.0,
        max_attempts: 1,
    };
    assert_eq!(a.retry, retry);
    let shown = [
        a.classify.to_string(),
        a.proof.as_ref().expect("there is one").to_string(),
        a.pace.to_string(),
    ];
    assert_eq!(
        shown,
        [
            "404 is dead, 5xx is hold",
            "status 200 and header X-Ack = \"*\" and \"ok\" in the body",
            "at most 50/s and 200 KiB/s, only 22:00-06:00",
        ]
    );
    assert_eq!(
        a.headers,
        [("Authorization".to_owned(), "Basic eA==".to_owned())]
    );
    assert_eq!(b.token_file, Some("/etc/gatepost/b.token".into()));
    let [r, s] = config.routes.as_slice() else {
        unreachable!("{:?}", config.routes)
    };
    assert_eq!((r.order, r.status), (Order::None, Status::Verdict));
    assert_eq!((s.order, s.priority), (Order::Route, 9));
    assert_eq!(
        config.to_string(),
        "r: /r/{device} -> b, a\ns: /r/{*} -> held (no destination)"
    );
}

#[test]
fn a_token_file_is_read_when_the_file_is_loaded() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let path = folder.path().join("gatepost.toml");
    let token = folder.path().join("a.token");
    let text = "[[destination]]\nname = \"a\"\nurl = \"http://a\"\ntoken_file = \"a.token\"\n";
    std::fs::write(&path, text).expect("the folder is ours");
    let shown = token.display();
    let rows: [(Option<&[u8]>, String); 4] = [
        (
            None,
            format!("cannot read {shown}: No such file or directory (os error 2)"),
        ),
        (Some(b" \n"), format!("{shown} is empty")),
        (
            Some(b"one\ntwo\n"),
            format!("{shown} holds more than a token; one line of ASCII without blanks is right"),
        ),
        (Some(b"s3cr3t\n"), String::new()),
    ];
    for (content, why) in rows {
        if let Some(content) = content {
            std::fs::write(&token, content).expect("the folder is ours");
        }
        match Config::load(&path) {
            Ok(config) => {
                assert_eq!(why, "");
                assert_eq!(config.destinations[0].token_file.as_ref(), Some(&token));
            }
            Err(error) => assert_eq!(
                error.to_string(),
                format!(
                    "{}: line 4: destination \"a\" token_file: {why}",
                    path.display()
                )
            ),
        }
    }
    assert_eq!(read_token(&token), Ok("s3cr3t".to_owned()));
}

#[test]
fn flags_suffice_without_a_file() {
    let config = Config::from_flags(None, None, None).expect("nothing is wrong");
    assert_eq!(config.ingest, Ingest::default());
    assert_eq!(config.store.path, Path::new("gatepost-data/events.redb"));
    assert_eq!(config.admin, None);
    assert_eq!(
        config.to_string(),
        "ingest: /ingest/{*} -> held (no destination)"
    );
    let route = &config.routes[0];
    assert!(route.require.event_id && route.require.device);
    let texts = |list: &[Selector]| list.iter().map(Selector::to_string).collect::<Vec<_>>();
    assert_eq!(
        texts(&route.event_id),
        ["json:/eventId", "header:x-event-id"]
    );
    assert_eq!(
        texts(&route.device),
        ["json:/deviceId", "header:x-device-id"]
    );

    let (listen, data) = (Some("0.0.0.0:80"), Some(Path::new("/data")));
    let config = Config::from_flags(listen, data, Some("http://127.0.0.1:9000/events"))
        .expect("nothing is wrong");
    assert_eq!(
        config.ingest.listen,
        ["0.0.0.0:80".parse().expect("it is an address")]
    );
    assert_eq!(config.store.path, Path::new("/data/events.redb"));
    assert_eq!(config.to_string(), "ingest: /ingest/{*} -> upstream");
    assert_eq!(config.destinations[0].url, "http://127.0.0.1:9000/events");
}

#[test]
fn flags_beside_a_file_override_what_they_name() {
    let file = || parse(EXAMPLE).expect("the example is right");
    let config = file()
        .with_overrides(None, None, None)
        .expect("nothing is wrong");
    assert_eq!(config.store, StoreConfig::default());

    let config = file()
        .with_overrides(Some("[::1]:0"), Some(Path::new("d")), Some("http://b/"))
        .expect("nothing is wrong");
    assert_eq!(
        config.ingest.listen,
        ["[::1]:0".parse().expect("it is an address")]
    );
    assert_eq!(config.store.path, Path::new("d/events.redb"));
    let [cloud] = config.destinations.as_slice() else {
        unreachable!("{:?}", config.destinations)
    };
    assert_eq!(
        (cloud.name.as_str(), cloud.url.as_str()),
        ("cloud", "http://b/")
    );
    assert_eq!(cloud.headers.len(), 1);

    let config = parse("")
        .and_then(|config| config.with_overrides(None, None, Some("http://b/")))
        .expect("nothing is wrong");
    assert_eq!(config.to_string(), "ingest: /ingest/{*} -> upstream");
}

#[test]
fn wrong_flags_are_named() {
    let several = parse(
        "[[destination]]\nname = \"a\"\nurl = \"http://a\"\n\
         [[destination]]\nname = \"b\"\nurl = \"http://b\"\n",
    )
    .expect("it is right");
    let error = several
        .with_overrides(Some("localhost:80"), None, Some("http://c"))
        .expect_err("both are wrong");
    assert_eq!(
        error.to_string(),
        "--listen: \"localhost:80\" is not an address with a port; \
         write numbers, as in \"0.0.0.0:8080\" or \"[::1]:8080\", no host names\n\
         --forward-to: the file has several destinations, a, b; change the url there"
    );
    let error = Config::from_flags(None, None, Some("upstream:9000")).expect_err("it is no URL");
    assert_eq!(
        error.to_string(),
        "--forward-to: the url begins with neither http:// nor https://"
    );
    let example = parse(EXAMPLE).expect("the example is right");
    let error = example
        .with_overrides(Some("0.0.0.0:8081"), None, None)
        .expect_err("the admin server is there");
    assert_eq!(
        error.to_string(),
        "--listen: 0.0.0.0:8081 for devices and 127.0.0.1:8081 for the admin server \
         are the same port; choose another"
    );
}

#[test]
fn urls_with_hosts_of_any_form_are_right() {
    for url in [
        "http://a",
        "HTTPS://API.example.com/x?y=z",
        "http://[::1]:9000/",
        "http://10.0.0.7:65535",
    ] {
        assert_eq!(check::url(url), Ok(()), "{url}");
    }
    for url in [
        "http://",
        "http://:80",
        "http://[::1",
        "http://[::1]x",
        "http://a:b",
        "http://a:",
    ] {
        assert!(check::url(url).is_err(), "{url}");
    }
}
