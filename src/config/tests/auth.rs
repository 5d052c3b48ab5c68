//! What files say of who may send, and what their authors are told.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::auth::Scheme;

/// A folder with secrets and a configuration that has one route, whose keys begin on line 4.
fn load(keys: &str) -> Result<Config, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let files: [(&str, &[u8]); 7] = [
        ("secret", b"s3cr3t\n"),
        ("hex", b"00ff\n"),
        ("empty", b"\n"),
        ("users", b"a:s3cr3t\n"),
        ("words", b"two s3cr3t words\n"),
        ("open", b"s3cr3t\n"),
        (
            "pem",
            include_bytes!("../../../tests/certificates/paypal.pem"),
        ),
    ];
    for (name, bytes) in files {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        let mode = if name == "open" { 0o604 } else { 0o600 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
    }
    let config = folder.path().join("gatepost.toml");
    let text = format!("[[route]]\nname = \"r\"\npath = \"/r/{{key}}\"\n{keys}\n");
    fs::write(&config, text).expect("written");
    Config::load(&config)
}

/// What is wrong with the keys of a route, without where the files are.
fn problems(keys: &str) -> Vec<String> {
    let Err(Error::Wrong { path, problems }) = load(keys) else {
        unreachable!("{keys} is right")
    };
    let folder = format!("{}/", path.parent().expect("it has one").display());
    let shown = problems.iter().map(|Problem { line, text }| {
        assert!(!text.contains("s3cr3t"), "{text}");
        format!("{line}: {}", text.replace(&folder, ""))
    });
    shown.collect()
}

/// The keys of a route, and what is wrong with them.
type Row<'a> = (&'a str, &'a str);

const CALLERS: &[Row<'_>] = &[
    (
        "allow = []",
        "allow: the list is empty; leave it out to let in everybody",
    ),
    (
        "allow = [\"10.0.0.0/33\"]",
        "allow: \"10.0.0.0/33\" is no network; write \"10.0.0.0/8\", \"fe80::/10\" or one \
             address, in numbers",
    ),
    (
        "token = { file = \"secret\" }",
        "token: write one place where it is: header = \"X-Token\", query = \"token\" or \
             path = \"token\"",
    ),
    (
        "token = { header = \"A\", query = \"b\", file = \"secret\" }",
        "token: write one place where it is: header = \"X-Token\", query = \"token\" or \
             path = \"token\"",
    ),
    (
        "token = { header = \"X-Token\" }",
        "token: file is missing; it holds the tokens, one a line",
    ),
    (
        "token = { path = \"token\", file = \"secret\" }",
        "token: the path \"/r/{key}\" has no hole {token} for it",
    ),
    (
        "token = { query = \"t\", file = \"secret\" }\ndevice = [\"query:t + peer\"]",
        "token: device is read from query:t too, and is shown",
    ),
    (
        "token = { header = \"x-token\", file = \"secret\" }\nevent_id = [\"header:X-Token\"]",
        "token: event_id is read from header:x-token too, and is shown",
    ),
    (
        "token = { header = \"Authorization\", file = \"secret\" }\n\
             basic = { file = \"users\" }",
        "token: basic wants the header Authorization too",
    ),
    (
        "token = { query = \"t\", file = \"nowhere\" }",
        "token file: cannot read nowhere: No such file or directory (os error 2)",
    ),
    (
        "token = { query = \"t\", file = \"empty\" }",
        "token file: empty: it is empty; write a token into it, one a line",
    ),
    (
        "token = { query = \"t\", file = \"words\" }",
        "token file: words: line 1 is no token; one a line, of at most 1024 letters and \
             digits without blanks, is right",
    ),
    (
        "basic = {}",
        "basic: file is missing; it holds lines of user:password",
    ),
    (
        "basic = { file = \"secret\" }",
        "basic file: secret: line 1 has no \":\"; lines of user:password are right",
    ),
];

#[test]
fn what_is_wrong_with_who_may_send_is_named() {
    for (keys, expected) in CALLERS {
        let expected = format!("4: route \"r\" {expected}");
        assert_eq!(problems(keys), [expected], "{keys}");
    }
}

