//! How a destination is signed for and reached, and what the author of a wrong file is told.

use super::parse;
use crate::config::*;

const EVERY_KEY: &str = r#"
[[destination]]
name = "a"
url = "HTTPS://a"
token_file = "a.token"
format = "cloudevents"
sign = { file = "a.secret" }
ca_file = "/etc/ssl/ours.pem"
client_cert = "a.pem"
client_key = "a.key"
proxy = "socks5://proxy.example:1080"
proxy_login_file = "a.login"
[[destination]]
name = "b"
url = "http://b"
format = "raw"
sign = { file = "b.secret", wait_for_clock = false }
proxy = "http://[::1]:3128/"
"#;

#[test]
fn every_key_of_the_way_is_heard_and_said_in_a_line() {
    let config = parse(EVERY_KEY).expect("it is right");
    let [a, b] = config.destinations.as_slice() else {
        unreachable!("{:?}", config.destinations)
    };
    assert_eq!((a.format, b.format), (Format::CloudEvents, Format::Raw));
    let sign = |file: &str, wait_for_clock| {
        Some(Sign {
            file: file.into(),
            wait_for_clock,
        })
    };
    assert_eq!(a.sign, sign("/etc/gatepost/a.secret", true));
    assert_eq!(b.sign, sign("/etc/gatepost/b.secret", false));
    let way = Way {
        ca_file: Some("/etc/ssl/ours.pem".into()),
        client: Some(ClientFiles {
            cert: "/etc/gatepost/a.pem".into(),
            key: "/etc/gatepost/a.key".into(),
        }),
        proxy: Some(Proxy {
            kind: ProxyKind::Socks5,
            host: "proxy.example".to_owned(),
            port: 1080,
            login_file: Some("/etc/gatepost/a.login".into()),
        }),
    };
    assert_eq!(a.way, way);
    assert_eq!(
        a.to_string(),
        "a: POST HTTPS://a, as CloudEvents, with a bearer token, signed once the clock is set, \
         with a client certificate, trusting /etc/ssl/ours.pem only, by proxy \
         socks5://proxy.example:1080"
    );
    let b = b.to_string();
    assert_eq!(b, "b: POST http://b, signed, by proxy http://[::1]:3128");
}

#[test]
fn what_is_wrong_with_the_way_is_named() {
    let rows: &[(&str, &str)] = &[
        ("sign = { file = \"\" }", "sign.file: the path is empty"),
        (
            "ca_file = \"a\"",
            "ca_file: the url is not https://, so it is never used",
        ),
        (
            "proxy_login_file = \"a\"",
            "proxy_login_file: there is no proxy to log in to",
        ),
        (
            "proxy = \"proxy:3128\"",
            "proxy: it begins with neither http:// nor socks5://; \
             write \"http://host:port\" or \"socks5://host:port\"",
        ),
        (
            "proxy = \"http://me:s3cret@proxy:3128\"",
            "proxy: it has a user or a password in it; put user:password into a file and name \
             that in proxy_login_file",
        ),
        (
            "format = \"cloudevents\"\nheaders = { Ce-Type = \"x\" }",
            "headers: \"Ce-Type\": format sets this header; leave one of them out",
        ),
        (
            "sign = { file = \"a\" }\nheaders = { webhook-id = \"x\" }",
            "headers: \"webhook-id\": sign sets this header; leave one of them out",
        ),
    ];
    for (text, message) in rows {
        let whole = format!("[[destination]]\nname = \"a\"\nurl = \"http://a\"\n{text}");
        let error = parse(&whole).err().map(|error| error.to_string());
        // A row of two keys is wrong in its second.
        let line = whole.lines().count();
        let expected =
            format!("/etc/gatepost/gatepost.toml: line {line}: destination \"a\" {message}");
        assert_eq!(error, Some(expected), "{text}");
    }
    for alone in ["client_cert", "client_key"] {
        let other = if alone == "client_cert" {
            "client_key"
        } else {
            "client_cert"
        };
        let text = format!("[[destination]]\nname = \"a\"\nurl = \"https://a\"\n{alone} = \"x\"");
        let error = parse(&text).err().map(|error| error.to_string());
        let why = format!("{alone}: {other} is missing; they go together");
        let expected = format!("/etc/gatepost/gatepost.toml: line 4: destination \"a\" {why}");
        assert_eq!(error, Some(expected));
    }
    for text in ["format = \"xml\"", "sign = { key = \"x\" }", "sign = {}"] {
        let text = format!("[[destination]]\nname = \"a\"\nurl = \"http://a\"\n{text}");
        assert!(matches!(parse(&text), Err(Error::Syntax { .. })), "{text}");
    }
}

#[test]
fn the_files_of_the_way_are_looked_into_when_the_file_is_loaded() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let path = folder.path().join("gatepost.toml");
    let named = folder.path().join("named");
    let no_certificate =
        "there is no PEM certificate in it, which begins with -----BEGIN CERTIFICATE-----";
    let no_key = "there is no PEM key in it, which begins with -----BEGIN PRIVATE KEY-----";
    let rows: &[(&str, &[u8], &str)] = &[
        (
            "sign.file",
            b"s3cret\n",
            "line 1 does not begin with whsec_",
        ),
        ("ca_file", b"\x30\x82\x01s3cret", no_certificate),
        (
            "ca_file",
            b"-----BEGIN PRIVATE KEY-----\ns3cret",
            no_certificate,
        ),
        ("client_key", b"-----BEGIN CERTIFICATE-----\ns3cret", no_key),
        (
            "client_key",
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\ns3cret",
            "the key in it is encrypted; decrypt it with `openssl pkey`",
        ),
        (
            "proxy_login_file",
            b"s3cret\n",
            "user:password in one line is right",
        ),
    ];
    let cert = folder.path().join("cert");
    std::fs::write(cert, "-----BEGIN CERTIFICATE-----").expect("the folder is ours");
    for (key, content, why) in rows {
        let more = if *key == "client_key" {
            "client_cert = \"cert\""
        } else {
            "proxy = \"http://proxy:3128\""
        };
        let start = "[[destination]]\nname = \"a\"\nurl = \"https://a\"";
        let text = format!("{start}\n{more}\n{key} = \"named\"\n");
        std::fs::write(&path, text).expect("the folder is ours");
        let load = || Config::load(&path).err().map(|error| error.to_string());
        let said = |why: &str| {
            let file = path.display();
            Some(format!("{file}: line 5: destination \"a\" {key}: {why}"))
        };
        let shown = named.display();
        let missing = format!("cannot read {shown}: No such file or directory (os error 2)");
        assert_eq!(load(), said(&missing), "{key}");
        std::fs::write(&named, content).expect("the folder is ours");
        assert_eq!(load(), said(&format!("{shown}: {why}")), "{key}");
        std::fs::remove_file(&named).expect("it is there");
    }
}
