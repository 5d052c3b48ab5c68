//! The API on a real store: each endpoint, what an operator may mean, and what cannot be done.

use std::time::Duration;

use super::bench::{Bench, CLOUD, CRM, Desk, arrives, body, dies, problem, waits};
use super::views::{
    Changed, DeadRow, DeliveryState, EventView, Found, Page, QuarantineRow, QueueRow, Status,
};
use super::*;
use crate::commit::HELD;
use crate::delivery::DeadReason;
use crate::dispatch::DestinationState;
use crate::health;

fn state(bench: &Bench, seq: Seq) -> Vec<(String, DeliveryState)> {
    let view: EventView = bench.see(&format!("/api/events/{seq}"));
    let deliveries = view.deliveries.into_iter();
    deliveries.map(|one| (one.destination, one.state)).collect()
}

fn names(status: &Status) -> Vec<String> {
    let all = status.destinations.iter();
    all.map(|one| one.name.clone()).collect()
}

fn seqs(found: &Found) -> Vec<u64> {
    found.events.iter().map(|event| event.seq.0).collect()
}

fn dead(bench: &Bench) -> Vec<(String, u64)> {
    let page: Page<DeadRow> = bench.see("/api/dead?limit=1000");
    let rows = page.items.into_iter();
    rows.map(|row| (row.destination, row.event.seq.0)).collect()
}

#[test]
fn the_status_counts_what_waits_and_says_who_knows() {
    let bench = Bench::new();
    let status: Status = bench.see("/api/status");
    assert!(!status.running && status.clock_certain);
    assert_eq!(status.gateway, "000000000000002a");
    assert_eq!(status.started.age_ms, 60_000);
    assert_eq!(names(&status), ["cloud", "crm"], "all that the store knows");
    bench.send("cam-7", "e-1", &[CLOUD]);
    bench.clock.advance(Duration::from_secs(5));
    bench.send("cam-8", "e-2", &[CLOUD]);
    bench.dead(2, CRM);
    bench.send_odd("e-3");
    let status: Status = bench.see("/api/status");
    assert_eq!(names(&status), ["cloud", "crm"]);
    let cloud = &status.destinations[0];
    assert_eq!(
        (cloud.pending, cloud.dead, cloud.state.as_deref()),
        (2, 0, None)
    );
    let oldest = cloud.oldest.clone().expect("something waits");
    assert_eq!(oldest.seq, Seq(0));
    assert_eq!(oldest.received.map(|time| time.age_ms), Some(5_000));
    let crm = &status.destinations[1];
    assert_eq!((crm.pending, crm.dead, crm.configured), (0, 2, false));
    assert_eq!((status.events, status.quarantined), (5, 1));
}

#[test]
fn the_status_of_a_running_daemon_is_the_dispatchers() {
    let bench = Bench::new();
    bench.send("cam-7", "e-1", &[CLOUD]);
    bench.send("cam-8", "e-2", &[CLOUD]);
    bench.dead(2, CRM);
    *bench.desk.live.lock().expect("not poisoned") = Some(vec![DestinationState {
        number: CLOUD,
        name: "cloud".to_owned(),
        state: health::State::Down,
        held_by_operator: false,
        why: "it cannot be reached".to_owned(),
        in_flight: 1,
        lanes: 2,
    }]);
    let status: Status = bench.see("/api/status");
    let cloud = &status.destinations[0];
    assert!(status.running);
    assert_eq!((cloud.state.as_deref(), cloud.in_flight), (Some("down"), 1));
    assert_eq!(
        names(&status),
        ["cloud", "crm"],
        "something waits for the former one"
    );
    bench.ask("POST", "/api/replay", "{\"all\":true}");
    for seq in [2, 3] {
        bench.ask("POST", "/api/discard", &format!("{{\"seq\":{seq}}}"));
    }
    let held = bench.send("cam-9", "e-4", &[HELD]);
    let status: Status = bench.see("/api/status");
    assert_eq!(
        names(&status),
        ["(none)", "cloud"],
        "an idle former one is not shown"
    );
    assert_eq!(
        state(&bench, held),
        [("(none)".to_owned(), DeliveryState::Pending)]
    );
}