const SIGNATURES: &[Row<'_>] = &[
    (
        "file = \"secret\"",
        ": scheme is missing; it is one of: adyen, github, hmac, line, paypal, shopify, \
             standard-webhooks, stripe",
    ),
    (
        "scheme = \"md5\", file = \"secret\"",
        " scheme: \"md5\" is none of: adyen, github, hmac, line, paypal, shopify, \
             standard-webhooks, stripe",
    ),
    (
        "scheme = \"stripe\"",
        ": file is missing; without a secret nothing can be checked",
    ),
    (
        "scheme = \"stripe\", files = [\"secret\", \"empty\"]",
        " files: empty: it is empty; write the secret into it, one a line",
    ),
    (
        "scheme = \"adyen\", file = \"secret\"",
        " file: secret: line 1 is no secret in hexadecimal digits",
    ),
    (
        "scheme = \"standard-webhooks\", file = \"words\"",
        " file: words: line 1 is no secret in Base64, as \"whsec_…\" is",
    ),
    (
        "scheme = \"github\", file = \"secret\", tolerance = \"5m\"",
        " tolerance: signatures of this scheme do not say when they were made",
    ),
    (
        "scheme = \"stripe\", file = \"secret\", tolerance = \"10ms\"",
        " tolerance: \"10ms\" is too short; clocks are not that good",
    ),
    (
        "scheme = \"github\", file = \"secret\", header = \"X-Sig\"",
        " header: it belongs to scheme \"hmac\", not to github",
    ),
    (
        "scheme = \"stripe\", file = \"secret\", webhook_id = \"x\"",
        " webhook_id: it belongs to scheme \"paypal\", not to stripe",
    ),
    (
        "scheme = \"paypal\", file = \"pem\"",
        ": webhook_id is missing; PayPal shows it beside the webhook's URL, and signs it",
    ),
    (
        "scheme = \"paypal\", file = \"secret\", webhook_id = \"x\"",
        " file: secret: it has neither a certificate nor a public key in PEM; \
             \"-----BEGIN CERTIFICATE-----\" begins one",
    ),
    (
        "scheme = \"hmac\", file = \"secret\"",
        ": header is missing; write the one that has the signature",
    ),
    (
        "scheme = \"hmac\", file = \"secret\", header = \"X Sig\"",
        " header: \"X Sig\" is no header; its name is letters, digits and hyphens",
    ),
    (
        "scheme = \"hmac\", file = \"secret\", header = \"X-Sig\", algorithm = \"md5\"",
        " algorithm: \"md5\" is none of: sha1, sha256, sha512",
    ),
    (
        "scheme = \"hmac\", file = \"secret\", header = \"X-Sig\", encoding = \"text\"",
        " encoding: \"text\" is none of: hex, base64",
    ),
    (
        "scheme = \"hmac\", file = \"secret\", header = \"X-Sig\", secret = \"hex\"",
        " file: secret: line 1 is no secret in hexadecimal digits",
    ),
    (
        "scheme = \"hmac\", file = \"secret\", header = \"X-Sig\", signed = \"{id}{body}\"",
        " signed: \"{id}{body}\" has something in braces that is neither {timestamp} nor \
             {body}",
    ),
];

#[test]
fn what_is_wrong_with_a_signature_is_named() {
    for (keys, expected) in SIGNATURES {
        let keys = format!("signature = {{ {keys} }}");
        let expected = format!("4: route \"r\" signature{expected}");
        assert_eq!(problems(&keys), [expected], "{keys}");
    }
}

#[test]
fn what_is_asked_of_senders_is_as_it_is_written() {
    let rows: [(&str, &[&str]); 6] = [
        ("", &[]),
        (
            "allow = [\"10.0.0.0/8\", \"fe80::1\"]\ntoken = { path = \"key\", file = \"secret\" }\n\
             basic = { file = \"users\" }",
            &[
                "address in 10.0.0.0/8, fe80::1",
                "token in path {key}",
                "user and password",
            ],
        ),
        ("profile = \"github\"", &[]),
        (
            "profile = \"stripe\"\nsignature = { file = \"secret\", tolerance = \"10m\" }",
            &["signature stripe, at most 600 s old"],
        ),
        (
            "profile = \"paypal\"\nsignature = { file = \"pem\", webhook_id = \"1\" }",
            &["signature paypal"],
        ),
        (
            "signature = { scheme = \"hmac\", header = \"X-Sig\", prefix = \"sha1=\", \
             algorithm = \"sha1\", encoding = \"base64\", timestamp = \"X-Time\", \
             signed = \"v0:{timestamp}:{body}\", secret = \"hex\", files = [\"hex\", \"hex\"] }",
            &["signature hmac in X-Sig, at most 300 s old"],
        ),
    ];
    for (keys, expected) in rows {
        let config = load(keys).unwrap_or_else(|why| unreachable!("{why}"));
        assert_eq!(config.routes[0].auth.checks(), expected, "{keys}");
        assert!(!format!("{config:?}").contains("s3cr3t"));
    }
}

