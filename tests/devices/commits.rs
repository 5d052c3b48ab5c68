//! What an answer costs: an event one commit, and what is no event none.

use crate::common::trace::Call;
use crate::plant::Plant;
use crate::sample::samples;

/// How often the store goes to the disk, apart from requests: when it begins, when it has had
/// nothing to do for a second, and when it ends.
fn syncs(calls: &[Call]) -> usize {
    calls.iter().filter(|call| call.is_sync()).count()
}

#[test]
fn heartbeats_polls_and_probes_cost_no_commit() {
    const TIMES: usize = 40;
    let idle = syncs(&Plant::start_traced().end_traced());
    let plant = Plant::start_traced();
    let signals: Vec<_> = samples()
        .into_iter()
        .filter(|one| !one.is_event())
        .collect();
    let mut count = 0;
    for _ in 0..TIMES {
        for sample in &signals {
            let mut sender = plant.connect();
            sender.say(&sample.wire);
            for _ in sample.requests() {
                assert_eq!(sender.hear(&sample.id).status, 200);
                count += 1;
            }
        }
        let mut prober = plant.connect();
        prober.say("OPTIONS * HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n");
        prober.hear("OPTIONS");
        prober.hear_head("HEAD");
    }
    assert_eq!(plant.signals().values().sum::<u64>(), count);
    let found = syncs(&plant.end_traced());
    assert!(
        found <= idle + 2,
        "{found} syncs for {count} signals, {idle} for none"
    );
}

/// A sender that is alone waits for nobody. An answer may meet a commit of our own, once a second.
#[test]
fn an_answer_leaves_at_most_one_commit_after_the_last_byte_of_its_request() {
    const EVENTS: usize = 20;
    let plant = Plant::start_traced();
    let mut sender = plant.connect();
    let body = |number| format!("{{\"eventId\":\"e-{number:02}\"}}");
    for number in 0..EVENTS {
        let body = body(number);
        let length = body.len();
        sender.say(format!(
            "POST /json/a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
        ));
        sender.say(body);
        sender.hear("an event");
    }
    let calls = plant.end_traced();
    let mut more = 0;
    for number in 0..EVENTS {
        let asked = format!("\\\"eventId\\\":\\\"e-{number:02}\\\"");
        let told = format!("\\\"id\\\":\\\"e-{number:02}\\\"");
        let request = |call: &&Call| call.text.starts_with("re") && call.text.contains(&asked);
        let answer = |call: &&Call| call.text.contains("HTTP/1.1 20") && call.text.contains(&told);
        let request = calls.iter().find(request).expect("it was read");
        let answer = calls.iter().find(answer).expect("it was answered");
        let between = calls
            .iter()
            .filter(|call| request.ends < call.begins && call.ends < answer.begins);
        let between = between.filter(|call| call.is_sync()).count();
        assert_ne!(between, 0, "{number} was answered before it was on disk");
        more += usize::from(1 < between);
    }
    assert!(
        more <= 1,
        "{more} of {EVENTS} waited for more than one commit"
    );
}