#[test]
fn pages_neither_repeat_nor_leave_out_while_events_come_and_go() {
    let bench = Bench::new();
    let first: Vec<Seq> = (0..20)
        .map(|number| {
            bench.send(
                &format!("cam-{}", number % 4),
                &format!("e-{number}"),
                &[CLOUD],
            )
        })
        .collect();
    let mut seen = Vec::new();
    let mut after = String::new();
    for round in 0.. {
        let page: Page<QueueRow> = bench.see(&format!("/api/queue?limit=3{after}"));
        assert!(page.items.len() <= 3);
        seen.extend(page.items.iter().map(|row| row.event.seq));
        // One that was seen goes, another one comes.
        if let Some(row) = page.items.first() {
            let device = row.event.device.clone().expect("each has one");
            bench
                .desk
                .settle(vec![arrives(row.event.seq, &device, CLOUD)]);
            bench.send("cam-9", &format!("new-{round}"), &[CLOUD]);
        }
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let old: Vec<Seq> = seen
        .iter()
        .copied()
        .filter(|seq| first.contains(seq))
        .collect();
    let mut sorted = old.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, first, "each of the first ones once: {old:?}");
}

#[test]
fn dead_letters_and_quarantine_say_why() {
    let bench = Bench::new();
    let seq = bench.dead(1, CLOUD)[0];
    let odd = bench.send_odd("e-odd");
    let page: Page<DeadRow> = bench.see("/api/dead");
    let row = &page.items[0];
    assert_eq!((row.event.seq, row.destination.as_str()), (seq, "cloud"));
    assert_eq!(row.letter.reason, DeadReason::Rejected);
    assert_eq!(row.letter.since.at, "2026-01-02T03:04:05.000Z");
    assert_eq!(row.letter.since.age_ms, 60_000);
    assert_eq!(page.next, None);
    let page: Page<QuarantineRow> = bench.see("/api/quarantine?limit=1");
    assert_eq!(page.items[0].event.seq, odd);
    let why = "required device id missing: no member deviceId";
    assert_eq!(page.items[0].why, why);
    let after = page.next.expect("the page is full");
    let page: Page<QuarantineRow> = bench.see(&format!("/api/quarantine?after={after}"));
    assert_eq!((page.items.len(), page.next), (0, None));
}

#[test]
fn an_event_is_shown_with_its_deliveries_and_its_whole_trail() {
    let bench = Bench::new();
    let seq = bench.send("cam-7", "e-1", &[CLOUD, CRM]);
    bench
        .desk
        .settle(vec![waits(seq, "cam-7", CLOUD), dies(seq, "cam-7", CRM)]);
    let view: EventView = bench.see(&format!("/api/events/{seq}"));
    assert_eq!(view.idempotency_key, "000000000000002a-0");
    assert_eq!(view.target, "/ingest/\u{fffd}");
    assert_eq!(view.headers[0].1, "a\u{1b}[31m", "shown as sent");
    let [cloud, crm] = &view.deliveries[..] else {
        unreachable!("two deliveries: {view:?}");
    };
    assert_eq!((cloud.state, cloud.attempts), (DeliveryState::Pending, 2));
    assert_eq!((crm.state, crm.attempts), (DeliveryState::Dead, 1));
    let answer = crm.letter.as_ref().map(|letter| letter.answer.as_str());
    assert_eq!(answer, Some("no such door"));
    let lines: Vec<&str> = view.trail.iter().map(|line| line.line.as_str()).collect();
    let expected = [
        "[event e-1] received from cam-7 on door, 8 bytes",
        "[event e-1] attempt 1 to cloud: HTTP 422, retry in 4.0 s (12 ms)",
        "[event e-1] dead letter for crm: HTTP 422 (12 ms)",
    ];
    assert_eq!(lines, expected);
    let raw = bench.get(&format!("/api/events/{seq}/body"));
    assert_eq!(
        (raw.status, raw.content_type),
        (200, "application/octet-stream")
    );
    assert_eq!(raw.body, body());
}

#[test]
fn an_id_means_all_events_that_are_called_so() {
    let bench = Bench::new();
    bench.send("cam-7", "e-1", &[CLOUD]);
    bench.send("cam-8", "e-1", &[CLOUD]);
    bench.send("cam-7", "1", &[CLOUD]);
    bench.send_odd("e-1");
    bench.send("cam-7", "two words\n", &[CLOUD]);
    let rows: [(&str, &[u64]); 6] = [
        ("e-1", &[0, 1, 3]),
        ("1", &[2]),
        ("%231", &[1]),
        ("%233", &[3]),
        ("two%20words%0A", &[4]),
        ("two+words%5Cu%7Ba%7D", &[4]),
    ];
    for (id, expected) in rows {
        let found: Found = bench.see(&format!("/api/events?id={id}"));
        assert_eq!(seqs(&found), expected, "{id}");
    }
    for id in ["e-2", "%2399", "99", "3", "0", "%23x", "%23", ""] {
        let response = bench.get(&format!("/api/events?id={id}"));
        assert_eq!(problem(&response).1, Kind::NoEvent, "{id}");
    }
}

