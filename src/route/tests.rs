//! Which route a path belongs to, and what is read of a request.

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).expect(text)
}

fn routes(paths: &[&str]) -> Result<Routes, SamePath> {
    let route = |path: &&str| Route::new(*path, pattern(path));
    Routes::new(paths.iter().map(route).collect())
}

#[test]
fn a_pattern_takes_its_paths_however_they_are_spelt() {
    let rows: &[(&str, &[&str], &[&str])] = &[
        (
            "/ingest/{*}",
            &[
                "/ingest",
                "/ingest/",
                "/ingest/a/b",
                "//ingest//a",
                "ingest",
                "/%69ngest/x",
            ],
            &["/", "", "/ingesta", "/Ingest", "/x/ingest", "/ingest%2Fa"],
        ),
        (
            "/hook/{device}/event",
            &["/hook/cam-7/event", "/hook/a%2Fb/event/", "/hook/%/event"],
            &[
                "/hook/event",
                "/hook//event",
                "/hook/a/b/event",
                "/hook/a/event/x",
            ],
        ),
        ("/", &["/", "", "//"], &["/x", "*"]),
        ("/{*}", &["/", "", "/x/y", "*"], &[]),
        (
            "/Tür/a%20b",
            &["/T%C3%BCr/a b", "/Tür/a%20b"],
            &["/T%FCr/a b", "/Tür/a+b"],
        ),
        ("/a/../b", &["/a/../b"], &["/b"]),
    ];
    for (text, right, wrong) in rows {
        let pattern = pattern(text);
        assert_eq!(pattern.to_string(), *text);
        for path in *right {
            assert!(pattern.matches(path.as_bytes()), "{text} takes {path}");
        }
        for path in *wrong {
            assert!(
                !pattern.matches(path.as_bytes()),
                "{text} does not take {path}"
            );
        }
    }
    assert!(pattern("/{x}").matches(b"/\xff\xfe"));
}

#[test]
fn what_is_not_a_pattern_is_told_what_would_be_right() {
    let rows = [
        ("", "a path begins with \"/\", as in \"/\""),
        ("ingest", "a path begins with \"/\", as in \"/ingest\""),
        (
            "/a?b=1",
            "a path has no \"?\", \"#\" or blanks; write %3F, %23 or %20 if the sender does",
        ),
        (
            "/a{x}",
            "a hole is a whole segment, {name} in small letters or {*}, not \"a{x}\"",
        ),
        (
            "/{}",
            "a hole is a whole segment, {name} in small letters or {*}, not \"{}\"",
        ),
        (
            "/{1st}",
            "a hole is a whole segment, {name} in small letters or {*}, not \"{1st}\"",
        ),
        (
            "/{*}/a",
            "{*} takes the rest of a path, so nothing can follow it",
        ),
        (
            "/{x}/{x}",
            "{x} is there twice; each hole needs its own name",
        ),
    ];
    for (text, message) in rows {
        assert_eq!(Pattern::parse(text).expect_err(text), message);
    }
}

#[test]
fn the_most_specific_route_wins_whatever_the_order_of_the_file() {
    let mut paths = [
        "/{*}",
        "/ingest",
        "/ingest/{*}",
        "/ingest/{device}",
        "/ingest/door",
        "/ingest/{device}/event",
        "/{site}/door/event",
    ];
    let rows = [
        ("/ingest", "/ingest"),
        ("/ingest/", "/ingest"),
        ("/ingest/door", "/ingest/door"),
        ("/ingest/cam", "/ingest/{device}"),
        ("/ingest/door/event", "/ingest/{device}/event"),
        ("/ingest/door/x", "/ingest/{*}"),
        ("/plant/door/event", "/{site}/door/event"),
        ("/plant", "/{*}"),
        ("/", "/{*}"),
    ];
    for _ in 0..paths.len() {
        paths.rotate_left(1);
        let routes = routes(&paths).expect("all differ");
        for (path, expected) in rows {
            let found = routes.find(path.as_bytes()).map(|route| &*route.name);
            assert_eq!(found, Some(expected), "{path} among {paths:?}");
        }
    }
    let routes = routes(&["/a"]).expect("it is one");
    assert!(routes.find(b"/b").is_none());
    assert!(routes.named("/a").is_some() && routes.named("/b").is_none());
}

#[test]
fn two_routes_never_take_the_same_paths() {
    for (one, other) in [
        ("/a", "/a/"),
        ("/a/{x}", "/a/{y}"),
        ("/%61", "/a"),
        ("/{*}", "/{*}"),
    ] {
        let error = routes(&[one, other]).expect_err(one).to_string();
        let expected = format!("routes \"{one}\" and \"{other}\" take the same paths");
        assert_eq!(error, expected);
    }
    assert!(routes(&["/a/{x}", "/a/{*}", "/a", "/{x}/{y}"]).is_ok());
}

