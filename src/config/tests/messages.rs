//! What the author of a wrong file is told.

use super::parse;
use crate::config::*;

/// The problems of a wrong file, as `line: text`.
fn problems(text: &str) -> Vec<String> {
    match parse(text) {
        Err(Error::Wrong { problems, .. }) => problems
            .iter()
            .map(|problem| format!("{}: {}", problem.line, problem.text))
            .collect(),
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_would_be_right() {
    let rows: &[(&str, &str)] = &[
        (
            "[ingest]\nlisten = []",
            "2: [ingest] listen: the list is empty; write [\"127.0.0.1:8080\"]",
        ),
        (
            "[ingest]\nlisten = [\n\"0.0.0.0:80\",\n\"localhost:8080\"]",
            "4: [ingest] listen: \"localhost:8080\" is not an address with a port; \
             write numbers, as in \"0.0.0.0:8080\" or \"[::1]:8080\", no host names",
        ),
        (
            "[ingest]\nlisten = [\"0.0.0.0:80\", \"0.0.0.0:80\"]",
            "2: [ingest] listen: 0.0.0.0:80 is there twice",
        ),
        (
            "[ingest]\nmax_body = \"65 MiB\"",
            "2: [ingest] max_body: \"65 MiB\" is not between 1 B and 64 MiB",
        ),
        (
            "[ingest]\nmax_body = 0",
            "2: [ingest] max_body: 0 is not between 1 B and 64 MiB",
        ),
        (
            "[ingest]\nmax_body = \"16 MB/s\"",
            "2: [ingest] max_body: \"16 MB/s\" is not a size; \
             write it as \"16 MiB\", \"500 kB\" or a number of bytes",
        ),
        (
            "[store]\nmax_size = \"63 MiB\"",
            "2: [store] max_size: \"63 MiB\" is too small; \
             it must be at least 4 times max_body, 67108864 B",
        ),
        (
            "[store]\nkeep_audit = 30",
            "2: [store] keep_audit: 30 is not a duration; \
             write it as \"250ms\", \"30s\", \"5m\", \"24h\" or \"30d\"",
        ),
        ("[store]\npath = \"\"", "2: [store] path: the path is empty"),
        (
            "[store]\npath = \"/data/\"",
            "2: [store] path: \"/data/\" is a folder; write \"/data/events.redb\"",
        ),
        (
            "[admin]\nlisten = \"0.0.0.0:8081\"",
            "2: [admin] listen: 0.0.0.0:8081 is not a loopback address, and this server must not \
             meet strangers; write \"127.0.0.1:8081\" and reach it from elsewhere with \
             `ssh -L 8081:127.0.0.1:8081 box`",
        ),
        (
            "[ingest]\nlisten = [\"0.0.0.0:8081\"]\n[admin]\nlisten = \"127.0.0.1:8081\"",
            "4: [admin] listen: 0.0.0.0:8081 for devices and 127.0.0.1:8081 for the admin server \
             are the same port; choose another",
        ),
    ];
    for (text, message) in rows {
        assert_eq!(problems(text), [*message], "{text}");
    }
}

#[test]
fn what_is_wrong_with_a_destination_is_named() {
    let rows: &[(&str, &str)] = &[
        (
            "url = \"http://a\"",
            "1: destination 1: name is missing; the log and the commands need one",
        ),
        (
            "name = \"a b\"\nurl = \"http://a\"",
            "2: destination name: \"a b\" is not 1 to 64 letters, digits, \"-\" and \"_\"",
        ),
        (
            "name = \"a\"\nurl = \"http://a\"\n[[destination]]\nname = \"a\"\nurl = \"http://b\"",
            "5: destination name: \"a\" is taken, see line 2",
        ),
        (
            "name = \"a\"",
            "1: destination \"a\": url is missing; write where its events are sent to",
        ),
        (
            "name = \"a\"\nurl = \"ftp://a\"",
            "3: destination \"a\" url: the url begins with neither http:// nor https://",
        ),
        (
            "name = \"a\"\nurl = \"http://user:secret@a/x\"",
            "3: destination \"a\" url: the url has a user or a password in it; \
             put a token into a file and name that in token_file",
        ),
        (
            "name = \"a\"\nurl = \"https:///x\"",
            "3: destination \"a\" url: \"https:///x\" has no host",
        ),
        (
            "name = \"a\"\nurl = \"http://a:0/\"",
            "3: destination \"a\" url: \"http://a:0/\" has no valid port, 1 to 65535",
        ),
        (
            "name = \"a\"\nurl = \"http://a/x y\"",
            "3: destination \"a\" url: \"http://a/x y\" has blanks or letters that are not ASCII; \
             write them percent-encoded",
        ),
        (
            "name = \"a\"\nurl = \"http://a/#top\"",
            "3: destination \"a\" url: \"http://a/#top\" has a \"#\"; \
             what follows it is never sent, leave it out",
        ),
    ];
    for (text, message) in rows {
        let text = format!("[[destination]]\n{text}");
        assert_eq!(problems(&text), [*message], "{text}");
    }
}

#[test]
fn what_is_wrong_with_how_a_destination_is_served_is_named() {
    let rows: &[(&str, &str)] = &[
        ("workers = 0", "workers: 0 is not between 1 and 256"),
        ("workers = 257", "workers: 257 is not between 1 and 256"),
        (
            "timeout = \"0s\"",
            "timeout: \"0s\" is no time at all; write at least \"1ms\"",
        ),
        (
            "retry.first = \"0s\"",
            "retry.first: \"0s\" is no time at all; write at least \"1ms\"",
        ),
        (
            "retry.max = \"500ms\"",
            "retry: max, 500ms, is shorter than first, 1s",
        ),
        (
            "retry.first = \"6m\"",
            "retry: max, 300s, is shorter than first, 360s",
        ),
        (
            "retry.jitter = 1.5",
            "retry.jitter: 1.5 is not between 0 and 1",
        ),
        (
            "retry.jitter = -1",
            "retry.jitter: -1 is not between 0 and 1",
        ),
        (
            "retry.jitter = nan",
            "retry.jitter: NaN is not between 0 and 1",
        ),
        (
            "retry.max_attempts = 0",
            "retry.max_attempts: 0 is not between 1 and 4294967295",
        ),
        ("token_file = \"\"", "token_file: the path is empty"),
    ];
    assert_destination_problems(rows);
}

#[test]
fn what_is_wrong_with_what_a_destination_says_is_named() {
    let none = "it is neither a status, 200 to 599, nor a class, as \"5xx\"";
    let rows: &[(&str, &str)] = &[
        (
            "classify.40x = \"dead\"",
            &format!("classify: \"40x\": {none}"),
        ),
        (
            "classify.100 = \"dead\"",
            &format!("classify: \"100\": {none}"),
        ),
        (
            "classify = { 404 = \"drop\" }",
            "classify: \"404\": \"drop\" is none of: delivered, dead, retry, pause, hold, down",
        ),
        (
            "proof.status = [200, 302]",
            "proof.status: 302 is not between 200 and 299; what another status means is said in \
             classify",
        ),
        (
            "proof.header = { name = \"X Ack\", value = \"*\" }",
            "proof.header.name: a header's name is letters, digits and hyphens",
        ),
        (
            "proof.header = { name = \"X-Ack\", value = \"\" }",
            "proof.header.value: it is empty; write what the value is, or \"*\" for any",
        ),
        (
            "proof = { status = [200], body = \"\" }",
            "proof.body: it is not 1 to 1024 bytes long",
        ),
        (
            "proof = {}",
            "proof: it asks for nothing; write a status, a header or a body, or leave it out",
        ),
        (
            "rate.events = 50",
            "rate.events: 50 is no rate; write how many in a time, as in \"50/s\" or \"600/m\"",
        ),
        (
            "rate.bytes = \"200 KiB\"",
            "rate.bytes: \"200 KiB\" is no rate; write a size in a time, as in \"200 KiB/s\" or \
             \"50 MB/d\"",
        ),
        (
            "window = \"22-06\"",
            "window: \"22-06\" is no part of a day; write it as \"22:00-06:00\", in local time",
        ),
        (
            "window = \"06:00-06:00\"",
            "window: \"06:00-06:00\" is either a whole day or no time at all; leave it out to send \
             at any time",
        ),
    ];
    assert_destination_problems(rows);
}

#[test]
fn a_header_that_cannot_be_sent_is_named() {
    let rows: &[(&str, &str)] = &[
        (
            "headers.Idempotency-Key = \"x\"",
            "headers: \"Idempotency-Key\": gatepost sets this header itself",
        ),
        (
            "headers.x-gatepost-site = \"x\"",
            "headers: \"x-gatepost-site\": gatepost sets this header itself",
        ),
        (
            "headers.HOST = \"x\"",
            "headers: \"HOST\": gatepost sets this header itself",
        ),
        (
            "headers.\"X Site\" = \"x\"",
            "headers: \"X Site\": a header's name is letters, digits and hyphens",
        ),
        (
            "headers.X-Site = \"a\\r\\nb\"",
            "headers: \"X-Site\": a header's value is ASCII in one line, without blanks around it",
        ),
        (
            "headers.X-Site = \" a\"",
            "headers: \"X-Site\": a header's value is ASCII in one line, without blanks around it",
        ),
        (
            "headers.X-Site = \"Größe\"",
            "headers: \"X-Site\": a header's value is ASCII in one line, without blanks around it",
        ),
        (
            "headers = { X-Site = \"a\", x-site = \"b\" }",
            "headers: \"x-site\": it is there twice; case makes no difference",
        ),
        (
            "headers.Authorization = \"x\"\ntoken_file = \"t\"",
            "headers: \"Authorization\": token_file sets this header; leave one of them out",
        ),
    ];
    assert_destination_problems(rows);
}

/// Each row: what is added to a destination that is right, and what is wrong with it.
fn assert_destination_problems(rows: &[(&str, &str)]) {
    for (text, message) in rows {
        let text = format!("[[destination]]\nname = \"a\"\nurl = \"http://a\"\n{text}\n");
        assert_eq!(
            problems(&text),
            [format!("4: destination \"a\" {message}")],
            "{text}"
        );
    }
}

#[test]
fn what_is_wrong_with_a_route_is_named() {
    let rows: &[(&str, &str)] = &[
        (
            "path = \"/r\"",
            "4: route 1: name is missing; the log and the commands need one",
        ),
        (
            "name = \"r\"",
            "4: route \"r\": path is missing; write one, as in \"/ingest/{*}\"",
        ),
        (
            "name = \"r\"\npath = \"ingest\"",
            "6: route \"r\" path: \"ingest\": a path begins with \"/\", as in \"/ingest\"",
        ),
        (
            "name = \"r\"\npath = \"/r/{x}\"\n[[route]]\nname = \"s\"\npath = \"/r/{y}/\"",
            "9: route \"s\" path: \"/r/{y}/\" takes the same paths as the route on line 6; \
             one route can lead to several destinations",
        ),
        (
            "name = \"r\"\npath = \"/r\"\n[[route]]\nname = \"r\"\npath = \"/s\"",
            "8: route name: \"r\" is taken, see line 5",
        ),
        (
            "name = \"r\"\npath = \"/r\"\nto = [\"crn\"]",
            "7: route \"r\" leads to \"crn\", but the destinations are: crm",
        ),
        (
            "name = \"r\"\npath = \"/r\"\nto = [\"crm\", \"crm\"]",
            "7: route \"r\" leads to \"crm\" twice",
        ),
        (
            "name = \"r\"\npath = \"/r\"\nrequire = [\"device\"]",
            "7: route \"r\" require: \"device\" is required, but device does not say where it is; \
             write device = [\"json:/…\"]",
        ),
        (
            "name = \"r\"\npath = \"/r\"\ndevice = [\"json:/1\", \"json:/2\", \"json:/3\", \
             \"json:/4\", \"json:/5\", \"json:/6\", \"json:/7\", \"json:/8\", \"json:/9\"]",
            "7: route \"r\" device: the list has more than 8 selectors",
        ),
    ];
    for (text, message) in rows {
        let crm = "[[destination]]\nname = \"crm\"\nurl = \"http://crm\"";
        let text = format!("{crm}\n[[route]]\n{text}\n");
        assert_eq!(problems(&text), [*message], "{text}");
    }
    assert_eq!(
        problems("[[route]]\nname = \"r\"\npath = \"/r\"\nto = [\"crm\"]"),
        ["4: route \"r\" leads to \"crm\", but there is no [[destination]]"]
    );
}

#[test]
fn what_a_selector_cannot_be_is_named() {
    let rows: &[(&str, &str)] = &[
        (
            "name = \"r\"\npath = \"/r\"\ndevice = [\"json:/a\",\n\"cookie:id\"]",
            "8: route \"r\" device: selector \"cookie:id\" is of unknown kind \"cookie\"; \
             the kinds are: json:/pointer, header:Name, query:name, path:hole, form:name, \
             xml:Root/child@attribute, part:name, part:name/json:/pointer, line:1, peer, \
             const:text",
        ),
        (
            "name = \"r\"\npath = \"/r/{cam}\"\ndevice = [\"path:device\"]",
            "7: route \"r\" device: \"path:device\" looks for a hole {device} that the path \
             \"/r/{cam}\" does not have",
        ),
        (
            "name = \"r\"\npath = \"/r\"\nitems = \"all\"",
            "7: route \"r\" items: \"all\" is nothing that can be counted; write \"json:/…\" \
             for an array, \"xml:Root/item\" or \"lines\"",
        ),
    ];
    for (text, message) in rows {
        let crm = "[[destination]]\nname = \"crm\"\nurl = \"http://crm\"";
        let text = format!("{crm}\n[[route]]\n{text}\n");
        assert_eq!(problems(&text), [*message], "{text}");
    }
}

#[test]
fn all_mistakes_are_reported_in_order_of_their_lines() {
    let error = parse(
        "[[route]]\npath = \"door\"\nto = [\"crn\"]\n[[destination]]\nname = \"crm\"\n\
         workers = 0\n[ingest]\nmax_body = 0\n",
    )
    .expect_err("it is wrong");
    assert_eq!(
        error.to_string(),
        "/etc/gatepost/gatepost.toml: line 1: route 1: name is missing; \
         the log and the commands need one\n\
         /etc/gatepost/gatepost.toml: line 2: route 1 path: \"door\": \
         a path begins with \"/\", as in \"/door\"\n\
         /etc/gatepost/gatepost.toml: line 3: route 1 leads to \"crn\", \
         but the destinations are: crm\n\
         /etc/gatepost/gatepost.toml: line 4: destination \"crm\": url is missing; \
         write where its events are sent to\n\
         /etc/gatepost/gatepost.toml: line 6: destination \"crm\" workers: \
         0 is not between 1 and 256\n\
         /etc/gatepost/gatepost.toml: line 8: [ingest] max_body: \
         0 is not between 1 B and 64 MiB"
    );
}

#[test]
fn nothing_unknown_is_ignored() {
    let rows = [
        (
            "[ingest]\nmax_bodi = 1",
            "line 2, column 1",
            "unknown field `max_bodi`, expected",
        ),
        (
            "[stores]",
            "line 1, column 2",
            "unknown field `stores`, expected one of",
        ),
        (
            "[[destination]]\nretry.maximum = 1",
            "line 2, column 7",
            "unknown field `maximum`",
        ),
        (
            "[[destination]]\nproof.headers = \"X-Ack\"",
            "line 2, column 7",
            "unknown field `headers`, expected one of `status`, `header`, `body`",
        ),
        (
            "[[destination]]\nrate.event = \"50/s\"",
            "line 2, column 6",
            "unknown field `event`, expected `events` or `bytes`",
        ),
        (
            "[[route]]\norder = \"devices\"",
            "line 2, column 9",
            "unknown variant `devices`, expected one of `device`, `route`, `none`",
        ),
        (
            "[[route]]\nrequire = [\"id\"]",
            "line 2, column 12",
            "unknown variant `id`, expected `event_id` or `device`",
        ),
        ("[[route]]\nstatus = 4", "line 2, column 10", "status"),
        (
            "[ingest]\nmax_body = 1.5",
            "line 2, column 12",
            "expected a text with a number and its unit",
        ),
        ("[ingest", "line 1, column 8", ""),
        (
            "[admin]\nlisten = \"a\"\nlisten = \"b\"",
            "line 3, column 1",
            "duplicate key",
        ),
    ];
    for (text, place, message) in rows {
        let error = parse(text).expect_err(text).to_string();
        let start = format!("/etc/gatepost/gatepost.toml: TOML parse error at {place}\n");
        assert!(error.starts_with(&start), "{text}: {error}");
        assert!(error.contains(message), "{text}: {error}");
        assert!(!error.ends_with('\n'), "{text}: {error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Path::new("/nonexistent")).expect_err("there is none");
    assert_eq!(
        error.to_string(),
        "cannot read /nonexistent: No such file or directory (os error 2)"
    );
}

#[test]
fn what_is_wrong_with_a_profile_or_an_answer_is_named_too() {
    let rows: &[(&str, &str)] = &[
        (
            "profile = \"hikvison\"",
            "2: route \"hikvison\" profile: there is no \"hikvison\"; the profiles are: 2c2p, ",
        ),
        (
            "profile = \"raw\"\nanswer = { status = 204 }",
            "3: route \"raw\" answer status: 204 has no body, and some senders hang on it; \
             write 200",
        ),
        (
            "profile = \"raw\"\nanswer = { status = 404 }",
            "3: route \"raw\" answer status: 404 is not between 200 and 299; senders take anything \
             else for \"again\"",
        ),
        (
            "profile = \"raw\"\nrejected = { body = \"\" }",
            "3: route \"raw\" rejected body: it is empty, and some senders crash on that; \
             write \"OK\"",
        ),
        (
            "profile = \"raw\"\nanswer = { body = \"x\", computed = \"zkteco-upload\" }",
            "3: route \"raw\" answer: it has body and computed; leave one of them out",
        ),
        (
            "profile = \"raw\"\nanswer = { computed = \"x\" }",
            "3: route \"raw\" answer computed: \"x\" is none of: zkteco-upload, ",
        ),
        (
            "profile = \"raw\"\nanswer = { content_type = \"a/b\" }",
            "3: route \"raw\" answer content_type: there is no body that it could be of",
        ),
        (
            "profile = \"raw\"\nanswer = { body = \"x\", content_type = \"text\" }",
            "3: route \"raw\" answer content_type: \"text\" is no media type, as \"text/plain\" is",
        ),
    ];
    assert_first(rows);
}

#[test]
fn what_is_wrong_with_cases_and_options_is_named_too() {
    let rows: &[(&str, &str)] = &[
        (
            "profile = \"raw\"\n[[route.case]]\nis = \"poll\"\nmethod = \"GET\"",
            "3: route \"raw\" case: it takes every request; say where = { … } what is found, \
             or bare = true",
        ),
        (
            "profile = \"raw\"\n[[route.case]]\nis = \"poll\"\nwhere = { SN = \"*\" }",
            "5: route \"raw\" case where: selector \"SN\" does not say where to look; ",
        ),
        (
            "profile = \"raw\"\noptions = { Delay = 3 }",
            "3: route \"raw\" options: no answer of this route is made of them",
        ),
        (
            "profile = \"zkteco\"\noptions = { Delay = \"3\\n4\" }",
            "3: route \"zkteco\" options: \"Delay\" and its value must be on one line",
        ),
        (
            "profile = \"uniview\"\noptions = { TimeZone = \"Asia/Bangkok\" }",
            "3: route \"uniview\" options: TimeZone is how many hours local time is ahead of UTC, \
             as in 7 or \"-3:30\", not \"Asia/Bangkok\"",
        ),
        (
            "profile = \"raw\"\n[[route]]\nprofile = \"raw\"",
            "4: route name: \"raw\" is taken, see line 2",
        ),
        (
            "profile = \"raw\"\nrequire = [\"device\"]",
            "3: route \"raw\" require: \"device\" is required, but device does not say ",
        ),
    ];
    assert_first(rows);
    let right = "[[route]]\nprofile = \"raw\"\npath = \"/a/{device}\"\nrequire = [\"device\"]";
    assert!(parse(right).is_ok(), "{:?}", problems(right));
}

/// The first problem of each `[[route]]` begins so.
fn assert_first(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let found = problems(&format!("[[route]]\n{text}"));
        let first = found.first().map_or("none", String::as_str);
        assert!(first.starts_with(expected), "{text}: {found:?}");
    }
}