#[test]
fn a_secret_that_everybody_can_read_is_a_warning() {
    for (keys, what) in [
        ("token = { query = \"t\", file = \"open\" }", "token file"),
        (
            "signature = { scheme = \"github\", file = \"open\" }",
            "signature file",
        ),
    ] {
        let config = load(keys).unwrap_or_else(|why| unreachable!("{why}"));
        let [Problem { line: 4, text }] = config.warnings.as_slice() else {
            unreachable!("{:?}", config.warnings)
        };
        let begin = format!("route \"r\" {what}: every user of this machine can read ");
        assert!(
            text.starts_with(&begin) && text.contains("/open; chmod o= "),
            "{text}"
        );
    }
    let config = load("token = { query = \"t\", file = \"secret\" }");
    assert!(config.is_ok_and(|config| config.warnings.is_empty()));
}

#[test]
fn who_signs_and_is_not_checked_is_a_hint() {
    let rows = [
        (
            "profile = \"stripe\"",
            Some("route \"r\": its senders sign (stripe), and nobody checks"),
        ),
        (
            "profile = \"stripe\"\nsignature = { file = \"secret\" }",
            None,
        ),
        ("profile = \"zkteco\"", None),
    ];
    for (keys, expected) in rows {
        let config = load(keys).unwrap_or_else(|why| unreachable!("{why}"));
        let hints = config.hints();
        assert_eq!(hints.len(), usize::from(expected.is_some()), "{hints:?}");
        let begins = |begin| hints.iter().any(|hint| hint.starts_with(begin));
        assert!(expected.is_none_or(begins), "{hints:?}");
    }
}

/// Where the disk is not touched, nobody is let in.
#[test]
fn without_its_files_a_route_lets_nobody_in() {
    let text = "[[route]]\nname = \"r\"\npath = \"/r\"\nsignature = { scheme = \"stripe\", \
                file = \"x\" }\ntoken = { query = \"t\", file = \"x\" }\nbasic = { file = \"x\" }";
    let config = parse(text).unwrap_or_else(|why| unreachable!("{why}"));
    let auth = &config.routes[0].auth;
    assert_eq!(auth.checks().len(), 3);
    let signature = auth.signature.as_ref().expect("it has one");
    assert!(signature.is_checked() && signature.scheme == Scheme::Stripe);
}

#[test]
fn a_profile_says_how_senders_sign_and_no_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join(profiles::FOLDER);
    fs::create_dir(&own).expect("made");
    let head = "title = \"Own\"\nabout = \"Mine.\"\npaths = [\"/own\"]\n[route]\n";
    let config = folder.path().join("gatepost.toml");
    fs::write(folder.path().join("secret"), "s3cr3t").expect("written");
    let route = "[[route]]\nprofile = \"own\"\nsignature = { file = \"secret\" }\n";
    fs::write(&config, route).expect("written");
    let load = |keys: &str| {
        fs::write(own.join("own.toml"), format!("{head}{keys}\n")).expect("written");
        Config::load(&config)
    };
    let right = load("signature = { scheme = \"hmac\", header = \"X-Own\" }");
    let right = right.unwrap_or_else(|why| unreachable!("{why}"));
    assert_eq!(right.routes[0].auth.checks(), ["signature hmac in X-Own"]);
    for (keys, key) in [
        (
            "signature = { scheme = \"stripe\", file = \"x\" }",
            "signature.file",
        ),
        (
            "signature = { scheme = \"paypal\", webhook_id = \"x\" }",
            "signature.webhook_id",
        ),
        ("token = { query = \"t\" }", "token"),
        ("basic = { file = \"x\" }", "basic"),
        ("allow = [\"10.0.0.1\"]", "allow"),
    ] {
        let why = load(keys).expect_err(keys).to_string();
        let expected = format!("line 5: profile \"own\": {key} belongs to a [[route]]");
        assert!(why.contains(&expected), "{why}");
    }
}