fn request(body: &[u8]) -> Request {
    Request {
        peer: ([10, 0, 0, 7], 1).into(),
        method: "POST".to_owned(),
        target: b"/door".to_vec(),
        headers: Vec::new(),
        body: body.to_vec(),
        oversize: None,
    }
}

#[test]
fn an_event_goes_to_quarantine_only_for_want_of_what_is_required() {
    let selector = |text| vec![Selector::parse(text).expect(text)];
    let mut route = Route::new("door", pattern("/door"));
    route.event_id = selector("json:/eventId");
    route.device = selector("json:/deviceId");
    let no_event_id = Quarantine::NoEventId("nothing at json:/eventId".to_owned());
    let no_device = Quarantine::NoDevice("nothing at json:/deviceId".to_owned());
    let not_json = Quarantine::NoEventId(
        "body is not JSON: EOF while parsing an object at line 1 column 1".to_owned(),
    );
    let rows: [(&[u8], _, _, _); 4] = [
        (
            br#"{"eventId":"e","deviceId":"d"}"#,
            Some("e"),
            Some("d"),
            None,
        ),
        (br#"{"eventId":"e"}"#, Some("e"), None, Some(no_device)),
        (br#"{"deviceId":"d"}"#, None, Some("d"), Some(no_event_id)),
        (b"{", None, None, Some(not_json)),
    ];
    for (body, event_id, device, quarantine) in rows {
        let mut expected = Identity {
            event_id: event_id.map(str::to_owned),
            device: device.map(str::to_owned),
            event_time: None,
            items: None,
            quarantine: None,
        };
        route.require = Require::default();
        assert_eq!(route.identify(&request(body)), expected);
        route.require = Require {
            event_id: true,
            device: true,
        };
        expected.quarantine = quarantine;
        assert_eq!(route.identify(&request(body)), expected);
    }
}

#[test]
fn a_lane_keeps_together_what_the_order_says() {
    let mut route = Route::new("door", pattern("/door"));
    let (one, other) = (IpAddr::from([10, 0, 0, 7]), IpAddr::from([10, 0, 0, 8]));
    let mapped: IpAddr = "::ffff:10.0.0.7".parse().expect("it is an address");
    assert_eq!(sender(Some("cam-7"), one), sender(Some("cam-7"), other));
    assert_eq!(sender(None, one), sender(None, mapped));
    assert_ne!(sender(None, one), sender(None, other));
    assert_ne!(route.lane("cam-7"), route.lane("face-1"));
    assert!(route.lane("cam-7").is_ordered());
    route.order = Order::Route;
    assert_eq!(route.lane("cam-7"), route.lane("face-1"));
    assert!(route.lane("cam-7").is_ordered());
    route.order = Order::None;
    assert_eq!(route.lane("cam-7"), route.lane("face-1"));
    assert!(!route.lane("cam-7").is_ordered());
}

#[test]
fn a_route_displays_where_it_leads() {
    let mut route = Route::new("door", pattern("/ingest/device-event"));
    assert_eq!(
        route.to_string(),
        "door: /ingest/device-event -> held (no destination)"
    );
    route.to = vec!["cloud".to_owned(), "crm".to_owned()];
    assert_eq!(
        route.to_string(),
        "door: /ingest/device-event -> cloud, crm"
    );
}

#[test]
fn holes_take_what_a_path_has_there() {
    let rows = [
        ("/cam/{device}", "/cam/a%20b", vec![("device", "a b")]),
        ("/{a}/x/{b}", "/1/x/2", vec![("a", "1"), ("b", "2")]),
        ("/iclock/{*}", "//iclock/cdata/", vec![("*", "cdata")]),
        ("/iclock/{*}", "/iclock", vec![("*", "")]),
        ("/{*}", "/a/b%2Fc", vec![("*", "a/b/c")]),
        ("/a", "/a", vec![]),
    ];
    for (text, path, expected) in rows {
        let pattern = pattern(text);
        assert!(pattern.matches(path.as_bytes()), "{path}");
        let holes = pattern.holes(path.as_bytes());
        let shown: Vec<(&str, String)> = holes
            .iter()
            .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        let expected: Vec<(&str, String)> = expected
            .into_iter()
            .map(|(name, value)| (name, value.to_owned()))
            .collect();
        assert_eq!(shown, expected, "{text} {path}");
    }
}