#[test]
fn events_older_than_the_window_are_found_too() {
    let bench = Bench::new();
    bench.send("cam-7", "e-1", &[CLOUD]);
    bench.send("cam-8", "e-1", &[CLOUD]);
    let forget = |tables: &mut crate::store::Tables<'_>| tables.put_recent(Seq(9), b"other", 0);
    bench
        .state
        .store
        .write(crate::store::Sync::Usual, forget)
        .expect("the store works");
    let window = bench.state.store.recent().expect("readable");
    assert!(window.len() < 3, "the oldest is forgotten");
    let found: Found = bench.see("/api/events?id=e-1");
    assert_eq!(seqs(&found), [0, 1]);
}

#[test]
fn an_event_is_replayed_where_it_died_or_else_where_it_arrived() {
    let bench = Bench::new();
    let seq = bench.send("cam-7", "e-1", &[CLOUD, CRM]);
    bench
        .desk
        .settle(vec![dies(seq, "cam-7", CLOUD), arrives(seq, "cam-7", CRM)]);
    let changed: Changed = bench.change("/api/replay", "{\"seq\":0}");
    assert_eq!((changed.done, changed.next), (1, None));
    let both = |cloud, crm| [("cloud".to_owned(), cloud), ("crm".to_owned(), crm)];
    let now = both(DeliveryState::Pending, DeliveryState::Delivered);
    assert_eq!(state(&bench, seq), now);
    bench.desk.settle(vec![arrives(seq, "cam-7", CLOUD)]);
    let changed: Changed = bench.change("/api/replay", "{\"seq\":0}");
    assert_eq!(changed.done, 2, "no dead letter, so all that arrived");
    let now = both(DeliveryState::Pending, DeliveryState::Pending);
    assert_eq!(state(&bench, seq), now);
    let refused = problem(&bench.ask("POST", "/api/replay", "{\"seq\":0}"));
    let why = "e-1 still waits for cloud; e-1 still waits for crm";
    assert_eq!(refused, (409, Kind::Conflict, why.to_owned()));
    bench.desk.settle(vec![
        arrives(seq, "cam-7", CLOUD),
        arrives(seq, "cam-7", CRM),
    ]);
    let changed: Changed = bench.change("/api/replay", "{\"seq\":0,\"destination\":\"crm\"}");
    assert_eq!(changed.done, 1);
}

#[test]
fn all_dead_letters_are_replayed_in_order_and_in_small_steps() {
    let bench = Bench::new();
    let crm = bench.dead(700, CRM);
    let cloud = bench.dead(600, CLOUD);
    let changed: Changed = bench.change("/api/replay", "{\"destination\":\"cloud\"}");
    assert_eq!((changed.done, changed.refused_count), (600, 0));
    assert_eq!(dead(&bench).len(), 700, "none of those that come after");
    let more = bench.dead(1, CLOUD);
    let changed: Changed = bench.change("/api/replay", "{\"destination\":\"crm\"}");
    assert_eq!((changed.done, changed.next), (700, None));
    assert_eq!(dead(&bench).len(), 1, "none of those that come before");
    bench.dead(1, CRM);
    let changed: Changed = bench.change("/api/replay", "{\"all\":true}");
    assert_eq!(changed.done, 2);
    let asked = std::mem::take(&mut *bench.desk.asked.lock().expect("not poisoned"));
    let sizes: Vec<usize> = asked.iter().map(Vec::len).collect();
    assert_eq!(sizes, [500, 100, 500, 200, 2]);
    assert_eq!(asked[..2].concat(), cloud);
    assert_eq!(asked[2..4].concat(), crm);
    assert_eq!(asked[4][0], more[0], "in the order of destinations");
    let page: Page<QueueRow> = bench.see("/api/queue?limit=1000");
    assert!(page.items.iter().all(|row| row.replayed));
    let changed: Changed = bench.change("/api/replay", "{\"all\":true}");
    assert_eq!(
        changed,
        Changed::default(),
        "nothing is left, which is fine"
    );
}

