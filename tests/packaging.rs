//! The files that an operator gets besides the program say what the program does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gatepost::config::{Config, Destination, Ingest, StoreConfig};
use gatepost::route::{Order, Require, Status};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).expect("it is in the repository")
}

fn parse(text: &str) -> Config {
    match Config::parse(text, Path::new("/etc/gatepost/gatepost.toml")) {
        Ok(config) => config,
        Err(error) => unreachable!("{error}"),
    }
}

#[test]
fn the_example_configuration_changes_nothing_as_it_stands() {
    let (example, empty) = (parse(&read("systemd/gatepost.toml")), parse(""));
    assert_eq!(format!("{example:?}"), format!("{empty:?}"));
}

#[test]
fn the_example_configuration_shows_the_defaults() {
    let uncommented = |line: &str| {
        let rest = line.strip_prefix('#').unwrap_or(line);
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let key = rest.split(" = ").next().unwrap_or_default();
        let is_key = key
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let is_written = rest.starts_with('[') || (is_key && rest.contains(" = "));
        if is_written {
            rest.to_owned()
        } else {
            String::new()
        }
    };
    let text = read("systemd/gatepost.toml");
    let lines: Vec<String> = text.lines().map(uncommented).collect();
    let config = parse(&lines.join("\n"));
    assert_eq!(config.ingest, Ingest::default());
    assert_eq!(config.store, StoreConfig::default());
    assert!(config.admin.is_some_and(|admin| admin.ip().is_loopback()));
    let [cloud] = config.destinations.as_slice() else {
        unreachable!("{:?}", config.destinations)
    };
    let minimal = parse("[[destination]]\nname = \"cloud\"\nurl = \"http://a\"");
    let expected = Destination {
        url: cloud.url.clone(),
        headers: cloud.headers.clone(),
        token_file: cloud.token_file.clone(),
        classify: cloud.classify.clone(),
        proof: cloud.proof.clone(),
        pace: cloud.pace.clone(),
        sign: cloud.sign.clone(),
        way: cloud.way.clone(),
        ..minimal.destinations[0].clone()
    };
    assert_eq!(*cloud, expected);
    assert!(cloud.sign.as_ref().is_some_and(|sign| sign.wait_for_clock));
    let (route, default) = (&config.routes[0], &minimal.routes[0]);
    assert_eq!(route.path, default.path);
    assert_eq!(route.event_id, default.event_id);
    assert_eq!(route.device, default.device);
    assert_eq!(route.require, Require::default());
    assert_eq!(
        (route.order, route.status),
        (Order::default(), Status::default())
    );
    let meaning = "ingest: /ingest/{*} -> cloud\nzkteco: /iclock/{*} (zkteco) -> cloud";
    assert_eq!(config.to_string(), meaning);
    assert_eq!(config.routes[1].answers.cases.len(), 1);
    assert_eq!(route.auth.checks().len(), 4);
    assert!(default.auth.checks().is_empty());
    assert_shown(&lines);
}

#[test]
fn the_unit_starts_again_unless_the_configuration_is_wrong() {
    let unit = read("systemd/gatepost.service");
    let lines: BTreeSet<&str> = unit.lines().collect();
    for line in [
        "Restart=always",
        "RestartPreventExitStatus=78",
        "StartLimitIntervalSec=0",
        "ExecStart=/usr/bin/gatepost run",
        "StateDirectory=gatepost",
        "User=gatepost",
    ] {
        assert!(lines.contains(line), "{line}");
    }
    assert!(
        !lines
            .iter()
            .any(|line| line.starts_with("After=network-online"))
    );
    assert!(Path::new(StoreConfig::PATH).starts_with("/var/lib/gatepost"));
    let sysusers = read("systemd/gatepost.sysusers");
    assert!(sysusers.lines().any(|line| line.starts_with("u gatepost ")));
}

#[test]
fn cross_knows_the_boards() {
    let file: toml::Table = match read("cross.toml").parse() {
        Ok(file) => file,
        Err(error) => unreachable!("{error}"),
    };
    assert_eq!(file.keys().collect::<Vec<_>>(), ["build", "target"]);
    let targets = file["target"].as_table().expect("it is a table");
    let expected = [
        "aarch64-unknown-linux-gnu",
        "aarch64-unknown-linux-musl",
        "arm-unknown-linux-gnueabihf",
        "arm-unknown-linux-musleabihf",
        "armv7-unknown-linux-gnueabihf",
        "armv7-unknown-linux-musleabihf",
    ];
    assert_eq!(
        targets.keys().collect::<BTreeSet<_>>(),
        BTreeSet::from(expected.map(str::to_owned).each_ref())
    );
}

/// Keys that an operator looks for.
fn assert_shown(lines: &[String]) {
    for key in [
        "listen",
        "max_body",
        "max_size",
        "keep_audit",
        "retry",
        "classify",
        "proof",
        "rate",
        "window",
        "format",
        "sign",
        "ca_file",
        "client_cert",
        "client_key",
        "proxy",
        "proxy_login_file",
        "status",
        "allow",
        "token",
        "basic",
        "signature",
        "require",
        "profile",
        "answer",
        "rejected",
        "options",
        "retries",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(key)),
            "{key} is shown"
        );
    }
}