#[test]
fn a_replay_ends_although_its_letters_come_back_and_new_ones_die() {
    let bench = Bench::new();
    let seqs = bench.dead(1_200, CLOUD);
    let newer = bench.send("cam-7", "new", &[CLOUD]);
    // Whatever is sent again is refused again at once.
    let comes_back = move |desk: &Desk| {
        let all = seqs.iter().zip(0..);
        let ends = all.map(|(seq, number)| dies(*seq, &format!("dev-{}", number % 10), CLOUD));
        desk.settle(ends.collect());
    };
    *bench.desk.meanwhile.lock().expect("not poisoned") = Some(Box::new(comes_back));
    let changed: Changed = bench.change("/api/replay", "{\"all\":true}");
    assert_eq!(changed.done, 1_200, "each once");
    assert_eq!(
        dead(&bench).len(),
        1_000,
        "the first page of those that came back"
    );
    // One that is newer than the replay is none of its business.
    *bench.desk.meanwhile.lock().expect("not poisoned") = None;
    bench.desk.settle(vec![dies(newer, "cam-7", CLOUD)]);
    let start_of_the_first = format!("{{\"all\":true,\"after\":\"{newer}-0-0\"}}");
    let changed: Changed = bench.change("/api/replay", &start_of_the_first);
    assert_eq!(changed.done, 1_200);
    assert_eq!(dead(&bench), [("cloud".to_owned(), newer.0)]);
}

#[test]
fn a_long_replay_is_answered_in_parts() {
    let bench = Bench::new();
    bench.dead(601, CLOUD);
    let part = |after: Option<&str>| {
        let changed = change::replay_dead(&bench.state, None, after, 500);
        changed.unwrap_or_else(|refusal| unreachable!("{refusal:?}"))
    };
    let changed = part(None);
    assert_eq!(changed.done, 500);
    let changed = part(changed.next.as_deref());
    assert_eq!((changed.done, changed.next), (101, None));
}

#[test]
fn what_is_discarded_waits_for_nothing_any_more() {
    let bench = Bench::new();
    let seq = bench.send("cam-7", "e-1", &[CLOUD, CRM]);
    bench.desk.settle(vec![dies(seq, "cam-7", CRM)]);
    let changed: Changed = bench.change("/api/discard", "{\"seq\":0,\"destination\":\"cloud\"}");
    assert_eq!(changed.done, 1);
    let now = [
        ("cloud".to_owned(), DeliveryState::Discarded),
        ("crm".to_owned(), DeliveryState::Dead),
    ];
    assert_eq!(state(&bench, seq), now);
    let changed: Changed = bench.change("/api/discard", "{\"seq\":0}");
    assert_eq!(changed.done, 1);
    let odd = bench.send_odd("e-2");
    let changed: Changed = bench.change("/api/discard", &format!("{{\"seq\":{odd}}}"));
    assert_eq!(changed.done, 1);
    let view: EventView = bench.see(&format!("/api/events/{odd}"));
    assert!(!view.quarantine.expect("it was there").waiting);
    for seq in [seq, odd] {
        let body = format!("{{\"seq\":{seq}}}");
        for what in ["discard", "replay"] {
            let refused = bench.ask("POST", &format!("/api/{what}"), &body);
            assert_eq!(problem(&refused).1, Kind::Conflict, "{what} {seq}");
        }
    }
}

#[test]
fn a_held_destination_is_remembered_and_the_dispatcher_told() {
    let bench = Bench::new();
    let held = |bench: &Bench| {
        let status: Status = bench.see("/api/status");
        status.destinations[0].held
    };
    let _: Changed = bench.change("/api/hold", "{\"destination\":\"cloud\"}");
    assert!(held(&bench));
    let _: Changed = bench.change("/api/release", "{\"destination\":\"cloud\"}");
    assert!(!held(&bench));
    let told = bench.desk.told.lock().expect("not poisoned");
    assert_eq!(
        *told,
        [("cloud".to_owned(), true), ("cloud".to_owned(), false)]
    );
    let refused = bench.ask("POST", "/api/hold", "{\"destination\":\"clod\"}");
    let why = "there is no destination \"clod\"; there are: cloud, crm";
    assert_eq!(
        problem(&refused),
        (404, Kind::NoDestination, why.to_owned())
    );
}

/// Method, target, body; what is wrong.
const CANNOT: &[(&str, &str, &str, Kind)] = &[
    ("GET", "/", "", Kind::NotFound),
    ("GET", "/api/nothing", "", Kind::NotFound),
    ("GET", "/api/status/", "", Kind::NotFound),
    ("GET", "/api/status?x=1", "", Kind::BadRequest),
    ("GET", "/api/queue?limit=0", "", Kind::BadRequest),
    ("GET", "/api/queue?after=1-2", "", Kind::BadRequest),
    ("GET", "/api/dead?after=99999-2", "", Kind::BadRequest),
    (
        "GET",
        "/api/dead?after=1-18446744073709551615",
        "",
        Kind::BadRequest,
    ),
    ("GET", "/api/events", "", Kind::BadRequest),
    ("GET", "/api/events/x", "", Kind::BadRequest),
    ("GET", "/api/events/0", "", Kind::NoEvent),
    ("GET", "/api/events/18446744073709551615", "", Kind::NoEvent),
    ("GET", "/api/events/0/body", "", Kind::NoEvent),
    ("POST", "/api/status", "", Kind::Method),
    ("DELETE", "/api/events/0", "", Kind::Method),
    ("GET", "/api/replay", "", Kind::Method),
    ("POST", "/api/replay", "", Kind::BadRequest),
    ("POST", "/api/replay", "{}", Kind::BadRequest),
    ("POST", "/api/replay", "{\"al\":true}", Kind::BadRequest),
    (
        "POST",
        "/api/replay",
        "{\"seq\":0,\"all\":true}",
        Kind::BadRequest,
    ),
    ("POST", "/api/replay", "{\"seq\":0}", Kind::NoEvent),
    (
        "POST",
        "/api/replay",
        "{\"destination\":\"x\"}",
        Kind::NoDestination,
    ),
    (
        "POST",
        "/api/replay?dry=1",
        "{\"all\":true}",
        Kind::BadRequest,
    ),
    ("POST", "/api/discard", "{\"all\":true}", Kind::BadRequest),
    (
        "POST",
        "/api/discard",
        "{\"destination\":\"cloud\"}",
        Kind::Conflict,
    ),
    (
        "POST",
        "/api/discard",
        "{\"seq\":1,\"move_to\":\"crm\"}",
        Kind::BadRequest,
    ),
    (
        "POST",
        "/api/replay",
        "{\"destination\":\"cloud\",\"move_to\":\"crm\"}",
        Kind::BadRequest,
    ),
    (
        "POST",
        "/api/replay",
        "{\"backfill\":true,\"seq\":1}",
        Kind::BadRequest,
    ),
    (
        "POST",
        "/api/replay",
        "{\"backfill\":true,\"destination\":\"crm\"}",
        Kind::Conflict,
    ),
    (
        "POST",
        "/api/forget",
        "{\"device\":\"cam-7\"}",
        Kind::Unavailable,
    ),
    ("POST", "/api/discard", "{\"seq\":0}", Kind::NoEvent),
    ("POST", "/api/hold", "{}", Kind::BadRequest),
];

#[test]
fn what_cannot_be_done_is_a_problem() {
    let bench = Bench::new();
    for (method, target, body, kind) in CANNOT {
        let response = bench.ask(method, target, body);
        assert_eq!(problem(&response).1, *kind, "{method} {target} {body}");
        assert_eq!(response.content_type, "application/problem+json");
        assert_eq!(response.allow.is_some(), *kind == Kind::Method);
    }
}

#[test]
fn over_tcp_one_may_look_from_this_machine_and_change_nothing() {
    let bench = Bench::new();
    let ask = |method: &str, host: Option<&str>| {
        let request = Request {
            method: method.to_owned(),
            path: if method == "POST" {
                "/api/replay"
            } else {
                "/api/status"
            }
            .to_owned(),
            query: String::new(),
            body: b"{\"all\":true}".to_vec(),
            via: Via::Tcp {
                host: host.map(str::to_owned),
            },
        };
        answer(&request, &bench.state)
    };
    let ours = [
        "localhost",
        "LOCALHOST:8081",
        "127.0.0.1",
        "127.0.0.1:8081",
        "127.9.9.9",
        "[::1]:8081",
        "[::1]",
    ];
    for host in ours {
        assert_eq!(ask("GET", Some(host)).status, 200, "{host}");
        assert_eq!(
            problem(&ask("POST", Some(host))).1,
            Kind::ReadOnly,
            "{host}"
        );
    }
    let theirs = [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.9:8081",
        "localhost:8081:1",
        "localhost:x",
        "",
        "[::1",
        "[evil]",
        "0.0.0.0",
    ];
    for host in theirs {
        assert_eq!(
            problem(&ask("GET", Some(host))).1,
            Kind::OtherHost,
            "{host}"
        );
    }
    assert_eq!(problem(&ask("GET", None)).1, Kind::OtherHost);
}
